//! What a replayed intent log changes, in memory, over an object set that stays as it is.
//!
//! Each object that the log touched has a node here: its attributes as they are now, the names
//! added to and taken from it if it is a directory, and the pieces written over its contents.
//! Reading code asks the node first and the disk for the rest, so nobody above notices. The
//! overlay does not change once the file system is open.
//!
//! A writer will not use this: it replays into transactions. The overlay is for pools that are
//! imported read-only and were not exported cleanly.

mod names;

pub(crate) use names::NameChanges;

use crate::attributes::Attributes;
use cenote_base::ObjectId;
use cenote_intent_log::{Content, ReplayMemory};
use std::collections::HashMap;
use std::sync::Arc;

/// An object as the log leaves it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// All attributes.
    pub attributes: Attributes,
    /// Names added and removed, if it is a directory.
    pub names: Option<Arc<NameChanges>>,
    /// What was written, if anything.
    pub content: Option<Arc<Content>>,
    /// Whether the object's blocks on disk are its contents; not for objects that the log made.
    pub is_stored: bool,
}

/// All changes of one log.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    /// Changed objects; `None` for freed ones.
    pub nodes: HashMap<ObjectId, Option<Node>>,
    /// Keeps what the changes take in memory leased.
    #[expect(dead_code, reason = "kept for its drop")]
    pub memory: Option<ReplayMemory>,
}
