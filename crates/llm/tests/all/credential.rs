//! Keys in a file: who may read it, what is kept of it, and that no key shows itself.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use everturn_llm::catalogue::Catalogue;
use everturn_llm::credential::{AuthEntry, CredentialError, FoundKey, KeySource};
use everturn_llm::{AuthFile, Keyring, Secret};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("data/auth.json")
    }

    fn file(&self) -> AuthFile {
        AuthFile::new(self.path())
    }

    fn with(text: &str, mode: u32) -> Self {
        let place = Self::new();
        fs::create_dir(place.path().parent().unwrap()).unwrap();
        fs::write(place.path(), text).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
        place
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// All names in the folder of the file.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path().parent().unwrap()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn key(text: &str) -> Secret {
    Secret::from(text)
}

#[test]
fn a_key_is_kept_for_this_person_only() {
    let place = Place::new();
    assert_eq!(place.file().key("openai").unwrap(), None);
    assert_eq!(place.file().entries().unwrap(), []);
    place.file().put("openai", &key(" sk-one\n")).unwrap();
    assert_eq!(place.file().key("openai").unwrap(), Some(key("sk-one")));
    assert_eq!(place.text(), "{\n  \"openai\": {\"type\":\"api\",\"key\":\"sk-one\"}\n}\n");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(place.path()), mode(place.path().parent().unwrap().to_owned())), (0o600, 0o700));
    assert_eq!(place.names(), ["auth.json"]);
}

#[test]
fn entries_of_others_stay_as_they_are() {
    let foreign = "{\"type\": \"oauth\",  \"refresh\":\"r\", \"expires\": 1.0e3, \"n\": 123456789012345678901234567890}";
    let place = Place::with(
        &format!("{{\"x\": 7, \"anthropic\": {foreign}, \"groq\": {{\"type\":\"api\",\"key\":\"k\"}}}}"),
        0o600,
    );
    place.file().put("openai", &key("sk-two")).unwrap();
    assert!(place.file().remove("groq").unwrap());
    assert!(!place.file().remove("groq").unwrap());
    let expected = format!(
        "{{\n  \"anthropic\": {foreign},\n  \"openai\": {{\"type\":\"api\",\"key\":\"sk-two\"}},\n  \"x\": 7\n}}\n"
    );
    assert_eq!(place.text(), expected);
    assert_eq!(place.file().key("anthropic").unwrap(), None);
    let entry = |provider: &str, kind: &str| AuthEntry { provider: provider.into(), kind: kind.into() };
    assert_eq!(
        place.file().entries().unwrap(),
        [entry("anthropic", "oauth"), entry("openai", "api"), entry("x", "")]
    );
    assert!(place.file().remove("anthropic").unwrap() && place.file().remove("openai").unwrap());
    assert!(place.file().remove("x").unwrap());
    assert_eq!(place.text(), "{}\n");
}

#[test]
fn a_file_that_others_may_read_is_refused() {
    for mode in [0o640, 0o604, 0o660, 0o644] {
        let place = Place::with(r#"{"openai":{"type":"api","key":"sk-three"}}"#, mode);
        let path = place.path();
        let expected = format!(
            "others may read the keys in {0} (its mode is {mode:o}): run `chmod 600 {0}`, and replace the keys if somebody else uses this machine",
            path.display()
        );
        let file = place.file();
        let errors = [
            file.key("openai").unwrap_err(),
            file.entries().unwrap_err(),
            file.put("groq", &key("sk-four")).unwrap_err(),
            file.remove("openai").unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(place.text(), r#"{"openai":{"type":"api","key":"sk-three"}}"#);
    }
}

#[test]
fn what_cannot_be_read_is_reported_without_what_is_in_it() {
    for text in ["[\"sk-secret\"]", "\"sk-secret\"", "{\"openai\": sk-secret}", "{\"openai\": \"sk-secret\""]
    {
        let place = Place::with(text, 0o600);
        let error = place.file().key("openai").unwrap_err();
        assert!(
            matches!(&error, CredentialError::Malformed { path, .. } if *path == place.path()),
            "{error}"
        );
        assert!(!format!("{error} {error:?}").contains("sk-secret"), "{error}");
        // A file that is not understood is not overwritten.
        place.file().put("groq", &key("k")).unwrap_err();
        assert_eq!(place.text(), text);
    }
    let odd =
        Place::with(r#"{"openai": {"type": "api", "key": 5}, "groq": {"type": "api", "key": " "}}"#, 0o600);
    assert_eq!((odd.file().key("openai").unwrap(), odd.file().key("groq").unwrap()), (None, None));
}

#[test]
fn what_is_no_key_is_not_kept() {
    let place = Place::new();
    for text in ["", " \n", "sk-sec\nret", "sk-sec\0ret"] {
        let error = place.file().put("openai", &key(text)).unwrap_err();
        assert_eq!(error.to_string(), "the key for openai is empty or has a line break in it: copy it again");
    }
    assert!(!place.path().exists());
}

#[test]
fn a_link_stays_a_link() {
    let place = Place::with("{}", 0o600);
    let link = place.folder.path().join("link.json");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    AuthFile::new(&link).put("openai", &key("sk-five")).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(place.file().key("openai").unwrap(), Some(key("sk-five")));
}

#[test]
fn writers_do_not_forget_one_another() {
    let place = Place::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let file = place.file();
            scope.spawn(move || file.put(&format!("p{number}"), &key("sk-six")).unwrap());
        }
    });
    assert_eq!(place.file().entries().unwrap().len(), 8);
    assert_eq!(place.names(), ["auth.json"]);
}

#[test]
fn the_file_is_asked_last() {
    let place = Place::new();
    place.file().put("openai", &key("sk-file")).unwrap();
    let provider = Catalogue::builtin().provider("openai").unwrap();
    let file = place.file();
    let unset = |_: &str| None;
    let keyring = Keyring::new(&unset, vec![file.clone()]);
    let in_file = FoundKey { key: key("sk-file"), source: KeySource::File(place.path()) };
    assert_eq!(keyring.require(provider).unwrap(), in_file);
    let usable = keyring.usable().unwrap();
    let usable: Vec<&str> =
        Catalogue::builtin().providers().filter(|each| usable(each)).map(|each| each.id.as_ref()).collect();
    assert_eq!(usable, ["openai"]);
    let set = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-variable".to_owned());
    let found = Keyring::new(&set, vec![file]).find(provider).unwrap();
    assert_eq!(
        found,
        Some(FoundKey { key: key("sk-variable"), source: KeySource::Variable("OPENAI_API_KEY".into()) })
    );
    let groq = Catalogue::builtin().provider("groq").unwrap();
    assert_eq!(
        keyring.require(groq).unwrap_err().to_string(),
        format!(
            "there is no key for groq: set GROQ_API_KEY, or set its `apiKey` in the configuration, or add it to {}",
            place.path().display()
        )
    );
    assert!(!format!("{keyring:?} {in_file:?}").contains("sk-"));
}
