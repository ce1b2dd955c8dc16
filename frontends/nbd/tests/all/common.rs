//! A server on a unix socket, with disks that a test can look at.

use cenote_nbd::{
    BlockDevice, Client, ExportEntry, Exports, Limits, Listener, MemoryDisk, OpenError, Server,
    TlsPolicy,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Exports that come and go.
#[derive(Default)]
pub struct Shelf(Mutex<BTreeMap<String, Arc<dyn BlockDevice>>>);

impl Shelf {
    pub fn put(&self, name: &str, disk: Arc<dyn BlockDevice>) {
        self.0
            .lock()
            .expect("no panic")
            .insert(name.to_owned(), disk);
    }

    pub fn remove(&self, name: &str) {
        self.0.lock().expect("no panic").remove(name);
    }
}

impl Exports for Shelf {
    fn list(&self) -> Vec<ExportEntry> {
        let shelf = self.0.lock().expect("no panic");
        let entry = |name: &String| ExportEntry {
            name: name.clone(),
            description: format!("disk {name}"),
        };
        shelf.keys().map(entry).collect()
    }

    fn resolved(&self, name: &str) -> String {
        let shelf = self.0.lock().expect("no panic");
        match (name.is_empty(), shelf.len()) {
            (true, 1) => shelf.keys().next().cloned().expect("one"),
            _ => name.to_owned(),
        }
    }

    fn open(&self, name: &str, _client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        let found = self.0.lock().expect("no panic").get(name).cloned();
        found.ok_or_else(|| OpenError::Unknown(name.to_owned()))
    }
}

/// A server, and the directory with its socket.
pub struct Site {
    pub shelf: Arc<Shelf>,
    pub server: Option<Server>,
    pub directory: TempDir,
    limits: Limits,
    tls: TlsPolicy,
}

impl Site {
    pub fn new() -> Self {
        Self::with(Limits::default(), TlsPolicy::Off)
    }

    pub fn with(limits: Limits, tls: TlsPolicy) -> Self {
        let mut site = Self {
            shelf: Arc::default(),
            server: None,
            directory: tempfile::tempdir().expect("a directory"),
            limits,
            tls,
        };
        site.start();
        site
    }

    /// A server with one disk in memory, which is called `disk`.
    pub fn with_disk(size: u64) -> (Self, Arc<MemoryDisk>) {
        let site = Self::new();
        let disk = Arc::new(MemoryDisk::new(size));
        site.shelf.put("disk", Arc::clone(&disk) as _);
        (site, disk)
    }

    pub fn start(&mut self) {
        let listener = Listener::unix(&self.socket()).expect("a socket");
        let exports = Arc::clone(&self.shelf) as Arc<dyn Exports>;
        let server = Server::start(
            exports,
            vec![listener],
            self.limits.clone(),
            self.tls.clone(),
        );
        self.server = Some(server.expect("it starts"));
    }

    pub fn stop(&mut self) {
        self.server = None;
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// The URL of an export, with options of our client behind it.
    pub fn url(&self, export: &str, options: &str) -> String {
        let socket = self.socket();
        format!("nbd+unix:///{export}?socket={}{options}", socket.display())
    }

    /// How many clients are connected.
    pub fn connected(&self) -> usize {
        let server = self.server.as_ref().expect("it runs");
        server.connections().len()
    }
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} within a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}
