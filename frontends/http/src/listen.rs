//! Where clients come from: addresses, the sockets that listen on them, and streams of bytes.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 4096;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A port of a TCP address.
    Tcp {
        /// The address; port 0 lets the system choose one.
        address: SocketAddr,
        /// Whether clients speak TLS.
        is_tls: bool,
    },
    /// A unix socket, which any user may connect to: it is for a proxy on the same machine, and the
    /// permissions of its directory limit access.
    Unix(PathBuf),
}

/// An address that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no address to listen on: {reason}; give ADDRESS:PORT, tls:ADDRESS:PORT or \
     unix:PATH"
)]
pub struct AddressError {
    /// What was given.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Address {
    /// Reads `127.0.0.1:8080`, `[::]:80`, `localhost:8080`, `tls:[::]:443` or `unix:/run/http`.
    ///
    /// # Errors
    /// It is none of these, or the name has no address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let error = |reason: String| AddressError {
            text: text.to_owned(),
            reason,
        };
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(error("the path is missing".to_owned())),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let plain = text.strip_prefix("tls:");
        let mut found = plain
            .unwrap_or(text)
            .to_socket_addrs()
            .map_err(|reason| error(reason.to_string()))?;
        let address = found
            .next()
            .ok_or_else(|| error("the name has no address".to_owned()))?;
        Ok(Self::Tcp {
            address,
            is_tls: plain.is_some(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp {
                address,
                is_tls: true,
            } => write!(f, "tls:{address}"),
            Self::Tcp { address, .. } => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// A stream that was just accepted; it does not block.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

/// An address with its socket, which does not block.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Socket,
    pub is_tls: bool,
}

impl Listener {
    /// Listens on a unix socket that only the user of this process, and root, may connect to.
    ///
    /// # Errors
    /// The path is in use or too long, or nothing can be made there.
    pub fn private(path: &Path) -> io::Result<Self> {
        Ok(Self {
            socket: unix(path, 0o600)?,
            is_tls: false,
        })
    }

    /// Listens on an address.
    ///
    /// # Errors
    /// The address is in use, not this machine's, or needs rights that the process does not have.
    pub fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { address, is_tls } => Ok(Self {
                socket: tcp(*address)?,
                is_tls: *is_tls,
            }),
            Address::Unix(path) => Ok(Self {
                // What is served is public; a proxy may run as another user.
                socket: unix(path, 0o666)?,
                is_tls: false,
            }),
        }
    }

    /// Where it really listens: with the port that the system chose.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match &self.socket {
            Socket::Tcp(listener) => Address::Tcp {
                address: listener.local_addr()?,
                is_tls: self.is_tls,
            },
            Socket::Unix(_, path) => Address::Unix(path.clone()),
        })
    }

    /// # Errors
    /// No client is waiting, or the system has no room for another connection.
    pub fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, address) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(Accepted::Tcp(stream, address))
            }
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Accepted::Unix(stream))
            }
        }
    }
}

/// Listens on a port of one family: `[::]:80` leaves `0.0.0.0:80` to another socket, so that a
/// server can have both. By the system's default it would take the port of IPv4, too.
fn tcp(address: SocketAddr) -> io::Result<Socket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = rustix::net::socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // Connections of a server that just ended do not keep the port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    // The standard library's queue is short for a server.
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Socket::Tcp(TcpListener::from(socket)))
}

/// Listens on a unix socket. A leftover socket without a listener is replaced.
fn unix(path: &Path, mode: u32) -> io::Result<Socket> {
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && metadata.file_type().is_socket()
    {
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path)?;
            }
            _ => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // No client can connect before it listens, so none gets in with other permissions.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(Socket::Unix(UnixListener::from(socket), path.into()))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Socket::Unix(_, path) = &self.socket {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for text in ["127.0.0.1:80", "[::1]:8080", "tls:[::]:443", "unix:/run/a"] {
            let address = Address::parse(text).expect("an address");
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "80", "unix:", "tls:", "1.2.3.4", "[::1", "a b:80"] {
            let error = Address::parse(text).expect_err("none").to_string();
            assert!(error.contains("unix:PATH"), "{error}");
        }
    }

    /// The handbook's example listens on `0.0.0.0:80` and `[::]:80`. The second one failed with
    /// "Address already in use": a socket of IPv6 takes the port of IPv4, too, by default.
    #[test]
    fn one_port_of_both_families_can_be_listened_on() {
        let any = |text: &str| Listener::bind(&Address::parse(text).expect("an address"));
        if any("[::]:0").is_err() {
            return; // This machine has no IPv6.
        }
        let both = || {
            let first = any("[::]:0").ok()?;
            let Ok(Address::Tcp { address, .. }) = first.address() else {
                return None;
            };
            let second = any(&format!("0.0.0.0:{}", address.port())).ok()?;
            Some((first, second, address.port()))
        };
        // Another program may have the port of IPv4, but not twenty times.
        let found = (0..20).find_map(|_| both());
        let (_first, second, port) = found.expect("the port of IPv4 is free");
        let client = TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let accepted = loop {
            match second.accept() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                accepted => break accepted.expect("accepted"),
            }
        };
        let Accepted::Tcp(_, address) = accepted else {
            panic!("not a TCP connection");
        };
        assert_eq!(Some(address), client.local_addr().ok());
        let error = any(&format!("[::]:{port}")).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_socket_without_a_listener_is_replaced_and_one_with_a_listener_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("http");
        drop(UnixListener::bind(&path).expect("a socket"));
        let address = Address::Unix(path.clone());
        let first = Listener::bind(&address).expect("it replaces it");
        let error = Listener::bind(&address).expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert!(!path.exists());
        std::fs::write(&path, "a file").expect("room");
        assert!(Listener::bind(&address).is_err());
        assert!(path.exists());
    }

    #[test]
    fn a_private_socket_is_for_its_own_user() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("http");
        let mode = || {
            let metadata = std::fs::metadata(&path).expect("it is there");
            metadata.permissions().mode() & 0o777
        };
        let private = Listener::private(&path).expect("a socket");
        assert_eq!(mode(), 0o600);
        drop(private);
        let _public = Listener::bind(&Address::Unix(path.clone())).expect("a socket");
        assert_eq!(mode(), 0o666);
        let long = directory.path().join("x".repeat(120));
        assert!(Listener::private(&long).is_err());
    }
}
