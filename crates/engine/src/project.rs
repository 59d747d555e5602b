//! Projects: what a folder belongs to.
//!
//! A git repository is one project wherever it is cloned: its id is its root commit. Everything else is the project
//! `global`. The id is asked from git once for each repository and remembered.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{Engine, Error};

/// How many folders are remembered.
const REMEMBERED: usize = 1024;

/// A project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Project {
    /// The root commit, or `global`.
    pub id: String,
    /// The root of the repository, or `/`.
    pub worktree: PathBuf,
    /// `git`, where it is a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcs: Option<String>,
    /// When it was first seen.
    pub created: i64,
    /// When it was last used.
    pub updated: i64,
}

/// A folder and what it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The folder.
    pub directory: PathBuf,
    /// The root of the project.
    pub worktree: PathBuf,
    /// The project.
    pub project: Project,
    /// The folder relative to the root.
    pub path: String,
}

impl Location {
    /// The branch that is checked out, where it is a repository on a branch.
    #[must_use]
    pub fn branch(&self) -> Option<String> {
        self.project.vcs.as_ref()?;
        let head = std::fs::read_to_string(self.worktree.join(".git").join("HEAD")).ok()?;
        head.trim().strip_prefix("ref: refs/heads/").map(str::to_owned)
    }
}

/// The nearest folder upwards that holds a repository.
fn repository(directory: &Path) -> Option<PathBuf> {
    directory.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_path_buf)
}

async fn root_commit(worktree: &Path) -> Option<String> {
    let output = tokio::process::Command::new("git")
        .args(["rev-list", "--max-parents=0", "--all"])
        .current_dir(worktree)
        .stdin(std::process::Stdio::null())
        .output()
        .await
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().filter(|line| !line.is_empty()).min().map(str::to_owned)
}

impl Engine {
    /// What a folder belongs to; none is the server's own folder.
    ///
    /// # Errors
    /// When the folder is not absolute or the store refuses.
    pub async fn location(&self, directory: Option<&str>) -> Result<Location, Error> {
        let directory =
            directory.filter(|text| !text.is_empty()).map_or_else(|| self.0.directory.clone(), PathBuf::from);
        if !directory.is_absolute() {
            return Err(Error::Invalid(format!(
                "directory must be an absolute path, not {}",
                directory.display()
            )));
        }
        if let Some(location) = self.0.locations.read().await.get(&directory) {
            return Ok(location.clone());
        }
        let location = self.resolve(directory.clone()).await?;
        // A folder that is no repository yet, or one without a commit, is looked at again next time.
        if location.project.id != "global" {
            let mut known = self.0.locations.write().await;
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(directory, location.clone());
        }
        Ok(location)
    }

    async fn resolve(&self, directory: PathBuf) -> Result<Location, Error> {
        let worktree = repository(&directory);
        let known = self.projects().await?;
        let now = self.mint().now();
        let project = match &worktree {
            None => known.into_iter().find(|project| project.id == "global").unwrap_or_else(|| Project {
                id: "global".to_owned(),
                worktree: PathBuf::from("/"),
                vcs: None,
                created: now,
                updated: now,
            }),
            Some(root) => match known.into_iter().find(|project| &project.worktree == root) {
                Some(project) => project,
                None => {
                    // A repository without a commit has no identity yet and is looked at again next time.
                    let id = root_commit(root).await.unwrap_or_else(|| "global".to_owned());
                    let vcs = Some("git".to_owned());
                    let project = Project { id, worktree: root.clone(), vcs, created: now, updated: now };
                    if project.id != "global" {
                        let data = serde_json::to_string(&project)
                            .map_err(|error| Error::Invalid(error.to_string()))?;
                        self.0.store.put_project(&project.id, data).await?;
                    }
                    project
                }
            },
        };
        let worktree = worktree.unwrap_or_else(|| directory.clone());
        let path =
            directory.strip_prefix(&worktree).map(|path| path.display().to_string()).unwrap_or_default();
        Ok(Location { directory, worktree, project, path })
    }

    /// The projects that were seen.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn projects(&self) -> Result<Vec<Project>, Error> {
        let rows = self.0.store.projects().await?;
        Ok(rows.into_iter().filter_map(|(_, data)| serde_json::from_str(&data).ok()).collect())
    }
}
