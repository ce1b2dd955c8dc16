//! Where a stream comes from: a client's descriptor, and whether that client is still there.
//!
//! The daemon reads from a pipe that another process writes to. A blocked read would never notice
//! that the client has disconnected, so each read waits only a short time.

use cenote_control::model::{Part, ReceiveNote};
use cenote_control::protocol::Reply;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{Error, ErrorKind, Read};

/// How long a read waits before it checks that the client is still connected.
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// The connection to the client.
pub(super) struct Link<'a> {
    reply: RefCell<&'a mut dyn Reply>,
    /// Bytes that were read of the stream.
    pub taken: Cell<u64>,
}

impl<'a> Link<'a> {
    pub fn new(reply: &'a mut dyn Reply) -> Self {
        Self {
            reply: RefCell::new(reply),
            taken: Cell::new(0),
        }
    }

    /// Reports what happens; an error is ignored, as the client may have disconnected.
    pub fn tell(&self, note: ReceiveNote) {
        // That it left is seen where the stream is read.
        let _ = self.reply.borrow_mut().part(Part::Receive(note));
    }

    pub fn is_cancelled(&self) -> bool {
        self.reply.borrow().cancelled()
    }
}

/// The stream.
pub(super) struct Input<'a> {
    pub file: File,
    pub link: &'a Link<'a>,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&WAIT)) {
                Ok(0) if self.link.is_cancelled() => {
                    return Err(Error::from(ErrorKind::ConnectionAborted));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(error.into()),
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(count) => {
                    self.link.taken.set(self.link.taken.get() + count as u64);
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
