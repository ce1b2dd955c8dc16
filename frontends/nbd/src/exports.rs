//! What a server has to offer, and how much it gives to clients.

use crate::device::BlockDevice;
use cenote_nbd_client::tls::TlsError;
use rustls::ServerConfig;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An export in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportEntry {
    /// The name that clients request.
    pub name: String,
    /// Text for people; may be empty.
    pub description: String,
}

/// Why an export is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is none of that name.
    #[error("there is no export '{0}'; list the exports for those that there are")]
    Unknown(String),
    /// It exists, and this client does not get it.
    #[error("{0}")]
    Refused(String),
    /// Only over TLS.
    #[error("export '{0}' is served over TLS only; connect with nbds://")]
    TlsRequired(String),
}

/// The client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address, or `unix`.
    pub address: String,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

/// The exports of a server.
pub trait Exports: Send + Sync {
    /// The exports that clients may see.
    fn list(&self) -> Vec<ExportEntry>;

    /// The name of the export that a client means; the empty name stands for the default one.
    fn resolved(&self, name: &str) -> String {
        name.to_owned()
    }

    /// The export of that name, which was resolved.
    ///
    /// It is held until the connection ends.
    ///
    /// # Errors
    /// There is none, or not for this client.
    fn open(&self, name: &str, client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError>;
}

/// How much clients get.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; how they are shared among clients is in `admission`.
    pub connections: usize,
    /// Requests of one connection that are carried out at once.
    pub threads_per_connection: usize,
    /// Threads of all connections together, beyond the first of each.
    pub threads: usize,
    /// Bytes of data of one connection's requests under way.
    pub connection_bytes: u64,
    /// Bytes of data of all requests under way.
    pub bytes: u64,
    /// Bytes that each connection has beside that, so that small requests are carried out while
    /// other clients do not take their replies and keep all memory.
    pub own_bytes: u64,
    /// From the connection to the end of the handshake, TLS included.
    pub handshake_time: Duration,
    /// How long a client may take no byte of a reply.
    pub send_time: Duration,
    /// How long the data of a request may take to come, and a second for each MiB of it.
    ///
    /// It holds memory meanwhile that other requests wait for.
    pub payload_time: Duration,
}

impl Limits {
    /// Bytes that the data of one request can have.
    pub(crate) fn payload_max(&self) -> u32 {
        let bytes = self.connection_bytes.min(self.bytes);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// How long this many bytes of a request's data may take to arrive.
    pub(crate) fn payload_time(&self, bytes: u64) -> Duration {
        self.payload_time + Duration::from_secs(bytes >> 20)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            threads_per_connection: 16,
            threads: 512,
            connection_bytes: 64 << 20,
            bytes: 192 << 20,
            own_bytes: 256 << 10,
            handshake_time: Duration::from_secs(10),
            send_time: Duration::from_secs(60),
            payload_time: Duration::from_secs(20),
        }
    }
}

/// Whether connections are encrypted.
#[derive(Clone, Debug, Default)]
pub enum TlsPolicy {
    /// They are not.
    #[default]
    Off,
    /// If the client wants.
    Optional(Arc<ServerConfig>),
    /// All of them.
    Required(Arc<ServerConfig>),
}

impl TlsPolicy {
    /// All connections are encrypted, with the certificates in `directory`; with
    /// `checks_clients`, clients need one that `ca-cert.pem` has signed.
    ///
    /// # Errors
    /// The files are not there, or not what they should be.
    pub fn required(directory: &Path, checks_clients: bool) -> Result<Self, TlsError> {
        cenote_nbd_client::tls::server_config(directory, checks_clients).map(Self::Required)
    }

    pub(crate) fn config(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Self::Off => None,
            Self::Optional(config) | Self::Required(config) => Some(config),
        }
    }

    pub(crate) fn is_required(&self) -> bool {
        matches!(self, Self::Required(_))
    }
}
