//! The engine's handle, and the one place that puts its services together.
//!
//! A service is one subject: a type with its own state and methods, which is given the services that it works with and knows
//! no others. The handle only leads to them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_store::{Observer, Store};
use everturn_tools::Registry;
use everturn_tools::process::Launcher;

use crate::attachments::Attachments;
use crate::bus::Bus;
use crate::calls::ToolCalls;
use crate::configurations::Configurations;
use crate::confinement::Confinement;
use crate::delegation::{Delegation, DelegationServices};
use crate::drains::{DrainSlots, Drains};
use crate::feed_follower::{BusyElsewhere, FeedFollower, MissedUpdates, RestReporter};
use crate::file_views::FileViews;
use crate::guards::BudgetGuard;
use crate::guidance::Guidance;
use crate::host::HostServices;
use crate::imports::Imports;
use crate::inbox::PromptInbox;
use crate::journal::Journal;
use crate::leases::Leases;
use crate::lifecycle::Lifecycle;
use crate::mcp::McpServers;
use crate::mint::Mint;
use crate::models::Models;
use crate::options::{Options, Paths};
use crate::outputs::ToolOutputs;
use crate::projects::Projects;
use crate::recovery::Recovery;
use crate::requests::trust::TrustRequests;
use crate::requests::{Requests, WaitingCalls};
use crate::reverts::Reverts;
use crate::sent_requests::SentRequests;
use crate::sessions::Sessions;
use crate::snapshot_folders::SnapshotFolders;
use crate::spending::Spending;
use crate::titles::Titles;
use crate::trash::Trash;
use crate::turn::{ProviderTurns, TurnServices};
use crate::turn_places::TurnPlaces;
use crate::worker::Worker;
use crate::{Config, Error};

/// A running engine; clones share it.
#[derive(Debug, Clone)]
pub struct Engine(Arc<EngineServices>);

/// The services that the handle leads to.
#[derive(Debug)]
struct EngineServices {
    lifecycle: Lifecycle,
    journal: Journal,
    configurations: Configurations,
    paths: Arc<Paths>,
    directory: PathBuf,
    tools: Registry,
    sessions: Sessions,
    inbox: PromptInbox,
    drains: Drains,
    requests: Requests,
    projects: Projects,
    guidance: Guidance,
    models: Models,
    mcp: McpServers,
    reverts: Reverts,
    imports: Imports,
    trash: Trash,
    spending: Spending,
    outputs: ToolOutputs,
    sent: SentRequests,
    recovery: Recovery,
    /// Held for the drains and for what other processes run, which know them only as long as they are here.
    _worker: Arc<Worker>,
    _reporter: Arc<RestReporter>,
}

impl Engine {
    /// Opens the store and makes an engine on it. Nothing runs until something is asked or [`Engine::recover`].
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let mint = Mint::new(Arc::clone(&options.world));
        let base = FeedServices::default();
        let follower =
            FeedFollower::new(base.bus.clone(), base.slots.clone(), base.waiting.clone(), base.busy.clone());
        let gaps = follower.gaps();
        let observer: Option<Observer> =
            (!options.quiet).then(|| Arc::new(move |item| follower.take(item)) as Observer);
        let owner = mint.other("own");
        let data = &options.paths.data;
        let mut store_options = match &options.database {
            Some(url) => everturn_store::Options::server(url, data, &owner),
            None => everturn_store::Options::folder(data, &owner),
        };
        store_options.observer = observer;
        store_options.commit_hook.clone_from(&options.commit_hook);
        let store = Store::open(store_options).await?;
        if !options.quiet {
            base.busy.begin(store.run_elsewhere().await?);
        }
        let missed = MissedUpdates::new(store.clone(), gaps);
        Ok(Self(Arc::new(EngineServices::compose(store, mint, base, missed, options))))
    }

    /// Stops accepting work, leaves running turns as they are for the next start, and waits for what must end.
    pub async fn close(&self) {
        self.0.lifecycle.close().await;
        self.0.mcp.close().await;
    }

    /// Continues every session that a crash or a stop left with work to do, and says how many.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recover(&self) -> Result<usize, Error> {
        self.0.recovery.recover().await
    }

    /// Continues sessions whose process died while they were at work.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn adopt(&self) -> Result<(), Error> {
        self.0.recovery.adopt().await
    }

    /// Committed events and live signals.
    #[must_use]
    pub fn bus(&self) -> &Bus {
        self.0.journal.bus()
    }

    /// New ids and the time.
    #[must_use]
    pub fn mint(&self) -> &Mint {
        self.0.journal.mint()
    }

    /// What is configured, by folder.
    #[must_use]
    pub fn configurations(&self) -> &Configurations {
        &self.0.configurations
    }

    /// The folders.
    #[must_use]
    pub fn paths(&self) -> &Paths {
        &self.0.paths
    }

    /// The folder that requests without one mean.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The names of the tools where this is configured.
    #[must_use]
    pub fn tool_names(&self, config: &Config) -> Vec<String> {
        config.tools_over(&self.0.tools).offer().names().map(str::to_owned).collect()
    }

    /// Sessions as a whole: create, read, change, fork.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Where prompts are accepted.
    #[must_use]
    pub fn inbox(&self) -> &PromptInbox {
        &self.0.inbox
    }

    /// The sessions at work.
    #[must_use]
    pub fn drains(&self) -> &Drains {
        &self.0.drains
    }

    /// Permission requests and questions, and their answers.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.0.requests
    }

    /// What folders belong to.
    #[must_use]
    pub fn projects(&self) -> &Projects {
        &self.0.projects
    }

    /// Instructions and skills.
    #[must_use]
    pub fn guidance(&self) -> &Guidance {
        &self.0.guidance
    }

    /// The models and the way to them.
    #[must_use]
    pub fn models(&self) -> &Models {
        &self.0.models
    }

    /// The MCP servers.
    #[must_use]
    pub fn mcp(&self) -> &McpServers {
        &self.0.mcp
    }

    /// Undo and redo.
    #[must_use]
    pub fn reverts(&self) -> &Reverts {
        &self.0.reverts
    }

    /// Sessions of other programs.
    #[must_use]
    pub fn imports(&self) -> &Imports {
        &self.0.imports
    }

    /// The trash.
    #[must_use]
    pub fn trash(&self) -> &Trash {
        &self.0.trash
    }

    /// What the sessions have used.
    #[must_use]
    pub fn spending(&self) -> &Spending {
        &self.0.spending
    }

    /// What models were sent.
    #[must_use]
    pub fn sent_requests(&self) -> &SentRequests {
        &self.0.sent
    }

    /// Long output of tools.
    #[must_use]
    pub fn outputs(&self) -> &ToolOutputs {
        &self.0.outputs
    }
}

/// The services that the store's feed reaches. They are made before the store, whose feed begins with it.
#[derive(Debug, Default)]
struct FeedServices {
    bus: Bus,
    slots: DrainSlots,
    waiting: WaitingCalls,
    busy: BusyElsewhere,
}

impl EngineServices {
    /// Puts the services together, from those that need no other to those that need most.
    fn compose(
        store: Store,
        mint: Mint,
        base: FeedServices,
        missed: MissedUpdates,
        options: Options,
    ) -> Self {
        let FeedServices { bus, slots, waiting, busy } = base;
        let Options { paths, directory, configurations, project_files, keys, tools, .. } = options;
        let Options { supervisor, secrets, patience, turns: most_turns, sandbox, context, .. } = options;
        let paths = Arc::new(paths);
        let lifecycle = Lifecycle::default();
        let journal = Journal::new(store.clone(), mint.clone(), bus);
        let outputs = ToolOutputs::new(&paths.data, mint);
        let views = FileViews::default();
        let reporter = busy.employ(store.clone(), journal.bus().clone());
        let drains = Drains::new(slots, busy, journal.clone(), lifecycle.clone());
        let leases = Leases::new(store.clone(), drains.clone(), lifecycle.clone());
        let snapshots = SnapshotFolders::new(&paths.data);
        let projects =
            Projects::new(store.clone(), journal.clone(), leases.clone(), snapshots.clone(), &directory);
        let guidance = Guidance::new(configurations.clone(), Arc::clone(&paths), project_files);
        let models = Models::new(keys);
        let launcher = Launcher { supervisor, secrets, ..Launcher::default() };
        let confinement = Confinement::new(sandbox, Arc::clone(&paths));
        let mcp = McpServers::new(
            configurations.clone(),
            tools.clone(),
            launcher,
            confinement.clone(),
            lifecycle.clone(),
        );
        let sessions = Sessions::new(&store, &journal, &drains, &leases, &projects);
        let reverts = Reverts::new(
            journal.clone(),
            projects.clone(),
            configurations.clone(),
            snapshots.clone(),
            leases.clone(),
            drains.clone(),
        );
        let trust = TrustRequests::new(store.clone(), journal.clone(), configurations.clone());
        let inbox = PromptInbox {
            journal: journal.clone(),
            configurations: configurations.clone(),
            models: models.clone(),
            attachments: Attachments::new(projects.clone(), mcp.clone()),
            drains: drains.clone(),
            leases: leases.clone(),
            reverts: reverts.clone(),
            trust: trust.clone(),
        };
        let requests = Requests::new(
            store.clone(),
            journal.clone(),
            configurations.clone(),
            trust.clone(),
            waiting,
            missed.clone(),
            lifecycle.clone(),
        );
        let delegation = DelegationServices {
            store: store.clone(),
            journal: journal.clone(),
            sessions: sessions.clone(),
            projects: projects.clone(),
            inbox: inbox.clone(),
            requests: requests.clone(),
            drains: drains.clone(),
            lifecycle: lifecycle.clone(),
        };
        let host = HostServices {
            journal: journal.clone(),
            sessions: sessions.clone(),
            inbox: inbox.clone(),
            requests: requests.clone(),
            projects: projects.clone(),
            guidance: guidance.clone(),
            delegation: Delegation::new(delegation, patience),
        };
        let calls = ToolCalls::new(journal.clone(), requests.clone(), views.clone(), host);
        let turns = TurnServices {
            budgets: BudgetGuard::new(store.clone(), configurations.clone(), requests.clone()),
            store: store.clone(),
            journal: journal.clone(),
            drains: drains.clone(),
            lifecycle: lifecycle.clone(),
            projects: projects.clone(),
            snapshots,
            configurations: configurations.clone(),
            guidance: guidance.clone(),
            context,
            models: models.clone(),
            places: TurnPlaces::new(most_turns),
            mcp: mcp.clone(),
            calls,
            views,
            titles: Titles::new(journal.clone(), models.clone(), lifecycle.clone()),
            confinement,
            data: paths.data.clone(),
        };
        let worker = Arc::new(Worker::new(
            journal.clone(),
            drains.clone(),
            leases,
            ProviderTurns::new(turns),
            trust,
            missed,
            lifecycle.clone(),
        ));
        drains.set_worker(&worker);
        Self {
            imports: Imports::new(store.clone(), projects.clone()),
            trash: Trash::new(store.clone(), journal.clone(), drains.clone(), outputs.clone()),
            spending: Spending::new(store.clone(), projects.clone(), journal.mint().clone()),
            sent: SentRequests::new(store.clone(), configurations.clone(), models.clone(), tools.clone()),
            recovery: Recovery::new(store, projects.clone(), drains.clone()),
            lifecycle,
            journal,
            configurations,
            paths,
            directory,
            tools,
            sessions,
            inbox,
            drains,
            requests,
            projects,
            guidance,
            models,
            mcp,
            reverts,
            outputs,
            _worker: worker,
            _reporter: reporter,
        }
    }
}
