//! The simple commands inside a command line, for permission rules.
//!
//! A rule such as `git *` must not let `git status; rm -rf ~` through, and a rule against `rm *` must see the
//! `rm` behind `&&` or inside `$(…)`. So a line is split where the shell would start another command. The
//! splitter knows quotes, substitutions, subshells, redirections and here-documents; where it is unsure it
//! splits once too often, which asks more and never less.
//!
//! The line comes from a model, so its shape must not cost anything: length, nesting and work are all limited.
//! A line past a limit is named as a whole, behind [`OPAQUE`], so that no rule for a single command lets it pass.

use std::collections::HashSet;

/// The shell's words that come before a command.
const OPENERS: [&str; 10] = ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"];

/// The shell's words that close something; only redirections may follow them.
const CLOSERS: [&str; 4] = ["fi", "done", "esac", "}"];

/// First words that say nothing about what runs, so "always" never remembers them.
const VAGUE: [&str; 6] = ["for", "case", "select", "function", "coproc", "[["];

/// What the shell takes as space between words; other white space is part of a word.
const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// Substitutions and subshells nested deeper than this are not looked into.
const DEPTH_MAX: usize = 32;

/// The longest line that is split, in bytes. Linux starts no shell with a longer argument anyway.
const LINE_MAX: usize = 128 * 1024;

/// The most characters that are looked at or copied for one line, counting those of every nested copy.
const STEPS_MAX: usize = 32 * LINE_MAX;

/// What stands before a line that was not split to its end.
const OPAQUE: &str = "(not analysed) ";

/// The simple commands of a line, in order and without repeats; the line itself if there are none.
///
/// A line past a limit gives the commands found until then, and the whole line behind [`OPAQUE`].
pub(super) fn parts(line: &str) -> Vec<String> {
    if line.len() > LINE_MAX {
        return vec![format!("{OPAQUE}{line}")];
    }
    let mut splitter = Splitter::new(line, 0, STEPS_MAX);
    splitter.list(None);
    let mut parts = splitter.found;
    if splitter.gave_up {
        parts.push(format!("{OPAQUE}{line}"));
    }
    let parts = distinct(parts);
    if parts.is_empty() { vec![line.to_owned()] } else { parts }
}

/// The patterns to remember for "always": each command's first word, with anything after it.
///
/// A command that a pattern cannot name safely adds none, so it is asked about every time.
pub(super) fn always(parts: &[String]) -> Vec<String> {
    let mut always: Vec<String> = Vec::new();
    for part in parts.iter().filter(|part| !part.starts_with(OPAQUE)) {
        let word = word(part);
        // An assignment in front changes what the command means, so only the very same text is remembered.
        let exact = assignment(word);
        let named = if exact { part.as_str() } else { word };
        if named.is_empty() || named.contains(['*', '?']) || VAGUE.contains(&word) {
            continue;
        }
        always.push(if exact { part.clone() } else { format!("{word} *") });
    }
    distinct(always)
}

/// The texts without repeats, each where it first was.
fn distinct(texts: Vec<String>) -> Vec<String> {
    let mut seen = HashSet::new();
    let first: Vec<bool> = texts.iter().map(|text| seen.insert(text.as_str())).collect();
    texts.into_iter().zip(first).filter_map(|(text, first)| first.then_some(text)).collect()
}

/// A walk over the characters of a line.
#[derive(Debug)]
struct Splitter {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    /// How much work is left.
    steps: usize,
    /// A limit was met: the walk is at the end and nothing found from here on would be whole.
    gave_up: bool,
    /// Where `$((` turned out not to be arithmetic. Tried once only: a try inside a failed try would otherwise
    /// double the work at every level.
    subshells: HashSet<usize>,
    found: Vec<String>,
}

impl Splitter {
    fn new(line: &str, depth: usize, steps: usize) -> Self {
        Self {
            chars: line.chars().collect(),
            at: 0,
            depth,
            steps,
            gave_up: false,
            subshells: HashSet::new(),
            found: Vec::new(),
        }
    }

    /// Ends the walk here; every loop sees the end of the line.
    fn give_up(&mut self) {
        self.at = self.chars.len();
        self.gave_up = true;
    }

    /// Counts work, and ends the walk when there was too much of it.
    fn spend(&mut self, steps: usize) {
        match self.steps.checked_sub(steps) {
            Some(left) => self.steps = left,
            None => self.give_up(),
        }
    }

    /// Does something one level deeper, if the line may nest so deep.
    fn deeper(&mut self, work: impl FnOnce(&mut Self)) {
        if self.depth >= DEPTH_MAX {
            self.give_up();
            return;
        }
        self.depth += 1;
        work(self);
        self.depth -= 1;
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Takes the next character into `text`.
    fn take(&mut self, text: &mut String) {
        if let Some(next) = self.peek(0) {
            text.push(next);
            self.at += 1;
            self.spend(1);
        }
    }

    /// What the text of a command so far runs, without the shell's words in front.
    fn head<'t>(&mut self, text: &'t str) -> &'t str {
        self.spend(text.len());
        command(text)
    }

    /// Splits commands up to the closing character, which is consumed, or to the end.
    fn list(&mut self, close: Option<char>) {
        let mut text = String::new();
        let mut documents: Vec<(String, bool)> = Vec::new();
        let mut cases = 0_usize;
        // The length of the text right behind a redirection sign, and right behind a blank.
        let mut redirected = usize::MAX;
        let mut blank = 0;
        // Whether the text holds a parenthesis behind a command's first word, which nothing that follows can turn
        // into a word of the shell; it need not be looked at again.
        let mut settled = false;
        while let Some(next) = self.peek(0) {
            self.spend(1);
            settled &= !text.is_empty();
            match next {
                '\n' => {
                    self.at += 1;
                    self.finish(&mut text, &mut cases);
                    for (delimiter, expands) in documents.drain(..) {
                        self.document(&delimiter, expands);
                    }
                }
                ')' if cases > usize::from(word(self.head(&text)) == "esac")
                    || word(command(&text)) == "case" =>
                {
                    // The label of a case, not the end of a list.
                    self.at += 1;
                    cases = cases.max(1);
                    text.clear();
                }
                ')' if close == Some(')') => {
                    self.at += 1;
                    break;
                }
                ';' | ')' => {
                    self.at += 1;
                    self.finish(&mut text, &mut cases);
                }
                '&' | '|' if redirected == text.len() => self.take(&mut text),
                '&' if self.peek(1) == Some('>') => self.take(&mut text),
                '&' | '|' => {
                    self.at += 1;
                    self.finish(&mut text, &mut cases);
                }
                '#' if text.is_empty() || blank == text.len() => {
                    while self.peek(0).is_some_and(|next| next != '\n') {
                        self.at += 1;
                        self.spend(1);
                    }
                }
                ' ' | '\t' => {
                    self.take(&mut text);
                    blank = text.len();
                }
                '<' if self.peek(1) == Some('<') && self.peek(2) != Some('<') => {
                    documents.extend(self.delimiter(&mut text));
                }
                '<' if self.peek(1) == Some('<') => (0..3).for_each(|_| self.take(&mut text)),
                '<' | '>' if self.peek(1) != Some('(') => {
                    self.take(&mut text);
                    redirected = text.len();
                }
                '(' if !settled && self.head(&text).is_empty() => {
                    self.at += 1;
                    text.clear();
                    self.nested();
                }
                '(' if !settled && word(command(&text)) == "case" => self.at += 1,
                '(' if self.peek(1) == Some(')') => {
                    self.at += 2;
                    text.clear();
                }
                '(' => {
                    settled = true;
                    self.balanced(&mut text);
                }
                _ => self.piece(&mut text),
            }
        }
        self.finish(&mut text, &mut cases);
    }

    /// Takes one character, quoted text or substitution.
    fn piece(&mut self, text: &mut String) {
        match self.peek(0) {
            Some('\\') => {
                self.take(text);
                self.take(text);
            }
            Some('\'') => {
                self.take(text);
                while self.peek(0).is_some_and(|next| next != '\'') {
                    self.take(text);
                }
                self.take(text);
            }
            Some('$') if self.peek(1) == Some('\'') => {
                // Unlike in plain single quotes, a backslash protects the next character here.
                self.take(text);
                self.take(text);
                while self.peek(0).is_some_and(|next| next != '\'') {
                    if self.peek(0) == Some('\\') {
                        self.take(text);
                    }
                    self.take(text);
                }
                self.take(text);
            }
            Some('"') => {
                self.take(text);
                while let Some(next) = self.peek(0) {
                    match next {
                        '"' => break,
                        '\\' | '$' | '`' => self.expansion(text),
                        _ => self.take(text),
                    }
                }
                self.take(text);
            }
            Some('<' | '>') if self.peek(1) == Some('(') => self.substitution(text),
            _ => self.expansion(text),
        }
    }

    /// Takes one character, or what `$(…)` and back quotes expand.
    fn expansion(&mut self, text: &mut String) {
        match (self.peek(0), self.peek(1), self.peek(2)) {
            (Some('\\'), ..) => {
                self.take(text);
                self.take(text);
            }
            (Some('$'), Some('('), Some('(')) if !self.subshells.contains(&self.at) => {
                // Arithmetic, if both parentheses close together; else a subshell in a substitution.
                let (start, found) = (self.at, self.found.len());
                self.at += 2;
                self.deeper(|inner| inner.balanced(&mut String::new()));
                if self.gave_up {
                    return;
                }
                if self.peek(0) == Some(')') {
                    self.at += 1;
                    self.copy(start, text);
                } else {
                    self.at = start;
                    self.found.truncate(found);
                    self.subshells.insert(start);
                    self.substitution(text);
                }
            }
            (Some('$'), Some('('), _) => self.substitution(text),
            (Some('`'), ..) => {
                let start = self.at;
                self.at += 1;
                let mut inner = String::new();
                while let Some(next) = self.peek(0) {
                    self.at += 1;
                    self.spend(1);
                    match next {
                        '`' => break,
                        '\\' => inner.extend(self.peek(0).inspect(|_| self.at += 1)),
                        _ => inner.push(next),
                    }
                }
                self.copy(start, text);
                self.deeper(|outer| outer.quoted(inner));
            }
            _ => self.take(text),
        }
    }

    /// Takes a substitution of two opening characters and a closing parenthesis.
    fn substitution(&mut self, text: &mut String) {
        let start = self.at;
        self.at += 2;
        self.nested();
        self.copy(start, text);
    }

    /// Splits a list in parentheses inside the present one.
    fn nested(&mut self) {
        self.deeper(|inner| inner.list(Some(')')));
    }

    /// Splits what stood in back quotes, which is a line of its own once its backslashes are gone.
    fn quoted(&mut self, line: String) {
        if self.gave_up {
            return;
        }
        let mut inner = Self::new(&line, self.depth, self.steps);
        inner.list(None);
        self.steps = inner.steps;
        if inner.gave_up {
            self.give_up();
        } else if inner.found.is_empty() {
            self.found.push(line);
        }
        self.found.append(&mut inner.found);
    }

    /// Takes text in parentheses that is not itself a list of commands: arithmetic or an array.
    fn balanced(&mut self, text: &mut String) {
        let mut open = 0_usize;
        while let Some(next) = self.peek(0) {
            match next {
                '(' => open += 1,
                ')' => open = open.saturating_sub(1),
                _ => {
                    self.piece(text);
                    continue;
                }
            }
            self.take(text);
            if open == 0 {
                return;
            }
        }
    }

    /// Takes `<<` and the word behind it, and says what ends the document and whether it is expanded.
    ///
    /// A word that is spelled in an unusual way gives nothing: the document is then split like commands.
    fn delimiter(&mut self, text: &mut String) -> Option<(String, bool)> {
        self.take(text);
        self.take(text);
        while self.peek(0).is_some_and(|next| matches!(next, '-' | ' ' | '\t')) {
            self.take(text);
        }
        let quote = self.peek(0).filter(|next| matches!(next, '\'' | '"'));
        if quote.is_some() {
            self.take(text);
        }
        let mut plain = String::new();
        while self.peek(0).is_some_and(|next| next.is_ascii_alphanumeric() || "_-.!".contains(next)) {
            self.take(&mut plain);
        }
        text.push_str(&plain);
        if quote.is_some() {
            if self.peek(0) != quote {
                return None;
            }
            self.take(text);
        }
        let ends = self.peek(0).is_none_or(|next| BLANKS.contains(&next) || ";&|<>()".contains(next));
        (ends && !plain.is_empty()).then_some((plain, quote.is_none()))
    }

    /// Skips a here-document, looking for substitutions in it if the shell does.
    fn document(&mut self, delimiter: &str, expands: bool) {
        while self.at < self.chars.len() {
            let line: String = self.chars.iter().skip(self.at).take_while(|c| **c != '\n').collect();
            self.spend(line.len());
            if line.trim_start_matches('\t') == delimiter {
                self.at += line.chars().count() + 1;
                return;
            }
            let mut ignored = String::new();
            while let Some(next) = self.peek(0) {
                if next == '\n' {
                    self.at += 1;
                    break;
                }
                if expands { self.expansion(&mut ignored) } else { self.take(&mut ignored) }
            }
        }
    }

    /// Copies what lies between `start` and the present place.
    fn copy(&mut self, start: usize, text: &mut String) {
        let end = self.at;
        self.spend(end.saturating_sub(start));
        if self.gave_up {
            return;
        }
        text.extend(self.chars.iter().skip(start).take(end - start));
    }

    /// Ends a command and keeps it if it runs anything.
    fn finish(&mut self, text: &mut String, cases: &mut usize) {
        let whole = std::mem::take(text);
        let mut rest = self.head(&whole);
        if self.gave_up {
            return;
        }
        match word(rest) {
            "case" => *cases += 1,
            "esac" => *cases = cases.saturating_sub(1),
            _ => {}
        }
        if rest.is_empty() || CLOSERS.contains(&word(rest)) {
            return;
        }
        self.found.push(rest.to_owned());
        let full = rest;
        while assignment(word(rest)) {
            rest = after_word(rest);
        }
        if !rest.is_empty() && rest != full {
            self.found.push(rest.to_owned());
        }
    }
}

/// The text without blanks around it and without the shell's words in front of a command.
fn command(text: &str) -> &str {
    let mut rest = text.trim_matches(BLANKS);
    loop {
        rest = match word(rest) {
            "for" | "select" => {
                let loop_words = after_word(after_word(rest));
                if word(loop_words) == "in" { return "" } else { loop_words }
            }
            "function" => after_word(after_word(rest)),
            opener if OPENERS.contains(&opener) => after_word(rest),
            _ => return rest,
        };
    }
}

/// The first word, with its quotes.
fn word(text: &str) -> &str {
    let mut quote = None;
    let mut escaped = false;
    for (at, next) in text.char_indices() {
        match (quote, next) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (Some(open), _) if open == next => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(next),
            (None, _) if BLANKS.contains(&next) => return text.get(..at).unwrap_or(text),
            (None, _) => {}
        }
    }
    text
}

fn after_word(text: &str) -> &str {
    text.get(word(text).len()..).unwrap_or_default().trim_start_matches(BLANKS)
}

/// Whether a word sets a variable.
fn assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '[' || c == ']')
    })
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_MAX, LINE_MAX, OPAQUE, STEPS_MAX, Splitter, always, parts};

    #[track_caller]
    fn check(line: &str, expected: &[&str]) {
        assert_eq!(parts(line), expected, "{line}");
    }

    #[test]
    fn one_command_is_itself() {
        check("echo hi", &["echo hi"]);
        check("exit 3", &["exit 3"]);
        check("echo 'a; b' \"c && d\" e\\;f", &["echo 'a; b' \"c && d\" e\\;f"]);
        check("make 2>&1 >log &>all", &["make 2>&1 >log &>all"]);
        check("", &[""]);
    }

    #[test]
    fn lists_and_pipes_are_split() {
        check("cd x && rm -rf y; ls | wc -l &", &["cd x", "rm -rf y", "ls", "wc -l"]);
        check("a\nb # c; d\ne", &["a", "b", "e"]);
        check("(cd x; rm y)", &["cd x", "rm y"]);
    }

    #[test]
    fn substitutions_are_commands_too() {
        check("git log $(rm -rf ~)", &["rm -rf ~", "git log $(rm -rf ~)"]);
        check("echo \"a `rm b` $(rm c)\"", &["rm b", "rm c", "echo \"a `rm b` $(rm c)\""]);
        check("diff <(rm a) >(rm b)", &["rm a", "rm b", "diff <(rm a) >(rm b)"]);
        check("echo $((1 + 2)) '$(no)'", &["echo $((1 + 2)) '$(no)'"]);
        check("echo $((1 + $(rm x)))", &["rm x", "echo $((1 + $(rm x)))"]);
    }

    #[test]
    fn shell_words_run_nothing_themselves() {
        check("if true; then rm a; else rm b; fi", &["true", "rm a", "rm b"]);
        check("for f in *; do rm $f; done", &["rm $f"]);
        check("case $x in a) rm a;; *) rm b;; esac", &["rm a", "rm b"]);
        check("f() { rm a; }; f", &["rm a", "f"]);
    }

    #[test]
    fn here_documents_are_text_unless_they_expand() {
        check("cat <<'EOF' > f\nrm a; $(rm b)\nEOF\nls", &["cat <<'EOF' > f", "ls"]);
        check("cat <<EOF\n$(rm b)\nEOF", &["cat <<EOF", "rm b"]);
        check("cat <<< 'rm a; b'", &["cat <<< 'rm a; b'"]);
    }

    #[test]
    fn assignments_do_not_hide_the_command() {
        check("A=1 B='x y' rm a", &["A=1 B='x y' rm a", "rm a"]);
        assert_eq!(always(&parts("A=1 rm a && git log")), ["A=1 rm a", "rm *", "git *"]);
    }

    #[test]
    fn nothing_hides_behind_odd_spelling() {
        for line in [
            "echo \\>& rm x",
            "echo \\ #; rm x",
            "echo\u{a0}#; rm x",
            "echo $'\\''; rm x #'",
            "echo $((true); rm x)",
            "echo $((true) | (rm x))",
            "echo $(case x in a) rm x;; esac)",
            "case x in (a) rm x;; esac",
            "for x do rm x; done",
            "function f { rm x; }",
            "cat <<'E F'\n'\nE F\nrm x\nE",
            "if (rm x); then ls; fi",
            "echo \"${y:-'$(rm x)'}\"",
        ] {
            assert!(parts(line).contains(&"rm x".to_owned()), "{line}: {:?}", parts(line));
        }
        assert_eq!(always(&parts("* a; for x in y; do ls; done; coproc git { rm x; }")), ["ls *"]);
    }

    #[test]
    fn unfinished_lines_end() {
        for line in ["a $(", "a '", "a \"", "a `", "a <<", "a <<E\nb", "((((", "a \\", "$((", "a=("] {
            assert!(!parts(line).is_empty(), "{line}");
        }
        assert!(!parts(&"$(".repeat(10_000)).is_empty());
        assert!(!parts(&"`\\`".repeat(1000)).is_empty());
    }

    /// The work that a line takes, in steps.
    fn steps(line: &str) -> usize {
        let mut splitter = Splitter::new(line, 0, STEPS_MAX);
        splitter.list(None);
        STEPS_MAX - splitter.steps
    }

    #[track_caller]
    fn cheap(line: &str, per_character: usize) {
        let start: String = line.chars().take(40).collect();
        assert!(!parts(line).is_empty(), "{start}");
        assert!(steps(line) <= per_character * line.len(), "{start}: {} for {}", steps(line), line.len());
    }

    #[test]
    fn nesting_costs_nothing() {
        let openers: Vec<&str> = concat!(
            "$((¦$(¦`¦\\`¦(¦((¦{¦{ ¦'¦\"¦\"$(¦\"`¦$'¦<(¦a=(¦${¦<<A\n¦<<A ¦<<A\nA\n¦$(cat <<A\n¦",
            "$((cat <<A\n¦$((`¦`$((¦\"$((¦case ¦case x in ¦if ¦if (¦for ¦! ¦a(b)¦a;¦A=1 ¦#¦\\¦&¦|¦\n¦",
            "f() ¦function f (¦[[ ( ",
        )
        .split('¦')
        .collect();
        for opener in openers {
            for end in ["", " x", "\nA\n", ")", "))", "`", "\""] {
                cheap(&format!("echo {}{end}", opener.repeat(1000)), 4 * DEPTH_MAX);
            }
            let line: String = format!("echo {}", opener.repeat(20_000)).chars().take(LINE_MAX).collect();
            cheap(&line, 4 * DEPTH_MAX);
        }
    }

    #[test]
    fn what_is_not_arithmetic_is_not_tried_again_at_every_level() {
        for depth in [1, 5, 15, 28, 200] {
            for (open, close) in [
                ("$((", ") )"),
                ("$((", ""),
                ("$((", "))"),
                ("$((a; ", "); b)"),
                ("\"$((", ") )\""),
                ("$(( $(", ")) )"),
                ("$(", ")"),
                ("(", ")"),
                ("$((`a`", ") )"),
            ] {
                cheap(
                    &format!("echo {}rm x{}", open.repeat(depth), close.repeat(depth)),
                    DEPTH_MAX * DEPTH_MAX,
                );
            }
        }
    }

    #[test]
    fn no_rule_for_one_command_covers_what_was_not_analysed() {
        let deep = format!("git log; git show {}git x; rm x", "$(".repeat(DEPTH_MAX + 1));
        assert_eq!(parts(&deep), ["git log".to_owned(), format!("{OPAQUE}{deep}")]);
        assert_eq!(always(&parts(&deep)), ["git *"]);
        for quote in ["$((", "`", "("] {
            let deep = format!("{}{quote}git x", "$(".repeat(DEPTH_MAX));
            assert_eq!(parts(&deep), [format!("{OPAQUE}{deep}")], "{quote}");
        }
        let long = format!("git {}; rm x", "a".repeat(LINE_MAX));
        assert_eq!(parts(&long), [format!("{OPAQUE}{long}")]);
        assert!(always(&parts(&long)).is_empty());
        // The longest line that is split, at its most expensive: every parenthesis looks at all before it.
        let case = format!("case {}{}", " ".repeat(LINE_MAX / 2), "(".repeat(LINE_MAX / 2 - 5));
        assert_eq!(parts(&case), [format!("{OPAQUE}{case}")]);
    }

    #[test]
    fn the_deepest_line_that_is_split_is_split_whole() {
        let deep = format!("{}rm x{}", "echo $(".repeat(DEPTH_MAX), ")".repeat(DEPTH_MAX));
        assert_eq!(parts(&deep).len(), DEPTH_MAX + 1);
        assert_eq!(parts(&deep)[0], "rm x");
        let many: String = (0..15_000).map(|n| format!("a{n};")).collect();
        assert_eq!(parts(&many).len(), 15_000);
        assert_eq!(always(&parts(&many)).len(), 15_000);
    }

    #[test]
    fn junk_never_panics() {
        let pieces: Vec<&str> = concat!(
            "$((¦))¦$(¦)¦(¦`¦\\`¦\\¦'¦\"¦$'¦{¦}¦<<E¦<<'E'¦<<-¦\nE\n¦\n¦;¦&¦|¦>¦<¦<(¦>&¦#¦ ¦\t¦case x in¦",
            "esac¦for f in¦do¦done¦if¦fi¦A=1¦=¦a¦rm x¦é¦😀¦\u{a0}¦\0¦$¦*¦function¦()¦[[¦!¦time",
        )
        .split('¦')
        .collect();
        // A xorshift generator: the same junk every time, so that a failure can be seen again.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        for round in 0..5000 {
            let length = next(if round % 100 == 0 { 2000 } else { 40 });
            let line: String = (0..length).map(|_| pieces[next(pieces.len())]).collect();
            always(&parts(&line));
            cheap(&line, DEPTH_MAX * DEPTH_MAX);
        }
    }
}
