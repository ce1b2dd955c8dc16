//! The block pointer: where a block is, how it is stored, and how to know it is right.
//!
//! Source: format/2a 1. 128 bytes, sixteen 64-bit words in the byte order of the block that
//! holds the pointer:
//!
//! ```text
//! word    63      56       48       40      32             16              0
//!  0,1    DVA 0   |-- 0 --|-------- vdev ---------|-- 0 --|----- asize -----|
//!                 |G|------------------------ offset -----------------------|
//!  2,3    DVA 1
//!  4,5    DVA 2, or salt and first IV bytes of an encrypted data block
//!  6      |B|D|X| level |  type  | checksum |E| comp |   psize   |   lsize   |
//!  7      |R|                          0
//!  8      0
//!  9      physical birth, 0 when equal to the logical birth
//! 10      logical birth
//! 11      fill count (upper half: last IV bytes of an encrypted data block)
//! 12-15   checksum (14-15: MAC of a protected block)
//! ```
//!
//! The words are kept as they are; accessors take fields out. An *embedded* pointer (E) holds
//! the block's data in all words but 6 and 10.

use crate::wire::{self, bits};
use crate::{ChecksumKind, CompressionKind, DecodeError, ObjectType};
use cenote_base::{BLOCK_SIZE_MAX, Level, SECTOR_SIZE, Txg, VdevId};
use std::fmt;

/// Bytes of a block pointer on disk.
pub const BLOCK_POINTER_SIZE: usize = 128;

/// DVAs in a block pointer.
pub const DVAS_PER_BLOCK_POINTER: usize = 3;

/// The most bytes that an embedded block pointer can hold: 14 words.
pub const EMBEDDED_PAYLOAD_MAX: usize = 112;

/// The level of a block pointer's block is at most this: levels are stored in 5 bits.
pub const LEVEL_MAX: u8 = 31;

const WORD_PROP: usize = 6;
const WORD_PROP2: usize = 7;
const WORD_PHYSICAL_BIRTH: usize = 9;
const WORD_LOGICAL_BIRTH: usize = 10;
const WORD_FILL: usize = 11;
const WORD_CHECKSUM: usize = 12;
const STRUCTURE: &str = "block pointer";

/// A data virtual address: one copy of a block on a top-level vdev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dva {
    /// vdev and allocated size.
    pub word0: u64,
    /// Gang flag and offset.
    pub word1: u64,
}

impl Dva {
    /// An address of `asize` bytes at `offset` bytes on `vdev`; both multiples of 512.
    pub fn new(vdev: VdevId, offset: u64, asize: u64) -> Self {
        assert!(offset.is_multiple_of(SECTOR_SIZE) && asize.is_multiple_of(SECTOR_SIZE));
        assert!(vdev.0 < 1 << 24 && asize / SECTOR_SIZE < 1 << 24);
        Self {
            word0: (vdev.0 << 32) | (asize / SECTOR_SIZE),
            word1: offset / SECTOR_SIZE,
        }
    }

    /// Whether the address names a copy at all: an allocated size of 0 means unused.
    pub fn is_valid(self) -> bool {
        self.asize() != 0
    }

    /// The top-level vdev's id.
    pub fn vdev(self) -> VdevId {
        VdevId(bits(self.word0, 32, 24))
    }

    /// Bytes from the start of the vdev's allocatable area.
    pub fn offset(self) -> u64 {
        // 63 bits of sectors do not fit 64 bits of bytes. The excess is cut off here; the vdev
        // layer refuses whatever lies past its end.
        bits(self.word1, 0, 63).saturating_mul(SECTOR_SIZE)
    }

    /// Bytes taken from the vdev, with parity and padding; of a gang block with all its members.
    pub fn asize(self) -> u64 {
        bits(self.word0, 0, 24) * SECTOR_SIZE
    }

    /// Whether the address is that of a gang header.
    pub fn is_gang(self) -> bool {
        self.word1 >> 63 != 0
    }
}

impl fmt::Display for Dva {
    /// As `zdb` prints it: `vdev:offset:asize` in hex bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}:{:x}", self.vdev(), self.offset(), self.asize())
    }
}

/// What an embedded block pointer's payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddedKind {
    /// The block's compressed contents.
    Data,
    /// Nothing: the block was left out of a redacted stream.
    Redacted,
}

/// How a block of an encrypted dataset is protected (format/2a 1.3, 2d 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Not part of an encrypted dataset.
    None,
    /// Contents are ciphertext.
    Encrypted,
    /// Contents are clear and authenticated by a MAC.
    Authenticated,
    /// An indirect block, authenticated by the MACs of its children.
    IndirectMac,
}

/// A block pointer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct BlockPointer {
    /// The sixteen words in host order.
    pub words: [u64; 16],
}

const _: () = assert!(std::mem::size_of::<BlockPointer>() == BLOCK_POINTER_SIZE);

impl BlockPointer {
    /// The pointer that points nowhere: all words zero.
    pub const HOLE: Self = Self { words: [0; 16] };

    /// Decodes 128 little-endian bytes. Any bytes decode; [`Self::check`] judges them.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: [u8; BLOCK_POINTER_SIZE] = wire::array(bytes, 0, STRUCTURE)?;
        Ok(Self::from_array(&bytes))
    }

    /// Decodes exactly 128 little-endian bytes.
    pub fn from_array(bytes: &[u8; BLOCK_POINTER_SIZE]) -> Self {
        let mut words = [0; 16];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("chunks of 8 bytes"));
        }
        Self { words }
    }

    /// The 128 little-endian bytes.
    pub fn encode(&self) -> [u8; BLOCK_POINTER_SIZE] {
        let mut bytes = [0; BLOCK_POINTER_SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn prop(&self) -> u64 {
        self.words[WORD_PROP]
    }

    /// Copy `index` (0 to 2) of the block. Meaningless for embedded pointers.
    pub fn dva(&self, index: usize) -> Dva {
        assert!(index < DVAS_PER_BLOCK_POINTER);
        Dva {
            word0: self.words[2 * index],
            word1: self.words[2 * index + 1],
        }
    }

    /// The valid copies in order. Word 4 and 5 of an encrypted block are its salt and IV.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> + use<> {
        let words = self.words;
        let count = match self.is_embedded() {
            true => 0,
            false if self.has_crypt_parameters() => 2,
            false => 3,
        };
        (0..count)
            .map(move |i| Dva {
                word0: words[2 * i],
                word1: words[2 * i + 1],
            })
            .filter(|dva| dva.is_valid())
    }

    /// Whether the data is in the pointer itself.
    pub fn is_embedded(&self) -> bool {
        bits(self.prop(), 39, 1) != 0
    }

    /// Whether there is no block: it reads as zeros.
    pub fn is_hole(&self) -> bool {
        !self.is_embedded() && self.words[0] == 0 && self.words[1] == 0
    }

    /// Whether the block was left out of a redacted stream.
    pub fn is_redacted(&self) -> bool {
        self.embedded_kind() == Some(EmbeddedKind::Redacted)
    }

    /// What the payload of an embedded pointer is; `None` for ordinary ones and unknown kinds.
    pub fn embedded_kind(&self) -> Option<EmbeddedKind> {
        if !self.is_embedded() {
            return None;
        }
        match bits(self.prop(), 40, 8) {
            0 => Some(EmbeddedKind::Data),
            2 => Some(EmbeddedKind::Redacted),
            _ => None,
        }
    }

    /// Bytes of the block when decompressed.
    pub fn logical_size(&self) -> u64 {
        if self.is_embedded() {
            if self.is_redacted() {
                0
            } else {
                bits(self.prop(), 0, 25) + 1
            }
        } else {
            (bits(self.prop(), 0, 16) + 1) * SECTOR_SIZE
        }
    }

    /// Bytes of the block as stored: what the checksum covers.
    pub fn physical_size(&self) -> u64 {
        if self.is_embedded() {
            bits(self.prop(), 25, 7) + 1
        } else {
            (bits(self.prop(), 16, 16) + 1) * SECTOR_SIZE
        }
    }

    /// Bytes taken on all vdevs together.
    pub fn allocated_size(&self) -> u64 {
        self.dvas().map(Dva::asize).sum()
    }

    /// The raw number of the compression function.
    pub fn compression_number(&self) -> u8 {
        bits(self.prop(), 32, 7) as u8
    }

    /// The compression function, or `None` if the number means nothing.
    pub fn compression(&self) -> Option<CompressionKind> {
        CompressionKind::from_number(self.compression_number())
    }

    /// The raw number of the checksum function.
    pub fn checksum_number(&self) -> u8 {
        bits(self.prop(), 40, 8) as u8
    }

    /// The checksum function, or `None` if the number means nothing. Not for embedded pointers.
    pub fn checksum_kind(&self) -> Option<ChecksumKind> {
        ChecksumKind::from_number(self.checksum_number())
    }

    /// The type of the object that the block belongs to.
    pub fn object_type(&self) -> ObjectType {
        ObjectType(bits(self.prop(), 48, 8) as u8)
    }

    /// The block's height above the data.
    pub fn level(&self) -> Level {
        Level(bits(self.prop(), 56, 5) as u8)
    }

    /// The X flag: the block belongs to an encrypted dataset.
    pub fn uses_crypt(&self) -> bool {
        bits(self.prop(), 61, 1) != 0 && !self.is_embedded()
    }

    /// How the block is protected.
    pub fn protection(&self) -> Protection {
        match (
            self.uses_crypt(),
            self.level().0,
            self.object_type().is_encrypted(),
        ) {
            (false, _, _) => Protection::None,
            (true, 1.., _) => Protection::IndirectMac,
            (true, 0, true) => Protection::Encrypted,
            (true, 0, false) => Protection::Authenticated,
        }
    }

    /// Whether words 4, 5 and the upper half of word 11 are salt and IV.
    pub fn has_crypt_parameters(&self) -> bool {
        self.protection() == Protection::Encrypted
    }

    /// The D flag: the block is, or was, in the dedup table.
    pub fn is_dedup(&self) -> bool {
        bits(self.prop(), 62, 1) != 0 && !self.is_embedded()
    }

    /// Whether the *contents* are little-endian. The pointer itself is in its container's order.
    pub fn is_little_endian(&self) -> bool {
        bits(self.prop(), 63, 1) != 0
    }

    /// Whether the copies are gang headers.
    pub fn is_gang(&self) -> bool {
        !self.is_embedded() && self.dva(0).is_gang()
    }

    /// The txg in which the contents became part of the dataset.
    pub fn logical_birth(&self) -> Txg {
        Txg(self.words[WORD_LOGICAL_BIRTH])
    }

    /// The txg in which the copies were allocated.
    pub fn physical_birth(&self) -> Txg {
        match self.words[WORD_PHYSICAL_BIRTH] {
            _ if self.is_embedded() => self.logical_birth(),
            0 => self.logical_birth(),
            birth => Txg(birth),
        }
    }

    /// Whether `zfs rewrite` moved the block: then the physical birth counts for sharing.
    pub fn is_rewritten(&self) -> bool {
        !self.is_embedded() && self.words[WORD_PROP2] >> 63 != 0
    }

    /// The birth that sharing with snapshots and accounting go by (format/3a conventions).
    pub fn accounting_birth(&self) -> Txg {
        if self.is_rewritten() {
            self.physical_birth()
        } else {
            self.logical_birth()
        }
    }

    /// Data blocks (of a meta-dnode: objects) below this pointer, itself included.
    pub fn fill(&self) -> u64 {
        match () {
            () if self.is_hole() => 0,
            () if self.is_embedded() => 1,
            () if self.has_crypt_parameters() => bits(self.words[WORD_FILL], 0, 32),
            () => self.words[WORD_FILL],
        }
    }

    /// The four checksum words; of protected blocks the last two are the MAC.
    pub fn checksum(&self) -> [u64; 4] {
        let [.., a, b, c, d] = self.words;
        [a, b, c, d]
    }

    /// The salt of an encrypted block's key, as stored bytes (format/2d 5).
    pub fn salt(&self) -> [u8; 8] {
        self.words[4].to_le_bytes()
    }

    /// The IV of an encrypted block.
    pub fn iv(&self) -> [u8; 12] {
        let mut iv = [0; 12];
        iv[..8].copy_from_slice(&self.words[5].to_le_bytes());
        iv[8..].copy_from_slice(&self.words[WORD_FILL].to_le_bytes()[4..]);
        iv
    }

    /// The MAC of a protected block.
    pub fn mac(&self) -> [u8; 16] {
        let mut mac = [0; 16];
        mac[..8].copy_from_slice(&self.words[WORD_CHECKSUM + 2].to_le_bytes());
        mac[8..].copy_from_slice(&self.words[WORD_CHECKSUM + 3].to_le_bytes());
        mac
    }

    /// The payload of an embedded pointer: `physical_size` bytes of the 112 (format/2a 1.7).
    pub fn embedded_payload(&self) -> Option<Vec<u8>> {
        if self.embedded_kind() != Some(EmbeddedKind::Data) {
            return None;
        }
        let skip = [WORD_PROP, WORD_LOGICAL_BIRTH];
        let words = self
            .words
            .iter()
            .enumerate()
            .filter(|(i, _)| !skip.contains(i));
        let mut payload: Vec<u8> = words.flat_map(|(_, word)| word.to_le_bytes()).collect();
        assert_eq!(payload.len(), EMBEDDED_PAYLOAD_MAX);
        payload.truncate(usize::try_from(self.physical_size()).expect("at most 128"));
        Some(payload)
    }

    /// The checks that OpenZFS makes on every pointer it reads (format/2a 1.6), less the ones
    /// that need to know the vdevs.
    pub fn check(&self) -> Result<(), DecodeError> {
        let bad = |field, value| {
            Err(DecodeError::BadValue {
                structure: STRUCTURE,
                field,
                value,
            })
        };
        if !self.object_type().is_valid() {
            return bad("object type", u64::from(self.object_type().0));
        }
        if self.compression().is_none() {
            return bad("compression", u64::from(self.compression_number()));
        }
        if self.is_embedded() {
            if self.embedded_kind().is_none() {
                return bad("embedded type", u64::from(self.checksum_number()));
            }
            if self.physical_size() > EMBEDDED_PAYLOAD_MAX as u64 && !self.is_redacted() {
                return bad("embedded size", self.physical_size());
            }
            if self.logical_size() > BLOCK_SIZE_MAX {
                return bad("logical size", self.logical_size());
            }
            return Ok(());
        }
        if self.logical_size() > BLOCK_SIZE_MAX {
            return bad("logical size", self.logical_size());
        }
        if self.is_hole() {
            return Ok(());
        }
        if self.physical_size() > BLOCK_SIZE_MAX {
            return bad("physical size", self.physical_size());
        }
        if self.checksum_kind().is_none() {
            return bad("checksum", u64::from(self.checksum_number()));
        }
        if !self.dva(0).is_valid() {
            return bad("first DVA's allocated size", 0);
        }
        Ok(())
    }
}

impl fmt::Debug for BlockPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockPointer({self})")
    }
}

impl fmt::Display for BlockPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_hole() {
            return write!(
                f,
                "HOLE [L{} {}] {}L birth={}",
                self.level(),
                self.object_type(),
                self.logical_size(),
                self.logical_birth()
            );
        }
        let compression = self
            .compression()
            .map_or_else(|| "bad compression".into(), CompressionKind::name);
        if self.is_embedded() {
            return write!(
                f,
                "EMBEDDED [L{} {}] {compression} {}L/{}P birth={}",
                self.level(),
                self.object_type(),
                self.logical_size(),
                self.physical_size(),
                self.logical_birth()
            );
        }
        for dva in self.dvas() {
            write!(
                f,
                "DVA=<{dva}>{} ",
                if dva.is_gang() { " gang" } else { "" }
            )?;
        }
        let checksum = self
            .checksum_kind()
            .map_or("bad checksum", ChecksumKind::name);
        let [a, b, c, d] = self.checksum();
        write!(
            f,
            "[L{} {}] {checksum} {compression} {} {} {:x}L/{:x}P birth={}L/{}P fill={} \
             cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}",
            self.level(),
            self.object_type(),
            if self.is_little_endian() { "LE" } else { "BE" },
            if self.is_dedup() { "dedup" } else { "unique" },
            self.logical_size(),
            self.physical_size(),
            self.logical_birth(),
            self.physical_birth(),
            self.fill(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An lz4 level-0 file block of 128 KiB stored in 4 KiB with fletcher4, little-endian.
    fn file_block() -> BlockPointer {
        let mut words = [0; 16];
        let dva = Dva::new(VdevId(2), 0x40_0000, 4096);
        (words[0], words[1]) = (dva.word0, dva.word1);
        words[6] = 1 << 63 | 19 << 48 | 7 << 40 | 15 << 32 | 7 << 16 | 255;
        words[10] = 77;
        words[11] = 1;
        BlockPointer { words }
    }

    #[test]
    fn fields_come_out_of_their_bits() {
        let pointer = file_block();
        assert_eq!(pointer.check(), Ok(()));
        assert_eq!(
            (pointer.logical_size(), pointer.physical_size()),
            (131_072, 4096)
        );
        assert_eq!(pointer.checksum_kind(), Some(ChecksumKind::Fletcher4));
        assert_eq!(pointer.compression(), Some(CompressionKind::Lz4));
        assert_eq!(pointer.object_type(), ObjectType::PLAIN_FILE);
        assert_eq!(
            pointer.dvas().collect::<Vec<_>>(),
            [Dva::new(VdevId(2), 0x40_0000, 4096)]
        );
        assert_eq!(
            pointer.physical_birth(),
            Txg(77),
            "0 means equal to the logical birth"
        );
        assert_eq!(BlockPointer::decode(&pointer.encode()), Ok(pointer));
    }

    #[test]
    fn embedded_payload_skips_the_two_fixed_words() {
        let mut pointer = BlockPointer {
            words: std::array::from_fn(|i| i as u64),
        };
        pointer.words[6] = 1 << 63 | 19 << 48 | 1 << 39 | 2 << 32 | 111 << 25 | 111;
        let payload = pointer
            .embedded_payload()
            .expect("an embedded data pointer");
        assert_eq!(payload.len(), 112);
        let words: Vec<u8> = payload.chunks(8).map(|word| word[0]).collect();
        assert_eq!(words, [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 14, 15]);
        assert_eq!(pointer.check(), Ok(()));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(BlockPointer::HOLE.check(), Ok(()));
        let mut pointer = file_block();
        pointer.words[6] |= 0xff << 40;
        assert!(matches!(
            pointer.check(),
            Err(DecodeError::BadValue {
                field: "checksum",
                ..
            })
        ));
        let mut pointer = file_block();
        pointer.words[6] |= 0xffff;
        assert!(
            pointer.check().is_err(),
            "32 MiB is more than a block may have"
        );
    }
}
