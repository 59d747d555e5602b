//! Keys, tokens and other people's work in the home folder: a canary in each, which no command finds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use everturn_tools::process::sandbox::SandboxSettings;
use everturn_tools::{Failure, Scope};

use super::places::run;
use super::{all, enclosed, require_whole};
use crate::bash::command;
use crate::harness::Project;

/// What well-known tools keep keys in, or logins, or what belongs to another project.
const KEPT: [&str; 76] = [
    ".aws/credentials",
    ".azure/msal_token_cache.json",
    ".bash_history",
    ".boto",
    ".bundle/config",
    ".cache/huggingface/token",
    ".cache/ms-playwright/mcp-chrome-1a2b3c/Default/Cookies",
    ".cache/ms-playwright/mcp-chrome-profile/Default/Cookies",
    ".cache/pypoetry/virtualenvs/other-AAAAAAAA-py3.12/lib/secret.py",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".composer/auth.json",
    ".config/chromium/Default/Cookies",
    ".config/composer/auth.json",
    ".config/containers/auth.json",
    ".config/coursier/credentials.properties",
    ".config/doctl/config.yaml",
    ".config/gcloud/credentials.db",
    ".config/gh/hosts.yml",
    ".config/git/credentials",
    ".config/github-copilot/hosts.json",
    ".config/glab-cli/config.yml",
    ".config/google-chrome/Default/Cookies",
    ".config/hub",
    ".config/NuGet/NuGet.Config",
    ".config/op/config",
    ".config/pip/pip.conf",
    ".config/pnpm/rc",
    ".config/pypoetry/auth.toml",
    ".config/rclone/rclone.conf",
    ".config/yarn/config",
    ".databrickscfg",
    ".docker/config.json",
    ".gem/credentials",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg/private-keys-v1.d/x.key",
    ".gradle/gradle.properties",
    ".gradle/init.gradle",
    ".hex/hex.config",
    ".ivy2/.credentials",
    ".kaggle/kaggle.json",
    ".kube/config",
    ".local/share/gem/credentials",
    ".local/share/keyrings/login.keyring",
    ".local/share/opencode/auth.json",
    ".local/share/uv/credentials/credentials.toml",
    ".local/share/virtualenvs/other-AAAAAAAA/lib/secret.py",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".mozilla/firefox/x/logins.json",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".nuget/NuGet/NuGet.Config",
    ".oci/config",
    ".opam/plugins/opam-publish/x.token",
    ".password-store/x.gpg",
    ".pgpass",
    ".pip/pip.conf",
    ".pulumi/credentials.json",
    ".pypirc",
    ".rye/credentials",
    ".s3cfg",
    ".sbt/.credentials",
    ".ssh/id_ed25519",
    ".subversion/auth/svn.simple/x",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".yarnrc",
    ".yarnrc.yml",
    ".zsh_history",
];

/// What the sandbox is there to show.
const SHOWN: [&str; 9] = [
    ".cache/ms-playwright/chromium-1/chrome",
    ".cache/pypoetry/artifacts/x",
    ".cargo/bin/x",
    ".gradle/caches/x",
    ".local/share/uv/python/x",
    ".local/share/uv/tools/x",
    ".m2/repository/x",
    ".opam/default/bin/x",
    ".rye/py/x",
];

fn plant(home: &Path, names: &[&str]) {
    for name in names {
        fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        fs::write(home.join(name), format!("canary {name}\n")).unwrap();
    }
}

/// The canaries that a command in a sandbox finds, by name.
async fn found(project: &Project) -> Vec<String> {
    let line = format!("h=$(echo {}); grep -rhs '^canary ' $h", project.scope.home.display());
    let output = project.run_with(Vec::new(), &enclosed(all()), command(&line)).await.unwrap();
    let found = output.output.lines().filter_map(|line| line.strip_prefix("canary "));
    let mut found: Vec<String> = found.map(str::to_owned).collect();
    found.sort();
    found
}

#[tokio::test]
async fn no_command_finds_what_tools_keep_keys_in() {
    require_whole();
    let project = Project::new();
    plant(&project.scope.home, &KEPT);
    plant(&project.scope.home, &SHOWN);
    assert_eq!(found(&project).await, SHOWN);
    // Nor where the home folder is the project.
    let mut project = project;
    let home = project.scope.home.clone();
    let scope = Scope { directory: home.clone(), worktree: home, ..(*project.scope).clone() };
    project.scope = Arc::new(scope);
    assert_eq!(found(&project).await, SHOWN);
}

#[tokio::test]
async fn environments_are_shown_to_the_project_that_they_belong_to() {
    require_whole();
    let project = Project::new();
    let hash = |path: &Path| {
        let code = "import base64, hashlib, sys; \
                    print(base64.urlsafe_b64encode(hashlib.sha256(sys.argv[1].encode()).digest()).decode()[:8])";
        let mut python = std::process::Command::new("python3");
        let done = python.arg("-c").arg(code).arg(path).output().unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    let poetry = format!(".cache/pypoetry/virtualenvs/mine-{}-py3.12/x", hash(&project.scope.worktree));
    let pipenv = format!(".local/share/virtualenvs/mine-{}/x", hash(&project.path("Pipfile")));
    plant(&project.scope.home, &[&poetry, &pipenv]);
    plant(&project.scope.home, &[".cache/pypoetry/virtualenvs/theirs-AAAAAAAA-py3.12/x"]);
    assert_eq!(found(&project).await, [poetry.as_str(), pipenv.as_str()]);
}

/// A repository of dotfiles that the home folder has links to.
fn dotfiles(links: &[(&str, &str)]) -> Project {
    let project = Project::new();
    for (link, target) in links {
        project.file(target, "canary\n");
        let link = project.scope.home.join(link);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(project.path(target), link).unwrap();
    }
    project
}

fn git(project: &Project, line: &str) -> String {
    let line = format!("git -c user.name=n -c user.email=e {line}");
    let mut shell = std::process::Command::new("sh");
    let done = shell.args(["-c", &line]).current_dir(&project.scope.worktree).output().unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

#[tokio::test]
async fn what_is_hidden_is_never_committed_as_deleted() {
    require_whole();
    let line = "git -c user.name=n -c user.email=e add -A && git -c user.name=n -c user.email=e commit -qm x";
    for (link, target, hidden) in
        [(".netrc", "deep/er/netrc", "deep/er/netrc"), (".ssh/id", "ssh/id", "ssh/id")]
    {
        let project = dotfiles(&[(link, target)]);
        project.file("other/deep/er/netrc", "x");
        git(&project, "init -q");
        git(&project, "add -A");
        git(&project, "commit -qm one");
        project.file("new", "x");
        let Err(Failure::Failed(said)) = project.run_with(Vec::new(), &enclosed(all()), command(line)).await
        else {
            panic!("it ran")
        };
        let why = format!("{} is hidden because secrets are kept there", project.path(hidden).display());
        assert!(said.contains(&why), "{said}");
        assert_eq!(git(&project, "log --format=%s"), "one\n");
        // What a person shows is worked with.
        let settings = SandboxSettings { readable: vec![project.path(hidden)], ..SandboxSettings::default() };
        let (said, _) = run(&project, &settings, &format!("{line}; cat {target}")).await;
        assert_eq!(said, "canary\n");
        assert_eq!(git(&project, "show --format=%s --name-status"), "x\n\nA\tnew\n");
    }
    // What git does not track is hidden, and nothing else happens.
    let project = dotfiles(&[(".netrc", "netrc")]);
    project.file(".gitignore", "/netrc\n");
    project.file("sub/netrc", "kept\n");
    project.file("netrc2", "kept\n");
    git(&project, "init -q");
    git(&project, "add -A");
    let (said, _) =
        run(&project, &SandboxSettings::default(), &format!("cat netrc; {line}; cat netrc2")).await;
    assert!(said.ends_with("kept\n") && !said.contains("canary"), "{said}");
    assert_eq!(git(&project, "ls-files"), ".gitignore\nnetrc2\nsub/netrc\n");
}

#[tokio::test]
async fn links_in_a_store_are_followed_at_every_depth() {
    require_whole();
    let links = [
        (".aws/sso/cache/token.json", "aws/token"),
        (".gnupg/private-keys-v1.d/x.key", "keys/x"),
        (".local/share/virtualenvs/other-AAAAAAAA/bin/python", "bin/python"),
    ];
    let project = dotfiles(&links);
    // A folder that is linked has links too.
    project.file("more/key", "canary\n");
    let home = &project.scope.home;
    fs::create_dir_all(home.join("real/inner")).unwrap();
    symlink(project.path("more/key"), home.join("real/inner/key")).unwrap();
    symlink(home.join("real"), home.join(".kube")).unwrap();
    fs::create_dir_all(home.join(".docker/cli-plugins")).unwrap();
    symlink("/usr/bin/env", home.join(".docker/cli-plugins/env")).unwrap();
    let line = "grep -rl canary .; /usr/bin/env echo there";
    let (said, _) = run(&project, &SandboxSettings::default(), line).await;
    assert_eq!(said, "./bin/python\nthere\n");
}
