//! HTTP/1.1 requests for the endpoint: GET, HEAD, and POST of a form.
//!
//! A scraper or a browser sends a head of a few hundred bytes, and a form is as short. What is
//! longer, or another method, is refused before anything is allocated for it.

use bytes::Bytes;
use cenote_http::{Method, PageRequest};

/// The longest head of a request.
pub const HEAD_SIZE_MAX: usize = 8 << 10;
/// The longest body.
pub const BODY_SIZE_MAX: usize = 8 << 10;

/// A request that is understood; its body is still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What is asked for.
    pub page: PageRequest,
    /// Only the head of the answer is wanted.
    pub is_head: bool,
    /// The connection ends with the answer.
    pub closes: bool,
    /// Bytes of the body.
    pub length: usize,
}

/// Why a request is not answered with what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no HTTP request.
    Malformed,
    /// None of GET, HEAD and POST.
    Method,
    /// Its head is too long.
    TooLong,
    /// It brings a body where there is none, or one that is too long.
    Body,
}

impl Refused {
    /// Status and reason.
    pub fn status(self) -> &'static str {
        match self {
            Self::Malformed => "400 Bad Request",
            Self::Method => "405 Method Not Allowed",
            Self::TooLong => "431 Request Header Fields Too Large",
            Self::Body => "413 Content Too Large",
        }
    }
}

/// Where the head of a request ends, if all of it is there.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let place = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(place + 4)
}

/// Reads the head of a request.
pub fn parse(head: &[u8]) -> Result<Asked, Refused> {
    let text = std::str::from_utf8(head).map_err(|_| Refused::Malformed)?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(Refused::Malformed);
    };
    if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !target.starts_with('/') {
        return Err(Refused::Malformed);
    }
    let (method, is_head) = match method {
        "GET" => (Method::Get, false),
        "HEAD" => (Method::Get, true),
        "POST" => (Method::Post, false),
        _ => return Err(Refused::Method),
    };
    let mut closes = version == "HTTP/1.0";
    let (mut headers, mut length) = (Vec::new(), None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Refused::Malformed)?;
        let (name, value) = (name.to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "connection" => closes |= value.eq_ignore_ascii_case("close"),
            "content-length" => {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let found = value.parse::<usize>().ok().filter(|_| is_number);
                let found = found
                    .filter(|found| *found <= BODY_SIZE_MAX)
                    .ok_or(Refused::Body)?;
                // Two that differ are two requests for somebody else.
                if length.is_some_and(|length| length != found) {
                    return Err(Refused::Malformed);
                }
                length = Some(found);
            }
            "transfer-encoding" => return Err(Refused::Body),
            _ => {}
        }
        headers.push((name, value.to_owned()));
    }
    let length = length.unwrap_or(0);
    if method == Method::Get && length != 0 {
        return Err(Refused::Body);
    }
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query.to_owned())),
        None => (target, None),
    };
    Ok(Asked {
        page: PageRequest {
            method,
            path: path.to_owned(),
            query,
            headers,
            body: Bytes::new(),
        },
        is_head,
        closes,
        length,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_and_a_browser_are_understood() {
        let request = b"GET /metrics?x=1#y HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        assert_eq!(end_of_head(request), Some(request.len()));
        let asked = parse(request).expect("understood");
        assert_eq!(
            (asked.page.path.as_str(), asked.page.query.as_deref()),
            ("/metrics", Some("x=1"))
        );
        assert_eq!(asked.page.header("host"), Some("a"));
        assert!(!asked.is_head && !asked.closes);
        let old = parse(b"HEAD / HTTP/1.0\r\n\r\n").expect("understood");
        assert!(old.is_head && old.closes);
        let last = parse(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").expect("understood");
        assert!(last.closes);
        let form = parse(b"POST /login HTTP/1.1\r\nContent-Length: 7\r\n\r\n").expect("a form");
        assert_eq!((form.page.method, form.length), (Method::Post, 7));
    }

    #[test]
    fn everything_else_is_refused() {
        let refused = |text: &str| parse(text.as_bytes()).expect_err(text);
        for text in [
            "",
            "\r\n\r\n",
            "GET /\r\n\r\n",
            "GET x HTTP/1.1\r\n\r\n",
            "GET / HTTP/9\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        ] {
            assert_eq!(refused(text), Refused::Malformed);
        }
        assert_eq!(
            refused("GET / HTTP/1.1\r\nnonsense\r\n\r\n"),
            Refused::Malformed
        );
        assert_eq!(refused("PUT / HTTP/1.1\r\n\r\n"), Refused::Method);
        for text in [
            "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: +5\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        ] {
            assert_eq!(refused(text), Refused::Body, "{text}");
        }
        assert_eq!(
            parse(b"GET /\xff HTTP/1.1\r\n\r\n"),
            Err(Refused::Malformed)
        );
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\n"), None);
    }
}
