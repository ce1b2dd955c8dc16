//! `/metrics` and the dashboard over HTTP: on a unix socket beside the control socket, and on TCP
//! when that is wanted.
//!
//! Both are pages of one server, as `cenote http` has them for files. [`limits`] says what clients
//! may cost it. Measurements are collected once for all who ask within a second.
//!
//! Whoever reaches the TCP port sees names of pools, vdevs and datasets: it is off by default, and
//! has no password. Only the dashboard can change something, for those who know its token.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cenote_base::metrics::{Collect, Kind, Measure, Registry, Sink};
use cenote_control::model::{
    ControlError, Dataset, DatasetKind, Depth, KindSet, Part, PropertySelection, Request,
};
use cenote_control::protocol::{Reply, Service};
use cenote_http::{
    Address, Bound, Handler, Limits, Method, NoSites, Options, PageAnswer, PageRequest, Pages,
    Server,
};

use super::dashboard::{Dashboard, Door};
use super::exposition::{self, CONTENT_TYPE};
use super::figures::Figures;
use super::kstat::Sources;
use super::others;

/// Answers that are younger are given again.
const FRESH: Duration = Duration::from_secs(1);
/// How long the daemon's end waits for answers under way.
const FAREWELL: Duration = Duration::from_secs(1);

static SCRAPES: Measure = Measure {
    name: "cenote_metrics_requests_total",
    kind: Kind::Counter,
    help: "Requests for /metrics and pages of the dashboard.",
    labels: &[],
};
static TURNED_AWAY: Measure = Measure {
    name: "cenote_metrics_turned_away_total",
    kind: Kind::Counter,
    help: "Connections for /metrics and the dashboard that were refused: too many were open.",
    labels: &[],
};

/// Measurements of the endpoint itself, for the table of all.
pub static MEASURES: [&Measure; 2] = [&SCRAPES, &TURNED_AWAY];

/// What clients may cost: scrapers and browsers send heads of a few hundred bytes and short forms.
fn limits() -> Limits {
    Limits {
        connections: 128,
        connections_per_address: 64,
        head_time: Duration::from_secs(10),
        head_bytes: 8 << 10,
        body_bytes: 8 << 10,
        streams: 16,
        waiting_threads: 16,
        ..Limits::default()
    }
}

/// The server while it runs.
#[derive(Default)]
struct Running(Mutex<Option<Server>>);

impl Running {
    fn set(&self, server: Option<Server>) -> Option<Server> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *running, server)
    }
}

impl Collect for Running {
    fn collect(&self, sink: &mut dyn Sink) {
        let status = {
            let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            running.as_ref().map(Server::status).unwrap_or_default()
        };
        sink.number(&SCRAPES, &[], status.requests);
        sink.number(&TURNED_AWAY, &[], status.refused);
    }
}

/// The sockets that are listened on.
pub struct Endpoint {
    bound: Bound,
    port: Option<SocketAddr>,
    /// Why there is no unix socket.
    without_socket: Option<String>,
    running: Arc<Running>,
}

impl Endpoint {
    /// Listens on `tcp`, and on a unix socket beside the control socket.
    ///
    /// # Errors
    /// `tcp` cannot be listened on, and why.
    pub fn bind(path: &Path, tcp: Option<&str>) -> Result<Self, String> {
        let mut bound = Bound::new(None).map_err(|error| error.to_string())?;
        bound.set_workers(1);
        let port = tcp.map(|text| listen_on(&mut bound, text)).transpose()?;
        // The lock of the control socket says that no other daemon has this one.
        let _ = std::fs::remove_file(path);
        // Nobody asked for this one, so a daemon without it is better than none.
        let unix = bound.add_private(path);
        Ok(Self {
            bound,
            port,
            without_socket: unix.err().map(|error| error.to_string()),
            running: Arc::default(),
        })
    }

    /// A registry that has what this endpoint does.
    pub fn registry(&self) -> Arc<Registry> {
        let registry = Registry::default();
        registry.add(&(Arc::clone(&self.running) as Arc<dyn Collect>));
        Arc::new(registry)
    }

    /// Serves until the result is dropped.
    ///
    /// # Errors
    /// The system has no threads for it.
    pub fn serve(self, service: &Arc<dyn Service>, dashboard: Dashboard) -> Result<Served, String> {
        let served = Served(self.running);
        if let Some(why) = self.without_socket {
            log::warn!("the dashboard and /metrics have no unix socket: {why}");
            if self.port.is_none() {
                return Ok(served);
            }
        }
        let failed = |error: &dyn std::fmt::Display| {
            format!("the dashboard and /metrics cannot be served: {error}")
        };
        dashboard.start().map_err(|error| failed(&error))?;
        let handler = Handler {
            sites: Arc::new(NoSites),
            pages: Some(Arc::new(ServedPages {
                service: Arc::clone(service),
                dashboard,
                port: self.port,
                latest: Mutex::default(),
            })),
            options: Options {
                limits: limits(),
                ..Options::default()
            },
        };
        let server = self.bound.serve(handler, None);
        served.0.set(Some(server.map_err(|error| failed(&error))?));
        if let Some(address) = self.port {
            log::info!("the dashboard and /metrics are served on http://{address}/");
        }
        Ok(served)
    }
}

/// Listens on the first address of `text` that can be listened on.
fn listen_on(bound: &mut Bound, text: &str) -> Result<SocketAddr, String> {
    let failed = |why: &dyn std::fmt::Display| format!("--metrics-listen {text}: {why}");
    let addresses = text.to_socket_addrs().map_err(|error| {
        failed(&format_args!(
            "{error}. Give an address of this machine and a free port, such as 127.0.0.1:9134"
        ))
    })?;
    let mut last = None;
    for address in addresses {
        let is_tls = false;
        match bound.add(&Address::Tcp { address, is_tls }) {
            Ok(Address::Tcp { address, .. }) => return Ok(address),
            Ok(Address::Unix(_)) => {}
            Err(error) => last = Some(failed(&error)),
        }
    }
    Err(last.unwrap_or_else(|| failed(&"the name has no address; give another one")))
}

/// A server that runs; it ends when this is dropped, and its socket's name goes with it.
pub struct Served(Arc<Running>);

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(server) = self.0.set(None) {
            server.stop(FAREWELL);
        }
    }
}

/// What is served.
struct ServedPages {
    service: Arc<dyn Service>,
    dashboard: Dashboard,
    /// Where clients come in that do not come by the unix socket.
    port: Option<SocketAddr>,
    latest: Mutex<Option<(Instant, Bytes)>>,
}

impl Pages for ServedPages {
    fn answer(&self, request: &PageRequest) -> PageAnswer {
        match (request.method, request.path.as_str()) {
            (Method::Get, "/metrics") => match self.text() {
                Ok(text) => plain(200, text),
                Err(error) => plain(503, format!("{error}\n").into()),
            },
            _ => self.dashboard.answer(request, self.door(request)),
        }
    }
}

impl ServedPages {
    fn door(&self, request: &PageRequest) -> Door {
        match request.peer {
            None => Door::Socket,
            // Without a port nobody comes by one.
            Some(_) => Door::Port(self.port.unwrap_or((Ipv4Addr::LOCALHOST, 0).into())),
        }
    }

    /// All measurements as text, not older than a second.
    fn text(&self) -> Result<Bytes, ControlError> {
        // Whoever comes meanwhile waits for the same answer.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*latest
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(all(&sources(self.service.as_ref())?));
        *latest = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

fn plain(status: u16, body: Bytes) -> PageAnswer {
    PageAnswer {
        status,
        content_type: CONTENT_TYPE,
        headers: vec![
            ("cache-control", "no-store".to_owned()),
            ("x-content-type-options", "nosniff".to_owned()),
        ],
        body,
    }
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
