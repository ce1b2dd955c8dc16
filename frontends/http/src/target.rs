//! What a request names: its path, taken apart, and the host.
//!
//! A path is decoded once. A component with a slash or a zero byte in it is refused: no file can
//! have that name, and other software might decode it further. Empty components, `.` and `..` are
//! resolved as RFC 3986 says; a client that sent them is sent to the canonical path, so that each
//! file has one address. `..` above the root is refused.

use std::fmt::Write;

/// Components of a path; a file system has no more of them within its 4096 bytes.
const COMPONENTS_MAX: usize = 2048;

/// Why a path cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("the path does not begin with a slash")]
    NoSlash,
    #[error("a percent sign is not followed by two hexadecimal digits")]
    Percent,
    #[error("a component of the path has a slash or a zero byte in it")]
    Forbidden,
    #[error("the path leads above its root")]
    AboveRoot,
    #[error("the path has too many components")]
    TooLong,
    #[error("the host is not a name or an address")]
    Host,
}

/// A path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its components, decoded.
    pub path: Vec<Vec<u8>>,
    /// Whether it names a directory: it is the root, or ends with a slash.
    pub is_directory: bool,
    /// Whether it has neither empty components nor `.` or `..`.
    pub is_canonical: bool,
}

impl Target {
    /// Takes the path of a URI apart.
    pub fn parse(path: &str) -> Result<Self, TargetError> {
        let rest = path.strip_prefix('/').ok_or(TargetError::NoSlash)?;
        let mut target = Self {
            path: Vec::new(),
            is_directory: true,
            is_canonical: true,
        };
        if rest.is_empty() {
            return Ok(target);
        }
        let mut components = rest.split('/').enumerate().peekable();
        while let Some((index, component)) = components.next() {
            if index >= COMPONENTS_MAX {
                return Err(TargetError::TooLong);
            }
            let is_last = components.peek().is_none();
            let name = decode(component)?;
            target.is_directory = false;
            match &name[..] {
                b"" => {
                    target.is_directory = true;
                    target.is_canonical &= is_last && !target.path.is_empty();
                }
                b"." => (target.is_directory, target.is_canonical) = (true, false),
                b".." => {
                    target.path.pop().ok_or(TargetError::AboveRoot)?;
                    (target.is_directory, target.is_canonical) = (true, false);
                }
                _ => target.path.push(name),
            }
        }
        Ok(target)
    }

    /// The path that names the same canonically.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        for component in &self.path {
            text.push('/');
            encode(component, &mut text);
        }
        if self.is_directory || text.is_empty() {
            text.push('/');
        }
        text
    }
}

fn decode(component: &str) -> Result<Vec<u8>, TargetError> {
    let mut name = Vec::with_capacity(component.len());
    let mut bytes = component.bytes();
    let digit = |byte: Option<u8>| byte.and_then(|byte| (byte as char).to_digit(16));
    while let Some(byte) = bytes.next() {
        let byte = match byte {
            b'%' => match (digit(bytes.next()), digit(bytes.next())) {
                // Two digits make at most 255.
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(TargetError::Percent),
            },
            byte => byte,
        };
        if matches!(byte, b'/' | 0) {
            return Err(TargetError::Forbidden);
        }
        name.push(byte);
    }
    Ok(name)
}

/// Appends a component as a URI has it.
pub(crate) fn encode(component: &[u8], to: &mut String) {
    for byte in component {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'+' | b'@' => {
                to.push(*byte as char);
            }
            // A string takes all that is written to it.
            byte => drop(write!(to, "%{byte:02X}")),
        }
    }
}

/// A path as a URI has it.
pub fn encoded_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for (index, component) in path.split('/').enumerate() {
        if index > 0 {
            encoded.push('/');
        }
        encode(component.as_bytes(), &mut encoded);
    }
    encoded
}

/// The host of a `Host` header or URI: lower case, without port and the dot at its end.
pub(crate) fn host(text: &str) -> Result<String, TargetError> {
    let name = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, after) = rest.split_once(']').ok_or(TargetError::Host)?;
            let is_address = address.parse::<std::net::Ipv6Addr>().is_ok();
            if !is_address || !is_port(after) {
                return Err(TargetError::Host);
            }
            &text[..address.len() + 2]
        }
        None => {
            let name = text.split(':').next().unwrap_or("");
            if !is_port(&text[name.len()..]) {
                return Err(TargetError::Host);
            }
            name.strip_suffix('.').unwrap_or(name)
        }
    };
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~[]:%".contains(&byte);
    match name.len() <= 255 && name.bytes().all(is_fine) {
        true => Ok(name.to_ascii_lowercase()),
        false => Err(TargetError::Host),
    }
}

/// The host that a request is for, as [`host_name`] has it; empty if it names none that can be.
pub fn requested_host(text: &str) -> String {
    host(text).unwrap_or_default()
}

/// The host that a site is for, as requests are compared with it; `None` if no request can name it
/// so: it has a port, a wildcard, or what no name has.
pub fn host_name(text: &str) -> Option<String> {
    let name = host(text).ok().filter(|name| !name.is_empty())?;
    let is_whole = text.len() == name.len() || text.strip_suffix('.').is_some();
    (is_whole && !name.contains(['%', '~'])).then_some(name)
}

/// Whether it is nothing, or a colon and perhaps a port.
fn is_port(text: &str) -> bool {
    let Some(port) = text.strip_prefix(':') else {
        return text.is_empty();
    };
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(path: &str) -> (String, bool) {
        let target = Target::parse(path).expect("a path");
        (target.canonical(), target.is_canonical)
    }

    #[test]
    fn canonical_paths_stay_as_they_are() {
        for path in [
            "/",
            "/a",
            "/a/",
            "/a/b.tar.gz",
            "/%20/%C3%A4",
            "/...",
            "/a+b@c",
        ] {
            assert_eq!(canonical(path), (path.to_owned(), true));
        }
    }

    #[test]
    fn other_paths_have_a_canonical_one() {
        for (path, expected) in [
            ("//", "/"),
            ("//a", "/a"),
            ("/a//b", "/a/b"),
            ("/a//", "/a/"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/..", "/"),
            ("/a/b/%2e%2E/", "/a/"),
            ("/a/%2e/b", "/a/b"),
            ("//example.org/x", "/example.org/x"),
        ] {
            assert_eq!(canonical(path), (expected.to_owned(), false), "{path}");
        }
    }

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for (path, error) in [
            ("", TargetError::NoSlash),
            ("a", TargetError::NoSlash),
            ("*", TargetError::NoSlash),
            ("/..", TargetError::AboveRoot),
            ("/a/../..", TargetError::AboveRoot),
            ("/%2e%2e/etc/passwd", TargetError::AboveRoot),
            ("/a%2fb", TargetError::Forbidden),
            ("/a%00", TargetError::Forbidden),
            ("/%", TargetError::Percent),
            ("/%2", TargetError::Percent),
            ("/%g0", TargetError::Percent),
            ("/%+1", TargetError::Percent),
        ] {
            assert_eq!(Target::parse(path), Err(error), "{path}");
        }
        let deep = "/a".repeat(COMPONENTS_MAX + 1);
        assert_eq!(Target::parse(&deep), Err(TargetError::TooLong));
    }

    #[test]
    fn a_path_is_decoded_once() {
        let target = Target::parse("/%252e%252e/%25").expect("a path");
        assert_eq!(target.path, [b"%2e%2e".to_vec(), b"%".to_vec()]);
    }

    #[test]
    fn hosts_lose_their_ports_and_case() {
        for (text, expected) in [
            ("", ""),
            ("Example.ORG", "example.org"),
            ("example.org.", "example.org"),
            ("example.org:8080", "example.org"),
            ("example.org:", "example.org"),
            ("[::1]:80", "[::1]"),
            ("[FE80::1]", "[fe80::1]"),
        ] {
            assert_eq!(host(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("Example.ORG", Some("example.org")),
            ("example.org.", Some("example.org")),
            ("[FE80::1]", Some("[fe80::1]")),
            ("example.org:80", None),
            ("[::1]:80", None),
            ("*.example.org", None),
            ("a b", None),
            ("a%41", None),
            ("::1", None),
            ("", None),
        ] {
            assert_eq!(host_name(text).as_deref(), expected, "{text}");
        }
        for text in ["a b", "a/b", "a:b", "[::1", "[x]", "a:1:2", "a@b", "[::1]x"] {
            assert_eq!(host(text), Err(TargetError::Host), "{text}");
        }
    }
}
