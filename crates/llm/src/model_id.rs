//! Ids of models, as far as they show the family.

/// The name of the model that an id stands for, in small letters.
///
/// Aggregators put the maker in front (`openai/gpt-4o`), servers put a size or a price behind (`qwen3:8b`), and a
/// fine-tuned model is named after its base and its owner (`ft:gpt-4o-2024-08-06:acme::abc`). None of that says what a
/// model can do.
pub(crate) fn base_name(id: &str) -> String {
    let id = id.rsplit('/').next().unwrap_or(id).to_ascii_lowercase();
    let id = id.strip_prefix("ft:").unwrap_or(&id);
    id.split(':').next().unwrap_or(id).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let check = |id: &str, expected: &str| assert_eq!(base_name(id), expected, "{id}");
        check("gpt-4o", "gpt-4o");
        check("openai/GPT-4o", "gpt-4o");
        check("ft:gpt-4o-2024-08-06:acme:kimi-like:abc", "gpt-4o-2024-08-06");
        check("openai/ft:gpt-4.1:acme::abc", "gpt-4.1");
        check("deepseek/deepseek-r1:free", "deepseek-r1");
        check("accounts/fireworks/models/kimi-k2p5", "kimi-k2p5");
        check("", "");
    }
}
