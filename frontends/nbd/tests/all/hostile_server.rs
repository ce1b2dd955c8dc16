//! Our client with fake servers: it fails in limited time with any reply.

use crate::common::wait_until;
use cenote_device::Device;
use cenote_nbd::protocol::handshake::{Info, encode_answer, encode_greeting};
use cenote_nbd::protocol::reply::ChunkOf;
use cenote_nbd::protocol::{answer, export_flag, option};
use cenote_nbd_client::{NbdDevice, NbdOpener};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Much more than the second that requests have here, and less than the default for them.
const PATIENCE: Duration = Duration::from_secs(45);

/// Sends the same to each client that connects.
struct Fake {
    directory: TempDir,
    connections: Arc<AtomicUsize>,
}

impl Fake {
    /// Each connection gets `first`, and `then` once the client has said more than its handshake.
    fn new(first: Vec<u8>, then: Vec<u8>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(directory.path().join("s")).expect("a socket");
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        // It ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let (first, then) = (first.clone(), then.clone());
                std::thread::spawn(move || speak(stream, &first, &then));
            }
        });
        Self {
            directory,
            connections,
        }
    }

    fn url(&self) -> PathBuf {
        let socket = self.directory.path().join("s");
        format!(
            "nbd+unix:///?socket={}&timeout=1&connections=1",
            socket.display()
        )
        .into()
    }

    fn open(&self) -> Result<NbdDevice, cenote_nbd_client::NbdError> {
        NbdDevice::open(&self.url(), true)
    }
}

fn speak(mut stream: UnixStream, first: &[u8], then: &[u8]) {
    // Clients that do not like it hang up.
    let _ = stream.write_all(first);
    let mut buffer = [0; 4096];
    let mut heard = 0;
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        heard += count;
        // The handshake of this client is shorter, a write is longer.
        if heard > 256 && stream.write_all(then).is_err() {
            return;
        }
    }
}

/// The handshake of a server with an export of this size and these flags.
fn handshake(size: u64, flags: u16) -> Vec<u8> {
    let fact = Info::Export { size, flags };
    let mut bytes = encode_greeting(3);
    bytes.extend(encode_answer(option::EXTENDED_HEADERS, answer::ACK, &[]));
    bytes.extend(encode_answer(option::GO, answer::INFO, &fact.encode()));
    bytes.extend(encode_answer(option::GO, answer::ACK, &[]));
    bytes
}

const WRITABLE: u16 = export_flag::HAS_FLAGS | export_flag::SEND_FLUSH;

#[test]
fn a_handshake_that_makes_no_sense_is_an_error() {
    let begun = Instant::now();
    let endless = encode_answer(option::EXTENDED_HEADERS, answer::INFO, &[0; 64]).repeat(1000);
    let giant = [
        encode_greeting(3),
        encode_answer(option::EXTENDED_HEADERS, answer::INFO, &[]),
    ];
    let mut giant = giant.concat();
    let end = giant.len();
    giant[end - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
    for first in [
        Vec::new(),
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        encode_greeting(0),
        encode_greeting(3),
        [encode_greeting(3), endless].concat(),
        giant,
    ] {
        let fake = Fake::new(first, Vec::new());
        assert!(fake.open().is_err());
    }
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn replies_that_make_no_sense_end_the_connection_and_not_the_client() {
    let chunk = |cookie: u64| ChunkOf {
        is_extended: true,
        cookie,
        offset: 0,
    };
    let mut unasked = Vec::new();
    chunk(4711).hole(&mut unasked, true, 0, 4096);
    let mut huge = Vec::new();
    chunk(1).header(&mut huge, 1, true, u64::MAX);
    for then in [vec![0xff; 4096], unasked, huge] {
        let fake = Fake::new(handshake(1 << 20, WRITABLE), then);
        let device = fake.open().expect("a handshake");
        let begun = Instant::now();
        device.write_at(0, &[1; 4096]).expect_err("no answer to it");
        assert!(begun.elapsed() < PATIENCE);
        wait_until("it tries again", || {
            fake.connections.load(Ordering::SeqCst) > 1
        });
        drop(device);
    }
}

/// A server that answers a request without end, in parts that are whole: the receiving thread never
/// ended, long after the request had been given up.
#[test]
fn a_reply_without_end_ends_the_connection() {
    let chunk = ChunkOf {
        is_extended: true,
        cookie: 1,
        offset: 0,
    };
    let mut part = Vec::new();
    chunk.header(&mut part, 0, false, 0);
    let fake = Fake::new(handshake(1 << 20, WRITABLE), part.repeat(10_000));
    let device = fake.open().expect("a handshake");
    let begun = Instant::now();
    device.write_at(0, &[1; 4096]).expect_err("no end");
    assert!(begun.elapsed() < PATIENCE);
    wait_until("it tries again", || {
        fake.connections.load(Ordering::SeqCst) > 1
    });
}

/// connect(2) waits for ever while a socket's queue is full: an open never ended.
#[test]
fn a_server_that_accepts_nobody_is_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    rustix::net::listen(&listener, 0).expect("a short queue");
    let first = UnixStream::connect(&path).expect("it has room for one");
    let url = format!("nbd+unix:///?socket={}&timeout=1", path.display());
    let begun = Instant::now();
    let error = NbdDevice::open(Path::new(&url), true).expect_err("there is no server");
    assert!(error.to_string().contains("does not accept"), "{error}");
    assert!(begun.elapsed() < PATIENCE);
    drop((first, listener));
}

/// A server that accepted a byte now and then could block a write, and all requests behind it, for
/// ever: each byte restarted the timeout.
#[test]
fn a_server_that_hardly_receives_is_given_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s");
    let listener = UnixListener::bind(&path).expect("a socket");
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || {
                let _ = stream.write_all(&handshake(64 << 20, WRITABLE));
                let mut bytes = [0; 4096];
                // The client's timeout is a second.
                while let Ok(1..) = stream.read(&mut bytes) {
                    std::thread::sleep(Duration::from_millis(200));
                }
            });
        }
    });
    let socket = path.display();
    let url = format!("nbd+unix:///?socket={socket}&timeout=1&connections=1");
    let device = NbdDevice::open(Path::new(&url), true).expect("a handshake");
    let begun = Instant::now();
    device
        .write_at(0, &vec![1; 32 << 20])
        .expect_err("it takes minutes");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    wait_until("it tries again", || connections.load(Ordering::SeqCst) > 1);
}

/// Impossible sizes and flags must not cause a panic, and a server without flushes is not written
/// to.
#[test]
fn exports_that_cannot_be_are_refused() {
    let opener = NbdOpener::default();
    let fake = Fake::new(handshake(1 << 20, export_flag::HAS_FLAGS), Vec::new());
    let error = opener.open_device(&fake.url()).expect_err("refused");
    assert!(
        error.to_string().contains("does not offer flushes"),
        "{error}"
    );
    for size in [0, 1, u64::MAX] {
        let fake = Fake::new(handshake(size, WRITABLE), Vec::new());
        let device = fake.open().expect("a handshake");
        assert!(device.read_vec(u64::MAX - 1, 2).is_err());
        assert!(device.write_at(size, &[1]).is_err());
    }
}

/// A daemon whose pool is on an export of its own waits for itself.
#[test]
fn a_server_in_the_same_process_is_refused_to_those_who_ask_for_that() {
    let (site, _) = crate::common::Site::with_disk(1 << 20);
    let url = site.url("disk", "");
    let opener = NbdOpener {
        must_be_foreign: true,
    };
    let error = opener.open_device(Path::new(&url)).expect_err("refused");
    assert!(
        error.to_string().contains("served by this daemon"),
        "{error}"
    );
    let opener = NbdOpener::default();
    opener
        .open_device(Path::new(&url))
        .expect("another opener connects");
}
