//! Agents and commands in Markdown: a file each, whose front matter has the settings and whose text is the prompt or the
//! template.

use std::fs;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_tools::{front_matter, places};
use serde_json::Value;

use super::key_place::ConfigText;
use super::layer::{ConfigLayer, FileStamps, check_depth};
use super::problem::ConfigProblem;

/// The folders that hold such files, what each is called in a configuration, and the setting that the text is.
const FOLDERS: [(&str, &str, &str); 6] = [
    ("agent", "agent", "prompt"),
    ("agents", "agent", "prompt"),
    ("command", "command", "template"),
    ("commands", "command", "template"),
    ("mode", "mode", "prompt"),
    ("modes", "mode", "prompt"),
];

/// The most files that are read from one folder, and how deep they may lie.
const FILES_MAX: usize = 500;
const DEPTH_MAX: usize = 4;

/// Reads the agents and commands of a folder of configuration, each as a layer of its own. With `within`, a file must lie
/// under that folder.
pub(super) fn read(
    folder: &Path,
    within: Option<&Path>,
    stamps: &mut FileStamps,
    problems: &mut Vec<ConfigProblem>,
) -> Vec<ConfigLayer> {
    let mut layers = Vec::new();
    for (name, setting, body) in FOLDERS {
        let root = folder.join(name);
        let mut files = Vec::new();
        collect(&root, DEPTH_MAX, stamps, &mut files);
        if files.len() > FILES_MAX {
            let what = format!("it holds more than {FILES_MAX} files; the rest is not read");
            problems.push(ConfigProblem::in_file(&root.display().to_string(), what));
        }
        files.sort();
        for file in files.into_iter().take(FILES_MAX) {
            stamps.note(&file);
            match read_file(&file, &root, within, (setting, body)) {
                Ok(layer) => layers.extend(layer),
                Err(problem) => problems.push(problem),
            }
        }
    }
    layers
}

/// Collects the Markdown files below a folder. Links to folders are not followed.
fn collect(folder: &Path, depth: usize, stamps: &mut FileStamps, files: &mut Vec<PathBuf>) {
    stamps.note(folder);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 0 && files.len() <= FILES_MAX {
                collect(&path, depth - 1, stamps, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return;
        }
    }
}

fn read_file(
    file: &Path,
    root: &Path,
    within: Option<&Path>,
    (setting, body): (&str, &str),
) -> Result<Option<ConfigLayer>, ConfigProblem> {
    let name = file.display().to_string();
    let unread = |why: String| {
        let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why).to_owned();
        ConfigProblem::unread(&name, None, why)
    };
    let Some(text) = places::text(file, within).map_err(unread)? else { return Ok(None) };
    let (mut fields, rest) =
        front_matter::fields(&text).map_err(|fault| ConfigProblem::unread(&name, fault.place, fault.what))?;
    check_depth(&fields).map_err(unread)?;
    fields.insert(body.to_owned(), rest.into());
    let called = file.strip_prefix(root).unwrap_or(file).with_extension("").display().to_string();
    let one: Map = [(called, Value::Object(fields))].into_iter().collect();
    let values: Map = [(setting.to_owned(), Value::Object(one))].into_iter().collect();
    Ok(Some(ConfigLayer {
        name,
        folder: root.to_owned(),
        values,
        text: ConfigText::Markdown(text),
        doubled: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn agents_and_commands_are_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "agents/review.md",
            "---\ndescription: reviews\nmode: subagent\npermission:\n  edit: deny\n---\nReview it.\n",
        );
        write("agent/deep/plain.md", "Only words.");
        write("command/check.md", "---\nagent: build\n---\nCheck $ARGUMENTS\n");
        write("agents/notes.txt", "no agent");
        write("agents/odd.md", "---\na: [\n---\n");
        let (mut stamps, mut problems) = (FileStamps::default(), Vec::new());
        let layers = read(folder.path(), Some(folder.path()), &mut stamps, &mut problems);
        let found: Vec<Value> = layers.iter().map(|layer| layer.values.clone().into()).collect();
        let expected = [
            json!({"agent": {"deep/plain": {"prompt": "Only words."}}}),
            json!({"agent": {"review": {"description": "reviews", "mode": "subagent", "permission": {"edit": "deny"},
                "prompt": "Review it."}}}),
            json!({"command": {"check": {"agent": "build", "template": "Check $ARGUMENTS"}}}),
        ];
        assert_eq!(found, expected);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            problems.len() == 1 && problems[0].contains("odd.md:2:4: its front matter is no YAML: "),
            "{problems:?}"
        );
        // A file that comes later is noticed.
        assert!(stamps.are_current());
        write("agents/later.md", "x");
        assert!(!stamps.are_current());
    }

    #[test]
    fn a_link_out_of_the_project_is_no_agent() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret.md"), "secret").unwrap();
        fs::create_dir(folder.path().join("agent")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret.md"), folder.path().join("agent/a.md"))
            .unwrap();
        std::os::unix::fs::symlink(outside.path(), folder.path().join("agents")).unwrap();
        let (mut stamps, mut problems) = (FileStamps::default(), Vec::new());
        assert_eq!(read(folder.path(), Some(folder.path()), &mut stamps, &mut problems), []);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().all(|problem| problem.contains("leads out of the project")), "{problems:?}");
    }
}
