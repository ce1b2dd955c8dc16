//! One connection: TLS, the protocol, and its end.
//!
//! A connection of HTTP/1 that is kept alive is idle most of the time. hyper keeps buffers of 16
//! KiB for it all that time. So a connection that was idle for a while is taken from hyper, which
//! frees them. It is passed to hyper again with the first bytes of the next request. HTTP/2 sends
//! frames between requests, too, and stays with hyper.

use crate::either::either;
use crate::flight::Shared;
use crate::links::{Link, Presence};
use crate::listen::Accepted;
use crate::options::{Limits, Rules};
use crate::service::Service;
use crate::wire::{Stream, Wire};
use crate::worker::Load;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::AsyncWrite;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

/// Bytes that a connection takes of answers before its client does.
const SEND_BUFFER: usize = 64 << 10;

/// A client that was accepted.
pub(crate) struct Client {
    pub shared: Arc<Shared>,
    pub link: Arc<Link>,
    pub rules: Arc<Rules>,
    /// With what TLS is spoken, if it is.
    pub tls: Option<Arc<ServerConfig>>,
    /// Becomes true when the server ends.
    pub ending: watch::Receiver<bool>,
    pub presence: Presence,
}

impl Client {
    /// Serves it until it leaves or the server ends.
    pub async fn serve(self, accepted: Accepted, load: Load) {
        let _load = load;
        let Self {
            shared,
            link,
            rules,
            tls,
            ending,
            presence,
        } = self;
        let _presence = presence;
        let limits = rules.limits();
        let handshake = tokio::time::timeout(limits.head_time, stream(accepted, tls));
        let Ok(Ok(stream)) = handshake.await else {
            return;
        };
        let mut wire = Wire::new(stream, Arc::clone(&link));
        let mut ended = ending.clone();
        let is_h2 = {
            let ended = ended.wait_for(|ends| *ends);
            let Some(Ok(is_h2)) = either(wire.is_h2(), ended).await else {
                return;
            };
            is_h2
        };
        let io = TokioIo::new(wire);
        let service = Service {
            shared: Arc::clone(&shared),
            link: Arc::clone(&link),
        };
        if is_h2 {
            link.set_h2();
            link.set_resting(false);
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .max_concurrent_streams(limits.streams)
                .max_send_buf_size(SEND_BUFFER)
                .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX));
            let mut connection = Box::pin(builder.serve_connection(io, service));
            run(
                connection.as_mut(),
                ending,
                http2::Connection::graceful_shutdown,
            )
            .await;
        } else {
            serve_h1(io, service, (limits, &link), ending).await;
        }
    }
}

fn h1(limits: &Limits) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .max_headers(limits.headers)
        .max_header_size(limits.head_bytes)
        .max_buf_size(SEND_BUFFER.max(limits.head_bytes));
    builder
}

/// Serves requests of HTTP/1 until the client leaves or the server ends.
async fn serve_h1(
    mut io: TokioIo<Wire>,
    mut service: Service,
    (limits, link): (&Limits, &Link),
    ending: watch::Receiver<bool>,
) {
    loop {
        let mut connection = Box::pin(h1(limits).serve_connection(io, service));
        link.set_resting(false);
        let is_over = {
            let shut_down = http1::Connection::graceful_shutdown;
            let served = run(connection.as_mut(), ending.clone(), shut_down);
            either(served, link.may_rest()).await.is_some()
        };
        if is_over {
            return;
        }
        let parts = Pin::into_inner(connection).into_parts();
        let mut wire = parts.io.into_inner();
        wire.give_back(&parts.read_buf);
        drop(parts.read_buf);
        link.set_resting(true);
        let mut ended = ending.clone();
        let ended = ended.wait_for(|ends| *ends);
        let Some(Ok(true)) = either(wire.wait(), ended).await else {
            // How a client leaves is its own business.
            let _ = poll_fn(|context| Pin::new(&mut wire).poll_shutdown(context)).await;
            return;
        };
        (io, service) = (TokioIo::new(wire), parts.service);
    }
}

/// The stream of an accepted client, after the handshake of TLS.
async fn stream(accepted: Accepted, tls: Option<Arc<ServerConfig>>) -> io::Result<Stream> {
    Ok(match (accepted, tls) {
        (Accepted::Tcp(stream, _), None) => Stream::Tcp(TcpStream::from_std(stream)?),
        (Accepted::Tcp(stream, _), Some(config)) => {
            let stream = TcpStream::from_std(stream)?;
            // Its state is large, and must not make the task of each connection as large.
            let handshake = Box::pin(TlsAcceptor::from(config).accept(stream));
            Stream::Tls(Box::new(handshake.await?))
        }
        (Accepted::Unix(stream), _) => Stream::Unix(UnixStream::from_std(stream)?),
    })
}

/// Drives a connection to its end; when the server ends, no further request is taken.
async fn run<C, E>(
    mut connection: Pin<&mut C>,
    mut ending: watch::Receiver<bool>,
    shut_down: fn(Pin<&mut C>),
) where
    C: Future<Output = Result<(), E>>,
{
    let is_over = {
        let ended = ending.wait_for(|ends| *ends);
        either(connection.as_mut(), ended).await.is_some()
    };
    if !is_over {
        shut_down(connection.as_mut());
        // How a client leaves is its own business.
        let _ = connection.await;
    }
}

/// Reports to a client that there are too many, as far as possible without waiting.
pub(crate) fn refuse(accepted: Accepted, is_tls: bool) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
        Content-Length: 42\r\nRetry-After: 60\r\nConnection: close\r\n\r\n\
        There are too many connections; try later\n";
    if is_tls {
        return;
    }
    // A client that cannot receive it at once gets no answer.
    let _ = match accepted {
        Accepted::Tcp(mut stream, _) => stream.write(ANSWER),
        Accepted::Unix(mut stream) => stream.write(ANSWER),
    };
}
