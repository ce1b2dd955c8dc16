//! Names of exports: `nbd://host/export`, as all clients of NBD have them.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT            over TCP, port 10809 by default
//! nbds://HOST[:PORT]/EXPORT           the same with TLS
//! nbd+unix:///EXPORT?socket=PATH      over a unix socket
//! nbds+unix:///EXPORT?socket=PATH     the same with TLS
//! ```
//!
//! Options follow the question mark, with `&` between them:
//!
//! ```text
//! connections=N          connections at once, if the server shares them; default 4
//! timeout=SECONDS        after which a request fails; default 90
//! tls-certificates=DIR   certificates; default: those that the system trusts
//! tls-hostname=NAME      the name in the server's certificate; default: HOST
//! ```
//!
//! Escapes (`%2F`) are undone in the export, in `socket` and in `tls-certificates`.

use std::path::PathBuf;
use std::time::Duration;

/// The schemes of names of exports, and what whole names look like, for a registry of schemes.
pub const SCHEMES: [(&str, &str); 4] = [
    ("nbd", "nbd://HOST/EXPORT"),
    ("nbds", "nbds://HOST/EXPORT"),
    ("nbd+unix", "nbd+unix:///EXPORT?socket=PATH"),
    ("nbds+unix", "nbds+unix:///EXPORT?socket=PATH"),
];

const PORT: u16 = 10809;
const CONNECTIONS: usize = 4;
const CONNECTIONS_MAX: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(90);
const TIMEOUT_SECONDS_MAX: u64 = 86_400;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Over the network.
    Tcp(String, u16),
    /// On this machine.
    Unix(PathBuf),
}

/// How a connection is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Where certificates are; `None` for those that the system trusts.
    pub certificates: Option<PathBuf>,
    /// The name in the server's certificate.
    pub host: String,
}

/// An export, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Where the server listens.
    pub place: Place,
    /// The export's name.
    pub export: String,
    /// How the connection is encrypted, if it is.
    pub tls: Option<TlsOptions>,
    /// Connections at once at most.
    pub connections: usize,
    /// After how long a request fails.
    pub timeout: Duration,
    /// Whether a server in this process is refused.
    pub must_be_foreign: bool,
}

/// Why a name is none of an export.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocationError {
    /// The scheme is another one.
    #[error("it is no name of an NBD export; write nbd://HOST/EXPORT")]
    Scheme,
    /// There is no host, or a port that is none.
    #[error("'{0}' is no host and port; write nbd://HOST:PORT/EXPORT")]
    Host(String),
    /// A unix socket has no host.
    #[error("a unix socket has no host; write nbd+unix:///EXPORT?socket=PATH")]
    HostOfSocket,
    /// The socket is not named, or not with its whole path.
    #[error("the socket's path is missing or relative; append ?socket=/PATH")]
    NoSocket,
    /// An escape that is none.
    #[error("'{0}' has a % that is not followed by two hexadecimal digits of UTF-8 text")]
    Escape(String),
    /// An option that there is not.
    #[error(
        "there is no option '{0}'; the options are socket, connections, timeout, \
         tls-certificates and tls-hostname"
    )]
    Option(String),
    /// An option with a value that it cannot have.
    #[error("option '{option}' cannot be '{value}'; it is {allowed}")]
    Value {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// What it can be.
        allowed: &'static str,
    },
    /// Keys instead of certificates.
    #[error(
        "TLS with pre-shared keys is not supported; use certificates (tls-certificates=DIRECTORY)"
    )]
    PreSharedKey,
    /// TLS needs a host name to verify the server.
    #[error("append &tls-hostname=NAME with the name in the server's certificate")]
    NoHostName,
    /// An option of TLS where there is none.
    #[error("option '{0}' is for TLS; write nbds:// or nbds+unix://")]
    NoTls(&'static str),
}

/// Options as they stand in the name.
#[derive(Default)]
struct Options {
    socket: Option<PathBuf>,
    connections: Option<usize>,
    timeout: Option<Duration>,
    certificates: Option<PathBuf>,
    host: Option<String>,
}

impl Location {
    /// The export that a name means.
    ///
    /// # Errors
    /// It means none.
    pub fn parse(name: &str) -> Result<Self, LocationError> {
        let (scheme, rest) = name.split_once("://").ok_or(LocationError::Scheme)?;
        let (is_encrypted, is_unix) = match scheme {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(LocationError::Scheme),
        };
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let options = Options::parse(options)?;
        let (host, export) = rest.split_once('/').unwrap_or((rest, ""));
        let place = match is_unix {
            true => options.place(host)?,
            false if options.socket.is_some() => {
                return Err(LocationError::Option("socket".into()));
            }
            false => tcp_place(host)?,
        };
        let named = match (&place, options.host) {
            (_, Some(host)) => Some(host),
            (Place::Tcp(host, _), None) => Some(host.clone()),
            (Place::Unix(_), None) => None,
        };
        if !is_encrypted && options.certificates.is_some() {
            return Err(LocationError::NoTls("tls-certificates"));
        }
        let tls = match is_encrypted {
            false => None,
            true => Some(TlsOptions {
                certificates: options.certificates,
                host: named.ok_or(LocationError::NoHostName)?,
            }),
        };
        Ok(Self {
            place,
            export: unescaped(export)?,
            tls,
            connections: options.connections.unwrap_or(CONNECTIONS),
            timeout: options.timeout.unwrap_or(TIMEOUT),
            must_be_foreign: false,
        })
    }
}

impl Options {
    fn parse(text: &str) -> Result<Self, LocationError> {
        let mut options = Self::default();
        for option in text.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "socket" => options.socket = Some(unescaped(value)?.into()),
                "connections" => {
                    let number = value.parse().ok();
                    let number = number.filter(|number| (1..=CONNECTIONS_MAX).contains(number));
                    let number = number.ok_or_else(|| LocationError::Value {
                        option: "connections",
                        value: value.into(),
                        allowed: "a number from 1 to 16",
                    })?;
                    options.connections = Some(number);
                }
                "timeout" => {
                    let number = value.parse().ok();
                    let number = number.filter(|number| (1..=TIMEOUT_SECONDS_MAX).contains(number));
                    let number = number.ok_or_else(|| LocationError::Value {
                        option: "timeout",
                        value: value.into(),
                        allowed: "a number of seconds from 1 to 86400",
                    })?;
                    options.timeout = Some(Duration::from_secs(number));
                }
                "tls-certificates" => options.certificates = Some(unescaped(value)?.into()),
                "tls-hostname" => options.host = Some(value.to_owned()),
                "tls-psk-file" => return Err(LocationError::PreSharedKey),
                other => return Err(LocationError::Option(other.to_owned())),
            }
        }
        Ok(options)
    }

    fn place(&self, host: &str) -> Result<Place, LocationError> {
        match &self.socket {
            _ if !host.is_empty() => Err(LocationError::HostOfSocket),
            Some(socket) if socket.is_absolute() => Ok(Place::Unix(socket.clone())),
            _ => Err(LocationError::NoSocket),
        }
    }
}

/// `host`, `host:port`, `[::1]`, `[::1]:port`
fn tcp_place(text: &str) -> Result<Place, LocationError> {
    let fail = || LocationError::Host(text.to_owned());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(fail)?;
            match port {
                "" => (host, None),
                port => (host, Some(port.strip_prefix(':').ok_or_else(fail)?)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => PORT,
        Some(port) => port.parse().map_err(|_| fail())?,
    };
    match host.is_empty() || port == 0 {
        true => Err(fail()),
        false => Ok(Place::Tcp(host.to_owned(), port)),
    }
}

fn unescaped(text: &str) -> Result<String, LocationError> {
    let fail = || LocationError::Escape(text.to_owned());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(fail)?;
        let digits = std::str::from_utf8(digits).map_err(|_| fail())?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(fail());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| fail())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| fail())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> (Place, String) {
        let location = Location::parse(name).expect(name);
        (location.place, location.export)
    }

    #[test]
    fn names_mean_places() {
        let tcp = |host: &str, port| Place::Tcp(host.into(), port);
        assert_eq!(place("nbd://h"), (tcp("h", PORT), String::new()));
        assert_eq!(
            place("nbd://h:1/tank/vol"),
            (tcp("h", 1), "tank/vol".into())
        );
        assert_eq!(place("nbds://[::1]:1/a"), (tcp("::1", 1), "a".into()));
        assert_eq!(place("nbd://[::1]/a%20b"), (tcp("::1", PORT), "a b".into()));
        assert_eq!(
            place("nbd+unix:///a?socket=/run/a%26b"),
            (Place::Unix("/run/a&b".into()), "a".into())
        );
        let location = Location::parse("nbds://h/?connections=2&timeout=5&tls-certificates=/c");
        let location = location.expect("options");
        assert_eq!(location.connections, 2);
        assert_eq!(location.timeout, Duration::from_secs(5));
        let tls = location.tls.expect("encrypted");
        assert_eq!(
            (tls.certificates, tls.host),
            (Some("/c".into()), "h".into())
        );
    }

    #[test]
    fn names_that_mean_nothing_are_refused() {
        for name in [
            "nbd:/h/a",
            "http://h/a",
            "nbd:///a",
            "nbd://h:/a",
            "nbd://h:99999/a",
            "nbd://h:0/a",
            "nbd://[::1/a",
            "nbd://[::1]x/a",
            "nbd://h/%zz",
            "nbd://h/%+1",
            "nbd://h/%ff",
            "nbd://h/%2",
            "nbd+unix:///a",
            "nbd+unix:///a?socket=b",
            "nbd+unix://h/a?socket=/b",
            "nbd://h/a?socket=/b",
            "nbd://h/a?x=1",
            "nbd://h/a?connections=0",
            "nbd://h/a?timeout=",
            "nbd://h/a?tls-certificates=/c",
            "nbds+unix:///a?socket=/b",
        ] {
            assert!(Location::parse(name).is_err(), "{name}");
        }
        let psk = Location::parse("nbds://h/a?tls-psk-file=/k");
        assert_eq!(psk, Err(LocationError::PreSharedKey));
    }
}
