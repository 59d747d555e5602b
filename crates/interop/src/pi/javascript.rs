//! JSON text and dates as JavaScript writes them.
//!
//! pi and omp are JavaScript programs: what they write, and the digests of what they would write, follow
//! `JSON.stringify` and `Date`. serde_json prints fractions and very large numbers differently, and keeps keys in the
//! order of the text where JavaScript moves keys that are array indices to the front.

use everturn_model::{Map, Millis};
use jiff::Timestamp;
use serde_json::{Number, Value};

/// The largest key that JavaScript treats as an array index.
const LAST_INDEX: u64 = 4_294_967_294;

/// The text that `JSON.stringify` gives for a value. Whole numbers beyond 2⁵³ stay exact, where JavaScript would have
/// rounded them on reading: a rounded number would be a loss.
#[must_use]
pub fn stringify(value: &Value) -> String {
    let mut text = String::new();
    put(&mut text, value);
    text
}

fn put(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => put_number(text, number),
        Value::String(string) => put_string(text, string),
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                put(text, item);
            }
            text.push(']');
        }
        Value::Object(map) => put_object(text, map),
    }
}

fn put_object(text: &mut String, map: &Map) {
    text.push('{');
    let mut indices: Vec<(u64, &String, &Value)> =
        map.iter().filter_map(|(key, value)| index(key).map(|at| (at, key, value))).collect();
    indices.sort_by_key(|(at, ..)| *at);
    let named = map.iter().filter(|(key, _)| index(key).is_none());
    let all = indices.iter().map(|(_, key, value)| (*key, *value)).chain(named);
    for (at, (key, value)) in all.enumerate() {
        if at > 0 {
            text.push(',');
        }
        put_string(text, key);
        text.push(':');
        put(text, value);
    }
    text.push('}');
}

fn index(key: &str) -> Option<u64> {
    let plain = key.len() <= 10
        && key.bytes().all(|byte| byte.is_ascii_digit())
        && (key == "0" || !key.starts_with('0'));
    if !plain {
        return None;
    }
    key.parse().ok().filter(|at| *at <= LAST_INDEX)
}

fn put_string(text: &mut String, string: &str) {
    // The escapes of serde_json are those of JSON.stringify.
    match serde_json::to_string(string) {
        Ok(quoted) => text.push_str(&quoted),
        Err(_) => text.push_str("\"\""),
    }
}

fn put_number(text: &mut String, number: &Number) {
    if number.is_f64() {
        put_float(text, number.as_f64().unwrap_or_default());
    } else {
        text.push_str(&number.to_string());
    }
}

/// Lays out the shortest digits that mean this number, with an exponent only below 10⁻⁶ and from 10²¹.
fn put_float(text: &mut String, value: f64) {
    if value == 0.0 {
        text.push('0');
        return;
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|digit| *digit != '.').collect();
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let point = exponent + 1;
    text.push_str(sign);
    if (1..=21).contains(&point) {
        let whole = usize::try_from(point).unwrap_or_default();
        let (before, after) = digits.split_at_checked(whole).unwrap_or((&digits, ""));
        text.push_str(before);
        text.extend(std::iter::repeat_n('0', usize::try_from(point - count).unwrap_or_default()));
        if !after.is_empty() {
            text.push('.');
            text.push_str(after);
        }
    } else if (-5..=0).contains(&point) {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', usize::try_from(-point).unwrap_or_default()));
        text.push_str(&digits);
    } else {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        text.push_str(first);
        if !rest.is_empty() {
            text.push('.');
            text.push_str(rest);
        }
        text.push('e');
        text.push_str(if exponent < 0 { "-" } else { "+" });
        text.push_str(&exponent.unsigned_abs().to_string());
    }
}

/// The moment that a date's text means.
pub(super) fn moment(text: &str) -> Option<Millis> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

/// The text of a moment as `Date` prints it; none for moments that no calendar has.
pub(super) fn date(time: Millis) -> Option<String> {
    Timestamp::from_millisecond(time).ok().map(|moment| format!("{moment:.3}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_look_like_javascripts() {
        let text = "[0.0, -0.0, 9.999999999999999e-6, 1e-7, 1.5e-7, 0.000001, 1e21, 123456789012345680000.0, 1.5e300,
            -2.5, 100.0, 1e20, 0.0010221, 9007199254740993, 18446744073709551615]";
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(
            stringify(&value),
            "[0,0,0.000009999999999999999,1e-7,1.5e-7,0.000001,1e+21,123456789012345680000,1.5e+300,\
             -2.5,100,100000000000000000000,0.0010221,9007199254740993,18446744073709551615]"
        );
    }

    #[test]
    fn index_keys_come_first() {
        assert_eq!(
            stringify(&json!({"b": 1, "10": 2, "2": 3, "01": 4, "\u{1}\u{7f}é": "\n"})),
            "{\"2\":3,\"10\":2,\"b\":1,\"01\":4,\"\\u0001\u{7f}é\":\"\\n\"}"
        );
    }

    #[test]
    fn dates_go_both_ways() {
        let time = moment("2026-11-15T03:03:09.655Z").unwrap();
        assert_eq!(time, 1_794_711_789_655);
        assert_eq!(date(time).as_deref(), Some("2026-11-15T03:03:09.655Z"));
        assert_eq!(date(0).as_deref(), Some("1970-01-01T00:00:00.000Z"));
        assert_eq!((moment("yesterday"), date(Millis::MAX)), (None, None));
    }
}
