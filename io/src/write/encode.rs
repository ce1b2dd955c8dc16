//! From logical contents to stored bytes: everything that needs no address yet.
//!
//! Blocks do not depend on each other here, so that all cores can work at once.

use super::pointer::{self, Properties};
use super::random::RandomPool;
use super::squeeze::{Hints, Stream, Units, encoder, squeeze};
use super::{Form, StoredForm, WriteRequest};
use crate::checksum;
use crate::crypt::{self, SealError};
use crate::error::IoError;
use cenote_base::{BLOCK_SIZE_MAX, Env, SECTOR_SIZE, Txg, VdevId, settings};
use cenote_codec::Endian;
use cenote_codec::checksum::Salt;
use cenote_codec::compress::Compression;
use cenote_device::BlockBuffer;
use cenote_ondisk::block_pointer::{DVAS_PER_BLOCK_POINTER, EMBEDDED_PAYLOAD_MAX, Protection};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType};
use std::sync::Arc;

/// From this pass on nothing is compressed, so that sizes stop changing (format/1d 5).
const PASS_WITHOUT_COMPRESSION: u32 = 8;
/// From this pass on blocks of the same txg are rewritten in place.
const PASS_REWRITE: u32 = 2;

/// What all blocks of one call have in common.
#[derive(Debug)]
pub(super) struct Encoder {
    pub txg: Txg,
    pub pass: u32,
    pub units: Units,
    pub salt: Option<Salt>,
    /// Vdevs that blocks are on, as opposed to those from which they were moved away.
    pub concrete: Vec<VdevId>,
    pub encoding: Arc<Encoding>,
}

/// What encoding needs that stays the same from call to call.
#[derive(Debug)]
pub(super) struct Encoding {
    env: Arc<dyn Env>,
    random: RandomPool,
    hints: Hints,
    /// Whether there are tables of deduplicated blocks.
    dedups: bool,
}

impl Encoding {
    pub(super) fn new(env: Arc<dyn Env>, dedups: bool) -> Self {
        Self {
            env,
            random: RandomPool::default(),
            hints: Hints::default(),
            dedups,
        }
    }

    /// Bytes for an initialization vector and, behind them, for a salt.
    pub(super) fn random(&self) -> std::io::Result<[u8; 20]> {
        self.random.take(self.env.as_ref())
    }
}

/// A block as it will be stored.
#[derive(Debug)]
pub(super) struct Stored {
    /// The padded bytes.
    pub bytes: Arc<BlockBuffer>,
    /// The pointer, which lacks addresses only.
    pub pointer: BlockPointer,
    /// The block whose place this one takes.
    pub in_place_of: Option<BlockPointer>,
}

/// What becomes of a block.
#[derive(Debug)]
pub(super) enum Encoded {
    /// The pointer is complete: a hole, an embedded block, or what was there before.
    Pointer(BlockPointer),
    /// The block needs space.
    Stored(Stored),
}

fn is_zero(data: &[u8]) -> bool {
    let (chunks, rest) = data.as_chunks::<64>();
    chunks.iter().all(|chunk| *chunk == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// Blocks that are never compressed when they are protected, nor embedded ever.
fn has_fill(object_type: ObjectType) -> bool {
    matches!(object_type, ObjectType::DNODE | ObjectType::OBJSET)
}

/// Whether equal checksums of this kind mean equal bytes (format/2a 3.1).
fn proves_equality(kind: ChecksumKind) -> bool {
    kind.is_dedup_strong() || kind == ChecksumKind::Edonr
}

impl Encoder {
    /// Encodes one block.
    pub(super) fn encode(&self, request: &WriteRequest) -> Result<Encoded, IoError> {
        check(request)?;
        if let Some(Form::Stored(form)) = &request.form {
            return self.encode_stored(request, form);
        }
        let policy = &request.policy;
        if policy.compression != CompressionKind::Off && is_zero(&request.data) {
            return Ok(Encoded::Pointer(pointer::hole(request, self.txg)));
        }
        let is_clear_only = policy.encrypt && request.level.0 == 0 && has_fill(request.object_type);
        let may_compress = !is_clear_only && self.pass < PASS_WITHOUT_COMPRESSION;
        let (stream, compression) = match &request.form {
            // Whatever the policy says: this saves compressing the block again.
            Some(Form::Compressed(form)) if may_compress => {
                (Some(Stream::copy_of(&form.bytes)), form.compression)
            }
            _ => {
                let kind = encoder(policy.compression).filter(|_| may_compress);
                let stream = kind.and_then(|kind| self.compress(request, kind));
                match policy.compression {
                    CompressionKind::On => (stream, CompressionKind::Lz4),
                    kind => (stream, kind),
                }
            }
        };
        if let Some(stream) = &stream
            && stream.bytes().len() <= EMBEDDED_PAYLOAD_MAX
            && self.may_embed(request)
        {
            let pointer = pointer::embedded(request, compression, stream.bytes(), self.txg);
            return Ok(Encoded::Pointer(pointer));
        }
        let is_own = !self.wants_dedup(request);
        let in_place_of = request
            .previous
            .filter(|previous| is_own && self.is_rewritable(previous));
        let (bytes, compression, in_place_of) = self.pad(request, stream, compression, in_place_of);
        self.finish(request, bytes, compression, in_place_of)
    }

    /// Encodes a block that the caller passes in its stored form.
    fn encode_stored(&self, request: &WriteRequest, form: &StoredForm) -> Result<Encoded, IoError> {
        let bookmark = request.bookmark;
        let bad = |problem| IoError::BadRequest { bookmark, problem };
        let compression = CompressionKind::from_number(form.compression);
        let compression = compression.ok_or(bad("its compression function is none"))?;
        let is_size = (1..=BLOCK_SIZE_MAX).contains(&form.logical_size)
            && form.logical_size.is_multiple_of(SECTOR_SIZE);
        if !is_size {
            return Err(bad("no block has such a size"));
        }
        let kind = match request.policy.checksum {
            ChecksumKind::On => ChecksumKind::Fletcher4,
            kind => kind,
        };
        let properties = Properties {
            logical_size: form.logical_size,
            physical_size: request.data.len() as u64,
            compression,
            checksum: kind,
            object_type: request.object_type,
            level: request.level,
            is_protected: true,
            is_dedup: false,
        };
        let mut pointer = pointer::stored(&properties, self.txg, request.fill);
        if pointer.protection() == Protection::Encrypted {
            pointer::set_crypt_parameters(&mut pointer, form.salt, form.iv);
        }
        pointer::set_mac(&mut pointer, &form.mac);
        let words = checksum::compute(kind, &request.data, Endian::Little, self.salt.as_ref());
        let words = words.map_err(|_| IoError::NoSalt { bookmark })?;
        let folded = checksum::fold(kind, words.unwrap_or([0; 4]));
        pointer::set_folded_checksum(&mut pointer, folded);
        Ok(Encoded::Stored(Stored {
            bytes: Arc::clone(&request.data),
            pointer,
            in_place_of: None,
        }))
    }

    fn compress(&self, request: &WriteRequest, kind: Compression) -> Option<Stream> {
        let (objset, object) = (request.bookmark.objset.0, request.bookmark.object.0);
        let hints = &self.encoding.hints;
        // Equal blocks must become equal streams if they are to be found again.
        let is_promising = !self.wants_dedup(request) && hints.is_promising(objset, object);
        let level = request.policy.zstd_level;
        let stream = squeeze(kind, level, &request.data, self.units, is_promising);
        if kind == Compression::Zstd {
            hints.learn(objset, object, stream.is_some());
        }
        stream
    }

    /// Whether the block is looked for among those that are stored already (format/2c 2).
    fn wants_dedup(&self, request: &WriteRequest) -> bool {
        let policy = &request.policy;
        policy.dedup.is_some_and(|dedup| {
            // Without a table that knows them, no blocks may say that one does.
            self.encoding.dedups
                && request.level.0 == 0
                && !request.object_type.is_metadata()
                && (!policy.encrypt || request.object_type.is_encrypted())
                && (policy.checksum.is_dedup_strong()
                    || (policy.checksum == ChecksumKind::Edonr && dedup.verify))
        })
    }

    fn may_embed(&self, request: &WriteRequest) -> bool {
        let policy = &request.policy;
        policy.embed
            && !policy.encrypt
            && policy.dedup.is_none()
            && request.level.0 == 0
            && !has_fill(request.object_type)
    }

    /// Whether a block's space can be written again: nothing on disk refers to it yet.
    fn is_rewritable(&self, previous: &BlockPointer) -> bool {
        self.pass >= PASS_REWRITE
            && !previous.is_hole()
            && !previous.is_embedded()
            && !previous.is_dedup()
            && previous.logical_birth() == self.txg
            && previous.physical_birth() == self.txg
    }

    /// Pads the stream to a size that can be stored; the block as it is if that saves nothing.
    fn pad(
        &self,
        request: &WriteRequest,
        stream: Option<Stream>,
        compression: CompressionKind,
        in_place_of: Option<BlockPointer>,
    ) -> (Arc<BlockBuffer>, CompressionKind, Option<BlockPointer>) {
        let logical = request.data.len() as u64;
        let old = in_place_of.map(|previous| previous.physical_size());
        let rounded = stream
            .as_ref()
            .map(|stream| self.units.round(stream.bytes().len() as u64));
        // A stream that fits the old place fills it; then the place need not be given up.
        let size = match (rounded, old) {
            (Some(size), Some(old)) if size <= old => Some(old),
            (size, _) => size,
        };
        match (stream, size) {
            (Some(stream), Some(size)) if size < logical => {
                let bytes = stream.padded(usize::try_from(size).expect("less than the block has"));
                let in_place_of = in_place_of.filter(|_| old == Some(size));
                (Arc::new(bytes), compression, in_place_of)
            }
            _ => {
                let in_place_of = in_place_of.filter(|_| old == Some(logical));
                (Arc::clone(&request.data), CompressionKind::Off, in_place_of)
            }
        }
    }

    /// Seals the padded bytes and computes their checksum.
    fn finish(
        &self,
        request: &WriteRequest,
        mut bytes: Arc<BlockBuffer>,
        compression: CompressionKind,
        in_place_of: Option<BlockPointer>,
    ) -> Result<Encoded, IoError> {
        let (policy, bookmark) = (&request.policy, request.bookmark);
        let kind = match policy.checksum {
            ChecksumKind::On => ChecksumKind::Fletcher4,
            kind => kind,
        };
        let properties = Properties {
            logical_size: request.data.len() as u64,
            physical_size: bytes.len() as u64,
            compression,
            checksum: kind,
            object_type: request.object_type,
            level: request.level,
            is_protected: policy.encrypt,
            is_dedup: self.wants_dedup(request),
        };
        let mut pointer = pointer::stored(&properties, self.txg, request.fill);
        // Without keys only what no MAC covers of an object set can have changed, the header of
        // its intent log: it keeps the MACs that it has (format/2d 8).
        let keeps_macs = request.keys.is_none() && request.object_type == ObjectType::OBJSET;
        let is_hashed = pointer.protection() == Protection::IndirectMac;
        if is_hashed {
            // A plain hash, for which no key is needed.
            pointer::set_mac(&mut pointer, &crypt::mac_of_indirect(&request.data));
        } else if policy.encrypt && !keeps_macs {
            let keys = request.keys.as_deref();
            let keys = keys.ok_or(IoError::KeyNotLoaded { bookmark })?;
            let random = || self.encoding.random();
            let seal = crypt::seal(&pointer, &request.data, &mut bytes, keys, random);
            let seal = seal.map_err(|error| seal_error(request, error))?;
            if let Some((salt, iv)) = seal.parameters {
                pointer::set_crypt_parameters(&mut pointer, salt, iv);
            }
            if let Some(mac) = seal.mac {
                pointer::set_mac(&mut pointer, &mac);
            }
        }
        let salt = self.salt.as_ref();
        let words = checksum::compute(kind, &bytes, Endian::Little, salt);
        let words = words.map_err(|_| IoError::NoSalt { bookmark })?;
        let keeps_mac = policy.encrypt && request.object_type != ObjectType::OBJSET;
        match words.unwrap_or([0; 4]) {
            words if keeps_mac => {
                let folded = checksum::fold(kind, words);
                pointer::set_folded_checksum(&mut pointer, folded);
            }
            words => pointer::set_checksum(&mut pointer, words),
        }
        if let Some(previous) = self.same_block(request, &pointer) {
            return Ok(Encoded::Pointer(previous));
        }
        Ok(Encoded::Stored(Stored {
            bytes,
            pointer,
            in_place_of: in_place_of.filter(|old| has_copies(request, old, &pointer)),
        }))
    }

    /// The previous pointer, if the block proves to be the same (format/2a 5).
    fn same_block(&self, request: &WriteRequest, pointer: &BlockPointer) -> Option<BlockPointer> {
        let previous = request.previous?;
        let is_here = |dva: Dva| self.concrete.contains(&dva.vdev());
        let is_comparable = settings::NOP_WRITE_ENABLED.is_on()
            && request.level.0 == 0
            && pointer.protection() == Protection::None
            && !previous.is_hole()
            && !previous.is_embedded()
            && !pointer.is_dedup()
            && request.policy.compression != CompressionKind::Off
            && proves_equality(request.policy.checksum)
            && has_copies(request, &previous, pointer)
            && previous.dvas().all(is_here);
        // The properties' words agree in kinds, sizes and flags.
        let is_same = previous.words[6] == pointer.words[6];
        (is_comparable && is_same && previous.checksum() == pointer.checksum()).then_some(previous)
    }
}

/// Whether a block has as many copies as are wanted of its successor. The header of a gang has one
/// more, as far as there is room for its address.
fn has_copies(request: &WriteRequest, previous: &BlockPointer, pointer: &BlockPointer) -> bool {
    let wanted = copies(request, pointer);
    let room = match pointer.has_crypt_parameters() {
        true => 2,
        false => DVAS_PER_BLOCK_POINTER,
    };
    match previous.is_gang() {
        true => previous.dvas().count() == (wanted + 1).min(room),
        false => previous.dvas().count() == wanted,
    }
}

/// The copies of a block: ciphertext leaves room for two addresses only.
pub(super) fn copies(request: &WriteRequest, pointer: &BlockPointer) -> usize {
    let wanted = usize::from(request.policy.copies);
    match pointer.has_crypt_parameters() {
        true => wanted.min(2),
        false => wanted,
    }
}

fn seal_error(request: &WriteRequest, error: SealError) -> IoError {
    let bookmark = request.bookmark;
    match error {
        SealError::Random(source) => IoError::Random { bookmark, source },
        SealError::Malformed(source) => IoError::MalformedProtected { bookmark, source },
        SealError::TooLarge => IoError::BadRequest {
            bookmark,
            problem: "its size does not suit the protection of its type",
        },
    }
}

/// Refuses what no block pointer can say.
fn check(request: &WriteRequest) -> Result<(), IoError> {
    let size = request.data.len() as u64;
    let problem = if size == 0 || size > BLOCK_SIZE_MAX || !size.is_multiple_of(SECTOR_SIZE) {
        "no block has such a size"
    } else if !(1..=3).contains(&request.policy.copies) {
        "a block has one to three copies"
    } else if request.policy.checksum == ChecksumKind::Inherit
        || request.policy.checksum.is_embedded()
    {
        "its checksum function is none for block pointers"
    } else if request.policy.encrypt && request.fill > u64::from(u32::MAX) {
        "its fill count does not fit a protected block's pointer"
    } else {
        return Ok(());
    };
    Err(IoError::BadRequest {
        bookmark: request.bookmark,
        problem,
    })
}
