//! The table of limits in SECURITY.md says what the code says: each value is that of its constant.

use super::{check, read};

const PAGE: &str = "SECURITY.md";

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
struct LimitRow {
    value: String,
    constant: String,
    file: String,
}

/// The rows below the heading `Limits`.
fn table(page: &str) -> Vec<LimitRow> {
    let section = page.split("\n## ").find(|section| section.starts_with("Limits\n")).unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let row = |line: &str| {
        let cells: Vec<&str> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        match cells.as_slice() {
            [_, value, constant, file] => LimitRow {
                value: (*value).to_owned(),
                constant: (*constant).to_owned(),
                file: (*file).to_owned(),
            },
            _ => panic!("{line} has not four columns"),
        }
    };
    rows.map(row).collect()
}

/// What a constant is, in the words of the table.
fn value(source: &str, constant: &str) -> Option<String> {
    let declared = format!("const {constant}:");
    let line = source.lines().find(|line| line.contains(&declared))?;
    let expression = line.split_once(" = ")?.1.trim_end_matches(';');
    let factors = expression.split('*').map(|factor| factor.trim().replace('_', "").parse::<u64>().ok());
    if let Some(seconds) = expression.strip_prefix("Duration::from_secs(") {
        return Some(format!("{} s", seconds.trim_end_matches(')')));
    }
    let number = factors.product::<Option<u64>>()?;
    Some(match number {
        bytes if expression.contains('*') && bytes % (1024 * 1024) == 0 => {
            format!("{} MiB", bytes / (1024 * 1024))
        }
        bytes if expression.contains('*') => format!("{} KiB", bytes / 1024),
        number => grouped(number),
    })
}

/// A number with a comma between each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_table_of_limits_is_true() {
    let rows = table(&read(PAGE));
    assert!(rows.len() > 25, "{} rows", rows.len());
    let mut complaints = Vec::new();
    for LimitRow { value: said, constant, file } in &rows {
        let found = value(&read(file), constant);
        if found.as_ref() != Some(said) {
            complaints.push(format!("{constant} in {file} is {found:?}, and {PAGE} says {said}"));
        }
    }
    check(&complaints);
}

#[test]
fn constants_are_read_as_the_table_has_them() {
    let source = "pub const A: usize = 64 * 1024;\nconst B: u64 = 32 * 1024 * 1024;\nconst C: Duration = \
                  Duration::from_secs(10);\npub(crate) const D: usize = 10_000;\n    const E: usize = 96;";
    let read = ["A", "B", "C", "D", "E", "F"].map(|name| value(source, name));
    let expected = [Some("64 KiB"), Some("32 MiB"), Some("10 s"), Some("10,000"), Some("96"), None];
    assert_eq!(read, expected.map(|text| text.map(str::to_owned)));
    let page = "# Page\n\n## Limits\n\n| what | value | constant | file |\n|---|---|---|---|\n| it | 64 KiB | `A` | `a.rs` |\n\n## More\n\n| x | y | z | w |\n";
    let row = LimitRow { value: "64 KiB".to_owned(), constant: "A".to_owned(), file: "a.rs".to_owned() };
    assert_eq!(table(page), [row]);
}
