//! Streams of snapshots in golden pools.

mod golden;
mod pools;
