//! How long a provider asks to wait, where its headers do not say it.
//!
//! Google's services name a pause in the details of an error. OpenAI, Groq and Azure put it into the message, for
//! people: "Please try again in 6m0s.", "Please retry after 26 seconds."

use std::time::Duration;

use serde_json::Value;

/// What comes before a pause in a message, lower-case.
const LEADS: &[&str] = &["try again in ", "retry in ", "retry after ", "try again after "];

/// The pause in the details of an error object: `{"@type": "…RetryInfo", "retryDelay": "34.07s"}`.
pub(super) fn in_details(details: &[Value]) -> Option<Duration> {
    details.iter().find_map(|detail| duration(detail.get("retryDelay")?.as_str()?))
}

/// The pause in a message.
pub(super) fn in_words(words: &str) -> Option<Duration> {
    let words = words.to_lowercase();
    LEADS.iter().find_map(|lead| duration(words.split_once(lead)?.1))
}

/// The time at the beginning of a text: `34s`, `6m0s`, `1h2m3.5s`, `644ms`, `26 seconds`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim_start();
    let mut seconds: Option<f64> = None;
    loop {
        let digits = rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '.'));
        let (number, after) = rest.split_at_checked(digits.unwrap_or(rest.len()))?;
        let after = after.trim_start_matches(' ');
        let letters = after.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at_checked(letters)?;
        let (Ok(number), Some(length)) = (number.parse::<f64>(), unit_length(unit)) else { break };
        seconds = Some(number.mul_add(length, seconds.unwrap_or(0.0)));
        rest = next;
    }
    Duration::try_from_secs_f64(seconds?).ok()
}

fn unit_length(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pauses_in_messages() {
        let check = |words: &str, millis: Option<u64>| {
            assert_eq!(in_words(words), millis.map(Duration::from_millis), "{words}");
        };
        check("Rate limit reached. Please try again in 20s. Visit https://x.", Some(20_000));
        check("Please try again in 6m0s.", Some(360_000));
        check("Please try again in 12m28.224s. Need more tokens?", Some(748_224));
        check("Please try again in 644ms.", Some(644));
        check("try again in 1h2m3.5s", Some(3_723_500));
        check("Please retry after 26 seconds.", Some(26_000));
        check("Please retry in 45.578s.", Some(45_578));
        check("Try again in 2 days", Some(172_800_000));
        check("Please try again in a moment", None);
        check("Please try again later", None);
        check("try again in 5", None);
        check("try again in 999999999999999999999s", None);
        check("", None);
    }

    #[test]
    fn pauses_in_details() {
        let info = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.074s"});
        assert_eq!(in_details(&[json!({"reason": "x"}), info]), Some(Duration::from_millis(34_074)));
        assert_eq!(in_details(&[json!({"retryDelay": 34}), json!("x")]), None);
    }
}
