//! A tree of files to search: always the same, nested, some of it ignored, a few files large.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What only a few files hold.
pub(crate) const RARE: &str = "zanzibar_lighthouse";

/// Words to write lines with.
const WORDS: [&str; 24] = [
    "value", "index", "buffer", "session", "window", "report", "client", "stream", "answer", "number",
    "change", "folder", "return", "match", "state", "token", "entry", "result", "column", "letter", "signal",
    "thread", "memory", "region",
];

/// What was planted.
pub(crate) struct Forest {
    pub(crate) files: usize,
    pub(crate) ignored: usize,
    pub(crate) bytes: usize,
}

/// Numbers that look like chance and are the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

pub(crate) fn plant(root: &Path) -> Forest {
    let mut forest = Forest { files: 0, ignored: 0, bytes: 0 };
    let mut chance = Chance(0x2545_f491_4f6c_dd1d);
    let mut put = |path: &str, content: String, ignored: bool| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        forest.files += 1;
        forest.ignored += usize::from(ignored);
        forest.bytes += content.len();
        fs::write(path, content).unwrap();
    };
    put(".gitignore", "/target\n*.log\nnode_modules/\n".to_owned(), false);
    for number in 0..500 {
        put(&format!(".git/objects/{:02x}/{number:08x}", number % 64), text(&mut chance, 20), false);
    }
    for number in 0..24_000 {
        let folder = format!("part{}/area{}/unit{}", number % 8, number / 8 % 12, number / 96 % 10);
        let extension = ["rs", "rs", "ts", "md", "py", "json"][number % 6];
        let lines = 20 + chance.below(160);
        let mut content = text(&mut chance, lines);
        if number % 2003 == 0 {
            writeln!(content, "    let {RARE} = {number};").unwrap();
        }
        if number % 401 == 0 {
            writeln!(content, "fn item{number}_handler(input: &str) -> Result<u{}> {{", 8 << (number % 4))
                .unwrap();
        }
        let hidden = if number % 97 == 0 { "." } else { "" };
        put(&format!("{folder}/{hidden}file{number}.{extension}"), content, false);
        if number % 1500 == 0 {
            put(&format!("{folder}/config.toml"), "[package]\nname = \"x\"\n".to_owned(), false);
        }
        if number % 100 == 0 {
            put(&format!("{folder}/trace{number}.log"), text(&mut chance, 50), true);
        }
    }
    for number in 0..3_000 {
        put(&format!("target/debug/deps/{}/artefact{number}.rs", number % 40), text(&mut chance, 60), true);
        put(
            &format!("part{}/node_modules/m{}/index{number}.rs", number % 8, number % 50),
            text(&mut chance, 40),
            true,
        );
    }
    for number in 0..4 {
        put(&format!("data/large{number}.csv"), text(&mut chance, 400_000), false);
    }
    put("data/picture.bin", format!("\0\u{1}{RARE}{}", "\0".repeat(100_000)), false);
    forest
}

fn text(chance: &mut Chance, lines: usize) -> String {
    let mut text = String::new();
    for _ in 0..lines {
        for _ in 0..3 + chance.below(8) {
            text.push_str(WORDS[chance.below(WORDS.len())]);
            text.push(if chance.below(6) == 0 { '_' } else { ' ' });
        }
        text.push('\n');
    }
    text
}
