//! ZAPs: objects that map names (or arrays of numbers) to arrays of integers.
//!
//! A ZAP begins as one *micro* block of fixed-size entries and becomes *fat*, an extensible hash
//! table over many blocks, when it outgrows that. Entries come in order of hash, so a place in
//! the iteration is a hash and stays good while entries come and go (format/2b 5).
//!
//! In a writable object set each call looks at the ZAP as it is at that moment. A reader that
//! comes between the steps of a change sees parts that do not fit each other, and looks again.

mod iterate;
pub mod normalize;
mod open;
mod problem;
mod store;
mod write;
mod write_fat;
mod write_micro;

pub use cenote_ondisk::zap::{Key as ZapKey, Value as ZapValue};
pub use iterate::{ZapEntries, ZapEntry};
pub use open::Zap;
pub use store::KeyRef;
pub use write::{FAT_BLOCK_SHIFT, NewZap};
