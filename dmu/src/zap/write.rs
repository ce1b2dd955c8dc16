//! Changing ZAPs.
//!
//! A change finds the newest state by itself, so that it does not matter how old the handle is.
//! Writers of one ZAP must take turns, which is the caller's to arrange; readers need not: a
//! split writes the new leaf first, then cuts the old one, then points to the new one, and a
//! reader that meets a leaf which does not cover its hash looks again.
//!
//! A change of several steps (a micro ZAP that becomes fat, a split) happens or does not: a step
//! that fails takes the others back. So a ZAP with too many names of one hash, which cannot become
//! fat, stays as it was.

use super::ZapValue;
use super::open::{Kind, Zap};
use super::problem::{cannot, exists, inconsistent};
use super::store::{KeyRef, Mode, Store};
use crate::error::DmuError;
use crate::object::Object;
use crate::txg::Transaction;
use cenote_base::BlockId;
use cenote_ondisk::zap::fat_header::FatHeader;
use cenote_ondisk::zap::leaf_edit::{StoredKey, value_fits};
use cenote_ondisk::zap::micro;

/// log2 of the block size of fat ZAPs that grew out of micro ones, and of most others.
pub const FAT_BLOCK_SHIFT: u32 = 14;
/// The size at which a micro ZAP is created.
const MICRO_SIZE_MIN: u64 = 512;

/// How a new ZAP is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewZap {
    /// How names are normalized (format/2b 5.4); 0 for not at all.
    pub normflags: u64,
    /// `FLAG_*` of [`cenote_ondisk::zap::fat_header`]; a ZAP with any is born fat.
    pub flags: u64,
    /// log2 of the block size of a ZAP that is born fat.
    pub block_shift: u32,
}

impl Default for NewZap {
    fn default() -> Self {
        Self {
            normflags: 0,
            flags: 0,
            block_shift: FAT_BLOCK_SHIFT,
        }
    }
}

impl Zap {
    /// Makes a ZAP of an object that has no data yet. The salt of its hashes comes from where
    /// and when it is made.
    pub fn initialize(object: &Object, tx: &Transaction, new: NewZap) -> Result<Self, DmuError> {
        let place = object.id().0 ^ object.set().id().0.rotate_left(32);
        let salt = mix(place ^ tx.txg().0.rotate_left(48)) | 1;
        if new.flags == 0 {
            if object.newest_dnode().data_block_size < MICRO_SIZE_MIN {
                object.set_block_size(tx, MICRO_SIZE_MIN)?;
            }
            let header = micro::encode_header(salt, new.normflags);
            object.write_part(tx, BlockId(0), |block| {
                block.fill(0);
                block[..header.len()].copy_from_slice(&header);
            })?;
        } else {
            object.set_block_size(tx, 1 << new.block_shift)?;
            let header = FatHeader::new(new.block_shift, salt, new.normflags, new.flags);
            super::write_fat::write_empty(object, tx, &header)?;
        }
        Self::open(object.set().object(object.id())?)
    }

    /// Stores the value of a key that is not there yet.
    pub fn insert<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
        value: &ZapValue,
    ) -> Result<(), DmuError> {
        let (key, mode) = (key.into(), Mode::Insert);
        self.store(tx, Store { key, value, mode })
    }

    /// Stores a value, whether the key is there or not.
    pub fn update<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
        value: &ZapValue,
    ) -> Result<(), DmuError> {
        let (key, mode) = (key.into(), Mode::Update);
        self.store(tx, Store { key, value, mode })
    }

    /// As [`Self::insert`] of one 64-bit integer.
    pub fn insert_u64<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
        value: u64,
    ) -> Result<(), DmuError> {
        self.insert(tx, key, &ZapValue::from_u64(value))
    }

    /// As [`Self::update`] with one 64-bit integer.
    pub fn update_u64<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
        value: u64,
    ) -> Result<(), DmuError> {
        self.update(tx, key, &ZapValue::from_u64(value))
    }

    /// Removes a key; whether it was there.
    pub fn remove<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
    ) -> Result<bool, DmuError> {
        let key = key.into();
        let Some(stored) = key.stored() else {
            return Ok(false);
        };
        let zap = self.newest()?;
        match &zap.kind {
            Kind::Micro => zap.remove_micro(tx, key),
            Kind::Fat(header) if header.has_word_keys() != matches!(key, KeyRef::Words(_)) => {
                Ok(false)
            }
            Kind::Fat(_) => tx.as_one(|| zap.into_fat_editor(tx).remove(key, &stored)),
        }
    }

    /// Adds `delta` to the integer of a key, which is 0 when it is not there; an entry that
    /// becomes 0 is removed. Returns the sum.
    ///
    /// A counter that was wrong before wraps around, as OpenZFS has it ("16E used"): it comes out
    /// of that as it went in, and what counts must not stop the pool.
    pub fn increment<'k>(
        &self,
        tx: &Transaction,
        key: impl Into<KeyRef<'k>>,
        delta: i64,
    ) -> Result<u64, DmuError> {
        let key = key.into();
        let value = match key {
            KeyRef::Name(name) => self.lookup(name)?,
            KeyRef::Words(words) => self.lookup_words(words)?,
        };
        let now = match &value {
            None => 0,
            Some(value) => value
                .as_u64()
                .ok_or_else(|| self.inconsistent("a counter is not one 64-bit integer"))?,
        };
        let sum = now.wrapping_add_signed(delta);
        match (value.is_some(), sum) {
            (_, same) if same == now => {}
            (true, 0) => {
                self.remove(tx, key)?;
            }
            _ => self.update_u64(tx, key, sum)?,
        }
        Ok(sum)
    }

    fn store(&self, tx: &Transaction, store: Store<'_>) -> Result<(), DmuError> {
        let Some(stored) = store.key.stored().filter(|_| value_fits(store.value)) else {
            return Err(self.cannot("a key or value is too long for it"));
        };
        let zap = self.newest()?;
        if let Kind::Micro = zap.kind
            && let Some(plan) = zap.plan_micro(store)?
        {
            return zap.apply_micro(tx, plan);
        }
        tx.as_one(|| self.store_fat(tx, zap, (store, &stored)))
    }

    /// Stores into a fat ZAP, or into one that takes that to become fat.
    fn store_fat(
        &self,
        tx: &Transaction,
        zap: Self,
        (store, stored): (Store<'_>, &StoredKey<'_>),
    ) -> Result<(), DmuError> {
        let zap = match zap.kind {
            Kind::Micro => {
                zap.upgrade(tx)?;
                self.newest()?
            }
            Kind::Fat(_) => zap,
        };
        if let Kind::Fat(header) = &zap.kind
            && header.has_word_keys() != matches!(store.key, KeyRef::Words(_))
        {
            return Err(self.cannot("its keys are of the other kind"));
        }
        zap.into_fat_editor(tx).store(store, stored)
    }

    /// The ZAP as it is now.
    pub(super) fn newest(&self) -> Result<Self, DmuError> {
        Self::open(self.object.set().object(self.object.id())?)
    }

    pub(super) fn inconsistent(&self, problem: &'static str) -> DmuError {
        inconsistent(&self.object, problem)
    }

    pub(super) fn cannot(&self, problem: &'static str) -> DmuError {
        cannot(&self.object, problem)
    }

    pub(super) fn exists(&self) -> DmuError {
        exists(&self.object)
    }
}

/// Spreads a number over all bits (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
