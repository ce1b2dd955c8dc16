//! How a connection begins: a socket, perhaps to a proxy, and TLS.
//!
//! A proxy *forwards* requests of HTTP, which then say the whole address, and *carries*
//! connections of HTTPS, which it cannot look into.

use crate::setup::{AGENT, Setup};
use http::header::USER_AGENT;
use http::{HeaderMap, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// How long nothing may come before the kernel asks whether the other end is there.
const PROBE_AFTER: Duration = Duration::from_secs(15);
/// How long it waits for each answer.
const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How often it asks.
const PROBES: u32 = 6;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Opening<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// Bytes both ways.
trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// A connection to a server, or to a proxy that forwards requests.
pub(crate) struct Stream {
    line: Box<dyn Duplex>,
    is_forwarded: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.line).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.line.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.line).poll_write_vectored(context, pieces)
    }
}

/// Connects to an address itself.
#[derive(Clone)]
struct Direct {
    sockets: HttpConnector,
    tls: TlsConnector,
}

impl Direct {
    async fn open(mut self, to: Uri) -> Result<Box<dyn Duplex>, Failure> {
        let socket = self.sockets.call(to.clone()).await?.into_inner();
        match to.scheme_str() {
            Some("https") => self.secure(&to, socket).await,
            Some("http") => Ok(Box::new(socket)),
            _ => Err(format!("'{to}' is no address of HTTP").into()),
        }
    }

    async fn secure(
        &self,
        to: &Uri,
        line: impl Duplex + 'static,
    ) -> Result<Box<dyn Duplex>, Failure> {
        let host = to.host().unwrap_or_default();
        // An address of IPv6 stands in brackets.
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let name = ServerName::try_from(bare.unwrap_or(host).to_owned())?;
        Ok(Box::new(self.tls.connect(name, line).await?))
    }
}

impl Service<Uri> for Direct {
    type Response = TokioIo<Box<dyn Duplex>>;
    type Error = Failure;
    type Future = Opening<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let direct = self.clone();
        Box::pin(async move { Ok(TokioIo::new(direct.open(to).await?)) })
    }
}

/// Connects to an address, by way of a proxy where there is one for it.
#[derive(Clone)]
pub(crate) struct Connector {
    direct: Direct,
    proxies: Option<Arc<Matcher>>,
    limit: Duration,
}

impl Connector {
    pub(crate) fn new(setup: Setup, proxies: Option<Arc<Matcher>>) -> Self {
        let mut sockets = HttpConnector::new();
        sockets.enforce_http(false);
        sockets.set_nodelay(true);
        sockets.set_connect_timeout(Some(setup.connecting));
        sockets.set_keepalive(Some(PROBE_AFTER));
        sockets.set_keepalive_interval(Some(PROBE_EVERY));
        sockets.set_keepalive_retries(Some(PROBES));
        sockets.set_tcp_user_timeout(Some(setup.unacknowledged));
        let tls = TlsConnector::from(Arc::new(setup.tls));
        Self {
            direct: Direct { sockets, tls },
            proxies,
            limit: setup.connecting,
        }
    }

    async fn open(self, to: Uri) -> Result<TokioIo<Stream>, Failure> {
        let proxy = self.proxies.and_then(|proxies| proxies.intercept(&to));
        let is_carried = to.scheme_str() == Some("https");
        let is_forwarded = proxy.is_some() && !is_carried;
        let line = match proxy {
            None => self.direct.open(to).await?,
            Some(proxy) if is_carried => carried(self.direct, &proxy, to).await?,
            Some(proxy) => self.direct.open(proxy.uri().clone()).await?,
        };
        Ok(TokioIo::new(Stream { line, is_forwarded }))
    }
}

/// A connection that a proxy carries.
async fn carried(direct: Direct, proxy: &Intercept, to: Uri) -> Result<Box<dyn Duplex>, Failure> {
    let agent = HeaderMap::from_iter([(USER_AGENT, AGENT)]);
    let mut tunnel = Tunnel::new(proxy.uri().clone(), direct.clone()).with_headers(agent);
    if let Some(key) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(key.clone());
    }
    let line = tunnel.call(to.clone()).await?;
    direct.secure(&to, line.into_inner()).await
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Failure;
    type Future = Opening<Self::Response>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let opened = tokio::time::timeout(connector.limit, connector.open(to)).await;
            opened.unwrap_or_else(|_| {
                let slow = io::Error::new(io::ErrorKind::TimedOut, "operation timed out");
                Err(slow.into())
            })
        })
    }
}
