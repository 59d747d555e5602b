//! From a model that was found to where its requests go.

use super::{AddressError, Found, Protocol, protocol};
use crate::{Endpoint, Secret};

/// Why a model cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
}

impl Found<'_> {
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
            let package = self.model.package.clone().into_owned();
            return Err(ConnectError::Protocol { model: self.name(), package, protocol });
        }
        let no_address = || ConnectError::NoAddress { provider: self.provider.id.clone().into_owned() };
        let address = self.model.base_url(self.provider).ok_or_else(no_address)?;
        let mut endpoint = Endpoint::new(protocol::fill_address(address, variable)?);
        endpoint.api_key = key;
        endpoint.headers = [self.provider.headers.as_slice(), self.model.headers.as_slice()].concat();
        Ok(endpoint)
    }
}
