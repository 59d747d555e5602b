//! Variables and home folders are read in one place, so that everything else can be run with any environment.

use super::{check, code, shipped};

/// The one place.
const READER: &str = "crates/cli/src/settings.rs";

/// What reads the environment of this process.
const READS: [&str; 6] =
    ["env::var(", "env::var_os(", "env::vars(", "env::vars_os(", "home_dir(", "BaseDirs"];

#[test]
fn the_environment_is_read_in_one_place() {
    let mut complaints = Vec::new();
    let mut here = 0;
    // The kit for tests is never part of the product, and starts programs that need a PATH.
    for (file, text) in shipped().into_iter().filter(|(file, _)| !file.starts_with("crates/testkit/")) {
        for (number, line) in code(&text) {
            let read = READS.iter().filter(|read| line.contains(**read));
            if file == READER {
                here += read.count();
            } else {
                complaints
                    .extend(read.map(|read| format!("{file}:{number}: {read} … belongs into {READER}")));
            }
        }
    }
    assert!(here > 1, "{READER} reads variables and the home folder");
    check(&complaints);
}
