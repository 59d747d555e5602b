//! Files of a project that its own configuration names with `{file:path}`.
//!
//! What is in them is part of what the project asks for, as if it stood in the configuration itself: a command that runs
//! or an address may be in there. So each is read once, shown behind the place that names it, trusted with it, and put
//! there as it was read. Files elsewhere are the person's: which one is named is all that a project has a say in, so a link
//! that leads out of the project is followed, and what is trusted is where it leads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everturn_tools::foreign_file::{self, ReadBounds};
use serde_json::Value;

use super::layer::FileStamps;
use super::placeholders::{Piece, pieces, unread};
use super::project::{ProjectRefusal, ProjectRequest, path_of};
use super::trust::ProjectTrust;

/// The most bytes of such a file: somebody has to look at it.
const NAMED_FILE_MAX: u64 = 64 * 1024;

/// The most bytes of all of them, each as often as it is named: they are shown and kept with what is trusted.
const NAMED_BYTES_MAX: usize = 256 * 1024;

/// The most files that are named, wherever they lie.
const NAMED_FILES_MAX: usize = 200;

/// The files that a project's configuration names, as they were read.
#[derive(Debug, Default)]
pub(super) struct NamedFiles {
    /// The folder of the project, as the system knows it.
    root: PathBuf,
    /// Where each path leads.
    real: BTreeMap<PathBuf, PathBuf>,
    /// What is in those of the project, by where they are.
    contents: BTreeMap<PathBuf, String>,
    /// How many bytes were shown.
    shown: usize,
}

impl NamedFiles {
    /// None yet of the project at `root`.
    pub(super) fn of(root: &Path) -> Self {
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, ..Self::default() }
    }

    /// What of a request is trusted, as it is put to use, and what is not, as it is shown. What names a file that cannot
    /// be read is refused.
    pub(super) fn read_all(
        &mut self,
        request: &mut ProjectRequest,
        trusted: &ProjectTrust,
        stamps: &mut FileStamps,
    ) -> (BTreeMap<String, Value>, BTreeMap<String, Value>) {
        let (mut granted, mut held) = (BTreeMap::new(), BTreeMap::new());
        for (item, mut setting) in std::mem::take(&mut request.held) {
            match self.read(&mut setting, stamps) {
                Ok(shown) if trusted.covers(&item, &shown) => drop(granted.insert(item, setting)),
                Ok(shown) => drop(held.insert(item, shown)),
                Err(why) => {
                    let path = path_of(&item).into_iter().map(str::to_owned).collect();
                    request
                        .refused
                        .push(ProjectRefusal { path, what: format!("`{item}` is left out: {why}") });
                }
            }
        }
        (granted, held)
    }

    /// What is in a file of the project, if a project's configuration names it.
    pub(super) fn content(&self, path: &Path) -> Option<&str> {
        self.contents.get(path).map(String::as_str)
    }

    /// Reads the files that a setting names, and gives the setting with their content, as it is shown and trusted. In
    /// the setting itself the paths become those that the files have by now.
    ///
    /// # Errors
    /// In words, when a file of the project cannot be read, or there is too much in them.
    fn read(&mut self, setting: &mut Value, stamps: &mut FileStamps) -> Result<Value, String> {
        Ok(match setting {
            Value::String(text) => {
                let (written, shown) = self.read_text(text, stamps)?;
                *text = written;
                shown.into()
            }
            Value::Array(items) => {
                let items: Result<Vec<Value>, String> =
                    items.iter_mut().map(|item| self.read(item, stamps)).collect();
                items?.into()
            }
            Value::Object(map) => {
                let map: Result<everturn_model::Map, String> =
                    map.iter_mut().map(|(key, value)| Ok((key.clone(), self.read(value, stamps)?))).collect();
                map?.into()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => setting.clone(),
        })
    }

    fn read_text(&mut self, text: &str, stamps: &mut FileStamps) -> Result<(String, String), String> {
        let (mut written, mut shown) = (String::new(), String::new());
        for piece in pieces(text) {
            let mut both = |text: &str| {
                written.push_str(text);
                shown.push_str(text);
            };
            match piece {
                Piece::Plain(text) => both(text),
                Piece::Variable(name) => both(&format!("{{env:{name}}}")),
                Piece::File(path) => {
                    let real = self.follow(Path::new(path), stamps)?;
                    both(&format!("{{file:{}}}", real.display()));
                    if real.starts_with(&self.root) {
                        // With its length, so that it cannot be taken for what stands behind it.
                        let content = self.read_file(&real, stamps)?;
                        shown.push_str(&format!("[{} bytes: {content}]", content.len()));
                    }
                }
            }
        }
        Ok((written, shown))
    }

    /// Where a path leads. One that leads nowhere stays as it is.
    fn follow(&mut self, path: &Path, stamps: &mut FileStamps) -> Result<PathBuf, String> {
        if let Some(real) = self.real.get(path) {
            return Ok(real.clone());
        }
        if self.real.len() >= NAMED_FILES_MAX {
            return Err(format!("a project names {NAMED_FILES_MAX} files at most"));
        }
        stamps.note(path);
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        self.real.insert(path.to_owned(), real.clone());
        Ok(real)
    }

    fn read_file(&mut self, path: &Path, stamps: &mut FileStamps) -> Result<String, String> {
        let content = match self.contents.get(path) {
            Some(content) => content.clone(),
            None => {
                stamps.note(path);
                let read = foreign_file::read_text(path, ReadBounds::bytes(NAMED_FILE_MAX));
                let content = read.map_err(|error| unread(path, &error))?.trim().to_owned();
                self.contents.insert(path.to_owned(), content.clone());
                content
            }
        };
        self.shown += content.len();
        if self.shown > NAMED_BYTES_MAX {
            return Err(format!("a project names files of its own with {NAMED_BYTES_MAX} bytes at most"));
        }
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    fn read(root: &Path, mut setting: Value) -> Result<(Value, Value), String> {
        let shown = NamedFiles::of(root).read(&mut setting, &mut FileStamps::default())?;
        Ok((setting, shown))
    }

    #[test]
    fn files_of_the_project_are_shown_and_others_only_named() {
        let (project, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, outside) =
            (project.path().canonicalize().unwrap(), outside.path().canonicalize().unwrap());
        fs::write(root.join("run"), " touch {env:A}\n").unwrap();
        fs::write(outside.join("key"), "sk-1").unwrap();
        symlink(outside.join("key"), root.join("out")).unwrap();
        symlink(root.join("run"), outside.join("in")).unwrap();
        let (inside, out) = (root.display(), outside.display());
        let check = |text: String, written: String, shown: String| {
            assert_eq!(
                read(&root, json!({"a": [text]})),
                Ok((json!({"a": [written]}), json!({"a": [shown]})))
            );
        };
        let run = format!("x {{file:{inside}/run}} {{env:B}}");
        let shown = format!("x {{file:{inside}/run}}[13 bytes: touch {{env:A}}] {{env:B}}");
        check(run.clone(), run.clone(), shown.clone());
        check(format!("x {{file:{out}/in}} {{env:B}}"), run, shown);
        let key = format!("{{file:{out}/key}}");
        check(key.clone(), key.clone(), key.clone());
        check(format!("{{file:{inside}/out}}"), key.clone(), key);
        let none = format!("{{file:{out}/none}}");
        check(none.clone(), none.clone(), none);
        let missing = read(&root, json!(format!("{{file:{inside}/none}}")));
        assert_eq!(missing, Err(format!("it names {inside}/none, which is not there")));
    }

    #[test]
    fn what_nobody_would_look_through_is_not_asked_for() {
        let project = tempfile::tempdir().unwrap();
        let root = project.path().canonicalize().unwrap();
        let most = usize::try_from(NAMED_FILE_MAX).unwrap();
        let place = |name: &str, text: &str| {
            fs::write(root.join(name), text).unwrap();
            format!("{{file:{}}}", root.join(name).display())
        };
        let (large, larger) = (place("large", &"x".repeat(most)), place("larger", &"x".repeat(most + 1)));
        let many = NAMED_BYTES_MAX / most;
        assert!(read(&root, json!(vec![large.clone(); many])).is_ok());
        let check = |setting: Value, why: &str| {
            let error = read(&root, setting).unwrap_err();
            assert!(error.ends_with(why), "{error}");
        };
        check(json!(vec![large; many + 1]), "a project names files of its own with 262144 bytes at most");
        check(json!(larger), "which cannot be read: it has more than 65536 bytes");
        let names: Vec<String> = (0..=NAMED_FILES_MAX).map(|at| format!("{{file:/nowhere/{at}}}")).collect();
        assert!(read(&root, json!(names[1..])).is_ok());
        check(json!(names), "a project names 200 files at most");
    }
}
