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

use crate::allowance::Allowance;
use crate::refusal::{Fault, Refusal};
use bytes::Bytes;
use cenote_base::rt::process::Instant;
use cenote_base::rt::{self, Mutex, ranks};
use cenote_http_client::http::header::{DATE, HeaderMap, SERVER};
use cenote_http_client::http::{Method, Request, StatusCode};
use cenote_http_client::{Answer, Client, HttpError, Payload, Setup};
use rustls::ClientConfig;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long nothing may move.
const QUIET: Duration = Duration::from_secs(60);

/// How long requests may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
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
pub const ANSWER_MAX: u64 = 8 << 20;
/// Bytes of a refusal.
const REFUSAL_MAX: usize = 64 << 10;
/// Bytes that are set aside for an answer because it says that it has so many.
const TRUSTED: u64 = 16 << 20;

/// What answers told beside what was asked, and how much was sent.
#[derive(Debug, Default)]
pub struct Seen {
    server: Mutex<Option<String>, ranks::S3Server>,
    sent: AtomicU64,
}

impl Seen {
    /// What the server calls itself.
    pub fn server(&self) -> Option<String> {
        let server = self.server.lock();
        server.clone()
    }

    /// Bytes of bodies that the kernel took.
    pub fn sent_bytes(&self) -> u64 {
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

/// A client of HTTP.
#[derive(Debug)]
pub struct Http {
    client: Client,
    limits: Limits,
    seen: Arc<Seen>,
}

/// An answer that has come to its end.
#[derive(Debug)]
pub struct Whole {
    /// The status, which is one of success.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The bytes.
    pub body: Vec<u8>,
}

impl Http {
    /// A client that trusts what `tls` trusts, and takes so long for a connection.
    pub fn new(
        tls: ClientConfig,
        uses_proxies: bool,
        connecting: Duration,
        limits: Limits,
        seen: Arc<Seen>,
    ) -> Self {
        let client = Client::new(Setup {
            tls,
            uses_proxies,
            connecting,
            unacknowledged: QUIET,
        });
        Self {
            client,
            limits,
            seen,
        }
    }

    /// The answer to a request, of which so many bytes are allowed.
    ///
    /// # Errors
    /// Why there is none, or that it is a refusal.
    pub async fn ask(
        &self,
        request: Request<Bytes>,
        allowance: &Allowance,
    ) -> Result<Whole, Fault> {
        let progress = Arc::new(Progress::new(request.body().len() as u64, self.limits));
        let is_head = request.method() == Method::HEAD;
        let (moving, seen) = (Arc::clone(&progress), Arc::clone(&self.seen));
        let taken = move |length: usize| {
            moving.move_on();
            seen.sent.fetch_add(length as u64, Ordering::Relaxed);
        };
        let request = request.map(|body| Payload::watched(body, taken));
        let work = async {
            let answer = self.client.send(request).await.map_err(broken)?;
            progress.move_on();
            self.seen.note(answer.headers());
            take(answer, is_head, allowance, &progress).await
        };
        progress.watch(work).await
    }
}

/// The whole of an answer.
async fn take(
    mut answer: Answer,
    is_head: bool,
    allowance: &Allowance,
    progress: &Progress,
) -> Result<Whole, Fault> {
    let status = answer.status();
    let is_good = status.is_success();
    let said = answer.length().filter(|_| !is_head).unwrap_or(0);
    if is_good && said > allowance.left() {
        return Err(allowance.fault(said));
    }
    let room = if is_good { said.min(TRUSTED) } else { 0 };
    let mut body = Vec::with_capacity(usize::try_from(room).unwrap_or(0));
    while let Some(piece) = answer.piece().await.map_err(broken)? {
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
    let headers = answer.into_headers();
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
    Ok(Whole {
        status,
        headers,
        body,
    })
}

/// Seconds that the server's clock is ahead of ours, by what an answer says.
fn clock_ahead(headers: &HeaderMap) -> Option<i64> {
    let date = headers.get(DATE)?.to_str().ok()?;
    let theirs = jiff::fmt::rfc2822::parse(date).ok()?;
    let ours = rt::wall_clock().as_secs().cast_signed();
    Some(theirs.timestamp().as_second() - ours)
}

fn broken(error: HttpError) -> Fault {
    Fault::Broken(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_http_client::tls;
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
        let tls = tls::config(None, false).expect("a configuration");
        let http = Http::new(tls, false, SHORT.whole, SHORT, Arc::default());
        let request = Request::get(format!("http://{address}/k"));
        let request = request.body(Bytes::new()).expect("an address");
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().expect("a runtime");
        let begun = Instant::now();
        let allowance = Allowance::new(ANSWER_MAX);
        let answer = runtime.block_on(http.ask(request, &allowance));
        let fault = answer.expect_err("no answer");
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
