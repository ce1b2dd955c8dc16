//! Requests of HTTP, each of which has an end.
//!
//! A request may take as long as data moves: a slow line is no failure. It fails once nothing was
//! sent or received for a minute. What the kernel took for sending counts as sent. So at the end of
//! a body the request gets the time that the kernel's share takes on a slow line. The kernel
//! notices a connection whose other end is gone: it sends probes while nothing moves, and gives up
//! if what was sent is not acknowledged.
//!
//! An answer is received whole, up to its limit, before the caller gets it. Redirections are not
//! followed: a signature is for one host.

use super::allowance::Allowance;
use super::refusal::{Fault, Refusal};
use async_trait::async_trait;
use bytes::Bytes;
use cenote_base::rt::process::Instant;
use cenote_base::rt::{self, Mutex, ranks};
use http_body::{Body, Frame, SizeHint};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpRequestBody, HttpResponse, HttpService,
};
use reqwest::header::{DATE, HeaderMap, SERVER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// How long nothing may move.
const QUIET: Duration = Duration::from_secs(60);

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How long nothing may move.
    quiet: Duration,
    /// The limit of a whole request, as a server may send one byte a minute for ever.
    whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            quiet: QUIET,
            whole: Duration::from_secs(3600),
        }
    }
}
/// The slowest line that is reckoned with, in bytes a second.
const SLOWEST: u64 = 16 << 10;
/// What a kernel takes for sending at most: Linux's limit for buffers that it sizes itself.
const KERNEL_TAKES: u64 = 4 << 20;
/// Bytes of an answer whose size the request does not limit: a list of a thousand names.
const ANSWER_MAX: u64 = 8 << 20;
/// Bytes of a refusal.
const REFUSAL_MAX: usize = 64 << 10;
/// Bytes that are given to the kernel at a time.
const PIECE: usize = 64 << 10;
/// Bytes that are set aside for an answer because it says that it has so many.
const TRUSTED: u64 = 16 << 20;

/// How a client is made.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What is trusted.
    pub(super) tls: rustls::ClientConfig,
    /// Whether proxies of the environment are used.
    pub(super) uses_proxies: bool,
    /// How long a connection may take.
    pub(super) connecting: Duration,
    /// How long requests may take.
    pub(super) limits: Limits,
    /// Software at the other end.
    pub(super) seen: Arc<Seen>,
}

/// What answers told beside what was asked, and how much was sent.
#[derive(Debug, Default)]
pub(super) struct Seen {
    server: Mutex<Option<String>, ranks::S3Server>,
    sent: AtomicU64,
}

impl Seen {
    /// What the server calls itself.
    pub(super) fn server(&self) -> Option<String> {
        let server = self.server.lock();
        server.clone()
    }

    /// Bytes of bodies that the kernel took.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn note(&self, headers: &HeaderMap) {
        let name = headers.get(SERVER).and_then(|value| value.to_str().ok());
        let mut server = self.server.lock();
        if let Some(name) = name
            && server.as_deref() != Some(name)
        {
            *server = Some(name.chars().take(60).collect());
        }
    }
}

/// When something moved last.
#[derive(Debug)]
struct Progress {
    moved: Mutex<Instant, ranks::S3Progress>,
    /// How long nothing may move from then on.
    quiet: Duration,
    end: Instant,
    /// From the beginning until then.
    whole: Duration,
}

impl Progress {
    fn new(sends: u64, limits: Limits) -> Self {
        let now = Instant::now();
        let tail = Duration::from_secs(sends.min(KERNEL_TAKES) / SLOWEST);
        Self {
            moved: Mutex::new(now),
            quiet: limits.quiet + tail,
            end: now + limits.whole,
            whole: limits.whole,
        }
    }

    fn move_on(&self) {
        *self.moved.lock() = Instant::now();
    }

    /// When it fails if nothing moves any more, and how.
    fn limit(&self) -> (Instant, Fault) {
        let moved = *self.moved.lock();
        match moved + self.quiet {
            silent if silent < self.end => (silent, Fault::Silent(self.quiet)),
            _ => (self.end, Fault::Slow(self.whole)),
        }
    }

    /// Does `work` for as long as it moves.
    async fn watch<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut work = Box::pin(work);
        loop {
            let (limit, fault) = self.limit();
            let done = tokio::time::timeout_at(limit.into(), &mut work).await;
            match done {
                Ok(result) => return result,
                Err(_) if self.limit().0 <= Instant::now() => return Err(fault),
                Err(_) => {}
            }
        }
    }
}

/// A body that says when a piece of it was taken.
struct Counted {
    body: HttpRequestBody,
    rest: Bytes,
    progress: Arc<Progress>,
    seen: Arc<Seen>,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        while self.rest.is_empty() {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => self.rest = bytes,
                    Err(_) => return Poll::Ready(None),
                },
                end => return end,
            }
        }
        self.progress.move_on();
        let length = self.rest.len().min(PIECE);
        self.seen.sent.fetch_add(length as u64, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        match self.body.size_hint().exact() {
            Some(length) => SizeHint::with_exact(rest + length),
            None => SizeHint::default(),
        }
    }
}

/// A client of HTTP.
#[derive(Debug)]
struct Http {
    client: Client,
    limits: Limits,
    seen: Arc<Seen>,
}

impl Http {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, Fault> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let url = url
            .parse()
            .map_err(|_| Fault::Wrong(format!("'{url}' is no URL")))?;
        let sends = body.content_length() as u64;
        let progress = Arc::new(Progress::new(sends, self.limits));
        let is_head = parts.method == Method::HEAD;
        let allowance = parts.extensions.get::<Allowance>().cloned();
        let allowance = allowance.unwrap_or_else(|| Allowance::new(ANSWER_MAX));
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        if sends > 0 {
            let counted = Counted {
                body,
                rest: Bytes::new(),
                progress: Arc::clone(&progress),
                seen: Arc::clone(&self.seen),
            };
            *request.body_mut() = Some(reqwest::Body::wrap(counted));
        }
        let work = async {
            let response = self.client.execute(request).await;
            let response = response.map_err(|error| broken(&error))?;
            progress.move_on();
            self.seen.note(response.headers());
            take(response, is_head, &allowance, &progress).await
        };
        progress.watch(work).await
    }
}

/// The whole of an answer.
async fn take(
    mut response: reqwest::Response,
    is_head: bool,
    allowance: &Allowance,
    progress: &Progress,
) -> Result<HttpResponse, Fault> {
    let status = response.status();
    let is_good = status.is_success();
    let said = response.content_length().filter(|_| !is_head).unwrap_or(0);
    if is_good && said > allowance.left() {
        return Err(allowance.fault(said));
    }
    let room = if is_good { said.min(TRUSTED) } else { 0 };
    let mut body = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
    while let Some(piece) = response.chunk().await.map_err(|error| broken(&error))? {
        progress.move_on();
        if is_good && !allowance.take(piece.len() as u64) {
            return Err(allowance.fault((body.len() + piece.len()) as u64));
        }
        if !is_good && body.len() + piece.len() > REFUSAL_MAX {
            // The beginning says what there is to say.
            break;
        }
        body.extend_from_slice(&piece);
    }
    let headers = std::mem::take(response.headers_mut());
    if !is_good {
        let mut refusal = Refusal::new(status.as_u16(), &body);
        refusal.ahead = clock_ahead(&headers);
        let region = headers.get("x-amz-bucket-region");
        let region = region.and_then(|value| value.to_str().ok());
        let is_elsewhere = status.is_redirection() || refusal.region.is_some();
        if let Some(region) = region.filter(|_| is_elsewhere) {
            refusal.region = Some(region.to_owned());
        }
        return Err(Fault::Refused(refusal));
    }
    let mut answer = HttpResponse::new(body.into());
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    Ok(answer)
}

/// Seconds that the server's clock is ahead of ours, by what an answer says.
fn clock_ahead(headers: &HeaderMap) -> Option<i64> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?;
    let ours = rt::wall_clock().as_secs().cast_signed();
    Some(theirs.timestamp().as_second() - ours)
}

/// A failure of the connection, with its causes and without the address, which has nothing new.
fn broken(error: &reqwest::Error) -> Fault {
    let what = match error {
        error if error.is_connect() => "no connection",
        error if error.is_timeout() => "too slow",
        _ => "the connection broke",
    };
    let mut text = what.to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    Fault::Broken(text)
}

#[async_trait]
impl HttpService for Http {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = self.ask(request).await;
        answer.map_err(|fault| HttpError::new(HttpErrorKind::Unknown, fault))
    }
}

impl Line {
    fn client(&self) -> reqwest::Result<Client> {
        let builder = Client::builder()
            .user_agent(concat!("cenote/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(self.tls.clone())
            .http1_only()
            .redirect(Policy::none())
            .referer(false)
            .connect_timeout(self.connecting)
            .pool_idle_timeout(Duration::from_secs(60))
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(15))
            .tcp_keepalive_interval(Duration::from_secs(5))
            .tcp_keepalive_retries(6)
            .tcp_user_timeout(QUIET);
        match self.uses_proxies {
            true => builder.build(),
            false => builder.no_proxy().build(),
        }
    }
}

impl HttpConnector for Line {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = self
            .client()
            .map_err(|error| object_store::Error::Generic {
                store: "S3",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(Http {
            client,
            limits: self.limits,
            seen: Arc::clone(&self.seen),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tls;
    use super::*;
    use std::io::Write;
    use std::net::{SocketAddr, TcpListener};

    fn watched(
        quiet: u64,
        whole: u64,
        work: impl AsyncFnOnce(&Progress) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let progress = Progress {
            moved: Mutex::new(Instant::now()),
            quiet: Duration::from_millis(quiet),
            end: Instant::now() + Duration::from_millis(whole),
            whole: Duration::from_millis(whole),
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        runtime.block_on(progress.watch(work(&progress)))
    }

    async fn move_for(progress: &Progress, times: u32) -> Result<(), Fault> {
        for _ in 0..times {
            tokio::time::sleep(Duration::from_millis(20)).await;
            progress.move_on();
        }
        Ok(())
    }

    #[test]
    fn what_moves_may_take_long() {
        let slow = watched(1000, 60_000, async |progress| move_for(progress, 60).await);
        assert_eq!(slow, Ok(()));
        let silent = watched(200, 60_000, async |_| std::future::pending().await);
        assert_eq!(silent, Err(Fault::Silent(Duration::from_millis(200))));
        let endless = watched(5000, 400, async |progress| move_for(progress, 1000).await);
        assert_eq!(endless, Err(Fault::Slow(Duration::from_millis(400))));
    }

    #[test]
    fn large_bodies_are_given_more_time_at_their_end() {
        let quiet = |sends| Progress::new(sends, Limits::default()).quiet.as_secs();
        assert_eq!(quiet(0), 60);
        assert_eq!(quiet(1 << 20), 60 + 64);
        assert_eq!(quiet(64 << 20), 60 + 256, "the kernel takes 4 MiB of it");
    }

    /// A server that sends `begin` once, and then `more` after each pause (in milliseconds) until
    /// the client closes the connection.
    fn server(begin: &'static str, more: &'static str, pause: u64) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        // It ends with the process.
        std::thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut said = client.write_all(begin.as_bytes());
                    while said.is_ok() {
                        std::thread::sleep(Duration::from_millis(pause));
                        said = client.write_all(more.as_bytes());
                    }
                });
            }
        });
        address
    }

    const SHORT: Limits = Limits {
        quiet: Duration::from_millis(700),
        whole: Duration::from_secs(2),
    };

    /// How a request to this server ends.
    fn ask(address: SocketAddr) -> Fault {
        let line = Line {
            tls: tls::config(None, false).expect("a configuration"),
            uses_proxies: false,
            connecting: SHORT.whole,
            limits: SHORT,
            seen: Arc::default(),
        };
        let http = Http {
            client: line.client().expect("a client"),
            limits: line.limits,
            seen: line.seen,
        };
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = format!("http://{address}/k").parse().expect("an address");
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let begun = Instant::now();
        let fault = runtime.block_on(http.ask(request)).expect_err("no answer");
        assert!(begun.elapsed() < Duration::from_secs(20), "{fault}");
        fault
    }

    const HEAD: &str = "HTTP/1.1 200 OK\r\n";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n";

    /// Whatever a server says, or does not, a request ends.
    #[test]
    fn servers_that_do_not_come_to_an_end_are_given_up() {
        let is_silent: fn(&Fault) -> bool = |fault| *fault == Fault::Silent(SHORT.quiet);
        let is_broken: fn(&Fault) -> bool = |fault| matches!(fault, Fault::Broken(_));
        // On a busy machine nothing may seem to move for a while.
        let is_slow: fn(&Fault) -> bool =
            |fault| *fault == Fault::Slow(SHORT.whole) || *fault == Fault::Silent(SHORT.quiet);
        let is_over: fn(&Fault) -> bool =
            |fault| matches!(fault, Fault::Broken(_) | Fault::Silent(_) | Fault::Slow(_));
        let cases = [
            ("no answer", "", "", 50, is_silent),
            ("interim answers", HINTS, HINTS, 5, is_silent),
            ("headers, slowly", HEAD, "a: b\r\n", 50, is_silent),
            ("headers", HEAD, "a: bcdefghijklmnopqrst\r\n", 0, is_broken),
            ("a body of chunks", CHUNKED, "1\r\nx\r\n", 50, is_slow),
            ("a chunk's extension", CHUNKED, "1;x=y", 0, is_broken),
            ("trailers", CHUNKED, "0\r\na: b\r\n", 0, is_over),
        ];
        std::thread::scope(|scope| {
            for (name, begin, more, pause, is_right) in cases {
                scope.spawn(move || {
                    let fault = ask(server(begin, more, pause));
                    assert!(is_right(&fault), "{name}: {fault}");
                });
            }
            let begin = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";
            let fault = ask(server(begin, "x", 50));
            assert!(is_slow(&fault), "a body, slowly: {fault}");
        });
    }

    #[test]
    fn lengths_that_cannot_be_are_errors() {
        let answer = |length: &str| {
            let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            ask(server(text.leak(), "x", 50))
        };
        for length in ["-1", "99999999999999999999", "1, 2", ""] {
            let fault = answer(length);
            assert!(matches!(fault, Fault::Broken(_)), "{length}: {fault}");
        }
        for length in ["18446744073709551615", "1000000000000"] {
            let fault = answer(length);
            assert!(
                matches!(fault, Fault::Broken(_) | Fault::Long),
                "{length}: {fault}"
            );
        }
    }
}
