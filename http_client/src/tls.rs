//! Whose certificates are trusted.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// How to talk to servers whose certificates the file `bundle` has, or the system.
///
/// # Errors
/// A file without certificates, or a system without any, if `is_needed`.
pub fn config(bundle: Option<&Path>, is_needed: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match bundle {
        Some(path) => {
            let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let found = CertificateDer::pem_file_iter(path).map_err(|error| fail(&error))?;
            let found: Result<Vec<_>, _> = found.collect();
            // Large files have old ones that cannot be parsed; these are not trusted.
            roots.add_parsable_certificates(found.map_err(|error| fail(&error))?);
            if roots.is_empty() {
                return Err(fail(&"there are no certificates in it"));
            }
        }
        None if is_needed => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let text = "the system has no certificates to trust (package ca-certificates)";
                return Err(text.into());
            }
        }
        None => {}
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
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
    }
}
