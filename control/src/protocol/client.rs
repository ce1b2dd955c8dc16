//! The client's half.

use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use thiserror::Error;

use super::frame::{Envelope, Frame, FrameError, PROTOCOL_VERSION, receive, send};
use crate::model::{ControlError, Part, Request, Response};

/// A call did not bring an answer.
#[derive(Debug, Error)]
pub enum CallError {
    /// No daemon listens on the socket.
    #[error("the daemon is not running")]
    NotRunning,
    /// The socket cannot be used.
    #[error("the daemon's socket: {0}")]
    Socket(std::io::Error),
    /// The conversation broke.
    #[error("the daemon: {0}")]
    Frame(#[from] FrameError),
    /// The daemon said no.
    #[error("{0}")]
    Refused(#[from] ControlError),
    /// The receiver of parts gave up.
    #[error("interrupted")]
    Interrupted,
    /// The answer is of another kind than the request expects.
    #[error("the daemon gave an answer to another question")]
    Mismatch,
}

/// Whether a receiver of parts wants more of them.
pub type Interrupt = ControlFlow<()>;

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
}

impl Client {
    /// Connects to the daemon that listens on `path`.
    pub fn connect(path: &Path) -> Result<Self, CallError> {
        use std::io::ErrorKind::{ConnectionRefused, NotFound};
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Client { stream }),
            Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => {
                Err(CallError::NotRunning)
            }
            Err(error) => Err(CallError::Socket(error)),
        }
    }

    /// Whether the process `id` made the socket at the other end.
    pub fn is_served_by(&self, id: u32) -> bool {
        let credentials = rustix::net::sockopt::socket_peercred(&self.stream);
        credentials.is_ok_and(|peer| u32::try_from(peer.pid.as_raw_pid()) == Ok(id))
    }

    /// Sends `request` and waits for its answer; parts go to `on_part` as they come.
    ///
    /// When `on_part` breaks, the connection is closed, which makes the daemon stop.
    pub fn call(
        &mut self,
        request: Request,
        descriptors: &[BorrowedFd<'_>],
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        let envelope = Envelope {
            protocol: PROTOCOL_VERSION,
            body: request,
        };
        send(&self.stream, &envelope, descriptors)?;
        loop {
            match receive::<Frame>(&self.stream)?.0 {
                Frame::Done(response) => return Ok(*response),
                Frame::Refused(error) => return Err(error.into()),
                Frame::Part(part) => {
                    if on_part(part).is_break() {
                        // A failure to shut down means that it is closed already.
                        let _ = self.stream.shutdown(std::net::Shutdown::Both);
                        return Err(CallError::Interrupted);
                    }
                }
            }
        }
    }
}
