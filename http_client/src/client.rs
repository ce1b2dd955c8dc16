//! Requests, and the connections that are kept for them.

use crate::body::Payload;
use crate::connect::Connector;
use crate::error::HttpError;
use crate::setup::{AGENT, Setup};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long a connection is kept without a request.
const IDLE: Duration = Duration::from_secs(60);

/// A client of HTTP/1.1, with the connections that it keeps.
#[derive(Debug)]
pub struct Client {
    requests: legacy::Client<Connector, Payload>,
    proxies: Option<Arc<Matcher>>,
}

impl Client {
    /// A client without any connection yet.
    pub fn new(setup: Setup) -> Self {
        let proxies = setup.uses_proxies.then(Matcher::from_env);
        Self::by_way_of(proxies, setup)
    }

    pub(crate) fn by_way_of(proxies: Option<Matcher>, setup: Setup) -> Self {
        let proxies = proxies.map(Arc::new);
        let requests = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(Connector::new(setup, proxies.clone()));
        Self { requests, proxies }
    }

    /// Sends a request; its answer begins to come.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn send(&self, mut request: Request<Payload>) -> Result<Answer, HttpError> {
        let proxy_key = self.proxy_key(request.uri());
        let has_length = [Method::PUT, Method::POST].contains(request.method());
        let length = request.body().len();
        let headers = request.headers_mut();
        // Of an empty body `hyper` says nothing, and some servers insist.
        if has_length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        headers.entry(USER_AGENT).or_insert(AGENT);
        let all = HeaderValue::from_static("*/*");
        headers.entry(ACCEPT).or_insert(all);
        if let Some(key) = proxy_key {
            headers.insert(PROXY_AUTHORIZATION, key);
        }
        let response = self.requests.request(request).await;
        Ok(Answer(response.map_err(HttpError::asking)?))
    }

    /// The key for a proxy that forwards requests. One that only carries a connection gets it when
    /// that begins.
    fn proxy_key(&self, to: &Uri) -> Option<HeaderValue> {
        let is_forwarded = to.scheme_str() == Some("http");
        let proxies = self.proxies.as_ref().filter(|_| is_forwarded)?;
        proxies.intercept(to)?.basic_auth().cloned()
    }
}

/// An answer whose body is still coming.
#[derive(Debug)]
pub struct Answer(Response<Incoming>);

impl Answer {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// Bytes of the body, if the answer says how many are coming.
    pub fn length(&self) -> Option<u64> {
        self.0.body().size_hint().exact()
    }

    /// The next bytes of the body; `None` at its end.
    ///
    /// # Errors
    /// Why there are no more, though it has not ended.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let body = self.0.body_mut();
            let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
            match frame {
                None => return Ok(None),
                // Trailers are not needed.
                Some(frame) => match frame.map_err(HttpError::reading)?.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_) => continue,
                },
            }
        }
    }

    /// The headers alone.
    pub fn into_headers(self) -> HeaderMap {
        self.0.into_parts().0.headers
    }
}

/// The header `Authorization` for an address with a user's name in it.
pub fn basic_auth(uri: &Uri) -> Option<HeaderValue> {
    let (user, _) = uri.authority()?.as_str().rsplit_once('@')?;
    let separator = if user.contains(':') { "" } else { ":" };
    let encoded = BASE64_STANDARD.encode(format!("{user}{separator}"));
    let mut header = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests;
