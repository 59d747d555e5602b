//! The engine stays in parts that a reader can hold: no file of it is long, and its handle only leads to its services.

use super::{check, files, read};

/// The longest file of the engine, in lines.
const LONGEST: usize = 400;

/// How many methods the handle may have.
const METHODS: usize = 30;

/// What there is to say against the length of the engine's files.
fn complaints(files: impl Iterator<Item = (String, usize)>) -> Vec<String> {
    let long = files.filter(|(_, lines)| *lines > LONGEST);
    long.map(|(file, lines)| format!("{file}: {lines} lines, more than {LONGEST}")).collect()
}

/// The methods that a text gives to the handle itself, whoever may call them. Those of traits do not count.
fn methods(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut methods = Vec::new();
    for line in text.lines() {
        match line {
            "impl Engine {" => inside = true,
            "}" => inside = false,
            _ => {}
        }
        let Some(item) = line.strip_prefix("    ").filter(|item| inside && !item.starts_with(' ')) else {
            continue;
        };
        if let Some((before, after)) = item.split_once("fn ")
            && before.split_whitespace().all(is_qualifier)
        {
            methods.extend(after.split(['(', '<']).next());
        }
    }
    methods
}

/// Whether a word may stand before `fn`.
fn is_qualifier(word: &str) -> bool {
    matches!(word, "pub" | "const" | "async" | "unsafe") || word.starts_with("pub(")
}

/// The source files of the engine.
fn sources() -> Vec<String> {
    let sources = |file: &String| file.starts_with("crates/engine/src/") && file.ends_with(".rs");
    let sources: Vec<String> = files().into_iter().filter(sources).collect();
    assert!(sources.len() > 50, "the files of the engine are found");
    sources
}

#[test]
fn no_file_of_the_engine_is_long() {
    check(&complaints(sources().into_iter().map(|file| {
        let lines = read(&file).lines().count();
        (file, lines)
    })));
}

#[test]
fn the_handle_only_leads_to_services() {
    let texts: Vec<String> = sources().iter().map(|file| read(file)).collect();
    let methods: Vec<&str> = texts.iter().flat_map(|text| methods(text)).collect();
    for known in ["open", "close", "sessions"] {
        assert!(methods.contains(&known), "the methods are found: {methods:?}");
    }
    assert!(methods.len() <= METHODS, "{} methods, more than {METHODS}: {methods:?}", methods.len());
}

#[test]
fn long_files_and_methods_are_seen() {
    let of = |lines| [("crates/engine/src/turn.rs".to_owned(), lines)].into_iter();
    assert_eq!(complaints(of(400)), Vec::<String>::new());
    assert_eq!(complaints(of(401)), ["crates/engine/src/turn.rs: 401 lines, more than 400"]);
    let text = "\
impl Engine {
    /// A `fn ` in words.
    pub async fn open(options: Options) -> Result<Self, Error> {
        let inner = |fn_name| fn_name;
        fn nested() {}
    }

    #[must_use]
    pub const fn bus(&self) -> &Bus {
    }

    pub(crate) fn at<T>(&self) {}
    fn own(&self) {}
}

impl Deref for Engine {
    fn deref(&self) {}
}
";
    assert_eq!(methods(text), ["open", "bus", "at", "own"]);
}
