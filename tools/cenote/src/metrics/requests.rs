//! HTTP/1.1 requests for the endpoint: the head of a GET or HEAD, and nothing else.
//!
//! A scraper sends a request of a few hundred bytes without a body. What is longer, or another
//! method, is refused before anything is allocated for it. A parser of our own for this one line
//! and one header: the file server that is to come will have a crate for HTTP.

/// The longest head of a request.
pub const HEAD_SIZE_MAX: usize = 8 << 10;

/// A request that is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Get {
    /// The path, without the query.
    pub path: String,
    /// Only the head of the answer is wanted.
    pub is_head: bool,
    /// The connection ends with the answer.
    pub closes: bool,
}

/// Why a request is not answered with what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is no HTTP request.
    Malformed,
    /// Neither GET nor HEAD.
    Method,
    /// Its head is too long.
    TooLong,
    /// It brings a body.
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
pub fn parse(head: &[u8]) -> Result<Get, Refused> {
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
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Refused::Method),
    };
    let mut closes = version == "HTTP/1.0";
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Refused::Malformed)?;
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "connection" => closes |= value.eq_ignore_ascii_case("close"),
            "content-length" if value != "0" => return Err(Refused::Body),
            "transfer-encoding" => return Err(Refused::Body),
            _ => {}
        }
    }
    let path = target.split(['?', '#']).next().unwrap_or_default();
    Ok(Get {
        path: path.to_owned(),
        is_head,
        closes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scraper_is_understood() {
        let request = b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
        assert_eq!(end_of_head(request), Some(request.len()));
        let expected = Get {
            path: "/metrics".to_owned(),
            is_head: false,
            closes: false,
        };
        assert_eq!(parse(request), Ok(expected));
        let old = parse(b"HEAD / HTTP/1.0\r\n\r\n").expect("understood");
        assert!(old.is_head && old.closes);
        let last = parse(b"GET / HTTP/1.1\r\nConnection: Close\r\n\r\n").expect("understood");
        assert!(last.closes);
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
        ] {
            assert_eq!(refused(text), Refused::Malformed);
        }
        assert_eq!(
            refused("GET / HTTP/1.1\r\nnonsense\r\n\r\n"),
            Refused::Malformed
        );
        assert_eq!(refused("POST / HTTP/1.1\r\n\r\n"), Refused::Method);
        let body = "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(refused(body), Refused::Body);
        let chunks = "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(refused(chunks), Refused::Body);
        assert_eq!(
            parse(b"GET /\xff HTTP/1.1\r\n\r\n"),
            Err(Refused::Malformed)
        );
        assert_eq!(end_of_head(b"GET / HTTP/1.1\r\n"), None);
    }
}
