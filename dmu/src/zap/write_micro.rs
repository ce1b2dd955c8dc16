//! Changing micro ZAPs, and making them fat (format/2b 5.1).
//!
//! The block grows by a sector when it is full, up to a limit; beyond that, or with an entry
//! that a micro ZAP cannot hold, all entries move to a fat one with the same salt and the same
//! collision differentiators, so that places in a listing stay good.

use super::ZapKey;
use super::normalize::normalize;
use super::open::{Kind, Zap};
use super::problem::{TOO_MANY_EQUAL, full};
use super::store::{KeyRef, Mode, Store};
use super::write::FAT_BLOCK_SHIFT;
use crate::error::DmuError;
use crate::object::Object;
use crate::txg::Transaction;
use cenote_base::{BlockId, SECTOR_SIZE};
use cenote_ondisk::zap::Value as ZapValue;
use cenote_ondisk::zap::fat_header::FatHeader;
use cenote_ondisk::zap::leaf::Geometry;
use cenote_ondisk::zap::leaf_edit::{StoredKey, chunks_needed};
use cenote_ondisk::zap::micro::{self, ENTRY_SIZE};

/// Bytes at which a micro ZAP becomes fat instead of growing.
const MICRO_SIZE_MAX: usize = 128 << 10;

/// What storing an entry does to the block.
pub(super) struct Plan {
    place: usize,
    entry: [u8; ENTRY_SIZE],
    /// The size to which the block grows first.
    grow_to: Option<u64>,
}

impl Zap {
    pub(super) fn apply_micro(self, tx: &Transaction, plan: Plan) -> Result<(), DmuError> {
        // The block is released, so that it can be changed without a copy.
        let object = self.object;
        drop(self.block0);
        tx.as_one(|| {
            if let Some(size) = plan.grow_to {
                object.set_block_size(tx, size)?;
            }
            put_entry(&object, tx, plan.place, plan.entry)
        })
    }

    /// What storing a value takes; `None` if it takes a fat ZAP.
    pub(super) fn plan_micro(&self, store: Store<'_>) -> Result<Option<Plan>, DmuError> {
        let KeyRef::Name(name) = store.key else {
            return Err(self.cannot("its keys are names"));
        };
        let micro = self.micro();
        let found = micro.find(name);
        if found.is_some() && store.mode == Mode::Insert {
            return Err(self.exists());
        }
        let Some(value) = store.value.as_u64() else {
            return Ok(None);
        };
        if name.len() > micro::NAME_MAX {
            return Ok(None);
        }
        let length = self.block0.len();
        let (place, cd) = match found {
            Some((place, entry)) => (place, entry.cd),
            None => {
                let cd = self.free_cd(name, store.value)?;
                (micro.free_place().unwrap_or(length), cd)
            }
        };
        let is_full = place + ENTRY_SIZE > length;
        if is_full && length >= MICRO_SIZE_MAX {
            return Ok(None);
        }
        let Some(entry) = micro::encode_entry(name, value, cd) else {
            return Err(self.cannot("a name that no ZAP can hold"));
        };
        let grown = (place + ENTRY_SIZE) as u64;
        let grow_to = is_full.then(|| grown.next_multiple_of(SECTOR_SIZE));
        Ok(Some(Plan {
            place,
            entry,
            grow_to,
        }))
    }

    /// The lowest differentiator that no entry of the same hash has.
    ///
    /// # Errors
    /// If the entries of this hash, with the new one, would not fit into one leaf of the fat ZAP
    /// that this can become. Splitting a leaf does not separate them, so the micro ZAP could not
    /// become fat any more, and would refuse all new names once it is full.
    fn free_cd(&self, name: &[u8], value: &ZapValue) -> Result<u32, DmuError> {
        let micro = self.micro();
        let flags = micro.normflags;
        let hash = |name: &[u8]| match flags {
            0 => micro.hash(name),
            _ => micro.hash(&normalize(name, flags)),
        };
        // All values are one number, as the new one is.
        let chunks =
            |name: &[u8]| StoredKey::name(name).map_or(0, |key| chunks_needed(&key, value));
        let wanted = hash(name);
        let same = micro.entries().filter(|entry| hash(entry.name) == wanted);
        let mut in_leaf = chunks(name);
        let mut taken = Vec::new();
        for entry in same {
            in_leaf += chunks(entry.name);
            taken.push(entry.cd);
        }
        let leaf = Geometry::of_block(1 << FAT_BLOCK_SHIFT);
        if in_leaf > leaf.expect("it is a size of a block").chunks {
            return Err(full(&self.object, TOO_MANY_EQUAL));
        }
        taken.sort_unstable();
        let mut lowest = 0;
        for cd in taken {
            lowest += u32::from(cd == lowest);
        }
        Ok(lowest)
    }

    pub(super) fn remove_micro(self, tx: &Transaction, key: KeyRef<'_>) -> Result<bool, DmuError> {
        let KeyRef::Name(name) = key else {
            return Ok(false);
        };
        let found = self.micro().find(name);
        let Some(place) = found.map(|(place, _)| place) else {
            return Ok(false);
        };
        let object = self.object;
        drop(self.block0);
        put_entry(&object, tx, place, [0; ENTRY_SIZE])?;
        Ok(true)
    }

    /// Makes the micro ZAP a fat one.
    pub(super) fn upgrade(&self, tx: &Transaction) -> Result<(), DmuError> {
        let micro = self.micro();
        let flags = micro.normflags;
        let entries = micro.sorted(|name| micro.hash(&normalize(name, flags)));
        let header = FatHeader::new(FAT_BLOCK_SHIFT, micro.salt, flags, 0);
        self.object.set_block_size(tx, 1 << FAT_BLOCK_SHIFT)?;
        super::write_fat::write_empty(&self.object, tx, &header)?;
        let zap = self.newest()?;
        let Kind::Fat(_) = zap.kind else {
            return Err(self.inconsistent("it did not become fat"));
        };
        let mut editor = zap.into_fat_editor(tx);
        for entry in &entries {
            let ZapKey::Name(name) = &entry.key else {
                continue;
            };
            let Some(stored) = StoredKey::name(name) else {
                return Err(self.inconsistent("a name that no ZAP can hold"));
            };
            editor.add(entry.hash, Some(entry.cd), &stored, &entry.value)?;
        }
        editor.finish()
    }
}

fn put_entry(
    object: &Object,
    tx: &Transaction,
    place: usize,
    entry: [u8; ENTRY_SIZE],
) -> Result<(), DmuError> {
    let range = place..place + ENTRY_SIZE;
    object.write_part_from(tx, (BlockId(0), range.clone()), |block| {
        block[range].copy_from_slice(&entry);
    })
}
