//! Repositories and fixtures.

use everturn_testkit::{Repo, fixtures};

#[test]
fn a_repository_with_one_commit() {
    let repo = Repo::new(&[("a.txt", "one\n"), ("src/b.txt", "two\n")]);
    assert_eq!(repo.git(&["log", "--format=%s by %an"]).trim(), "first by Test");
    assert_eq!(repo.git(&["ls-files"]), "a.txt\nsrc/b.txt\n");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
    repo.write("a.txt", "changed\n");
    assert_eq!(repo.read("a.txt"), "changed\n");
    let same = Repo::new(&[("a.txt", "one\n"), ("src/b.txt", "two\n")]);
    let head = |repo: &Repo| repo.git(&["rev-parse", "HEAD"]);
    assert_eq!(head(&repo), head(&same), "hashes are the same everywhere");
}

#[test]
fn fixtures_are_at_the_root_of_the_workspace() {
    let root = fixtures::root();
    assert!(root.parent().unwrap().join("Cargo.toml").is_file(), "{}", root.display());
}
