//! Lines for the shell, made from its grammar and then spoilt.
//!
//! Every line mixes commands that the rules allow with some that they do not, in all the places where the shell
//! starts commands or almost does. Two lines of five are then changed at random places, which opens quotes, joins
//! words and cuts documents short: where two readers of the same text come to differ.

use super::pieces::{ALLOWED, FORBIDDEN, JUNK, ODD, PIECES};

/// A sequence of numbers that is the same every time, so that a failure can be seen again.
#[derive(Debug)]
pub(super) struct Generator {
    state: u64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from((self.state >> 16) % limit as u64).unwrap()
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn piece(&mut self) -> &'static str {
        let odd = self.one_in(24);
        self.pick(if odd { ODD } else { PIECES })
    }

    /// The next line.
    pub(super) fn line(&mut self) -> String {
        let depth = 1 + self.below(3);
        let mut line = self.list(depth);
        if self.below(5) < 2 {
            for _ in 0..=self.below(2) {
                self.spoil(&mut line);
            }
        }
        line.replace('\0', "")
    }

    fn spoil(&mut self, line: &mut String) {
        let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
        let at = places[self.below(places.len())];
        match self.below(6) {
            0 if at < line.len() => {
                line.remove(at);
            }
            1 if at < line.len() => {
                let again = line[at..].chars().next().unwrap();
                line.insert(at, again);
            }
            _ => line.insert_str(at, self.pick(JUNK)),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let mut line = self.command(depth);
        while self.one_in(3) {
            let joint = self.pick(&[
                " && ", " || ", "; ", " | ", " & ", "\n", ";", "&&", "|", " |& ", " ;\n", " \\\n&& ",
            ]);
            line = format!("{line}{joint}{}", self.command(depth));
        }
        if self.one_in(12) {
            line.push_str(self.pick(&[" # a comment", " #' \"", "\n# rm x\n", " #"]));
        }
        line
    }

    fn simple(&mut self) -> String {
        let allowed = !self.one_in(20);
        let mut command = self.pick(if allowed { ALLOWED } else { FORBIDDEN }).to_owned();
        while self.one_in(3) {
            command =
                format!("{command}{}{}", self.pick(&[" ", " ", " ", "  ", "\t", " \\\n", ""]), self.piece());
        }
        command
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple();
        }
        let inner = |this: &mut Self| this.list(depth - 1);
        match self.below(36) {
            0 => format!("({})", inner(self)),
            1 => format!("{{ {}; }}", inner(self)),
            2 => format!("if {}; then {}; else {}; fi", self.simple(), inner(self), self.simple()),
            3 => format!("for v in a {}; do {}; done", self.piece(), inner(self)),
            4 => format!("while false; do {}; done", inner(self)),
            5 => format!(
                "case {} in {}) {};; *) {};; esac",
                self.piece(),
                self.piece(),
                inner(self),
                self.simple()
            ),
            6 => format!("echo $({})", inner(self)),
            7 => format!("echo \"a $({}) b\"", inner(self)),
            8 => format!("echo `{}`", inner(self)),
            9 => format!("cat <({})", inner(self)),
            10 => format!("v=$({}); echo \"$v\"", inner(self)),
            11 => {
                let delimiter = self.pick(&["E", "'E'", "\"E\"", "\\E", "E F", "'E F'", "$x", "E'F'"]);
                let dash = self.pick(&["", "-"]);
                let rest = self.pick(&["", "", " | sort", " && ls", "; rm x", " f", " > y", " 2>&1"]);
                let body = self.pick(&[
                    "text",
                    "$(rm x)",
                    "`rm x`",
                    "$x ${y}",
                    "\\",
                    "'",
                    "\"",
                    "$(git log -1)",
                    "\tE",
                    " E",
                    "E\\",
                ]);
                let end = self.pick(&["\nE\n", "\nE", "\n\tE\n", "\nE \n", "\n'E'\n", "\nE F\n", ""]);
                format!("cat <<{dash}{delimiter}{rest}\n{body}{end}{}", self.simple())
            }
            12 => format!("{} <<< {}", self.simple(), self.piece()),
            13 => {
                let operator = self.pick(&[">", ">>", "2>", "&>", ">&", "<", ">|", "<>", "2>&1 >", "3>"]);
                let target = self.pick(&[
                    "/dev/null",
                    "/dev/null",
                    "y",
                    "$x",
                    "f",
                    "&1",
                    "&-",
                    "/dev/stderr",
                    "'y z'",
                    "1",
                ]);
                format!("{} {operator}{target}", self.command(depth - 1))
            }
            14 => format!(
                "{} {}",
                self.pick(&["A=1", "PATH=.", "x=y", "IFS=/", "x+=1", "x[0]=1", "x=(a)"]),
                self.simple()
            ),
            15 => {
                let launcher = self.pick(&[
                    "env",
                    "env -i",
                    "timeout 5",
                    "nohup",
                    "nice",
                    "nice -n 5",
                    "time",
                    "command",
                    "builtin",
                    "xargs",
                    "xargs -n 1",
                    "xargs -I{}",
                    "env A=1",
                    "env -S",
                    "env -u",
                    "env -u *",
                    "nice -n ?",
                    "nice -n {1,2}",
                    "env v=*",
                    "env v=$x",
                    "timeout $x",
                    "! ",
                    "time -p",
                    "timeout 5 env",
                    "coproc",
                    "exec",
                    "eval",
                ]);
                format!("{launcher} {}", self.command(depth - 1))
            }
            16 => format!("! {}", inner(self)),
            17 => format!(
                "[[ {} {} {} ]] && {}",
                self.piece(),
                self.pick(&["==", "=", "!=", "=~", "-eq", "<", "&&", "-nt"]),
                self.piece(),
                self.simple()
            ),
            18 => format!(
                "[ {} {} {} ] && {}",
                self.piece(),
                self.pick(&["=", "!=", "-eq", "&&", "-a", ">", "||"]),
                self.piece(),
                inner(self)
            ),
            19 => format!("ls() {{ {}; }}; ls", inner(self)),
            20 => format!(
                "find . {} {}",
                self.pick(&["-name f", "-exec", "-type f", "$x", "-delete", "-print"]),
                self.piece()
            ),
            21 => format!(
                "git {} {}",
                self.pick(&["status", "log", "-c x=y log", "diff", "x", "$x", "{a,b}"]),
                self.piece()
            ),
            22 => format!("echo $(( {} ))", self.pick(&["1", "x", "$(rm x)", "a[$(rm x)]", "1+1", "1 << 2"])),
            23 => format!(
                "echo ${{x{}}}",
                self.pick(&[
                    ":-$(rm x)",
                    ":=a",
                    "//a/b",
                    "[0]",
                    "@P",
                    ":-a",
                    "%%a",
                    ":1",
                    "#a",
                    ":-`rm x`",
                    ":-'}'",
                    ":-\"}\""
                ])
            ),
            24 => format!("{}\n{}", self.simple(), inner(self)),
            25 => format!(
                "{}{}",
                self.pick(&["g'i't ", "\\ls ", "l\\s ", "\"ls\" ", "$'ls' ", "l\"\"s ", "r\\m ", "'rm' "]),
                self.piece()
            ),
            26 => format!(
                "echo {} | xargs {} {} {}",
                self.pick(&["-delete", "rm", "x", "-exec", "--output=y", "'rm x'"]),
                self.pick(&[
                    "",
                    "-I{}",
                    "-I %",
                    "-I a",
                    "-I{} -L 1",
                    "-n 1",
                    "--max-lines",
                    "--max-lines=1",
                    "--replace",
                    "-i",
                    "-l",
                    "-e",
                    "-I{} -n1",
                    "-I \"a'b\"",
                    "-0",
                    "-P2",
                ]),
                self.pick(&[
                    "find ./sub",
                    "echo",
                    "ls",
                    "git log",
                    "cat",
                    "sort",
                    "rm",
                    "wc -l",
                    "touch echo"
                ]),
                self.pick(&["", "{}", "%", "a", "\"$x\"", "\"a'b\"", "f"])
            ),
            27 => format!(
                "x={}; test {} {} {}; {}",
                self.pick(&["-v", "a", "-n", "'='", "'!'"]),
                self.pick(&["\"$x\"", "-f", "-v", "!", "a", "-n"]),
                self.pick(&["'a[$(rm x)]'", "\"$x\"", "=", "-a", "-n", "f"]),
                self.pick(&["", "\"$x\"", "'a[$(rm x)]'", "f"]),
                self.simple()
            ),
            28 => format!(
                "printf {} {}; ls",
                self.pick(&[
                    "xxx%n", "'%s\\n'", "%d", "-v", "\"$x\"", "xxx%ln", "'xxx%%n'", "-- xxx%n", "'%*n'"
                ]),
                self.pick(&["PATH", "x", "PATH 3", "'a[$(rm x)]'", "3"])
            ),
            29 => format!(
                "sed {} {} {}",
                self.pick(&["-i", "-n", "-i.bak", "--in-place", "-E", "-ni", "-s"]),
                self.pick(&["s/a/b/", "p", "'1e rm x'", "'w y'", "1d", "-e s/a/b/"]),
                self.pick(&["f", "\"$x\"", "*", "f -i", "sub/g", ".git/config"])
            ),
            30 => format!(
                "uniq {} {}",
                self.pick(&["", "-c", "-", "f", "-d", "--count"]),
                self.pick(&["f", "y", "-", "\"$x\"", "f y", "*"])
            ),
            31 => format!(
                "cd {} && git {}",
                self.pick(&["sub", "bare", "bare/sub", "bare/..", "3"]),
                self.pick(&["status", "log", "diff", "fetch evil://x", "merge -s evil x", "merge -s ort x"])
            ),
            _ => self.simple(),
        }
    }
}
