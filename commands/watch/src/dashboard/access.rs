//! Access control.
//!
//! Every client that reaches the port may view the dashboard, as every local user may query the
//! daemon. Requests on the unix socket come from the daemon's user or root. They may also read
//! private data: command lines, events, addresses. A client that has logged in with the token may
//! also act.
//!
//! The token is compared by its digest, so that the time reveals neither its length nor its
//! beginning. A login creates a session: 32 random bytes in a cookie, and another 32 in each form.
//! Scripts cannot read the cookie, and other sites' requests do not send it (`HttpOnly`,
//! `SameSite=Strict`). A session ends after twelve hours, or with the daemon. Logins with wrong
//! tokens are rate-limited, for all clients together.
//!
//! A page of another site can make a browser resolve the site's own name to a loopback address (DNS
//! rebinding). So a server on a loopback address answers only to names of the loopback.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cenote_base::rt::fill_random;
use cenote_http::PageRequest;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The cookie's name.
const COOKIE: &str = "cenote_session";
/// How long a session lasts.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// The maximum number of sessions; a new one replaces the oldest.
const SESSIONS_MAX: usize = 64;
/// How many wrong tokens are accepted in [`WRONG_PERIOD`].
const WRONG_MAX: usize = 10;
const WRONG_PERIOD: Duration = Duration::from_secs(60);
/// The minimum length of a token: 128 bits have 32 hexadecimal digits.
const TOKEN_MIN: usize = 16;
/// The maximum size of a token file.
const TOKEN_FILE_MAX: u64 = 4096;

/// The SHA-256 of a secret.
type Fingerprint = [u8; 32];

fn fingerprint(secret: &[u8]) -> Fingerprint {
    Sha256::digest(secret).into()
}

struct Session {
    /// The fingerprint of the cookie's value.
    cookie: Fingerprint,
    /// The secret in the session's forms.
    form: String,
    begun: Instant,
}

/// The rights of a request's sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Visitor {
    /// Whether they may read private data.
    pub is_owner: bool,
    /// The secret in their forms, if they have logged in.
    pub form: Option<String>,
    /// Whether logging in is possible.
    pub can_log_in: bool,
}

/// Why a login fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The daemon has no token.
    NoToken,
    /// The token is wrong.
    Wrong,
    /// There were too many wrong tokens.
    TooMany,
    /// The system has no random bytes.
    NoRandom,
}

/// The sessions, and the token to create them.
pub struct Access {
    token: Option<Fingerprint>,
    sessions: Mutex<Vec<Session>>,
    wrong: Mutex<Vec<Instant>>,
}

/// Reads a token: the first line of a file.
pub fn read_token(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    let refused = |why: String| format!("--dashboard-token-file {shown}: {why}");
    let metadata = fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > TOKEN_FILE_MAX {
        return Err(refused(format!(
            "must be a file of {TOKEN_FILE_MAX} bytes at most"
        )));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(refused(
            "other users can read or change it. Run 'chmod 600' on it".to_owned(),
        ));
    }
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let text = Zeroizing::new(text);
    let line = text.lines().next().unwrap_or_default().trim();
    if line.len() < TOKEN_MIN {
        return Err(refused(format!(
            "the token must have {TOKEN_MIN} characters at least. 'openssl rand -hex 16' makes one"
        )));
    }
    Ok(Zeroizing::new(line.to_owned()))
}

fn random() -> Option<String> {
    let mut bytes = [0; 32];
    fill_random(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Access {
    /// Without a token, logging in is not possible.
    pub fn new(token: Option<&str>) -> Self {
        Self {
            token: token.map(|token| fingerprint(token.as_bytes())),
            sessions: Mutex::default(),
            wrong: Mutex::default(),
        }
    }

    /// The rights of the request's sender. On the unix socket every client is an owner, without a
    /// session.
    pub fn visitor(&self, request: &PageRequest, by_socket: bool) -> Visitor {
        let cookie = cookie_of(request).map(|value| fingerprint(value.as_bytes()));
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.begun.elapsed() < LIFETIME);
        let session = cookie.and_then(|cookie| {
            let mut sessions = sessions.iter();
            sessions.find(|session| bool::from(session.cookie.ct_eq(&cookie)))
        });
        Visitor {
            is_owner: by_socket || session.is_some(),
            form: session.map(|session| session.form.clone()),
            can_log_in: self.token.is_some(),
        }
    }

    /// Whether the form was created for this visitor.
    pub fn has_form(visitor: &Visitor, given: &str) -> bool {
        let Some(form) = &visitor.form else {
            return false;
        };
        let (form, given) = (fingerprint(form.as_bytes()), fingerprint(given.as_bytes()));
        form.ct_eq(&given).into()
    }

    /// Creates a session; returns the value of `Set-Cookie`.
    pub fn log_in(&self, token: &str) -> Result<String, LoginError> {
        let expected = self.token.ok_or(LoginError::NoToken)?;
        {
            let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
            wrong.retain(|at| at.elapsed() < WRONG_PERIOD);
            if wrong.len() >= WRONG_MAX {
                return Err(LoginError::TooMany);
            }
            if !bool::from(fingerprint(token.as_bytes()).ct_eq(&expected)) {
                wrong.push(Instant::now());
                return Err(LoginError::Wrong);
            }
        }
        let (Some(cookie), Some(form)) = (random(), random()) else {
            return Err(LoginError::NoRandom);
        };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push(Session {
            cookie: fingerprint(cookie.as_bytes()),
            form,
            begun: Instant::now(),
        });
        let seconds = LIFETIME.as_secs();
        Ok(format!(
            "{COOKIE}={cookie}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict"
        ))
    }

    /// Ends the session of a request; returns the value of `Set-Cookie`.
    pub fn log_out(&self, request: &PageRequest) -> String {
        if let Some(value) = cookie_of(request) {
            let cookie = fingerprint(value.as_bytes());
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            sessions.retain(|session| !bool::from(session.cookie.ct_eq(&cookie)));
        }
        format!("{COOKIE}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    }
}

/// The session's cookie. HTTP/2 may have one header per cookie (RFC 9113, 8.2.3).
fn cookie_of(request: &PageRequest) -> Option<&str> {
    let headers = request.headers.iter();
    let cookies = headers.filter(|(name, _)| name == "cookie");
    let mut pairs = cookies.flat_map(|(_, value)| value.split(';'));
    pairs.find_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })
}

/// Whether a `Host` header names this machine's loopback: `localhost` or a loopback address.
pub fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_address = name
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback());
    is_address || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cenote_http::Method;
    use std::os::unix::fs::PermissionsExt;

    const TOKEN: &str = "0123456789abcdef";

    fn request(cookie: &str) -> PageRequest {
        PageRequest {
            method: Method::Get,
            path: "/".to_owned(),
            query: None,
            headers: vec![("cookie".to_owned(), cookie.to_owned())],
            peer: None,
            body: Bytes::new(),
        }
    }

    #[test]
    fn a_token_opens_a_session_and_its_end_closes_it() {
        let access = Access::new(Some(TOKEN));
        let set = access.log_in(TOKEN).expect("the right token");
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Strict"),
            "{set}"
        );
        let cookie = set.split(';').next().expect("a cookie");
        let own = request(&format!("a=b; {cookie}"));
        let visitor = access.visitor(&own, false);
        assert!(visitor.is_owner);
        let form = visitor.form.clone().expect("a form's secret");
        assert!(Access::has_form(&visitor, &form));
        assert!(!Access::has_form(&visitor, ""));
        assert!(!Access::has_form(&Visitor::default(), ""));
        let mut several = request("a=b");
        several
            .headers
            .push(("cookie".to_owned(), cookie.to_owned()));
        assert!(access.visitor(&several, false).is_owner);
        // The secret of forms does not work as a cookie.
        let other = request(&format!("cenote_session={form}"));
        assert!(!access.visitor(&other, false).is_owner);
        access.log_out(&own);
        assert!(!access.visitor(&own, false).is_owner);
    }

    #[test]
    fn wrong_tokens_are_refused_and_slowed_down() {
        let access = Access::new(Some(TOKEN));
        for _ in 0..WRONG_MAX {
            assert_eq!(access.log_in("0123456789abcdee"), Err(LoginError::Wrong));
        }
        assert_eq!(access.log_in(TOKEN), Err(LoginError::TooMany));
        assert_eq!(Access::new(None).log_in(""), Err(LoginError::NoToken));
    }

    #[test]
    fn the_socket_makes_an_owner_that_cannot_act() {
        let visitor = Access::new(None).visitor(&request(""), true);
        assert!(visitor.is_owner && visitor.form.is_none() && !visitor.can_log_in);
    }

    #[test]
    fn sessions_are_bounded() {
        let access = Access::new(Some(TOKEN));
        let first = access.log_in(TOKEN).expect("right");
        for _ in 0..SESSIONS_MAX {
            access.log_in(TOKEN).expect("right");
        }
        let cookie = first.split(';').next().expect("a cookie");
        assert!(!access.visitor(&request(cookie), false).is_owner);
    }

    #[test]
    fn names_of_loopback_are_told_from_others() {
        for host in [
            "localhost",
            "LOCALHOST:9134",
            "127.0.0.1:1",
            "[::1]:80",
            "127.8.0.1",
        ] {
            assert!(is_loopback_host(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example:80",
            "127.0.0.1.nip.io",
            "10.0.0.1",
        ] {
            assert!(!is_loopback_host(host), "{host}");
        }
    }

    #[test]
    fn a_token_that_others_can_read_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("token");
        let put = |text: &str, mode: u32| {
            let _ = fs::remove_file(&file);
            fs::write(&file, text).expect("written");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("mode");
            read_token(&file)
        };
        assert_eq!(*put("0123456789abcdef\n", 0o600).expect("a token"), TOKEN);
        assert!(
            put("0123456789abcdef\n", 0o640)
                .expect_err("shared")
                .contains("chmod 600")
        );
        assert!(
            put("short\n", 0o600)
                .expect_err("short")
                .contains("16 characters")
        );
        assert!(put(&"x".repeat(9000), 0o600).is_err());
        assert!(read_token(directory.path()).is_err());
    }
}
