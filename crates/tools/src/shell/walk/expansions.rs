//! `${…}` and `$((…))`: which of them only look at values.

/// Whether `${…}` only looks at a variable: no index, no indirection, nothing evaluated, nothing set.
pub(super) fn plain_expansion(source: &str) -> bool {
    let Some(body) = source.strip_prefix("${").and_then(|body| body.strip_suffix('}')) else { return false };
    let body = body.strip_prefix('#').filter(|rest| !rest.is_empty()).unwrap_or(body);
    let length = body.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(body.len());
    let Some((name, rest)) = body.split_at_checked(length) else { return false };
    if name.is_empty() {
        return matches!(rest, "@" | "*" | "#" | "?" | "$" | "!" | "-");
    }
    // A part by its place is arithmetic, harmless with numbers only.
    let part = |rest: &str| {
        let numbers: Vec<&str> = rest.split(':').collect();
        let number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        numbers.len() <= 2 && numbers.iter().all(number)
    };
    let operators = [":-", ":+", "-", "+", "##", "#", "%%", "%", "//", "/"];
    matches!(rest, "" | "^" | "^^" | "," | ",,")
        || rest.strip_prefix(':').is_some_and(part)
        || operators
            .iter()
            .find_map(|operator| rest.strip_prefix(operator))
            .is_some_and(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "_./,:@%*-".contains(c)))
}

/// Whether an arithmetic expansion holds numbers only: names are evaluated again, with any command in their values.
pub(super) fn plain_arithmetic(source: &str) -> bool {
    let body = source.strip_prefix("$((").and_then(|body| body.strip_suffix("))"));
    body.is_some_and(|body| body.chars().all(|c| c.is_ascii_digit() || "+-*/%()<>&|^~!?: \t".contains(c)))
}
