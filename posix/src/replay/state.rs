//! The state that records are applied to: the file system as far as they touch it.

use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::FuidTable;
use crate::kind::FileKind;
use crate::overlay::{NameChanges, Node, Overlay};
use crate::time::Timestamp;
use cenote_base::ObjectId;
use cenote_intent_log::{ApplyError, Content, ReplayMemory};
use std::collections::HashMap;
use std::sync::Arc;

/// What a node takes in memory beside its variable parts.
const NODE_SIZE: u64 = 1024;

/// A replay under way.
pub(super) struct Replay<'f> {
    /// The file system as it is on disk.
    pub base: &'f FileSystem,
    nodes: HashMap<ObjectId, Option<Node>>,
    pub domains: FuidTable,
    pub memory: ReplayMemory,
    /// The record being applied, for errors.
    pub sequence: u64,
    clock: Timestamp,
}

impl<'f> Replay<'f> {
    pub fn new(base: &'f FileSystem, start: Timestamp) -> Self {
        Self {
            base,
            nodes: HashMap::new(),
            domains: base.domains().clone(),
            memory: ReplayMemory::new(Arc::clone(base.set().cache().pipeline().memory())),
            sequence: 0,
            clock: start,
        }
    }

    /// The outcome.
    pub fn finish(self) -> (Overlay, FuidTable) {
        (
            Overlay {
                nodes: self.nodes,
                memory: Some(self.memory),
            },
            self.domains,
        )
    }

    /// An error about the record being applied.
    pub fn bad(&self, problem: &'static str) -> PosixError {
        PosixError::Replay {
            sequence: self.sequence,
            problem,
        }
    }

    pub fn apply_error(&self, error: ApplyError) -> PosixError {
        match error {
            ApplyError::Nonsense(problem) => self.bad(problem),
            ApplyError::Memory(error) => error.into(),
        }
    }

    /// The time that the record being applied happened, as far as it can be told.
    pub fn now(&self) -> Timestamp {
        self.clock
    }

    /// The record says that it was this late.
    pub fn advance_clock(&mut self, time: Timestamp) {
        self.clock = self.clock.max(time);
    }

    /// The object as it is now, for changing.
    pub fn node(&mut self, id: ObjectId) -> Result<&mut Node, PosixError> {
        if !self.nodes.contains_key(&id) {
            let znode = self.base.znode(id)?;
            self.memory
                .pay(NODE_SIZE + znode.attributes().heap_size() as u64)?;
            let attributes = znode.attributes().clone();
            let node = Node {
                attributes,
                names: None,
                content: None,
                is_stored: true,
            };
            self.nodes.insert(id, Some(node));
        }
        let node = self
            .nodes
            .get_mut(&id)
            .expect("inserted if it was not there");
        node.as_mut().ok_or(PosixError::NoSuchZnode { object: id })
    }

    /// Adds an object that the log makes.
    pub fn create(&mut self, id: ObjectId, attributes: Attributes) -> Result<(), PosixError> {
        self.memory.pay(NODE_SIZE + attributes.heap_size() as u64)?;
        let node = Node {
            attributes,
            names: None,
            content: None,
            is_stored: false,
        };
        self.nodes.insert(id, Some(node));
        Ok(())
    }

    /// Frees an object.
    pub fn free(&mut self, id: ObjectId) {
        self.nodes.insert(id, None);
    }

    /// Whether `id` is a directory; anything else that can have no entries is an error.
    pub fn require_directory(&mut self, id: ObjectId) -> Result<(), PosixError> {
        match FileKind::from_mode(self.node(id)?.attributes.mode) {
            Some(FileKind::Directory) => Ok(()),
            _ => Err(PosixError::NotDirectory { object: id }),
        }
    }

    /// The changes to a directory's names.
    pub fn names(&mut self, directory: ObjectId) -> Result<&mut NameChanges, PosixError> {
        let flags = self.base.name_flags();
        self.memory.pay(512)?;
        let names = &mut self.node(directory)?.names;
        let names = names.get_or_insert_with(|| Arc::new(NameChanges::new(flags)));
        Ok(Arc::make_mut(names))
    }

    /// Changes the contents of a file with the replay's memory at hand.
    pub fn change_content<R>(
        &mut self,
        file: ObjectId,
        change: impl FnOnce(&mut Content, &mut ReplayMemory) -> Result<R, ApplyError>,
    ) -> Result<R, PosixError> {
        self.node(file)?;
        let node = self
            .nodes
            .get_mut(&file)
            .and_then(Option::as_mut)
            .expect("just found");
        // On disk the object has contents up to its size; the rest of its last block is zero,
        // and what lies behind must not be believed (format/3b 5).
        let stored = if node.is_stored {
            node.attributes.size
        } else {
            0
        };
        let content = node
            .content
            .get_or_insert_with(|| Arc::new(Content::new(stored)));
        let outcome = change(Arc::make_mut(content), &mut self.memory);
        outcome.map_err(|error| self.apply_error(error))
    }
}
