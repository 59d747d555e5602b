//! Repositories that would have git run something, or lead it elsewhere.

use std::fs;

use super::{HostileRepository, repository, working};
use crate::hostile::site::HostileSite;

pub(super) const ALL: &[HostileRepository] = &[
    repository("git configuration is a pipe", |site| site.pipe(".git/config")),
    repository("git configuration includes a pipe", |site| {
        site.pipe("pipe");
        set(site, &format!("[include]\n\tpath = {}\n", site.path("pipe").display()));
    }),
    repository("references are a pipe", |site| site.pipe(".git/packed-refs")),
    repository("alternate objects are a pipe", |site| site.pipe(".git/objects/info/alternates")),
    repository("the head is a pipe", |site| site.pipe(".git/HEAD")),
    repository("git is a pipe", |site| site.pipe(".git")),
    repository("the shallow edge is a pipe", |site| site.pipe(".git/shallow")),
    working("a file system monitor", "git status", |site| {
        set(site, &format!("[core]\n\tfsmonitor = {}\n", site.program()));
    }),
    working("hooks elsewhere", "git commit --allow-empty -m x", |site| {
        hooks(site, "hooks");
        set(site, &format!("[core]\n\thooksPath = {}\n", site.path("hooks").display()));
    }),
    working("hooks in their place", "git commit --allow-empty -m x", |site| hooks(site, ".git/hooks")),
    working("a program that transports", "git fetch origin", |site| {
        set(
            site,
            &format!(
                "[core]\n\tsshCommand = {}\n[remote \"origin\"]\n\turl = ssh://a@127.0.0.1/x\n",
                site.program()
            ),
        );
    }),
    working(
        "missing objects are fetched",
        "git cat-file -p 1111111111111111111111111111111111111111",
        |site| {
            let program = site.program();
            set(
                site,
                &format!(
                    "[core]\n\trepositoryformatversion = 1\n\tsshCommand = {program}\n[extensions]\n\tpartialClone = origin\n\
             [remote \"origin\"]\n\turl = ssh://a@127.0.0.1/x\n\tpromisor = true\n\tpartialclonefilter = blob:none\n\
             \tuploadpack = {program}\n"
                ),
            );
            site.write(".git/refs/heads/missing", format!("{}\n", "1".repeat(40)));
        },
    ),
    working("programs that show differences", "echo more >> README.md; git diff", |site| {
        let program = site.program();
        set(site, &format!("[diff]\n\texternal = {program}\n[diff \"evil\"]\n\ttextconv = {program}\n"));
        site.write(".gitattributes", "* diff=evil\n");
    }),
    working("programs that filter content", "echo more >> README.md; git add -A", |site| {
        let program = site.program();
        set(
            site,
            &format!(
                "[filter \"evil\"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n\trequired\n"
            ),
        );
        site.write(".gitattributes", "* filter=evil\n");
    }),
    working("pagers, editors and aliases", "git rev", |site| {
        let program = site.program();
        set(
            site,
            &format!(
                "[core]\n\tpager = {program}\n\teditor = {program}\n\taskPass = {program}\n[pager]\n\trev-list = {program}\n\
             [alias]\n\trev = !{program}\n\trev-list = !{program}\n[credential]\n\thelper = {program}\n\
             [gpg]\n\tprogram = {program}\n[log]\n\tshowSignature = true\n[safe]\n\tdirectory = *\n"
            ),
        );
    }),
    repository("git configuration includes a key", |site| {
        set(site, &format!("[include]\n\tpath = {}\n", site.home().join(".ssh/id_rsa").display()));
    }),
    working("git lies elsewhere", "git status", |site| {
        let elsewhere = move_git(site);
        fs::write(site.path(".git"), format!("gitdir: {elsewhere}\n")).unwrap();
    }),
    working("git is a link", "git status", |site| {
        let elsewhere = move_git(site);
        site.link(".git", elsewhere);
    }),
    repository("git is a file without end", |site| {
        fs::remove_dir_all(site.path(".git")).unwrap();
        site.sparse(".git", 1 << 40);
    }),
    repository("git leads to files without end", |site| {
        site.without_git();
        site.write(".git", format!("gitdir: {}\n", site.path("led").display()));
        site.write("led/HEAD", "ref: refs/heads/main\n");
        site.sparse("led/commondir", 1 << 40);
    }),
    repository("git leads to pipes", |site| {
        site.without_git();
        site.write(".git", format!("gitdir: {}\n", site.path("led").display()));
        site.write("led/HEAD", "ref: refs/heads/main\n");
        site.write("led/commondir", format!("{}\n", site.path("led").display()));
        site.pipe("led/info/exclude");
    }),
    repository("git leads to itself", |site| {
        fs::remove_dir_all(site.path(".git")).unwrap();
        site.link(".git", ".git");
    }),
    repository("git leads to the home", |site| {
        fs::remove_dir_all(site.path(".git")).unwrap();
        site.write(".git", format!("gitdir: {}\n", site.home().join(".ssh").display()));
        fs::write(site.home().join(".ssh/HEAD"), "ref: refs/heads/main\n").unwrap();
    }),
    repository("the history lies elsewhere", |site| {
        site.write(".git/commondir", format!("{}\n", site.home().display()));
    }),
    repository("the worktree is the home", |site| {
        set(site, &format!("[core]\n\tworktree = {}\n", site.home().display()));
    }),
    working("a repository in a repository", "cd inner && git status", |site| {
        // A folder that git takes for a repository although it has no `.git`.
        site.git(&["init", "-q", "--bare", "inner"]);
        let program = site.program();
        site.append(
            "inner/config",
            &format!("[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {program}\n"),
        );
    }),
    working("submodules that are programs", "git -c protocol.file.allow=always -C sub status", |site| {
        let program = site.program();
        site.write(
            ".gitmodules",
            format!("[submodule \"sub\"]\n\tpath = sub\n\turl = ./sub\n\tupdate = !{program}\n"),
        );
        site.git(&["init", "-q", "sub"]);
        site.append("sub/.git/config", &format!("[core]\n\tfsmonitor = {program}\n"));
    }),
    repository("a branch that steers the terminal", |site| {
        site.write(".git/HEAD", "ref: refs/heads/\u{1b}]0;evil\u{7}\u{1b}[2J\n");
    }),
    repository("a branch that is no text", |site| site.write(".git/HEAD", b"ref: refs/heads/\xff\xfe\x00\n")),
    repository("many references", |site| {
        let names = (0..20_000).map(|at| format!("{:040x} refs/heads/b{at}\n", at + 1));
        site.write(
            ".git/packed-refs",
            format!("# pack-refs with: peeled fully-peeled sorted \n{}", names.collect::<String>()),
        );
    }),
    repository("ignore rules that are pipes", |site| {
        site.pipe(".gitignore");
        site.pipe(".git/info/exclude");
        site.pipe("sub/.gitignore");
    }),
    repository("ignore rules without end", |site| {
        site.link(".gitignore", "/dev/zero");
        site.sparse("sub/.gitignore", 1 << 40);
    }),
    repository("ignore rules in every folder", |site| {
        // Each is short; those above a file hold together.
        let rules: String = (0..500).map(|at| format!("**/*a*{at}*b*/**/[!a-z]*c*\n")).collect();
        for depth in 0..100 {
            site.write(format!("{}.gitignore", "d/".repeat(depth)), &rules);
        }
    }),
    repository("ignore rules that are slow", |site| {
        let lines = (0..20_000).map(|at| format!("**/*a*{at}*b*/**/[!a-z]*c*\n"));
        site.write(".gitignore", lines.collect::<String>());
        site.write(".git/info/attributes", "* filter=evil diff=evil merge=evil\n");
    }),
];

fn set(site: &HostileSite, text: &str) {
    site.append(".git/config", text);
}

fn hooks(site: &HostileSite, folder: &str) {
    for hook in
        ["pre-commit", "post-index-change", "reference-transaction", "post-checkout", "fsmonitor-watchman"]
    {
        site.program_at(&site.path(folder).join(hook));
    }
}

/// Moves what git has out of the repository, with a monitor in its configuration.
fn move_git(site: &HostileSite) -> String {
    let elsewhere = site.outside().join("git");
    let program = site.program_at(&site.outside().join("evil.sh"));
    set(site, &format!("[core]\n\tfsmonitor = {program}\n"));
    fs::rename(site.path(".git"), &elsewhere).unwrap();
    elsewhere.to_str().unwrap().to_owned()
}
