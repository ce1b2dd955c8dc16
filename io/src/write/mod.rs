//! Writing blocks: requests, and the interface to the allocator.
//!
//! A writer hands over logical contents in little-endian form and gets a block pointer back. On
//! the way the pipeline makes holes of zeros, compresses, embeds what is tiny, encrypts,
//! allocates, computes checksums and parity, and writes. Space comes from an [`Allocator`]: its
//! tables are objects of the pool itself, so the layer above implements it.
//!
//! What was written is durable after the next flush of the vdevs, and not before.

mod dedup;
mod encode;
mod flight;
mod log;
mod pending;
mod pipeline;
mod place;
mod pointer;
mod random;
mod squeeze;
mod state;
mod unflushed;

pub use dedup::{DedupError, DedupTable, Duplicate};
pub use log::LogMark;
pub use pipeline::{Writer, WriterParts};
pub(crate) use state::WriteState;

use crate::crypt::ObjsetKeys;
use crate::error::IoError;
use cenote_base::{Bookmark, Level, Txg};
use cenote_device::BlockBuffer;
use cenote_ondisk::block_pointer::DVAS_PER_BLOCK_POINTER;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, Dva, ObjectType};
use cenote_vdev::AllocationClass;
use std::sync::Arc;

/// How duplicates of a block are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupPolicy {
    /// Compare the bytes too, since the checksum alone is not trusted.
    pub verify: bool,
}

/// How a block is to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePolicy {
    /// The checksum function; metadata needs one that is fit for it (format/2a 3.1).
    pub checksum: ChecksumKind,
    /// The compression function. `Off` stores zeros as data; `Empty` only makes holes of them.
    pub compression: CompressionKind,
    /// The level, of zstd only: 1 to 19 or a negative fast level; 0 means the default, 3.
    pub zstd_level: i32,
    /// Copies on different vdevs if possible, 1 to 3; 2 at most for ciphertext.
    pub copies: u8,
    /// Whether and how the block is deduplicated.
    pub dedup: Option<DedupPolicy>,
    /// Whether tiny contents may stand in the pointer itself: the feature `embedded_data` is
    /// enabled and the object set is not encrypted.
    pub embed: bool,
    /// Whether the object set is encrypted: the block is protected as its type and level want.
    pub encrypt: bool,
    /// Whether holes remember when they were made: the feature `hole_birth` is enabled.
    pub hole_birth: bool,
    /// The class of vdevs to allocate from first.
    pub class: AllocationClass,
    /// Data whose stored bytes are at most so many goes to the special class (the property
    /// `special_small_blocks`); 0 for none.
    pub special_small_blocks: u64,
}

impl Default for WritePolicy {
    /// Metadata as the meta object set has it, but in one copy.
    fn default() -> Self {
        Self {
            checksum: ChecksumKind::Fletcher4,
            compression: CompressionKind::Lz4,
            zstd_level: 0,
            copies: 1,
            dedup: None,
            embed: true,
            encrypt: false,
            hole_birth: true,
            class: AllocationClass::Normal,
            special_small_blocks: 0,
        }
    }
}

/// How an already encoded block is stored: its bytes are written as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredForm {
    /// Bytes of the contents.
    pub logical_size: u64,
    /// The number of the compression function.
    pub compression: u8,
    /// The salt of the block's key.
    pub salt: [u8; 8],
    /// The initialization vector.
    pub iv: [u8; 12],
    /// The MAC.
    pub mac: [u8; 16],
}

/// A block's contents in already compressed form.
#[derive(Clone, Debug)]
pub struct CompressedForm {
    /// The bytes, whose number is a multiple of 512; zeros may stand behind them.
    pub bytes: Arc<BlockBuffer>,
    /// The function.
    pub compression: CompressionKind,
}

/// How far a block was encoded before it came here.
#[derive(Clone, Debug)]
pub enum Form {
    /// All the way: the data is no contents but stored bytes.
    Stored(StoredForm),
    /// It is compressed; the data is its contents nevertheless.
    Compressed(CompressedForm),
}

/// One block to be written.
#[derive(Clone, Debug)]
pub struct WriteRequest {
    /// The logical contents, little-endian; the length is the logical size.
    pub data: Arc<BlockBuffer>,
    /// The block's place.
    pub bookmark: Bookmark,
    /// The type of its object.
    pub object_type: ObjectType,
    /// Its height above the data.
    pub level: Level,
    /// Its fill count (format/2a 1.5).
    pub fill: u64,
    /// How to store it.
    pub policy: WritePolicy,
    /// The keys of an encrypted object set.
    pub keys: Option<Arc<ObjsetKeys>>,
    /// The pointer that this write replaces, if there is one.
    ///
    /// If the contents prove to be the same, it may be returned as it is. If its block was born
    /// in this very txg and the pass is not the first, the block may be written in its place: a
    /// result with the same first address took over the space, and the caller must not free it.
    pub previous: Option<BlockPointer>,
    /// The form, if the block is already compressed or encoded.
    pub form: Option<Form>,
}

/// Where an object set's blocks go and what becomes of those it no longer needs.
///
/// Implemented above: a dataset accounts what it gains and loses, the meta object set does not.
pub trait BlockSink: Send + Sync {
    /// Writes blocks; results in the order of the requests.
    fn write(&self, txg: Txg, requests: Vec<WriteRequest>) -> Vec<Result<BlockPointer, IoError>>;

    /// Gives up a block that the object set no longer refers to.
    fn free(&self, txg: Txg, pointer: &BlockPointer);

    /// Takes note of a block that the object set refers to from now on and that was not written
    /// for it: a clone.
    fn adopt(&self, _txg: Txg, _pointer: &BlockPointer) {}
}

/// Space wanted for the copies of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// The class of vdevs to look in first.
    pub class: AllocationClass,
    /// Stored bytes; the vdev's layout says how much space they take.
    pub size: u64,
    /// Copies wanted, 1 to 3.
    pub copies: u8,
    /// The type of the object that the block belongs to.
    pub object_type: ObjectType,
    /// The block's height above the data.
    pub level: Level,
    /// The space is for a gang header or a gang's member.
    pub for_gang: bool,
    /// An address near which the block would be read with others.
    pub hint: Option<Dva>,
    /// For a block of an intent log: bytes of contents for which vdevs that are not for logs keep
    /// space. Other requests leave nothing.
    pub leaves: Option<u64>,
}

/// Space for the copies of one block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    dvas: [Dva; DVAS_PER_BLOCK_POINTER],
    count: usize,
}

impl Allocation {
    /// Space at these addresses, 1 to 3, whose allocated sizes are set.
    pub fn new(dvas: &[Dva]) -> Self {
        assert!((1..=DVAS_PER_BLOCK_POINTER).contains(&dvas.len()));
        assert!(dvas.iter().all(|dva| dva.is_valid() && !dva.is_gang()));
        assert_apart(dvas);
        let mut allocation = Self::default();
        allocation.dvas[..dvas.len()].copy_from_slice(dvas);
        allocation.count = dvas.len();
        allocation
    }

    /// The addresses, one for each copy.
    pub fn dvas(&self) -> &[Dva] {
        &self.dvas[..self.count]
    }
}

/// Asserts that the copies of a block share no space.
fn assert_apart(dvas: &[Dva]) {
    let end = |dva: &Dva| dva.offset() + dva.asize();
    for (index, one) in dvas.iter().enumerate() {
        let is_apart = |other: &Dva| {
            one.vdev() != other.vdev() || end(one) <= other.offset() || end(other) <= one.offset()
        };
        assert!(
            one.asize() > 0 && dvas[..index].iter().all(is_apart),
            "copies of a block share space: {dvas:?}"
        );
    }
}

/// There is no space for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSpace {
    /// Not in one piece, but smaller pieces may be found.
    #[error("no contiguous space of {size} bytes is left")]
    Contiguous {
        /// Stored bytes wanted.
        size: u64,
    },
    /// Not at all.
    #[error("no space is left")]
    Full,
}

/// The allocator of the pool's space.
///
/// Called from several threads at once. Space that was handed out counts as used until the txg
/// is on disk, whatever becomes of the block.
pub trait Allocator: std::fmt::Debug + Send + Sync {
    /// Takes space for the copies of one block.
    fn allocate(&self, txg: Txg, request: AllocationRequest) -> Result<Allocation, NoSpace>;

    /// Gives back space that was taken in this txg and never written to.
    fn undo(&self, txg: Txg, allocation: &Allocation);
}
