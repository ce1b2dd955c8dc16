//! What can go wrong between client and server.

use crate::location::LocationError;
use crate::protocol::Malformed;
use crate::tls::TlsError;
use std::io;

/// Why a connection cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The name means nothing.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// The server does not answer, or the connection was lost.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The certificates are of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The other side does not keep the protocol.
    #[error("the server does not keep the protocol: {0}")]
    Malformed(#[from] Malformed),
    /// The other side does not keep the protocol, in some other way.
    #[error("the server does not keep the protocol: {0}")]
    Broken(&'static str),
    /// The server says no.
    #[error("the server refuses the export: {0}")]
    Refused(String),
    /// The server has no TLS.
    #[error("the server offers no TLS ({0}); connect with nbd:// if the network can be trusted")]
    NoTls(String),
    /// The server is this process.
    #[error(
        "it is served by this daemon, which would wait for itself; serve the volume by another \
         daemon (with its own CENOTE_SOCKET), or use another device"
    )]
    Own,
    /// The export is no longer what it was.
    #[error("the export has changed: {0}")]
    Changed(String),
}
