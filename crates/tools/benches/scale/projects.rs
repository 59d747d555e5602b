//! Projects that have much of one thing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A kind of project.
pub(crate) struct Kind {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    /// What there is much of.
    pub(crate) says: &'static str,
    /// How much, from what is usual on.
    pub(crate) sizes: &'static [usize],
    pub(crate) make: fn(&Path, usize),
}

pub(crate) const KINDS: [Kind; 7] = [
    Kind { name: "links", says: "protected links", sizes: &[40, 400, 4_000], make: links },
    Kind { name: "plain", says: "links that lead nowhere protected", sizes: &[40, 400, 4_000], make: plain },
    Kind { name: "names", says: "protected names", sizes: &[10, 100, 1_000, 4_000, 16_000], make: names },
    Kind { name: "worktrees", says: "worktrees of 20 names", sizes: &[2, 15, 150], make: worktrees },
    Kind { name: "repositories", says: "nested repositories", sizes: &[10, 100, 1_000], make: repositories },
    Kind { name: "hooks", says: "nested repositories with hooks", sizes: &[10, 100, 1_000], make: hooks },
    Kind { name: "folders", says: "folders", sizes: &[500, 5_000, 50_000], make: folders },
];

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A repository as `git init` makes it.
fn repository(root: &Path) {
    write(root, ".git/HEAD", "ref: refs/heads/main\n");
    write(root, ".git/config", "[core]\n\trepositoryformatversion = 0\n\tbare = false\n");
    write(root, ".git/hooks/pre-commit.sample", "");
    write(root, ".git/info/exclude", "");
    fs::create_dir_all(root.join(".git/objects/info")).unwrap();
    fs::create_dir_all(root.join(".git/refs/heads")).unwrap();
}

fn links(root: &Path, size: usize) {
    repository(root);
    fs::create_dir_all(root.join(".github/l")).unwrap();
    for at in 0..size {
        write(root, &format!("t/{at}"), "");
        symlink(format!("../../t/{at}"), root.join(format!(".github/l/{at}"))).unwrap();
    }
}

fn plain(root: &Path, size: usize) {
    repository(root);
    fs::create_dir_all(root.join("l")).unwrap();
    for at in 0..size {
        write(root, &format!("t/{at}"), "");
        symlink(format!("../t/{at}"), root.join(format!("l/{at}"))).unwrap();
    }
}

fn names(root: &Path, size: usize) {
    repository(root);
    (0..size).for_each(|at| write(root, &format!("packages/{at}/AGENTS.md"), &at.to_string()));
}

/// Each with a folder that is protected, as a checkout makes them.
fn worktrees(root: &Path, size: usize) {
    repository(root);
    let fill = |root: &Path| (0..20).for_each(|at| write(root, &format!("packages/{at}/AGENTS.md"), "x"));
    fill(root);
    for at in 0..size {
        let (git, tree) = (format!(".git/worktrees/{at}"), root.join(format!("trees/{at}")));
        write(root, &format!("{git}/HEAD"), "ref: refs/heads/main\n");
        write(root, &format!("{git}/commondir"), "../..\n");
        write(root, &format!("{git}/gitdir"), &format!("{}/.git\n", tree.display()));
        write(&tree, ".git", &format!("gitdir: {}\n", root.join(&git).display()));
        fill(&tree);
    }
}

fn repositories(root: &Path, size: usize) {
    repository(root);
    (0..size).for_each(|at| repository(&root.join(format!("nested/{at}"))));
}

fn hooks(root: &Path, size: usize) {
    repositories(root, size);
    (0..size).for_each(|at| write(root, &format!("nested/{at}/.git/hooks/pre-commit"), ""));
}

/// Each with four files.
fn folders(root: &Path, size: usize) {
    repository(root);
    for at in 0..size {
        for name in ["main.rs", "README.md", ".gitignore", "Cargo.toml"] {
            write(root, &format!("packages/{}/source/{at}/{name}", at % 100), "");
        }
    }
}
