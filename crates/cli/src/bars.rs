//! Bars: how amounts compare, one line for each.

use everturn_model::Money;
use everturn_model::session::Spent;

use crate::table;

/// How wide a name may be, in columns.
const WIDEST_NAME: usize = 24;

/// From an eighth of a column to a whole one.
const EIGHTHS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// One line of a chart.
#[derive(Debug)]
pub(crate) struct Bar {
    name: String,
    cost: Money,
    tokens: u64,
}

impl Bar {
    /// The bar of what was used under a name.
    pub(crate) fn of(name: String, spent: &Spent) -> Self {
        Self { name, cost: spent.cost, tokens: spent.tokens.sum() }
    }
}

/// Draws bars for what was paid, or for tokens where nothing costs anything. No line is wider than `width` columns.
pub(crate) fn draw(bars: impl IntoIterator<Item = Bar>, width: usize) -> Vec<String> {
    let bars: Vec<Bar> = bars.into_iter().collect();
    let paid = bars.iter().any(|bar| bar.cost > Money::ZERO);
    let amount = |bar: &Bar| match paid {
        true => u64::try_from(bar.cost.to_nanos()).unwrap_or(0),
        false => bar.tokens,
    };
    let label = |bar: &Bar| if paid { bar.cost.to_string() } else { table::count(bar.tokens) };
    let names: Vec<String> = bars.iter().map(|bar| table::ending(&bar.name, WIDEST_NAME)).collect();
    let named = names.iter().map(|name| table::width(name)).max().unwrap_or_default();
    let labelled = bars.iter().map(|bar| table::width(&label(bar))).max().unwrap_or_default();
    let most = bars.iter().map(amount).max().unwrap_or_default();
    // A space before the name, one on each side of the bar.
    let room = width.saturating_sub(named + labelled + 3);
    let lines = bars.iter().zip(&names).map(|(bar, name)| {
        let gap = " ".repeat(named.saturating_sub(table::width(name)));
        let drawn = drawn(amount(bar), most, room);
        let rest = " ".repeat(room.saturating_sub(table::width(&drawn)));
        let label = label(bar);
        let before = " ".repeat(labelled.saturating_sub(table::width(&label)));
        format!(" {name}{gap} {drawn}{rest} {before}{label}")
    });
    lines.collect()
}

/// A bar of its part of `room` columns. What is not nothing can be seen.
fn drawn(amount: u64, most: u64, room: usize) -> String {
    if amount == 0 || most == 0 {
        return String::new();
    }
    let eighths = u128::try_from(room).unwrap_or(0) * 8;
    let eighths = (u128::from(amount) * eighths).div_ceil(u128::from(most));
    let eighths = usize::try_from(eighths).unwrap_or(usize::MAX).max(1);
    let whole = std::iter::repeat_n('█', eighths / 8);
    whole.chain((eighths % 8).checked_sub(1).and_then(|last| EIGHTHS.get(last)).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(rows: &[(&str, &str, u64)], width: usize) -> Vec<String> {
        let bar = |(name, cost, tokens): &(&str, &str, u64)| Bar {
            name: (*name).to_owned(),
            cost: cost.parse().unwrap(),
            tokens: *tokens,
        };
        draw(rows.iter().map(bar), width)
    }

    #[test]
    fn bars_end_in_line_beside_names_of_every_script() {
        // A character of two columns counted as one, so the bars beside such names were too long for the line.
        let rows = [
            ("2026-11-17", "4", 1),
            ("日本語の名前", "1", 1),
            ("שלום עולם", "0.5", 1),
            ("e\u{301}te\u{301}", "0.000001", 1),
            ("/a/path/that/is/much/too/long/for/a/chart", "0", 9),
        ];
        let expected = [
            " 2026-11-17               ████████████████ $4.0000",
            " 日本語の名前             ████             $1.0000",
            " שלום עולם                ██               $0.5000",
            " e\u{301}te\u{301}                      ▏                $0.0000",
            " …uch/too/long/for/a/chart                  $0.0000",
        ];
        let expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
        let drawn = chart(&rows, 50);
        for line in &drawn {
            assert_eq!(table::width(line), 50, "{line}");
        }
        assert_eq!(drawn[..4], expected[..4]);
        assert!(drawn[4].starts_with(" …") && drawn[4].ends_with(" $0.0000"), "{}", drawn[4]);
    }

    #[test]
    fn where_nothing_costs_anything_tokens_are_compared() {
        let drawn = chart(&[("local", "0", 1000), ("other", "0", 500)], 30);
        assert_eq!(drawn, [" local ██████████████████ 1000", " other █████████           500"]);
        assert_eq!(chart(&[], 30), Vec::<String>::new());
    }
}
