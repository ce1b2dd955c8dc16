//! The NBD protocol as bytes: what server and client both have to know.
//!
//! A connection has two phases. In the *handshake* the client sends options, and the server
//! answers each ([`handshake`]). The option `GO` begins the *transmission*: the client sends
//! requests ([`request`]), as many at once as it likes, and the server answers in any order
//! ([`reply`]). All numbers are big-endian.
//!
//! ```text
//! server:  NBDMAGIC IHAVEOPT flags          client:  flags
//! client:  IHAVEOPT option length data      server:  magic option answer length data ...
//! client:  magic flags command cookie offset length [data]
//! server:  magic error cookie [data]                          a simple reply
//!          magic flags kind cookie length payload             a chunk of a structured reply
//!          magic flags kind cookie offset length payload      a chunk, extended headers
//! ```
//!
//! Decoders take any bytes. None allocates by what the bytes claim.
//!
//! *Deliberately absent*: the old style of the handshake, which has no options, and what the
//! protocol calls experimental (`NBD_CMD_RESIZE`).

mod error_code;
mod fields;
pub mod handshake;
mod numbers;
pub mod reply;
pub mod request;

pub use error_code::ErrorCode;
pub use fields::{Fields, Malformed};
pub use numbers::{
    BASE_ALLOCATION, PAYLOAD_BYTES_MAX, STRING_BYTES_MAX, allocation, answer, chunk, command,
    command_flag, export_flag, info, option,
};
