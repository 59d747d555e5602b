//! Where configuration comes from, and which files may hold it.
//!
//! In the order in which later ones count more: the person's folders, a file that they name, the project's files from
//! the root of the repository down to the working folder, then what the person says last: another folder, a text, and rules.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everturn_tools::places::ProjectFiles;

use super::layer::{self, ConfigLayer};
use super::problem::ConfigProblem;

/// Looks up a variable of the environment.
pub type VariableLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The variable that names one more file.
const FILE: &str = "OPENCODE_CONFIG";

/// The variables that the last of it goes by.
const LAST: &str = "OPENCODE_CONFIG_DIR";
const TEXT: &str = "OPENCODE_CONFIG_CONTENT";
const RULES: &str = "OPENCODE_PERMISSION";

/// The names of configuration files in a person's folder and in a project's, the weakest first.
const NAMES: [&str; 3] = ["opencode.json", "opencode.jsonc", "everturn.toml"];

/// The folder of a project that holds configuration, and the names of files in it.
const FOLDER: &str = ".opencode";
const NAMES_IN_FOLDER: [&str; 4] = ["opencode.json", "opencode.jsonc", "config.toml", "everturn.toml"];

/// Where configuration comes from. The binary says so once; nothing in this crate reads the environment.
#[derive(Clone)]
pub struct ConfigSources {
    /// The person's home, which `~/` stands for.
    pub home: PathBuf,
    /// A file of the person's that counts least: the older name of OpenCode's.
    pub base: Option<PathBuf>,
    /// The person's folders, the weakest first.
    pub own: Vec<PathBuf>,
    /// One more file of the person's.
    pub file: Option<PathBuf>,
    /// A folder of the person's that counts more than what a project says.
    pub last: Option<PathBuf>,
    /// A configuration of the person's as a text.
    pub text: Option<String>,
    /// Rules of the person's as a text, which count most.
    pub rules: Option<String>,
    /// Whether projects have a say.
    pub project_files: ProjectFiles,
    /// The environment.
    pub variables: VariableLookup,
}

impl fmt::Debug for ConfigSources {
    /// The text is left out: there may be keys in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigSources")
            .field("base", &self.base)
            .field("own", &self.own)
            .field("file", &self.file)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl Default for ConfigSources {
    /// None but the project's own.
    fn default() -> Self {
        Self {
            home: PathBuf::new(),
            base: None,
            own: Vec::new(),
            file: None,
            last: None,
            text: None,
            rules: None,
            project_files: ProjectFiles::default(),
            variables: Arc::new(|_| None),
        }
    }
}

impl ConfigSources {
    /// The files of the person's that count less than a project's.
    pub(super) fn first_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.base.iter().cloned().collect();
        files.extend(self.own.iter().flat_map(|folder| files_in(folder, NAMES)));
        files.extend(self.own.iter().flat_map(|folder| files_in(folder, ["config.toml"])));
        files.extend(self.file.clone());
        files
    }

    /// The files of the person's that count more.
    pub(super) fn last_files(&self) -> Vec<PathBuf> {
        self.last.iter().flat_map(|folder| files_in(folder, NAMES_IN_FOLDER)).collect()
    }

    /// Why the file and the folder that variables name cannot be read, where they are not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = ConfigProblem> {
        let problem = |variable: &str, path: &Path, what: &str| {
            ConfigProblem::unread(variable, None, format!("it names {}, which {what}", path.display()))
        };
        let file = self.file.iter().filter(|file| !file.exists());
        let folder = self.last.iter().filter(|folder| !folder.is_dir());
        file.map(move |file| problem(FILE, file, "is not there"))
            .chain(folder.map(move |folder| problem(LAST, folder, "is no folder")))
    }

    /// The texts of the person's, which count most.
    pub(super) fn texts(&self, directory: &Path) -> Vec<Result<ConfigLayer, ConfigProblem>> {
        let text = self.text.iter().map(|text| layer::of_text(TEXT, text, directory));
        let rules = self.rules.iter().map(|text| layer::of_rules(RULES, text, directory));
        text.chain(rules).collect()
    }

    /// The folders of the project in which agents and commands are.
    pub(super) fn project_inner_folders(&self, folders: &[&Path]) -> Vec<PathBuf> {
        match self.project_files {
            ProjectFiles::Ignored => Vec::new(),
            ProjectFiles::Read => folders.iter().map(|folder| folder.join(FOLDER)).collect(),
        }
    }

    /// The files of the project that a folder belongs to.
    pub(super) fn project_files(&self, folders: &[&Path]) -> Vec<PathBuf> {
        if self.project_files == ProjectFiles::Ignored {
            return Vec::new();
        }
        let plain = folders.iter().flat_map(|folder| files_in(folder, NAMES));
        let inner = folders.iter().flat_map(|folder| files_in(&folder.join(FOLDER), NAMES_IN_FOLDER));
        plain.chain(inner).collect()
    }
}

fn files_in<const N: usize>(folder: &Path, names: [&str; N]) -> [PathBuf; N] {
    names.map(|name| folder.join(name))
}

/// The folders whose configuration counts, the outermost first: from the root of the repository to this one. Further up
/// are folders that others may write to, such as the one for temporary files, and a configuration says where keys go.
#[must_use]
pub(super) fn project_folders(directory: &Path) -> Vec<&Path> {
    let root = directory.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(directory);
    let mut folders: Vec<&Path> =
        directory.ancestors().take_while(|folder| folder.starts_with(root)).collect();
    folders.reverse();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_looked_for_within_the_repository() {
        // It was read from every folder up to the root, the one for temporary files included.
        let outside = tempfile::tempdir().unwrap();
        let repository = outside.path().join("repository");
        let inner = repository.join("a").join("b");
        std::fs::create_dir_all(&inner).unwrap();
        assert_eq!(project_folders(&inner), [inner.as_path()]);
        std::fs::create_dir(repository.join(".git")).unwrap();
        assert_eq!(project_folders(&inner), [&repository, &repository.join("a"), &inner]);
    }
}
