//! The names of what was put aside: nobody works in it, nothing runs it, and it is not looked into.

use std::ffi::OsStr;

/// What a name gets that nobody looks for it by. A number may follow.
pub(super) const ASIDE: &str = ".untrusted";

/// Whether something has such a name.
pub(crate) fn is_put_aside(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let at = name.windows(ASIDE.len()).rposition(|part| part == ASIDE.as_bytes());
    let rest = at.and_then(|at| name.get(at + ASIDE.len()..));
    let is_number = |number: &[u8]| !number.is_empty() && number.iter().all(u8::is_ascii_hexdigit);
    rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(b"-").is_some_and(is_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_aside_is_known_by_its_name() {
        for name in ["x.untrusted", ".zed.untrusted-2", "a.untrusted.untrusted-00ff"] {
            assert!(is_put_aside(name.as_ref()), "{name}");
        }
        for name in [
            "",
            "untrusted",
            "x.untrusted.txt",
            "x.untrusted2",
            "x.untrusted-",
            "x.untrusted-1.code-workspace",
            "src",
        ] {
            assert!(!is_put_aside(name.as_ref()), "{name}");
        }
    }
}
