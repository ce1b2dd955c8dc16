//! An open ZAP, and looking for keys in it.

use super::normalize::normalize;
use super::problem::{STRUCTURE, block_of};
use super::{ZapKey, ZapValue};
use crate::error::DmuError;
use crate::object::Object;
use crate::object_set::ObjectSet;
use cenote_base::rt;
use cenote_base::{BlockId, ObjectId};
use cenote_cache::Block;
use cenote_io::IoContext;
use cenote_ondisk::DecodeError;
use cenote_ondisk::zap::fat_header::FatHeader;
use cenote_ondisk::zap::hash::HASH_BITS;
use cenote_ondisk::zap::leaf::Leaf;
use cenote_ondisk::zap::micro::MicroZap;
use cenote_ondisk::zap::{Form, form};
use std::sync::Arc;

/// How often a reader looks again before it takes what it sees for damage.
const LOOKS_MAX: usize = 100;

/// An open ZAP.
#[derive(Clone, Debug)]
pub struct Zap {
    pub(super) object: Object,
    pub(super) block0: Block,
    pub(super) kind: Kind,
}

/// Which of the two forms it has.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Micro,
    Fat(Box<FatHeader>),
}

impl Zap {
    /// The same ZAP, read for something else.
    #[must_use]
    pub fn for_io(&self, io: &IoContext) -> Self {
        Self {
            object: self.object.for_io(io),
            ..self.clone()
        }
    }

    /// Opens the ZAP in `object`.
    pub fn open(object: Object) -> Result<Self, DmuError> {
        let Some(block0) = object.block(BlockId(0))? else {
            let source = DecodeError::Missing {
                structure: STRUCTURE,
                key: "block 0",
            };
            return Err(object.malformed(source));
        };
        let kind = match form(&block0).map_err(|source| object.malformed(source))? {
            Form::Micro => {
                MicroZap::decode(&block0).map_err(|source| object.malformed(source))?;
                Kind::Micro
            }
            Form::Fat => {
                let header = FatHeader::decode(&block0);
                Kind::Fat(Box::new(header.map_err(|source| object.malformed(source))?))
            }
        };
        Ok(Self {
            object,
            block0,
            kind,
        })
    }

    /// The object.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Number of entries.
    pub fn count(&self) -> u64 {
        match &self.kind {
            Kind::Micro => self.micro().entries().count() as u64,
            Kind::Fat(header) => header.entries,
        }
    }

    /// The flags by which names are normalized; 0 for exact names.
    pub fn normalization(&self) -> u64 {
        match &self.kind {
            Kind::Micro => self.micro().normflags,
            Kind::Fat(header) => header.normflags,
        }
    }

    /// The bits of a hash that count, which place the cursor's differentiator.
    pub(super) fn hash_bits(&self) -> u32 {
        match &self.kind {
            Kind::Micro => HASH_BITS,
            Kind::Fat(header) => header.hash_bits(),
        }
    }

    pub(super) fn micro(&self) -> MicroZap<'_> {
        MicroZap::decode(&self.block0).expect("it decoded when the ZAP was opened")
    }

    pub(super) fn malformed(&self, source: DecodeError) -> DmuError {
        self.object.malformed(source)
    }

    /// Looks again while a change is under way, which another thread makes.
    pub(super) fn look<R>(
        &self,
        look: impl Fn(&Self) -> Result<R, DmuError>,
    ) -> Result<R, DmuError> {
        if !self.object.set().is_writable() {
            return look(self);
        }
        let mut attempts = 0;
        loop {
            match self.newest().and_then(|zap| look(&zap)) {
                Err(error) if error.is_damage() && attempts < LOOKS_MAX => attempts += 1,
                result => return result,
            }
            rt::yield_now();
        }
    }

    /// The value of exactly this name.
    pub fn lookup(&self, name: &[u8]) -> Result<Option<ZapValue>, DmuError> {
        self.look(|zap| zap.lookup_now(name))
    }

    fn lookup_now(&self, name: &[u8]) -> Result<Option<ZapValue>, DmuError> {
        match &self.kind {
            Kind::Micro => Ok(self.micro().lookup(name).map(ZapValue::from_u64)),
            Kind::Fat(header) if header.has_word_keys() => Ok(None),
            Kind::Fat(header) => {
                let hash = match header.normflags {
                    0 => header.hash_name(name),
                    flags => header.hash_name(&normalize(name, flags)),
                };
                self.in_leaf(header, hash, |leaf| match leaf.lookup_name(hash, name)? {
                    Some(entry) => entry.value().map(Some),
                    None => Ok(None),
                })
            }
        }
    }

    /// The value of exactly this name, if it is one 64-bit integer.
    pub fn lookup_u64(&self, name: &str) -> Result<Option<u64>, DmuError> {
        Ok(self
            .lookup(name.as_bytes())?
            .and_then(|value| value.as_u64()))
    }

    /// The entry whose name equals `name` under the ZAP's normalization, with its spelling.
    ///
    /// Among several the one with the lowest collision differentiator is meant.
    pub fn lookup_normalized(&self, name: &[u8]) -> Result<Option<(Vec<u8>, ZapValue)>, DmuError> {
        self.look(|zap| zap.lookup_normalized_now(name))
    }

    fn lookup_normalized_now(&self, name: &[u8]) -> Result<Option<(Vec<u8>, ZapValue)>, DmuError> {
        let flags = self.normalization();
        let wanted = normalize(name, flags);
        match &self.kind {
            Kind::Micro => {
                let micro = self.micro();
                let equal = micro
                    .entries()
                    .filter(|entry| normalize(entry.name, flags) == wanted);
                let first = equal.min_by_key(|entry| entry.cd);
                Ok(first.map(|entry| (entry.name.to_vec(), ZapValue::from_u64(entry.value))))
            }
            Kind::Fat(header) if header.has_word_keys() => Ok(None),
            Kind::Fat(header) => {
                let hash = header.hash_name(&wanted);
                self.in_leaf(header, hash, |leaf| {
                    for entry in leaf.with_hash(hash)? {
                        let entry = entry.to_entry()?;
                        let spelled = entry.key.as_name().unwrap_or_default();
                        if normalize(spelled, flags) == wanted {
                            return Ok(Some((spelled.to_vec(), entry.value)));
                        }
                    }
                    Ok(None)
                })
            }
        }
    }

    /// The value of a key of numbers.
    pub fn lookup_words(&self, words: &[u64]) -> Result<Option<ZapValue>, DmuError> {
        self.look(|zap| zap.lookup_words_now(words))
    }

    fn lookup_words_now(&self, words: &[u64]) -> Result<Option<ZapValue>, DmuError> {
        let Kind::Fat(header) = &self.kind else {
            return Ok(None);
        };
        if !header.has_word_keys() || words.is_empty() {
            return Ok(None);
        }
        let hash = header.hash_words(words);
        self.in_leaf(header, hash, |leaf| {
            match leaf.lookup(hash, &ZapKey::Words(words.to_vec()))? {
                Some(entry) => entry.value().map(Some),
                None => Ok(None),
            }
        })
    }

    /// Looks into the leaf of a hash.
    pub(super) fn in_leaf<R>(
        &self,
        header: &FatHeader,
        hash: u64,
        look: impl FnOnce(&Leaf<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, DmuError> {
        let block = self.leaf_block(header, header.pointer_index(hash))?;
        let leaf = self.leaf(header, &block)?;
        if !leaf.covers(hash) {
            return Err(self.inconsistent("a leaf stands where its prefix does not belong"));
        }
        look(&leaf).map_err(|source| self.malformed(source))
    }

    /// The block of the leaf that pointer `index` names.
    pub(super) fn leaf_block(&self, header: &FatHeader, index: u64) -> Result<Block, DmuError> {
        let place = header.pointer_place(index);
        let table = match place.block {
            BlockId(0) => Block::clone(&self.block0),
            id => self.block(id)?,
        };
        let id = header
            .pointer(&table, place)
            .map_err(|source| self.malformed(source))?;
        self.block(id)
    }

    pub(super) fn block(&self, id: BlockId) -> Result<Block, DmuError> {
        block_of(&self.object, id)
    }

    pub(super) fn leaf<'b>(
        &self,
        header: &FatHeader,
        block: &'b Block,
    ) -> Result<Leaf<'b>, DmuError> {
        Leaf::decode(block, header.has_word_keys()).map_err(|source| self.malformed(source))
    }
}

impl ObjectSet {
    /// Opens the ZAP in object `id`.
    pub fn zap(self: &Arc<Self>, id: ObjectId) -> Result<Zap, DmuError> {
        Zap::open(self.object(id)?)
    }
}
