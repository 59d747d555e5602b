//! Agents and commands in Markdown: a file each, whose front matter has the settings and whose text is the prompt or the
//! template.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_tools::{front_matter, places};
use serde_json::Value;

use super::key_place::ConfigText;
use super::known_keys::AGENT;
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

/// The most lines that are looked at for front matter that nothing reads.
const MATTER_LINES: usize = 100;

/// Reads the agents and commands of a folder of configuration, each as a layer of its own. With `within`, a file must lie
/// under that folder.
pub(super) fn read(
    folder: &Path,
    within: Option<&Path>,
    stamps: &mut FileStamps,
    problems: &mut Vec<ConfigProblem>,
) -> Vec<ConfigLayer> {
    let mut layers = Vec::new();
    stamps.note(folder);
    for root in misnamed(folder) {
        let mut files = Vec::new();
        collect(&root, DEPTH_MAX, stamps, &mut files);
        let what = "its folder is not read: the name of it is written in small letters";
        problems.extend(files.iter().filter_map(|file| unnoticed(file, within, what)));
    }
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
            if file.extension().is_none_or(|extension| extension != "md") {
                problems.extend(unnoticed(&file, within, "it is not read: its name must end with `.md`"));
                continue;
            }
            match read_file(&file, &root, within, (setting, body)) {
                Ok(layer) => {
                    problems.extend(layer.iter().filter(|_| setting != "command").filter_map(misplaced));
                    layers.extend(layer);
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    layers
}

/// Whether a name ends as those of Markdown do, in whatever letters.
fn is_markdown(extension: &OsStr) -> bool {
    ["md", "markdown", "mdown", "mdx"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Folders whose names differ from those that are read by capital letters alone.
fn misnamed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_misnamed = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let known =
            FOLDERS.iter().map(|(known, _, _)| *known).find(|known| known.eq_ignore_ascii_case(&name));
        // Where capital letters make no difference it is read.
        known.is_some_and(|known| {
            known != name && folder.join(known).canonicalize().ok() != entry.path().canonicalize().ok()
        })
    };
    let mut found: Vec<PathBuf> =
        entries.filter(is_misnamed).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// A file that is not read, as a problem. What may have forbidden something is asked for.
fn unnoticed(file: &Path, within: Option<&Path>, what: &str) -> Option<ConfigProblem> {
    let text = places::text(file, within).ok()??;
    Some(problem(file, &text, what))
}

fn problem(file: &Path, text: &str, what: &str) -> ConfigProblem {
    let name = file.display().to_string();
    let forbids = text.lines().any(|line| AGENT.restricting.contains(&key_of(line)));
    if forbids { ConfigProblem::unread(&name, None, what) } else { ConfigProblem::in_file(&name, what) }
}

/// Front matter that is not read as such because it is not where it belongs, or has no end.
fn misplaced(layer: &ConfigLayer) -> Option<ConfigProblem> {
    let ConfigText::Markdown(text) = &layer.text else { return None };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if front_matter::is_there(text) {
        return None;
    }
    let is_comment = |line: &str| line.is_empty() || line.starts_with(['#', '<']);
    let mut lines = text.lines().map(str::trim).skip_while(|line| is_comment(line)).take(MATTER_LINES);
    let first = lines.next()?;
    let is_fence = ["---", "+++", "```", "~~~"].iter().any(|fence| first.starts_with(fence));
    let is_key = |line: &str| AGENT.keys.contains(&key_of(line));
    if !(is_key(first) || is_fence && lines.any(is_key)) {
        return None;
    }
    let what =
        "its front matter is not read: it must begin with a first line of `---` and end with another one";
    Some(problem(Path::new(&layer.name), text, what))
}

/// The key that a line of settings begins with, in YAML, TOML or JSON.
fn key_of(line: &str) -> &str {
    let line = line.trim().trim_start_matches(['[', '{', '"', '\'', ' ']);
    let end =
        line.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(line.len());
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    if rest.starts_with([':', '=', '.', ']']) { key } else { "" }
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
        } else if path.extension().is_some_and(is_markdown) {
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

    #[test]
    fn settings_that_are_not_read_are_named() {
        // The agent had the settings as a part of its prompt, and none of the denials.
        let check = |name: &str, text: &str, expected: Option<bool>| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            let (mut stamps, mut problems) = (FileStamps::default(), Vec::new());
            read(folder.path(), None, &mut stamps, &mut problems);
            let found: Vec<bool> = problems.iter().map(|problem| problem.unread).collect();
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{name} {text}");
            assert!(problems.iter().all(|problem| problem.file.ends_with(name)), "{problems:?}");
        };
        let settings = "permission:\n  bash: deny\n";
        for (before, after) in [
            ("\n---\n", "---\n"),
            ("# mine\n---\n", "---\n"),
            ("<!-- mine -->\n---\n", "---\n"),
            ("---\n", ""),
            ("---\n", "...\n"),
            ("----\n", "----\n"),
            ("---yaml\n", "---\n"),
            (" ---\n", "---\n"),
            ("```yaml\n", "```\n"),
            ("", "---\n"),
        ] {
            check("agent/build.md", &format!("{before}{settings}{after}Build.\n"), Some(true));
            check("agent/build.md", &format!("{before}description: x\n{after}Build.\n"), Some(false));
        }
        check("mode/build.md", "+++\n[permission]\nbash = \"deny\"\n+++\n", Some(true));
        check("agent/build.md", "+++\ntools.bash = false\n+++\n", Some(true));
        let sound = format!("---\n{settings}---\nBuild.\n");
        check("agent/build.md", &sound, None);
        check("agent/build.MD", &sound, Some(true));
        check("Agent/build.md", &sound, Some(true));
        check("Agent/build.md", "Build.", Some(false));
        for words in [
            "Build.",
            "# Builder\n\n---\n\nBuild it: well.\n",
            "```sh\nmake\n```\n",
            "Note: permission: ask first",
        ] {
            check("agent/build.md", words, None);
        }
        check("command/check.md", &format!("\n{sound}"), None);
    }
}
