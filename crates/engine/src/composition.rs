//! The one place that puts the engine's services together.
//!
//! Each is given those that it works with, so the order in which they are made is the order in which they know one another.

use std::path::PathBuf;
use std::sync::Arc;

use everturn_store::Store;
use everturn_tools::Registry;
use everturn_tools::bash::BashTool;
use everturn_tools::process::Launcher;

use crate::attachments::Attachments;
use crate::bus::Bus;
use crate::calls::ToolCalls;
use crate::commands::SlashCommands;
use crate::compaction::Compactions;
use crate::configurations::Configurations;
use crate::confinement::Confinement;
use crate::delegation::{Delegation, DelegationServices};
use crate::drains::{DrainSlots, Drains};
use crate::feed_follower::{BusyElsewhere, MissedUpdates, RestReporter};
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
use crate::shell::ShellCommands;
use crate::snapshot_folders::SnapshotFolders;
use crate::spending::Spending;
use crate::titles::Titles;
use crate::trash::Trash;
use crate::turn::{ProviderTurns, TurnServices};
use crate::turn_places::TurnPlaces;
use crate::worker::Worker;

/// The services that the handle leads to.
#[derive(Debug)]
pub(crate) struct EngineServices {
    pub(crate) lifecycle: Lifecycle,
    pub(crate) journal: Journal,
    pub(crate) configurations: Configurations,
    pub(crate) paths: Arc<Paths>,
    pub(crate) directory: PathBuf,
    pub(crate) tools: Registry,
    pub(crate) sessions: Sessions,
    pub(crate) inbox: PromptInbox,
    pub(crate) compactions: Compactions,
    pub(crate) drains: Drains,
    pub(crate) requests: Requests,
    pub(crate) projects: Projects,
    pub(crate) guidance: Guidance,
    pub(crate) models: Models,
    pub(crate) mcp: McpServers,
    pub(crate) reverts: Reverts,
    pub(crate) shell: ShellCommands,
    pub(crate) commands: SlashCommands,
    pub(crate) imports: Imports,
    pub(crate) trash: Trash,
    pub(crate) spending: Spending,
    pub(crate) outputs: ToolOutputs,
    pub(crate) sent: SentRequests,
    pub(crate) recovery: Recovery,
    /// Held for the drains and for what other processes run, which know them only as long as they are here.
    _worker: Arc<Worker>,
    _reporter: Arc<RestReporter>,
}

/// The services that the store's feed reaches. They are made before the store, whose feed begins with it.
#[derive(Debug, Default)]
pub(crate) struct FeedServices {
    pub(crate) bus: Bus,
    pub(crate) slots: DrainSlots,
    pub(crate) waiting: WaitingCalls,
    pub(crate) busy: BusyElsewhere,
}

impl EngineServices {
    /// Puts the services together, from those that need no other to those that need most.
    pub(crate) fn compose(
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
        let command_tool = BashTool { launcher: launcher.clone(), ..BashTool::default() };
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
        let shell = ShellCommands {
            journal: journal.clone(),
            configurations: configurations.clone(),
            projects: projects.clone(),
            models: models.clone(),
            confinement: confinement.clone(),
            reverts: reverts.clone(),
            leases: leases.clone(),
            drains: drains.clone(),
            missed: missed.clone(),
            lifecycle: lifecycle.clone(),
            tool: command_tool.clone(),
        };
        let commands = SlashCommands {
            journal: journal.clone(),
            configurations: configurations.clone(),
            projects: projects.clone(),
            models: models.clone(),
            confinement: confinement.clone(),
            mcp: mcp.clone(),
            requests: requests.clone(),
            inbox: inbox.clone(),
            lifecycle: lifecycle.clone(),
            tool: command_tool,
        };
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
            compactions: Compactions::new(inbox.clone(), sessions.clone()),
            recovery: Recovery::new(store, projects.clone(), drains.clone(), requests.clone()),
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
            shell,
            commands,
            outputs,
            _worker: worker,
            _reporter: reporter,
        }
    }
}
