//! An authority of our own and a certificate by it, so that TLS is checked in tests as it is outside of them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::programs::Account;

/// Where the certificate of the authority is in a server's folder.
pub(super) fn authority(folder: &Path) -> PathBuf {
    folder.join("ca.pem")
}

/// Where the server's own certificate is.
pub(super) fn certificate(folder: &Path) -> PathBuf {
    folder.join("server.pem")
}

/// Where the server's key is.
pub(super) fn key(folder: &Path) -> PathBuf {
    folder.join("server.key")
}

/// Writes an authority and a certificate for `localhost` and `127.0.0.1`, with a key that `account` can read.
pub(super) fn write(folder: &Path, account: Option<Account>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.push(DnType::CommonName, "Test authority");
    let authority_key = KeyPair::generate().expect("a key");
    let certified = params.self_signed(&authority_key).expect("a certificate for the authority");
    std::fs::write(authority(folder), certified.pem()).expect("the file of the authority");
    let issuer = Issuer::new(params, authority_key);

    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).expect("names for a certificate");
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.use_authority_key_identifier_extension = true;
    let server_key = KeyPair::generate().expect("a key");
    let certified = params.signed_by(&server_key, &issuer).expect("a certificate for the server");
    std::fs::write(certificate(folder), certified.pem()).expect("the file of the certificate");
    std::fs::write(key(folder), server_key.serialize_pem()).expect("the file of the key");
    // PostgreSQL refuses a key that others can read.
    std::fs::set_permissions(key(folder), Permissions::from_mode(0o600)).expect("rights of the key");
    if let Some(account) = account {
        account.own(&certificate(folder));
        account.own(&key(folder));
    }
}
