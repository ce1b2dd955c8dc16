//! The state of an object set that is received raw, as it is stored elsewhere (format/2d 10).
//!
//! This system does not have its keys, so it cannot compute MACs. Those of blocks of dnodes come
//! with the stream, and so do the bonus areas, of which most is ciphertext. They are kept until the
//! group with the dnodes is written. A stream goes through objects in order, so of what is written
//! already only the last block of dnodes can change once more, and the rest is forgotten.

use cenote_base::{BlockId, ObjectId, Txg};
use cenote_io::StoredForm;
use std::collections::BTreeMap;

/// What MACs of an object set run over beside its dnodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawHeader {
    /// The object set's MAC.
    pub portable_mac: [u8; 32],
    /// Checksum function number of the meta-dnode.
    pub checksum: u8,
    /// Its compression function number.
    pub compression: u8,
    /// Levels of its tree.
    pub levels: u8,
    /// Its highest block.
    pub block_id_max: BlockId,
}

/// What is known of an object set that is received raw.
#[derive(Debug, Default)]
pub(crate) struct RawState {
    pub(crate) header: RawHeader,
    /// By the first object of a block of dnodes: when it arrived, and how it is protected.
    ranges: BTreeMap<u64, (Txg, StoredForm)>,
    /// Bonus areas by object.
    areas: BTreeMap<ObjectId, Vec<u8>>,
}

impl RawState {
    pub(crate) fn new(header: RawHeader) -> Self {
        Self {
            header,
            ..Self::default()
        }
    }

    /// Notes how the block of dnodes from `first` on is protected.
    pub(crate) fn note_range(&mut self, txg: Txg, first: ObjectId, form: StoredForm) {
        self.ranges.insert(first.0, (txg, form));
    }

    /// Notes the bonus area of an object.
    pub(crate) fn note_area(&mut self, id: ObjectId, area: Vec<u8>) {
        self.areas.insert(id, area);
    }

    /// The blocks of dnodes, by their first object, that arrived up to `txg`.
    pub(crate) fn due(&self, txg: Txg) -> Vec<u64> {
        let due = self.ranges.iter().filter(|(_, (of, _))| *of <= txg);
        due.map(|(first, _)| *first).collect()
    }

    /// How a block of dnodes is protected, if that is known.
    pub(crate) fn form(&self, first: u64) -> Option<StoredForm> {
        self.ranges.get(&first).map(|(_, form)| *form)
    }

    /// The bonus area of an object.
    pub(crate) fn area(&self, id: ObjectId) -> Option<&[u8]> {
        self.areas.get(&id).map(Vec::as_slice)
    }

    /// Forgets what is written with `txg` and does not change any more.
    pub(crate) fn forget(&mut self, txg: Txg) {
        let due = self.due(txg);
        let Some((last, done)) = due.split_last() else {
            return;
        };
        for first in done {
            self.ranges.remove(first);
        }
        self.areas.retain(|id, _| id.0 >= *last);
    }
}
