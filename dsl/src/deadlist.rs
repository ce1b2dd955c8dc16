//! Deadlists: what a dataset's previous snapshot holds and the dataset no longer (format/3a 4).
//!
//! A deadlist is a ZAP from transaction groups to block pointer objects. The one with key `k`
//! has the blocks born after `k`, up to the next key. Their totals answer almost every question
//! about space; the pointers themselves are read only to free or to check them. Before version
//! 26 there is one block pointer object and no key.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::{Object, Zap};
use cenote_ondisk::bpobj::BpobjHeader;
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::{DecodeError, ObjectType};

/// The group of the empty snapshot that every dataset begins with: no key lies between it and 0
/// (format/3a 2).
const FIRST_TXG: Txg = Txg(1);

/// Used, compressed and uncompressed bytes, which are always counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceTriple {
    /// The space taken, deflated.
    pub used: u64,
    /// After compression.
    pub compressed: u64,
    /// Before compression.
    pub uncompressed: u64,
}

impl SpaceTriple {
    /// The sums, stopping at the largest number.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            used: self.used.saturating_add(other.used),
            compressed: self.compressed.saturating_add(other.compressed),
            uncompressed: self.uncompressed.saturating_add(other.uncompressed),
        }
    }

    /// What is left without a part.
    #[must_use]
    pub fn minus(self, part: Self) -> Self {
        Self {
            used: self.used.saturating_sub(part.used),
            compressed: self.compressed.saturating_sub(part.compressed),
            uncompressed: self.uncompressed.saturating_sub(part.uncompressed),
        }
    }
}

impl From<&BpobjHeader> for SpaceTriple {
    fn from(header: &BpobjHeader) -> Self {
        Self {
            used: header.bytes,
            compressed: header.compressed_bytes.unwrap_or(0),
            uncompressed: header.uncompressed_bytes.unwrap_or(0),
        }
    }
}

/// One entry of a deadlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlistEntry {
    /// Its blocks were born after this.
    pub key: Txg,
    /// The block pointer object.
    pub bpobj: ObjectId,
    /// Its totals, sub-objects included.
    pub space: SpaceTriple,
}

/// An open deadlist or livelist.
#[derive(Clone, Debug)]
pub struct Deadlist {
    object: Object,
    totals: SpaceTriple,
    /// In order of key; `None` where there is one list without keys.
    entries: Option<Vec<DeadlistEntry>>,
}

impl Deadlist {
    /// Opens the deadlist in object `id`.
    pub fn open(dsl: &Dsl, id: ObjectId) -> Result<Self, DslError> {
        let object = dsl.mos().object(id)?;
        if object.dnode().bonus_type != ObjectType::DEADLIST_HEADER {
            let totals = bpobj_space(&object)?;
            let entries = None;
            return Ok(Self {
                object,
                totals,
                entries,
            });
        }
        let header = DeadlistHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| DslError::decode(id, source))?;
        let totals = SpaceTriple {
            used: header.used_bytes,
            compressed: header.compressed_bytes,
            uncompressed: header.uncompressed_bytes,
        };
        let entries = Some(read_entries(dsl, &object)?);
        Ok(Self {
            object,
            totals,
            entries,
        })
    }

    /// Only the totals of the deadlist in object `id`.
    pub fn totals_of(dsl: &Dsl, id: ObjectId) -> Result<SpaceTriple, DslError> {
        let object = dsl.mos().object(id)?;
        if object.dnode().bonus_type != ObjectType::DEADLIST_HEADER {
            return bpobj_space(&object);
        }
        let header = DeadlistHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| DslError::decode(id, source))?;
        Ok(SpaceTriple {
            used: header.used_bytes,
            compressed: header.compressed_bytes,
            uncompressed: header.uncompressed_bytes,
        })
    }

    /// The space of blocks born after `after`, which is a key, in the deadlist in object `id`;
    /// `None` where there are no keys.
    ///
    /// Reads as few of its lists as will do: those of a chain of snapshots have as many keys as
    /// there are snapshots, and only what is older than the chain counts for nothing.
    pub fn space_born_after(
        dsl: &Dsl,
        id: ObjectId,
        after: Txg,
    ) -> Result<Option<SpaceTriple>, DslError> {
        let object = dsl.mos().object(id)?;
        if object.dnode().bonus_type != ObjectType::DEADLIST_HEADER {
            return Ok(None);
        }
        let totals = Self::totals_of(dsl, id)?;
        if totals == SpaceTriple::default() {
            return Ok(Some(totals));
        }
        if after > FIRST_TXG {
            return Ok(Self::open(dsl, id)?.space_after(after));
        }
        let first = Zap::open(object)?.lookup(b"0")?;
        let older = match first.and_then(|value| value.as_u64()) {
            Some(list) if after > Txg(0) => bpobj_space(&dsl.mos().object(ObjectId(list))?)?,
            _ => SpaceTriple::default(),
        };
        Ok(Some(totals.minus(older)))
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// The totals that its header states.
    pub fn totals(&self) -> SpaceTriple {
        self.totals
    }

    /// The entries in order of key; `None` in pools before version 26.
    pub fn entries(&self) -> Option<&[DeadlistEntry]> {
        self.entries.as_deref()
    }

    /// The space of blocks born after `after` and not after `last`, both of which are keys or
    /// the ends; `None` where there are no keys.
    pub fn space_range(&self, after: Txg, last: Txg) -> Option<SpaceTriple> {
        Some(space_within(self.entries()?, after, last))
    }

    /// The space of blocks born after `after`.
    pub fn space_after(&self, after: Txg) -> Option<SpaceTriple> {
        self.space_range(after, Txg(u64::MAX))
    }
}

/// The space of blocks born after `after` and not after `last`, in the entries of a deadlist.
pub(crate) fn space_within(entries: &[DeadlistEntry], after: Txg, last: Txg) -> SpaceTriple {
    let within = |entry: &&DeadlistEntry| after <= entry.key && entry.key < last;
    let entries = entries.iter().filter(within);
    entries.fold(SpaceTriple::default(), |sum, entry| sum.plus(entry.space))
}

fn bpobj_space(object: &Object) -> Result<SpaceTriple, DslError> {
    let header = BpobjHeader::decode(&object.dnode().bonus);
    let header = header.map_err(|source| DslError::decode(object.id(), source))?;
    Ok(SpaceTriple::from(&header))
}

fn read_entries(dsl: &Dsl, object: &Object) -> Result<Vec<DeadlistEntry>, DslError> {
    let zap = Zap::open(object.clone())?;
    // Most entries of a long chain of snapshots are the shared list that is always empty.
    let empty = dsl.object_directory().object(keys::EMPTY_BPOBJ)?;
    let mut entries = Vec::new();
    for entry in zap.entries() {
        let entry = entry?;
        let key = entry.key.as_str();
        let key = key.and_then(|key| u64::from_str_radix(key, 16).ok());
        let (Some(key), Some(bpobj)) = (key, entry.value.as_u64()) else {
            let (structure, problem) = ("deadlist", "an entry is no transaction group");
            let source = DecodeError::Inconsistent { structure, problem };
            return Err(DslError::decode(object.id(), source));
        };
        let bpobj = ObjectId(bpobj);
        let space = match Some(bpobj) == empty {
            true => SpaceTriple::default(),
            false => bpobj_space(&dsl.mos().object(bpobj)?)?,
        };
        entries.push(DeadlistEntry {
            key: Txg(key),
            bpobj,
            space,
        });
    }
    entries.sort_by_key(|entry| entry.key);
    // The pair of the assertion in `create_deadlist`. Its keys have several forms: 0a is a.
    if entries.windows(2).any(|two| two[0].key == two[1].key) {
        let (structure, problem) = ("deadlist", "a transaction group has two entries");
        let source = DecodeError::Inconsistent { structure, problem };
        return Err(DslError::decode(object.id(), source));
    }
    Ok(entries)
}
