//! The last groups that a missing device had, kept while it is away.
//!
//! A device that comes back after a month must be distinguished from a copy of it that was written
//! to elsewhere ([`crate::import::lineage`]). By then the uberblock rings of the other devices have
//! newer groups. So the pool keeps the roots of the groups before a leaf fell behind, until the
//! leaf is up to date again. Each such leaf has an entry in the object directory. Other software
//! ignores entries that it does not know.
//!
//! Nothing is kept for a leaf that was behind at import, unless there was an entry already: its
//! groups are then unknown.

use crate::import::lineage::{Groups, State};
use crate::mos::OBJECT_DIRECTORY;
use cenote_base::{Guid, Txg};
use cenote_dmu::zap::{ZapKey, ZapValue};
use cenote_dmu::{DmuError, ObjectSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the names of the entries begin with; the leaf's guid follows.
const PREFIX: &str = "org.cenote:last_groups:";
/// Words of a group: its number, its time, and the checksum of its root.
const WORDS: usize = 6;
/// Groups that are kept of a leaf that came and went.
pub(crate) const GROUPS_MAX: usize = 32;
/// Entries that are read: as many as a pool may have vdevs with room to spare.
const ENTRIES_MAX: usize = 1 << 20;

/// Which leaves are behind, and what of them is kept.
#[derive(Debug, Default)]
pub(crate) struct Away {
    pub behind: BTreeSet<Guid>,
    /// Those of which it is not known what they had.
    pub unknown: BTreeSet<Guid>,
}

impl Away {
    /// Continues with the leaves that are behind at import.
    pub fn new(behind: BTreeSet<Guid>, kept: &BTreeMap<Guid, Groups>) -> Self {
        let unknown = behind.iter().filter(|leaf| !kept.contains_key(leaf));
        Self {
            unknown: unknown.copied().collect(),
            behind,
        }
    }
}

pub(crate) fn key(leaf: Guid) -> String {
    format!("{PREFIX}{:016x}", leaf.0)
}

pub(crate) fn encode(groups: &Groups) -> ZapValue {
    let words = groups.iter().flat_map(|(txg, state)| {
        let [a, b, c, d] = state.root;
        [txg.0, state.seconds, a, b, c, d]
    });
    ZapValue::from_u64s(&words.collect::<Vec<u64>>())
}

fn decode(words: &[u64]) -> Groups {
    let each = words.chunks_exact(WORDS).map(|words| {
        let root = [words[2], words[3], words[4], words[5]];
        let seconds = words[1];
        (Txg(words[0]), State { root, seconds })
    });
    each.collect()
}

/// What is kept of all leaves.
///
/// # Errors
/// If the object directory cannot be read.
pub(crate) fn load(mos: &Arc<ObjectSet>) -> Result<BTreeMap<Guid, Groups>, DmuError> {
    let mut kept = BTreeMap::new();
    for entry in mos.zap(OBJECT_DIRECTORY)?.entries().take(ENTRIES_MAX) {
        let entry = entry?;
        let ZapKey::Name(name) = &entry.key else {
            continue;
        };
        let name = std::str::from_utf8(name).unwrap_or_default();
        let guid = name.strip_prefix(PREFIX);
        let guid = guid.and_then(|guid| u64::from_str_radix(guid, 16).ok());
        if let (Some(guid), Some(words)) = (guid, entry.value.as_u64s()) {
            kept.insert(Guid(guid), decode(&words));
        }
    }
    Ok(kept)
}
