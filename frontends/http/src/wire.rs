//! A client's stream, which counts what goes through it.
//!
//! Of a stream without TLS it has to be seen which protocol the client speaks: one of HTTP/2 begins
//! with a preface that is no request of HTTP/1. The bytes that were read to see it are given to
//! the protocol before those that follow. So are the first bytes of a request that a resting
//! connection waited for.

use crate::links::Link;
use bytes::{Buf, Bytes};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

/// What a client of HTTP/2 sends first (RFC 9113, 3.4).
const PREFACE: [u8; 24] = *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What bytes go through.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A stream.
pub(crate) struct Wire {
    stream: Stream,
    link: Arc<Link>,
    /// What was read and belongs to the protocol.
    seen: Bytes,
}

impl Wire {
    pub fn new(stream: Stream, link: Arc<Link>) -> Self {
        Self {
            stream,
            link,
            seen: Bytes::new(),
        }
    }

    /// Whether the client speaks HTTP/2. Reads until that is certain.
    ///
    /// # Errors
    /// The stream's; and an end before the first byte.
    pub async fn is_h2(&mut self) -> io::Result<bool> {
        if let Stream::Tls(stream) = &self.stream {
            return Ok(stream.get_ref().1.alpn_protocol() == Some(b"h2"));
        }
        let (mut seen, mut length) = ([0; PREFACE.len()], 0);
        loop {
            let count = self.read_some(&mut seen[length..]).await?;
            length += count;
            let is_alike = seen[..length] == PREFACE[..length];
            if count > 0 && is_alike && length < PREFACE.len() {
                continue;
            }
            self.seen = Bytes::copy_from_slice(&seen[..length]);
            return match length {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                length => Ok(is_alike && length == PREFACE.len()),
            };
        }
    }

    /// Takes back what the protocol read and had no use for yet.
    pub fn give_back(&mut self, bytes: &[u8]) {
        // A copy: of an empty buffer, too, all memory would stay.
        self.seen = [bytes, &self.seen].concat().into();
        if !self.seen.is_empty() {
            self.link.received();
        }
    }

    /// Waits until there is something to read; false: the client has left.
    ///
    /// # Errors
    /// The stream's.
    pub async fn wait(&mut self) -> io::Result<bool> {
        if self.seen.is_empty() {
            let mut first = [0; PREFACE.len()];
            let count = self.read_some(&mut first).await?;
            self.seen = Bytes::copy_from_slice(&first[..count]);
        }
        Ok(!self.seen.is_empty())
    }

    async fn read_some(&mut self, to: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| {
            let mut to = ReadBuf::new(to);
            ready!(self.poll_stream(context, &mut to))?;
            Poll::Ready(Ok(to.filled().len()))
        })
        .await
    }

    fn poll_stream(
        &mut self,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let result = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, to),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, to),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_read(context, to),
        };
        if to.filled().len() > before {
            self.link.received();
        }
        result
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
        self.link.set_flushed(false);
        if let Poll::Ready(Ok(count)) = written {
            self.link.sent(*count);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.seen.is_empty() {
            return self.poll_stream(context, to);
        }
        let count = self.seen.len().min(to.remaining());
        to.put_slice(&self.seen[..count]);
        self.seen.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write(context, bytes),
        };
        self.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write_vectored(context, bytes),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_write_vectored(context, bytes),
        };
        self.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
        };
        if let Poll::Ready(Ok(())) = flushed {
            self.link.set_flushed(true);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
