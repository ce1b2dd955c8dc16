//! One HTTP server, and its options.
//!
//! The server gets files from its `Offer`, and sends blocks of the cache without copying them.
//! `page` answers the requests for pages that are not files. This module reads the files that
//! options name: certificates and style sheets. It also opens the access log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::offer::Offer;
use cenote_control::model::{ControlError, HttpClient, HttpFigures, HttpOptions, HttpRefusal};
use cenote_http::{
    AccessLog, Address, FileLog, Handler, Listen, ListingFormat, Options, OptionsError, Server,
    ServerError, TlsFiles, read_named_file,
};

use super::page::StatusPage;

/// The longest style sheet or robots.txt.
const TEXT_MAX: u64 = 1 << 20;

fn bad(option: &str, reason: impl ToString) -> ControlError {
    HttpRefusal::BadOption {
        option: option.to_owned(),
        reason: reason.to_string(),
    }
    .into()
}

/// An address, with TLS if there is a certificate. Unix sockets have no TLS.
fn address_of(text: &str, has_tls: bool) -> Result<Address, ControlError> {
    let parsed = Address::parse(text).map_err(|error| bad("--listen", error))?;
    Ok(match parsed {
        Address::Tcp { address, is_tls } => Address::Tcp {
            address,
            is_tls: is_tls || has_tls,
        },
        unix @ Address::Unix(_) => unix,
    })
}

/// The text of a file that an option names.
fn text_of(option: &str, path: Option<&String>) -> Result<Option<String>, ControlError> {
    let Some(path) = path else {
        return Ok(None);
    };
    let failed = |reason: String| bad(option, format!("{path}: {reason}"));
    let bytes = read_named_file(Path::new(path), TEXT_MAX);
    let bytes = bytes.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| failed("it is no text in UTF-8".to_owned()))?;
    Ok(Some(text))
}

fn count<T: TryFrom<u64>>(wanted: u64) -> Option<T> {
    T::try_from(wanted).ok().filter(|_| wanted > 0)
}

fn server_options(wanted: &HttpOptions) -> Result<Options, ControlError> {
    let mut options = Options {
        style_sheet: text_of("--style", wanted.style.as_ref())?,
        robots: text_of("--robots", wanted.robots.as_ref())?,
        blocked_agents: wanted.blocked_agents.clone(),
        listing: match wanted.autoindex.as_deref() {
            Some("json") => ListingFormat::Json,
            Some("xml") => ListingFormat::Xml,
            Some("off") => ListingFormat::Off,
            _ => ListingFormat::Html,
        },
        ..Options::default()
    };
    if let Some(hidden) = &wanted.hidden {
        options.hidden.clone_from(hidden);
    }
    if let Some(index) = &wanted.index {
        options.index.clone_from(index);
    }
    let limits = &mut options.limits;
    limits.connections = count(wanted.limits.connections).unwrap_or(limits.connections);
    limits.connections_per_address =
        count(wanted.limits.connections_per_address).unwrap_or(limits.connections_per_address);
    limits.requests_per_second =
        count(wanted.limits.requests_per_second).or(limits.requests_per_second);
    limits.bytes_per_second = count(wanted.limits.bytes_per_second).or(limits.bytes_per_second);
    Ok(options)
}

fn tls_files(wanted: &HttpOptions) -> Option<TlsFiles> {
    wanted.tls.as_ref().map(|tls| TlsFiles {
        certificate: PathBuf::from(&tls.certificate),
        key: PathBuf::from(&tls.key),
    })
}

/// The refusal for an error of a server. It names the option that caused the error.
fn refusal(error: &ServerError, wanted: &HttpOptions) -> ControlError {
    let (address, reason) = match error {
        ServerError::Options(error) => {
            let option = match error {
                OptionsError::StyleSheet => "--style",
                OptionsError::Index(_) => "--index",
                OptionsError::Pattern { pattern, .. } if is_agent(pattern, wanted) => {
                    "--block-agent"
                }
                OptionsError::Pattern { .. } => "--hidden",
                _ => "an option",
            };
            return bad(option, error);
        }
        error @ ServerError::NoCertificate(_) => return bad("--listen", error),
        ServerError::Tls(error) => return bad("--tls-certificate and --tls-key", error),
        ServerError::Listen { address, source } => {
            (address.to_string(), format!("{source}. {}", advice(source)))
        }
        error => (wanted.listen.join(" "), error.to_string()),
    };
    HttpRefusal::NotListening { address, reason }.into()
}

fn is_agent(pattern: &str, wanted: &HttpOptions) -> bool {
    let mut agents = wanted.blocked_agents.iter();
    // The server adds stars on both sides, and converts the text to lower case.
    agents.any(|agent| {
        pattern
            .trim_matches('*')
            .eq_ignore_ascii_case(agent.trim_matches('*'))
    })
}

/// What to do about an address that cannot be listened on.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "Ports below 1024 need root or CAP_NET_BIND_SERVICE, and a unix socket a directory \
             that the daemon can write to"
        }
        io::ErrorKind::AddrInUse => "Choose another address, or end the program that has this one",
        _ => "Choose an address of this machine, or a unix socket in a directory that is there",
    }
}

/// An address as servers have it, for comparisons.
///
/// # Errors
/// It is no address.
pub(crate) fn address(text: &str) -> Result<String, ControlError> {
    address_of(text, false).map(|address| address.to_string())
}

/// A server that listens until it is stopped or dropped.
pub(crate) struct SiteServer {
    server: Server,
    options: HttpOptions,
    addresses: Vec<String>,
}

impl SiteServer {
    /// Serves an offer; it listens when this returns.
    ///
    /// # Errors
    /// It cannot listen there, or an option is invalid.
    pub fn start(options: &HttpOptions, offer: &Arc<Offer>) -> Result<Self, ControlError> {
        let addresses = options.listen.iter();
        let addresses = addresses.map(|text| address_of(text, options.tls.is_some()));
        let listen = Listen {
            addresses: addresses.collect::<Result<_, _>>()?,
            tls: tls_files(options),
        };
        let log = match &options.access_log {
            None => None,
            Some(path) => {
                let opened = FileLog::open(path);
                let log = opened.map_err(|error| bad("--access-log", format!("{path}: {error}")));
                Some(Box::new(log?) as Box<dyn AccessLog>)
            }
        };
        let handler = Handler {
            sites: Arc::clone(offer) as _,
            pages: Some(Arc::new(StatusPage(Arc::clone(offer)))),
            options: server_options(options)?,
        };
        let server = Server::start(listen, handler, log);
        let server = server.map_err(|error| refusal(&error, options))?;
        let addresses = server.addresses().into_iter().map(|address| {
            let text = address.to_string();
            // The status has a field of its own for encryption.
            text.strip_prefix("tls:")
                .map_or_else(|| text.clone(), str::to_owned)
        });
        Ok(Self {
            addresses: addresses.collect(),
            server,
            options: options.clone(),
        })
    }

    /// Where it listens, with the ports that the system chose.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Its figures since the start, and its busiest clients.
    pub fn figures(&self) -> HttpFigures {
        let status = self.server.status();
        let clients = status.busiest.iter().map(|one| HttpClient {
            address: one.address.to_string(),
            connections: one.connections as u64,
            requests: one.requests,
            sent_bytes: one.bytes,
        });
        HttpFigures {
            connections: status.connections as u64,
            requests: status.requests,
            from_memory: status.from_memory,
            sent_bytes: status.bytes,
            refused: status.refused,
            unlogged: status.log_lines_dropped,
            clients: clients.collect(),
        }
    }

    /// Reads certificates and style sheets again, and reopens the access log.
    ///
    /// # Errors
    /// A file cannot be read. The server then keeps its old options.
    pub fn reload(&self) -> Result<(), ControlError> {
        let options = server_options(&self.options)?;
        let reloaded = self.server.reload(options, tls_files(&self.options));
        reloaded.map_err(|error| refusal(&error, &self.options))
    }

    /// Stops listening. Its addresses are free when this returns.
    pub fn close(&self) {
        self.server.close();
    }

    /// Stops listening. Downloads under way may take the grace time.
    pub fn stop(&self, grace: Duration) {
        self.server.stop(grace);
    }
}
