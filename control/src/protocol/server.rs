//! The daemon's half: a thread for each connection, requests answered in order.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::frame::{Envelope, Frame, FrameError, PROTOCOL_VERSION, receive, send};
use crate::model::{ControlError, Part, Request, Response};

/// How often waiting threads look whether the daemon is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How long an auto-started daemon waits for its first client.
const FIRST_CLIENT_WAIT: Duration = Duration::from_secs(20);

/// How long it waits without a pool after a client: the next one may import what this one found.
const NEXT_CLIENT_WAIT: Duration = Duration::from_secs(2);

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user id.
    pub uid: u32,
    /// The process id.
    pub pid: i32,
}

/// The way back to whoever asks, while a request is handled.
pub trait Reply {
    /// Sends a share of the answer.
    ///
    /// Fails with `Interrupted` when nobody is there any more; the handler should then give up.
    fn part(&mut self, part: Part) -> Result<(), ControlError>;

    /// Whether whoever asked has gone; long work should look now and then.
    fn cancelled(&self) -> bool;

    /// Takes the descriptor that came at `index` beside the request.
    fn take_descriptor(&mut self, index: usize) -> Option<OwnedFd>;
}

/// What answers requests: the engine in the daemon, canned data in tests.
pub trait Service: Send + Sync {
    /// Answers one request. Called from many threads at once.
    fn handle(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError>;

    /// Whether no pool is imported: an auto-started daemon then leaves.
    fn idle(&self) -> bool;

    /// Called some times each second, for what is to be done now and then.
    fn tick(&self) {}

    /// Unmounts and exports everything; called once, before the daemon leaves.
    ///
    /// Without `force`, fails when something is busy, and the daemon stays.
    fn shutdown(&self, force: bool) -> Result<(), ControlError>;
}

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Leave after the last pool is exported.
    pub auto: bool,
    /// Connections served at once; more are turned away.
    pub connections_max: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            auto: false,
            connections_max: 64,
        }
    }
}

/// The server cannot start or go on.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another daemon serves this socket.
    #[error("a daemon is already running on {}", .0.display())]
    AlreadyRunning(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen on {}: {source}{}", path.display(), hint(source))]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// What helps where no socket can be made.
fn hint(source: &std::io::Error) -> &'static str {
    match source.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::NotFound => {
            "; CENOTE_SOCKET names another place for it"
        }
        _ => "",
    }
}

/// A listening socket. Dropping it removes the socket's name.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Held for as long as we serve: whoever holds it may replace the socket.
    _lock: File,
}

impl Server {
    /// Listens on `path`; a socket that a killed daemon left there is replaced.
    pub fn bind(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            path: path.to_owned(),
            source,
        };
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let lock = options.open(&lock_path).map_err(failed)?;
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&lock, operation) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(ServeError::AlreadyRunning(path.to_owned()));
            }
            result => result.map_err(|errno| failed(errno.into()))?,
        }
        // We hold the lock, so a socket here belongs to nobody; anything else is somebody's file.
        match path.symlink_metadata() {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(failed)?;
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, private).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Server {
            listener,
            path: path.to_owned(),
            _lock: lock,
        })
    }

    /// Serves until `stop` is set, a client asks to stop, or (`auto`) the last pool is gone.
    ///
    /// Whoever sets `stop` from outside has had its say: the service is then shut down by force.
    pub fn run(&self, service: Arc<dyn Service>, options: ServeOptions, stop: Arc<AtomicBool>) {
        let shared = Arc::new(Shared {
            service,
            stop,
            stopped: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            had_pool: AtomicBool::new(false),
            last_left: Mutex::new(None),
        });
        let start = Instant::now();
        while !shared.stop.load(Ordering::Acquire) {
            if readable(&self.listener, LOOK_INTERVAL)
                && let Ok((stream, _)) = self.listener.accept()
            {
                admit(stream, &shared, options);
            }
            shared.service.tick();
            if options.auto && shared.may_leave(start.elapsed()) {
                break;
            }
        }
        shared.stop.store(true, Ordering::Release);
        if !shared.stopped.swap(true, Ordering::AcqRel) {
            // Leaving anyway: what cannot be unmounted is left to the system.
            let _ = shared.service.shutdown(true);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The name may be gone already; the lock file stays, as removing it would race.
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Shared {
    service: Arc<dyn Service>,
    stop: Arc<AtomicBool>,
    /// `shutdown` was called and succeeded.
    stopped: AtomicBool,
    /// Connections open.
    active: AtomicUsize,
    had_pool: AtomicBool,
    /// When the last client went.
    last_left: Mutex<Option<Instant>>,
}

impl Shared {
    fn may_leave(&self, age: Duration) -> bool {
        if !self.service.idle() {
            self.had_pool.store(true, Ordering::Release);
            return false;
        }
        if self.active.load(Ordering::Acquire) != 0 {
            return false;
        }
        let last_left = *self
            .last_left
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let waited = match last_left {
            Some(left) => left.elapsed() > NEXT_CLIENT_WAIT,
            None => age > FIRST_CLIENT_WAIT,
        };
        waited || self.had_pool.load(Ordering::Acquire)
    }
}

fn readable(descriptor: impl AsFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    // An interrupted or failed wait counts as nothing to read; the caller comes again.
    matches!(poll(&mut polled, Some(&timeout)), Ok(count) if count > 0)
}

/// Starts a thread for the connection, if there may be one more and its owner may ask.
fn admit(stream: UnixStream, shared: &Arc<Shared>, options: ServeOptions) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else {
        return;
    };
    let peer = Peer {
        uid: credentials.uid.as_raw(),
        pid: credentials.pid.as_raw_nonzero().get(),
    };
    let ours = rustix::process::geteuid().as_raw();
    let full = shared.active.load(Ordering::Acquire) >= options.connections_max;
    if full || (peer.uid != ours && peer.uid != 0) {
        let refusal = if full {
            ControlError::TooManyClients
        } else {
            ControlError::PermissionDenied
        };
        // The client may have gone; there is nobody else to tell.
        let _ = send(&stream, &Frame::Refused(refusal), &[]);
        return;
    }
    shared.active.fetch_add(1, Ordering::AcqRel);
    let shared = Arc::clone(shared);
    let counted = Counted(Arc::clone(&shared));
    let spawned = std::thread::Builder::new()
        .name("cenote-client".to_owned())
        .spawn(move || {
            let _counted = counted;
            converse(stream, &shared, peer);
        });
    // Without a thread the connection is dropped, and with it the count.
    drop(spawned);
}

/// One open connection in `Shared::active`.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        let last_left = self.0.last_left.lock();
        *last_left.unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

fn converse(stream: UnixStream, shared: &Shared, peer: Peer) {
    while !shared.stop.load(Ordering::Acquire) {
        if !readable(&stream, LOOK_INTERVAL) {
            continue;
        }
        let (envelope, descriptors) = match receive::<Envelope>(&stream) {
            Ok(received) => received,
            Err(FrameError::Malformed(error)) => {
                let detail = error.to_string();
                let refusal = ControlError::Unsupported { what: detail };
                let _ = send(&stream, &Frame::Refused(refusal), &[]);
                return;
            }
            Err(_) => return,
        };
        let frame = match answer(envelope, descriptors, &stream, shared, peer) {
            Ok(response) => Frame::Done(Box::new(response)),
            Err(error) => Frame::Refused(error),
        };
        match send(&stream, &frame, &[]) {
            Err(FrameError::TooLong(length)) => {
                let detail = format!("an answer of {length} bytes was not sent in parts");
                let refusal = ControlError::Internal { detail };
                if send(&stream, &Frame::Refused(refusal), &[]).is_err() {
                    return;
                }
            }
            Err(_) => return,
            Ok(()) => {}
        }
    }
}

fn answer(
    envelope: Envelope,
    descriptors: Vec<OwnedFd>,
    stream: &UnixStream,
    shared: &Shared,
    peer: Peer,
) -> Result<Response, ControlError> {
    if envelope.protocol != PROTOCOL_VERSION {
        return Err(ControlError::Unsupported {
            what: format!("protocol {}", envelope.protocol),
        });
    }
    if let Request::DaemonStop { force } = envelope.body {
        shared.service.shutdown(force)?;
        shared.stopped.store(true, Ordering::Release);
        shared.stop.store(true, Ordering::Release);
        return Ok(Response::Done);
    }
    let mut reply = SocketReply {
        stream,
        descriptors: descriptors.into_iter().map(Some).collect(),
    };
    shared.service.handle(envelope.body, peer, &mut reply)
}

struct SocketReply<'a> {
    stream: &'a UnixStream,
    descriptors: Vec<Option<OwnedFd>>,
}

impl Reply for SocketReply<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        match send(self.stream, &Frame::Part(part), &[]) {
            Ok(()) => Ok(()),
            Err(FrameError::TooLong(length)) => Err(ControlError::Internal {
                detail: format!("a part of {length} bytes"),
            }),
            Err(_) => Err(ControlError::Interrupted),
        }
    }

    fn cancelled(&self) -> bool {
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut polled = [PollFd::new(self.stream, gone)];
        let now = Timespec::default();
        poll(&mut polled, Some(&now)).is_ok() && polled[0].revents().intersects(gone)
    }

    fn take_descriptor(&mut self, index: usize) -> Option<OwnedFd> {
        self.descriptors.get_mut(index).and_then(Option::take)
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
