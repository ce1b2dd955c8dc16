//! TLS: the certificate and key of a server, and the protocols that it offers.

use crate::named_file::read_named_file;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest file: a chain of some hundred certificates.
const BYTES_MAX: u64 = 1 << 20;

/// Where a server's certificate and key are, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, and after it those that lead to an authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// Why TLS cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or has not what it should.
    #[error("{}: {reason}; give a file in PEM form that the daemon can read", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate and the key do not belong together, or cannot be used.
    #[error("the certificate in {} cannot be used: {reason}; check that the key belongs to it",
        path.display())]
    Unusable {
        /// The file with the certificate.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

fn at(path: &Path, reason: impl ToString) -> TlsError {
    TlsError::File {
        path: path.into(),
        reason: reason.to_string(),
    }
}

/// The TLS configuration: the server's certificate, and HTTP/2 or HTTP/1.1 as the client prefers.
pub(crate) fn config(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let path = &files.certificate;
    let read = |path: &Path| read_named_file(path, BYTES_MAX).map_err(|error| at(path, error));
    let bytes = read(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let chain = chain.map_err(|error| at(path, error))?;
    if chain.is_empty() {
        return Err(at(path, "there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(&read(&files.key)?);
    let key = key.map_err(|error| at(&files.key, error))?;
    let unusable = |error: rustls::Error| TlsError::Unusable {
        path: path.clone(),
        reason: error.to_string(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
