//! Send streams: reading, checking, writing and changing them.
//!
//! A stream is a snapshot in transit: `zfs send` writes it, `zfs receive` applies it, and between
//! the two it is a file, a pipe or an object in a store. It has no random access like a pool:
//! records have an order, and each record's checksum covers everything before it. So everything
//! here uses a [`Reader`], record by record, with the memory of one record. Changes are written to
//! a new stream by a [`Writer`], which computes new checksums.
//!
//! [`inspect`](inspect::inspect) shows what a stream contains and whether it is complete. [`dump`]
//! prints it as OpenZFS's `zstream` does. [`repair`] makes the changes that `zstream` makes, and
//! [`resume`] resumes a stream in a file. [`send`] makes streams of snapshots, and
//! [`receive`](receive::receive) applies one to a dataset.
//!
//! The encoding of records is in [`cenote_ondisk::stream`].

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
