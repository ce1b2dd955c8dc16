//! Connects to a server and agrees with it on an export.

use crate::error::NbdError;
use crate::location::{Location, Place, TlsOptions};
use crate::own::is_own;
use crate::protocol::handshake::{
    ANSWER_SIZE, AnswerHeader, FIXED_NEWSTYLE, GREETING_SIZE, Info, InfoQuery, NO_ZEROES,
    decode_greeting, encode_option,
};
use crate::protocol::reply::ReplyStyle;
use crate::protocol::{PAYLOAD_BYTES_MAX, answer, export_flag, info, option};
use crate::receiver::Receiver;
use crate::tls::{Tls, client_config, server_name};
use crate::transport::{Socket, Transport, send_bytes};
use cenote_base::rt::{self, Instant};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an answer to an option.
const ANSWER_BYTES_MAX: u32 = 64 << 10;
/// How long a connection rests that no server accepts yet.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Answers to one option.
const ANSWERS_MAX: usize = 64;
/// The largest request that is sent, whatever the server takes.
const REQUEST_BYTES_MAX: u32 = 8 << 20;

/// What a server says about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// In bytes.
    pub size: u64,
    /// See [`export_flag`].
    pub flags: u16,
    /// Offsets and lengths are multiples of it.
    pub minimum: u32,
    /// What does best.
    pub preferred: u32,
    /// Data of one request at most.
    pub maximum: u32,
}

impl Export {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// A connection that is ready for requests.
#[derive(Debug)]
pub(crate) struct Negotiated {
    pub transport: Arc<dyn Transport>,
    pub receiver: Receiver,
    pub export: Export,
    pub style: ReplyStyle,
    /// The address that the server was found at.
    pub peer: String,
}

/// Connects to the export, until `deadline`.
pub(crate) fn connect(location: &Location, deadline: Instant) -> Result<Negotiated, NbdError> {
    agree(Handshake::begin(location, deadline)?, &location.export)
}

/// Agrees on how replies look, and begins the transmission.
fn agree(mut handshake: Handshake, export: &str) -> Result<Negotiated, NbdError> {
    let style = [
        (option::EXTENDED_HEADERS, ReplyStyle::Extended),
        (option::STRUCTURED_REPLY, ReplyStyle::Structured),
    ];
    let mut agreed = ReplyStyle::Simple;
    for (option, style) in style {
        if agreed == ReplyStyle::Simple && handshake.ask(option, &[], |_| Ok(()))?.is_ok() {
            agreed = style;
        }
    }
    let export = handshake.export(option::GO, export)?;
    handshake.receiver.set_deadline(None)?;
    Ok(Negotiated {
        transport: handshake.transport,
        receiver: handshake.receiver,
        export,
        style: agreed,
        peer: handshake.peer,
    })
}

/// Asks the server for the export's current size and flags, on a connection of its own.
pub(crate) fn ask(location: &Location, deadline: Instant) -> Result<Export, NbdError> {
    let mut handshake = Handshake::begin(location, deadline)?;
    let export = handshake.export(option::INFO, &location.export)?;
    // The server ends the connection anyway.
    let _ = send_bytes(&*handshake.transport, &encode_option(option::ABORT, &[]));
    Ok(export)
}

/// Agrees with a server whose bytes are there already.
pub(crate) fn agree_over(transport: Arc<dyn Transport>) -> Result<Negotiated, NbdError> {
    let deadline = Instant::now() + Duration::from_secs(60);
    agree(Handshake::greet(transport, deadline)?, "")
}

/// Connects to a socket of this machine. If no server accepts, connect(2) waits for ever.
fn open_unix(path: &Path, deadline: Instant) -> io::Result<UnixStream> {
    use rustix::net;
    let address = net::SocketAddrUnix::new(path)?;
    let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
    let (family, kind) = (net::AddressFamily::UNIX, net::SocketType::STREAM);
    let socket = net::socket_with(family, kind, flags, None)?;
    loop {
        match net::connect(&socket, &address) {
            Ok(()) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) if Instant::now() < deadline => rt::sleep(ACCEPT_PAUSE),
            Err(rustix::io::Errno::AGAIN) => {
                let text = "the server does not accept connections";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn open(place: &Place, deadline: Instant) -> io::Result<Socket> {
    let left = || {
        let left = deadline.saturating_duration_since(Instant::now());
        left.max(Duration::from_millis(1))
    };
    match place {
        Place::Unix(path) => Ok(Socket::Unix(open_unix(path, deadline)?)),
        Place::Tcp(host, port) => {
            let mut error = None;
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, left()) {
                    Ok(stream) => return Socket::tcp(stream),
                    Err(failed) => error = Some(failed),
                }
            }
            let none = || io::Error::new(io::ErrorKind::NotFound, "the host has no address");
            Err(error.unwrap_or_else(none))
        }
    }
}

struct Handshake {
    transport: Arc<dyn Transport>,
    receiver: Receiver,
    peer: String,
}

/// The address of the other end: the same for all names of a host.
fn peer_of(socket: &Socket, place: &Place) -> String {
    let address = match socket {
        Socket::Tcp(stream) => stream.peer_addr().ok(),
        Socket::Unix(_) => None,
    };
    match (address, place) {
        (Some(address), _) => format!("{}:{}", address.ip().to_canonical(), address.port()),
        (None, Place::Tcp(host, port)) => format!("{host}:{port}"),
        (None, Place::Unix(path)) => {
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            path.to_string_lossy().into_owned()
        }
    }
}

impl Handshake {
    fn begin(location: &Location, deadline: Instant) -> Result<Self, NbdError> {
        let socket = open(&location.place, deadline)?;
        socket.set_send_timeout(Some(location.timeout))?;
        let socket = Arc::new(socket);
        let mut handshake = Self::greet(Arc::clone(&socket) as Arc<dyn Transport>, deadline)?;
        if location.must_be_foreign && is_own(&socket) {
            return Err(NbdError::Own);
        }
        handshake.peer = peer_of(&socket, &location.place);
        if let Some(tls) = &location.tls {
            handshake.start_tls(tls, deadline)?;
            handshake
                .transport
                .set_send_timeout(Some(location.timeout))?;
        }
        Ok(handshake)
    }

    /// Reads the server's greeting, and answers it.
    fn greet(transport: Arc<dyn Transport>, deadline: Instant) -> Result<Self, NbdError> {
        let mut receiver = Receiver::new(Arc::clone(&transport));
        receiver.set_deadline(Some(deadline))?;
        let mut greeting = [0; GREETING_SIZE];
        receiver.fill(&mut greeting)?;
        let flags = decode_greeting(&greeting)?;
        if flags & FIXED_NEWSTYLE == 0 {
            return Err(NbdError::Broken("it does not know fixed newstyle"));
        }
        let flags = u32::from(FIXED_NEWSTYLE | (flags & NO_ZEROES));
        send_bytes(&*transport, &flags.to_be_bytes())?;
        Ok(Self {
            transport,
            receiver,
            peer: String::new(),
        })
    }

    fn start_tls(&mut self, tls: &TlsOptions, deadline: Instant) -> Result<(), NbdError> {
        let config = client_config(tls.certificates.as_deref())?;
        let name = server_name(&tls.host)?;
        let asked = self.ask(option::STARTTLS, &[], |_| Ok(()))?;
        asked.map_err(NbdError::NoTls)?;
        if self.receiver.has_more() {
            return Err(NbdError::Broken("it sent bytes before TLS began"));
        }
        let inner = Arc::clone(&self.transport);
        self.transport = Arc::new(Tls::connect(inner, &config, name, deadline)?);
        self.receiver = Receiver::new(Arc::clone(&self.transport));
        self.receiver.set_deadline(Some(deadline))?;
        Ok(())
    }

    /// Sends an option, and hands answers to `take` until the last one. The inner error is the
    /// server's text.
    fn ask(
        &mut self,
        option: u32,
        data: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), NbdError>,
    ) -> Result<Result<(), String>, NbdError> {
        send_bytes(&*self.transport, &encode_option(option, data))?;
        for _ in 0..ANSWERS_MAX {
            let mut header = [0; ANSWER_SIZE];
            self.receiver.fill(&mut header)?;
            let header = AnswerHeader::decode(&header)?;
            if header.option != option || header.length > ANSWER_BYTES_MAX {
                return Err(NbdError::Broken("an answer belongs to another option"));
            }
            let mut data = vec![0; header.length as usize];
            self.receiver.fill(&mut data)?;
            match header.answer {
                answer::ACK => return Ok(Ok(())),
                answer::INFO => take(&data)?,
                error if error & answer::ERROR != 0 => {
                    let text = String::from_utf8_lossy(&data).into_owned();
                    return Ok(Err(match (text.is_empty(), error) {
                        (false, _) => text,
                        (true, answer::UNKNOWN) => "there is no such export".to_owned(),
                        (true, answer::TLS_REQUIRED) => {
                            "it is served over TLS only; connect with nbds://".to_owned()
                        }
                        (true, answer::POLICY) => "not for this client".to_owned(),
                        (true, _) => format!("error {:#x}", error & !answer::ERROR),
                    }));
                }
                _ => {}
            }
        }
        Err(NbdError::Broken("it answers without end"))
    }

    fn export(&mut self, option: u32, name: &str) -> Result<Export, NbdError> {
        let query = InfoQuery {
            name,
            wanted: vec![info::BLOCK_SIZE],
        };
        let (mut found, mut sizes) = (None, (1, 4096, PAYLOAD_BYTES_MAX));
        let take = |data: &[u8]| {
            match Info::decode(data)? {
                Info::Export { size, flags } => found = Some((size, flags)),
                Info::BlockSize {
                    minimum,
                    preferred,
                    maximum,
                } => sizes = (minimum, preferred, maximum),
                _ => {}
            }
            Ok(())
        };
        let asked = self.ask(option, &query.encode(), take)?;
        asked.map_err(NbdError::Refused)?;
        let (size, flags) = found.ok_or(NbdError::Broken("it does not say the size"))?;
        let (minimum, preferred, maximum) = sizes;
        if !minimum.is_power_of_two() || minimum > 64 << 10 || maximum < minimum {
            return Err(NbdError::Broken("its block sizes make no sense"));
        }
        let maximum = maximum.min(REQUEST_BYTES_MAX);
        Ok(Export {
            size: size - size % u64::from(minimum),
            flags: match flags & export_flag::HAS_FLAGS {
                0 => 0,
                _ => flags,
            },
            minimum,
            preferred,
            maximum: maximum - maximum % minimum,
        })
    }
}
