//! Files of datasets and snapshots that the daemon serves over HTTP.

use serde::{Deserialize, Serialize};

/// A certificate and its key: connections are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpTls {
    /// The file with the certificate chain.
    pub certificate: String,
    /// The file with the key.
    pub key: String,
}

/// What a client may use; 0 means the server's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpLimits {
    /// Connections in all.
    pub connections: u64,
    /// Connections of one address.
    pub connections_per_address: u64,
    /// Requests of one address in a second.
    pub requests_per_second: u64,
    /// Bytes to one address in a second.
    pub bytes_per_second: u64,
}

/// How a server listens and answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpOptions {
    /// Addresses with ports, and `unix:PATH`.
    pub listen: Vec<String>,
    /// Encrypts TCP connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<HttpTls>,
    /// Patterns of names that are not served; not set, the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<Vec<String>>,
    /// Patterns of user agents that are refused.
    pub blocked_agents: Vec<String>,
    /// The form of listings: `html`, `json`, `xml` or `off`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoindex: Option<String>,
    /// Names of files that answer for their directory; not set, the server's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Vec<String>>,
    /// The file with the `robots.txt` of sites that have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robots: Option<String>,
    /// The file with the style sheet of listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub style: Option<String>,
    /// The file with the access log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_log: Option<String>,
    /// Limits.
    pub limits: HttpLimits,
}

/// Which state of a dataset a site shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HttpState {
    /// The dataset as it is named: a snapshot, or a head with its changes.
    #[default]
    Named,
    /// The newest snapshot whose name matches the pattern.
    Latest {
        /// `*` and `?` stand for any text and any character.
        pattern: String,
    },
}

/// A site: where a dataset is to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpSite {
    /// The host's name in lower case; not set, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The path of its root, which begins with a slash.
    pub path: String,
    /// The file system or snapshot.
    pub dataset: String,
    /// Which state of it.
    #[serde(default)]
    pub state: HttpState,
    /// With the file systems below it.
    #[serde(default)]
    pub recursive: bool,
}

/// What about sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "requests are rare and short-lived"
)]
pub enum HttpAct {
    /// Serve sites.
    Start {
        /// Which.
        sites: Vec<HttpSite>,
        /// Where and how.
        options: HttpOptions,
    },
    /// Say what is served, and how much.
    Status,
    /// Serve it no longer.
    Stop {
        /// Names of datasets, and addresses of servers; empty means all.
        targets: Vec<String>,
        /// How many seconds downloads may still take.
        grace: u64,
    },
    /// Read certificates and style sheets again, and reopen access logs.
    Reload,
}

/// What about the dashboard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DashboardAct {
    /// Say where it is served.
    Status,
    /// Serve it on this port, too, until the daemon ends.
    Listen {
        /// `ADDRESS:PORT`.
        address: String,
    },
    /// Serve it on the unix socket only.
    Close,
}

/// A client's address and what it uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpClient {
    /// The address.
    pub address: String,
    /// Connections now.
    pub connections: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// What a server did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpFigures {
    /// Connections now.
    pub connections: u64,
    /// Requests answered.
    pub requests: u64,
    /// Of these, requests that were answered at once: no thread waited for the storage.
    pub from_memory: u64,
    /// Bytes of bodies sent.
    pub sent_bytes: u64,
    /// Connections and requests that limits refused.
    pub refused: u64,
    /// Lines of the access log that were dropped because the disk was too slow.
    pub unlogged: u64,
    /// The busiest addresses.
    pub clients: Vec<HttpClient>,
}

/// A site that is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpSiteStatus {
    /// The requested settings; the dataset by the name that it has now.
    pub site: HttpSite,
    /// The dataset or snapshot that it shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// When the snapshot was made, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<u64>,
    /// Files that are being sent.
    pub open_files: u64,
    /// Reads of files' contents.
    #[serde(default)]
    pub reads: u64,
    /// Bytes of files that were sent.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Bytes of blocks that were read from devices for that, or ahead of it.
    pub read_bytes: u64,
    /// Why it cannot be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A server of sites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpServer {
    /// Addresses with ports, and `unix:PATH`.
    pub addresses: Vec<String>,
    /// Whether TCP connections are encrypted.
    pub is_encrypted: bool,
    /// What it serves.
    pub sites: Vec<HttpSiteStatus>,
    /// What it did.
    pub figures: HttpFigures,
    /// Whether it is ending: downloads under way may be completed, and it accepts no clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ending: bool,
}
