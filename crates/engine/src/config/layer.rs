//! One file of configuration as values, and how several become one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_model::json::DEPTH_LIMIT;
use everturn_tools::places;
use serde_json::Value;

use super::agent_definition::{self, fold_modes};
use super::doubled_key::{self, DoubledKey};
use super::key_place::{ConfigText, place};
use super::problem::ConfigProblem;
use super::rules::fold_tools;
use super::sandbox_choice;
use super::turn_limits::TurnLimits;
use super::unheeded::UnheededKey;

/// The key of rules.
const RULES: &str = "permission";

/// What one file says, as it was written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConfigLayer {
    /// The file, or what else it is from.
    pub(super) name: String,
    /// The folder that its paths begin at.
    pub(super) folder: PathBuf,
    pub(super) values: Map,
    pub(super) text: ConfigText,
    /// What it says twice.
    pub(super) doubled: Vec<DoubledKey>,
}

impl ConfigLayer {
    /// Brings it into the form in which files become one. What is wrong with it was named before.
    pub(super) fn settle(&mut self) {
        TurnLimits::drop_mistakes(&mut self.values);
        agent_definition::drop_mistakes(&mut self.values);
        fold_modes(&mut self.values);
        fold_tools(&mut self.values);
    }

    /// Whether it says something of a setting.
    pub(super) fn says(&self, path: &[String]) -> bool {
        says(&self.values, path)
    }

    /// What is wrong with one of its settings.
    pub(super) fn problem(&self, path: &[String], what: String) -> ConfigProblem {
        ConfigProblem::at(&self.name, self.text.place_of(path), what)
    }

    /// The same of what has no effect in it.
    pub(super) fn problem_of(&self, note: UnheededKey) -> ConfigProblem {
        let place = match note.at {
            Some(at) => self.text.place_at(at),
            None => self.text.place_of(&note.path),
        };
        ConfigProblem::at(&self.name, place, note.what)
    }
}

/// Whether there is something at a path of keys.
pub(super) fn says(values: &Map, path: &[String]) -> bool {
    let mut keys = path.iter();
    let first = keys.next().and_then(|key| values.get(key));
    keys.fold(first, |value, key| value?.get(key)).is_some()
}

/// What files looked like when they were read, the absent ones included: as long as they look the same, nobody has to
/// read them again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<(PathBuf, Option<FileStamp>)>);

/// Device, inode, size and the times of the last changes.
type FileStamp = (u64, u64, u64, (i64, i64), (i64, i64));

impl FileStamps {
    /// Notes what a file looks like. To be called before it is read.
    pub(super) fn note(&mut self, path: &Path) {
        self.0.push((path.to_owned(), stamp(path)));
    }

    /// Whether all of them look the same.
    pub(super) fn are_current(&self) -> bool {
        self.0.iter().all(|(path, noted)| stamp(path) == *noted)
    }
}

fn stamp(path: &Path) -> Option<FileStamp> {
    let found = fs::metadata(path).ok()?;
    let (changed, moved) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
    Some((found.dev(), found.ino(), found.len(), changed, moved))
}

/// Reads a file; nothing if there is none. With `within`, it must lie under that folder and belong to this person or to
/// the administrator: what others put in the way is not read.
pub(super) fn read(path: &Path, within: Option<&Path>) -> Result<Option<ConfigLayer>, ConfigProblem> {
    let name = path.display().to_string();
    if within.is_some() && !is_ours(path) {
        return Err(ConfigProblem::in_file(&name, "it belongs to somebody else and is not read"));
    }
    let text = places::text(path, within).map_err(|why| {
        let why = why.strip_prefix(&format!("{name}: ")).unwrap_or(&why);
        ConfigProblem::unread(&name, None, why)
    })?;
    let Some(text) = text else { return Ok(None) };
    let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    if !is_toml {
        return of_text(&name, &text, &folder).map(Some);
    }
    let values = parse_toml(&text).map_err(|(place, what)| ConfigProblem::unread(&name, place, what))?;
    check_depth(&values).map_err(|what| ConfigProblem::unread(&name, None, what))?;
    Ok(Some(ConfigLayer { name, folder, values, text: ConfigText::Toml(text), doubled: Vec::new() }))
}

/// A configuration in JSON.
pub(super) fn of_text(name: &str, text: &str, folder: &Path) -> Result<ConfigLayer, ConfigProblem> {
    let mut values = parse_json(text).map_err(|(place, what)| ConfigProblem::unread(name, place, what))?;
    check_depth(&values).map_err(|what| ConfigProblem::unread(name, None, what))?;
    let doubled = doubled_key::find(text);
    if doubled.iter().any(|key| key.path.first().is_some_and(|first| first == "sandbox")) {
        values.insert("sandbox".to_owned(), sandbox_choice::strictest());
    }
    let text = ConfigText::Json(text.to_owned());
    Ok(ConfigLayer { name: name.to_owned(), folder: folder.to_owned(), values, text, doubled })
}

/// Rules in JSON, as `permission` has them.
pub(super) fn of_rules(name: &str, text: &str, folder: &Path) -> Result<ConfigLayer, ConfigProblem> {
    let unread = |(place, what): ParseFailure| ConfigProblem::unread(name, place, what);
    let rules = parse_json_value(text).map_err(unread)?;
    if !rules.is_object() && !rules.is_string() {
        return Err(unread((None, "it must be an object, or `allow`, `ask` or `deny`".to_owned())));
    }
    let values = Map::from_iter([(RULES.to_owned(), rules)]);
    check_depth(&values).map_err(|what| unread((None, what)))?;
    let mut doubled = doubled_key::find(text);
    doubled.iter_mut().for_each(|key| key.path.insert(0, RULES.to_owned()));
    let text = ConfigText::Rules(text.to_owned());
    Ok(ConfigLayer { name: name.to_owned(), folder: folder.to_owned(), values, text, doubled })
}

fn is_ours(path: &Path) -> bool {
    let owner = fs::metadata(path).map_or(0, |found| found.uid());
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Refuses what is nested deeper than other values that come from outside: what is trusted of it, and what clients are
/// shown, could be written and never read again.
pub(super) fn check_depth(values: &Map) -> Result<(), String> {
    fn is_deeper(value: &Value, levels: usize) -> bool {
        match (value, levels.checked_sub(1)) {
            (Value::Array(_) | Value::Object(_), None) => true,
            (Value::Array(items), Some(levels)) => items.iter().any(|item| is_deeper(item, levels)),
            (Value::Object(map), Some(levels)) => map.values().any(|value| is_deeper(value, levels)),
            _ => false,
        }
    }
    if values.values().any(|value| is_deeper(value, DEPTH_LIMIT - 1)) {
        return Err(format!("it is nested more than {DEPTH_LIMIT} levels deep"));
    }
    Ok(())
}

/// A place in a file, and what is wrong there.
type ParseFailure = (Option<(usize, usize)>, String);

fn parse_json(text: &str) -> Result<Map, ParseFailure> {
    match parse_json_value(text)? {
        Value::Object(map) => Ok(map),
        _ => Err((None, "it must be an object".to_owned())),
    }
}

fn parse_json_value(text: &str) -> Result<Value, ParseFailure> {
    jsonc_parser::parse_to_serde_value(text, &Default::default())
        .map_err(|error| (place(text, error.range().start), error.kind().to_string()))
}

fn parse_toml(text: &str) -> Result<Map, ParseFailure> {
    toml::from_str::<Map>(text).map_err(|error| {
        let at = error.span().and_then(|span| place(text, span.start));
        (at, error.message().to_owned())
    })
}

/// Later values win; objects are merged key by key.
pub(super) fn merge(into: &mut Map, from: Map) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

/// Puts a value at a path of names, beside what is there.
pub(super) fn put_at(map: &mut Map, name: &[&str], value: Value) {
    let Some((first, rest)) = name.split_first() else { return };
    if rest.is_empty() {
        let mut one = Map::new();
        one.insert((*first).to_owned(), value);
        return merge(map, one);
    }
    let inner = map.entry(*first).or_insert_with(|| Map::new().into());
    if !inner.is_object() {
        *inner = Map::new().into();
    }
    if let Value::Object(inner) = inner {
        put_at(inner, rest, value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_broken_file_is_named_with_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, expected: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let problem = read(&path, None).unwrap_err().to_string();
            let end = "; nothing of this file counts until it is mended, and more is asked";
            assert_eq!(problem, format!("{}{expected}{end}", path.display()), "{text}");
        };
        check(
            "a.json",
            "{\n  \"model\" \"x\"\n}",
            ":2:11: Expected colon after the string or word in object property",
        );
        check("b.json", "[]", ": it must be an object");
        check("c.toml", "model = \"x\"\nbash = = 1\n", ":2:8: extra `=`, expected nothing");
        let folder_path = folder.path().join("d.json");
        fs::create_dir(&folder_path).unwrap();
        let problem = read(&folder_path, None).unwrap_err().to_string();
        assert!(problem.contains("it is a folder, not an ordinary file"), "{problem}");
    }

    #[test]
    fn json_with_comments_and_toml_say_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            read(&folder.path().join(name), None).unwrap().unwrap().values
        };
        let json = check("a.jsonc", "{ // mine\n \"permission\": {\"bash\": {\"git *\": \"allow\"}},}");
        let toml = check("a.toml", "[permission.bash]\n\"git *\" = \"allow\"\n");
        assert_eq!(json, toml);
        assert_eq!(Value::Object(json), json!({"permission": {"bash": {"git *": "allow"}}}));
        assert_eq!(read(&folder.path().join("none.json"), None), Ok(None));
    }

    #[test]
    fn what_is_nested_too_deep_is_not_read() {
        // Trust in it was written, and no trust in any project could be read after that.
        let check = |levels: usize| {
            let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
            of_text("text", &format!("{{\"a\": {}}}", nested(levels - 1)), Path::new("/")).is_ok()
        };
        assert_eq!([DEPTH_LIMIT, DEPTH_LIMIT + 1, 200].map(check), [true, false, false]);
    }

    #[test]
    fn toml_keeps_the_order_of_rules() {
        // They were sorted, and the last one counts: a denial became an exception.
        let text = "[permission.bash]\n\"rm *\" = \"allow\"\n\"git push *\" = \"allow\"\n\"*\" = \"deny\"\n";
        let values = parse_toml(text).unwrap();
        let names: Vec<&String> = values["permission"]["bash"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["rm *", "git push *", "*"]);
    }

    #[test]
    fn a_file_that_changed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, none) = (folder.path().join("a.json"), folder.path().join("b.json"));
        fs::write(&path, "{}").unwrap();
        let mut stamps = FileStamps::default();
        stamps.note(&path);
        stamps.note(&none);
        assert!(stamps.are_current());
        fs::write(&none, "{}").unwrap();
        assert!(!stamps.are_current());
        fs::remove_file(&none).unwrap();
        assert!(stamps.are_current());
        fs::write(&path, "{ }").unwrap();
        assert!(!stamps.are_current());
    }

    #[test]
    fn what_leads_out_of_a_project_is_not_read() {
        let (project, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("x.json"), "{}").unwrap();
        let link = project.path().join("opencode.json");
        std::os::unix::fs::symlink(outside.path().join("x.json"), &link).unwrap();
        let problem = read(&link, Some(project.path())).unwrap_err().to_string();
        assert!(problem.contains("it leads out of the project"), "{problem}");
    }
}
