//! `/metrics` over HTTP: on a unix socket beside the control socket, and on TCP when that is
//! wanted.
//!
//! Each connection has a thread, of which there are few: who comes when all are busy is turned away
//! at once. A client has seconds for its request and for taking the answer. So slow and idle
//! clients cost a bounded number of threads for a bounded time, and nothing else. Answers are
//! collected once for all who ask within a second.
//!
//! Whoever reaches the TCP port sees names of pools, vdevs and datasets: it is off by default, and
//! has no password. Nothing can be changed through it.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cenote_base::metrics::{Collect, Count, Kind, Measure, Registry, Sink};
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request,
};
use cenote_control::protocol::{Reply, Service};

use super::exposition::{self, CONTENT_TYPE};
use super::figures::Figures;
use super::kstat::Sources;
use super::others;
use super::requests::{self, Get, HEAD_SIZE_MAX, Refused};

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
    tcp: Option<TcpListener>,
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
    pub fn serve(self, service: &Arc<dyn Service>) -> Served {
        let shared = Arc::new(Shared {
            service: Arc::clone(service),
            open: AtomicUsize::new(0),
            latest: Mutex::default(),
            figures: self.figures,
        });
        let mut started = Ok(());
        if let Some(unix) = self.unix {
            let shared = Arc::clone(&shared);
            started = started.and(start("metrics-unix", move || {
                accept(&shared, || unix.accept().map(|(stream, _)| stream));
            }));
        }
        if let Some(tcp) = self.tcp {
            if let Ok(address) = tcp.local_addr() {
                log::info!("metrics are served on http://{address}/metrics");
            }
            started = started.and(start("metrics-tcp", move || {
                accept(&shared, || tcp.accept().map(|(stream, _)| stream));
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

fn accept<S: Stream + 'static>(shared: &Arc<Shared>, next: impl Fn() -> io::Result<S>) {
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
            let _ = talk(&shared, stream);
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
fn talk(shared: &Shared, mut stream: impl Stream) -> io::Result<()> {
    loop {
        let head = match read_head(&mut stream)? {
            Some(head) => head,
            None => return Ok(()),
        };
        shared.figures.requests.add(1);
        stream.limit(TIME_MAX)?;
        let get = match head.as_deref().map(requests::parse) {
            Ok(Ok(get)) => get,
            Ok(Err(refused)) | Err(&refused) => {
                return answer(&mut stream, refused.status(), "", true, false);
            }
        };
        respond(shared, &mut stream, &get)?;
        if get.closes {
            return Ok(());
        }
    }
}

/// The head of the next request; `None` if the client has left.
fn read_head(stream: &mut impl Stream) -> io::Result<Option<Result<Vec<u8>, Refused>>> {
    let deadline = Instant::now() + TIME_MAX;
    let mut head = Vec::new();
    let mut byte = [0; 512];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit(left)?;
        let count = stream.read(&mut byte)?;
        if count == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&byte[..count]);
        if let Some(end) = requests::end_of_head(&head) {
            // What comes behind it would be a body, or a request sent before the answer: neither
            // is what a scraper does.
            let is_alone = end == head.len();
            return Ok(Some(if is_alone {
                Ok(head)
            } else {
                Err(Refused::Body)
            }));
        }
        if head.len() > HEAD_SIZE_MAX {
            return Ok(Some(Err(Refused::TooLong)));
        }
    }
}

fn respond(shared: &Shared, stream: &mut impl Stream, get: &Get) -> io::Result<()> {
    let (status, body) = match get.path.as_str() {
        "/metrics" => match text(shared) {
            Ok(text) => ("200 OK", text),
            Err(error) => ("503 Service Unavailable", Arc::new(format!("{error}\n"))),
        },
        _ => (
            "404 Not Found",
            Arc::new("Metrics are at /metrics.\n".to_owned()),
        ),
    };
    answer(stream, status, &body, get.closes, get.is_head)
}

fn answer(
    stream: &mut impl Stream,
    status: &str,
    body: &str,
    closes: bool,
    is_head: bool,
) -> io::Result<()> {
    let length = body.len();
    let connection = if closes { "close" } else { "keep-alive" };
    let mut bytes = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
         Connection: {connection}\r\n\r\n"
    );
    if !is_head {
        bytes.push_str(body);
    }
    // One that takes a byte now and then does not keep its thread: the whole answer has its time.
    let deadline = Instant::now() + TIME_MAX;
    let mut rest = bytes.as_bytes();
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
