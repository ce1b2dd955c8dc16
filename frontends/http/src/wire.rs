//! A client's stream, which counts what goes through it.
//!
//! Of a stream without TLS it has to be seen which protocol the client speaks: one of HTTP/2 begins
//! with a preface that is no request of HTTP/1. The bytes that were read to see it are given to
//! the protocol before those that follow.

use crate::links::Link;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
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
    /// What was read before the protocol was known.
    seen: [u8; PREFACE.len()],
    seen_len: usize,
    seen_at: usize,
}

impl Wire {
    pub fn new(stream: Stream, link: Arc<Link>) -> Self {
        Self {
            stream,
            link,
            seen: [0; PREFACE.len()],
            seen_len: 0,
            seen_at: 0,
        }
    }

    /// Whether the client speaks HTTP/2. Reads until that is certain.
    ///
    /// # Errors
    /// The stream's; and an end before the first byte.
    pub async fn is_h2(&mut self) -> io::Result<bool> {
        while self.seen_len < PREFACE.len() {
            let space = &mut self.seen[self.seen_len..];
            let count = match &self.stream {
                Stream::Tcp(stream) => {
                    stream.readable().await?;
                    stream.try_read(space)
                }
                Stream::Unix(stream) => {
                    stream.readable().await?;
                    stream.try_read(space)
                }
                Stream::Tls(stream) => {
                    return Ok(stream.get_ref().1.alpn_protocol() == Some(b"h2"));
                }
            };
            let count = match count {
                Ok(0) if self.seen_len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            self.link.received();
            self.seen_len += count;
            if self.seen[..self.seen_len] != PREFACE[..self.seen_len] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn note(&self, written: &Poll<io::Result<usize>>) {
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
        let this = &mut *self;
        if this.seen_at < this.seen_len {
            let rest = &this.seen[this.seen_at..this.seen_len];
            let count = rest.len().min(to.remaining());
            to.put_slice(&rest[..count]);
            this.seen_at += count;
            return Poll::Ready(Ok(()));
        }
        let before = to.filled().len();
        let result = match &mut this.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, to),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, to),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_read(context, to),
        };
        if to.filled().len() > before {
            this.link.received();
        }
        result
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
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(context),
        }
    }
}
