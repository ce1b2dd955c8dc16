//! Volumes that the daemon serves as network block devices (NBD).

use serde::{Deserialize, Serialize};

/// Where a server listens, and which clients it admits.
///
/// Nothing set stands for the daemon's own server, which listens beside the control socket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NbdListen {
    /// The path of a unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unix: Option<String>,
    /// An address and a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// The directory with the certificates: all connections are encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    /// Whether clients need a certificate, too.
    #[serde(default)]
    pub checks_clients: bool,
}

impl NbdListen {
    /// Whether it is the daemon's own server.
    pub fn is_default(&self) -> bool {
        self.unix.is_none() && self.tcp.is_none()
    }
}

/// What about served volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NbdAct {
    /// Serve volumes and snapshots of volumes.
    Serve {
        /// Their names.
        volumes: Vec<String>,
        /// Although they could be written to.
        read_only: bool,
        /// Where.
        listen: NbdListen,
    },
    /// Report the exports and their clients.
    Status,
    /// Serve it no longer.
    Stop {
        /// Names of volumes and snapshots, and addresses of servers; empty means all that is
        /// served because of commands.
        targets: Vec<String>,
        /// Although clients are connected.
        force: bool,
    },
}

/// A server of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NbdServer {
    /// Paths of sockets, and addresses with their ports.
    pub addresses: Vec<String>,
    /// Whether it is the daemon's own server, which also serves by the property `cenote:nbd`.
    pub is_default: bool,
    /// Whether connections are encrypted.
    pub is_encrypted: bool,
    /// In order of name.
    pub exports: Vec<NbdExport>,
    /// In the order in which they came.
    pub clients: Vec<NbdClient>,
    /// Whether it is ending: it answers requests under way, and accepts no clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ending: bool,
    /// Why it does not run although it should.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A volume or snapshot that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NbdExport {
    /// Its name, and that of the export.
    pub name: String,
    /// Bytes of the volume; unknown while it cannot be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether clients can only read.
    pub is_read_only: bool,
    /// Whether it is served because of the property `cenote:nbd`.
    pub is_by_property: bool,
}

/// A client of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NbdClient {
    /// Its address, or `unix`.
    pub address: String,
    /// The export, once it has chosen one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
    /// Requests that were carried out.
    pub requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub written_bytes: u64,
}
