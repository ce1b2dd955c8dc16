//! Pages that a program makes itself, whole, at the time of the request.

use bytes::Bytes;
use std::net::IpAddr;

/// What a client wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET` and `HEAD`; of an answer to `HEAD` the server drops the body.
    Get,
    /// `POST`.
    Post,
}

/// A request for a page. Its sizes are bounded by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRequest {
    /// What the client wants to do.
    pub method: Method,
    /// The path as it was sent, beginning with a slash, without the query.
    pub path: String,
    /// The query behind the question mark, as it was sent.
    pub query: Option<String>,
    /// Names in lower case, and values that are text. `host` is there on HTTP/2, too.
    pub headers: Vec<(String, String)>,
    /// Where the client is; `None`: it came by a unix socket.
    pub peer: Option<IpAddr>,
    /// The body; empty for [`Method::Get`].
    pub body: Bytes,
}

impl PageRequest {
    /// The first header of that name, which is in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageAnswer {
    /// The status, such as 200.
    pub status: u16,
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// Headers besides, in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// Pages by their paths.
pub trait Pages: Send + Sync {
    /// Answers a request. Called on a thread that may wait.
    fn answer(&self, request: &PageRequest) -> PageAnswer;
}
