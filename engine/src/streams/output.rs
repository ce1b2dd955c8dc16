//! Where a stream goes: a client's descriptor, and whether that client is still there.
//!
//! A pipe whose reader sleeps would hold a blocking write for ever, though the client was stopped
//! long ago. A pipe is therefore opened again, for non-blocking writes. This changes nothing for
//! processes that share the client's descriptor. Each write waits only a short time. Writes to a
//! socket have a flag not to block. Writes to files do not block.

use cenote_base::rt::Instant;
use cenote_control::model::{Part, SendNote};
use cenote_control::protocol::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::SendFlags;
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

/// How long a write waits before it checks that the client is still connected.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};
/// How often progress is reported.
const PERIOD: Duration = Duration::from_secs(1);
/// The requested size of a pipe, in bytes.
const PIPE_SIZE: usize = 1 << 20;

/// The connection to the client.
pub(super) struct Link<'a> {
    reply: RefCell<&'a mut dyn Reply>,
    /// The snapshot whose stream is being sent, and the bytes that were written before it.
    current: RefCell<(String, u64)>,
    written: Cell<u64>,
    told: Cell<Instant>,
}

impl<'a> Link<'a> {
    pub fn new(reply: &'a mut dyn Reply) -> Self {
        Self {
            reply: RefCell::new(reply),
            current: RefCell::default(),
            written: Cell::new(0),
            told: Cell::new(Instant::now()),
        }
    }

    pub fn tell(&self, note: SendNote) {
        // An error is ignored: writing the stream notices that the client has disconnected.
        let _ = self.reply.borrow_mut().part(Part::Send(note));
    }

    /// The stream of this snapshot begins.
    pub fn begin(&self, snapshot: &str) {
        *self.current.borrow_mut() = (snapshot.to_owned(), self.written.get());
    }

    pub fn is_cancelled(&self) -> bool {
        self.reply.borrow().cancelled()
    }

    fn wrote(&self, count: usize) {
        self.written.set(self.written.get() + count as u64);
        if self.told.get().elapsed() < PERIOD {
            return;
        }
        self.told.set(Instant::now());
        let (snapshot, before) = self.current.borrow().clone();
        self.tell(SendNote::Progress {
            snapshot,
            bytes: self.written.get() - before,
        });
    }
}

/// The stream.
pub(super) struct Output<'a> {
    file: File,
    is_socket: bool,
    pub link: &'a Link<'a>,
}

impl<'a> Output<'a> {
    pub fn new(descriptor: OwnedFd, link: &'a Link<'a>) -> Self {
        let kind = kind_of(&descriptor);
        let own = (kind == Some(FileType::Fifo)).then(|| own_end(&descriptor));
        Self {
            file: File::from(own.flatten().unwrap_or(descriptor)),
            is_socket: kind == Some(FileType::Socket),
            link,
        }
    }

    /// Writes without waiting, if the descriptor supports it.
    fn write_now(&mut self, bytes: &[u8]) -> Result<usize> {
        if !self.is_socket {
            return self.file.write(bytes);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(&self.file, bytes, flags)?)
    }
}

fn kind_of(descriptor: &OwnedFd) -> Option<FileType> {
    let status = rustix::fs::fstat(descriptor).ok()?;
    Some(FileType::from_raw_mode(status.st_mode))
}

/// A pipe's end that does not block.
fn own_end(descriptor: &OwnedFd) -> Option<OwnedFd> {
    // More room is a matter of speed alone.
    let _ = rustix::pipe::fcntl_setpipe_size(descriptor, PIPE_SIZE);
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok()
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        loop {
            let mut polled = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut polled, Some(&WAIT)) {
                Ok(_) if self.link.is_cancelled() => {
                    return Err(Error::from(ErrorKind::ConnectionAborted));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.write_now(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.link.wrote(count);
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}
