//! Listens, accepts clients within limits, and keeps the table of connections.

use crate::admission::{self, Seat, Verdict};
use crate::connection::{Common, Connection, Counters};
use crate::exports::{Exports, Limits, TlsPolicy};
use crate::handshake::{Handshake, HandshakeEnd};
use cenote_base::client_of;
use cenote_base::rt::{self, Condvar, Instant, JoinHandle, Mutex, ranks};
use cenote_nbd_client::transport::{Socket, Transport};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;
/// How long a listener rests when the system has no room for another connection.
const REST: Duration = Duration::from_millis(100);
/// How long an end waits for requests under way before it cuts their connections.
const FAREWELL: Duration = Duration::from_secs(5);

/// Where clients come from.
#[derive(Debug)]
pub enum Listener {
    /// A socket in the file system, which only its owner may connect to.
    Unix(UnixListener, PathBuf),
    /// A port.
    Tcp(TcpListener),
}

impl Listener {
    /// Listens on a unix socket at `path`. A leftover socket without a listener is replaced.
    ///
    /// # Errors
    /// A process listens there, something else is there, or it cannot be created.
    pub fn unix(path: &Path) -> io::Result<Self> {
        if let Ok(metadata) = std::fs::symlink_metadata(path)
            && metadata.file_type().is_socket()
        {
            match UnixStream::connect(path) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(path)?;
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // No client can connect before it listens, so none gets in with other permissions.
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self::Unix(UnixListener::from(socket), path.into()))
    }

    /// Listens on a port of the addresses that `address` names: `localhost:10809`, `[::]:10809`.
    ///
    /// # Errors
    /// It is no address, or a process listens there.
    pub fn tcp(address: &str) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind(address)?))
    }

    /// The address of a port, to learn which one the system chose.
    pub fn port_address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(..) => None,
            Self::Tcp(listener) => listener.local_addr().ok(),
        }
    }

    /// The next client: its connection, its name, and the address that stands for it.
    fn accept(&self) -> io::Result<(Socket, String, Option<IpAddr>)> {
        match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(false)?;
                Ok((Socket::Unix(stream), "unix".to_owned(), None))
            }
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(false)?;
                let client = Some(client_of(address.ip()));
                Ok((Socket::tcp(stream)?, address.to_string(), client))
            }
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Unix(listener, _) => listener.set_nonblocking(true),
            Self::Tcp(listener) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(listener, _) => listener.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A client that is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    /// The address, or `unix`.
    pub address: String,
    /// The export, once it has chosen one.
    pub export: Option<String>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
    /// Requests that were carried out.
    pub requests: u64,
    /// Bytes that it read.
    pub read_bytes: u64,
    /// Bytes that it wrote.
    pub written_bytes: u64,
}

/// A connection in the server's table.
struct Known {
    address: String,
    client: Option<IpAddr>,
    /// Whether the handshake is under way.
    is_new: bool,
    /// Whether it was ended to make room, so that it counts no more.
    is_displaced: bool,
    export: Option<(String, bool)>,
    transport: Arc<dyn Transport>,
    counters: Arc<Counters>,
}

struct Table {
    next: u64,
    known: BTreeMap<u64, Known>,
}

impl Table {
    /// Makes room for a client, by ending a connection if need be.
    fn make_room(&mut self, client: Option<IpAddr>, connections: usize) -> Result<(), String> {
        let seat = |(&id, known): (&u64, &Known)| Seat {
            id,
            client: known.client,
            is_new: known.is_new,
            has_asked: known.counters.requests.load(Ordering::Relaxed) > 0,
        };
        let counted = self.known.iter().filter(|(_, known)| !known.is_displaced);
        let seats: Vec<_> = counted.map(seat).collect();
        match admission::admit(&seats, client, connections) {
            Verdict::Admit => Ok(()),
            Verdict::Displace(id) => {
                if let Some(known) = self.known.get_mut(&id) {
                    known.is_displaced = true;
                    known.transport.shutdown(Shutdown::Both);
                    log::info!(
                        "NBD client {} is disconnected: it asked for nothing, and others need room",
                        known.address
                    );
                }
                Ok(())
            }
            Verdict::ClientIsFull => Err(format!(
                "its address has three quarters of {connections} connections already"
            )),
            Verdict::Full => Err(format!("all {connections} connections are in use")),
        }
    }
}

struct Shared {
    exports: Arc<dyn Exports>,
    tls: TlsPolicy,
    common: Arc<Common>,
    table: Mutex<Table, ranks::NbdConnections>,
    /// A connection has ended.
    left: Condvar,
    is_ending: AtomicBool,
}

/// Serves exports until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    listeners: Mutex<Vec<ListenerThread>, ranks::NbdListeners>,
}

/// A listener's thread, and what wakes it up.
type ListenerThread = (JoinHandle<()>, UnixStream);

impl Server {
    /// Serves `exports` to clients of all listeners.
    ///
    /// # Errors
    /// The system has no room for the threads.
    pub fn start(
        exports: Arc<dyn Exports>,
        listeners: Vec<Listener>,
        limits: Limits,
        tls: TlsPolicy,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(exports, limits, tls));
        let server = Self {
            shared,
            listeners: Mutex::default(),
        };
        for listener in listeners {
            listener.set_nonblocking()?;
            let (wake, woken) = UnixStream::pair()?;
            let shared = Arc::clone(&server.shared);
            let accept = move || shared.accept_all(&listener, &woken);
            let thread = rt::spawn("nbd-accept", accept)?;
            server.listeners.lock().push((thread, wake));
        }
        Ok(server)
    }

    /// All connections.
    pub fn connections(&self) -> Vec<ConnectionStatus> {
        let table = self.shared.table.lock();
        let status = |known: &Known| {
            let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            ConnectionStatus {
                address: known.address.clone(),
                export: known.export.as_ref().map(|(name, _)| name.clone()),
                is_encrypted: known.export.as_ref().is_some_and(|(_, is)| *is),
                requests: count(&known.counters.requests),
                read_bytes: count(&known.counters.read_bytes),
                written_bytes: count(&known.counters.written_bytes),
            }
        };
        table.known.values().map(status).collect()
    }

    /// Ends the connections to an export, and waits until it is no longer in use; `false` if
    /// requests still are under way after `patience`.
    ///
    /// New connections are the business of [`Exports::open`].
    pub fn disconnect(&self, export: &str, patience: Duration) -> bool {
        let is_meant = |known: &Known| {
            let chosen = known.export.as_ref();
            chosen.is_some_and(|(name, _)| name == export)
        };
        self.shared.end(is_meant, patience)
    }

    /// Stops accepting clients. Another server can listen on the addresses when this returns.
    pub fn close(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
        // Under the lock: a second caller waits, too.
        let mut listeners = self.listeners.lock();
        for (thread, wake) in listeners.drain(..) {
            drop(wake);
            // A listener's panic was reported where it happened.
            let _ = thread.join();
        }
    }

    /// Stops accepting clients, and ends the connections when requests under way are answered.
    pub fn end(&self) {
        self.close();
        self.shared.end(|_| true, FAREWELL);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn new(exports: Arc<dyn Exports>, limits: Limits, tls: TlsPolicy) -> Self {
        Self {
            exports,
            tls,
            common: Common::new(limits),
            table: Mutex::new(Table {
                next: 0,
                known: BTreeMap::new(),
            }),
            left: Condvar::new(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Accepts clients until the server ends.
    fn accept_all(self: &Arc<Self>, listener: &Listener, woken: &UnixStream) {
        while !self.is_ending.load(Ordering::Acquire) {
            let mut waits = [
                PollFd::new(listener, PollFlags::IN),
                PollFd::new(woken, PollFlags::IN),
            ];
            match poll(&mut waits, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    log::error!("NBD: the listener has failed: {errno}; no client can connect");
                    return;
                }
            }
            match listener.accept() {
                Ok((socket, address, client)) => self.admit(socket, address, client),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    log::warn!("NBD: a client could not be accepted: {error}");
                    rt::sleep(REST);
                }
            }
        }
    }

    /// Serves a client on a thread of its own, or closes the connection.
    fn admit(self: &Arc<Self>, socket: Socket, address: String, client: Option<IpAddr>) {
        let limits = &self.common.limits;
        if let Err(error) = socket.set_send_timeout(Some(limits.send_time)) {
            log::warn!("NBD client {address}: {error}");
            return;
        }
        let transport: Arc<dyn Transport> = Arc::new(socket);
        let mut table = self.table.lock();
        // Connections that make room keep their threads for a moment, so these are limited, too.
        let deadline = Instant::now() + FAREWELL;
        while table.known.len() >= 2 * limits.connections {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(table);
                log::warn!("NBD client {address} is refused: too many connections are closing");
                return;
            }
            (table, _) = self.left.wait_timeout(table, left);
        }
        if let Err(reason) = table.make_room(client, limits.connections) {
            drop(table);
            log::warn!("NBD client {address} is refused: {reason}");
            return;
        }
        let id = table.next;
        table.next += 1;
        let known = Known {
            address: address.clone(),
            client,
            is_new: true,
            is_displaced: false,
            export: None,
            transport: Arc::clone(&transport),
            counters: Arc::default(),
        };
        table.known.insert(id, known);
        drop(table);
        let presence = Presence(Arc::clone(self), id);
        let serve = move || presence.0.serve(presence.1, transport, &address);
        if let Err(error) = rt::spawn("nbd", serve) {
            log::warn!("NBD: a client is refused: no thread for it: {error}");
        }
    }

    /// Serves one client.
    fn serve(&self, id: u64, transport: Arc<dyn Transport>, address: &str) {
        let limits = &self.common.limits;
        let socket = Arc::clone(&transport);
        let note = |export: Option<&str>| {
            let mut table = self.table.lock();
            if let Some(known) = table.known.get_mut(&id) {
                known.export = export.map(|name| (name.to_owned(), false));
            }
        };
        let (policy, client) = ((&self.tls, limits), (transport, address));
        let handshake = Handshake::new(&*self.exports, policy, &note, client);
        let agreed = match handshake.run() {
            Ok(agreed) => agreed,
            Err(HandshakeEnd::Left) => return socket.shutdown(Shutdown::Both),
            Err(error) => {
                log::info!("NBD client {address}: no handshake: {error}");
                return socket.shutdown(Shutdown::Both);
            }
        };
        let mut table = self.table.lock();
        let Some(known) = table.known.get_mut(&id) else {
            return;
        };
        known.is_new = false;
        known.export = Some((agreed.name.clone(), agreed.client.is_encrypted));
        known.transport = Arc::clone(&agreed.transport);
        let counters = Arc::clone(&known.counters);
        drop(table);
        if self.is_ending.load(Ordering::Acquire) {
            return agreed.transport.shutdown(Shutdown::Both);
        }
        let connection = Connection::new(agreed, Arc::clone(&self.common), counters);
        connection.run();
        connection.wait_for_others();
    }

    /// Ends connections: they answer what is under way, and are cut when that takes too long.
    fn end(&self, is_meant: impl Fn(&Known) -> bool, patience: Duration) -> bool {
        let is_left = |patience: Duration, how: Shutdown| {
            let deadline = Instant::now() + patience;
            let mut table = self.table.lock();
            let meant = table.known.values().filter(|known| is_meant(known));
            let transports: Vec<_> = meant.map(|known| Arc::clone(&known.transport)).collect();
            drop(table);
            for transport in transports {
                transport.shutdown(how);
            }
            table = self.table.lock();
            loop {
                let left = deadline.saturating_duration_since(Instant::now());
                if !table.known.values().any(&is_meant) {
                    return true;
                }
                if left.is_zero() {
                    return false;
                }
                (table, _) = self.left.wait_timeout(table, left);
            }
        };
        is_left(patience, Shutdown::Read) || is_left(REST, Shutdown::Both)
    }
}

/// Keeps a connection in the table, however its thread ends.
struct Presence(Arc<Shared>, u64);

impl Drop for Presence {
    fn drop(&mut self) {
        let known = self.0.table.lock().known.remove(&self.1);
        drop(known);
        self.0.left.notify_all();
    }
}

/// Serves one client whose transport is there already, on this thread; for tests and fuzzing.
pub fn serve_one(
    exports: &dyn Exports,
    transport: Arc<dyn Transport>,
    limits: Limits,
    tls: &TlsPolicy,
) {
    let client = (Arc::clone(&transport), "memory");
    let handshake = Handshake::new(exports, (tls, &limits), &|_| (), client);
    match handshake.run() {
        Err(_) => transport.shutdown(Shutdown::Both),
        Ok(agreed) => {
            let connection = Connection::new(agreed, Common::new(limits), Arc::default());
            connection.run();
            connection.wait_for_others();
        }
    }
}
