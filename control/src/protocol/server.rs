//! The daemon's half: a thread for each connection, requests answered in order.

use cenote_base::rt::{self, Instant, Mutex, ranks};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::frame::{Envelope, Frame, FrameError, PROTOCOL_VERSION, receive, receive_up_to, send};
use super::path::{lock_path, note_path, view_path};
use super::peer::Peer;
use super::viewers::{Doing, IDLE_MAX, REQUEST_SIZE_MAX, TIME_MAX, Viewers};
use crate::model::{Access, ControlError, Part, Request, Response};

/// How often waiting threads look whether the daemon is to stop.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How often a full server checks whether there is room again.
const FULL_INTERVAL: Duration = Duration::from_millis(5);

/// How long an auto-started daemon waits for its first client.
const FIRST_CLIENT_WAIT: Duration = Duration::from_secs(20);

/// How long it waits without a pool after a client: the next one may import what this one found.
const NEXT_CLIENT_WAIT: Duration = Duration::from_secs(2);

/// The way back to the client, while a request is handled.
pub trait Reply {
    /// Sends a share of the answer.
    ///
    /// Fails with `Interrupted` when the client has disconnected; the handler should then stop.
    fn part(&mut self, part: Part) -> Result<(), ControlError>;

    /// Whether the client has disconnected; long operations should check from time to time.
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

    /// Answers one request of [`Access::Look`] on the read-only socket.
    ///
    /// # Errors
    /// The default refuses all.
    fn look(&self, request: Request, reply: &mut dyn Reply) -> Result<Response, ControlError> {
        let _ = (request, reply);
        Err(ControlError::PermissionDenied)
    }

    /// Answers another request on the read-only socket, if its user has the permissions for it.
    /// The answer may take as long as it takes.
    ///
    /// # Errors
    /// The default refuses all.
    fn delegated(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let _ = (request, peer, reply);
        Err(ControlError::PermissionDenied)
    }

    /// Whether no pool is imported: an auto-started daemon then leaves.
    fn idle(&self) -> bool;

    /// Called some times each second, for what is to be done now and then.
    fn tick(&self) {}

    /// Unmounts and exports everything; called once, before the daemon leaves.
    ///
    /// Without [`Ending::force`], fails when something is busy, and the daemon stays.
    fn shutdown(&self, ending: Ending) -> Result<(), ControlError>;
}

/// What becomes of disks of this machine when the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisksAtEnd {
    /// They go.
    Go,
    /// Open ones wait for the next daemon; the others are removed.
    OpenStay,
    /// All wait for the next daemon.
    Stay,
}

/// How a service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Although something is busy.
    pub force: bool,
    /// What becomes of disks of this machine.
    pub disks: DisksAtEnd,
}

impl Ending {
    /// The end after a signal, or when the last pool is gone.
    pub const UNASKED: Self = Self {
        force: true,
        disks: DisksAtEnd::OpenStay,
    };

    /// The end after [`Request::DaemonStop`].
    pub fn asked(force: bool, is_restart: bool) -> Self {
        let disks = match is_restart {
            true => DisksAtEnd::Stay,
            false => DisksAtEnd::Go,
        };
        Self { force, disks }
    }
}

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Leave after the last pool is exported.
    pub auto: bool,
    /// Connections served at once; more wait until one ends.
    pub connections_max: usize,
    /// Connections on the read-only socket that are served at the same time; more wait.
    pub viewers_max: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            auto: false,
            connections_max: 512,
            viewers_max: 512,
        }
    }
}

/// The server cannot start or continue.
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

/// Listening sockets. Dropping it removes their names.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// The read-only socket, with its path.
    view: Option<(UnixListener, PathBuf)>,
    /// Whether a daemon left its socket there: it did not end in order.
    took_over: bool,
    /// Held for as long as we serve: only its holder may replace the sockets.
    _lock: File,
}

/// Whether there is a socket at `path`, served or not.
pub fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|found| found.file_type().is_socket())
}

/// Takes away the sockets that a daemon left which did not end in order; does nothing while one
/// runs.
///
/// # Errors
/// The system's.
pub fn clear_left_sockets(path: &Path) -> std::io::Result<()> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true).mode(0o600);
    let lock = options.open(lock_path(path))?;
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    if rustix::fs::flock(&lock, operation).is_err() {
        return Ok(());
    }
    for socket in [path.to_owned(), view_path(path)] {
        if is_socket(&socket) {
            std::fs::remove_file(socket)?;
        }
    }
    Ok(())
}

/// Creates a socket at `path` with the permissions `mode`, and replaces a leftover one.
fn listen(path: &Path, mode: u32) -> std::io::Result<UnixListener> {
    // We hold the lock, so a socket here is a leftover; anything else is a user's file.
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Server {
    /// Listens on `path`; a socket that a killed daemon left there is replaced.
    pub fn bind(path: &Path) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Listen {
            path: path.to_owned(),
            source,
        };
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(lock_path(path)).map_err(failed)?;
        // One that an earlier version made could be opened by everybody.
        let only_us = std::fs::Permissions::from_mode(0o600);
        lock.set_permissions(only_us).map_err(failed)?;
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        match rustix::fs::flock(&lock, operation) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(ServeError::AlreadyRunning(path.to_owned()));
            }
            result => result.map_err(|errno| failed(errno.into()))?,
        }
        let took_over = is_socket(path);
        Ok(Server {
            took_over,
            listener: listen(path, 0o600).map_err(failed)?,
            path: path.to_owned(),
            view: None,
            _lock: lock,
        })
    }

    /// Listens on a second socket as well, with read-only access for all users.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn with_view(mut self) -> Result<Self, ServeError> {
        let path = view_path(&self.path);
        let listener = match listen(&path, 0o666) {
            Ok(listener) => listener,
            Err(source) => return Err(ServeError::Listen { path, source }),
        };
        self.view = Some((listener, path));
        Ok(self)
    }

    /// Whether it replaced the socket of a daemon that did not end in order.
    pub fn took_over(&self) -> bool {
        self.took_over
    }

    /// Leaves a text in a file beside the socket, for clients that come later.
    ///
    /// # Errors
    /// The system's.
    pub fn leave_note(&self, text: &str) -> std::io::Result<()> {
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o644);
        options
            .open(note_path(&self.path))?
            .write_all(text.as_bytes())
    }

    /// Serves until `stop` is set, a client asks to stop, or (`auto`) the last pool is gone.
    ///
    /// If `stop` was set from outside, the service is shut down by force.
    pub fn run(&self, service: Arc<dyn Service>, options: ServeOptions, stop: Arc<AtomicBool>) {
        let shared = Arc::new(Shared {
            service,
            stop,
            stopped: AtomicBool::new(false),
            active: AtomicUsize::new(0),
            viewing: AtomicUsize::new(0),
            viewers: Viewers::default(),
            had_pool: AtomicBool::new(false),
            last_left: Mutex::new(None),
        });
        let start = Instant::now();
        while !shared.stop.load(Ordering::Acquire) {
            self.take_next(&shared, options);
            shared.service.tick();
            if options.auto && shared.may_leave(start.elapsed()) {
                break;
            }
        }
        shared.stop.store(true, Ordering::Release);
        if !shared.stopped.swap(true, Ordering::AcqRel) {
            // Leaving anyway: what cannot be unmounted is left to the system.
            let _ = shared.service.shutdown(Ending::UNASKED);
        }
    }

    /// Waits a moment for a client, and has it served.
    ///
    /// While there is no room, clients wait in the socket's queue.
    fn take_next(&self, shared: &Arc<Shared>, options: ServeOptions) {
        let has_room = shared.active.load(Ordering::Acquire) < options.connections_max;
        let view = self.view.as_ref().map(|(listener, _)| listener);
        let view = view.filter(|_| shared.viewing.load(Ordering::Acquire) < options.viewers_max);
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        let own = has_room.then_some(&self.listener);
        polled.extend(own.map(|own| PollFd::new(own, PollFlags::IN)));
        polled.extend(view.map(|view| PollFd::new(view, PollFlags::IN)));
        // Without any room, wait a short time for a connection to end.
        let wait = if polled.len() < 1 + usize::from(self.view.is_some()) {
            FULL_INTERVAL
        } else {
            LOOK_INTERVAL
        };
        // An interrupted or failed wait counts as no client; the caller comes again.
        if !matches!(poll(&mut polled, Some(&timespec(wait))), Ok(count) if count > 0) {
            return;
        }
        if let Some(Ok((stream, _))) = own.map(UnixListener::accept) {
            admit(stream, shared);
        }
        if let Some(Ok((stream, _))) = view.map(UnixListener::accept) {
            admit_viewer(stream, shared);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The names may be gone already; the lock file stays, as removing it would race.
        let _ = std::fs::remove_file(&self.path);
        if let Some((_, path)) = &self.view {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Shared {
    service: Arc<dyn Service>,
    stop: Arc<AtomicBool>,
    /// `shutdown` was called and succeeded.
    stopped: AtomicBool,
    /// Connections open.
    active: AtomicUsize,
    /// Those of clients that may only look.
    viewing: AtomicUsize,
    viewers: Viewers,
    had_pool: AtomicBool,
    /// When the last client went.
    last_left: Mutex<Option<Instant>, ranks::ServerIdle>,
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
        let last_left = *self.last_left.lock();
        let waited = match last_left {
            Some(left) => left.elapsed() > NEXT_CLIENT_WAIT,
            None => age > FIRST_CLIENT_WAIT,
        };
        waited || self.had_pool.load(Ordering::Acquire)
    }
}

fn timespec(wait: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    }
}

fn readable(descriptor: impl AsFd, wait: Duration) -> bool {
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    // An interrupted or failed wait counts as nothing to read; the caller comes again.
    matches!(poll(&mut polled, Some(&timespec(wait))), Ok(count) if count > 0)
}

fn refuse(stream: &UnixStream, refusal: ControlError) {
    // The client may have disconnected; then the error is of no use.
    let _ = send(stream, &Frame::Refused(refusal), &[]);
}

/// Starts a thread for the connection, if its owner may ask.
fn admit(stream: UnixStream, shared: &Arc<Shared>) {
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let Some(peer) = Peer::of(&stream) else {
        return;
    };
    if peer.is_ordinary() {
        return refuse(&stream, ControlError::PermissionDenied);
    }
    shared.active.fetch_add(1, Ordering::AcqRel);
    let counted = Counted(Arc::clone(shared));
    let spawned = rt::spawn("cenote-client", move || converse(stream, &counted.0, peer));
    // Without a thread the connection is dropped, and with it the count.
    drop(spawned);
}

/// The same for the read-only socket.
fn admit_viewer(stream: UnixStream, shared: &Arc<Shared>) {
    let is_set = stream.set_nonblocking(false).is_ok()
        && stream.set_write_timeout(Some(IDLE_MAX)).is_ok()
        && stream.set_read_timeout(Some(IDLE_MAX)).is_ok();
    let Some(peer) = Peer::of(&stream).filter(|_| is_set) else {
        return;
    };
    if !shared.viewers.enter(peer.uid) {
        return refuse(&stream, ControlError::TooManyClients);
    }
    shared.viewing.fetch_add(1, Ordering::AcqRel);
    let counted = Viewing(Arc::clone(shared), peer);
    let spawned = rt::spawn("cenote-viewer", move || show(stream, &counted.0, peer));
    drop(spawned);
}

/// One open connection in `Shared::viewing`.
struct Viewing(Arc<Shared>, Peer);

impl Drop for Viewing {
    fn drop(&mut self) {
        self.0.viewers.leave(self.1.uid);
        self.0.viewing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Answers a client of the read-only socket.
fn show(stream: UnixStream, shared: &Shared, peer: Peer) {
    let mut idle_since = Instant::now();
    while !shared.stop.load(Ordering::Acquire) && idle_since.elapsed() < IDLE_MAX {
        if !readable(&stream, LOOK_INTERVAL) {
            continue;
        }
        let received = receive_up_to::<Envelope>(&stream, REQUEST_SIZE_MAX);
        let (envelope, descriptors) = match received {
            Ok(received) => received,
            Err(error @ (FrameError::Malformed(_) | FrameError::Secrets)) => {
                let what = error.to_string();
                return refuse(&stream, ControlError::Unsupported { what });
            }
            Err(_) => return,
        };
        let frame = match caught(|| shown(envelope, descriptors, &stream, shared, peer)) {
            Ok(response) => Frame::Done(Box::new(response)),
            Err(error) => Frame::Refused(error),
        };
        if send(&stream, &frame, &[]).is_err() {
            return;
        }
        idle_since = Instant::now();
    }
}

fn shown(
    envelope: Envelope,
    descriptors: Vec<OwnedFd>,
    stream: &UnixStream,
    shared: &Shared,
    peer: Peer,
) -> Result<Response, ControlError> {
    check_version(&envelope)?;
    let deadline = Instant::now() + TIME_MAX;
    if envelope.body.access() == Access::Look {
        let turn = shared.viewers.begin(peer.uid, Doing::Look, deadline);
        let _turn = turn.ok_or(ControlError::TooManyClients)?;
        // Descriptors beside such a request are closed unseen.
        let mut reply = SocketReply {
            stream,
            descriptors: Vec::new(),
            deadline: Some(deadline),
        };
        return shared.service.look(envelope.body, &mut reply);
    }
    let turn = shared.viewers.begin(peer.uid, Doing::Act, deadline);
    let _turn = turn.ok_or(ControlError::TooManyClients)?;
    let mut reply = SocketReply {
        stream,
        descriptors: descriptors.into_iter().map(Some).collect(),
        deadline: None,
    };
    shared.service.delegated(envelope.body, peer, &mut reply)
}

/// Answers a request; one that panics is refused, and the client that waits learns of it.
fn caught(work: impl FnOnce() -> Result<Response, ControlError>) -> Result<Response, ControlError> {
    let answered = rt::catch_unwind(AssertUnwindSafe(work));
    answered.unwrap_or_else(|payload| {
        let words = rt::panic_words(&*payload);
        let detail = format!("the request panicked: {words}; the daemon's log says where");
        Err(ControlError::Internal { detail })
    })
}

fn check_version(envelope: &Envelope) -> Result<(), ControlError> {
    match envelope.protocol {
        PROTOCOL_VERSION => Ok(()),
        other => Err(ControlError::Unsupported {
            what: format!("protocol {other}"),
        }),
    }
}

/// One open connection in `Shared::active`.
struct Counted(Arc<Shared>);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut last_left = self.0.last_left.lock();
        *last_left = Some(Instant::now());
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
            Err(error @ (FrameError::Malformed(_) | FrameError::Secrets)) => {
                let detail = error.to_string();
                let refusal = ControlError::Unsupported { what: detail };
                let _ = send(&stream, &Frame::Refused(refusal), &[]);
                return;
            }
            Err(_) => return,
        };
        let frame = match caught(|| answer(envelope, descriptors, &stream, shared, peer)) {
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
    check_version(&envelope)?;
    if let Request::DaemonStop { force, is_restart } = envelope.body {
        shared.service.shutdown(Ending::asked(force, is_restart))?;
        shared.stopped.store(true, Ordering::Release);
        shared.stop.store(true, Ordering::Release);
        return Ok(Response::Done);
    }
    let mut reply = SocketReply {
        stream,
        descriptors: descriptors.into_iter().map(Some).collect(),
        deadline: None,
    };
    shared.service.handle(envelope.body, peer, &mut reply)
}

struct SocketReply<'a> {
    stream: &'a UnixStream,
    descriptors: Vec<Option<OwnedFd>>,
    /// When the answer must be done, if it must.
    deadline: Option<Instant>,
}

impl SocketReply<'_> {
    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() > deadline)
    }
}

impl Reply for SocketReply<'_> {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        if self.is_late() {
            return Err(ControlError::Interrupted);
        }
        match send(self.stream, &Frame::Part(part), &[]) {
            Ok(()) => Ok(()),
            Err(FrameError::TooLong(length)) => Err(ControlError::Internal {
                detail: format!("a part of {length} bytes"),
            }),
            Err(_) => Err(ControlError::Interrupted),
        }
    }

    fn cancelled(&self) -> bool {
        if self.is_late() {
            return true;
        }
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
