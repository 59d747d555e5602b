//! What looks like a secret, wherever it stands.
//!
//! Settings are hidden by their names, but nobody knows all names: a key may stand in an argument of a command, in an
//! address, under a setting of somebody's own, or in an error that is logged. So text that is shown or logged is also
//! looked through for what keys look like: the beginnings that providers give them, signed tokens, logins and keys in
//! addresses, and long words without any sense. A word too many is hidden rather than one too few, but ids, hashes in
//! UUID form, names of models and paths stay readable.

use std::borrow::Cow;

use serde_json::Value;

/// What stands where a secret was.
pub const HIDDEN: &str = "[hidden]";

/// How keys of well-known services begin. Those that are a prefix of others come after them.
const BEGINNINGS: [&str; 34] = [
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "pk_live_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xoxa-",
    "xoxr-",
    "xoxs-",
    "xapp-",
    "AIza",
    "ya29.",
    "hf_",
    "gsk_",
    "xai-",
    "pplx-",
    "r8_",
    "npm_",
    "pypi-",
    "SG.",
    "dop_v1_",
    "lin_api_",
    "tvly-",
    "nvapi-",
    "csk-",
    "fw_",
];

/// How the ids of Amazon's keys begin, which are of capitals and digits.
const AMAZON: [&str; 2] = ["AKIA", "ASIA"];

/// Names in the query of an address whose values are secrets.
const QUERY: [&str; 12] = [
    "key",
    "apikey",
    "api_key",
    "api-key",
    "token",
    "access_token",
    "auth_token",
    "password",
    "secret",
    "sig",
    "signature",
    "client_secret",
];

/// What follows the beginning of a key, at least.
const TAIL: usize = 12;

/// The shortest word that is a secret because it makes no sense.
const WORD: usize = 32;

/// The same text with [`HIDDEN`] in place of what looks like a secret.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    let text = mask_words(text);
    // Only what names an address can have a login or a query.
    if !text.contains("://") {
        return text;
    }
    match mask_addresses(&text) {
        Cow::Owned(masked) => Cow::Owned(masked),
        Cow::Borrowed(_) => text,
    }
}

/// The same value with [`HIDDEN`] in place of what looks like a secret in any of its texts.
#[must_use]
pub fn mask_json(value: &Value) -> Value {
    match value {
        Value::String(text) => mask(text).into_owned().into(),
        Value::Array(list) => list.iter().map(mask_json).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), mask_json(value))).collect(),
        other => other.clone(),
    }
}

/// Whether a character may be in the middle of a key.
fn is_inner(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

fn mask_words(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    // What was looked at, and what of that was copied.
    let (mut at, mut copied) = (0, 0);
    while let Some(rest) = text.get(at..) {
        let Some(offset) = rest.find(is_inner) else { break };
        let start = at + offset + escape_letter(text, at + offset);
        let word = text.get(start..).unwrap_or_default();
        let end = start + secret_end(word).unwrap_or_default();
        if end > start {
            masked.push_str(text.get(copied..start).unwrap_or_default());
            masked.push_str(HIDDEN);
            (at, copied) = (end, end);
        } else {
            at = start + word.find(|character| !is_inner(character)).unwrap_or(word.len());
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    masked.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(masked)
}

/// How many letters at the beginning of a word belong to an escape before it: in a log, `\n` stands before many.
fn escape_letter(text: &str, at: usize) -> usize {
    let escaped = text.get(..at).is_some_and(|before| before.ends_with('\\'));
    usize::from(escaped && text.get(at..).is_some_and(|rest| rest.starts_with(['n', 't', 'r'])))
}

/// How long the secret is that a text begins with, if it begins with one.
fn secret_end(text: &str) -> Option<usize> {
    let length = |text: &str, inner: fn(char) -> bool| text.find(|c| !inner(c)).unwrap_or(text.len());
    let known = BEGINNINGS.iter().find_map(|beginning| {
        let tail = text.strip_prefix(beginning)?;
        let long = length(tail, |c| is_inner(c) || c == '.');
        let long = tail.get(..long).map_or(long, |tail| tail.trim_end_matches(['.', '-', '_']).len());
        let digits = tail.get(..long)?.bytes().any(|byte| byte.is_ascii_digit());
        // Without a digit it is a word with a hyphen.
        (long >= TAIL && digits).then_some(beginning.len() + long)
    });
    let amazon = || {
        let id = length(text, |c| c.is_ascii_uppercase() || c.is_ascii_digit());
        let whole = length(text, is_inner);
        (AMAZON.iter().any(|start| text.starts_with(start)) && id == 20 && whole == 20).then_some(20)
    };
    let signed = || {
        let token = text.get(..length(text, |c| is_inner(c) || c == '.'))?;
        let mut parts = token.splitn(3, '.');
        let long = |part: Option<&str>| part.is_some_and(|part| part.len() >= 8);
        let is_token =
            token.starts_with("eyJ") && long(parts.next()) && long(parts.next()) && long(parts.next());
        is_token.then_some(token.len())
    };
    let senseless = || {
        let word = text.get(..length(text, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+')))?;
        is_senseless(word).then_some(word.len())
    };
    known.or_else(amazon).or_else(signed).or_else(senseless)
}

/// Whether a word is too long and too mixed to mean anything: hexadecimal digits, or letters of both cases among digits.
fn is_senseless(word: &str) -> bool {
    if word.len() < WORD {
        return false;
    }
    let count = |wanted: fn(&u8) -> bool| word.bytes().filter(wanted).count();
    let (upper, lower) = (count(u8::is_ascii_uppercase), count(u8::is_ascii_lowercase));
    let (digits, others) = (count(u8::is_ascii_digit), count(|byte| !byte.is_ascii_alphanumeric()));
    let distinct = word.bytes().collect::<std::collections::BTreeSet<u8>>().len();
    let mixed = upper >= 4 && lower >= 4 && digits >= 2 && distinct >= 16;
    let flat = others == 0 && digits >= 5 && (lower >= 5 || upper >= 5) && distinct >= 10;
    mixed || flat
}

/// Takes logins and the values of secret parameters out of addresses.
fn mask_addresses(text: &str) -> Cow<'_, str> {
    let mut masked = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        masked.push_str(before);
        masked.push_str("://");
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | '`'));
        let (address, behind) = after.split_at(end.unwrap_or(after.len()));
        let path = address.find(['/', '?', '#']).unwrap_or(address.len());
        let (authority, path) = address.split_at(path);
        masked.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        let (path, query) = path.find('?').map_or((path, ""), |at| path.split_at(at));
        masked.push_str(path);
        for (at, parameter) in query.split('&').enumerate() {
            masked.push_str(if at == 0 { "" } else { "&" });
            let name =
                parameter.split('=').next().unwrap_or_default().trim_start_matches('?').to_ascii_lowercase();
            match parameter.split_once('=') {
                Some((name_text, value)) if QUERY.contains(&name.as_str()) && !value.is_empty() => {
                    masked.push_str(name_text);
                    masked.push('=');
                    masked.push_str(HIDDEN);
                }
                _ => masked.push_str(parameter),
            }
        }
        rest = behind;
    }
    masked.push_str(rest);
    if masked == text { Cow::Borrowed(text) } else { Cow::Owned(masked) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_is_hidden() {
        for (text, expected) in [
            ("sk-proj-Ab3dEf6hIj9kLm2n", "[hidden]"),
            ("--token=ghp_0123456789abcdefABCDEF0123456789abcd, then", "--token=[hidden], then"),
            ("AKIAIOSFODNN7EXAMPLE", "[hidden]"),
            ("a eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN b", "a [hidden] b"),
            ("0123456789abcdef0123456789abcdef", "[hidden]"),
            ("key: Zm9vYmFyMTIzNDU2Nzg5MFF3RXJUeVVpT3A", "key: [hidden]"),
            (r#"{"message":"no\nsk-ant-api03-a1b2c3d4e5f6"}"#, r#"{"message":"no\n[hidden]"}"#),
            ("postgres://me:pw@host/db", "postgres://host/db"),
            (
                "see https://me@host/a?x=1&api_key=abc&y=2 there",
                "see https://host/a?x=1&api_key=[hidden]&y=2 there",
            ),
            ("https://host/?token=abc", "https://host/?token=[hidden]"),
            ("https://host/?a=b&Token=abc", "https://host/?a=b&Token=[hidden]"),
        ] {
            assert_eq!(mask(text), expected, "{text}");
        }
    }

    #[test]
    fn what_people_need_to_read_stays() {
        for text in [
            "session.id=ses_e18338612ffe7xRY7RMx0Hcvk0 duration_ms=17",
            "msg_e18338612ffe7xRY7RMx0Hcvk0",
            "01a1dd28-90b6-7440-9431-f3367feafc87",
            "accounts/fireworks/models/llama-4-maverick-17b-128e-instruct-fp8",
            "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
            "claude-sonnet-4-5-20250929",
            "sk-learn is a library, sk-scheduled-maintenance is not",
            "/srv/everturn/projects/a_rather_long_name_of_a_folder_with_2_digits/x.rs",
            "a_regression_test_says_what_broke_in_version_2",
            "see https://host/a@b",
            "user@host://x",
            "https://host/v1?model=x&n=1",
            "ctrl+x",
            "ünïcode — 日本語",
        ] {
            assert_eq!(mask(text), text);
        }
    }
}
