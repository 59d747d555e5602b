//! What the person is told of a command besides its output: what became of what it made and wrote, and what was kept from it.
//!
//! The model reads the same in the output, with what it can do about it. Clients show of an output what they like; these
//! lines are beside it, as a list.

use super::refusal::CommandRefusal;
use crate::process::Cleanup;
use crate::process::sandbox::DisplacedName;

/// What to do about a name that was put aside.
const ASIDE: &str =
    "nothing reads what ends in .untrusted: look at it, then take the ending away or delete it";

/// A line for each thing that the person has to know.
pub(super) fn person_notes(gone: &Cleanup, refused: Option<&CommandRefusal>) -> Vec<String> {
    let mut notes = gone.displacements();
    if gone.displaced.iter().any(|name| matches!(name, DisplacedName::Renamed { .. })) {
        notes.push(ASIDE.to_owned());
    }
    notes.extend(gone.lost_settings().map(str::to_owned));
    notes.extend(gone.lost.told().map(|lost| format!("what it {lost}")));
    notes.extend(refused.into_iter().flat_map(CommandRefusal::shown));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sandbox::LostNames;

    #[test]
    fn what_became_of_files_is_a_line_each() {
        let gone = Cleanup {
            displaced: vec![
                DisplacedName::Renamed { path: ".vscode".into(), to: ".vscode.untrusted".into() },
                DisplacedName::Renamed { path: "a/.git/config".into(), to: "a/.git/config.untrusted".into() },
                DisplacedName::PutBack("link".into()),
            ],
            lost: LostNames { names: vec!["~/notes.txt".into()], more: 0 },
            ..Cleanup::default()
        };
        let lost =
            "what it wrote to ~/notes.txt is gone: the rest of the home folder is not shown in the sandbox";
        let config = "a/.git/config was renamed to a/.git/config.untrusted";
        let settings = gone.lost_settings().unwrap();
        let expected =
            [".vscode was renamed to .vscode.untrusted", config, "link was put back", ASIDE, settings, lost];
        assert_eq!(person_notes(&gone, None), expected);
        assert_eq!(person_notes(&Cleanup::default(), None), [""; 0]);
    }
}
