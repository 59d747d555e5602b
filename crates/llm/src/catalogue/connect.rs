//! From a model that was found to where its requests go, and who makes them.

use std::sync::Arc;

use super::{AddressError, FoundModel, Protocol, protocol};
use crate::{
    Anthropic, Endpoint, Gemini, Keyring, OpenAiChat, OpenAiResponses, Provider, Secret, credential,
};

/// Why a model cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its protocol is not spoken.
    #[error(
        "{model} speaks the protocol of {package} ({protocol}), which this version does not speak: choose another model or a provider that offers this one through another protocol"
    )]
    Protocol {
        /// The model.
        model: String,
        /// The package of its protocol.
        package: String,
        /// The protocol.
        protocol: Protocol,
    },
    /// Nobody said where it is.
    #[error(
        "nothing says where provider {provider} is: set `provider.{provider}.options.baseURL` in the configuration"
    )]
    NoAddress {
        /// The provider.
        provider: String,
    },
    /// Its address needs a variable.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Its key is missing or cannot be read.
    #[error(transparent)]
    Key(#[from] credential::CredentialError),
}

impl FoundModel<'_> {
    /// The way to the model, with the key from a ring.
    ///
    /// # Errors
    ///
    /// When there is no key and one is needed, or as [`endpoint`](Self::endpoint).
    pub fn connect(&self, keys: &Keyring<'_>) -> Result<Arc<dyn Provider>, ConnectError> {
        // A server whose address was configured may be one on this machine, which asks for no key.
        let key =
            if self.provider.open { keys.find(self.provider)? } else { Some(keys.require(self.provider)?) };
        self.reach(self.endpoint(key.map(|found| found.key), keys.variables())?)
    }

    /// The provider as it writes requests, without a key: it must not be asked.
    ///
    /// # Errors
    ///
    /// As [`endpoint`](Self::endpoint).
    pub fn writer(&self, keys: &Keyring<'_>) -> Result<Arc<dyn Provider>, ConnectError> {
        self.reach(self.endpoint(None, keys.variables())?)
    }

    fn reach(&self, endpoint: Endpoint) -> Result<Arc<dyn Provider>, ConnectError> {
        let protocol = self.model.protocol();
        Ok(match protocol {
            Protocol::Anthropic => Arc::new(Anthropic::new(endpoint)),
            Protocol::OpenAiResponses => Arc::new(OpenAiResponses::new(endpoint)),
            Protocol::OpenAiChat => Arc::new(OpenAiChat::new(endpoint)),
            Protocol::Gemini => Arc::new(Gemini::new(endpoint)),
            Protocol::Bedrock
            | Protocol::BedrockMantle
            | Protocol::Vertex
            | Protocol::VertexAnthropic
            | Protocol::Azure
            | Protocol::Cohere
            | Protocol::Unknown => return Err(self.unspoken(protocol)),
        })
    }

    fn unspoken(&self, protocol: Protocol) -> ConnectError {
        let package = self.model.package.clone().into_owned();
        ConnectError::Protocol { model: self.name(), package, protocol }
    }

    /// Where to send requests and what they carry. `variable` gives values of environment variables, for addresses
    /// that need them.
    ///
    /// # Errors
    ///
    /// When the protocol is not spoken or the address not known.
    pub fn endpoint(
        &self,
        key: Option<Secret>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Endpoint, ConnectError> {
        let protocol = self.model.protocol();
        if !protocol.is_spoken() {
            return Err(self.unspoken(protocol));
        }
        let no_address = || ConnectError::NoAddress { provider: self.provider.id.clone().into_owned() };
        let address = self.model.base_url(self.provider).ok_or_else(no_address)?;
        let mut endpoint = Endpoint::new(protocol::fill_address(address, variable)?);
        endpoint.api_key = key;
        endpoint.headers = [self.provider.headers.as_slice(), self.model.headers.as_slice()].concat();
        Ok(endpoint)
    }
}
