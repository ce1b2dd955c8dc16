//! What is sent, and what is there already.

use super::unreadable;
use crate::error::StreamError;
use cenote_base::{Guid, ObjectId, Txg};
use cenote_dmu::{IoContext, ObjectSet};
use cenote_dsl::{Bookmark, Dataset};
use cenote_ondisk::Dnode;
use cenote_ondisk::crypto_key::CryptoKey;
use cenote_ondisk::dsl_dataset::FLAG_CASE_INSENSITIVE;
use cenote_ondisk::features;
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::stream::ResumeToken;
use cenote_redaction::List;
use std::sync::Arc;

/// Where to resume: an object, and an offset in bytes.
pub type Resume = (ObjectId, u64);

/// The extension field with the set of IVs of an encrypted snapshot.
const IVSET_GUID: &str = "com.datto:ivset_guid";
/// The master node of a file system, and its entry with the version (format/3b 1).
const MASTER_NODE: ObjectId = ObjectId(1);
const VERSION: &[u8] = b"VERSION";
/// The first version whose objects have system attributes.
const VERSION_ATTRIBUTES: u64 = 5;
/// What a head has in place of a snapshot's name (format/4 4).
pub const HEAD_SUFFIX: &str = "@--head--";

/// Features that are in use in the dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) large_blocks: bool,
    pub(super) large_dnodes: bool,
    pub(super) zstd: bool,
    pub(super) long_names: bool,
    pub(super) large_microzaps: bool,
}

/// Features of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolUses {
    pub(super) embedded_data: bool,
    pub(super) lz4: bool,
}

/// A snapshot to send.
#[derive(Debug)]
pub struct Snapshot {
    pub(super) set: Arc<ObjectSet>,
    pub(super) name: Vec<u8>,
    pub(super) guid: Guid,
    pub(super) creation_time: u64,
    pub(super) ignores_case: bool,
    pub(super) has_system_attributes: bool,
    pub(super) uses: Uses,
    pub(super) pool: PoolUses,
    /// The snapshots that it is redacted to.
    pub(super) redaction: Option<Vec<u64>>,
    /// What is left out of the stream.
    pub(super) without: Option<List>,
    pub(super) key: Option<CryptoKey>,
    pub(super) ivset_guid: Guid,
    /// Whether only a part of it is here.
    pub(super) is_partial: bool,
}

/// What a receiver has: a snapshot, or the one that a bookmark remembers.
#[derive(Clone, Debug)]
pub struct Base {
    pub(super) guid: Guid,
    pub(super) txg: Txg,
    pub(super) ivset_guid: Guid,
    /// Whether it is of another dataset, so that the stream makes a clone.
    pub(super) is_foreign: bool,
    pub(super) redaction: Option<Vec<u64>>,
    /// What may be missing in it, and is sent again.
    pub(super) missing: Option<List>,
}

impl Snapshot {
    /// The description of a snapshot, or of a head that does not change meanwhile.
    ///
    /// # Errors
    /// If it cannot be read, or was not received to its end.
    pub fn of(dataset: &Dataset) -> Result<Self, StreamError> {
        if dataset.is_inconsistent() {
            return Err(StreamError::Unsendable {
                problem: "it was not received to its end",
            });
        }
        Self::read(dataset)
    }

    /// The description of a head that holds the beginning of a snapshot, from its resume token. The
    /// stream has no END, so that its receiver can resume with the rest.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn of_partial(head: &Dataset, token: &ResumeToken) -> Result<Self, StreamError> {
        Ok(Self {
            name: token.to_name.clone(),
            guid: token.to_guid,
            is_partial: true,
            ..Self::read(head)?
        })
    }

    fn read(dataset: &Dataset) -> Result<Self, StreamError> {
        let set = dataset.object_set().map_err(unreadable)?;
        // A stream waits for devices as a program does that reads the files.
        let set = set.for_io(&IoContext::USER);
        let has = |name| has_feature(dataset, name);
        let pool = dataset.dsl().features();
        let is_active = |name| guid_of(name).is_some_and(|guid| pool.is_active(guid));
        let key = dataset.directory().crypto_key().map_err(unreadable)?;
        let mut name = dataset.name().to_string().into_bytes();
        if !dataset.is_snapshot() {
            name.extend_from_slice(HEAD_SUFFIX.as_bytes());
        }
        Ok(Self {
            name,
            guid: match dataset.is_snapshot() {
                true => dataset.phys().guid,
                false => guid_of_state(dataset.phys().guid, &set.header().meta_dnode),
            },
            creation_time: dataset.phys().creation_time,
            ignores_case: dataset.phys().flags & FLAG_CASE_INSENSITIVE != 0,
            has_system_attributes: has_system_attributes(&set)?,
            uses: Uses {
                large_blocks: has("large_blocks")?,
                large_dnodes: has("large_dnode")?,
                zstd: has("zstd_compress")?,
                long_names: has("longname")?,
                large_microzaps: has("large_microzap")?,
            },
            pool: PoolUses {
                embedded_data: is_active("embedded_data"),
                lz4: is_active("lz4_compress"),
            },
            redaction: dataset.redaction_snapshots().map_err(unreadable)?,
            without: None,
            key: key.map(|key| key.stored.clone()),
            ivset_guid: ivset_guid(dataset)?,
            is_partial: false,
            set,
        })
    }

    /// The same without the blocks of a redaction list.
    #[must_use]
    pub fn without(self, list: &List) -> Self {
        Self {
            redaction: Some(list.snapshots()),
            without: Some(list.clone()),
            ..self
        }
    }

    /// The full name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether its contents are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.key.is_some()
    }

    /// The number in BEGIN.
    pub(super) fn objset_type(&self) -> u32 {
        u32::try_from(self.set.header().kind.number()).unwrap_or(0)
    }
}

/// The guid that a stream of a head has, as the head is now.
///
/// A head's own guid never changes. A stream that was cut could then be resumed with contents that
/// changed meanwhile, and what is received would be neither the one state nor the other.
///
/// # Errors
/// If the head cannot be read.
pub fn guid_of_head(head: &Dataset) -> Result<Guid, StreamError> {
    let set = head.object_set().map_err(unreadable)?;
    Ok(guid_of_state(head.phys().guid, &set.header().meta_dnode))
}

/// A guid for what a head's tree of dnodes leads to. The tree changes with every object.
fn guid_of_state(head: Guid, meta: &Dnode) -> Guid {
    // Fibonacci hashing: each word is mixed with all before it.
    let mix = |hash: u64, word: u64| {
        let mixed = (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 32
    };
    let words = meta.block_pointers.iter().flat_map(|pointer| {
        let birth = [pointer.logical_birth().0];
        birth.into_iter().chain(pointer.checksum())
    });
    Guid(words.fold(head.0, mix).max(1))
}

impl Base {
    /// A snapshot that the receiver has, for a stream of `target`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn snapshot(base: &Dataset, target: &Dataset) -> Result<Self, StreamError> {
        Ok(Self {
            guid: base.phys().guid,
            txg: base.phys().creation_txg,
            ivset_guid: ivset_guid(base)?,
            is_foreign: base.directory().id() != target.directory().id(),
            redaction: base.redaction_snapshots().map_err(unreadable)?,
            missing: None,
        })
    }

    /// The same as a snapshot of the dataset that is sent, whatever the head that holds it is.
    #[must_use]
    pub fn own(self) -> Self {
        Self {
            is_foreign: false,
            ..self
        }
    }

    /// A bookmark of a snapshot that the receiver has, for a stream of `target`. If it is a
    /// redaction bookmark, the receiver's snapshot may lack what it lists.
    ///
    /// # Errors
    /// If the bookmark's redaction list is not complete, or cannot be read.
    pub fn bookmark(bookmark: &Bookmark, target: &Dataset) -> Result<Self, StreamError> {
        let missing = match bookmark.phys.redaction_list {
            Some(_) => Some(List::of(target.dsl(), bookmark)?),
            None => None,
        };
        Ok(Self {
            guid: bookmark.phys.guid,
            txg: bookmark.phys.creation_txg,
            ivset_guid: bookmark.phys.ivset_guid.unwrap_or_default(),
            is_foreign: bookmark.name.dataset() != target.name().dataset(),
            redaction: missing.as_ref().map(List::snapshots),
            missing,
        })
    }
}

fn guid_of(name: &str) -> Option<&'static str> {
    features::by_name(name).map(|feature| feature.guid)
}

fn has_feature(dataset: &Dataset, name: &str) -> Result<bool, StreamError> {
    match guid_of(name) {
        Some(guid) => {
            let value = dataset.extension_number(guid).map_err(unreadable)?;
            Ok(value.is_some())
        }
        None => Ok(false),
    }
}

fn ivset_guid(dataset: &Dataset) -> Result<Guid, StreamError> {
    let guid = dataset.extension_number(IVSET_GUID).map_err(unreadable)?;
    Ok(Guid(guid.unwrap_or(0)))
}

fn has_system_attributes(set: &Arc<ObjectSet>) -> Result<bool, StreamError> {
    if set.header().kind != ObjsetKind::Zfs || set.dnode(MASTER_NODE).map_err(unreadable)?.is_none()
    {
        return Ok(false);
    }
    let zap = set.zap(MASTER_NODE).map_err(unreadable)?;
    let version = zap.lookup(VERSION).map_err(unreadable)?;
    let version = version.and_then(|value| value.as_u64());
    Ok(version.is_some_and(|version| version >= VERSION_ATTRIBUTES))
}
