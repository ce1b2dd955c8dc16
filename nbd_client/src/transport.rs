//! What carries the bytes of a connection: a socket, TLS over one, or memory in tests.
//!
//! Sockets block, and so does everything above: one thread receives while another one sends.

use cenote_base::rt::Instant;
use std::fmt::Debug;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Slices that one system call takes (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// How long the network may take to deliver bytes, in milliseconds.
const USER_TIMEOUT_MS: u32 = 40_000;

/// A stream of bytes in both directions.
pub trait Transport: Debug + Send + Sync {
    /// Waits for bytes, and says how many came; 0 at the end.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// As [`Self::receive`], into several buffers, the first ones first.
    fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match buffers.iter_mut().find(|buffer| !buffer.is_empty()) {
            Some(buffer) => self.receive(buffer),
            None => Ok(0),
        }
    }

    /// Sends the first of these bytes, and says how many.
    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// How long [`Self::receive`] waits for the first byte; `None` for ever.
    fn set_receive_timeout(&self, limit: Option<Duration>) -> io::Result<()>;

    /// How long [`Self::send`] waits until the other side takes a byte; `None` for ever.
    fn set_send_timeout(&self, limit: Option<Duration>) -> io::Result<()>;

    /// Ends a direction, or both. Threads that wait return.
    fn shutdown(&self, how: Shutdown);

    /// Whether bytes are encrypted on their way.
    fn is_encrypted(&self) -> bool {
        false
    }
}

/// Sends all bytes of all slices.
///
/// # Errors
/// As [`Transport::send`]; part of the bytes may be sent then.
pub fn send_all(transport: &dyn Transport, slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    send_all_until(transport, slices, None)
}

/// The same until `deadline`, and not longer because the other side takes a byte now and then. A
/// send that is under way at that time still has its own limit.
///
/// # Errors
/// As [`send_all`], or the time is over.
pub(crate) fn send_all_until(
    transport: &dyn Transport,
    mut slices: &mut [IoSlice<'_>],
    deadline: Option<Instant>,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    let mut is_first = true;
    while !slices.is_empty() {
        if !is_first && deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            let text = "the other side takes too long to receive";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        is_first = false;
        let group = &slices[..slices.len().min(SLICES_MAX)];
        match transport.send(group) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(in_words(error)),
        }
    }
    Ok(())
}

/// Sends bytes that are one after the other.
///
/// # Errors
/// As [`send_all`].
pub fn send_bytes(transport: &dyn Transport, bytes: &[u8]) -> io::Result<()> {
    send_all(transport, &mut [IoSlice::new(bytes)])
}

/// A socket says "would block" when its time is over.
pub(crate) fn in_words(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the other side does not answer")
        }
        _ => error,
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// On this machine.
    Unix(UnixStream),
    /// Over the network.
    Tcp(TcpStream),
}

impl Socket {
    /// A socket over the network, without delays, with keep-alive probes when the connection is
    /// idle.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        use rustix::net::sockopt;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(20))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(5))?;
        sockopt::set_tcp_keepcnt(&stream, 4)?;
        sockopt::set_tcp_user_timeout(&stream, USER_TIMEOUT_MS)?;
        Ok(Self::Tcp(stream))
    }
}

impl Transport for Socket {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => (&*stream).read(buffer),
            Self::Tcp(stream) => (&*stream).read(buffer),
        }
    }

    fn receive_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let buffers = match buffers.len() {
            0..=SLICES_MAX => buffers,
            _ => &mut buffers[..SLICES_MAX],
        };
        match self {
            Self::Unix(stream) => (&*stream).read_vectored(buffers),
            Self::Tcp(stream) => (&*stream).read_vectored(buffers),
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => (&*stream).write_vectored(slices),
            Self::Tcp(stream) => (&*stream).write_vectored(slices),
        }
    }

    fn set_receive_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(limit),
            Self::Tcp(stream) => stream.set_read_timeout(limit),
        }
    }

    fn set_send_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(limit),
            Self::Tcp(stream) => stream.set_write_timeout(limit),
        }
    }

    fn shutdown(&self, how: Shutdown) {
        // A socket whose other side is gone is shut down already.
        let _ = match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        };
    }
}
