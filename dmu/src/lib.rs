//! The data management unit: object sets, objects, their block trees, and ZAPs.
//!
//! An object set is an array of dnodes; a dnode is the root of a tree of blocks; a ZAP is an
//! object whose blocks are a hash table. Everything here reads through the cache and returns
//! contents that passed their checksum. Nothing is trusted beyond that: a block whose level,
//! size or numbers contradict its parent is refused with its place, and no loop over disk data
//! is unbounded, since a pointer's level must be one below its parent's.
//!
//! Deliberately absent: what objects mean. Datasets are `dsl`'s, files are `posix`'s.

#![forbid(unsafe_code)]

mod accounting;
mod allocate;
mod at_hand;
mod caching;
mod clone;
mod error;
mod group_history;
mod live;
mod memo;
mod new_object;
mod object;
mod object_set;
mod policy;
mod prefetch;
mod reach;
mod recount;
mod regions;
mod scan;
mod streams;
mod sync;
mod transaction;
pub mod traverse;
mod tree;
pub mod txg;
mod write;
pub mod zap;

pub use accounting::{Owner, OwnerHook};
pub use allocate::CreateParams;
pub use at_hand::ContentRoot;
pub use caching::{CacheScope, Caching, DirectIo};
pub use cenote_cache::{Block, BlockBuffer, BlockCache, CacheLimits, Retention};
pub use cenote_io::{BlockSink, CompressedForm, IoContext, StoredForm, WritePolicy, WriteRequest};
pub use clone::{StoredBlock, clone_of};
pub use error::DmuError;
pub use group_history::{GateFigures, GroupFigures, GroupIo, GroupState};
pub use live::RawHeader;
pub use new_object::{INDIRECT_SHIFT, NewObject, TreeShape};
pub use object::{Object, Segment};
pub use object_set::{ObjectSet, Objects, SpecialObject};
pub use policy::{BlockKind, PolicySource};
pub use prefetch::fetch_whole;
pub use txg::{Transaction, TxCost, TxgGate};
pub use zap::Zap;
