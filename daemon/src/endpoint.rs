//! Serves `/metrics` and the dashboard over HTTP: on a unix socket beside the control socket, and
//! optionally on TCP.
//!
//! One server has both, with the HTTP server that `cenote http` uses for files. [`limits`] bounds
//! what clients may use. Measurements are collected at most once per second for all clients.
//!
//! Clients of the TCP port can see names of pools, vdevs and datasets without a password, so the
//! port is off by default. Only the dashboard can change something, after a login with its token.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cenote_base::metrics::{Collect, Registry, Sink};
use cenote_base::rt::{Instant, Mutex, MutexGuard, ranks};
use cenote_control::model::{
    ControlError, DashboardAct, Dataset, DatasetKind, Depth, HttpRefusal, KindSet, Part,
    PropertySelection, Request,
};
use cenote_control::protocol::{Reply, Service};
use cenote_http::{
    Address, Bound, Handler, Limits, Method, NoSites, Options, PageAnswer, PageRequest, Pages,
    Server,
};
use cenote_serve::Dashboard as Switch;

use cenote_watch::dashboard::{Dashboard, Door};
use cenote_watch::exposition::CONTENT_TYPE;
use cenote_watch::figures::Figures;
use cenote_watch::kstat::Sources;
use cenote_watch::page::{SCRAPES, TURNED_AWAY, all};

/// Younger answers are sent again.
const FRESH: Duration = Duration::from_secs(1);
/// How long a stopping daemon waits for unfinished answers.
const FAREWELL: Duration = Duration::from_secs(1);

/// The limits of clients: scrapers and browsers send headers of a few hundred bytes and short
/// forms.
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

/// What all addresses share.
struct Common {
    service: Arc<dyn Service>,
    dashboard: Dashboard,
    latest: Mutex<Option<(Instant, Bytes)>, ranks::MetricsText>,
}

/// The running servers.
#[derive(Default)]
struct Servers {
    common: Option<Arc<Common>>,
    /// On the unix socket.
    own: Option<(String, Server)>,
    /// On a port.
    port: Option<(SocketAddr, Server)>,
    /// Requests and refusals of stopped servers.
    past: [u64; 2],
}

/// The servers, shared by status requests and the switch.
#[derive(Default)]
struct Running(Mutex<Servers, ranks::DashboardServers>);

impl Running {
    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.0.lock()
    }
}

impl Servers {
    /// The addresses on which it is served.
    fn addresses(&self) -> Vec<String> {
        let own = self.own.iter().map(|(path, _)| format!("unix:{path}"));
        let port = self.port.iter().map(|(address, _)| address.to_string());
        own.chain(port).collect()
    }

    /// Starts serving on a bound port.
    fn begin(&mut self, bound: Bound, address: SocketAddr) -> Result<(), String> {
        let common = self.common.as_ref();
        let common = common.ok_or("the daemon starts or ends; try again")?;
        let server = bound.serve(handler(common, Some(address)), None);
        let server = server.map_err(|error| error.to_string())?;
        self.port = Some((address, server));
        log::info!("the dashboard and /metrics are served on http://{address}/");
        Ok(())
    }
}

impl Collect for Running {
    fn collect(&self, sink: &mut dyn Sink) {
        let [mut requests, mut refused] = [0, 0];
        {
            let servers = self.servers();
            let own = servers.own.iter().map(|(_, server)| server);
            let port = servers.port.iter().map(|(_, server)| server);
            for status in own.chain(port).map(Server::status) {
                requests += status.requests;
                refused += status.refused;
            }
            requests += servers.past[0];
            refused += servers.past[1];
        }
        sink.number(&SCRAPES, &[], requests);
        sink.number(&TURNED_AWAY, &[], refused);
    }
}

impl Switch for Running {
    fn act(&self, act: &DashboardAct) -> Result<Vec<String>, ControlError> {
        match act {
            DashboardAct::Status => {}
            DashboardAct::Listen { address } => self.listen(address)?,
            DashboardAct::Close => {
                let ended = self.servers().port.take();
                if let Some((address, server)) = ended {
                    log::info!("the dashboard is not served on http://{address}/ any more");
                    let status = server.status();
                    server.stop(FAREWELL);
                    let mut servers = self.servers();
                    servers.past[0] += status.requests;
                    servers.past[1] += status.refused;
                }
            }
        }
        Ok(self.servers().addresses())
    }
}

impl Running {
    fn listen(&self, text: &str) -> Result<(), ControlError> {
        let refused = |reason: String| HttpRefusal::NotListening {
            address: text.to_owned(),
            reason,
        };
        let mut servers = self.servers();
        if let Some((address, _)) = &servers.port {
            let mut wanted = text.to_socket_addrs().into_iter().flatten();
            return match wanted.any(|one| one == *address) {
                true => Ok(()),
                false => Err(HttpRefusal::DashboardElsewhere {
                    address: address.to_string(),
                }
                .into()),
            };
        }
        let (bound, address) = bound_to(text).map_err(refused)?;
        servers.begin(bound, address).map_err(refused)?;
        Ok(())
    }
}

/// The listening sockets.
pub struct Endpoint {
    unix: Bound,
    path: PathBuf,
    port: Option<(Bound, SocketAddr)>,
    /// Why there is no unix socket.
    without_socket: Option<String>,
    running: Arc<Running>,
}

impl Endpoint {
    /// Listens on `tcp`, and on a unix socket beside the control socket.
    ///
    /// Why it cannot listen on `tcp`.
    pub fn bind(path: &Path, tcp: Option<&str>) -> Result<Self, String> {
        let mut unix = sockets()?;
        let port = tcp.map(|text| {
            let bound = bound_to(text);
            bound.map_err(|why| format!("cannot listen on {text}: {why}"))
        });
        let port = port.transpose()?;
        // The lock of the control socket ensures that no other daemon uses this one.
        let _ = std::fs::remove_file(path);
        // The unix socket is optional: without it the daemon still runs.
        let without_socket = unix.add_private(path).err();
        Ok(Self {
            unix,
            path: path.to_owned(),
            port,
            without_socket: without_socket.map(|error| error.to_string()),
            running: Arc::default(),
        })
    }

    /// A registry with this endpoint's measurements.
    pub fn registry(&self) -> Arc<Registry> {
        let registry = Registry::default();
        registry.add(&(Arc::clone(&self.running) as Arc<dyn Collect>));
        Arc::new(registry)
    }

    /// The switch that opens and closes the port while it is served.
    pub fn switch(&self) -> Arc<dyn Switch> {
        Arc::clone(&self.running) as Arc<dyn Switch>
    }

    /// Serves until the result is dropped.
    ///
    /// No thread can be started.
    pub fn serve(self, service: &Arc<dyn Service>, dashboard: Dashboard) -> Result<Served, String> {
        let served = Served(self.running);
        let failed = |error: &dyn std::fmt::Display| {
            format!("the dashboard and /metrics cannot be served: {error}")
        };
        dashboard.start().map_err(|error| failed(&error))?;
        let common = Arc::new(Common {
            service: Arc::clone(service),
            dashboard,
            latest: Mutex::default(),
        });
        let mut servers = served.0.servers();
        servers.common = Some(Arc::clone(&common));
        match self.without_socket {
            Some(why) => log::warn!("the dashboard and /metrics have no unix socket: {why}"),
            None => {
                let server = self.unix.serve(handler(&common, None), None);
                let server = server.map_err(|error| failed(&error))?;
                servers.own = Some((self.path.to_string_lossy().into_owned(), server));
            }
        }
        if let Some((bound, address)) = self.port {
            let begun = servers.begin(bound, address);
            begun.map_err(|error| failed(&error))?;
        }
        drop(servers);
        Ok(served)
    }
}

fn handler(common: &Arc<Common>, port: Option<SocketAddr>) -> Handler {
    Handler {
        sites: Arc::new(NoSites),
        pages: Some(Arc::new(ServedPages {
            common: Arc::clone(common),
            port,
        })),
        options: Options {
            limits: limits(),
            ..Options::default()
        },
    }
}

/// Sockets for a server with one thread.
fn sockets() -> Result<Bound, String> {
    let mut bound = Bound::new(None).map_err(|error| error.to_string())?;
    bound.set_workers(1);
    Ok(bound)
}

/// A listening port.
fn bound_to(text: &str) -> Result<(Bound, SocketAddr), String> {
    let mut bound = sockets()?;
    let address = listen_on(&mut bound, text)?;
    Ok((bound, address))
}

/// Listens on the first usable address of `text`.
fn listen_on(bound: &mut Bound, text: &str) -> Result<SocketAddr, String> {
    let addresses = text.to_socket_addrs().map_err(|error| {
        format!("{error}. Give an address of this machine and a free port, such as 127.0.0.1:9134")
    })?;
    let mut last = None;
    for address in addresses {
        let is_tls = false;
        match bound.add(&Address::Tcp { address, is_tls }) {
            Ok(Address::Tcp { address, .. }) => return Ok(address),
            Ok(Address::Unix(_)) => {}
            Err(error) => last = Some(error.to_string()),
        }
    }
    Err(last.unwrap_or_else(|| "the name has no address; give another one".to_owned()))
}

/// Running servers. Dropping this stops them and removes their socket.
pub struct Served(Arc<Running>);

impl Drop for Served {
    fn drop(&mut self) {
        let (common, own, port) = {
            let mut servers = self.0.servers();
            (
                servers.common.take(),
                servers.own.take(),
                servers.port.take(),
            )
        };
        let own = own.map(|(_, server)| server);
        let port = port.map(|(_, server)| server);
        for server in own.into_iter().chain(port) {
            server.stop(FAREWELL);
        }
        if let Some(common) = common {
            common.dashboard.end();
        }
    }
}

/// The pages on one address.
struct ServedPages {
    common: Arc<Common>,
    /// The port of clients that do not use the unix socket.
    port: Option<SocketAddr>,
}

impl Pages for ServedPages {
    fn answer(&self, request: &PageRequest) -> PageAnswer {
        match (request.method, request.path.as_str()) {
            (Method::Get, "/metrics") => match self.text() {
                Ok(text) => plain(200, text),
                Err(error) => plain(503, format!("{error}\n").into()),
            },
            _ => self.common.dashboard.answer(request, self.door(request)),
        }
    }
}

impl ServedPages {
    fn door(&self, request: &PageRequest) -> Door {
        match request.peer {
            None => Door::Socket,
            // Clients with an address always come by a port.
            Some(_) => Door::Port(self.port.unwrap_or((Ipv4Addr::LOCALHOST, 0).into())),
        }
    }

    /// All measurements as text, at most a second old.
    fn text(&self) -> Result<Bytes, ControlError> {
        // Concurrent requests wait for the same answer.
        let mut latest = self.common.latest.lock();
        if let Some((at, text)) = &*latest
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(all(&sources(self.common.service.as_ref())?));
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

/// Collects the parts of an answer.
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

/// Asks the daemon's own service, with read-only access.
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
        // Transaction groups are not metrics and not requested here.
        groups: Vec::new(),
        object_sets: taken.datasets.iter().filter_map(number).collect(),
    })
}
