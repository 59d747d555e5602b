//! Pages that name tests: the rows of their tables, and whether a test is there.

/// The tables in a part of a page, each with its rows and without its head.
pub(super) fn tables(part: &str) -> Vec<Vec<&str>> {
    let mut tables: Vec<Vec<&str>> = Vec::new();
    let mut above = 0;
    for line in part.lines() {
        above = if line.starts_with('|') { above + 1 } else { 0 };
        match above {
            0 | 2 => {}
            1 => tables.push(Vec::new()),
            _ => tables.last_mut().expect("a table has begun").push(line),
        }
    }
    tables
}

/// The cells of a row.
pub(super) fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split(" | ").map(str::trim).collect()
}

/// The pieces of a cell in backticks.
pub(super) fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// Whether a source has a test of this name.
pub(super) fn has_test(source: &str, name: &str) -> bool {
    source.contains(&format!("fn {name}("))
}
