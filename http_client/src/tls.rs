//! Whose certificates are trusted, and what this program says of itself.

use crate::listed::ListedVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which servers to believe, and what proves to them that we may ask.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// A file of certificates to trust instead of the system's.
    pub bundle: Option<PathBuf>,
    /// A directory of files with such certificates.
    pub directory: Option<PathBuf>,
    /// A file with a certificate of the client, and one with its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// How to talk to servers whose certificates the file `bundle` has, or the system.
///
/// # Errors
/// A file without certificates, or a system without any, if `is_needed`.
pub fn config(bundle: Option<&Path>, is_needed: bool) -> Result<ClientConfig, String> {
    let trust = Trust {
        bundle: bundle.map(Path::to_owned),
        ..Trust::default()
    };
    config_of(&trust, is_needed)
}

/// How to talk to servers as `trust` says.
///
/// # Errors
/// A file or directory without certificates, a key that does not fit, or a system without
/// certificates, if `is_needed`.
pub fn config_of(trust: &Trust, is_needed: bool) -> Result<ClientConfig, String> {
    let listed = listed(trust)?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(listed.iter().cloned());
    let is_listed = trust.bundle.is_some() || trust.directory.is_some();
    if is_listed && roots.is_empty() {
        let places = [&trust.bundle, &trust.directory].into_iter().flatten();
        let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
        return Err(format!(
            "{}: there are no certificates in it",
            places.join(", ")
        ));
    }
    if is_needed && !is_listed {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let text = "the system has no certificates to trust (package ca-certificates)";
            return Err(text.into());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match roots.is_empty() {
        true => builder.with_root_certificates(roots),
        false => {
            let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
            let usual = usual.build().map_err(|error| error.to_string())?;
            let verifier = Arc::new(ListedVerifier { usual, listed });
            builder
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
    };
    let Some((certificate, key)) = &trust.own else {
        return Ok(builder.with_no_client_auth());
    };
    let chain = certificates(certificate)?;
    let own = PrivateKeyDer::from_pem_file(key).map_err(|error| fault(key, &error))?;
    let configured = builder.with_client_auth_cert(chain, own);
    configured.map_err(|error| fault(certificate, &error))
}

/// The certificates that the user trusts instead of the system's.
fn listed(trust: &Trust) -> Result<Vec<CertificateDer<'static>>, String> {
    let mut listed = match &trust.bundle {
        Some(path) => certificates(path)?,
        None => Vec::new(),
    };
    if let Some(path) = &trust.directory {
        let entries = std::fs::read_dir(path).map_err(|error| fault(path, &error))?;
        for entry in entries.flatten() {
            // A directory may have other files, too.
            listed.extend(certificates(&entry.path()).unwrap_or_default());
        }
    }
    Ok(listed)
}

fn fault(path: &Path, error: &dyn Display) -> String {
    format!("{}: {error}", path.display())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| fault(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    found.map_err(|error| fault(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_certificates_are_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let error = config(Some(file.path()), true).expect_err("empty");
        assert!(
            error.ends_with("there are no certificates in it"),
            "{error}"
        );
        std::fs::write(
            file.path(),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .expect("room");
        assert!(config(Some(file.path()), true).is_err(), "no certificate");
        assert!(config(Some(Path::new("/nowhere/ca.pem")), true).is_err());
        assert!(config(None, false).is_ok(), "none is needed");
        let empty = tempfile::tempdir().expect("a directory");
        let trust = Trust {
            directory: Some(empty.path().to_owned()),
            ..Trust::default()
        };
        assert!(config_of(&trust, true).is_err(), "an empty directory");
    }
}
