//! Block devices for other programs and machines: an NBD server.
//!
//! The crate implements the protocol itself and does not depend on ZFS. From the inside out:
//!
//! * [`BlockDevice`] is what an export must answer: reads whose zeros are holes, writes, flushes,
//!   trims, zeros, and extents in any number of metadata contexts. [`MemoryDisk`], [`FileDisk`]
//!   and [`DeviceDisk`] are implementations; one over a volume belongs to the crates above.
//! * [`Filtered`] and [`Overlay`] are devices around other devices: they slow them down, count
//!   requests, or keep changes apart.
//! * [`Exports`] opens them by name, and may refuse.
//! * `handshake` answers a client's options, `requests` its commands, `connection` has the threads
//!   that do so, in `turns`; `outbox` has their replies.
//! * [`Server`] listens, keeps the [`Limits`], and ends.
//!
//! *Promises.* A flush that was answered covers every write that was answered before, on all
//! connections. FUA is a flush of what the request wrote. A device's new size holds at once for
//! requests; a client gets it when it connects or queries again, because the protocol has no
//! message for it. A client can neither make the server wait for ever, nor make it take more memory
//! than the limits say.
//!
//! *Deliberately absent*: anything of ZFS; the old style of the handshake; TLS with pre-shared
//! keys, which `rustls` does not have; resizing by clients.

#![forbid(unsafe_code)]

mod admission;
mod connection;
mod contexts;
mod device;
mod device_disk;
mod exports;
mod file_disk;
mod filters;
mod handshake;
mod memory_disk;
mod outbox;
mod payload;
mod read_data;
mod requests;
mod server;
mod turns;

pub use cenote_nbd_client::protocol;
pub use device::{BlockDevice, BlockError, BlockSizes, Extent, ZeroMode};
pub use device_disk::DeviceDisk;
pub use exports::{Client, ExportEntry, Exports, Limits, OpenError, TlsPolicy};
pub use file_disk::FileDisk;
pub use filters::{
    Delay, Filter, Filtered, FilteredRequest, Overlay, Rate, RequestKind, Statistics,
};
pub use memory_disk::MemoryDisk;
pub use payload::Payload;
pub use read_data::{ReadData, SharedBytes};
pub use server::{ConnectionStatus, Listener, Server, serve_one};
