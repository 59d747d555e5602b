//! Encryption: what an address says about it, and how the server proves who it is.
//!
//! The parameters have the names and values of PostgreSQL's own clients, so that an address can be taken over. What is
//! accepted is done, and what is not done here is refused: nobody should feel safer than they are. A certificate is
//! always checked, and its name too, so `require` does what `verify-full` does there.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio_postgres::config::SslMode;

use crate::Error;

/// Parameters of other clients that would change how a connection is protected, and do nothing here.
const UNSUPPORTED: [&str; 12] = [
    "gssencmode",
    "requirepeer",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslnegotiation",
    "sslpassword",
    "sslsni",
];

/// What an address says about encryption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Encryption {
    /// Whether a connection is encrypted.
    pub(super) mode: SslMode,
    /// A file with the certificates that the server's own is checked against; none means those of the machine.
    authorities: Option<PathBuf>,
}

impl Encryption {
    /// Takes what an address says about encryption out of it; the rest is for the client library. What is wrong is named
    /// without its value, which may be a piece of a password.
    pub(super) fn take(url: &str) -> Result<(String, Self), Error> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(refused("it does not begin with postgres://"));
        }
        let host = url.find('@').unwrap_or_default();
        let query = url.get(host..).and_then(|rest| rest.find('?')).map(|place| host + place);
        let (address, query) = query.and_then(|place| url.split_at_checked(place)).unwrap_or((url, ""));
        let (mut mode, mut authorities, mut rest) = (None, None, Vec::new());
        for parameter in query.trim_start_matches('?').split('&').filter(|text| !text.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let name = percent_decode_str(name).decode_utf8_lossy();
            match &*name {
                "sslmode" => mode = Some(self::mode(value)?),
                "sslrootcert" => authorities = Some(file(value)?),
                name => match UNSUPPORTED.iter().find(|known| **known == name) {
                    Some(name) => return Err(refused(&format!("{name} is not supported"))),
                    None => rest.push(parameter),
                },
            }
        }
        if authorities.is_some() && mode == Some(SslMode::Disable) {
            return Err(refused("sslrootcert does nothing with sslmode=disable"));
        }
        // Who names an authority wants the server checked, which nothing but an encrypted connection can do.
        let usual = if authorities.is_some() { SslMode::Require } else { SslMode::Prefer };
        let mark = if rest.is_empty() { "" } else { "?" };
        let encryption =
            Self { mode: mode.unwrap_or(usual), authorities: authorities.and_then(Authorities::path) };
        Ok((format!("{address}{mark}{}", rest.join("&")), encryption))
    }

    /// How the server proves who it is: always by a certificate, of the authorities that are named or of the machine's.
    pub(super) fn client(&self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |error: &dyn fmt::Display| Error::Server(format!("TLS cannot be set up: {error}"));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?;
        let builder = match &self.authorities {
            Some(path) => builder.with_root_certificates(certificates(path)?),
            // Never used then; and a machine without certificates of its own can still connect in the clear.
            None if self.mode == SslMode::Disable => builder.with_root_certificates(RootCertStore::empty()),
            None => builder.with_platform_verifier().map_err(|error| failed(&error))?,
        };
        Ok(builder.with_no_client_auth())
    }
}

/// Whom `sslrootcert` names.
enum Authorities {
    /// Those in a file.
    File(PathBuf),
    /// Those of the machine.
    System,
}

impl Authorities {
    fn path(self) -> Option<PathBuf> {
        match self {
            Self::File(path) => Some(path),
            Self::System => None,
        }
    }
}

fn mode(value: &str) -> Result<SslMode, Error> {
    match value {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-full" => Ok(SslMode::Require),
        "verify-ca" => Err(refused(
            "sslmode=verify-ca is not supported: a certificate is never taken without its name; use verify-full",
        )),
        "allow" => Err(refused("sslmode=allow is not supported; use prefer, require or disable")),
        _ => Err(refused("its sslmode cannot be understood")),
    }
}

fn file(value: &str) -> Result<Authorities, Error> {
    let value = percent_decode_str(value).decode_utf8();
    match value.as_deref() {
        Err(_) => Err(refused("its sslrootcert is not text")),
        Ok("") => Err(refused("its sslrootcert names no file")),
        Ok("system") => Ok(Authorities::System),
        Ok(path) => Ok(Authorities::File(path.into())),
    }
}

fn refused(reason: &str) -> Error {
    Error::Address(reason.to_owned())
}

/// The certificates in a file, of which there has to be one.
fn certificates(path: &Path) -> Result<RootCertStore, Error> {
    let bad = |error: &dyn fmt::Display| {
        Error::io(path, std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))
    };
    let mut trusted = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| bad(&error))? {
        let certificate = certificate.map_err(|error| bad(&error))?;
        trusted.add(certificate).map_err(|error| bad(&error))?;
    }
    if trusted.is_empty() { Err(bad(&"it holds no certificate")) } else { Ok(trusted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rest of an address, the mode and the file that it comes to.
    #[track_caller]
    fn check(parameters: &str, rest: &str, mode: SslMode, authorities: Option<&str>) {
        let address = "postgres://me:se?cr@%3Fhost:5432/mine";
        let taken = Encryption::take(&format!("{address}{parameters}")).unwrap();
        let expected = Encryption { mode, authorities: authorities.map(PathBuf::from) };
        assert_eq!(taken, (format!("{address}{rest}"), expected), "{parameters}");
    }

    #[test]
    fn what_is_accepted_is_done() {
        check("", "", SslMode::Prefer, None);
        check("?", "", SslMode::Prefer, None);
        check("?connect_timeout=3", "?connect_timeout=3", SslMode::Prefer, None);
        check("?sslmode=disable", "", SslMode::Disable, None);
        check("?a=1&sslmode=require&b=2", "?a=1&b=2", SslMode::Require, None);
        check("?sslmode=verify-full&b=2", "?b=2", SslMode::Require, None);
        check("?sslmode=prefer&sslrootcert=/a/b.pem", "", SslMode::Prefer, Some("/a/b.pem"));
        check("?sslrootcert=%2Fa%20b.pem&c=3", "?c=3", SslMode::Require, Some("/a b.pem"));
        check("?sslrootcert=system", "", SslMode::Require, None);
        check("?sslmode=disable&sslmode=require", "", SslMode::Require, None);
    }

    #[test]
    fn what_is_not_done_is_refused() {
        let check = |parameters: &str, expected: &str| {
            let error =
                Encryption::take(&format!("postgres://me:secret@host/mine?{parameters}")).unwrap_err();
            assert!(matches!(&error, Error::Address(reason) if reason.contains(expected)), "{error}");
        };
        check("sslmode=verify-ca", "use verify-full");
        check("sslmode=allow", "sslmode=allow is not supported");
        check("sslmode=off", "sslmode cannot be understood");
        check("ssl%6dode=off", "sslmode cannot be understood");
        check("sslmode", "sslmode cannot be understood");
        check("sslrootcert=", "names no file");
        check("sslrootcert=%ff", "is not text");
        check("sslmode=disable&sslrootcert=/a.pem", "does nothing with sslmode=disable");
        check("sslcert=/a.pem", "sslcert is not supported");
        check("a=1&sslnegotiation=direct", "sslnegotiation is not supported");
        let error = Encryption::take("host=here sslmode=require").unwrap_err();
        assert!(error.to_string().contains("does not begin with postgres://"), "{error}");
    }
}
