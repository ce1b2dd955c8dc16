//! Serves one file, or a disk in memory, until it is killed: for measurements and by hand.
//!
//! ```text
//! cenote-nbd-serve SOCKET|HOST:PORT FILE|memory:BYTES [--readonly] [--tls DIRECTORY]
//! ```

#![forbid(unsafe_code)]

use cenote_nbd::{
    BlockDevice, Client, ExportEntry, Exports, FileDisk, Limits, Listener, MemoryDisk, OpenError,
    Server, TlsPolicy,
};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

const USAGE: &str = "usage: cenote-nbd-serve SOCKET|HOST:PORT FILE|memory:BYTES [--readonly] \
                     [--tls DIRECTORY]";

/// The same device for every name.
struct One(Arc<dyn BlockDevice>);

impl Exports for One {
    fn list(&self) -> Vec<ExportEntry> {
        vec![ExportEntry {
            name: String::new(),
            description: self.0.description().unwrap_or_default(),
        }]
    }

    fn open(&self, _name: &str, _client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        Ok(Arc::clone(&self.0))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(place), Some(source)) = (words.next(), words.next()) else {
        return Err(USAGE.into());
    };
    let (mut is_read_only, mut tls) = (false, TlsPolicy::Off);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--readonly" => is_read_only = true,
            "--tls" => {
                let directory = words.next().ok_or(USAGE)?;
                tls = TlsPolicy::required(Path::new(&directory), false)?;
            }
            _ => return Err(USAGE.into()),
        }
    }
    let device: Arc<dyn BlockDevice> = match source.strip_prefix("memory:") {
        Some(size) => match MemoryDisk::new(size.parse()?) {
            disk if is_read_only => Arc::new(disk.read_only()),
            disk => Arc::new(disk),
        },
        None => Arc::new(FileDisk::open(Path::new(&source), is_read_only)?),
    };
    let listener = match place.contains('/') {
        true => Listener::unix(Path::new(&place))?,
        false => Listener::tcp(&place)?,
    };
    let exports = Arc::new(One(device));
    let _server = Server::start(exports, vec![listener], Limits::default(), tls)?;
    println!("serving {source} at {place}");
    loop {
        cenote_base::rt::park();
    }
}
