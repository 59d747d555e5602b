//! Which repository a folder belongs to, with real repositories of the real git.

use std::fs;
use std::path::{Path, PathBuf};

use everturn_testkit::Repo;
use everturn_tools::project::{RepositoryIdentity, identity, is_gone, repository};

async fn id(folder: &Path) -> RepositoryIdentity {
    identity(&repository(folder).unwrap()).await
}

fn root(folder: &Path) -> Option<PathBuf> {
    repository(folder).map(|found| found.root)
}

/// A folder beside a repository, as git is told of it.
fn beside(repo: &Repo) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(repo.path().parent().unwrap()).unwrap();
    let path = folder.path().canonicalize().unwrap().join("there");
    (folder, path)
}

#[tokio::test]
async fn a_repository_is_its_first_commit() {
    let repo = Repo::new(&[("a.txt", "a")]);
    let first = repo.git(&["rev-parse", "HEAD"]).trim().to_owned();
    repo.commit("second");
    fs::create_dir_all(repo.join("inner/most")).unwrap();
    let found = repository(&repo.join("inner/most")).unwrap();
    assert_eq!((found.root.as_path(), found.shallow), (repo.path(), false));
    assert_eq!(identity(&found).await, RepositoryIdentity::Root(first.clone()));
    // A second root: the smaller hash counts.
    repo.git(&["checkout", "-q", "--orphan", "other"]);
    let second = repo.commit("of another history");
    assert_eq!(id(repo.path()).await, RepositoryIdentity::Root(first.min(second)));
}

#[tokio::test]
async fn clones_and_worktrees_are_the_same_and_submodules_are_not() {
    let repo = Repo::new(&[("a.txt", "a")]);
    let (_one, clone) = beside(&repo);
    let (_two, worktree) = beside(&repo);
    repo.git(&["clone", "-q", repo.dir(), clone.to_str().unwrap()]);
    repo.git(&["worktree", "add", "-q", worktree.to_str().unwrap(), "-b", "work"]);
    let [own, of_clone, of_worktree] = [repo.path(), &clone, &worktree].map(|path| repository(path).unwrap());
    assert_eq!((&of_clone.root, &of_worktree.root), (&clone, &worktree));
    assert_eq!(own.history, of_worktree.history);
    assert_ne!(own.history, of_clone.history);
    assert_eq!(identity(&of_clone).await, identity(&own).await);
    assert_eq!(identity(&of_worktree).await, identity(&own).await);

    let other = Repo::new(&[("b.txt", "b")]);
    let from = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", other.dir(), "sub"];
    repo.git(&from);
    assert_eq!(root(&repo.join("sub")), Some(repo.join("sub")));
    assert_eq!(id(&repo.join("sub")).await, id(other.path()).await);
    // A repository within another one that does not know of it.
    fs::create_dir(repo.join("nested")).unwrap();
    repo.git(&["clone", "-q", other.dir(), repo.join("nested/clone").to_str().unwrap()]);
    assert_eq!(root(&repo.join("nested")), Some(repo.path().to_owned()));
    assert_eq!(root(&repo.join("nested/clone")), Some(repo.join("nested/clone")));
}

#[tokio::test]
async fn the_edge_of_a_shallow_clone_is_no_root() {
    let repo = Repo::new(&[("a.txt", "a")]);
    repo.commit("second");
    let last = repo.commit("third");
    let (_folder, clone) = beside(&repo);
    let address = format!("file://{}", repo.dir());
    repo.git(&["clone", "-q", "--depth", "1", &address, clone.to_str().unwrap()]);
    assert!(repository(&clone).unwrap().shallow);
    assert_eq!(id(&clone).await, RepositoryIdentity::Edge(last));
    repo.git(&["-C", clone.to_str().unwrap(), "fetch", "-q", "--unshallow"]);
    assert_eq!(id(&clone).await, id(repo.path()).await);
}

#[tokio::test]
async fn what_is_no_repository_is_not_taken_for_one() {
    let repo = Repo::new(&[("a.txt", "a")]);
    let (_folder, there) = beside(&repo);
    fs::create_dir(&there).unwrap();
    assert_eq!(repository(&there), None);
    // The inside of a bare repository is not a place to work in.
    repo.git(&["clone", "-q", "--bare", repo.dir(), there.join("bare").to_str().unwrap()]);
    assert_eq!(repository(&there.join("bare")), None);
    for broken in ["empty folder", "empty file", "file that leads nowhere", "file with nonsense"] {
        let inner = repo.join(broken);
        fs::create_dir(&inner).unwrap();
        match broken {
            "empty folder" => fs::create_dir(inner.join(".git")).unwrap(),
            "empty file" => fs::write(inner.join(".git"), "").unwrap(),
            "file that leads nowhere" => fs::write(inner.join(".git"), "gitdir: /no/such/folder\n").unwrap(),
            _ => fs::write(inner.join(".git"), [0xff, 0xfe, 0]).unwrap(),
        }
        assert_eq!(root(&inner), Some(repo.path().to_owned()), "{broken}");
    }
    // One that looks right and is not: git is asked about this one, not about the one around it.
    let inner = repo.join("hollow");
    fs::create_dir_all(inner.join(".git")).unwrap();
    fs::write(inner.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    assert_eq!(id(&inner).await, RepositoryIdentity::Unknown);
    fs::remove_dir_all(&inner).unwrap();
    repo.git(&["init", "-q", inner.to_str().unwrap()]);
    assert_eq!(id(&inner).await, RepositoryIdentity::Unborn);
}

#[tokio::test]
async fn nothing_that_a_repository_names_is_run() {
    let repo = Repo::new(&[("a.txt", "a")]);
    let trace = repo.join("trace");
    let program = repo.join("program");
    fs::write(&program, format!("#!/bin/sh\necho \"$0\" >> {}\n", trace.display())).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let program = program.to_str().unwrap();
    let hooks = repo.join("hooks");
    fs::create_dir(&hooks).unwrap();
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        fs::copy(program, hooks.join(hook)).unwrap();
    }
    for key in
        ["core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "gpg.program", "core.askPass"]
    {
        repo.git(&["config", key, program]);
    }
    repo.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
    repo.git(&["config", "alias.rev-list", &format!("!{program}")]);
    assert!(matches!(id(repo.path()).await, RepositoryIdentity::Root(_)));
    assert!(!trace.exists(), "{}", fs::read_to_string(&trace).unwrap_or_default());
}

#[tokio::test]
async fn git_is_not_asked_about_pipes() {
    // It waited for them, and everybody ten seconds for git.
    for name in ["HEAD", "config", "packed-refs", "objects/info/alternates"] {
        let repo = Repo::new(&[("a.txt", "a")]);
        let path = repo.join(".git").join(name);
        // Not all of them are there.
        let _ = fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let begun = std::time::Instant::now();
        assert_eq!(id(repo.path()).await, RepositoryIdentity::Unknown, "{name}");
        assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{name}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_place_is_gone_only_when_its_disk_is_there() {
    let repo = Repo::new(&[("a.txt", "a")]);
    let mark = repository(repo.path()).unwrap().mark;
    assert!(!is_gone(repo.path(), Some(&mark)));
    let (_folder, there) = beside(&repo);
    assert!(is_gone(&there, Some(&mark)));
    assert!(is_gone(&there.join("deeper"), None));
    let other_disk = everturn_tools::project::RepositoryMark { device: mark.device + 1, ..mark };
    assert!(!is_gone(&there, Some(&other_disk)), "the disk that it was on is not there");
}
