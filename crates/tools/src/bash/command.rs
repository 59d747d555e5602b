//! The simple commands inside a command line, for permission rules.
//!
//! A rule such as `git *` must not let `git status; rm -rf ~` through, and a rule against `rm *` must see the
//! `rm` behind `&&` or inside `$(…)`. So a line is split where the shell would start another command. The
//! splitter knows quotes, substitutions, subshells, redirections and here-documents; where it is unsure it
//! splits once too often, which asks more and never less.

/// The shell's words that come before a command.
const OPENERS: [&str; 10] = ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "time"];

/// The shell's words that close something; only redirections may follow them.
const CLOSERS: [&str; 4] = ["fi", "done", "esac", "}"];

/// First words that say nothing about what runs, so "always" never remembers them.
const VAGUE: [&str; 6] = ["for", "case", "select", "function", "coproc", "[["];

/// What the shell takes as space between words; other white space is part of a word.
const BLANKS: [char; 3] = [' ', '\t', '\n'];

/// Nested substitutions deeper than this are left as text.
const DEPTH_MAX: usize = 32;

/// The simple commands of a line, in order and without repeats; the line itself if there are none.
pub(super) fn parts(line: &str) -> Vec<String> {
    let mut splitter = Splitter { chars: line.chars().collect(), at: 0, depth: 0, found: Vec::new() };
    splitter.list(None);
    let mut parts: Vec<String> = Vec::new();
    for part in splitter.found {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    if parts.is_empty() { vec![line.to_owned()] } else { parts }
}

/// The patterns to remember for "always": each command's first word, with anything after it.
///
/// A command that a pattern cannot name safely adds none, so it is asked about every time.
pub(super) fn always(parts: &[String]) -> Vec<String> {
    let mut always: Vec<String> = Vec::new();
    for part in parts {
        let word = word(part);
        // An assignment in front changes what the command means, so only the very same text is remembered.
        let exact = assignment(word);
        let named = if exact { part.as_str() } else { word };
        if named.is_empty() || named.contains(['*', '?']) || VAGUE.contains(&word) {
            continue;
        }
        let pattern = if exact { part.clone() } else { format!("{word} *") };
        if !always.contains(&pattern) {
            always.push(pattern);
        }
    }
    always
}

/// A walk over the characters of a line.
#[derive(Debug)]
struct Splitter {
    chars: Vec<char>,
    at: usize,
    depth: usize,
    found: Vec<String>,
}

impl Splitter {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Takes the next character into `text`.
    fn take(&mut self, text: &mut String) {
        if let Some(next) = self.peek(0) {
            text.push(next);
            self.at += 1;
        }
    }

    /// Splits commands up to the closing character, which is consumed, or to the end.
    fn list(&mut self, close: Option<char>) {
        let mut text = String::new();
        let mut documents: Vec<(String, bool)> = Vec::new();
        let mut cases = 0_usize;
        // The length of the text right behind a redirection sign, and right behind a blank.
        let mut redirected = usize::MAX;
        let mut blank = 0;
        while let Some(next) = self.peek(0) {
            match next {
                '\n' => {
                    self.at += 1;
                    self.finish(&mut text, &mut cases);
                    for (delimiter, expands) in documents.drain(..) {
                        self.document(&delimiter, expands);
                    }
                }
                ')' if cases > usize::from(word(command(&text)) == "esac")
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
                '(' if command(&text).is_empty() => {
                    self.at += 1;
                    text.clear();
                    self.nested();
                }
                '(' if word(command(&text)) == "case" => self.at += 1,
                '(' if self.peek(1) == Some(')') => {
                    self.at += 2;
                    text.clear();
                }
                '(' => self.balanced(&mut text),
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
            (Some('$'), Some('('), Some('(')) => {
                // Arithmetic, if both parentheses close together; else a subshell in a substitution.
                let (start, found) = (self.at, self.found.len());
                self.at += 2;
                self.balanced(&mut String::new());
                if self.peek(0) == Some(')') {
                    self.at += 1;
                    self.copy(start, text);
                } else {
                    self.at = start;
                    self.found.truncate(found);
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
                    match next {
                        '`' => break,
                        '\\' => inner.extend(self.peek(0).inspect(|_| self.at += 1)),
                        _ => inner.push(next),
                    }
                }
                self.copy(start, text);
                if self.depth < DEPTH_MAX {
                    self.found.extend(parts(&inner));
                }
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
        if self.depth >= DEPTH_MAX {
            // Too deep to be sincere: the rest becomes one command that no rule will have foreseen.
            let rest: String = self.chars.iter().skip(self.at).collect();
            self.at = self.chars.len();
            self.found.push(rest);
            return;
        }
        self.depth += 1;
        self.list(Some(')'));
        self.depth -= 1;
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
    fn copy(&self, start: usize, text: &mut String) {
        text.extend(self.chars.iter().skip(start).take(self.at - start));
    }

    /// Ends a command and keeps it if it runs anything.
    fn finish(&mut self, text: &mut String, cases: &mut usize) {
        let whole = std::mem::take(text);
        let mut rest = command(&whole);
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
    use super::{always, parts};

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
}
