//! TLS over another transport, and the files that it needs.
//!
//! One state serves both directions, so it is behind a lock that is held for the cipher's
//! arithmetic and never while a socket is waited for. Encrypted bytes are sent in the order in
//! which they were made: that is what the lock around sending is for.
//!
//! Certificates lie in a directory, under the names that nbdkit, QEMU and libnbd use:
//! `ca-cert.pem`, `server-cert.pem`, `server-key.pem`, `client-cert.pem`, `client-key.pem`.
//!
//! *Deliberately absent*: pre-shared keys. `rustls` does not have them.

use crate::receiver::limit;
use crate::transport::{Transport, send_all_until};
use cenote_base::rt::{Instant, Mutex, ranks};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
};
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Encrypted bytes that are received at once: a record and its header fit.
const RECEIVE_BYTES: usize = 18 << 10;

/// How long the end of TLS may take to be sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// Why TLS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or has the wrong contents.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The system has no trusted certificates.
    #[error("the system has no certificates to trust; install ca-certificates")]
    NoRoots,
    /// The certificate and key do not go together, or cannot be used.
    #[error("the certificates cannot be used: {0}")]
    Unusable(String),
    /// The host's name is none that a certificate can have.
    #[error("'{0}' is no host name that a certificate can have")]
    HostName(String),
}

fn at(path: &Path, reason: impl ToString) -> TlsError {
    TlsError::File {
        path: path.into(),
        reason: reason.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| at(path, error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found.map_err(|error| at(path, error))? {
        found if found.is_empty() => Err(at(path, "there are no certificates in it")),
        found => Ok(found),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| at(path, error))?;
    }
    Ok(roots)
}

fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| at(path, error))
}

fn unusable(error: impl ToString) -> TlsError {
    TlsError::Unusable(error.to_string())
}

/// How a server identifies itself: by `server-cert.pem` and `server-key.pem` of `directory`.
///
/// With `checks_clients` a client needs a certificate that `ca-cert.pem` has signed.
///
/// # Errors
/// The files are missing or unusable.
pub fn server_config(
    directory: &Path,
    checks_clients: bool,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match checks_clients {
        false => builder.with_no_client_auth(),
        true => {
            let roots = Arc::new(roots(&directory.join("ca-cert.pem"))?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            builder.with_client_cert_verifier(verifier.build().map_err(unusable)?)
        }
    };
    let chain = certificates(&directory.join("server-cert.pem"))?;
    let key = key(&directory.join("server-key.pem"))?;
    let config = builder.with_single_cert(chain, key).map_err(unusable)?;
    Ok(Arc::new(config))
}

/// The certificates that a client trusts: `ca-cert.pem` of `directory`, or the system's.
///
/// If the directory has `client-cert.pem`, the client identifies itself with it.
///
/// # Errors
/// The files are missing or unusable.
pub fn client_config(directory: Option<&Path>) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let Some(directory) = directory else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return match roots.is_empty() {
            true => Err(TlsError::NoRoots),
            false => Ok(Arc::new(
                builder.with_root_certificates(roots).with_no_client_auth(),
            )),
        };
    };
    let builder = builder.with_root_certificates(roots(&directory.join("ca-cert.pem"))?);
    let own = directory.join("client-cert.pem");
    if !own.exists() {
        return Ok(Arc::new(builder.with_no_client_auth()));
    }
    let key = key(&directory.join("client-key.pem"))?;
    let config = builder.with_client_auth_cert(certificates(&own)?, key);
    Ok(Arc::new(config.map_err(unusable)?))
}

/// The name that a server's certificate has to have.
///
/// # Errors
/// It is no such name.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::HostName(host.to_owned()))
}

/// Encrypted bytes that arrived, and how many of them were decrypted.
#[derive(Debug)]
struct Received {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

/// An encrypted connection.
#[derive(Debug)]
pub struct Tls {
    inner: Arc<dyn Transport>,
    state: Mutex<Connection, ranks::NbdTls>,
    received: Mutex<Received, ranks::NbdTlsReceive>,
    /// The bytes that were encrypted last.
    sending: Mutex<Vec<u8>, ranks::NbdTlsSend>,
    /// How long a piece may take to be sent, in milliseconds; 0 for ever.
    send_limit: AtomicU64,
    /// Nothing is received any more, because this side wants so.
    is_read_shut: AtomicBool,
}

/// Lets rustls do the handshake over a transport.
struct Handshake<'a>(&'a dyn Transport, Instant);

impl Read for Handshake<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        limit(self.0, self.1)?;
        self.0.receive(buffer).map_err(crate::transport::in_words)
    }
}

impl Write for Handshake<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(&[IoSlice::new(bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Tls {
    /// Waits for a client's handshake, until `deadline`.
    ///
    /// # Errors
    /// The client does not want to, or has no certificate that it needs.
    pub fn accept(
        inner: Arc<dyn Transport>,
        config: &Arc<ServerConfig>,
        deadline: Instant,
    ) -> io::Result<Self> {
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Self::begin(inner, connection.into(), deadline)
    }

    /// Does the handshake with a server, until `deadline`.
    ///
    /// # Errors
    /// The certificate does not match the name, or the server does not trust this client.
    pub fn connect(
        inner: Arc<dyn Transport>,
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        deadline: Instant,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(Arc::clone(config), name);
        Self::begin(
            inner,
            connection.map_err(io::Error::other)?.into(),
            deadline,
        )
    }

    fn begin(
        inner: Arc<dyn Transport>,
        mut connection: Connection,
        deadline: Instant,
    ) -> io::Result<Self> {
        let mut handshake = Handshake(&*inner, deadline);
        while connection.is_handshaking() {
            connection.complete_io(&mut handshake)?;
        }
        while connection.wants_write() {
            connection.write_tls(&mut handshake)?;
        }
        Ok(Self {
            inner,
            state: Mutex::new(connection),
            received: Mutex::new(Received {
                buffer: vec![0; RECEIVE_BYTES].into_boxed_slice(),
                start: 0,
                end: 0,
            }),
            sending: Mutex::new(Vec::new()),
            send_limit: AtomicU64::new(0),
            is_read_shut: AtomicBool::new(false),
        })
    }

    /// Takes decrypted bytes, and decrypts what came; `None` when there is nothing to decrypt.
    fn decrypt(&self, received: &mut Received, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut state = self.state.lock();
        loop {
            match state.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            if received.start == received.end {
                return Ok(None);
            }
            let mut rest = &received.buffer[received.start..received.end];
            received.start += state.read_tls(&mut rest)?;
            state
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Sends the protocol's own messages, unless another thread is sending already.
    fn send_own(&self) -> io::Result<()> {
        if !self.state.lock().wants_write() {
            return Ok(());
        }
        match self.sending.try_lock() {
            Some(mut sending) => self.send_encrypted(&mut sending),
            None => Ok(()),
        }
    }

    /// Sends all that is encrypted already, in one piece, to which the limit of [`Self::send`]
    /// applies.
    fn send_encrypted(&self, sending: &mut Vec<u8>) -> io::Result<()> {
        let deadline = match self.send_limit.load(Ordering::Relaxed) {
            0 => None,
            limit => Instant::now().checked_add(Duration::from_millis(limit)),
        };
        sending.clear();
        let mut state = self.state.lock();
        while state.wants_write() {
            state.write_tls(&mut &mut *sending)?;
        }
        drop(state);
        send_all_until(&*self.inner, &mut [IoSlice::new(sending)], deadline)
    }
}

impl Transport for Tls {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut received = self.received.lock();
        loop {
            if let Some(count) = self.decrypt(&mut received, buffer)? {
                return Ok(count);
            }
            self.send_own()?;
            let count = self.inner.receive(&mut received.buffer)?;
            if count == 0 && self.is_read_shut.load(Ordering::Acquire) {
                return Ok(0);
            }
            if count == 0 {
                let text = "the connection ended without the end of TLS";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            (received.start, received.end) = (0, count);
        }
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut sending = self.sending.lock();
        let count = self.state.lock().writer().write_vectored(slices)?;
        self.send_encrypted(&mut sending)?;
        Ok(count)
    }

    fn set_receive_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.inner.set_receive_timeout(limit)
    }

    fn set_send_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        let millis = limit.map_or(0, |limit| {
            u64::try_from(limit.as_millis()).unwrap_or(0).max(1)
        });
        self.send_limit.store(millis, Ordering::Relaxed);
        self.inner.set_send_timeout(limit)
    }

    fn shutdown(&self, how: Shutdown) {
        self.is_read_shut
            .fetch_or(how != Shutdown::Write, Ordering::AcqRel);
        if how != Shutdown::Read
            && let Some(mut sending) = self.sending.try_lock()
        {
            self.state.lock().send_close_notify();
            let _ = self.set_send_timeout(Some(FAREWELL));
            // The other side may be gone already.
            let _ = self.send_encrypted(&mut sending);
        }
        self.inner.shutdown(how);
    }

    fn is_encrypted(&self) -> bool {
        true
    }
}
