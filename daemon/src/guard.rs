//! A helper process that lets a killed daemon exit.
//!
//! A thread that waits for a FUSE server's answer cannot be killed while the server has the
//! request. Sometimes a daemon accesses its own mounts: to find a mount point's directory, or
//! because a pool's device is a file on another pool. If it is killed at that moment, the thread
//! waits for worker threads that are gone, and also keeps the FUSE connection open. So the process
//! never ends, and holds its devices.
//!
//! The guard is a small process of the same program. It has the kernel's abort files of all FUSE
//! connections open, and writes to them when the daemon's threads end. The kernel signals the guard
//! when the thread that started it ends; that thread does nothing else, so it can always be killed.
//! The guard serves no pool and accesses no mount.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cenote_base::rt::{self, Mutex, ranks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use signal_hook::consts::SIGTERM;

/// The operand of `cenote daemon` that runs the guard.
pub const OPERAND: &str = "guard";

/// How long a daemon may take to exit, once its thread has ended.
const GRACE: Duration = Duration::from_millis(500);

/// The daemon's side: the pipe to the guard.
#[derive(Debug)]
pub struct Guard(Mutex<ChildStdin, ranks::GuardPipe>);

/// A connection that the guard watches until this is dropped.
#[derive(Debug)]
pub struct Guarded {
    guard: Arc<Guard>,
    connection: u32,
}

impl Guard {
    /// Starts the guard.
    ///
    /// If it cannot be started.
    pub fn start() -> io::Result<Self> {
        let program = std::env::current_exe()?;
        let (sender, receiver) = rt::sync_channel(1);
        rt::spawn("guard-parent", move || {
            let mut command = Command::new(program);
            let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
            command.args(["daemon", OPERAND, &thread]).current_dir("/");
            // In a process group of its own: the terminal's signals are meant for the daemon.
            command.process_group(0).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let child = command.spawn().and_then(|mut child| {
                let pipe = child.stdin.take();
                pipe.ok_or_else(|| io::Error::other("there is no pipe to it"))
            });
            // The receiver is waiting, so this cannot fail.
            let _ = sender.send(child);
            loop {
                rt::park();
            }
        })?;
        let pipe = receiver.recv().map_err(io::Error::other)??;
        Ok(Self(Mutex::new(pipe)))
    }

    /// Makes the guard watch a connection until the result is dropped.
    pub fn watch(self: &Arc<Self>, connection: u32) -> Guarded {
        self.tell('+', connection);
        Guarded {
            guard: Arc::clone(self),
            connection,
        }
    }

    fn tell(&self, sign: char, connection: u32) {
        let mut pipe = self.0.lock();
        // If the guard was killed, connections are not watched; the daemon works without it.
        let _ = writeln!(pipe, "{sign}{connection}");
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.guard.tell('-', self.connection);
    }
}

/// Runs the guard until the daemon closes the pipe or dies. `thread` is the daemon's thread that
/// started it.
///
/// If it cannot register for the signals.
pub fn run(thread: &str) -> io::Result<()> {
    let (mut signalled, signals) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(SIGTERM, signals)?;
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If this fails, the guard can watch fewer connections.
    let _ = setrlimit(Resource::Nofile, raised);
    let starter = PathBuf::from(format!("/proc/{parent}/task/{thread}"));
    let mut connections = Connections::default();
    let mut is_suspicious = !starter.exists();
    loop {
        let wait = is_suspicious.then_some(GRACE);
        match wait_for(&signalled, wait)? {
            Event::News if connections.take_news()? => {}
            Event::News => return Ok(()),
            Event::Signal => {
                // Any process may send this signal. After the grace period, check whether the
                // thread is gone.
                signalled.read(&mut [0; 16]).map(drop)?;
                is_suspicious = true;
            }
            Event::TimeIsUp if starter.exists() => is_suspicious = false,
            Event::TimeIsUp => {
                connections.end();
                return Ok(());
            }
        }
    }
}

/// What the guard waits for.
enum Event {
    /// The daemon sent connections, or closed the pipe.
    News,
    Signal,
    TimeIsUp,
}

fn wait_for(signalled: &UnixStream, wait: Option<Duration>) -> io::Result<Event> {
    let stdin = rustix::stdio::stdin();
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    loop {
        let mut polled = [
            PollFd::new(signalled, PollFlags::IN),
            PollFd::new(&stdin, PollFlags::IN),
        ];
        match poll(&mut polled, wait.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => return Ok(Event::TimeIsUp),
            Ok(_) if polled[0].revents().is_empty() => return Ok(Event::News),
            Ok(_) => return Ok(Event::Signal),
        }
    }
}

/// The abort files of the daemon's connections.
#[derive(Default)]
struct Connections {
    switches: BTreeMap<u32, OwnedFd>,
    /// The beginning of an incomplete line.
    unread: Vec<u8>,
}

impl Connections {
    /// Reads the daemon's messages; returns false at the end of the pipe.
    fn take_news(&mut self) -> io::Result<bool> {
        let mut piece = [0; 4096];
        let length = rustix::io::read(rustix::stdio::stdin(), &mut piece)?;
        self.unread.extend_from_slice(&piece[..length]);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            match (text.split_at_checked(1), text.get(1..).map(str::parse)) {
                (Some(("+", _)), Some(Ok(number))) => {
                    // Only the mount's user and root can open the file.
                    if let Ok(switch) = cenote_fuse::abort_handle(number) {
                        self.switches.insert(number, switch);
                    }
                }
                (Some(("-", _)), Some(Ok(number))) => drop(self.switches.remove(&number)),
                _ => {}
            }
        }
        Ok(length > 0)
    }

    /// Aborts all connections.
    fn end(self) {
        for switch in self.switches.values() {
            // A connection that has already ended needs nothing.
            let _ = rustix::io::write(switch, b"1");
        }
    }
}
