//! A server from its start to its end: listeners, workers, connections.
//!
//! Each worker is a thread with a runtime of its own, on which the connections that it was dealt
//! stay: nothing is shared between workers but counters, and a request does not change threads
//! unless it has to wait. New connections go to the worker with the fewest.

use crate::access_log::{AccessLog, Writer};
use crate::addresses::Addresses;
use crate::connection;
use crate::either::either;
use crate::flight::{Current, Figures, Shared, count};
use crate::links::{Clock, Link, Links, Listens};
use crate::listen::{Accepted, Address, Listener};
use crate::options::{Options, OptionsError, Rules};
use crate::pace::Pace;
use crate::pages::Pages;
use crate::status::Status;
use crate::tls::{self, TlsError, TlsFiles};
use crate::tree::Sites;
use crate::waiting::{Waiting, WaitingOwner};
use crate::worker::Workers;
use cenote_base::rt::RwLock;
use rustls::ServerConfig;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// How often slow and idle connections are looked for.
const SWEEP: Duration = Duration::from_millis(250);
/// How often addresses are forgotten.
const FORGET: u32 = 40;
/// How long a listener rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);
/// How long an idle connection must have been idle to make room for a new one, in milliseconds.
const IDLE_ENOUGH: u64 = 1000;
/// How long an end waits for connections that were cut.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where to listen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// Addresses; at least one.
    pub addresses: Vec<Address>,
    /// The certificate for addresses with TLS.
    pub tls: Option<TlsFiles>,
}

/// What answers requests.
pub struct Handler {
    /// Trees of files. They come first.
    pub sites: Arc<dyn Sites>,
    /// What answers where no site does.
    pub pages: Option<Arc<dyn Pages>>,
    /// How.
    pub options: Options,
}

/// Why a server cannot start, or cannot apply new options.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An option cannot be used.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The certificate or key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// There is nowhere to listen.
    #[error("no address to listen on was given; give at least one")]
    NoAddress,
    /// An address with TLS needs a certificate.
    #[error("{0} needs TLS, and no certificate was given; give a certificate and its key")]
    NoCertificate(Address),
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {address}: {source}; choose another address, or end the program that \
         uses it"
    )]
    Listen {
        /// The address.
        address: Address,
        /// Why not.
        source: io::Error,
    },
    /// The system has no room for it.
    #[error("the server has no room for its threads: {0}; raise the limits of the process")]
    Resources(#[from] io::Error),
}

/// Addresses that are bound and listened on, but not served yet: clients wait.
///
/// So a program learns that an address cannot be had before it does what the server is for.
pub struct Bound {
    tls: Option<Arc<ServerConfig>>,
    listeners: Vec<Listener>,
    addresses: Vec<Address>,
    workers: Option<usize>,
}

impl Bound {
    /// Nothing yet; with the certificate for addresses with TLS.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn new(tls: Option<&TlsFiles>) -> Result<Self, ServerError> {
        Ok(Self {
            tls: tls.map(tls::config).transpose()?,
            listeners: Vec::new(),
            addresses: Vec::new(),
            workers: None,
        })
    }

    /// Sets the number of threads that serve connections, at most 8. Default: one for each
    /// processor.
    pub fn set_workers(&mut self, workers: usize) {
        self.workers = Some(workers);
    }

    /// Listens on another address, and says on which: with the port that the system chose.
    ///
    /// # Errors
    /// [`ServerError`]; then all stays as it was.
    pub fn add(&mut self, address: &Address) -> Result<Address, ServerError> {
        if matches!(address, Address::Tcp { is_tls: true, .. }) && self.tls.is_none() {
            return Err(ServerError::NoCertificate(address.clone()));
        }
        self.keep(address, Listener::bind(address))
    }

    /// Listens on a unix socket that only the user of this process, and root, may connect to.
    ///
    /// # Errors
    /// [`ServerError::Listen`]; then all stays as it was.
    pub fn add_private(&mut self, path: &Path) -> Result<Address, ServerError> {
        let address = Address::Unix(path.to_owned());
        self.keep(&address, Listener::private(path))
    }

    fn keep(
        &mut self,
        address: &Address,
        listener: io::Result<Listener>,
    ) -> Result<Address, ServerError> {
        let failed = |source| ServerError::Listen {
            address: address.clone(),
            source,
        };
        let listener = listener.map_err(failed)?;
        let address = listener.address().map_err(failed)?;
        self.listeners.push(listener);
        self.addresses.push(address.clone());
        Ok(address)
    }

    /// Answers requests from now on.
    ///
    /// # Errors
    /// [`ServerError`]; then nothing listens any more.
    pub fn serve(
        self,
        handler: Handler,
        log: Option<Box<dyn AccessLog>>,
    ) -> Result<Server, ServerError> {
        if self.listeners.is_empty() {
            return Err(ServerError::NoAddress);
        }
        let rules = Arc::new(Rules::new(handler.options)?);
        let waiting = Waiting::new(rules.limits().waiting_threads);
        let shared = Arc::new(Shared {
            sites: handler.sites,
            pages: handler.pages,
            current: RwLock::new(Current {
                rules,
                tls: self.tls,
            }),
            waiting: waiting.clone(),
            links: Links::new(),
            addresses: Addresses::default(),
            byte_pace: Pace::default(),
            figures: Figures::default(),
            log: log.map(Writer::start).transpose()?,
            clock: Clock::start(),
            is_stopping: AtomicBool::new(false),
        });
        let workers = Workers::start(self.workers)?;
        let (end, ending) = watch::channel(false);
        for listener in self.listeners {
            let accepting = Accepting {
                shared: Arc::clone(&shared),
                workers: workers.handles(),
                ending: ending.clone(),
                _listens: shared.links.listen(),
            };
            workers.spawn(accepting.run(listener));
        }
        workers.spawn(sweep(Arc::clone(&shared)));
        Ok(Server {
            shared,
            addresses: self.addresses,
            end,
            workers: Some(workers),
            _waiting: WaitingOwner(waiting),
        })
    }
}

/// Serves until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    /// Signals connections and listeners to end.
    end: watch::Sender<bool>,
    workers: Option<Workers>,
    _waiting: WaitingOwner,
}

impl Server {
    /// Listens, and answers requests from now on.
    ///
    /// # Errors
    /// [`ServerError`]; then nothing listens.
    pub fn start(
        listen: Listen,
        handler: Handler,
        log: Option<Box<dyn AccessLog>>,
    ) -> Result<Self, ServerError> {
        let mut bound = Bound::new(listen.tls.as_ref())?;
        for address in &listen.addresses {
            bound.add(address)?;
        }
        bound.serve(handler, log)
    }

    /// Where it listens, with the ports that the system chose.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.addresses.clone()
    }

    /// Its counters so far, and its connections.
    #[must_use]
    pub fn status(&self) -> Status {
        let (shared, figures) = (&self.shared, &self.shared.figures);
        let counts = shared.links.counts();
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        Status {
            connections: counts.connections,
            busy: counts.busy,
            resting: counts.resting,
            accepted: figure(&figures.accepted),
            refused: figure(&figures.refused),
            slow: figure(&figures.slow),
            requests: figure(&figures.requests),
            answers: std::array::from_fn(|class| figure(&figures.answers[class])),
            bytes: figure(&figures.bytes),
            from_memory: figure(&figures.from_memory),
            waiting: shared.waiting.pending(),
            log_lines_dropped: shared.log.as_ref().map_or(0, Writer::dropped),
            busiest: shared.addresses.busiest(),
        }
    }

    /// Takes other options and another certificate, and reopens the access log.
    ///
    /// Requests under way end with the old options. Connections stay open.
    ///
    /// # Errors
    /// Something cannot be used; then all stays as it was.
    pub fn reload(&self, options: Options, tls: Option<TlsFiles>) -> Result<(), ServerError> {
        let rules = Arc::new(Rules::new(options)?);
        let tls = tls.as_ref().map(tls::config).transpose()?;
        let is_tls = |address: &&Address| matches!(address, Address::Tcp { is_tls: true, .. });
        if let Some(address) = self.addresses.iter().find(is_tls)
            && tls.is_none()
        {
            return Err(ServerError::NoCertificate(address.clone()));
        }
        let threads = rules.limits().waiting_threads;
        self.shared.waiting.set_threads(threads);
        *self.shared.current.write() = Current { rules, tls };
        if let Some(log) = &self.shared.log {
            log.reopen();
        }
        Ok(())
    }

    /// Stops accepting clients, and ends idle connections. Another server can listen on the
    /// addresses when this returns.
    pub fn close(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        // An error means that there are no listeners and connections left.
        let _ = self.end.send(true);
        self.shared.links.wait_for_listeners(FAREWELL);
    }

    /// Stops accepting clients, and ends idle connections at once. Other connections end when their
    /// answers are complete, at the latest after `grace`.
    ///
    /// A second call may be shorter than one that is still waiting, which then returns, too. The
    /// access log is complete when the server is dropped.
    pub fn stop(&self, grace: Duration) {
        self.close();
        if !self.shared.links.wait_until_empty(grace) {
            self.shared.links.end_all();
            self.shared.links.wait_until_empty(FAREWELL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(FAREWELL);
        drop(self.workers.take());
    }
}

/// Looks for connections that keep the server waiting, until the runtime ends.
async fn sweep(shared: Arc<Shared>) {
    let mut round = 0_u32;
    loop {
        tokio::time::sleep(SWEEP).await;
        let rules = shared.rules();
        let now = shared.clock.milliseconds();
        let swept = shared.links.sweep(rules.limits(), now);
        count(&shared.figures.slow, swept.slow);
        round = round.wrapping_add(1);
        if round.is_multiple_of(FORGET) {
            shared.addresses.sweep(shared.clock.nanoseconds());
        }
    }
}

/// Accepts clients of one listener.
struct Accepting {
    shared: Arc<Shared>,
    workers: crate::worker::Handles,
    ending: watch::Receiver<bool>,
    /// The last to be dropped: the listener is closed then.
    _listens: Listens,
}

impl Accepting {
    async fn run(self, listener: Listener) {
        let is_tls = listener.is_tls;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; a listener keeps its descriptor"
        )]
        let listener = match AsyncFd::new(listener) {
            Ok(listener) => listener,
            Err(error) => {
                log::error!("HTTP: a listener cannot be waited for: {error}; restart the server");
                return;
            }
        };
        while !*self.ending.borrow() {
            let mut ending = self.ending.clone();
            let ended = ending.wait_for(|ends| *ends);
            let Some(Ok(mut ready)) = either(listener.readable(), ended).await else {
                return;
            };
            match listener.get_ref().accept() {
                Ok(accepted) => {
                    self.admit(accepted, is_tls);
                    // However many come, connections of this worker have their turn.
                    tokio::task::yield_now().await;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    log::warn!(
                        "HTTP: a client could not be accepted: {error}; raise the limit of open \
                         files, or lower that of connections"
                    );
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Gives a client to a worker, or closes the connection.
    fn admit(&self, accepted: Accepted, is_tls: bool) {
        let shared = &self.shared;
        let (rules, tls) = {
            let current = shared.current.read();
            (Arc::clone(&current.rules), current.tls.clone())
        };
        let limits = rules.limits();
        let peer = match &accepted {
            Accepted::Tcp(_, address) => Some(address.ip().to_canonical()),
            Accepted::Unix(_) => None,
        };
        let address = peer.map(|peer| {
            let connections = limits.connections_per_address;
            shared.addresses.enter(peer, connections)
        });
        let address = match address {
            Some(None) => return self.refuse(accepted, is_tls),
            Some(Some(address)) => Some(address),
            None => None,
        };
        let link = Arc::new(Link::new(shared.clock, peer, address));
        let presence = match shared.links.enter(&link, limits.connections) {
            Some(presence) => presence,
            None => {
                // The next client finds the room that is made here.
                let now = shared.clock.milliseconds();
                shared.links.end_idlest(now, IDLE_ENOUGH);
                return self.refuse(accepted, is_tls);
            }
        };
        count(&shared.figures.accepted, 1);
        let id = presence.id();
        let tls: Option<Arc<ServerConfig>> = tls.filter(|_| is_tls);
        let client = connection::Client {
            shared: Arc::clone(shared),
            link,
            rules,
            tls,
            ending: self.ending.clone(),
            presence,
        };
        let task = self.workers.deal(|load| client.serve(accepted, load));
        shared.links.set_task(id, task);
    }

    fn refuse(&self, accepted: Accepted, is_tls: bool) {
        count(&self.shared.figures.refused, 1);
        connection::refuse(accepted, is_tls);
    }
}

/// Whether an error of accepting is about that one client only.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionReset
            | InvalidInput
            | NotConnected
            | io::ErrorKind::Interrupted
    )
}
