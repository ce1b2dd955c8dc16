//! Writing a log: operations are noted in memory, and a commit puts what it needs on disk.
//!
//! Each operation leaves a record in memory before its transaction ends. Most records are never
//! written: once their group is on disk, they are dropped. An `fsync` writes those that it needs,
//! in log blocks that form a chain (format/2e 2), and returns when these are durable; it need not
//! wait for a group.
//!
//! **What a commit needs.** Operations on names depend on each other, so there is one list of them
//! and a commit takes all of it. Operations on an object's contents and attributes wait in a list
//! for each object: a commit of an object takes its own list only. At replay such a record is
//! skipped if its object is gone, so its place among the others does not matter.
//!
//! **Concurrent commits.** A commit has two stages, writing and flushing, and one thread at a time
//! in each. A thread that finds a stage taken waits. What gathers meanwhile goes into one block,
//! and one flush makes all earlier writes durable. A commit never waits just to collect others: a
//! single one writes at once.
//!
//! **The chain.** A block names the next one, so that one is allocated before it has contents. The
//! group in which it is allocated is held open until the block that names it was written: else
//! a crash could find space that is allocated and that nothing leads to. Each group that the head
//! changes in moves the start of the chain past the blocks whose records are all in groups on
//! disk, and frees these.
//!
//! **Unrequested commits**: small changes go to the log if their group is late (`writer::aged`).
//!
//! **Operations that cannot be logged** make a *hole*: an operation without a record, a failed
//! write, no space. Later operations may depend on it, so commits wait for groups until the group
//! of the hole is on disk. The first commit of all does, too: the header that leads to the chain
//! has to be on disk.
//!
//! **Invariants**: a commit succeeds only when the records are durable in an unbroken chain, or
//! their groups are. No block is written twice. A block is freed in a group that has all of its
//! records and in which it was born or later.
//!
//! Deliberately absent so far: indirect records, whose data is written once and adopted by the
//! group.

mod block;
mod chain;
mod error;
mod head_space;
mod pack;
mod records;
mod sizes;
mod space;
mod writer;

pub use chain::LogSync;
pub use error::LogWriteError;
pub use head_space::HeadSpace;
pub use space::{LogData, LogHold, LogSpace};
pub use writer::{Aged, Commit, Committed, LogFigures, LogParams, LogWriter};
