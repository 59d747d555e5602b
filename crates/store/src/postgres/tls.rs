//! TLS to the server: the handshake, and what ties a password to the connection that it goes through.
//!
//! The client library leaves both to whoever brings the TLS. Binding a password to the server's certificate
//! (`tls-server-end-point`, RFC 5929) needs the hash function of the certificate's signature and nothing else of it, so
//! just that is read.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;

/// Makes connections encrypted.
#[derive(Clone)]
pub(super) struct TlsClient {
    connector: TlsConnector,
}

impl TlsClient {
    pub(super) fn new(config: ClientConfig) -> Self {
        Self { connector: Arc::new(config).into() }
    }
}

impl MakeTlsConnect<Socket> for TlsClient {
    type Stream = EncryptedSocket;
    type TlsConnect = Handshake;
    type Error = Infallible;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Infallible> {
        Ok(Handshake { host: host.to_owned(), connector: self.connector.clone() })
    }
}

/// An encrypted connection that is about to be made.
pub(super) struct Handshake {
    /// As the address has it. It may be no name at all, such as the folder of a socket, which is never encrypted: only a
    /// handshake can tell that it is wrong.
    host: String,
    connector: TlsConnector,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = EncryptedSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedSocket>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
            Ok(EncryptedSocket(self.connector.connect(name, socket).await?))
        })
    }
}

/// An encrypted connection.
pub(super) struct EncryptedSocket(client::TlsStream<Socket>);

impl TlsStream for EncryptedSocket {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        certificate.and_then(|certificate| Some((certificate, signature_hash(certificate)?))).map_or_else(
            ChannelBinding::none,
            |(certificate, hash)| {
                ChannelBinding::tls_server_end_point(digest(hash, certificate).as_ref().to_vec())
            },
        )
    }
}

impl AsyncRead for EncryptedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for EncryptedSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Tags of what a certificate is made of.
const SEQUENCE: u8 = 0x30;
const OBJECT_ID: u8 = 0x06;

/// The hash function of a certificate's signature; SHA-1 is not good enough any more, and counts as SHA-256. None means
/// that the signature says nothing of one, so that a password cannot be tied to it.
fn signature_hash(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, after_content) = element(certificate, SEQUENCE)?;
    let (signature, _) = element(after_content, SEQUENCE)?;
    let (algorithm, _) = element(signature, OBJECT_ID)?;
    match algorithm {
        // RSA (1.2.840.113549.1.1) with SHA-1, SHA-256, SHA-384 and SHA-512.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, hash] => match hash {
            0x05 | 0x0b => Some(&SHA256),
            0x0c => Some(&SHA384),
            0x0d => Some(&SHA512),
            _ => None,
        },
        // ECDSA with SHA-2 (1.2.840.10045.4.3).
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, hash] => match hash {
            0x02 => Some(&SHA256),
            0x03 => Some(&SHA384),
            0x04 => Some(&SHA512),
            _ => None,
        },
        _ => None,
    }
}

/// The content of a DER element with this tag, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // The length is in the bytes that follow; four of them are more than any certificate has.
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    if *found == tag { rest.split_at_checked(length) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DER element, with its length in as many bytes as it needs.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len();
        let mut bytes = vec![tag];
        match length {
            0..0x80 => bytes.push(u8::try_from(length).unwrap()),
            0x80..0x100 => bytes.extend([0x81, u8::try_from(length).unwrap()]),
            _ => {
                bytes.push(0x82);
                bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
        }
        bytes.extend_from_slice(content);
        bytes
    }

    /// A certificate of some length that is signed in this way.
    fn certificate(length: usize, algorithm: &[u8]) -> Vec<u8> {
        let signature = der(SEQUENCE, &[der(OBJECT_ID, algorithm), vec![0x05, 0x00]].concat());
        let pieces = [der(SEQUENCE, &vec![0; length]), signature, der(0x03, &[0; 70])];
        der(SEQUENCE, &pieces.concat())
    }

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let rsa = |last| [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, last];
        let ecdsa = |last| [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, last];
        let check = |algorithm: &[u8], expected: Option<&'static Algorithm>| {
            for length in [3, 200, 1200] {
                assert_eq!(signature_hash(&certificate(length, algorithm)), expected, "{algorithm:x?}");
            }
        };
        check(&rsa(0x05), Some(&SHA256));
        check(&rsa(0x0b), Some(&SHA256));
        check(&rsa(0x0c), Some(&SHA384));
        check(&rsa(0x0d), Some(&SHA512));
        check(&ecdsa(0x02), Some(&SHA256));
        check(&ecdsa(0x03), Some(&SHA384));
        check(&ecdsa(0x04), Some(&SHA512));
        // RSA-PSS says it elsewhere, and Ed25519 not at all.
        check(&rsa(0x0a), None);
        check(&[0x2b, 0x65, 0x70], None);
    }

    #[test]
    fn what_is_cut_short_has_none() {
        let whole = certificate(200, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]);
        for length in 0..whole.len() {
            assert_eq!(signature_hash(&whole[..length]), None, "{length} bytes");
        }
        assert_eq!(signature_hash(&whole), Some(&SHA256));
        assert_eq!(signature_hash(&[0x30, 0x85, 1, 1, 1, 1, 1]), None);
    }
}
