//! Tool chains and caches that are not where most people have them: a person's own variables say where, and so do links
//! among tool chains.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;

use crate::scope::{fold, real};

/// Variables that name a folder of a tool's, or a file, with what of it can be read.
const READABLE: [(&str, &[&str]); 25] = [
    ("ASDF_DATA_DIR", &[""]),
    ("ASDF_DIR", &[""]),
    ("BUN_INSTALL", &["bin"]),
    ("CARGO_HOME", &["bin", "config", "config.toml", "env"]),
    ("CONDA_PREFIX", &[""]),
    ("CURL_CA_BUNDLE", &[""]),
    ("DENO_INSTALL", &["bin"]),
    ("FNM_DIR", &[""]),
    ("GIT_SSL_CAINFO", &[""]),
    ("GOPATH", &["bin"]),
    ("GOROOT", &[""]),
    ("JAVA_HOME", &[""]),
    ("MISE_DATA_DIR", &[""]),
    ("NODE_EXTRA_CA_CERTS", &[""]),
    ("NVM_DIR", &[""]),
    ("PIP_CERT", &[""]),
    ("PNPM_HOME", &[""]),
    ("PYENV_ROOT", &[""]),
    ("RBENV_ROOT", &[""]),
    ("REQUESTS_CA_BUNDLE", &[""]),
    ("RUSTUP_HOME", &[""]),
    ("SDKMAN_DIR", &["candidates"]),
    ("SSL_CERT_FILE", &[""]),
    ("VIRTUAL_ENV", &[""]),
    ("VOLTA_HOME", &[""]),
];

/// Variables that name a folder of which something is a cache that tools fill while they work.
const WRITABLE: [(&str, &[&str]); 14] = [
    ("CARGO_HOME", &[".global-cache", ".package-cache", ".package-cache-mutate", "git", "registry"]),
    ("CARGO_TARGET_DIR", &[""]),
    ("CCACHE_DIR", &[""]),
    ("GOCACHE", &[""]),
    ("GOMODCACHE", &[""]),
    ("GOPATH", &["pkg/mod"]),
    ("GRADLE_USER_HOME", &["caches"]),
    ("NPM_CONFIG_CACHE", &[""]),
    ("PIP_CACHE_DIR", &[""]),
    ("SCCACHE_DIR", &[""]),
    ("UV_CACHE_DIR", &[""]),
    (
        "XDG_CACHE_HOME",
        &["go-build", "node", "pip", "pnpm", "pypoetry/artifacts", "pypoetry/cache", "uv", "yarn"],
    ),
    ("YARN_CACHE_FOLDER", &[""]),
    ("npm_config_cache", &[""]),
];

/// Folders in the home folder with tool chains, some of which may be links to others.
const LINKED: [&str; 3] = [".nvm/versions/node", ".pyenv/versions", ".rustup/toolchains"];

/// Where a person's tools are besides the well-known places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolPlaces {
    /// Tool chains, to be read.
    pub readable: Vec<PathBuf>,
    /// Caches, to be filled.
    pub writable: Vec<PathBuf>,
    /// Folders in which programs are looked up by name.
    pub programs: Vec<PathBuf>,
}

impl ToolPlaces {
    /// What the variables of whoever started us name. They are the person's: a project cannot set them. A place that
    /// is the home folder, or one above it, however it is written, is passed over.
    pub fn of(variables: impl IntoIterator<Item = (String, String)>, home: &Path) -> Self {
        let mut places = Self::default();
        let home = real(home);
        let narrow = |path: PathBuf| {
            let led = fs::canonicalize(&path).unwrap_or_else(|_| real(&fold(&path)));
            let is_narrow = path.is_absolute() && !home.starts_with(&led) && led.parent().is_some();
            // A path that goes up again is no place by which something could be listed.
            let goes_up = path.components().any(|part| part == Component::ParentDir);
            is_narrow.then_some(if goes_up { led } else { path })
        };
        for (name, value) in variables {
            let inner = |list: &[(&str, &[&str])]| {
                let known = list.iter().filter(|(known, _)| *known == name).flat_map(|(_, inner)| *inner);
                let paths =
                    known.map(|inner| Path::new(&value).join(inner).components().collect::<PathBuf>());
                paths.filter_map(narrow).collect::<Vec<PathBuf>>()
            };
            places.readable.extend(inner(&READABLE));
            places.writable.extend(inner(&WRITABLE));
            if name == "PATH" {
                let folders: Vec<PathBuf> = value.split(':').map(PathBuf::from).filter_map(narrow).collect();
                places.programs.extend(folders.iter().cloned());
                // What stands in for a tool there looks for the real one beside its folder.
                let whole = |folder: PathBuf| match folder.parent() {
                    Some(parent) if folder.ends_with("shims") => parent.to_owned(),
                    _ => folder,
                };
                places.readable.extend(folders.into_iter().map(whole).filter_map(narrow));
            }
        }
        places
    }
}

/// The environments that tools keep for a project in the home folder, named after where it is: poetry by its folder,
/// pipenv by its file. Those of others are not shown.
pub(super) fn environments<'a>(home: &Path, projects: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let folders = [".cache/pypoetry/virtualenvs", ".local/share/virtualenvs"].map(|name| home.join(name));
    let entries =
        folders.iter().filter(|_| home.is_absolute()).filter_map(|folder| fs::read_dir(folder).ok());
    let entries = entries.flatten().flatten();
    let found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    if found.is_empty() {
        return found;
    }
    let marks: Vec<String> =
        projects.flat_map(|project| [mark(project), mark(&project.join("Pipfile"))]).collect();
    let is_of_project = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        marks.iter().any(|mark| name.ends_with(mark.as_str()) || name.contains(&format!("{mark}-py")))
    };
    found.into_iter().filter(is_of_project).collect()
}

/// What such tools put behind the name of a project.
fn mark(path: &Path) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, path.as_os_str().as_encoded_bytes());
    let text = base64::engine::general_purpose::URL_SAFE.encode(digest.as_ref());
    format!("-{}", text.get(..8).unwrap_or_default())
}

/// Where links among the tool chains in the home folder lead.
pub(super) fn linked(home: &Path) -> Vec<PathBuf> {
    if !home.is_absolute() {
        // What is taken from here may be a project's.
        return Vec::new();
    }
    let folders = LINKED.iter().filter_map(|name| fs::read_dir(home.join(name)).ok());
    let links =
        folders.flatten().flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
    let targets = links.filter_map(|entry| fs::canonicalize(entry.path()).ok());
    targets.filter(|target| !home.starts_with(target)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_name_places_and_never_the_whole_home() {
        let check = |name: &str, value: &str, readable: &[&str], writable: &[&str]| {
            let places = ToolPlaces::of([(name.to_owned(), value.to_owned())], Path::new("/people/a"));
            let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
            assert_eq!(
                (places.readable, places.writable),
                (paths(readable), paths(writable)),
                "{name}={value}"
            );
        };
        check("RUSTUP_HOME", "/opt/rust", &["/opt/rust"], &[]);
        check("GOPATH", "/data/go", &["/data/go/bin"], &["/data/go/pkg/mod"]);
        check("GOPATH", "/people/a", &["/people/a/bin"], &["/people/a/pkg/mod"]);
        check("PATH", "/people/a/bin:/usr/bin::.:/people/a:/people:/", &["/people/a/bin", "/usr/bin"], &[]);
        check("PATH", "/people/b/.pyenv/shims:/people/a/shims", &["/people/b/.pyenv"], &[]);
        check("npm_config_cache", "/people/a/", &[], &[]);
        check("PIP_CACHE_DIR", "relative", &[], &[]);
        check("SECRET_DIR", "/people/a/.ssh", &[], &[]);
        check("PATH", "/people/a/x/..:/people/a/x/../y", &["/people/a/y"], &[]);
    }

    #[test]
    fn a_variable_that_leads_to_the_home_by_a_link_is_passed_over() {
        // All of the home was shown, or open.
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let home = base.join("people/me");
        fs::create_dir_all(home.join("tools")).unwrap();
        for (link, target) in [("mine", "people/me"), ("above", "people"), ("tools", "people/me/tools")] {
            std::os::unix::fs::symlink(target, base.join(link)).unwrap();
        }
        let places = |name: &str, value: &str, home: &Path| {
            let value = value.replace('%', base.to_str().unwrap());
            ToolPlaces::of([(name.to_owned(), value)], home)
        };
        for name in ["JAVA_HOME", "CARGO_TARGET_DIR", "PATH"] {
            for value in ["%/mine", "%/above", "%/mine/", "%/mine/tools/..", "%/tools/..", "%/mine/../me"] {
                assert_eq!(places(name, value, &home), ToolPlaces::default(), "{name}={value}");
            }
            // The home itself may be written with a link.
            assert_eq!(places(name, "%/people/me", &base.join("mine")), ToolPlaces::default(), "{name}");
        }
        let kept = places("JAVA_HOME", "%/tools", &home).readable;
        assert_eq!(kept, [base.join("tools")]);
    }

    #[test]
    fn links_among_tool_chains_are_followed() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap().join("home");
        let built = folder.path().canonicalize().unwrap().join("built");
        fs::create_dir_all(home.join(".rustup/toolchains/stable")).unwrap();
        fs::create_dir(&built).unwrap();
        std::os::unix::fs::symlink(&built, home.join(".rustup/toolchains/dev")).unwrap();
        std::os::unix::fs::symlink("/", home.join(".rustup/toolchains/all")).unwrap();
        assert_eq!(linked(&home), [built]);
    }
}
