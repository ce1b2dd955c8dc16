//! Redaction: which blocks of a snapshot its clones do not have any more (`zfs redact`).
//!
//! A snapshot has secrets. They are removed from a clone, and a snapshot of the clone may leave
//! the house. But it is sent as an increment upon the snapshot with the secrets. So that is sent
//! without the blocks that the clone does not refer to. A *redaction list* names these blocks, and
//! a *redaction bookmark* has the list. With several clones a block is listed only if none of them
//! has it: the receiver must get what any of them needs.
//!
//! ```text
//! blocks of the snapshot   0 1 2 3 4 5 6 7
//! changed in clone a       x x x . . . x .
//! changed in clone b       . x x x . . x .
//! listed                     1 2       6
//! ```
//!
//! Only contents of files and volumes are listed, never metadata: names stay.
//!
//! [`changed`](changes) walks one clone, and visits only what was born after the snapshot. The
//! clones are walked one after another, each only where all before it have changes, so memory does
//! not grow with their number ([`search`]). The list is stored in pieces, one for each transaction
//! group. It says how far it reaches; a list that does not reach the end is never used to send.
//! The same command resumes it. Two rules protect the secrets:
//!
//! - A block is listed by its place, and only if its pointer there is younger than the snapshot.
//! - What reads the list checks the order of its records, and that it is still the bookmark's list
//!   ([`list`]). It fails otherwise: it must never believe in a list with nothing in it.

#![forbid(unsafe_code)]

mod changes;
mod error;
mod list;
mod redact;
mod search;
mod span;
mod task;

pub use error::RedactionError;
pub use list::{Cursor, List};
pub use redact::Redaction;
pub use span::{Place, Span};
pub use task::{AppendToList, BeginList};
