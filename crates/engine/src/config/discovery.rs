//! From a folder to what is configured there.
//!
//! Nothing here fails: a file that cannot be read, or a setting that cannot be used, is named as a problem and the rest
//! counts. Because the file may have forbidden something, more is asked as long as it cannot be read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use everturn_model::Map;
use everturn_model::permission::{Policy, Rule};
use everturn_tools::places::{ConfigOrigin, NamedPath};
use everturn_tools::websearch::SearchService;
use serde_json::Value;

use super::budget::Budgets;
use super::caution::{Cautions, caution, caution_about};
use super::known_keys::BUILTIN_AGENTS;
use super::layer::{self, ConfigLayer, FileStamps, merge, put_at};
use super::named_files::NamedFiles;
use super::problem::ConfigProblem;
use super::project::{self, ProjectRequest, path_of};
use super::rules::rules;
use super::sandbox_choice::{SandboxChoice, SandboxStrength, SandboxWish};
use super::sources::{ConfigSources, project_folders};
use super::trust::Trust;
use super::unheeded::{self, UnheededContext};
use super::{
    AgentDefinition, Config, agent_definition, check_providers, markdown, misspelling, named_paths,
    placeholders,
};

/// Settings that are one thing for each name in them.
const NAMED: [&str; 4] = ["agent", "command", "mcp", "provider"];

/// A configuration, and what it was made of.
#[derive(Debug)]
pub(crate) struct FoundConfig {
    pub(crate) config: Config,
    folders: Vec<PathBuf>,
    stamps: FileStamps,
}

impl FoundConfig {
    /// Whether looking again would find the same.
    pub(crate) fn is_current(&self, directory: &Path) -> bool {
        project_folders(directory).iter().eq(&self.folders) && self.stamps.are_current()
    }
}

/// Finds what is configured in a folder.
pub(crate) fn find(directory: &Path, sources: &ConfigSources, trust: &Trust, data: &Path) -> FoundConfig {
    let folders = project_folders(directory);
    let root = folders.first().map_or(directory, |root| *root);
    let (stamps, named) = (FileStamps::default(), NamedFiles::of(root));
    let mut reading = ConfigReading { sources, stamps, named, problems: Vec::new() };
    let mut first = reading.read_all(&sources.first_files(), None);
    first.extend(reading.read_markdown(&sources.own, None));
    // A file that the person names is theirs, wherever it lies.
    let mut of_project = sources.project_files(&folders);
    let own: Vec<PathBuf> = sources.first_files().into_iter().chain(sources.last_files()).collect();
    of_project.retain(|path| !own.contains(path));
    let mut brought = reading.read_all(&of_project, Some(root));
    brought.extend(reading.read_markdown(&sources.project_inner_folders(&folders), Some(root)));
    let mut last = reading.read_all(&sources.last_files(), None);
    last.extend(reading.read_markdown(sources.last.as_slice(), None));
    sources.last.iter().for_each(|folder| reading.stamps.note(folder));
    reading.problems.extend(sources.missing());
    for text in sources.texts(directory) {
        match text {
            Ok(layer) => last.push(layer),
            Err(problem) => reading.problems.push(problem),
        }
    }
    for layer in first.iter_mut().chain(&mut brought).chain(&mut last) {
        layer.values.values_mut().for_each(|value| {
            placeholders::anchor(value, &layer.folder, &sources.home);
        });
    }
    let (cautions, stopped) = reading.find_unheeded(&[&first, &brought, &last]);
    for layer in first.iter_mut().chain(&mut brought).chain(&mut last) {
        layer.settle();
    }
    let mut request = project::take_apart(merged(&brought));
    reading.stamps.note(trust.file());
    let (granted, held) = reading.named.read_all(&mut request, &trust.of(root), &mut reading.stamps);
    for refusal in &request.refused {
        let layer = brought.iter().rev().find(|layer| layer.says(&refusal.path)).or(brought.last());
        reading.problems.extend(layer.map(|layer| layer.problem(&refusal.path, refusal.what.clone())));
    }
    let brought_servers =
        granted.keys().filter_map(|item| item.strip_prefix("mcp.").map(str::to_owned)).collect();
    let layers = ConfigLayers { first, request, brought, granted: granted_values(granted), last };
    let mut config = reading.settle(&layers);
    config.held = held;
    config.mcp = config.mcp.with_held(&config.held, root).brought(brought_servers).without(stopped);
    root.clone_into(&mut config.root);
    data.clone_into(&mut config.data);
    if reading.problems.iter().any(|problem| problem.unread) {
        config.rules.bounds.push(caution());
    }
    be_careful(&mut config, cautions);
    config.problems = reading.problems;
    FoundConfig { config, folders: folders.into_iter().map(Path::to_owned).collect(), stamps: reading.stamps }
}

/// Asks for what may have been forbidden.
fn be_careful(config: &mut Config, cautions: Cautions) {
    for (agent, names) in cautions.0 {
        let bound = caution_about(&names);
        let rules = match agent {
            // One that is built in need not be configured.
            Some(name) if BUILTIN_AGENTS.contains(&name.as_str()) => {
                &mut config.agents.entry(name).or_default().rules
            }
            Some(name) => match config.agents.get_mut(&name) {
                Some(agent) => &mut agent.rules,
                None => continue,
            },
            None => &mut config.rules,
        };
        rules.bounds.push(bound);
    }
}

fn granted_values(items: BTreeMap<String, Value>) -> Map {
    let mut values = Map::new();
    for (item, value) in items {
        put_at(&mut values, &path_of(&item), value);
    }
    values
}

fn merged(layers: &[ConfigLayer]) -> Map {
    let mut all = Map::new();
    for layer in layers {
        merge(&mut all, layer.values.clone());
    }
    all
}

/// What was read, by how much it counts.
struct ConfigLayers {
    /// The person's, which count less than the project's.
    first: Vec<ConfigLayer>,
    /// The project's.
    request: ProjectRequest,
    /// The files of it.
    brought: Vec<ConfigLayer>,
    /// What of it the person trusts.
    granted: Map,
    /// The person's, which count more.
    last: Vec<ConfigLayer>,
}

impl ConfigLayers {
    /// The person's own.
    fn person(&self) -> impl Iterator<Item = &Map> {
        self.first.iter().chain(&self.last).map(|layer| &layer.values)
    }

    /// The same as one.
    fn own(&self) -> Map {
        let mut own = merged(&self.first);
        merge(&mut own, merged(&self.last));
        own
    }

    /// All of them as one.
    fn merged(&self) -> Map {
        let mut all = merged(&self.first);
        merge(&mut all, self.request.allowed.clone());
        merge(&mut all, self.granted.clone());
        merge(&mut all, merged(&self.last));
        all
    }

    /// The file of the person's that says something last.
    fn person_file_of(&self, key: &str) -> Option<String> {
        let mut layers = self.last.iter().rev().chain(self.first.iter().rev());
        layers.find(|layer| layer.values.contains_key(key)).map(|layer| layer.name.clone())
    }

    /// What is wrong with a setting, in the file that says something of it last.
    fn problem(&self, path: &[String], what: String) -> ConfigProblem {
        let by_project = layer::says(&self.granted, path) || layer::says(&self.request.allowed, path);
        let project = self.brought.iter().filter(|_| by_project);
        let says = self.first.iter().chain(project).chain(&self.last).rev().find(|layer| layer.says(path));
        match says {
            Some(layer) => layer.problem(path, what),
            None => ConfigProblem::in_file("the environment", what),
        }
    }
}

/// What the files of a project are called where their values are already one.
const PROJECT: &str = "the project's configuration";

/// A configuration in the making.
struct ConfigReading<'s> {
    sources: &'s ConfigSources,
    stamps: FileStamps,
    named: NamedFiles,
    problems: Vec<ConfigProblem>,
}

impl ConfigReading<'_> {
    fn read_all(&mut self, files: &[PathBuf], within: Option<&Path>) -> Vec<ConfigLayer> {
        let mut layers = Vec::new();
        for path in files {
            self.stamps.note(path);
            match layer::read(path, within) {
                Ok(layer) => layers.extend(layer),
                Err(problem) => self.problems.push(problem),
            }
        }
        layers
    }

    fn read_markdown(&mut self, folders: &[PathBuf], within: Option<&Path>) -> Vec<ConfigLayer> {
        let (stamps, problems) = (&mut self.stamps, &mut self.problems);
        folders.iter().flat_map(|folder| markdown::read(folder, within, stamps, problems)).collect()
    }

    /// Names what has no effect. What comes back is what it may have forbidden, and the servers it may have switched off.
    fn find_unheeded(&mut self, layers: &[&[ConfigLayer]]) -> (Cautions, BTreeMap<String, String>) {
        let layers = || layers.iter().copied().flatten();
        let servers = layers().filter_map(|layer| layer.values.get("mcp")?.as_object()).flat_map(Map::keys);
        let context = UnheededContext {
            prefixes: misspelling::prefixes(servers),
            agents: layers().flat_map(|layer| unheeded::own_agents(&layer.values)).collect(),
            home: &self.sources.home,
        };
        let (mut cautions, mut stopped) = (Cautions::default(), BTreeMap::new());
        for layer in layers() {
            let report = unheeded::find(&layer.values, &layer.doubled, &context);
            self.problems.extend(report.notes.into_iter().map(|note| layer.problem_of(note)));
            stopped.extend(report.stopped);
            report.cautions.0.into_iter().for_each(|(agent, names)| cautions.add(agent, names));
        }
        (cautions, stopped)
    }

    /// The typed settings.
    fn settle(&mut self, layers: &ConfigLayers) -> Config {
        let mut raw = layers.merged();
        let key_variables = placeholders::key_variables(&raw);
        self.fill(&mut raw, layers);
        self.drop_odd_providers(&mut raw, layers);
        let websearch =
            SearchService::from_config(&Value::Object(raw.clone()), |name| (self.sources.variables)(name));
        let websearch = websearch.unwrap_or_else(|error| {
            self.problems.push(layers.problem(&["websearch".to_owned()], error.to_string()));
            None
        });
        let mut config = Config::read(raw);
        config.key_variables = key_variables;
        config.websearch = websearch;
        take_rules(&mut config, layers);
        config.sandbox = self.sandbox(layers, &config.rules.person);
        take_agents(&mut config, layers);
        config.budgets = Budgets::settle(&layers.own(), &layers.request.allowed);
        config.instructions = lists(layers, |values| values.get("instructions"));
        config.skills = lists(layers, |values| values.get("skills")?.get("paths"));
        config
    }

    /// How far programs are confined: what the person says, and what a project may.
    fn sandbox(&mut self, layers: &ConfigLayers, rules: &[Rule]) -> SandboxChoice {
        let person = layers.own();
        let project = layers.granted.get("sandbox").or_else(|| layers.request.allowed.get("sandbox"));
        // What is wrong with it was told of the files.
        let (person, _) = SandboxWish::read(person.get("sandbox"), &self.sources.home);
        let (project, _) = SandboxWish::read(project, &self.sources.home);
        let mut choice = SandboxWish::settle(person, project);
        let policy = Policy::new(rules.to_vec());
        for refusal in choice.refusals(&policy) {
            let path: Vec<String> = ["sandbox".to_owned()].into_iter().chain(refusal.key).collect();
            let layer = layers.brought.iter().rev().find(|layer| layer.says(&path));
            self.problems.extend(layer.map(|layer| layer.problem(&path, refusal.what)));
        }
        if choice.is_off_by_project {
            choice.strength = choice.under(&policy).strength;
            choice.is_off_by_project = choice.strength == SandboxStrength::Off;
        }
        let off_by = (choice.strength == SandboxStrength::Off).then(|| {
            let own = || layers.person_file_of("sandbox").unwrap_or_else(|| "the environment".to_owned());
            if choice.is_off_by_project { PROJECT.to_owned() } else { own() }
        });
        SandboxChoice { off_by, ..choice }
    }

    /// Fills the places of texts. A setting that names what cannot be read is left out.
    fn fill(&mut self, raw: &mut Map, layers: &ConfigLayers) {
        let mut failed: Vec<(Vec<String>, String)> = Vec::new();
        for (key, value) in raw.iter_mut() {
            match value {
                Value::Object(named) if NAMED.contains(&key.as_str()) => {
                    for (name, value) in named {
                        if let Err(why) =
                            placeholders::fill(value, self.sources, &self.named, &mut self.stamps)
                        {
                            failed.push((vec![key.clone(), name.clone()], why));
                        }
                    }
                }
                value => {
                    if let Err(why) = placeholders::fill(value, self.sources, &self.named, &mut self.stamps) {
                        failed.push((vec![key.clone()], why));
                    }
                }
            }
        }
        for (path, why) in failed {
            self.drop_setting(raw, &path, layers, &why);
        }
    }

    /// Leaves out what says nothing usable about providers and models.
    fn drop_odd_providers(&mut self, raw: &mut Map, layers: &ConfigLayers) {
        let single = |key: &str, value: &Value| {
            let mut one = Map::new();
            one.insert(key.to_owned(), value.clone());
            one
        };
        let mut odd = Vec::new();
        for key in ["enabled_providers", "disabled_providers", "provider"] {
            match raw.get(key) {
                Some(Value::Object(named)) if key == "provider" => {
                    for (name, value) in named {
                        let only = single(name, value);
                        if let Err(error) = check_providers(&single(key, &only.into())) {
                            odd.push((vec![key.to_owned(), name.clone()], error.to_string()));
                        }
                    }
                }
                Some(value) => {
                    if let Err(error) = check_providers(&single(key, value)) {
                        odd.push((vec![key.to_owned()], error.to_string()));
                    }
                }
                None => {}
            }
        }
        for (path, why) in odd {
            self.drop_setting(raw, &path, layers, &why);
        }
    }

    fn drop_setting(&mut self, raw: &mut Map, path: &[String], layers: &ConfigLayers, why: &str) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let what = format!("`{}` is left out: {why}", words.join("."));
        self.problems.push(layers.problem(path, what));
        match words.as_slice() {
            [key, name] => {
                drop(raw.get_mut(*key).and_then(Value::as_object_mut).map(|map| map.shift_remove(*name)));
            }
            [key] => drop(raw.shift_remove(*key)),
            _ => {}
        }
    }
}

fn take_rules(config: &mut Config, layers: &ConfigLayers) {
    let person = layers.person().filter_map(|values| values.get("permission"));
    config.rules.person = person.flat_map(rules).collect();
    match layers.granted.get("permission") {
        Some(granted) => config.rules.project = rules(granted),
        None if layers.request.restrictions.is_empty() => {}
        None => config.rules.bounds.push(layers.request.restrictions.clone().into()),
    }
}

fn take_agents(config: &mut Config, layers: &ConfigLayers) {
    let values = config.raw.get("agent").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in values {
        let path = |values: &Map| values.get("agent")?.get(name).map(agent_definition::rules_in);
        let mut definition = AgentDefinition::default();
        definition.refine(value);
        definition.rules.person = layers.person().filter_map(path).flatten().collect();
        definition.rules.project = path(&layers.granted).unwrap_or_default();
        if let Some(restrictions) = layers.request.agent_restrictions.get(name)
            && definition.rules.project.is_empty()
        {
            definition.rules.bounds.push(restrictions.clone().into());
        }
        config.agents.insert(name.clone(), definition);
    }
}

/// The lists of all files one after another: each file adds to what is looked at.
fn lists(layers: &ConfigLayers, list: impl Fn(&Map) -> Option<&Value>) -> Vec<NamedPath> {
    let named = |values: &Map, by| named_paths(list(values), by);
    let mut all: Vec<NamedPath> =
        layers.first.iter().flat_map(|layer| named(&layer.values, ConfigOrigin::Person)).collect();
    all.extend(named(&layers.request.allowed, ConfigOrigin::Project));
    // What lies outside the project was named by it and looked at by the person.
    all.extend(named(&layers.granted, ConfigOrigin::Person));
    all.extend(layers.last.iter().flat_map(|layer| named(&layer.values, ConfigOrigin::Person)));
    all
}
