//! Clients and servers of NBD that are none.

#![no_main]

use cenote_nbd::{BlockDevice, Client, ExportEntry, Exports, Limits, MemoryDisk, OpenError};
use cenote_nbd::{TlsPolicy, serve_one};
use cenote_nbd_client::{Monologue, check_server};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

struct One;

impl Exports for One {
    fn list(&self) -> Vec<ExportEntry> {
        Vec::new()
    }

    fn open(&self, name: &str, _client: &Client) -> Result<Arc<dyn BlockDevice>, OpenError> {
        match name.is_empty() {
            true => Ok(Arc::new(MemoryDisk::new(1 << 20).with_context("a:b"))),
            false => Err(OpenError::Unknown(name.to_owned())),
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    check_server(bytes);
    let limits = Limits {
        threads_per_connection: 1,
        ..Limits::default()
    };
    serve_one(&One, Monologue::new(bytes), limits, &TlsPolicy::Off);
});
