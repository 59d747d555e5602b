//! Options that make a program run another one, or write a file.
//!
//! For most programs the options to look out for are listed. Where those are many, the harmless ones are listed
//! instead, and any other counts: a new version may bring more.

use super::programs::listed;
use super::word::CommandWord;

/// Options that run a program or write a file, for programs that are harmless otherwise.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("fd", "xXl", "exec exec-batch list-details"),
    ("rg", "z", "pre pre-glob hostname-bin search-zip"),
    ("tar", "IFfPTgs", TAR),
    ("unzip", ":", ""),
    ("rsync", "eM", "rsh rsync-path remote-option daemon config write-batch log-file"),
    ("split", "", "filter"),
    ("zip", "T", "unzip-command test"),
    ("install", "s", "strip strip-program"),
    ("make", "fCIEW", MAKE),
    ("ninja", "Cft", ""),
    ("cmake", "EPC", "build install workflow toolchain graphviz trace-redirect"),
    ("ctest", "SDMO", "build-and-test test-command script output-log build-makeprogram"),
    ("meson", "", "wrapper gdb gdb-path native-file cross-file"),
    ("bazel", "", "run_under workspace_status_command bazelrc java_home host_jvm_args"),
    ("ag", "", "pager"),
    ("eslint", "oc", "output-file config rulesdir plugin parser cache-location"),
    ("go", "C", GO),
    ("gofmt", "wr", "cpuprofile"),
    ("goimports", "w", "cpuprofile memprofile trace"),
    ("prettier", "w", "write plugin config cache-location"),
    ("yq", "is", "inplace in-place split-exp"),
    ("file", "Cmz", "compile magic-file uncompress"),
    ("npm", "C", NPM),
    ("pnpm", "C", NPM),
    ("yarn", "", NPM),
    ("pip", "t", PIP),
    ("cargo", "CZ", "config config-file tool-config-file manifest-path"),
    ("kubectl", "", "kubeconfig"),
    ("just", "cf", "command shell shell-arg justfile working-directory edit chooser"),
    ("helm", "", "post-renderer kubeconfig"),
    ("gradle", "IpDbc", "init-script project-dir build-file settings-file include-build"),
    ("jj", "", "config config-file config-toml tool repository"),
    ("date", "s", "set"),
    ("jq", "L", ""),
    ("wait", "p", ""),
    ("jobs", "x", ""),
    ("pytest", "pco", PYTEST),
];

const TAR: &str = "\
    to-command checkpoint-action use-compress-program info-script new-volume-script rsh-command rmt-command \
    absolute-names index-file file files-from one-top-level transform xform listed-incremental volno-file";
const PYTEST: &str = "pdbcls rootdir confcutdir basetemp junitxml junit-xml log-file override-ini debug";
const PIP: &str = "\
    python config-settings build-option editor log log-file report target prefix root src cache-dir";
const MAKE: &str = "eval file makefile directory include-dir environment-overrides";
const GO: &str = "\
    exec toolexec vettool overlay modfile ldflags gcflags asmflags gccgoflags compiler o outputdir coverprofile \
    cpuprofile memprofile blockprofile mutexprofile trace";
const NPM: &str = "script-shell prefix node-options git shell editor viewer userconfig globalconfig";

/// Options that only change what is read and printed, for programs that have others too: single letters without and
/// with a value, and long ones.
const HARMLESS: &[(&str, &str, &str, &str)] = &[
    ("sort", "bdfghinMRrVcCsuzm", "kt", SORT),
    ("uniq", "cdDuizfsw", "", "count repeated unique ignore-case zero-terminated"),
    ("shuf", "erz", "ni", "echo head-count input-range repeat zero-terminated"),
    ("tree", "adflxqNQpugshDFvtcUrniACLPI", "", "dirsfirst noreport gitignore prune du si"),
    ("wget", "qSNcv46", "tTU", WGET),
    ("curl", "sSfLIkvGigN46#", "XHAumd", CURL),
    ("diff", "abBcdeiqrstuwyENT", "UCxW", DIFF),
    ("diff3", "AeExX3TaimL", "", "text merge show-all easy-only label"),
    ("bat", "pnAfPuSd", "lrH", BAT),
];

const SORT: &str = "\
    numeric-sort reverse unique key field-separator human-numeric-sort version-sort ignore-case stable \
    zero-terminated check general-numeric-sort random-sort";
const CURL: &str = "\
    silent show-error fail fail-with-body location head insecure verbose get include request header user-agent user \
    max-time connect-timeout data data-raw data-urlencode json compressed retry http1.1 http2 ipv4 ipv6 \
    no-progress-meter";
const WGET: &str = "\
    quiet spider timeout tries no-verbose server-response header user-agent max-redirect continue timestamping \
    no-check-certificate";
const DIFF: &str = "\
    brief unified recursive context color exclude new-file side-by-side ignore-all-space ignore-space-change \
    ignore-blank-lines ignore-case text width suppress-common-lines strip-trailing-cr report-identical-files minimal \
    label";
const BAT: &str = "plain number show-all language line-range style color no-pager highlight-line";

/// Tests of find that take the next word as their value, and words that stand alone.
pub(super) const FIND_VALUED: &str = "-name -iname -path -ipath -wholename -type -size -mtime -mmin -atime -ctime -newer -maxdepth \
    -mindepth -regex -iregex -regextype -perm -user -group -lname -printf";
const FIND_ALONE: &str = "-print -print0 -not -o -or -a -and -prune -empty -ls -quit -true -false -xdev -mount \
    -follow -readable -writable -executable -H -L -P";

/// Whether one of the options that count is there, or may be.
pub(super) fn concern(base: &str, arguments: &[CommandWord]) -> bool {
    if base == "gcc" {
        return compiles(arguments);
    }
    if let Some((_, flags, valued, long)) = HARMLESS.iter().find(|(name, ..)| *name == base) {
        return !arguments.iter().all(|word| harmless(word, flags, valued, long)) || outputs(base, arguments);
    }
    if base == "xxd" {
        return outputs(base, arguments);
    }
    let Some((_, short, long)) = OPTIONS.iter().find(|(name, ..)| *name == base) else { return false };
    if base == "go" && !arguments.iter().any(|word| word.option && word.value.is_none()) {
        // Go's flags are never abbreviated.
        let named = |text: &str| {
            let option = text.trim_start_matches('-').split('=').next().unwrap_or_default();
            let option = option.strip_prefix("test.").unwrap_or(option);
            text.starts_with('-') && (listed(long, option) || short.contains(option))
        };
        return arguments.iter().filter_map(CommandWord::known).any(named);
    }
    !(short.is_empty() && long.is_empty()) && matching(arguments, short, long)
}

/// Whether a word is not an option, or is one of these.
fn harmless(word: &CommandWord, flags: &str, valued: &str, long: &str) -> bool {
    // `<(…)` turns out as a path below `/dev`.
    let Some(text) = word.known() else { return !word.option || word.text.starts_with("<(") && !word.splits };
    let Some(option) = text.strip_prefix('-') else { return true };
    if let Some(option) = option.strip_prefix('-') {
        return option.is_empty() || listed(long, option.split('=').next().unwrap_or_default());
    }
    let value = option.find(|c: char| valued.contains(c)).unwrap_or(option.len());
    let letters = option.get(..value).unwrap_or_default();
    letters.chars().all(|c| flags.contains(c) || c.is_ascii_digit() || matches!(c, '.' | ','))
}

/// Whether the second operand of a program names a file that it writes.
fn outputs(base: &str, arguments: &[CommandWord]) -> bool {
    let operand =
        |word: &&CommandWord| !word.known().is_some_and(|text| text.starts_with('-') && text.len() > 1);
    matches!(base, "uniq" | "xxd")
        && (arguments.iter().filter(operand).count() > 1 || arguments.iter().any(|word| word.several))
}

/// Whether a compiler may be made to start another program: directly, by a plugin or by options from a file.
fn compiles(arguments: &[CommandWord]) -> bool {
    let parts = ["plugin", "wrapper", "specs", "-load", "ld-path", "-fuse-ld", "--config"];
    // Words for another program, and files that are written.
    let starts = "@ -o --output -Wl, -Wa, -Wp, -X -MF -MJ -aux-info -dump -fdump -save-temps --serialize";
    matching(arguments, "B", "")
        || arguments.iter().any(|word| match word.known() {
            Some(text) => {
                starts.split(' ').any(|start| text.starts_with(start))
                    || parts.iter().any(|part| text.contains(part))
            }
            None => word.option || word.prefix.starts_with('@'),
        })
}

/// Whether a call of find runs programs, or deletes or writes files.
pub(super) fn finds(arguments: &[CommandWord]) -> bool {
    let mut words = arguments.iter().peekable();
    // Behind a word that may take a value itself, the name of a test may be that value.
    let mut sure = true;
    while let Some(word) = words.next() {
        let Some(text) = word.known() else {
            if word.option {
                return true;
            }
            continue;
        };
        let acts = ["-exec", "-ok", "-fprint", "-fls", "-delete", "-files0"];
        if acts.iter().any(|action| text.starts_with(action)) {
            return true;
        }
        if sure && listed(FIND_VALUED, text) {
            words.next_if(|value| !value.several);
        } else if text.starts_with('-') && !listed(FIND_ALONE, text) {
            sure = false;
        }
    }
    false
}

/// Whether an argument is, abbreviates or may turn out to be one of the options.
pub(super) fn matching(arguments: &[CommandWord], short: &str, long: &str) -> bool {
    arguments.iter().any(|word| {
        let Some(text) = word.known() else { return word.option };
        let Some(option) = text.strip_prefix('-') else { return false };
        // Some programs take long options behind a single dash too.
        let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
        let named = !name.is_empty()
            && long.split_ascii_whitespace().any(|long| {
                long.starts_with(name) && (name.len() > 1 || option.starts_with('-')) || long == name
            });
        named || !option.starts_with('-') && option.contains(|c: char| short.contains(c))
    })
}
