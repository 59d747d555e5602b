//! Programs that do more than their name says.
//!
//! A rule names a program with its arguments. Some programs take another program as an argument (`find -exec`,
//! `tar --to-command`), some are a language of their own (`bash -c`), and some commands of the shell change what the
//! words after them mean (`alias`, `trap`). For these a rule such as `find *` is not enough. The tables err on the
//! side of asking: an argument that is only known later counts as the most dangerous one it could be.

use super::word::CommandWord;
use super::{builtins, git, launchers, options, script, variables};

/// Why a rule that names the program is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Concern {
    /// It runs programs that the text does not name as commands, or writes files that only an option names.
    Runs,
    /// It changes what later commands of the line do.
    Changes,
}

/// Shells.
const SHELLS: &str = "sh bash dash ash zsh ksh mksh fish csh tcsh rbash pwsh";

/// Programs that run whatever they are given, or write wherever it says.
const LAUNCHERS: &str = "\
    eval exec source . coproc fc doas su runuser \
    pkexec setpriv capsh chroot unshare nsenter firejail bwrap proot fakeroot faketime eatmydata systemd-run \
    start-stop-daemon run-parts watch parallel entr flock script unbuffer rlwrap hyperfine perf strace ltrace \
    gdb lldb valgrind taskset chrt numactl busybox toybox ssh scp sftp mosh rsh telnet nc ncat netcat socat tmux \
    screen at batch crontab expect vi vim nvim view vimdiff ex ed emacs nano less more most man info npx bunx \
    pnpx uvx pipx xvfb-run dbus-run-session ld.so sqlite3 psql mysql mariadb m4 dc gnuplot direnv nix-shell \
    xdg-open open mapfile readarray complete compgen bind editor visudo vipw sensible-editor sensible-pager \
    pager dialog catchsegv cpulimit daemonize \
    dpkg apt apt-get rpm yum dnf pacman apk snap flatpak setarch linux32 linux64 i386 x86_64 prlimit choom sg newgrp \
    ssh-agent sshpass autossh ccache distcc sccache bear scan-build mpirun mpiexec srun sbatch chronic ifne pee \
    tini dumb-init gosu su-exec chpst envdir setlock softlimit cgexec runcon aa-exec proxychains proxychains4 torsocks \
    watchexec nodemon pm2 concurrently cross-env dotenv dotenvx foreman honcho overmind rename prename file-rename \
    fzf sk protoc ghc tcc javac rustc rustdoc ld as ftp lftp mail mailx mutt nmap mongo mongosh duckdb ansible \
    ansible-playbook luatex lualatex context joe kak hx micro code pg zless zmore corepack gpg-agent rr heaptrack cpio bsdcpio pax \
    ack delta gpg sdiff xmllint pandoc iconv tcpdump nm objdump ar ctags pdflatex openssl";

/// Languages that run a script; what the script is must be named, and for some it is not enough.
const INTERPRETERS: &str = "\
    python pypy node deno bun perl ruby php lua luajit tclsh wish Rscript R julia guile racket elixir iex \
    erl escript ghci runghc groovy scala kotlin jshell java osascript ipython irb octave ts-node tsx";

/// Languages that take nothing behind the script for an option of their own.
const SCRIPTED: &str = "\
    python pypy node perl ruby lua luajit tclsh Rscript julia racket elixir escript runghc ts-node tsx";

/// Programs of the tables that have other names too.
const ALIASES: &[(&str, &str)] = &[
    ("7z", "7za 7zz"),
    ("awk", "gawk mawk nawk"),
    ("bat", "batcat"),
    ("fd", "fdfind"),
    ("find", "gfind"),
    ("gcc", "g++ cc c++ clang clang++"),
    ("gradle", "gradlew"),
    ("grep", "egrep fgrep"),
    ("make", "gmake"),
    ("mvn", "mvnw"),
    ("node", "nodejs"),
    ("sed", "gsed"),
    ("tar", "bsdtar gtar"),
];

/// Modules of Python that run no more than a script would.
const MODULES: &str = "black build compileall flake8 http.server isort json.tool mypy pip py_compile pylint pytest ruff \
    unittest venv";

/// Commands of the shell that change what comes after them.
const CHANGERS: &str = "\
    alias unalias declare typeset local export readonly unset set shopt hash enable trap let getopts history \
    compopt disown suspend";

/// Sub-commands that run what they are given, or change what is run later.
const SUBCOMMANDS: &[(&str, &str)] = &[
    (
        "asdf bundle composer conda fnm gem hatch mise pdm pipenv pixi poetry pyenv rbenv rustup rye uv volta",
        MANAGED,
    ),
    ("docker docker-compose podman", "run exec create unshare"),
    ("bazel", "run query"),
    ("brew", "sh ruby irb"),
    ("dotnet", "exec tool script fsi"),
    ("gh", "alias extension codespace config"),
    ("go", "run generate tool env"),
    ("ip", "netns vrf"),
    ("jj", "util config"),
    ("kubectl", "exec run debug edit plugin config"),
    ("meson", "devenv"),
    ("mix", "cmd run do eval"),
    ("nix", "run develop shell eval repl build"),
    ("rails", "runner r console c dbconsole db"),
    ("systemctl", "edit"),
    ("zig", "run cc c++ build-exe"),
];

/// Those of programs that manage packages and versions of others.
const MANAGED: &str = "run exec x shell tool config open global which";

/// The sub-commands of cargo that are its own; any other is a program called `cargo-…`.
const CARGO: &str = "\
    add b bench build c check clean d doc fetch fix fmt clippy generate-lockfile info init install \
    locate-project metadata miri new nextest package pkgid publish r read-manifest remove report rm run search t \
    test tree uninstall update vendor verify-project version yank";

/// Sub-commands of npm that are what they say when they come first, and those of pnpm and yarn. Any other may be a script
/// of the project, or a program of its packages.
const NPM: &str = "\
    run run-script test t tst start stop restart install i add ci uninstall update outdated ls list view info audit \
    why explain ping root bin prune dedupe fund search version pack";
const PNPM: &str = "\
    run run-script test t start install i add remove rm update up outdated ls list why audit store prune root bin \
    fetch import licenses";
const YARN: &str = "\
    run test start install add remove upgrade up outdated list info why audit bin cache pack publish version build lint";

/// Settings for Maven that only say which tests run.
const MAVEN: &str = "-DskipTests -DskipITs -Dmaven.test.skip -Dtest -Dit.test -DfailIfNoTests";

/// Whether a list of words has this one.
pub(super) fn listed(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|listed| listed == word)
}

/// What a rule for the program alone would miss, if anything.
pub(super) fn concern(name: &str, arguments: &[CommandWord]) -> Option<Concern> {
    let base = base(name);
    if harmless(arguments) && !listed(CHANGERS, base) {
        return None;
    }
    if base == "set" && !builtins::set(arguments) {
        return None;
    }
    if listed(CHANGERS, base) || assigns(base, arguments) {
        return Some(Concern::Changes);
    }
    runs(base, arguments).then_some(Concern::Runs)
}

/// Whether only the very same command may be remembered for "always".
pub(super) fn broad(name: &str) -> bool {
    let base = base(name);
    listed("find fd awk sed curl wget make tar rsync cmake ninja", base)
        || launchers::launches(base)
        || [SHELLS, LAUNCHERS, INTERPRETERS, CHANGERS].iter().any(|list| listed(list, base))
        || base.starts_with("ld-linux")
}

/// The name in the tables: without its folder and its version, and the first of several.
pub(super) fn base(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    let bare = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let versioned =
        ["python", "pypy", "perl", "ruby", "php", "lua", "node", "pip", "gcc", "clang", "g++", "tclsh"];
    let name = if file != "." && versioned.contains(&bare) { bare } else { file };
    ALIASES.iter().find(|(_, others)| listed(others, name)).map_or(name, |(first, _)| first)
}

/// Asking a program for its version runs nothing else, whatever it is.
fn harmless(arguments: &[CommandWord]) -> bool {
    matches!(arguments, [only] if matches!(only.known(), Some("--version" | "--help")))
}

/// Whether a command of the shell sets a variable that something else may depend on.
fn assigns(base: &str, arguments: &[CommandWord]) -> bool {
    match base {
        "read" => arguments
            .iter()
            .any(|word| !word.known().is_some_and(|text| text == "-r" || variables::small(text))),
        "printf" => builtins::printf(arguments),
        "test" => builtins::test(arguments),
        "[" => match arguments.split_last() {
            Some((last, rest)) if last.known() == Some("]") => builtins::test(rest),
            _ => true,
        },
        _ => false,
    }
}

fn runs(base: &str, arguments: &[CommandWord]) -> bool {
    if listed(SHELLS, base) || listed(LAUNCHERS, base) || base.starts_with("ld-linux") {
        return true;
    }
    if listed(INTERPRETERS, base) {
        return interprets(base, arguments);
    }
    match base {
        "find" => options::finds(arguments),
        "git" => git::runs(arguments),
        "sed" => script::sed(arguments).doubtful,
        "awk" => script::awk(arguments),
        "make" => holds(arguments, '=') || options::concern(base, arguments),
        "tar" => tars(arguments),
        "rsync" => holds(arguments, ':') || options::concern(base, arguments),
        "mvn" => maven(arguments),
        "cargo" => cargo(arguments),
        "cd" | "pushd" | "popd" => false,
        // What follows is for git.
        "gh" if arguments.iter().any(|word| word.known() == Some("--")) => true,
        _ => options::concern(base, arguments) || subcommands(base, arguments),
    }
}

/// A language is harmless when the script or module is named and comes first.
fn interprets(base: &str, arguments: &[CommandWord]) -> bool {
    let mut words = arguments.iter().map(CommandWord::known);
    match words.next() {
        Some(Some("-m")) if base == "python" => {
            // The second file of `json.tool` is written.
            let files = arguments
                .iter()
                .skip(2)
                .filter(|word| !word.known().is_some_and(|text| text.starts_with('-')));
            words.next().flatten().is_none_or(|name| {
                !listed(MODULES, name)
                    || options::concern(name, arguments.get(2..).unwrap_or_default())
                    || name == "json.tool"
                        && (files.clone().count() > 1 || files.clone().any(|word| word.several))
            })
        }
        Some(Some("test" | "install" | "add" | "check" | "fmt" | "lint"))
            if matches!(base, "deno" | "bun") =>
        {
            false
        }
        Some(Some("-v")) if base == "node" && arguments.len() == 1 => false,
        Some(Some("-V")) if base == "python" && arguments.len() == 1 => false,
        Some(Some(file)) => {
            // `/dev/stdin` and `/proc/self/fd/3` are scripts that nobody named.
            let open = file.split('/').any(|part| matches!(part, "stdin" | "fd" | "tty" | "proc"));
            open || file.starts_with('-') || !listed(SCRIPTED, base)
        }
        Some(None) | None => true,
    }
}

/// Whether a word holds a sign that makes it something else, or may. Names of files have a folder before it.
fn holds(arguments: &[CommandWord], sign: char) -> bool {
    arguments.iter().any(|word| {
        let later = word.value.is_none() && (!word.prefix.contains('/') || word.prefix.starts_with('-'));
        word.text.contains(sign) || later
    })
}

/// Maven takes goals of any plugin, and settings that name programs.
fn maven(arguments: &[CommandWord]) -> bool {
    arguments.iter().any(|word| {
        let Some(text) = word.known() else { return true };
        let name = text.split('=').next().unwrap_or_default();
        match name.strip_prefix('-') {
            Some(_) if listed(MAVEN, name) => false,
            Some(option) => {
                let plain = "q B U o am amd pl P e T fae ff fn -quiet -batch-mode -offline -also-make -no-transfer-progress ntp";
                !listed(plain, option)
            }
            None => text.contains(':') && !text.starts_with(':'),
        }
    })
}

fn tars(arguments: &[CommandWord]) -> bool {
    // Without a dash the first word is a cluster of options. An archive with a colon is on another machine. A list of
    // files may name folders to go to.
    let cluster = arguments
        .first()
        .and_then(CommandWord::known)
        .is_some_and(|text| !text.starts_with("--") && text.contains(['I', 'F', 'P', 'T', 'g']));
    let remote = holds(arguments, ':');
    let plain: Vec<CommandWord> = arguments
        .iter()
        .filter(|word| {
            // `-f` only names the archive.
            !word.known().is_some_and(|text| {
                text == "-f"
                    || text.starts_with("--file=")
                    || text.starts_with('-')
                        && text.ends_with('f')
                        && !text.starts_with("--")
                        && !text.contains(['I', 'F', 'P', 'T', 'g'])
            })
        })
        .cloned()
        .collect();
    cluster || remote || options::concern("tar", &plain)
}

fn cargo(arguments: &[CommandWord]) -> bool {
    // A toolchain by one of the names that rustup gives them.
    let toolchain = arguments.first().and_then(CommandWord::known).and_then(|text| text.strip_prefix('+'));
    let arguments = match toolchain {
        Some("stable" | "beta" | "nightly") => arguments.get(1..).unwrap_or_default(),
        _ => arguments,
    };
    let own = arguments.iter().find(|word| !word.known().is_some_and(|text| text.starts_with('-')));
    let named = own.is_none_or(|word| word.known().is_some_and(|text| listed(CARGO, text)));
    let until = arguments.iter().position(|word| word.known() == Some("--")).unwrap_or(arguments.len());
    !named || options::concern("cargo", arguments.get(..until).unwrap_or(arguments))
}

fn subcommands(base: &str, arguments: &[CommandWord]) -> bool {
    if let Some((_, plain)) =
        [("npm", NPM), ("pnpm", PNPM), ("yarn", YARN)].iter().find(|(name, _)| *name == base)
    {
        return arguments.first().is_some_and(|word| !word.known().is_some_and(|text| listed(plain, text)));
    }
    let Some((_, list)) = SUBCOMMANDS.iter().find(|(names, _)| listed(names, base)) else { return false };
    // Options may come first, with values of their own: the first word that is none is not always the sub-command.
    arguments.iter().take_while(|word| word.known() != Some("--")).any(|word| match word.known() {
        Some(text) => listed(list, text),
        None => false,
    }) || arguments.first().is_none_or(|word| word.known().is_none())
}
