//! Our output compared with OpenZFS's, byte by byte.
//!
//! `tests/reference/*.txt` are transcripts of the zpool and zfs programs of OpenZFS 2.3.2, run over
//! canned answers about a small invented pool (`tank`: a mirror of two files, a log, a cache, a
//! spare; five file systems, two snapshots, a bookmark). [`world::Canned`] gives our commands the
//! same pool, and every line and exit code must agree. Two things were corrected by what the
//! programs say over the kernel module: imported pools have no `load_info`, and spares are of the
//! class `spare`. The pools of `tests/data/pools` add real properties of real pools.

mod golden;
mod options;
mod states;
mod suggestions;
mod transcripts;
mod world;

pub use world::Canned;
