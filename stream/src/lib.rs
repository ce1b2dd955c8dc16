//! Send streams: reading and checking them, writing them, and what can be done with one at hand.
//!
//! A stream is a snapshot in transit: `zfs send` makes it, `zfs receive` takes it, and between
//! the two it is a file, a pipe or an object in a store. It cannot be looked into like a pool:
//! it has an order, and each record's checksum runs over everything before it. So everything here
//! goes through a [`Reader`], record by record, with no more memory than one record needs, and
//! what changes a stream writes it anew with a [`Writer`], which computes the checksums again.
//!
//! [`inspect`](inspect::inspect) says what a stream is and whether it is whole; [`dump`] prints it
//! as OpenZFS's `zstream` does; [`repair`] has the changes that `zstream` makes, [`resume`] how a
//! stream in a file is gone on with. [`send`] makes
//! streams of snapshots, and [`receive`](receive::receive) applies one to a dataset.
//!
//! What records mean byte for byte is [`cenote_ondisk::stream`]'s.

#![forbid(unsafe_code)]

pub mod dump;
mod error;
mod grammar;

pub mod inspect;
mod reader;
pub mod receive;
pub mod repair;
pub mod resume;
pub mod send;

mod writer;

pub use error::{Missing, Place, Problem, Refusal, StreamError};
pub use reader::{Checks, Header, Item, Reader};
pub use writer::Writer;
