//! A tree in memory whose storage can be made slow or faulty, a server, and a plain client.

use bytes::Bytes;
use cenote_http::{
    Address, Entry, EntryKind, File, Found, Handler, Listen, Options, PageAnswer, PageRequest,
    Pages, Purpose, Resolved, Server, Site, Sites, Tree, TreeError,
};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 27 November 2026, 03:00:00.
pub const TIME: u64 = 1_795_748_400;

/// A file in memory. The first `cached` bytes of it are in the cache.
pub struct MemoryFile {
    bytes: Mutex<Bytes>,
    cached: AtomicUsize,
    version: AtomicUsize,
    modified: SystemTime,
    /// What a read that may wait answers.
    pub error: Mutex<Option<TreeError>>,
    /// Reads wait while this is closed.
    gate: Mutex<bool>,
    opened: Condvar,
    pub purposes: Mutex<Vec<Purpose>>,
    pub reads: AtomicUsize,
}

impl MemoryFile {
    pub fn new(bytes: impl Into<Bytes>) -> Arc<Self> {
        let bytes = bytes.into();
        Arc::new(Self {
            cached: AtomicUsize::new(bytes.len()),
            bytes: Mutex::new(bytes),
            version: AtomicUsize::new(1),
            modified: UNIX_EPOCH + Duration::from_secs(TIME),
            error: Mutex::new(None),
            gate: Mutex::new(true),
            opened: Condvar::new(),
            purposes: Mutex::new(Vec::new()),
            reads: AtomicUsize::new(0),
        })
    }

    pub fn set_cached(&self, bytes: usize) {
        self.cached.store(bytes, Ordering::SeqCst);
    }

    pub fn set_open(&self, is_open: bool) {
        *self.gate.lock().unwrap() = is_open;
        self.opened.notify_all();
    }

    pub fn change(&self, bytes: impl Into<Bytes>) {
        *self.bytes.lock().unwrap() = bytes.into();
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    fn piece(&self, offset: u64, length: usize, end: usize) -> Bytes {
        let bytes = self.bytes.lock().unwrap();
        let end = end.min(bytes.len());
        let begin = (offset as usize).min(end);
        bytes.slice(begin..end.min(begin.saturating_add(length)))
    }
}

/// What a tree hands out of it.
struct Opened(Arc<MemoryFile>);

impl File for Opened {
    fn size(&self) -> u64 {
        self.0.bytes.lock().unwrap().len() as u64
    }

    fn modified(&self) -> SystemTime {
        self.0.modified
    }

    fn entity_tag(&self) -> String {
        format!("v{}", self.0.version.load(Ordering::SeqCst))
    }

    fn read_cached(&self, offset: u64, length: usize) -> Vec<Bytes> {
        let cached = self.0.cached.load(Ordering::SeqCst);
        let piece = self.0.piece(offset, length, cached);
        // Blocks of 128 KiB, as a cache has them.
        let mut pieces = Vec::new();
        let mut rest = piece;
        while !rest.is_empty() {
            pieces.push(rest.split_to(rest.len().min(128 << 10)));
        }
        pieces
    }

    fn read(&self, offset: u64, length: usize, purpose: Purpose) -> Result<Vec<Bytes>, TreeError> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        self.0.purposes.lock().unwrap().push(purpose);
        let gate = self.0.gate.lock().unwrap();
        drop(self.0.opened.wait_while(gate, |is_open| !*is_open).unwrap());
        match self.0.error.lock().unwrap().clone() {
            Some(error) => Err(error),
            None => Ok(vec![self.0.piece(offset, length, usize::MAX)]),
        }
    }
}

/// Files by their paths; directories are what leads to them.
#[derive(Default)]
pub struct MemoryTree {
    files: Mutex<BTreeMap<String, Arc<MemoryFile>>>,
    /// Names are not in memory either.
    pub is_cold: AtomicBool,
}

impl MemoryTree {
    pub fn put(&self, path: &str, file: &Arc<MemoryFile>) {
        let mut files = self.files.lock().unwrap();
        files.insert(path.to_owned(), Arc::clone(file));
    }

    pub fn put_bytes(&self, path: &str, bytes: impl Into<Bytes>) -> Arc<MemoryFile> {
        let file = MemoryFile::new(bytes);
        self.put(path, &file);
        file
    }

    fn look(&self, path: &[Vec<u8>]) -> Result<Found, TreeError> {
        let names = path.iter().map(|name| String::from_utf8_lossy(name));
        let path = names.collect::<Vec<_>>().join("/");
        let files = self.files.lock().unwrap();
        if let Some(file) = files.get(&path) {
            return Ok(Found::File(Arc::new(Opened(Arc::clone(file)))));
        }
        let below = format!("{path}/");
        match path.is_empty() || files.keys().any(|name| name.starts_with(&below)) {
            true => Ok(Found::Directory {
                modified: UNIX_EPOCH + Duration::from_secs(TIME),
            }),
            false => Err(TreeError::NotFound),
        }
    }
}

impl Tree for MemoryTree {
    fn find_cached(&self, path: &[Vec<u8>]) -> Option<Resolved> {
        (!self.is_cold.load(Ordering::SeqCst)).then(|| self.find(path))
    }

    fn find(&self, path: &[Vec<u8>]) -> Resolved {
        Resolved::directly(self.look(path))
    }

    fn list(&self, path: &[Vec<u8>], each: &mut dyn FnMut(Entry) -> bool) -> Result<(), TreeError> {
        let mut prefix = String::new();
        for name in path {
            prefix.push_str(&String::from_utf8_lossy(name));
            prefix.push('/');
        }
        let files = self.files.lock().unwrap();
        let mut entries = BTreeMap::new();
        for (name, file) in files.iter() {
            let Some(rest) = name.strip_prefix(&prefix) else {
                continue;
            };
            let (first, is_file) = match rest.split_once('/') {
                Some((first, _)) => (first, false),
                None => (rest, true),
            };
            let size = file.bytes.lock().unwrap().len() as u64;
            let entry = Entry {
                name: first.into(),
                kind: if is_file {
                    EntryKind::File
                } else {
                    EntryKind::Directory
                },
                size: if is_file { size } else { 0 },
                modified: file.modified,
            };
            entries.insert(first.to_owned(), entry);
        }
        entries.into_values().all(each);
        Ok(())
    }
}

/// One tree for all hosts but `nowhere.example`.
struct OneSite(Arc<MemoryTree>);

impl Sites for OneSite {
    fn site(&self, host: &str, path: &[Vec<u8>]) -> Option<Site> {
        let is_page = path.first().is_some_and(|name| name == b"page");
        (host != "nowhere.example" && !is_page).then(|| Site {
            tree: Arc::clone(&self.0) as Arc<dyn Tree>,
            prefix: 0,
            name: "memory".into(),
        })
    }
}

/// Pages that say what they were asked.
struct Echo;

impl Pages for Echo {
    fn answer(&self, request: &PageRequest) -> PageAnswer {
        assert!(request.path != "/page/panic", "on purpose");
        let text = match request.path.as_str() {
            "/page/client" => format!("{:?} to {:?}", request.peer, request.header("host")),
            path => format!(
                "{:?} {path} {:?} {} {}",
                request.method,
                request.query,
                request.header("x-test").unwrap_or("-"),
                request.body.len()
            ),
        };
        PageAnswer {
            status: 200,
            content_type: "text/plain",
            headers: vec![("x-page", "yes".to_owned())],
            body: text.into(),
        }
    }
}

/// A server for a tree in memory.
pub struct Served {
    pub tree: Arc<MemoryTree>,
    pub server: Server,
    pub address: SocketAddr,
}

pub fn handler(tree: &Arc<MemoryTree>, options: Options) -> Handler {
    Handler {
        sites: Arc::new(OneSite(Arc::clone(tree))),
        pages: Some(Arc::new(Echo)),
        options,
    }
}

impl Served {
    pub fn new() -> Self {
        Self::with(Options::default())
    }

    pub fn with(options: Options) -> Self {
        let tree = Arc::new(MemoryTree::default());
        let listen = Listen {
            addresses: vec![Address::parse("127.0.0.1:0").unwrap()],
            tls: None,
        };
        let server = Server::start(listen, handler(&tree, options), None).expect("it starts");
        let address = match &server.addresses()[..] {
            [Address::Tcp { address, .. }] => *address,
            other => panic!("{other:?}"),
        };
        Self {
            tree,
            server,
            address,
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        let limit = Some(Duration::from_secs(60));
        stream.set_read_timeout(limit).unwrap();
        stream.set_write_timeout(limit).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads until the server ends the connection.
    pub fn raw(&self, request: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_ref()).expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// A request with header lines, on a connection of its own.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nHost: example.org\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("Connection: close\r\n\r\n");
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        Answer::read(&mut stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[])
    }
}

/// An answer of a connection that ended after it.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).expect("an answer");
        let end = all.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head: {}", String::from_utf8_lossy(&all)));
        let head = String::from_utf8(all[..end].to_vec()).expect("text");
        let status = head[9..12].parse().expect("a status");
        Self {
            status,
            head,
            body: all[end + 4..].to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Bytes that are different everywhere.
pub fn pattern(length: usize) -> Vec<u8> {
    let word = |n: usize| (n as u32).wrapping_mul(2_654_435_761).to_le_bytes();
    (0..length.div_ceil(4))
        .flat_map(word)
        .take(length)
        .collect()
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}
