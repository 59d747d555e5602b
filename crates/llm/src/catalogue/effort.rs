//! Which efforts a model takes, told by its id.
//!
//! Services refuse an effort that a model does not have, and no catalogue says which ones it has. So there are tables
//! here by the names of models and their versions. What they do not know is offered the three efforts that nearly all
//! servers take; a family whose services are known to refuse efforts is offered none.

use serde_json::{Map, Value};

use super::variant::{Variant, effort_word};
use super::{CatalogueText, ModelInfo, Protocol};
use crate::{Effort, Reasoning};

use Effort::{High, Low, Max, Medium, Minimal, None as Off};

/// What models with a name take. Of several rules that fit the first one decides.
struct EffortRule {
    /// How the name begins, behind whatever a reseller puts in front.
    name: &'static str,
    /// Words that are in it.
    words: &'static [&'static str],
    /// The least version, which is the number right behind the beginning of the name.
    since: (u32, u32),
    efforts: &'static [Effort],
}

const fn rule(
    name: &'static str,
    words: &'static [&'static str],
    since: (u32, u32),
    efforts: &'static [Effort],
) -> EffortRule {
    EffortRule { name, words, since, efforts }
}

const ANY: (u32, u32) = (0, 0);
const USUAL: &[Effort] = &[Low, Medium, High];
const UP_TO_MAX: &[Effort] = &[Low, Medium, High, Max];

/// For OpenAI's protocols.
const OPENAI: &[EffortRule] = &[
    rule("gpt-oss", &[], ANY, USUAL),
    rule("gpt-", &["chat"], (5, 1), &[Medium]),
    rule("gpt-", &["chat"], ANY, &[]),
    rule("gpt-", &["pro"], (5, 1), &[Medium, High, Max]),
    rule("gpt-", &["pro"], ANY, &[High]),
    rule("gpt-", &["codex", "max"], ANY, UP_TO_MAX),
    rule("gpt-", &["codex"], (5, 2), UP_TO_MAX),
    rule("gpt-", &["codex"], ANY, USUAL),
    rule("gpt-", &[], (5, 2), &[Off, Low, Medium, High, Max]),
    rule("gpt-", &[], (5, 1), &[Off, Low, Medium, High]),
    rule("gpt-", &[], (5, 0), &[Minimal, Low, Medium, High]),
    rule("o1-mini", &[], ANY, &[]),
    rule("o1-preview", &[], ANY, &[]),
    rule("o3-deep", &[], ANY, &[Medium]),
    rule("o4-mini-deep", &[], ANY, &[Medium]),
    // They think as they see fit.
    rule("grok-4.20", &[], ANY, &[]),
    rule("grok-build", &[], ANY, &[]),
    rule("grok-code", &[], ANY, &[]),
    rule("grok-3-mini", &[], ANY, &[Low, High]),
    rule("grok-4.6", &[], ANY, UP_TO_MAX),
    rule("grok-", &[], (4, 4), USUAL),
    rule("grok-", &[], (4, 3), &[Off, Low, Medium, High]),
    rule("grok-", &["latest"], ANY, USUAL),
    rule("grok-", &[], ANY, &[]),
    rule("magistral", &[], ANY, &[]),
    rule("mistral-small", &[], ANY, &[Off, High]),
    rule("mistral-medium", &[], ANY, &[Off, High]),
    rule("mistral", &[], ANY, &[]),
    rule("deepseek-v", &[], (4, 0), &[High, Max]),
    rule("deepseek-flash", &[], ANY, &[High, Max]),
    rule("deepseek-pro", &[], ANY, &[High, Max]),
    rule("deepseek", &[], ANY, &[]),
    rule("kimi-k", &[], (3, 0), &[Low, High, Max]),
    rule("kimi", &[], ANY, &[]),
    rule("glm-", &[], (5, 3), &[Low, High, Max]),
    rule("glm-", &[], (5, 2), &[High, Max]),
    rule("glm", &[], ANY, &[]),
    // They take a switch and a budget instead.
    rule("qwen", &[], ANY, &[]),
    rule("qwq", &[], ANY, &[]),
    rule("qvq", &[], ANY, &[]),
    rule("minimax", &[], ANY, &[]),
];

/// For Anthropic's protocol. Where a model of Claude takes no effort, a budget is made of it.
const ANTHROPIC: &[EffortRule] = &[rule("minimax", &[], ANY, &[])];

/// For Google's protocol. Models before the third generation are given budgets, and the others levels. What is no
/// Gemini is told neither.
const GEMINI: &[EffortRule] = &[
    rule("gemini-", &["image"], ANY, &[]),
    rule("gemini-", &["tts"], ANY, &[]),
    rule("gemini-", &["live"], ANY, &[]),
    rule("gemini-", &["computer"], ANY, USUAL),
    rule("gemini-3-pro", &[], ANY, &[Low, High]),
    rule("gemini-3-flash", &[], ANY, &[Minimal, Low, Medium, High]),
    rule("gemini-", &[], (3, 0), USUAL),
    rule("gemini-", &["pro"], (2, 5), &[Minimal, Low, Medium, High, Max]),
    rule("gemini-", &[], (2, 5), &[Off, Minimal, Low, Medium, High]),
    rule("gemini-", &["latest"], ANY, USUAL),
    rule("", &[], ANY, &[]),
];

/// The presets of a model that reasons, from the least effort to the greatest.
pub(super) fn presets(model: &ModelInfo) -> Vec<Variant> {
    let id = model.wire.to_ascii_lowercase();
    let fit =
        |rules: &'static [EffortRule]| rules.iter().find(|rule| rule.fits(&id)).map(|rule| rule.efforts);
    let efforts = match model.protocol() {
        Protocol::Anthropic | Protocol::VertexAnthropic | Protocol::Bedrock => {
            fit(ANTHROPIC).unwrap_or(UP_TO_MAX)
        }
        Protocol::Gemini | Protocol::Vertex => fit(GEMINI).unwrap_or(&[]),
        Protocol::OpenAiResponses
        | Protocol::Azure
        | Protocol::OpenAiChat
        | Protocol::BedrockMantle
        | Protocol::Cohere
        | Protocol::Unknown => match fit(OPENAI) {
            // These make of an effort what the model takes.
            Some([]) if is_translator(model) => USUAL,
            efforts => efforts.unwrap_or(USUAL),
        },
    };
    efforts.iter().filter_map(|effort| preset(model, &id, *effort)).collect()
}

fn preset(model: &ModelInfo, id: &str, effort: Effort) -> Option<Variant> {
    let mut options = Map::new();
    if effort == Max && model.protocol() == Protocol::OpenAiChat {
        options.insert("reasoning_effort".to_owned(), Value::from(greatest(model, id)?));
    }
    let reasoning = Reasoning { effort: Some(effort), budget: None };
    Some(Variant { name: CatalogueText::Borrowed(effort_word(effort)), reasoning, options })
}

/// The word of a chat server for the greatest effort, if it is known to have one.
fn greatest(model: &ModelInfo, id: &str) -> Option<&'static str> {
    let theirs = begin(id, "gpt-").or_else(|| begin(id, "grok-")).is_some();
    if theirs || model.package == OPENROUTER {
        return Some("xhigh");
    }
    let address = model.base_url.as_deref().unwrap_or("");
    ["api.deepseek.com", "api.moonshot.", "api.z.ai", "bigmodel.cn"]
        .iter()
        .any(|host| address.contains(host))
        .then_some("max")
}

const OPENROUTER: &str = "@openrouter/ai-sdk-provider";

fn is_translator(model: &ModelInfo) -> bool {
    [OPENROUTER, "@ai-sdk/gateway"].contains(&model.package.as_ref())
}

impl EffortRule {
    fn fits(&self, id: &str) -> bool {
        let Some(rest) = begin(id, self.name) else { return false };
        let words = || rest.split(|letter: char| !letter.is_ascii_alphanumeric());
        version(rest) >= self.since && self.words.iter().all(|word| words().any(|own| own == *word))
    }
}

/// What follows the beginning of a name in an id: at its start, or behind a sign.
fn begin<'a>(id: &'a str, name: &str) -> Option<&'a str> {
    let mut places = id.match_indices(name);
    let (place, _) = places.find(|(place, _)| {
        let before = id.get(..*place).and_then(|before| before.chars().next_back());
        before.is_none_or(|letter| !letter.is_ascii_alphanumeric())
    })?;
    id.get(place + name.len()..)
}

/// The number at the beginning of a text, and the one behind its point.
fn version(text: &str) -> (u32, u32) {
    let number = |text: &str| {
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        text.get(..digits).and_then(|digits| digits.parse().ok()).unwrap_or(0)
    };
    let major = number(text);
    let minor = text.trim_start_matches(|letter: char| letter.is_ascii_digit()).strip_prefix('.');
    (major, minor.map_or(0, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(package: &'static str, wire: &'static str, expected: &str) {
        let model = ModelInfo { package: package.into(), wire: wire.into(), ..ModelInfo::default() };
        let names: Vec<CatalogueText> = presets(&model).into_iter().map(|variant| variant.name).collect();
        assert_eq!(names.join(" "), expected, "{wire}");
    }

    /// What broke: OpenAI refused `minimal` and `xhigh` for models that were offered them.
    #[test]
    fn gpt() {
        let check = |wire, expected| check("@ai-sdk/openai", wire, expected);
        check("gpt-5", "minimal low medium high");
        check("gpt-5-mini-2025-08-07", "minimal low medium high");
        check("gpt-5-pro", "high");
        check("gpt-5-codex", "low medium high");
        check("gpt-5-chat-latest", "");
        check("gpt-5.1", "none low medium high");
        check("gpt-5.1-codex", "low medium high");
        check("gpt-5.1-codex-mini", "low medium high");
        check("gpt-5.1-codex-max", "low medium high max");
        check("gpt-5.2", "none low medium high max");
        check("gpt-5.2-chat-latest", "medium");
        check("gpt-5.2-pro", "medium high max");
        check("gpt-5.3-codex", "low medium high max");
        check("gpt-5.4-mini", "none low medium high max");
        check("gpt-6-sol", "none low medium high max");
        check("gpt-oss-120b", "low medium high");
        check("gpt-realtime-2.1", "low medium high");
        check("o1", "low medium high");
        check("o1-mini", "");
        check("o3", "low medium high");
        check("o3-deep-research", "medium");
        check("o4-mini", "low medium high");
    }

    /// What broke: xAI and Mistral refused an effort for models that take none.
    #[test]
    fn others_on_chat() {
        let check_at = check;
        let check = |wire, expected| check("@ai-sdk/openai-compatible", wire, expected);
        check("grok-3-mini", "low high");
        check("grok-4", "");
        check("grok-4-fast-reasoning", "");
        check("grok-4-1-fast", "");
        check("grok-4.20-0309-reasoning", "");
        check("grok-4.20-multi-agent-0309", "");
        check("grok-4.3", "none low medium high");
        check("grok-4.5", "low medium high");
        check("grok-4.6", "low medium high max");
        check("grok-4.7", "low medium high");
        check("grok-build-0.1", "");
        check("magistral-medium-latest", "");
        check("mistral-small-2603", "none high");
        check("mistral-medium-latest", "none high");
        check("zai-glm-5-2", "");
        check("glm-4.7", "");
        check("kimi-k2.7-code", "");
        check("Qwen/Qwen3-32B", "");
        check("MiniMax-M2", "");
        check("deepseek-ai/DeepSeek-V3.2", "");
        check("one-v2", "low medium high");
        check("google/gemini-2.5-pro", "low medium high");
        // Without a known word for the greatest effort it is not offered.
        check("deepseek-v4-pro", "high");
        check("kimi-k3", "low high");
        let check = |wire, expected| check_at(OPENROUTER, wire, expected);
        check("openai/gpt-5.1", "none low medium high");
        check("qwen/qwen3.8-27b", "low medium high");
        check("deepseek/deepseek-v4-pro", "high max");
        check("z-ai/glm-5.2", "high max");
    }

    #[test]
    fn gemini_and_claude() {
        let check_at = check;
        let check = |wire, expected| check("@ai-sdk/google", wire, expected);
        check("gemini-2.5-flash", "none minimal low medium high");
        check("gemini-2.5-pro", "minimal low medium high max");
        check("gemini-2.5-flash-image", "");
        check("gemini-3-pro-preview", "low high");
        check("gemini-3-flash-preview", "minimal low medium high");
        check("gemini-3.1-pro-preview", "low medium high");
        check("gemini-3.8-flash", "low medium high");
        check("gemini-flash-latest", "low medium high");
        check("gemma-4-31b-it", "");
        check("deep-research-preview-04-2026", "");
        let check = |wire, expected| check_at("@ai-sdk/anthropic", wire, expected);
        check("claude-sonnet-4-5", "low medium high max");
        check("claude-opus-5", "low medium high max");
        check("MiniMax-M3", "");
        check("glm-4.7", "low medium high max");
    }

    /// A chat server is sent `high` for the greatest effort unless the body says otherwise.
    #[test]
    fn the_greatest_effort_is_said_in_the_words_of_the_service() {
        let check =
            |package: &'static str, address: Option<&'static str>, wire: &'static str, word: Option<&str>| {
                let (package, wire, base_url) =
                    (package.into(), wire.into(), address.map(CatalogueText::Borrowed));
                let model = ModelInfo { package, wire, base_url, ..ModelInfo::default() };
                let last = presets(&model).pop().unwrap();
                let expected = word.map(|word| ("reasoning_effort".to_owned(), word.into()));
                assert_eq!(last.options, expected.into_iter().collect::<Map<_, _>>());
            };
        let compatible = "@ai-sdk/openai-compatible";
        check("@ai-sdk/openai", None, "gpt-5.2", None);
        check(compatible, Some("https://api.githubcopilot.com"), "gpt-5.2", Some("xhigh"));
        check(compatible, Some("https://api.deepseek.com"), "deepseek-v4-pro", Some("max"));
        check(compatible, Some("https://api.moonshot.ai/v1"), "kimi-k3", Some("max"));
        check(compatible, Some("https://else.where"), "kimi-k3", None);
        check(OPENROUTER, None, "moonshotai/kimi-k3", Some("xhigh"));
    }
}
