//! What an administrator can choose, apart from the addresses to listen on.
//!
//! All of it can be exchanged while the server runs: a request keeps the options with which it
//! began, the next one takes the new ones. Options that are contradictory or cannot be understood
//! are refused as a whole, so that a reload never leaves half of them in force.

use crate::glob::Glob;
use std::time::Duration;

/// How directories are listed unless the client requests something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListingFormat {
    /// A page for people.
    #[default]
    Html,
    /// nginx's `autoindex_format json`.
    Json,
    /// nginx's `autoindex_format xml`.
    Xml,
    /// Directories without an index file are answered with 403.
    Off,
}

/// What limits a client, and what limits all of them.
///
/// Rates are bursts of one second; `None` means no limit. A client is identified by its address,
/// for IPv6 by its first 64 bits. Clients of unix sockets have no address; only the total limits
/// apply to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all. Default 16384.
    pub connections: usize,
    /// Connections of an address. Default 1024.
    pub connections_per_address: usize,
    /// Requests per second of an address. Default: no limit.
    pub requests_per_second: Option<u32>,
    /// Bytes per second to an address. Default: no limit.
    pub bytes_per_second: Option<u64>,
    /// Bytes per second to all addresses. Default: no limit.
    pub bytes_per_second_total: Option<u64>,
    /// How long the head of a request may take from its first byte, and a TLS handshake.
    /// Default 20 s.
    pub head_time: Duration,
    /// How long a connection may be without a request. Default 65 s.
    pub idle_time: Duration,
    /// What a client has to receive on average over [`Self::slow_time`], in bytes per second,
    /// while an answer waits for it. Default 256.
    pub receive_rate_min: u64,
    /// Over how long that is measured. Default 30 s.
    pub slow_time: Duration,
    /// How long a read from the storage may take before the request is given up. Default 60 s.
    pub storage_time: Duration,
    /// Bytes of a request's head. Default 32 KiB; at least 8 KiB.
    pub head_bytes: usize,
    /// Header lines of a request. Default 100.
    pub headers: usize,
    /// Bytes of a request's body, which only pages take. Default 1 MiB.
    pub body_bytes: usize,
    /// Requests at the same time on a connection of HTTP/2. Default 64.
    pub streams: u32,
    /// Ranges of a request; of a request with more of them `Range` is ignored. Default 32.
    pub ranges: usize,
    /// Entries of a directory that are listed. Default 100000, which take about 16 MiB.
    pub listed_entries: usize,
    /// Requests that may wait for the storage at the same time, a thread for each. Further requests
    /// queue up. Default 32.
    pub waiting_threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16384,
            connections_per_address: 1024,
            requests_per_second: None,
            bytes_per_second: None,
            bytes_per_second_total: None,
            head_time: Duration::from_secs(20),
            idle_time: Duration::from_secs(65),
            receive_rate_min: 256,
            slow_time: Duration::from_secs(30),
            storage_time: Duration::from_secs(60),
            head_bytes: 32 << 10,
            headers: 100,
            body_bytes: 1 << 20,
            streams: 64,
            ranges: 32,
            listed_entries: 100_000,
            waiting_threads: 32,
        }
    }
}

/// What is served, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How directories are listed. Default [`ListingFormat::Html`].
    pub listing: ListingFormat,
    /// CSS in place of the built-in style sheet of listings. Default: none.
    pub style_sheet: Option<String>,
    /// Files that are served for their directory, in order of preference. Default: `index.html`.
    pub index: Vec<String>,
    /// Patterns of names that do not exist for clients; one with `!` in front makes an exception,
    /// and the last that matches decides. Default: `.*` and `!.well-known`.
    pub hidden: Vec<String>,
    /// Whether `FILE.br`, `FILE.zst` and `FILE.gz` are served in place of `FILE` to clients that
    /// accept them, if they are not older. Default: yes.
    pub precompressed: bool,
    /// The content of `/robots.txt` where the tree has none. Default: none.
    pub robots: Option<String>,
    /// Patterns of `User-Agent`, anywhere in it and in either case, that are answered with 403.
    /// Default: none.
    pub blocked_agents: Vec<String>,
    /// Whole downloads of files from this size on pass through without staying in memory.
    /// Default 64 MiB.
    pub pass_through_bytes: u64,
    /// Header lines for each answer: name and value. Default: none.
    pub headers: Vec<(String, String)>,
    /// Limits.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listing: ListingFormat::Html,
            style_sheet: None,
            index: vec!["index.html".to_owned()],
            hidden: vec![".*".to_owned(), "!.well-known".to_owned()],
            precompressed: true,
            robots: None,
            blocked_agents: Vec::new(),
            pass_through_bytes: 64 << 20,
            headers: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// An option that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A pattern is not one.
    #[error("pattern '{pattern}' cannot be used: {reason}; correct the pattern")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A header line cannot be sent.
    #[error("header '{0}' cannot be sent: it has characters that HTTP does not allow; correct it")]
    Header(String),
    /// A header line is the server's own business.
    #[error("header '{0}' is set by the server itself; remove it")]
    OwnHeader(String),
    /// The style sheet would end the page's element that holds it.
    #[error("the style sheet cannot be used: it contains '</'; remove that from the CSS")]
    StyleSheet,
    /// The name of an index file is no name.
    #[error("index file '{0}' cannot be served: it must be a name without '/'; correct it")]
    Index(String),
    /// A limit that would refuse everybody, or is out of range.
    #[error("limit '{0}' is out of range: it must be {1}; choose another value")]
    Limit(&'static str, &'static str),
}

/// Headers that only the server may set.
const OWN_HEADERS: [&str; 13] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "keep-alive",
    "last-modified",
    "location",
    "transfer-encoding",
    "upgrade",
];

/// Options as requests use them: checked, and patterns ready.
#[derive(Debug)]
pub(crate) struct Rules {
    pub options: Options,
    pub headers: Vec<(http::HeaderName, http::HeaderValue)>,
    /// Patterns of names, and whether they hide.
    hidden: Vec<(Glob, bool)>,
    blocked_agents: Vec<Glob>,
}

impl Rules {
    /// # Errors
    /// [`OptionsError`], for the first option that cannot be used.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        check_limits(&options.limits)?;
        if let Some(css) = &options.style_sheet
            && css.contains("</")
        {
            return Err(OptionsError::StyleSheet);
        }
        for name in &options.index {
            let is_name = !name.is_empty() && name != "." && name != "..";
            if !is_name || name.contains(['/', '\0']) {
                return Err(OptionsError::Index(name.clone()));
            }
        }
        let mut hidden = Vec::new();
        for pattern in &options.hidden {
            let shown = pattern.strip_prefix('!');
            let names = shown.unwrap_or(pattern);
            check_names(names)?;
            hidden.push((glob(names)?, shown.is_none()));
        }
        let mut blocked_agents = Vec::new();
        for pattern in &options.blocked_agents {
            glob(pattern)?;
            blocked_agents.push(glob(&format!("*{}*", pattern.to_ascii_lowercase()))?);
        }
        let mut headers = Vec::new();
        for (name, value) in &options.headers {
            let line = || OptionsError::Header(format!("{name}: {value}"));
            let name: http::HeaderName = name.parse().map_err(|_| line())?;
            if OWN_HEADERS.contains(&name.as_str()) {
                return Err(OptionsError::OwnHeader(name.to_string()));
            }
            headers.push((name, value.parse().map_err(|_| line())?));
        }
        Ok(Self {
            options,
            headers,
            hidden,
            blocked_agents,
        })
    }

    /// Whether a name does not exist for clients.
    pub fn is_hidden(&self, name: &[u8]) -> bool {
        let mut patterns = self.hidden.iter().rev();
        let last = patterns.find(|(glob, _)| glob.matches(name));
        last.is_some_and(|(_, hides)| *hides)
    }

    /// Whether a client that calls itself that is refused.
    pub fn is_blocked(&self, agent: &[u8]) -> bool {
        if self.blocked_agents.is_empty() {
            return false;
        }
        let agent = agent.to_ascii_lowercase();
        self.blocked_agents.iter().any(|glob| glob.matches(&agent))
    }

    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }
}

/// Refuses a pattern that no name matches: an owner would believe that something is hidden.
fn check_names(pattern: &str) -> Result<(), OptionsError> {
    let reason = match pattern {
        "" => "it is empty, and no name is",
        _ if pattern.contains('/') => {
            "it is compared with each name of a path, and no name contains '/'"
        }
        _ => return Ok(()),
    };
    Err(OptionsError::Pattern {
        pattern: pattern.to_owned(),
        reason,
    })
}

fn glob(pattern: &str) -> Result<Glob, OptionsError> {
    Glob::new(pattern).map_err(|reason| OptionsError::Pattern {
        pattern: pattern.to_owned(),
        reason,
    })
}

fn check_limits(limits: &Limits) -> Result<(), OptionsError> {
    let least: [(&'static str, u64); 10] = [
        ("connections", limits.connections as u64),
        (
            "connections_per_address",
            limits.connections_per_address as u64,
        ),
        (
            "requests_per_second",
            limits.requests_per_second.unwrap_or(1).into(),
        ),
        ("bytes_per_second", limits.bytes_per_second.unwrap_or(1)),
        (
            "bytes_per_second_total",
            limits.bytes_per_second_total.unwrap_or(1),
        ),
        ("headers", limits.headers as u64),
        ("streams", limits.streams.into()),
        ("ranges", limits.ranges as u64),
        ("listed_entries", limits.listed_entries as u64),
        ("waiting_threads", limits.waiting_threads as u64),
    ];
    if let Some((name, _)) = least.iter().find(|(_, value)| *value == 0) {
        return Err(OptionsError::Limit(name, "at least 1"));
    }
    let times = [
        ("head_time", limits.head_time),
        ("idle_time", limits.idle_time),
        ("slow_time", limits.slow_time),
        ("storage_time", limits.storage_time),
    ];
    let is_odd = |time: Duration| time.is_zero() || time > Duration::from_secs(86400);
    if let Some((name, _)) = times.iter().find(|(_, time)| is_odd(*time)) {
        return Err(OptionsError::Limit(name, "above 0 and at most one day"));
    }
    if !(8 << 10..=1 << 20).contains(&limits.head_bytes) {
        return Err(OptionsError::Limit("head_bytes", "8 KiB to 1 MiB"));
    }
    if limits.body_bytes > 64 << 20 {
        return Err(OptionsError::Limit("body_bytes", "at most 64 MiB"));
    }
    if limits.headers > 1000 {
        return Err(OptionsError::Limit("headers", "at most 1000"));
    }
    if limits.waiting_threads > 1024 {
        return Err(OptionsError::Limit("waiting_threads", "at most 1024"));
    }
    if limits.streams > 1000 {
        return Err(OptionsError::Limit("streams", "at most 1000"));
    }
    if limits.ranges > 1000 {
        return Err(OptionsError::Limit("ranges", "at most 1000"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(change: impl FnOnce(&mut Options)) -> Result<Rules, OptionsError> {
        let mut options = Options::default();
        change(&mut options);
        Rules::new(options)
    }

    #[test]
    fn the_last_pattern_decides_what_is_hidden() {
        let rules = rules(|options| options.hidden.push("*.tmp".to_owned())).expect("fine");
        for name in [".git", ".", ".htaccess", "a.tmp", ".well-known.tmp"] {
            assert!(rules.is_hidden(name.as_bytes()), "{name}");
        }
        for name in [".well-known", "a", "tmp", "a.tmp.gz"] {
            assert!(!rules.is_hidden(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn agents_are_found_anywhere_in_either_case() {
        let patterns = ["BadBot", "evil*crawler"].map(str::to_owned);
        let rules = rules(|options| options.blocked_agents = patterns.into()).expect("fine");
        assert!(rules.is_blocked(b"Mozilla/5.0 (compatible; badbot/2.1)"));
        assert!(rules.is_blocked(b"Evil Web Crawler"));
        assert!(!rules.is_blocked(b"curl/8.0"));
        assert!(!rules.is_blocked(b""));
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_its_name() {
        let refused = |change: fn(&mut Options)| rules(change).expect_err("refused").to_string();
        assert!(refused(|o| o.hidden.push("[a".into())).contains("[a"));
        // Regression: these were accepted, and hid nothing.
        for pattern in ["*/sec", "/sec", "sec/", "!a/b", "", "!"] {
            let pushed = rules(|o| o.hidden.push(pattern.to_owned()));
            let error = pushed.expect_err(pattern).to_string();
            assert!(error.contains("no name"), "{error}");
        }
        assert!(refused(|o| o.index.push("a/b".into())).contains("a/b"));
        assert!(refused(|o| o.headers.push(("a b".into(), "c".into()))).contains("a b"));
        assert!(refused(|o| o.headers.push(("X".into(), "c\r\nd: e".into()))).contains("X"));
        let own = ("Content-Length".to_owned(), "5".to_owned());
        assert!(rules(|o| o.headers.push(own)).is_err());
        assert!(refused(|o| o.limits.connections = 0).contains("connections"));
        assert!(refused(|o| o.limits.head_bytes = 100).contains("head_bytes"));
        assert!(refused(|o| o.limits.idle_time = Duration::ZERO).contains("idle_time"));
        assert!(refused(|o| o.style_sheet = Some("</style>".into())).contains("</"));
    }
}
