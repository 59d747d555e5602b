//! What a session does or waits for, in words.

use everturn_model::Session;

use crate::table;

/// In one word; nothing for one that rests.
pub(super) fn word(session: &Session) -> &'static str {
    if session.parked {
        "parked"
    } else if session.open && session.retry.is_some() {
        "retry"
    } else if session.is_at_work() {
        "busy"
    } else if session.held {
        "held"
    } else if session.waiting > 0 {
        "waiting"
    } else {
        ""
    }
}

/// In a line that says what to do about it; none for one that rests.
pub(super) fn line(session: &Session) -> Option<String> {
    let resume = format!("`everturn session resume {}` goes on", session.id);
    // What it rested for may be there still.
    let again = format!("`everturn session resume {}` takes it up again", session.id);
    let waiting = table::counted(session.waiting, "prompt waits", "prompts wait");
    Some(match word(session) {
        "parked" => match &session.parked_reason {
            // It may say so itself.
            Some(reason) if reason.text().contains("everturn session resume") => {
                format!("parked: {}", reason.text())
            }
            Some(reason) => format!("parked: {}; {again}", reason.text().trim_end_matches('.')),
            None => format!("parked: it waits for a person; {again}"),
        },
        "retry" => {
            let retry = session.retry.as_ref()?;
            let next = table::moment(retry.next);
            format!("attempt {} failed: {}; it is made again at {next}", retry.attempt, retry.message)
        }
        "busy" if session.waiting > 0 => format!("a turn is open, and {waiting}"),
        "busy" => "a turn is open".to_owned(),
        "held" => format!("{waiting}, held; {resume}"),
        "waiting" => waiting,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use everturn_model::Fault;
    use everturn_model::session::RetryState;

    use super::*;

    #[test]
    fn a_session_is_what_matters_most_about_it() {
        let check = |parked: bool, open: bool, held: bool, waiting: u64, expected: Option<&str>| {
            let session = Session {
                parked,
                open,
                held,
                waiting,
                ..Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17)
            };
            assert_eq!(line(&session).as_deref(), expected, "{session:?}");
            assert_eq!(word(&session).is_empty(), expected.is_none());
        };
        let resume = "`everturn session resume ses_1` goes on";
        check(false, false, false, 0, None);
        check(false, false, false, 1, Some("1 prompt waits"));
        check(false, false, true, 2, Some(&format!("2 prompts wait, held; {resume}")));
        check(false, true, false, 0, Some("a turn is open"));
        check(false, true, false, 2, Some("a turn is open, and 2 prompts wait"));
        check(
            true,
            true,
            true,
            2,
            Some("parked: it waits for a person; `everturn session resume ses_1` takes it up again"),
        );
    }

    #[test]
    fn what_a_session_is_kept_from_is_said_with_its_reason() {
        let base = Session::new("ses_1".into(), "global", "/srv/demo", "t", "1", 17);
        let reason = Some(Fault::internal("It was taken up three times."));
        let parked = Session { parked: true, parked_reason: reason, ..base.clone() };
        assert_eq!(
            line(&parked).unwrap(),
            "parked: It was taken up three times; `everturn session resume ses_1` takes it up again"
        );
        let (entry, message) = ("msg_1".into(), "Overloaded".to_owned());
        let retry = Some(RetryState { entry, attempt: 2, message, next: 17 });
        let waiting = Session { open: true, retry, ..base };
        assert_eq!(word(&waiting), "retry");
        let said = line(&waiting).unwrap();
        assert!(said.starts_with("attempt 2 failed: Overloaded; it is made again at 1970-"), "{said}");
    }
}
