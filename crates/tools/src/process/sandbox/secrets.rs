//! What is known to hold keys, logins and other projects' work. It is not shown where something around it is.

use std::collections::VecDeque;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

use super::policy::{SandboxPolicy, is_of_system};

/// Secrets of the machine, which a program of root's could read.
pub(super) const SYSTEM_SECRETS: [&str; 15] = [
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt",
    "/etc/mysql/debian.cnf",
    "/etc/openvpn",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/wireguard",
];

/// What people and tools keep secrets in, below the home folder. A star at the end stands for the rest of a name.
///
/// Most of the home folder is not shown. This is for what lies in a tool chain or a cache that is, for a home folder that
/// is the project, and for what somebody has permitted.
const HOME_SECRETS: [&str; 112] = [
    // Keys and logins of people.
    ".gnupg",
    ".local/share/gnupg",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".netrc",
    ".password-store",
    ".ssh",
    // Wallets.
    ".bitcoin",
    ".bitmonero",
    ".config/Exodus",
    ".config/Ledger Live",
    ".config/solana",
    ".dogecoin",
    ".electrum",
    ".ethereum",
    ".litecoin",
    ".monero",
    "Monero",
    // Browsers, with whatever one is logged in to.
    ".cache/ms-playwright/mcp-*",
    ".config/BraveSoftware",
    ".config/chromium",
    ".config/google-chrome",
    ".config/microsoft-edge",
    ".mozilla",
    ".thunderbird",
    // What was typed.
    ".bash_history",
    ".mysql_history",
    ".node_repl_history",
    ".psql_history",
    ".python_history",
    ".zsh_history",
    // Forges.
    ".config/gh",
    ".config/git/credentials",
    ".config/github-copilot",
    ".config/glab-cli",
    ".config/hub",
    ".git-credentials",
    ".subversion/auth",
    // Clouds and containers.
    ".aws",
    ".azure",
    ".boto",
    ".config/containers",
    ".config/doctl",
    ".config/fly",
    ".config/gcloud",
    ".config/hcloud",
    ".config/heroku",
    ".config/helm",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".databrickscfg",
    ".docker",
    ".fly",
    ".kube",
    ".oci",
    ".pulumi/credentials.json",
    ".s3cfg",
    ".snowflake",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    // Databases.
    ".my.cnf",
    ".mylogin.cnf",
    ".pgpass",
    // Models, data and agents.
    ".cache/huggingface/stored_tokens",
    ".cache/huggingface/token",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/kaggle",
    ".gemini",
    ".huggingface",
    ".kaggle",
    ".local/share/opencode",
    // Registries of packages. Settings of clients are among them, because tokens are kept there.
    ".bundle/config",
    ".cabal/config",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".config/NuGet",
    ".config/composer/auth.json",
    ".config/configstore",
    ".config/coursier",
    ".config/pip",
    ".config/pnpm",
    ".config/pypoetry",
    ".config/uv",
    ".config/yarn",
    ".gem/credentials",
    ".gradle/gradle.properties",
    ".gradle/init.d",
    ".gradle/init.gradle",
    ".hex",
    ".ivy2/.credentials",
    ".lein/credentials.clj.gpg",
    ".local/share/gem/credentials",
    ".local/share/uv/credentials",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".npmrc",
    ".nuget/NuGet",
    ".opam/plugins/opam-publish",
    ".pip",
    ".pypirc",
    ".rye/credentials",
    ".sbt/.credentials",
    ".yarnrc",
    ".yarnrc.yml",
    // Environments of projects: those of this one are listed by themselves.
    ".cache/pypoetry/virtualenvs",
    ".local/share/virtualenvs",
    ".virtualenvs",
];

/// How much of what is in a place with secrets is looked at for links, at every depth. Profiles of browsers have more.
const MOST_LINKS: usize = 256;

/// Hides what holds secrets below a home folder, where it would be shown, or could be made. What somebody has listed by
/// its own name is shown.
pub(crate) fn hide_secrets(policy: &mut SandboxPolicy, home: &Path) {
    if !home.is_absolute() || home.parent().is_none() {
        return;
    }
    let around_home = policy.writable.iter().any(|folder| home.starts_with(folder));
    let in_home = policy.writable.iter().filter_map(|folder| folder.strip_prefix(home).ok());
    let in_home: Vec<Vec<u8>> =
        in_home.map(|folder| folder.join("").as_os_str().as_encoded_bytes().to_vec()).collect();
    for name in HOME_SECRETS {
        let mut paths = found(home, name);
        // What is not there can hold no secret yet, but a key or a setting that somebody else chose.
        let can_be_made = || around_home || in_home.iter().any(|folder| name.as_bytes().starts_with(folder));
        if paths.is_empty() && !name.ends_with('*') && can_be_made() {
            paths.push(home.join(name));
        }
        for path in paths.into_iter().flat_map(|path| with_targets(path, home)) {
            let mut listed = policy.readable.iter().chain(&policy.writable).chain(&policy.unlinked);
            let is_listed = listed.any(|listed| *listed == path);
            if policy.shows(&path) && !is_listed {
                policy.hidden.push(path);
            }
        }
    }
}

/// All places with secrets below a home folder, and what they lead to, whether they are there or not.
pub(super) fn home_secrets(home: &Path) -> impl Iterator<Item = PathBuf> {
    HOME_SECRETS.into_iter().flat_map(move |name| {
        let mut paths = found(home, name);
        if paths.is_empty() && !name.ends_with('*') {
            paths.push(home.join(name));
        }
        paths.into_iter().flat_map(move |path| with_targets(path, home))
    })
}

/// A place with secrets, and the places that it leads to: what lies there is the same. What is nearer to it comes first.
fn with_targets(path: PathBuf, home: &Path) -> Vec<PathBuf> {
    let real = fs::canonicalize(&path).ok().filter(|real| *real != path);
    // Environments have links to interpreters and nothing of their own that is secret.
    let is_environment =
        path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b"virtualenvs"));
    let mut next: VecDeque<PathBuf> = VecDeque::new();
    next.extend((!is_environment).then(|| path.clone()));
    let mut places: Vec<PathBuf> = iter::once(path).chain(real).collect();
    let mut room = MOST_LINKS;
    while let Some(folder) = next.pop_front() {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.take(room) {
            room -= 1;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => next.push_back(entry.path()),
                Ok(kind) if kind.is_symlink() => {
                    places.extend(fs::canonicalize(entry.path()).ok().filter(|real| !is_of_tool(real, home)));
                }
                _ => {}
            }
        }
        if room == 0 {
            break;
        }
    }
    places
}

/// Whether something is the system's or a tool's, such as a plugin that a store has a link to.
fn is_of_tool(path: &Path, home: &Path) -> bool {
    is_of_system(path) || SandboxPolicy::home_places(home).iter().any(|place| path.starts_with(place))
}

/// What there is of a name.
fn found(home: &Path, name: &str) -> Vec<PathBuf> {
    let path = home.join(name);
    let Some(beginning) = name.strip_suffix('*') else {
        return if fs::symlink_metadata(&path).is_ok() { vec![path] } else { Vec::new() };
    };
    let folder = home.join(beginning).parent().map(Path::to_owned).unwrap_or_default();
    let start = home.join(beginning);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        path.as_os_str().as_encoded_bytes().starts_with(start.as_os_str().as_encoded_bytes())
    };
    entries.map(|entry| entry.path()).filter(is_one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::policy::SandboxMode;
    use super::*;

    #[test]
    fn what_holds_secrets_is_shown_by_its_own_name_alone() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let names = HOME_SECRETS.map(|name| home.join(name.replace('*', "x")));
        for name in &names {
            fs::create_dir_all(name).unwrap();
        }
        // The home folder is the project.
        let mut policy = SandboxPolicy::of(SandboxMode::Workspace, [&home].into_iter(), &home);
        hide_secrets(&mut policy, &home);
        for name in &names {
            assert!(!policy.shows(name), "{}", name.display());
        }
        let mut policy = SandboxPolicy::of(SandboxMode::Workspace, [&home].into_iter(), &home);
        policy.permit_reading(&home.join(".ssh"));
        hide_secrets(&mut policy, &home);
        assert!(policy.shows(&home.join(".ssh/id")) && !policy.shows(&home.join(".aws/credentials")));
        // Nothing is hidden that is not shown anyway.
        let elsewhere = folder.path().join("project");
        let mut policy = SandboxPolicy::of(SandboxMode::Workspace, [&elsewhere].into_iter(), &home);
        let before = policy.hidden.len();
        hide_secrets(&mut policy, &home);
        let below = |path: &PathBuf| path.strip_prefix(&home).unwrap().display().to_string();
        let hidden: Vec<String> = policy.hidden.iter().skip(before).map(below).collect();
        assert_eq!(hidden, [".cache/ms-playwright/mcp-x", ".opam/plugins/opam-publish", ".rye/credentials"]);
    }
}
