//! Receives whole messages.
//!
//! Small ones come out of a buffer, so that a burst of requests costs one system call; large
//! ones go from the socket to their place.

use crate::transport::{Transport, in_words};
use cenote_base::rt::Instant;
use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are received ahead: 16 requests with 4 KiB of data are a little more.
const BUFFER_BYTES: usize = 64 << 10;

/// The receiving side of a connection.
#[derive(Debug)]
pub struct Receiver {
    transport: Arc<dyn Transport>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// When everything has to be there.
    deadline: Option<Instant>,
    /// Whether the transport may have a time limit set.
    is_limited: bool,
}

impl Receiver {
    /// Receives from `transport`.
    pub fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            deadline: None,
            // The transport's previous user may have set one.
            is_limited: true,
        }
    }

    /// From now on everything has to come until then; `None` to wait for ever.
    ///
    /// # Errors
    /// The socket has failed.
    pub fn set_deadline(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        self.deadline = deadline;
        match deadline.is_none() && std::mem::take(&mut self.is_limited) {
            true => self.transport.set_receive_timeout(None),
            false => Ok(()),
        }
    }

    /// Whether there are bytes that came and were not asked for yet.
    pub fn has_more(&self) -> bool {
        self.start < self.end
    }

    /// How many bytes came and were not asked for yet.
    pub fn buffered(&self) -> usize {
        self.end - self.start
    }

    /// Fills all buffers, one after the other.
    ///
    /// # Errors
    /// As [`Self::fill_or_end`].
    pub fn fill_all(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let mut left = buffers;
        IoSliceMut::advance_slices(&mut left, 0);
        while let Some(first) = left.first_mut() {
            let count = match self.has_more() {
                true => self.take(first)?,
                false => self.receive_with(|transport| transport.receive_vectored(left))?,
            };
            if count == 0 {
                return Err(cut_short());
            }
            IoSliceMut::advance_slices(&mut left, count);
        }
        Ok(())
    }

    /// Fills `buffer`; `false` if the stream ends before its first byte.
    ///
    /// # Errors
    /// The stream ends in between, the time is over, or the socket failed.
    pub fn fill_or_end(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < buffer.len() {
            let rest = &mut buffer[done..];
            let count = match self.has_more() || rest.len() < BUFFER_BYTES {
                true => self.take(rest)?,
                false => self.receive_into(rest)?,
            };
            match count {
                0 if done == 0 => return Ok(false),
                0 => return Err(cut_short()),
                count => done += count,
            }
        }
        Ok(true)
    }

    /// Fills `buffer`.
    ///
    /// # Errors
    /// As [`Self::fill_or_end`].
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        match self.fill_or_end(buffer)? {
            true => Ok(()),
            false if buffer.is_empty() => Ok(()),
            false => Err(cut_short()),
        }
    }

    /// Receives `length` bytes and drops them.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub fn skip(&mut self, mut length: u64) -> io::Result<()> {
        let mut sink = [0; 4096];
        while length > 0 {
            let piece = usize::try_from(length).map_or(sink.len(), |length| length.min(sink.len()));
            self.fill(&mut sink[..piece])?;
            length -= piece as u64;
        }
        Ok(())
    }

    /// Takes bytes out of the buffer, which is filled if it is empty.
    fn take(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if !self.has_more() {
            let mut buffer = std::mem::take(&mut self.buffer);
            let received = self.receive_into(&mut buffer);
            self.buffer = buffer;
            (self.start, self.end) = (0, received?);
        }
        let count = target.len().min(self.end - self.start);
        target[..count].copy_from_slice(&self.buffer[self.start..self.start + count]);
        self.start += count;
        Ok(count)
    }

    fn receive_into(&mut self, target: &mut [u8]) -> io::Result<usize> {
        self.receive_with(|transport| transport.receive(target))
    }

    fn receive_with(
        &mut self,
        mut receive: impl FnMut(&dyn Transport) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            if let Some(deadline) = self.deadline {
                limit(&*self.transport, deadline)?;
                self.is_limited = true;
            }
            match receive(&*self.transport) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result.map_err(in_words),
            }
        }
    }
}

/// Lets the transport wait until then and no longer.
///
/// # Errors
/// The time is over.
pub(crate) fn limit(transport: &dyn Transport, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left < Duration::from_millis(1) {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => transport.set_receive_timeout(Some(left)),
    }
}

fn cut_short() -> io::Error {
    let text = "the other side closed the connection in the middle of a message";
    io::Error::new(io::ErrorKind::UnexpectedEof, text)
}
