//! Which wire protocol a provider speaks and where it is.
//!
//! Configurations and catalogues name a protocol by the JavaScript package that speaks it. The package also says
//! where a well-known service is, unless the package is one for any server.

use std::fmt;

/// The package for any server that speaks Chat Completions; supposed where nothing is said.
pub const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

/// A wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// OpenAI's Chat Completions, which most others speak too.
    OpenAiChat,
    /// Google's Gemini.
    Gemini,
    /// Amazon Bedrock's Converse, with signed requests.
    Bedrock,
    /// Amazon Bedrock's own face of OpenAI's protocols.
    BedrockMantle,
    /// Google's Vertex AI.
    Vertex,
    /// Anthropic's models on Google's Vertex AI.
    VertexAnthropic,
    /// OpenAI's models on Microsoft Azure.
    Azure,
    /// Cohere's Chat.
    Cohere,
    /// One of a package that nobody here has heard of.
    Unknown,
}

impl Protocol {
    /// The protocol that a package speaks. An empty name means [`COMPATIBLE`].
    #[must_use]
    pub fn of_package(package: &str) -> Self {
        match package {
            "@ai-sdk/anthropic" => Self::Anthropic,
            "@ai-sdk/openai" => Self::OpenAiResponses,
            ""
            | COMPATIBLE
            | "@ai-sdk/alibaba"
            | "@ai-sdk/cerebras"
            | "@ai-sdk/deepinfra"
            | "@ai-sdk/deepseek"
            | "@ai-sdk/fireworks"
            | "@ai-sdk/gateway"
            | "@ai-sdk/github-copilot"
            | "@ai-sdk/groq"
            | "@ai-sdk/mistral"
            | "@ai-sdk/moonshotai"
            | "@ai-sdk/perplexity"
            | "@ai-sdk/togetherai"
            | "@ai-sdk/vercel"
            | "@ai-sdk/xai"
            | "@openrouter/ai-sdk-provider" => Self::OpenAiChat,
            "@ai-sdk/google" => Self::Gemini,
            "@ai-sdk/amazon-bedrock" => Self::Bedrock,
            "@ai-sdk/amazon-bedrock/mantle" => Self::BedrockMantle,
            "@ai-sdk/google-vertex" => Self::Vertex,
            "@ai-sdk/google-vertex/anthropic" => Self::VertexAnthropic,
            "@ai-sdk/azure" => Self::Azure,
            "@ai-sdk/cohere" => Self::Cohere,
            _ => Self::Unknown,
        }
    }

    /// Whether this crate speaks it.
    #[must_use]
    pub const fn is_spoken(self) -> bool {
        match self {
            Self::Anthropic | Self::OpenAiResponses | Self::OpenAiChat | Self::Gemini => true,
            Self::Bedrock
            | Self::BedrockMantle
            | Self::Vertex
            | Self::VertexAnthropic
            | Self::Azure
            | Self::Cohere
            | Self::Unknown => false,
        }
    }

    /// A short name for messages and listings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAiResponses => "openai-responses",
            Self::OpenAiChat => "openai-chat",
            Self::Gemini => "gemini",
            Self::Bedrock => "bedrock",
            Self::BedrockMantle => "bedrock-mantle",
            Self::Vertex => "vertex",
            Self::VertexAnthropic => "vertex-anthropic",
            Self::Azure => "azure",
            Self::Cohere => "cohere",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where the service is that a package was made for, up to and including the version.
#[must_use]
pub fn service_address(package: &str) -> Option<&'static str> {
    Some(match package {
        "@ai-sdk/anthropic" => "https://api.anthropic.com/v1",
        "@ai-sdk/cerebras" => "https://api.cerebras.ai/v1",
        "@ai-sdk/deepinfra" => "https://api.deepinfra.com/v1/openai",
        "@ai-sdk/deepseek" => "https://api.deepseek.com",
        "@ai-sdk/fireworks" => "https://api.fireworks.ai/inference/v1",
        "@ai-sdk/gateway" => "https://ai-gateway.vercel.sh/v1",
        "@ai-sdk/github-copilot" => "https://api.githubcopilot.com",
        "@ai-sdk/google" => "https://generativelanguage.googleapis.com/v1beta",
        "@ai-sdk/groq" => "https://api.groq.com/openai/v1",
        "@ai-sdk/mistral" => "https://api.mistral.ai/v1",
        "@ai-sdk/moonshotai" => "https://api.moonshot.ai/v1",
        "@ai-sdk/openai" => "https://api.openai.com/v1",
        "@ai-sdk/perplexity" => "https://api.perplexity.ai",
        "@ai-sdk/togetherai" => "https://api.together.xyz/v1",
        "@ai-sdk/xai" => "https://api.x.ai/v1",
        "@openrouter/ai-sdk-provider" => "https://openrouter.ai/api/v1",
        _ => return None,
    })
}

/// An address with a variable in it that has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the address {address} needs the environment variable {variable}, which is not set: set it, or give the provider a `baseURL` in the configuration"
)]
pub struct AddressError {
    /// The address as the catalogue has it.
    pub address: String,
    /// The variable.
    pub variable: String,
}

/// An address with the values of the variables it names as `${NAME}`.
///
/// # Errors
///
/// When one of them is not set.
pub fn fill_address(
    address: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<String, AddressError> {
    let mut done = String::new();
    let mut rest = address;
    while let Some((before, opened)) = rest.split_once("${")
        && let Some((name, after)) = opened.split_once('}')
    {
        let value = variable(name).filter(|value| !value.trim().is_empty());
        let missing = || AddressError { address: address.to_owned(), variable: name.to_owned() };
        done.push_str(before);
        done.push_str(value.ok_or_else(missing)?.trim());
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_addresses_get_their_values() {
        let set = |name: &str| (name == "REGION").then(|| "eu".to_owned());
        let check = |address: &str, expected: Result<&str, &str>| {
            let expected = expected.map(str::to_owned).map_err(|variable| AddressError {
                address: address.to_owned(),
                variable: variable.to_owned(),
            });
            assert_eq!(fill_address(address, &set), expected);
        };
        check("https://x/v1", Ok("https://x/v1"));
        check("https://a.${REGION}.b/${REGION}", Ok("https://a.eu.b/eu"));
        check("https://${NAME}.b", Err("NAME"));
        check("https://${REGION", Ok("https://${REGION"));
    }

    #[test]
    fn every_spoken_package_with_a_service_of_its_own_has_an_address() {
        for package in ["@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google", "@ai-sdk/xai"] {
            assert!(Protocol::of_package(package).is_spoken() && service_address(package).is_some());
        }
        assert_eq!(service_address(COMPATIBLE), None);
        assert_eq!(Protocol::of_package("left-pad"), Protocol::Unknown);
    }
}
