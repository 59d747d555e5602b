//! The configuration that holds in each folder: found when it is first asked for, read again when its files change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use everturn_tools::Secrets;
use everturn_tools::places::ProjectFiles;

use crate::Config;
use crate::background::blocking;
use crate::config::{ConfigSources, FoundConfig, Trust, find};

/// How many folders are remembered.
const REMEMBERED: usize = 1024;

/// What is configured, by folder; clones share what was found.
#[derive(Debug, Clone)]
pub struct Configurations(Arc<ConfigOrigins>);

#[derive(Debug)]
enum ConfigOrigins {
    /// The same everywhere.
    Fixed(Arc<Config>),
    /// What is found for each folder.
    Found(Box<FoundConfigs>),
}

#[derive(Debug)]
struct FoundConfigs {
    sources: ConfigSources,
    trust: Trust,
    data: PathBuf,
    secrets: Secrets,
    known: Mutex<HashMap<PathBuf, KnownConfig>>,
}

#[derive(Debug, Clone)]
struct KnownConfig {
    found: Arc<FoundConfig>,
    config: Arc<Config>,
    /// Counts uses, so that the folder that was not asked for longest is known.
    used: u64,
}

impl Configurations {
    /// One configuration for all folders. `data` is the data folder.
    #[must_use]
    pub fn fixed(mut config: Config, data: &Path) -> Self {
        data.clone_into(&mut config.data);
        Self(Arc::new(ConfigOrigins::Fixed(Arc::new(config))))
    }

    /// What files say, for each folder. The variables from which any of them takes keys are added to `secrets`.
    #[must_use]
    pub fn found(sources: ConfigSources, trust: Trust, data: &Path, secrets: Secrets) -> Self {
        let found = FoundConfigs { sources, trust, data: data.to_owned(), secrets, known: Mutex::default() };
        Self(Arc::new(ConfigOrigins::Found(Box::new(found))))
    }

    /// What is configured in a folder. What is wrong with it goes to the log when it is found.
    pub async fn at(&self, folder: &Path) -> Arc<Config> {
        if let ConfigOrigins::Fixed(config) = &*self.0 {
            return Arc::clone(config);
        }
        let (configurations, folder) = (self.clone(), folder.to_owned());
        let looking = blocking(move || {
            let (config, is_new) = configurations.look(&folder);
            if is_new {
                log(&config, &folder);
            }
            config
        });
        // It fails only when the process is ending.
        looking.await.unwrap_or_default()
    }

    /// The same for those who can wait for the disk, and tell the person themselves what is wrong.
    #[must_use]
    pub fn look_at(&self, folder: &Path) -> Arc<Config> {
        self.look(folder).0
    }

    /// What the person has configured, without any project.
    pub async fn own(&self) -> Arc<Config> {
        let configurations = self.clone();
        let looking = blocking(move || match &*configurations.0 {
            ConfigOrigins::Fixed(config) => Arc::clone(config),
            ConfigOrigins::Found(found) => {
                let FoundConfigs { sources, trust, data, .. } = &**found;
                let sources = ConfigSources { project_files: ProjectFiles::Ignored, ..sources.clone() };
                Arc::new(find(&sources.home, &sources, trust, data).config)
            }
        });
        looking.await.unwrap_or_default()
    }

    /// Where it is kept what of projects is trusted; none where projects have no say.
    pub(crate) fn trust(&self) -> Option<&Trust> {
        match &*self.0 {
            ConfigOrigins::Fixed(_) => None,
            ConfigOrigins::Found(found) => Some(&found.trust),
        }
    }

    /// What is configured, and whether it has just been read.
    fn look(&self, folder: &Path) -> (Arc<Config>, bool) {
        let configs = match &*self.0 {
            ConfigOrigins::Fixed(config) => return (Arc::clone(config), false),
            ConfigOrigins::Found(configs) => configs,
        };
        if let Some(known) = configs.known(folder)
            && known.found.is_current(folder)
        {
            return (known.config, false);
        }
        let found = find(folder, &configs.sources, &configs.trust, &configs.data);
        let config = Arc::new(found.config.clone());
        let named = Arc::clone(&config);
        configs.secrets.add(move || named.secrets());
        configs.remember(folder, Arc::new(found), &config);
        (config, true)
    }
}

impl FoundConfigs {
    fn known(&self, folder: &Path) -> Option<KnownConfig> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used = known.values().map(|known| known.used).max().unwrap_or_default() + 1;
        let found = known.get_mut(folder)?;
        found.used = used;
        Some(found.clone())
    }

    fn remember(&self, folder: &Path, found: Arc<FoundConfig>, config: &Arc<Config>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used = known.values().map(|known| known.used).max().unwrap_or_default() + 1;
        if known.len() >= REMEMBERED
            && let Some(oldest) =
                known.iter().min_by_key(|(_, known)| known.used).map(|(path, _)| path.clone())
        {
            known.remove(&oldest);
        }
        known.insert(folder.to_owned(), KnownConfig { found, config: Arc::clone(config), used });
    }
}

fn log(config: &Config, folder: &Path) {
    let folder = folder.display();
    for problem in &config.problems {
        tracing::warn!(%folder, %problem, "some of the configuration does not count");
    }
    if !config.held.is_empty() {
        let held: Vec<&str> = config.held.keys().map(String::as_str).collect();
        tracing::warn!(%folder, held = held.join(", "), "the project's configuration asks for what nobody has trusted");
    }
}
