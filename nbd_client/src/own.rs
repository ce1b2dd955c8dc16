//! Whether a server is this very process.
//!
//! A daemon that stores a pool on an export that it serves itself waits for itself sooner or later.
//! The protocol does not identify a server, but the system does: it knows the process that listens
//! on a unix socket, and the two ends of a TCP connection within this machine are sockets of the
//! same table. A server behind a proxy, or behind another machine, is not recognized.

use crate::transport::Socket;
use std::fs::{self, File};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of the system's table of connections to read at most: 200,000 connections.
const TABLE_BYTES_MAX: u64 = 32 << 20;

/// Whether the other end of a connection belongs to this process.
///
/// The server must have accepted the connection: ask once it has said something.
pub(crate) fn is_own(socket: &Socket) -> bool {
    match socket {
        Socket::Unix(stream) => {
            let peer = rustix::net::sockopt::socket_peercred(stream);
            peer.is_ok_and(|peer| peer.pid == rustix::process::getpid())
        }
        Socket::Tcp(stream) => {
            let ends = (stream.local_addr(), stream.peer_addr());
            let (Ok(ours), Ok(theirs)) = ends else {
                return false;
            };
            let inode = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
                .into_iter()
                .find_map(|table| inode_of(table, theirs, ours));
            inode.is_some_and(has_socket)
        }
    }
}

/// The socket between two addresses, if this machine has it.
fn inode_of(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let mut text = String::new();
    let file = File::open(table).ok()?;
    file.take(TABLE_BYTES_MAX).read_to_string(&mut text).ok()?;
    let wanted = (plain(local), plain(remote));
    text.lines().find_map(|line| {
        let (found, inode) = entry(line)?;
        (found == wanted).then_some(inode)
    })
}

type Ends = ((IpAddr, u16), (IpAddr, u16));

/// A line of the table: the two ends, and the number of the socket.
fn entry(line: &str) -> Option<(Ends, u64)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote) = (words.next()?, words.next()?);
    let inode = words.nth(6)?.parse().ok()?;
    Some(((address(local)?, address(remote)?), inode))
}

/// `0100007F:2A39`: words of 32 bits in this machine's order, and the port.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::with_capacity(16);
    for start in (0..address.len()).step_by(8) {
        let word = u32::from_str_radix(address.get(start..start + 8)?, 16).ok()?;
        bytes.extend(match cfg!(target_endian = "little") {
            true => word.to_le_bytes(),
            false => word.to_be_bytes(),
        });
    }
    let address = match bytes.len() {
        4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some((address.to_canonical(), port))
}

fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

/// Whether this process has the socket of that number open.
fn has_socket(inode: u64) -> bool {
    let name = format!("socket:[{inode}]");
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return false;
    };
    let mut targets = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.any(|target| target.as_os_str() == name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_server_in_this_process_is_recognized() {
        for place in ["127.0.0.1:0", "[::]:0"] {
            let Ok(listener) = TcpListener::bind(place) else {
                continue;
            };
            let port = listener.local_addr().expect("an address").port();
            let client = TcpStream::connect(("127.0.0.1", port)).expect("connected");
            let _accepted = listener.accept().expect("accepted");
            assert!(is_own(&Socket::Tcp(client)), "{place}");
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("s");
        let _listener = UnixListener::bind(&path).expect("a socket");
        let client = UnixStream::connect(&path).expect("connected");
        assert!(is_own(&Socket::Unix(client)));
    }

    #[test]
    fn lines_of_the_table_are_read() {
        let line = "   1: 0100007F:2A39 0100007F:C5D2 01 00000000:00000000 00:00000000 00000000 \
                    0 0 81234 1 0000000000000000 20 4 30 10 -1";
        let (ends, inode) = entry(line).expect("an entry");
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(ends, ((here, 0x2a39), (here, 0xc5d2)));
        assert_eq!(inode, 81234);
        let mapped = address("0000000000000000FFFF00000100007F:0001");
        assert_eq!(mapped, Some((here, 1)));
        for wrong in ["", "a b c", "0: 01:1 02:2 1 2 3 4 5 6 7"] {
            assert!(entry(wrong).is_none(), "{wrong}");
        }
    }
}
