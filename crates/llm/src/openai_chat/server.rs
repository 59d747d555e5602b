//! What servers demand beyond the protocol, told by their host and by the family of the model.
//!
//! Chat Completions has no word for what a model thought, so every server found its own, and some refuse those of the
//! others. Where nothing is known of a server, thoughts return to where they came from and nothing else is added.

use reqwest::Url;

use super::ChatDialect;
use crate::call_id::CallIdRule;
use crate::{Effort, Endpoint, model_id};

/// What a server demands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerDemands {
    /// Which additions to the protocol it knows.
    pub(super) dialect: ChatDialect,
    /// How a model's thoughts are said back to it.
    pub(super) thoughts: ThoughtReplay,
    /// What it takes as the id of a call.
    pub(super) call_ids: CallIdRule,
    /// Whether a model must have spoken between the results of its tools and the person's next word.
    pub(super) bridge: bool,
    /// Whether it has to be asked for the usage, or else tells it unasked and refuses to be asked.
    pub(super) ask_for_usage: bool,
    /// Which words it has for efforts.
    pub(super) efforts: EffortWords,
}

/// How thoughts are said back to a model. What is known of a thought's own home comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThoughtReplay {
    /// Not at all.
    Never,
    /// Where they came from.
    AsSeen,
    /// In this field of the message.
    Field(&'static str),
    /// Among the pieces of the content.
    Pieces,
    /// In `reasoning_content`, and where there are none, this instead.
    Required(&'static str, ThoughtsDemand),
}

/// Which answers must have thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThoughtsDemand {
    /// All.
    Answers,
    /// Those with calls.
    Calls,
}

/// Which words there are for efforts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EffortWords {
    /// Up to `high`.
    UpToHigh,
    /// Up to `xhigh`, which only OpenAI has.
    UpToMax,
    /// Either `none` or `high`.
    OnOrOff,
}

/// DeepSeek refuses a conversation in which an answer lacks its thoughts, and takes none for thoughts.
const DEEPSEEK: ThoughtReplay = ThoughtReplay::Required("", ThoughtsDemand::Answers);

/// Kimi wants thoughts where tools were called, and takes an empty text for none.
const KIMI: ThoughtReplay = ThoughtReplay::Required(" ", ThoughtsDemand::Calls);

/// Servers of which it is known, by their domains.
const SERVERS: &[(&str, ThoughtReplay)] = &[
    ("mistral.ai", ThoughtReplay::Pieces),
    ("groq.com", ThoughtReplay::Field("reasoning")),
    ("cerebras.ai", ThoughtReplay::Field("reasoning")),
    ("openrouter.ai", ThoughtReplay::Field("reasoning")),
    ("deepseek.com", DEEPSEEK),
    ("moonshot.ai", KIMI),
    ("moonshot.cn", KIMI),
    ("kimi.com", KIMI),
];

/// Families whose models demand it wherever they are served.
const FAMILIES: &[(&str, ThoughtReplay)] = &[("deepseek", DEEPSEEK), ("kimi", KIMI)];

/// Mistral's own server, and the families whose templates are as strict elsewhere.
const MISTRAL: &str = "mistral.ai";
const MISTRAL_FAMILIES: &[&str] =
    &["mistral", "ministral", "mixtral", "magistral", "codestral", "devstral", "pixtral"];

/// OpenAI's own servers and those of Azure, by their domains.
const OPENAI: &[&str] =
    &["api.openai.com", "openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com"];

/// The longest id of a call that OpenAI takes.
const CALL_ID_LIMIT: usize = 40;

impl ServerDemands {
    /// What the server at `endpoint` demands for this model.
    pub(super) fn of(endpoint: &Endpoint, model: &str, dialect: ChatDialect) -> Self {
        let host = host(endpoint);
        let name = model_id::base_name(model);
        let mistral = is_at(&host, MISTRAL);
        let strict = mistral || MISTRAL_FAMILIES.iter().any(|family| name.contains(family));
        let by_host = SERVERS.iter().find(|(domain, _)| is_at(&host, domain));
        let by_family = || FAMILIES.iter().find(|(family, _)| name.contains(family));
        let thoughts = by_host.or_else(by_family).map_or(ThoughtReplay::AsSeen, |(_, thoughts)| *thoughts);
        Self {
            dialect,
            thoughts: if dialect == ChatDialect::OpenAi { ThoughtReplay::Never } else { thoughts },
            call_ids: if strict { CallIdRule::Exactly(9) } else { CallIdRule::AtMost(CALL_ID_LIMIT) },
            bridge: strict,
            ask_for_usage: !mistral,
            efforts: match dialect {
                ChatDialect::OpenAi => EffortWords::UpToMax,
                ChatDialect::Compatible if mistral => EffortWords::OnOrOff,
                ChatDialect::Compatible => EffortWords::UpToHigh,
            },
        }
    }
}

impl ChatDialect {
    /// The dialect of the server at `endpoint`.
    pub(super) fn of(endpoint: &Endpoint) -> Self {
        let host = host(endpoint);
        if OPENAI.iter().any(|domain| is_at(&host, domain)) { Self::OpenAi } else { Self::Compatible }
    }
}

impl EffortWords {
    /// The word for an effort.
    pub(super) fn name(self, effort: Effort) -> &'static str {
        match (effort, self) {
            (Effort::None, _) => "none",
            (_, Self::OnOrOff) => "high",
            (Effort::Minimal, _) => "minimal",
            (Effort::Low, _) => "low",
            (Effort::Medium, _) => "medium",
            (Effort::High, _) | (Effort::Max, Self::UpToHigh) => "high",
            (Effort::Max, Self::UpToMax) => "xhigh",
        }
    }
}

fn host(endpoint: &Endpoint) -> String {
    let url = Url::parse(&endpoint.base_url).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

/// Whether a host is a domain or lies in it.
fn is_at(host: &str, domain: &str) -> bool {
    let before = host.strip_suffix(domain);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialects_follow_from_the_host() {
        let check = |base_url: &str, expected: ChatDialect| {
            assert_eq!(ChatDialect::of(&Endpoint::new(base_url)), expected, "{base_url}");
        };
        check("https://api.openai.com/v1", ChatDialect::OpenAi);
        // The prefix of an address told too little: these are OpenAI's own servers as well.
        check("https://api.openai.com", ChatDialect::OpenAi);
        check("https://API.OpenAI.com:443/v1/", ChatDialect::OpenAi);
        check("https://eu.api.openai.com/v1", ChatDialect::OpenAi);
        check("https://acme.openai.azure.com/openai/v1", ChatDialect::OpenAi);
        check("https://acme.services.ai.azure.com/openai/v1", ChatDialect::OpenAi);
        check("https://api.openai.com.example.com/v1", ChatDialect::Compatible);
        check("https://notapi.openai.com/v1", ChatDialect::Compatible);
        check("http://localhost:8080/v1?x=https://api.openai.com/", ChatDialect::Compatible);
        check("nonsense", ChatDialect::Compatible);
    }

    #[test]
    fn thoughts_by_host_and_family() {
        let check = |base_url: &str, model: &str, expected: ThoughtReplay| {
            let endpoint = Endpoint::new(base_url);
            let demands = ServerDemands::of(&endpoint, model, ChatDialect::of(&endpoint));
            assert_eq!(demands.thoughts, expected, "{base_url} {model}");
        };
        check("https://api.openai.com/v1", "gpt-5", ThoughtReplay::Never);
        check("https://api.mistral.ai/v1", "magistral-medium", ThoughtReplay::Pieces);
        check("https://codestral.mistral.ai/v1", "codestral-latest", ThoughtReplay::Pieces);
        check("https://api.groq.com/openai/v1", "moonshotai/kimi-k2", ThoughtReplay::Field("reasoning"));
        check("https://api.deepseek.com", "deepseek-chat", DEEPSEEK);
        check("https://api.moonshot.ai/v1", "kimi-k2.6", KIMI);
        check("https://gateway.example.com/v1", "Pro/moonshotai/Kimi-K2.5", KIMI);
        check("http://localhost:8080/v1", "deepseek-v4", DEEPSEEK);
        check("http://localhost:8080/v1", "qwen3", ThoughtReplay::AsSeen);
    }

    #[test]
    fn mistral_is_strict() {
        let check = |base_url: &str, model: &str, strict: bool, ask_for_usage: bool| {
            let demands = ServerDemands::of(&Endpoint::new(base_url), model, ChatDialect::Compatible);
            let call_ids = if strict { CallIdRule::Exactly(9) } else { CallIdRule::AtMost(CALL_ID_LIMIT) };
            let seen = (demands.call_ids, demands.bridge, demands.ask_for_usage);
            assert_eq!(seen, (call_ids, strict, ask_for_usage), "{base_url} {model}");
        };
        check("https://api.mistral.ai/v1", "anything", true, false);
        check("https://codestral.mistral.ai/v1", "codestral-latest", true, false);
        check("http://localhost:8000/v1", "mistralai/Devstral-Small-2-24B", true, true);
        check("http://localhost:8000/v1", "qwen3", false, true);
    }

    #[test]
    fn efforts() {
        let check = |efforts: EffortWords, expected: [&str; 6]| {
            let all = [Effort::None, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High, Effort::Max];
            assert_eq!(all.map(|effort| efforts.name(effort)), expected);
        };
        check(EffortWords::UpToHigh, ["none", "minimal", "low", "medium", "high", "high"]);
        check(EffortWords::UpToMax, ["none", "minimal", "low", "medium", "high", "xhigh"]);
        // Mistral refuses every other word.
        check(EffortWords::OnOrOff, ["none", "high", "high", "high", "high", "high"]);
    }
}
