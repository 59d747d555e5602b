//! What people see is printed in one place, where nothing that others wrote steers their terminal.

use super::environment::tokens;
use super::{check, shipped};

/// The one place.
const PRINTER: &str = "crates/cli/src/table.rs";

/// A supervisor's standard output is its line to the server, or the program's own, and no person's.
const WIRES: [&str; 2] = ["crates/tools/src/process/supervisor/", "crates/tools/src/process/sandbox/"];

/// Macros that print.
const MACROS: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];

/// Functions that lead to an output when they come from `io` or `stdio`.
const OUTPUTS: [&str; 6] = ["stdout", "stderr", "raw_stdout", "raw_stderr", "take_stdout", "take_stderr"];

/// Where a text prints, or gets hold of something to print to, with the word that does.
fn prints(text: &str) -> Vec<(usize, &str)> {
    let tokens = tokens(text);
    let mut prints = Vec::new();
    for (at, (number, token)) in tokens.iter().enumerate() {
        let mut after = tokens[at + 1..].iter().map(|(_, token)| *token);
        match *token {
            name if MACROS.contains(&name) && after.next() == Some("!") => prints.push((*number, name)),
            "io" | "stdio" => match (after.next(), after.next()) {
                // Under another name it could not be followed.
                (Some("as"), _) => prints.push((*number, "io as")),
                (Some("::"), Some("{")) => {
                    let listed = after.take_while(|token| *token != "}");
                    prints
                        .extend(listed.filter(|token| OUTPUTS.contains(token)).map(|token| (*number, token)));
                }
                (Some("::"), Some(name)) if OUTPUTS.contains(&name) => prints.push((*number, name)),
                _ => {}
            },
            // clap's errors print themselves, and what they quote with them.
            "." => {
                if let [Some(name @ ("print" | "exit")), Some("("), Some(")")] =
                    [(); 3].map(|()| after.next())
                {
                    prints.push((*number, name));
                }
            }
            _ => {}
        }
    }
    prints
}

#[test]
fn what_people_see_is_printed_in_one_place() {
    let mut complaints = Vec::new();
    let mut here = Vec::new();
    // The kit for tests is never part of the product.
    for (file, text) in shipped().into_iter().filter(|(file, _)| !file.starts_with("crates/testkit/")) {
        let prints = prints(&text);
        if file == PRINTER {
            here.extend(prints.into_iter().map(|(_, word)| word.to_owned()));
        } else if !WIRES.iter().any(|wire| file.starts_with(wire)) {
            let complain = |(number, word)| format!("{file}:{number}: `{word}` belongs into {PRINTER}");
            complaints.extend(prints.into_iter().map(complain));
        }
    }
    here.sort();
    assert_eq!(here, ["stderr", "stdout"], "{PRINTER} prints, and each output is taken hold of once");
    check(&complaints);
}

#[test]
fn printing_is_recognised_however_it_is_spelt() {
    for (text, words) in [
        (r#"println!("{title}");"#, &["println"][..]),
        ("eprint! (\"x\");", &["eprint"]),
        ("let mut out = std::io::stderr().lock();", &["stderr"]),
        ("use std::io::{self, Write, stdout};", &["stdout"]),
        ("use std::io as console;", &["io as"]),
        ("let log = fmt().with_writer(io::stderr);", &["stderr"]),
        ("rustix::stdio::take_stdout()", &["take_stdout"]),
        ("error.print().ok();", &["print"]),
        ("error.exit()", &["exit"]),
        ("command.stdout(Stdio::piped()).stderr(Stdio::null());", &[]),
        ("self.print(text);", &[]),
        ("child.stdout.take()", &[]),
        ("// println! would go around it", &[]),
    ] {
        let found: Vec<&str> = prints(text).into_iter().map(|(_, word)| word).collect();
        assert_eq!(found, words, "{text}");
    }
}
