//! The embedded table and its reader.
//!
//! The table is text so that a change of prices can be read in a diff. Cells are parted by tabs, and empty cells at
//! the end of a line are left out:
//!
//! ```text
//! catalogue  1  <month>
//! <provider>  <name>  <variable>,<variable>  <package>  <address>
//!     <model>  <name>  <family>  <flags>  <context>  <input>  <output>  <prices>  <modalities>  <status>  <released>  <package>  <address>
//! ```
//!
//! A model's line begins with a tab. Its flags are `r` reasoning, `a` attachment, `c` tool calls and `t`
//! temperature. Prices are `input/output/cache-read/cache-write` in dollars for a million tokens, where what is left
//! out at the end is zero, then ` >size:prices` for each tier. No status means active. No package means that package
//! and address are those of the provider. `catalogue/make.py` writes it, and texts are borrowed from it: reading
//! it allocates next to nothing for each model.

use std::collections::BTreeMap;

use super::ability::{Abilities, Modalities, TokenLimits};
use super::price::{Prices, Rate, TokenPrice, TokenPriceTier};
use super::{Catalogue, CatalogueText, ModelInfo, ProviderInfo};

/// The table of this build.
pub(super) const BUILTIN: &str = include_str!("../../catalogue/models.tsv");

/// The version of the format that is read here.
const VERSION: &str = "1";

/// A line of a table that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "line {line} of the model table cannot be read: {what}; make the table again with `catalogue/make.py`"
)]
pub struct TableError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Reads a table.
pub(super) fn read(text: &'static str) -> Result<Catalogue, TableError> {
    let mut lines = text.lines().zip(1..);
    let mut head = cells(lines.next().map_or("", |(line, _)| line));
    if (head(), head()) != ("catalogue", VERSION) {
        let what = format!("it does not begin with `catalogue`, a tab and `{VERSION}`");
        return Err(TableError { line: 1, what });
    }
    let as_of = CatalogueText::Borrowed(head());
    let mut rows: Vec<(ProviderInfo, Vec<ModelInfo>)> = Vec::new();
    for (line, number) in lines {
        let wrong = |what| TableError { line: number, what };
        match (line.strip_prefix('\t'), rows.last_mut()) {
            (Some(line), Some((provider, models))) => {
                models.push(model(line, provider).map_err(wrong)?);
            }
            (Some(_), None) => return Err(wrong("a model without a provider before it".to_owned())),
            (None, _) => rows.push((provider(line), Vec::new())),
        }
    }
    let providers = rows.into_iter().map(|(mut provider, models)| {
        provider.models = models.into_iter().map(|model| (model.id.clone(), model)).collect();
        (provider.id.clone(), provider)
    });
    let providers: BTreeMap<CatalogueText, ProviderInfo> = providers.collect();
    Ok(Catalogue { as_of, providers, ..Catalogue::default() })
}

/// The cells of a line one after the other, and empty ones behind its end.
fn cells(line: &'static str) -> impl FnMut() -> &'static str {
    let mut cells = line.split('\t');
    move || cells.next().unwrap_or("")
}

fn optional(cell: &'static str) -> Option<CatalogueText> {
    (!cell.is_empty()).then_some(CatalogueText::Borrowed(cell))
}

fn provider(line: &'static str) -> ProviderInfo {
    let mut cell = cells(line);
    ProviderInfo {
        id: cell().into(),
        name: cell().into(),
        env: cell().split(',').filter_map(optional).collect(),
        package: cell().into(),
        base_url: optional(cell()),
        ..ProviderInfo::default()
    }
}

fn model(line: &'static str, provider: &ProviderInfo) -> Result<ModelInfo, String> {
    let mut cell = cells(line);
    let id = CatalogueText::Borrowed(cell());
    let name = cell().into();
    let family = optional(cell());
    let flags = cell();
    let context = number(cell())?;
    let input = match cell() {
        "" => None,
        limit => Some(number(limit)?),
    };
    let limits = TokenLimits { context, input, output: number(cell())? };
    let prices = prices(cell())?;
    let modalities = cell().split(',').filter(|word| !word.is_empty());
    let input = Modalities::from_words(modalities).map_err(|word| format!("`{word}` is no modality"))?;
    let abilities = Abilities {
        reasoning: flags.contains('r'),
        attachment: flags.contains('a'),
        tool_call: flags.contains('c'),
        temperature: flags.contains('t'),
        input,
        output: Modalities::TEXT,
    };
    let status = match cell() {
        "" => super::ModelStatus::Active,
        word => word.parse().map_err(|error: super::ability::ModelStatusError| error.to_string())?,
    };
    let released = cell().into();
    let (package, base_url) = match (cell(), cell()) {
        ("", _) => (provider.package.clone(), provider.base_url.clone()),
        (package, address) => (package.into(), optional(address)),
    };
    let described = ModelInfo {
        name,
        family,
        package,
        base_url,
        limits,
        prices,
        abilities,
        status,
        released,
        ..ModelInfo::default()
    };
    Ok(ModelInfo { wire: id.clone(), id, ..described })
}

fn number(cell: &str) -> Result<u64, String> {
    cell.parse().map_err(|_| format!("`{cell}` is no number of tokens"))
}

fn prices(cell: &str) -> Result<Prices, String> {
    let mut parts = cell.split(' ');
    let base = price(parts.next().unwrap_or(""))?;
    let tiers = parts.map(|part| {
        let (size, amounts) = part
            .strip_prefix('>')
            .and_then(|tier| tier.split_once(':'))
            .ok_or_else(|| format!("`{part}` is no tier such as >200000:6/22.5"))?;
        Ok(TokenPriceTier { above: number(size)?, price: price(amounts)? })
    });
    Ok(Prices { base, tiers: tiers.collect::<Result<_, String>>()? })
}

fn price(text: &str) -> Result<TokenPrice, String> {
    let mut amounts = text.split('/');
    let mut next = || match amounts.next() {
        Some(amount) => amount.parse().map_err(|error: super::price::RateError| error.to_string()),
        None => Ok(Rate::FREE),
    };
    Ok(TokenPrice { input: next()?, output: next()?, cache_read: next()?, cache_write: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(table: &'static str, line: usize, what: &str) {
        assert_eq!(read(table), Err(TableError { line, what: what.to_owned() }));
    }

    #[test]
    fn says_which_line_is_wrong_and_why() {
        check("", 1, "it does not begin with `catalogue`, a tab and `1`");
        check("catalogue\t2\n", 1, "it does not begin with `catalogue`, a tab and `1`");
        check("catalogue\t1\n\tx\n", 2, "a model without a provider before it");
        check("catalogue\t1\np\n\tm\tM\tf\tr\tmany\n", 3, "`many` is no number of tokens");
        check(
            "catalogue\t1\np\n\tm\tM\tf\tr\t1\t\t1\t1/2 6/7\n",
            3,
            "`6/7` is no tier such as >200000:6/22.5",
        );
        check("catalogue\t1\np\n\tm\tM\tf\tr\t1\t\t1\t1/2\tsmell\n", 3, "`smell` is no modality");
        check(
            "catalogue\t1\np\n\tm\tM\tf\tr\t1\t\t1\tx\n",
            3,
            "`x` is no price: write dollars for a million tokens, such as 0.25",
        );
    }

    #[test]
    fn the_table_of_this_build_can_be_read() {
        assert_eq!(read(BUILTIN).map(|_| ()), Ok(()));
    }
}
