//! The intent log's structures: header, chain of blocks, records.
//!
//! Source: format/2e. The [`header`] stands in the object set block and points to the first log
//! block; each [`block`] points to the next, which is allocated before it is written; records
//! ([`record`]) follow each other in a block. Log blocks of a big-endian host are rare and
//! decode only after [`block::swap`], which also swaps the records.

pub mod block;
pub mod header;
pub mod record;
mod record_body;
mod record_encode;

pub use block::LogBlock;
pub use header::IntentLogHeader;
pub use record::{Record, RecordBody};
pub use record_encode::set_sequence;

/// Log records are multiples of this many bytes.
pub const RECORD_ALIGNMENT: usize = 8;
