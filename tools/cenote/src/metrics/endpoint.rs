//! `/metrics` and the dashboard over HTTP: on a unix socket beside the control socket, and on TCP
//! when that is wanted.
//!
//! Each connection has a thread, of which there are few: who comes when all are busy is turned away
//! at once. A client has seconds for its request and for taking the answer. So slow and idle
//! clients cost a bounded number of threads for a bounded time, and nothing else. Answers are
//! collected once for all who ask within a second.
//!
//! Whoever reaches the TCP port sees names of pools, vdevs and datasets: it is off by default, and
//! has no password. Only the dashboard can change something, for those who know its token.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenote_base::metrics::{Collect, Count, Kind, Measure, Registry, Sink};
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request,
};
use cenote_control::protocol::{Reply, Service};
use cenote_http::{Method, PageAnswer};

use super::dashboard::{Dashboard, Door};
use super::exposition::{self, CONTENT_TYPE};
use super::figures::Figures;
use super::kstat::Sources;
use super::others;
use super::requests::{self, Asked, HEAD_SIZE_MAX, Refused};

/// Connections that are served at once.
const CONNECTIONS_MAX: usize = 16;
/// How long a client may take for its request, and for taking the answer.
const TIME_MAX: Duration = Duration::from_secs(10);
/// Answers that are younger are given again.
const FRESH: Duration = Duration::from_secs(1);

static SCRAPES: Measure = Measure {
    name: "cenote_metrics_requests_total",
    kind: Kind::Counter,
    help: "Requests to the /metrics endpoint.",
    labels: &[],
};
static TURNED_AWAY: Measure = Measure {
    name: "cenote_metrics_turned_away_total",
    kind: Kind::Counter,
    help: "Connections to the /metrics endpoint that were turned away because too many were open.",
    labels: &[],
};

/// Measurements of the endpoint itself, for the table of all.
pub static MEASURES: [&Measure; 2] = [&SCRAPES, &TURNED_AWAY];

/// What all connections share.
struct Shared {
    service: Arc<dyn Service>,
    dashboard: Dashboard,
    open: AtomicUsize,
    latest: Mutex<Option<(Instant, Arc<String>)>>,
    figures: Arc<EndpointFigures>,
}

/// What the endpoint did.
#[derive(Default)]
pub struct EndpointFigures {
    requests: Count,
    turned_away: Count,
}

impl Collect for EndpointFigures {
    fn collect(&self, sink: &mut dyn Sink) {
        sink.number(&SCRAPES, &[], self.requests.get());
        sink.number(&TURNED_AWAY, &[], self.turned_away.get());
    }
}

/// A client's connection.
trait Stream: Read + Write + Send {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Stream for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// The sockets that are listened on.
pub struct Endpoint {
    unix: Option<UnixListener>,
    tcp: Option<(TcpListener, SocketAddr)>,
    path: Option<PathBuf>,
    figures: Arc<EndpointFigures>,
}

impl Endpoint {
    /// Listens beside the control socket, and on `tcp`.
    ///
    /// # Errors
    /// What cannot be listened on, and why.
    pub fn bind(path: &Path, tcp: Option<&str>) -> Result<Self, String> {
        let tcp = tcp.map(|address| {
            let listener = TcpListener::bind(address);
            let listener = listener.and_then(|listener| {
                let address = listener.local_addr()?;
                Ok((listener, address))
            });
            listener.map_err(|error| {
                format!(
                    "--metrics-listen {address}: {error}. Choose an address of this machine and a \
                     free port"
                )
            })
        });
        let tcp = tcp.transpose()?;
        // The lock of the control socket says that no other daemon has this one.
        let _ = std::fs::remove_file(path);
        let unix = UnixListener::bind(path);
        // Nobody asked for this one, so a daemon without it is better than none.
        let unix = unix.inspect_err(|error| {
            log::warn!("cannot serve metrics on {}: {error}", path.display());
        });
        let unix = unix.ok();
        Ok(Self {
            path: unix.as_ref().map(|_| path.to_owned()),
            unix,
            tcp,
            figures: Arc::default(),
        })
    }

    /// A registry that has what this endpoint does.
    pub fn registry(&self) -> Arc<Registry> {
        let registry = Registry::default();
        registry.add(&(Arc::clone(&self.figures) as Arc<dyn Collect>));
        Arc::new(registry)
    }

    /// Serves until the process ends.
    pub fn serve(self, service: &Arc<dyn Service>, dashboard: Dashboard) -> Served {
        let mut started = dashboard.start();
        let shared = Arc::new(Shared {
            service: Arc::clone(service),
            dashboard,
            open: AtomicUsize::new(0),
            latest: Mutex::default(),
            figures: self.figures,
        });
        if let Some(unix) = self.unix {
            let shared = Arc::clone(&shared);
            started = started.and(start("metrics-unix", move || {
                let next = || unix.accept().map(|(stream, _)| stream);
                accept(&shared, Door::Socket, next);
            }));
        }
        if let Some((tcp, address)) = self.tcp {
            log::info!("the dashboard and /metrics are served on http://{address}/");
            started = started.and(start("metrics-tcp", move || {
                let next = || tcp.accept().map(|(stream, _)| stream);
                accept(&shared, Door::Port(address), next);
            }));
        }
        if let Err(error) = started {
            log::warn!("metrics are not served: cannot start a thread: {error}");
        }
        Served(self.path)
    }
}

/// An endpoint that is served; its socket's name goes with it.
pub struct Served(Option<PathBuf>);

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder.spawn(work).map(drop)
}

fn accept<S: Stream + 'static>(shared: &Arc<Shared>, door: Door, next: impl Fn() -> io::Result<S>) {
    loop {
        let Ok(stream) = next() else {
            // No descriptors are left, or the client is gone already.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.open.fetch_add(1, Ordering::AcqRel) >= CONNECTIONS_MAX {
            shared.open.fetch_sub(1, Ordering::AcqRel);
            shared.figures.turned_away.add(1);
            continue;
        }
        let (shared, left) = (Arc::clone(shared), Open(Arc::clone(shared)));
        // The connection is closed if no thread can be had.
        let _ = start("metrics-client", move || {
            let _left = left;
            let _ = talk(&shared, stream, door);
        });
    }
}

/// Counts a connection down.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves one connection, request after request.
fn talk(shared: &Shared, mut stream: impl Stream, door: Door) -> io::Result<()> {
    loop {
        let asked = match read_request(&mut stream)? {
            Some(asked) => asked,
            None => return Ok(()),
        };
        shared.figures.requests.add(1);
        let asked = match asked {
            Ok(asked) => asked,
            Err(refused) => {
                let empty = plain(0, "");
                return send(&mut stream, refused.status(), &empty, (true, false));
            }
        };
        let answer = answer(shared, &asked, door);
        let status = status_line(answer.status);
        send(&mut stream, &status, &answer, (asked.closes, asked.is_head))?;
        if asked.closes {
            return Ok(());
        }
    }
}

/// The next request with its body; `None` if the client has left.
fn read_request(stream: &mut impl Stream) -> io::Result<Option<Result<Asked, Refused>>> {
    let deadline = Instant::now() + TIME_MAX;
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = requests::end_of_head(&bytes) {
            break end;
        }
        if bytes.len() > HEAD_SIZE_MAX {
            return Ok(Some(Err(Refused::TooLong)));
        }
        if !read_more(stream, &mut bytes, deadline)? {
            return Ok(None);
        }
    };
    let mut asked = match requests::parse(&bytes[..end]) {
        Ok(asked) => asked,
        Err(refused) => return Ok(Some(Err(refused))),
    };
    let mut body = bytes.split_off(end);
    while body.len() < asked.length {
        if !read_more(stream, &mut body, deadline)? {
            return Ok(None);
        }
    }
    // What comes behind it would be a request sent before the answer, which no browser does.
    if body.len() > asked.length {
        return Ok(Some(Err(Refused::Body)));
    }
    asked.page.body = Bytes::from(body);
    Ok(Some(Ok(asked)))
}

/// Reads some more; false at the end.
fn read_more(stream: &mut impl Stream, bytes: &mut Vec<u8>, deadline: Instant) -> io::Result<bool> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    stream.limit(left)?;
    let mut piece = [0; 512];
    let count = stream.read(&mut piece)?;
    bytes.extend_from_slice(&piece[..count]);
    Ok(count > 0)
}

fn plain(status: u16, text: &str) -> PageAnswer {
    PageAnswer {
        status,
        content_type: CONTENT_TYPE,
        headers: vec![
            ("cache-control", "no-store".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ],
        body: Bytes::from(text.to_owned()),
    }
}

fn answer(shared: &Shared, asked: &Asked, door: Door) -> PageAnswer {
    match (asked.page.method, asked.page.path.as_str()) {
        (Method::Get, "/metrics") => match text(shared) {
            Ok(text) => plain(200, &text),
            Err(error) => plain(503, &format!("{error}\n")),
        },
        _ => shared.dashboard.answer(&asked.page, door),
    }
}

fn status_line(status: u16) -> String {
    let reason = match status {
        200 => "OK",
        303 => "See Other",
        400 => "Bad Request",
        403 => "Forbidden",
        404 => "Not Found",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        503 => "Service Unavailable",
        _ => "Answer",
    };
    format!("{status} {reason}")
}

fn send(
    stream: &mut impl Stream,
    status: &str,
    answer: &PageAnswer,
    (closes, is_head): (bool, bool),
) -> io::Result<()> {
    let (length, content_type) = (answer.body.len(), answer.content_type);
    let connection = if closes { "close" } else { "keep-alive" };
    let mut head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\n"
    );
    for (name, value) in &answer.headers {
        // No value has control characters: paths are encoded. One that had would end the head.
        let value = value.replace(|c: char| c.is_control(), " ");
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let mut bytes = head.into_bytes();
    if !is_head {
        bytes.extend_from_slice(&answer.body);
    }
    // One that takes a byte now and then does not keep its thread: the whole answer has its time.
    let deadline = Instant::now() + TIME_MAX;
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit(left)?;
        match stream.write(rest)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => rest = &rest[count..],
        }
    }
    stream.flush()
}

/// All measurements as text, not older than a second.
fn text(shared: &Shared) -> Result<Arc<String>, ControlError> {
    // Whoever comes meanwhile waits for the same answer.
    let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((at, text)) = &*latest
        && at.elapsed() < FRESH
    {
        return Ok(Arc::clone(text));
    }
    let text = Arc::new(all(&sources(shared.service.as_ref())?));
    *latest = Some((Instant::now(), Arc::clone(&text)));
    Ok(text)
}

/// All that is shown: our names, then those of other exporters.
pub fn all(sources: &Sources) -> String {
    let figures = &sources.figures;
    let mut text = exposition::text(figures.families());
    text.push_str(&exposition::text(&others::of_zfs_exporter(figures)));
    let tree = sources.tree();
    text.push_str(&exposition::text(&others::of_node_exporter(figures, &tree)));
    text
}

/// Takes the parts of an answer.
#[derive(Default)]
struct Taken {
    figures: Figures,
    datasets: Vec<Dataset>,
}

impl Reply for Taken {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        match part {
            Part::Metrics(families) => self.figures.add(families),
            Part::Datasets(rows) => self.datasets.extend(rows),
            _ => {}
        }
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

/// Asks the daemon's own service, as somebody who may only look.
fn sources(service: &dyn Service) -> Result<Sources, ControlError> {
    let mut taken = Taken::default();
    let names = Vec::new();
    service.look(Request::Metrics { names }, &mut taken)?;
    let request = Request::DatasetList {
        roots: Vec::new(),
        depth: Depth::All,
        kinds: KindSet::of(DatasetKind::Filesystem),
        properties: PropertySelection::Named(vec!["objsetid".to_owned()]),
    };
    service.look(request, &mut taken)?;
    let number =
        |row: &Dataset| Some((row.name.clone(), row.property("objsetid")?.value.number()?));
    Ok(Sources {
        figures: taken.figures,
        // Groups are no metrics: nobody asks for them here.
        groups: Vec::new(),
        object_sets: taken.datasets.iter().filter_map(number).collect(),
    })
}
