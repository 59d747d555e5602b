//! How long the trash is kept: for ever, unless the person's configuration says otherwise.

use std::time::Duration;

use serde_json::Value;

use super::Config;

/// A time in words: hours, days or weeks.
///
/// # Errors
/// When it is none.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time such as 12h, 30d or 8w");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let hours: u64 = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 7 * 24,
        _ => return Err(wrong()),
    };
    let number = text.strip_suffix(unit).unwrap_or_default();
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(hours * 60 * 60).ok_or_else(wrong)?;
    Ok(Duration::from_secs(seconds))
}

impl Config {
    /// How long the trash is kept; none means for ever, which also holds where it is not clear what was meant.
    #[must_use]
    pub fn trash_lifetime(&self) -> Option<Duration> {
        read(self.raw.get("trash")).ok().flatten()
    }
}

/// What is wrong with the setting.
pub(super) fn mistake(setting: &Value) -> Option<String> {
    let reason = read(Some(setting)).err()?;
    Some(format!(
        "`trash.keep` must be \"forever\" or a time such as \"30d\", and until it is, the trash is kept: {reason}"
    ))
}

fn read(setting: Option<&Value>) -> Result<Option<Duration>, String> {
    let Some(setting) = setting else { return Ok(None) };
    let known = setting.as_object().filter(|map| map.keys().all(|key| key == "keep"));
    match known.map(|map| map.get("keep")) {
        Some(None) => Ok(None),
        Some(Some(Value::String(text))) if text == "forever" => Ok(None),
        Some(Some(Value::String(text))) => span(text).map(Some),
        // What was meant to delete, or meant not to, is not guessed.
        Some(Some(_)) | None => Err(format!("{setting} is neither")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_read() {
        let hour = 60 * 60;
        for (text, hours) in [("12h", 12), ("30d", 30 * 24), ("8w", 8 * 7 * 24), ("0d", 0)] {
            assert_eq!(span(text), Ok(Duration::from_secs(hours * hour)), "{text}");
        }
        for text in ["", "d", "30", "-1d", "1.5d", "30dd", "30 days", "1m", "99999999999999999999d", "1é"] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_trash_is_kept_for_ever_unless_it_is_said_clearly() {
        for setting in [None, Some(json!({})), Some(json!({"keep": "forever"}))] {
            assert_eq!(read(setting.as_ref()), Ok(None), "{setting:?}");
        }
        let month = Duration::from_secs(30 * 24 * 60 * 60);
        assert_eq!(read(Some(&json!({"keep": "30d"}))), Ok(Some(month)));
        for wrong in [json!({"keep": 30}), json!({"keep": "soon"}), json!("30d"), json!({"days": "30d"})] {
            assert!(read(Some(&wrong)).is_err(), "{wrong}");
        }
    }
}
