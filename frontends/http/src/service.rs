//! One request: whether it is admitted, what it is about, and its answer on the connection.
//!
//! What memory has is answered within the call, without a future that waits. Anything else is a
//! boxed future that waits for a thread that may wait, so that idle connections stay small.
//!
//! *Request smuggling.* This server forwards nothing, but a proxy before it may parse a request
//! differently. So requests with an ambiguous length are refused and end their connection. A
//! request with an unread body ends its connection as well.

use crate::access_log::{Record, kept};
use crate::answer::{self, Answer, Asked, Content, InMemory, MayWait};
use crate::body::Payload;
use crate::flight::{Flight, Shared};
use crate::links::Link;
use crate::options::Rules;
use crate::pages::{self, PageRequest, Pages};
use crate::target::{self, Target};
use crate::tree::Site;
use bytes::{Bytes, BytesMut};
use cenote_base::rt::wall_clock;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use std::convert::Infallible;
use std::fmt::Display;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::UNIX_EPOCH;

/// What answers the requests of a connection.
pub(crate) struct Service {
    pub shared: Arc<Shared>,
    pub link: Arc<Link>,
}

/// An answer that is there, or will be.
pub(crate) enum Reply {
    Ready(Option<Box<Response<Payload>>>),
    Waiting(Pin<Box<dyn Future<Output = Response<Payload>> + Send>>),
}

impl Future for Reply {
    type Output = Result<Response<Payload>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Ready(response) => match response.take() {
                Some(response) => Poll::Ready(Ok(*response)),
                None => Poll::Pending,
            },
            Self::Waiting(future) => future.as_mut().poll(context).map(Ok),
        }
    }
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<Payload>;
    type Error = Infallible;
    type Future = Reply;

    fn call(&self, request: Request<Incoming>) -> Reply {
        let mut flight = Flight::begin(&self.shared, &self.link);
        let rules = self.shared.rules();
        let (parts, body) = request.into_parts();
        if self.shared.log.is_some() {
            flight.record = Some(Box::new(record(&parts, &self.link)));
        }
        let exchange = Exchange {
            is_head: parts.method == Method::HEAD,
            ends: self.shared.is_stopping() && parts.version < Version::HTTP_2,
            rules,
            flight,
        };
        exchange.reply(parts, body)
    }
}

/// A request and what its answer needs.
struct Exchange {
    is_head: bool,
    /// The connection ends after it.
    ends: bool,
    rules: Arc<Rules>,
    flight: Flight,
}

/// What answers a request.
enum Answerer {
    Tree(Box<(Asked, Site)>),
    Pages(Arc<dyn Pages>, Box<Parts>),
}

impl Exchange {
    fn reply(mut self, parts: Parts, body: Incoming) -> Reply {
        let answerer = match self.admit(parts, &body) {
            Err(answer) => return self.ready(*answer),
            Ok(answerer) => answerer,
        };
        match answerer {
            Answerer::Tree(tree) => {
                let (asked, site) = &*tree;
                if let Some(answer) = answer::answer(asked, site, &self.rules, &InMemory) {
                    self.flight.is_at_once = true;
                    return self.ready(answer);
                }
                Reply::Waiting(Box::pin(self.wait_for_tree(tree)))
            }
            Answerer::Pages(pages, parts) => {
                Reply::Waiting(Box::pin(self.wait_for_page(pages, parts, body)))
            }
        }
    }

    /// What answers the request, or the answer that refuses it.
    fn admit(&mut self, parts: Parts, body: &Incoming) -> Result<Answerer, Box<Answer>> {
        self.check_rate()?;
        self.check_framing(&parts, body)?;
        let agent = parts.headers.get(header::USER_AGENT);
        if agent.is_some_and(|agent| self.rules.is_blocked(agent.as_bytes())) {
            let words = "this program is not served here";
            return Err(Answer::saying(StatusCode::FORBIDDEN, words).into());
        }
        let host = host(&parts).map_err(bad_request)?;
        if parts.method == Method::OPTIONS && parts.uri.path() == "*" {
            return Err(self.allow(StatusCode::NO_CONTENT, false).into());
        }
        let target = Target::parse(parts.uri.path()).map_err(bad_request)?;
        let site = self.flight.shared.sites.site(&host, &target.path);
        let pages = self.flight.shared.pages.clone();
        let takes_post = site.is_none() && pages.is_some();
        match parts.method {
            Method::GET | Method::HEAD => {}
            Method::POST if takes_post => {}
            Method::OPTIONS => return Err(self.allow(StatusCode::NO_CONTENT, takes_post).into()),
            _ => {
                return Err(self
                    .allow(StatusCode::METHOD_NOT_ALLOWED, takes_post)
                    .into());
            }
        }
        match (site, pages) {
            (Some(site), _) => {
                let asked = Asked {
                    is_head: self.is_head,
                    target,
                    uri: parts.uri,
                    headers: parts.headers,
                };
                Ok(Answerer::Tree(Box::new((asked, site))))
            }
            (None, Some(pages)) => Ok(Answerer::Pages(pages, Box::new(parts))),
            (None, None) => Err(answer::robots(&target, &self.rules)
                .unwrap_or_else(Answer::not_found)
                .into()),
        }
    }

    /// Whether the client's address may have another request now.
    fn check_rate(&self) -> Result<(), Box<Answer>> {
        let rate = self.rules.limits().requests_per_second;
        let (Some(rate), Some(address)) = (rate, &self.flight.link.address) else {
            return Ok(());
        };
        let now = self.flight.shared.clock.nanoseconds();
        let taken = address.0.request_pace.try_take(now, 1, rate.into());
        taken.map_err(|wait| {
            let words = "there were too many requests from this address; slow down";
            let mut answer = Answer::saying(StatusCode::TOO_MANY_REQUESTS, words);
            let seconds = wait.as_secs() + 1;
            answer.set(header::RETRY_AFTER, seconds.into());
            answer.into()
        })
    }

    /// Whether the request has one meaning only, and a body only where one is read.
    fn check_framing(&mut self, parts: &Parts, body: &Incoming) -> Result<(), Box<Answer>> {
        let is_get = matches!(parts.method, Method::GET | Method::HEAD);
        let headers = &parts.headers;
        let is_coded = headers.contains_key(header::TRANSFER_ENCODING);
        let is_doubtful = is_coded
            && (parts.version < Version::HTTP_11
                || headers.contains_key(header::CONTENT_LENGTH)
                || headers.contains_key(header::UPGRADE));
        if is_coded || !is_get {
            self.ends |= parts.version < Version::HTTP_2;
        }
        if is_doubtful || is_get && !body.is_end_stream() {
            self.ends |= parts.version < Version::HTTP_2;
            return Err(bad_request("the request has a body that it must not have"));
        }
        Ok(())
    }

    fn allow(&self, status: StatusCode, takes_post: bool) -> Answer {
        let mut answer = match status {
            StatusCode::NO_CONTENT => Answer::new(status),
            _ => Answer::saying(status, "this cannot be done with what is served here"),
        };
        let methods = match takes_post {
            true => "GET, HEAD, OPTIONS, POST",
            false => "GET, HEAD, OPTIONS",
        };
        answer.set(header::ALLOW, HeaderValue::from_static(methods));
        answer
    }

    /// Has a thread that may wait answer from a tree.
    async fn wait_for_tree(mut self, tree: Box<(Asked, Site)>) -> Response<Payload> {
        let rules = Arc::clone(&self.rules);
        let work = move || {
            let (asked, site) = &*tree;
            answer::answer(asked, site, &rules, &MayWait)
        };
        let answer = self.wait(work).await.flatten();
        let answer = answer.unwrap_or_else(|| Answer::unavailable("the storage does not answer"));
        self.respond(answer)
    }

    /// Has a thread that may wait make a page.
    async fn wait_for_page(
        mut self,
        pages: Arc<dyn Pages>,
        parts: Box<Parts>,
        body: Incoming,
    ) -> Response<Payload> {
        let method = match parts.method {
            Method::POST => pages::Method::Post,
            _ => pages::Method::Get,
        };
        let body = match collect(body, self.rules.limits().body_bytes).await {
            Ok(body) => body,
            Err(answer) => {
                self.ends |= parts.version < Version::HTTP_2;
                return self.respond(*answer);
            }
        };
        self.ends = self.flight.shared.is_stopping() && parts.version < Version::HTTP_2;
        let request = page_request(method, &parts, body, self.flight.link.peer);
        let page = self.wait(move || pages.answer(&request)).await;
        let robots = || answer::robots(&Target::parse(parts.uri.path()).ok()?, &self.rules);
        let answer = match page {
            Some(page) if page.status == 404 => Some(robots().unwrap_or_else(|| of_page(page))),
            page => page.map(of_page),
        };
        let answer = answer.unwrap_or_else(|| Answer::unavailable("the page is not ready"));
        self.respond(answer)
    }

    /// Waits for a thread that may wait; `None` if that takes too long, or fails.
    async fn wait<T: Send + 'static>(
        &mut self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let begun = self.flight.shared.waiting.begin(work).ok()?;
        self.flight.set_waiting(true);
        let limit = self.rules.limits().storage_time;
        let result = tokio::time::timeout(limit, begun).await;
        self.flight.set_waiting(false);
        result.ok()?.ok()
    }

    fn ready(self, answer: Answer) -> Reply {
        Reply::Ready(Some(Box::new(self.respond(answer))))
    }

    fn respond(mut self, mut answer: Answer) -> Response<Payload> {
        self.flight.status = answer.status.as_u16();
        let server = HeaderValue::from_static("cenote");
        answer.set(header::SERVER, server);
        for (name, value) in &self.rules.headers {
            answer.headers.append(name.clone(), value.clone());
        }
        if self.ends {
            let close = HeaderValue::from_static("close");
            answer.set(header::CONNECTION, close);
        }
        let Self { rules, flight, .. } = self;
        let payload = match answer.content {
            _ if self.is_head => Payload::whole(Bytes::new(), rules, flight),
            Content::Text(text) => Payload::whole(text, rules, flight),
            Content::File(parts) => Payload::file(parts, rules, flight),
            Content::Listing(listing) => Payload::listing(listing, rules, flight),
        };
        let mut response = Response::new(payload);
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        response
    }
}

fn bad_request(why: impl Display) -> Box<Answer> {
    let words = format!("{why}; correct the request");
    Answer::saying(StatusCode::BAD_REQUEST, &words).into()
}

/// The host that a request is for, in lower case; empty if an old client names none.
fn host(parts: &Parts) -> Result<String, String> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    let (first, second) = (named.next(), named.next());
    if second.is_some() {
        return Err("the request names several hosts".to_owned());
    }
    let text = match (parts.uri.authority(), first) {
        (Some(authority), _) => authority.as_str(),
        (None, Some(value)) => value.to_str().unwrap_or("\u{fffd}"),
        (None, None) if parts.version >= Version::HTTP_11 => {
            return Err("the request names no host".to_owned());
        }
        (None, None) => "",
    };
    target::host(text).map_err(|error| error.to_string())
}

/// A body of at most `limit` bytes.
async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, Box<Answer>> {
    let mut all = BytesMut::new();
    let too_large = || {
        let words = format!("a request's body has at most {limit} bytes here");
        Box::new(Answer::saying(StatusCode::PAYLOAD_TOO_LARGE, &words))
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    while !body.is_end_stream() {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(frame) = frame.await else {
            break;
        };
        let frame = frame.map_err(bad_request)?;
        if let Ok(data) = frame.into_data() {
            if all.len() + data.len() > limit {
                return Err(too_large());
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(all.freeze())
}

/// A request as pages see it.
fn page_request(
    method: pages::Method,
    parts: &Parts,
    body: Bytes,
    peer: Option<IpAddr>,
) -> PageRequest {
    let value = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
    let headers = parts.headers.iter();
    let mut headers: Vec<(String, String)> = headers
        .filter_map(|(name, text)| Some((name.as_str().to_owned(), value(text)?)))
        .collect();
    // HTTP/2 names the host there only, and RFC 9112 (3.2.2) prefers it to the header.
    if let Some(authority) = parts.uri.authority() {
        headers.retain(|(name, _)| name != "host");
        headers.push(("host".to_owned(), authority.as_str().to_owned()));
    }
    PageRequest {
        method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().map(str::to_owned),
        headers,
        peer,
        body,
    }
}

/// A page as an answer.
fn of_page(page: pages::PageAnswer) -> Answer {
    let status = StatusCode::from_u16(page.status).ok();
    let Some(status) = status.filter(|status| !status.is_informational()) else {
        log::error!("HTTP: a page has the status {}, which is none", page.status);
        let words = "the page could not be made";
        return Answer::saying(StatusCode::INTERNAL_SERVER_ERROR, words);
    };
    let mut answer = Answer::new(status);
    let mut headers = HeaderMap::new();
    for (name, value) in page.headers {
        let name = header::HeaderName::try_from(name);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
            headers.append(name, value);
        }
    }
    answer.headers = headers;
    if !page.content_type.is_empty() {
        let kind = HeaderValue::from_static(page.content_type);
        answer.set(header::CONTENT_TYPE, kind);
    }
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        answer.set(header::CONTENT_LENGTH, page.body.len().into());
        answer.content = Content::Text(page.body);
    }
    answer
}

/// What the access log says of a request.
fn record(parts: &Parts, link: &Link) -> Record {
    let text = |name: header::HeaderName| {
        let value = parts.headers.get(name);
        value.map(|value| kept(value.as_bytes()))
    };
    let path = parts.uri.path_and_query();
    let path = path.map_or(parts.uri.path(), |path| path.as_str());
    let line = format!("{} {path} {:?}", parts.method, parts.version);
    Record {
        address: link.peer,
        time: UNIX_EPOCH + wall_clock(),
        request: kept(line.as_bytes()),
        status: 0,
        bytes: 0,
        referer: text(header::REFERER),
        agent: text(header::USER_AGENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTTP/2 has no line `Host`: pages that depend on it took such a request for one for no host.
    #[test]
    fn pages_see_the_host_that_sites_are_found_by() {
        for (uri, line, expected) in [
            ("http://a.test/", None, "a.test"),
            ("http://a.test/", Some("b.test"), "a.test"),
            ("/", Some("b.test"), "b.test"),
        ] {
            let mut request = Request::builder().uri(uri);
            if let Some(line) = line {
                request = request.header(header::HOST, line);
            }
            let parts = request.body(()).expect("a request").into_parts().0;
            assert_eq!(host(&parts).as_deref(), Ok(expected));
            let page = page_request(pages::Method::Get, &parts, Bytes::new(), None);
            let headers = page.headers;
            let hosts = headers.iter().filter(|(name, _)| name == "host");
            assert_eq!(
                hosts.map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
                [expected]
            );
        }
    }
}
