//! How a client is made.

use http::HeaderValue;
use std::time::Duration;

/// What this program calls itself.
pub(crate) const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("cenote/", env!("CARGO_PKG_VERSION")));

/// How a client is made.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What is trusted.
    pub tls: rustls::ClientConfig,
    /// Whether proxies of the environment are used.
    pub uses_proxies: bool,
    /// How long a connection may take, with its proxy and TLS.
    pub connecting: Duration,
    /// How long the kernel waits for the other end to acknowledge what was sent.
    pub unacknowledged: Duration,
}
