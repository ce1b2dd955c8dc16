//! Reading one block from its pointer to its logical contents.

use crate::checksum;
use crate::copies::{Copies, is_verified};
use crate::crypt::{self, ObjsetKeys};
use crate::error::IoError;
use crate::faults::{BlockFault, FaultClass, FaultSink};
use crate::gang;
use crate::heal::{Healing, block_fault};
use crate::suspension::Suspension;
use crate::write::WriteState;
use cenote_base::metrics::Counter;
use cenote_base::{Bookmark, MemoryBudget};
use cenote_codec::checksum::Salt;
use cenote_codec::compress::{self, Compression, DecompressError};
use cenote_device::BlockBuffer;
use cenote_injection::{BlockError, BlockFaults};
use cenote_ondisk::{BlockPointer, CompressionKind, Dva, byteswap};
use cenote_vdev::{BatchRead, IoContext, Shape, VdevError, Vdevs};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long a read waits for memory that other reads have leased. That is far longer than any of
/// them takes, so only a budget that is really too small is reported.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a read needs to know beside the pointer.
#[derive(Clone, Copy, Debug)]
pub struct ReadContext<'a> {
    /// The block's place, for errors.
    pub bookmark: Bookmark,
    /// The keys of an encrypted object set, if loaded.
    pub keys: Option<&'a ObjsetKeys>,
}

/// What the pipeline did since the pool was opened.
#[derive(Debug, Default)]
pub struct PipelineCounters {
    /// Blocks read from devices (embedded ones are not).
    pub blocks_read: Counter,
    /// Their stored bytes.
    pub bytes_read: Counter,
    /// Blocks written to devices.
    pub blocks_written: Counter,
    /// Their stored bytes, each copy counted once.
    pub bytes_written: Counter,
    /// Blocks of which no good copy was found.
    pub unreadable: Counter,
}

/// The path of one pool's blocks from and to its devices.
#[derive(Debug)]
pub struct Pipeline {
    vdevs: Arc<Vdevs>,
    pub(crate) salt: OnceLock<Salt>,
    memory: Arc<MemoryBudget>,
    counters: PipelineCounters,
    pub(crate) healing: Healing,
    pub(crate) faults: BlockFaults,
    pub(crate) writing: Arc<WriteState>,
}

/// What a [`Pipeline`] is made of.
#[derive(Debug)]
pub struct PipelineParts {
    /// The open vdevs.
    pub vdevs: Arc<Vdevs>,
    /// What blocks lease that are being decoded.
    pub memory: Arc<MemoryBudget>,
    /// The pool's checksum salt; `None` if it has none, or it is still to be read.
    pub salt: Option<[u8; 32]>,
}

impl Pipeline {
    /// A pipeline for reading. It is written through by a [`crate::Writer`].
    pub fn new(parts: PipelineParts) -> Self {
        let counters = PipelineCounters::default();
        Self {
            healing: Healing::new(Arc::clone(&parts.vdevs)),
            vdevs: parts.vdevs,
            salt: parts
                .salt
                .map(Salt::new)
                .map_or_else(OnceLock::new, OnceLock::from),
            memory: parts.memory,
            counters,
            faults: BlockFaults::default(),
            writing: Arc::default(),
        }
    }

    /// The devices below, as they are now.
    pub fn vdevs(&self) -> Arc<Shape> {
        self.vdevs.shape()
    }

    /// The pool's memory budget.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// What was read so far.
    pub fn counters(&self) -> &PipelineCounters {
        &self.counters
    }

    /// The faults that are made on purpose in blocks.
    pub fn faults(&self) -> &BlockFaults {
        &self.faults
    }

    /// Sets the receiver of device faults; only the first call counts.
    pub fn set_fault_sink(&self, sink: Arc<dyn FaultSink>) {
        self.healing.set_sink(sink);
    }

    /// Waits until what reads have found wrong so far is written again, or cannot be.
    pub fn finish_healing(&self) {
        self.healing.finish();
    }

    /// Where work waits for devices that are gone.
    pub fn suspension(&self) -> &Arc<Suspension> {
        &self.writing.suspension
    }

    /// Takes note of the pool's checksum salt: it was read from the object directory, or the pool
    /// has just got one.
    ///
    /// The object directory itself is readable without: the meta object set never uses a salted
    /// function (format/2a 3.4). A salt never changes.
    pub fn learn_salt(&self, salt: [u8; 32]) {
        let _ = self.salt.set(Salt::new(salt));
    }

    /// Reads a block's logical contents in little-endian form.
    pub fn read(
        &self,
        pointer: &BlockPointer,
        ctx: ReadContext<'_>,
        io: &IoContext,
    ) -> Result<Vec<u8>, IoError> {
        let stored = self.read_stored(pointer, ctx.bookmark, io)?;
        Ok(self
            .decode(pointer, &stored, ctx)?
            .map_or(stored, Vec::from))
    }

    /// Reads a block's stored bytes: checksummed, but neither decrypted nor decompressed.
    pub fn read_stored(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        io: &IoContext,
    ) -> Result<Vec<u8>, IoError> {
        pointer
            .check()
            .map_err(|source| IoError::BadPointer { bookmark, source })?;
        if pointer.is_redacted() {
            return Err(IoError::Redacted { bookmark });
        }
        if let Some(payload) = pointer.embedded_payload() {
            return Ok(payload);
        }
        assert!(
            !pointer.is_hole(),
            "holes have no bytes: the caller makes the zeros"
        );
        let lease = self
            .memory
            .lease_patiently(pointer.physical_size(), PATIENCE);
        let _lease = lease.map_err(|source| IoError::Memory { bookmark, source })?;
        let birth = pointer.physical_birth();
        self.writing.pending.wait_for(birth, self);
        let result = if pointer.is_gang() {
            gang::read(self, pointer, bookmark, io)
        } else {
            self.read_copies(pointer, bookmark, io)
        };
        match &result {
            Ok(data) => {
                self.counters.blocks_read.add(1);
                self.counters.bytes_read.add(data.len() as u64);
            }
            Err(error) => {
                self.counters.unreadable.add(1);
                self.tell_lost(pointer, bookmark, error);
            }
        }
        result
    }

    /// Tells of a block that devices have lost, or that is not what was written.
    fn tell_lost(&self, pointer: &BlockPointer, bookmark: Bookmark, error: &IoError) {
        let class = match error {
            IoError::Unreadable { .. } | IoError::Decompress { .. } => FaultClass::Data,
            IoError::Authentication { .. } => FaultClass::Authentication,
            _ => return,
        };
        let size = usize::try_from(pointer.physical_size()).unwrap_or(usize::MAX);
        let (dva, birth) = (pointer.dva(0), pointer.physical_birth());
        let fault = block_fault(dva, size, birth, bookmark);
        self.healing.tell_lost(&BlockFault { class, ..fault });
    }

    /// Reads a block of an intent log, which carries its own checksum: the first copy, by all
    /// redundancy, that `is_valid` accepts.
    ///
    /// `None` when there is none. Then, if `speculative`, the block may never have been written,
    /// and no leaf is charged with an error. Nor is a leaf charged for other bytes where another
    /// has the block: a power cut leaves it so.
    pub fn read_log_block(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        speculative: bool,
        is_valid: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let checked = pointer.check();
        checked.map_err(|source| IoError::BadPointer { bookmark, source })?;
        let lease = self
            .memory
            .lease_patiently(pointer.physical_size(), PATIENCE);
        let _lease = lease.map_err(|source| IoError::Memory { bookmark, source })?;
        let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
        let birth = pointer.physical_birth();
        let mut failure = None;
        let vdevs = self.vdevs();
        for dva in pointer.dvas() {
            let read = vdevs.read_log_block(dva, size, birth, is_valid, !speculative, io);
            match read.map(|outcome| outcome.bytes) {
                Ok(data) => {
                    self.counters.blocks_read.add(1);
                    self.counters.bytes_read.add(data.len() as u64);
                    return Ok(Some(data));
                }
                Err(VdevError::Damaged { .. }) => {}
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            None => Ok(None),
            Some(source) => Err(IoError::Unreadable {
                bookmark,
                pointer: Box::new(*pointer),
                source,
            }),
        }
    }

    /// Reads the stored bytes of several blocks at once, neighbours in one request.
    ///
    /// `None` where the fast way did not lead to bytes with the right checksum: such a block
    /// takes [`Self::read_stored`], which tries all copies and redundancy.
    pub fn read_stored_batch(
        &self,
        blocks: &[(BlockPointer, Bookmark)],
        io: &IoContext,
    ) -> Vec<Option<BlockBuffer>> {
        let is_simple = |(pointer, bookmark): &(BlockPointer, Bookmark)| {
            pointer.check().is_ok()
                && !self.faults.concerns(*bookmark, pointer.object_type())
                && !pointer.is_embedded()
                && !pointer.is_hole()
                && !pointer.is_gang()
                && !self.verify_needs_salt(pointer)
        };
        let read_of = |pointer: &BlockPointer| {
            let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
            BatchRead {
                dva: pointer.dva(0),
                size,
                birth: pointer.physical_birth(),
            }
        };
        let simple: Vec<usize> = (0..blocks.len())
            .filter(|i| is_simple(&blocks[*i]))
            .collect();
        let reads: Vec<BatchRead> = simple.iter().map(|i| read_of(&blocks[*i].0)).collect();
        let bytes = reads.iter().map(|read| read.size as u64).sum();
        let mut stored: Vec<Option<BlockBuffer>> = blocks.iter().map(|_| None).collect();
        let Ok(_lease) = self.memory.lease(bytes) else {
            return stored;
        };
        if let Some(newest) = reads.iter().map(|read| read.birth).max() {
            self.writing.pending.wait_for(newest, self);
        }
        let mut is_suspect = vec![false; reads.len()];
        let mut suspect = |read: usize| is_suspect[read] = true;
        let read = self.vdevs().read_batch_telling(&reads, io, &mut suspect);
        for ((index, data), is_suspect) in simple.into_iter().zip(read).zip(is_suspect) {
            let (pointer, bookmark) = &blocks[index];
            let good =
                |data: &BlockBuffer| matches!(self.verify(pointer, data, *bookmark), Ok(true));
            stored[index] = match data {
                Some(data) if good(&data) => Some(data),
                // A single read may be served by other leaves than the wrong one and miss the
                // fault.
                Some(_) => self.examine(pointer, *bookmark, io).map(BlockBuffer::from),
                None if is_suspect => self.examine(pointer, *bookmark, io).map(BlockBuffer::from),
                None => None,
            };
            if let Some(data) = &stored[index] {
                self.counters.blocks_read.add(1);
                self.counters.bytes_read.add(data.len() as u64);
            }
        }
        stored
    }

    /// Reads a block that is not a gang from the first copy that has the right checksum. Waits for
    /// devices that are gone if the pool is to.
    pub(crate) fn read_copies(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        io: &IoContext,
    ) -> Result<Vec<u8>, IoError> {
        if self.verify_needs_salt(pointer) {
            return Err(IoError::NoSalt { bookmark });
        }
        loop {
            let attempt = self.suspension().attempt();
            let error = match self.try_copies(pointer, bookmark, io) {
                Ok(data) => return Ok(data),
                Err(error) => error,
            };
            // Bytes that are there and wrong, or single sectors, do not come back by waiting.
            let source = match &error {
                IoError::Unreadable { source, .. } => Some(source),
                _ => None,
            };
            let is_unread = matches!(source, Some(VdevError::Unreadable { .. }));
            let has_gone = |dva: Dva| self.vdevs().has_gone(dva.vdev());
            let may_come_back =
                is_unread && self.suspension().may_wait() && pointer.dvas().any(has_gone);
            let waits = || self.suspension().wait_to_read(attempt, &error, io.patience);
            if !may_come_back || !waits() {
                return Err(error);
            }
        }
    }

    fn try_copies(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        io: &IoContext,
    ) -> Result<Vec<u8>, IoError> {
        let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
        let birth = pointer.physical_birth();
        let salt = self.salt.get();
        let verify = |data: &[u8]| checksum::verify(pointer, data, salt) == Ok(true);
        let right = |data: &[u8]| verify(data).then_some(data.len());
        let read = self.read_any(&Copies {
            places: pointer.dvas().map(|dva| (dva, size)).collect(),
            birth,
            bookmark,
            kind: pointer.object_type(),
            right: &right,
            is_verified: is_verified(pointer),
            is_log: false,
            io,
        });
        let failure = match read {
            Ok(data) => return Ok(data),
            Err(failure) => failure,
        };
        let source = failure.expect("a checked pointer that is no hole has a valid DVA");
        Err(IoError::Unreadable {
            bookmark,
            pointer: Box::new(*pointer),
            source,
        })
    }

    pub(crate) fn verify_needs_salt(&self, pointer: &BlockPointer) -> bool {
        self.salt.get().is_none() && checksum::verify(pointer, &[], None).is_err()
    }

    /// The headers and members of a gang block, for callers that account their space.
    pub fn gang_parts(
        &self,
        leader: &BlockPointer,
        bookmark: Bookmark,
        io: &IoContext,
    ) -> Result<Vec<BlockPointer>, IoError> {
        assert!(leader.is_gang());
        self.writing.pending.wait_for(leader.physical_birth(), self);
        gang::parts(self, leader, bookmark, io)
    }

    /// Whether stored bytes are what the pointer points to.
    pub fn verify(
        &self,
        pointer: &BlockPointer,
        data: &[u8],
        bookmark: Bookmark,
    ) -> Result<bool, IoError> {
        checksum::verify(pointer, data, self.salt.get()).map_err(|_| IoError::NoSalt { bookmark })
    }

    /// Turns stored bytes into logical contents: decrypts, authenticates, decompresses, and
    /// swaps a big-endian block to little-endian.
    ///
    /// Returns `None` when the stored bytes are the contents already, so that a cache need not
    /// hold them twice.
    pub fn decode(
        &self,
        pointer: &BlockPointer,
        stored: &[u8],
        ctx: ReadContext<'_>,
    ) -> Result<Option<BlockBuffer>, IoError> {
        let decoded = self.decode_stored(pointer, stored, ctx);
        if let Err(error) = &decoded {
            self.tell_lost(pointer, ctx.bookmark, error);
        }
        decoded
    }

    fn decode_stored(
        &self,
        pointer: &BlockPointer,
        stored: &[u8],
        ctx: ReadContext<'_>,
    ) -> Result<Option<BlockBuffer>, IoError> {
        self.fail_on_purpose(pointer, ctx.bookmark)?;
        let protected = crypt::Protected {
            pointer,
            bookmark: ctx.bookmark,
        };
        let opened = protected.open_stored(stored, ctx.keys)?;
        let mut contents = opened.map(BlockBuffer::from);
        let clear = contents.as_deref().unwrap_or(stored);
        if let Some(logical) = self.decompress(pointer, clear, ctx.bookmark)? {
            contents = Some(logical);
        }
        protected.check_logical(contents.as_deref().unwrap_or(stored), ctx.keys)?;
        if !pointer.is_little_endian() {
            let block = contents.get_or_insert_with(|| BlockBuffer::copy_of(stored));
            let swapped = byteswap::swap_block(block, pointer.level(), pointer.object_type());
            swapped.map_err(|source| IoError::MalformedProtected {
                bookmark: ctx.bookmark,
                source,
            })?;
        }
        Ok(contents)
    }

    /// Fails if what was read of a block is not to be decoded.
    fn fail_on_purpose(&self, pointer: &BlockPointer, bookmark: Bookmark) -> Result<(), IoError> {
        if self.faults.is_empty() {
            return Ok(());
        }
        let (kind, vdevs) = (pointer.object_type(), self.vdevs());
        match self
            .faults
            .of_contents(bookmark, kind, vdevs.env().as_ref())
        {
            None => Ok(()),
            Some(BlockError::Decrypt) => Err(IoError::Authentication { bookmark }),
            Some(_) => Err(IoError::Decompress {
                bookmark,
                pointer: Box::new(*pointer),
                source: DecompressError::Corrupt(Compression::Lz4),
            }),
        }
    }

    /// Decompresses, or returns `None` when the stored bytes are the contents.
    fn decompress(
        &self,
        pointer: &BlockPointer,
        stored: &[u8],
        bookmark: Bookmark,
    ) -> Result<Option<BlockBuffer>, IoError> {
        let kind = match pointer.compression() {
            Some(CompressionKind::Lzjb) => Compression::Lzjb,
            Some(CompressionKind::Gzip(level)) => Compression::Gzip(level),
            Some(CompressionKind::Zle) => Compression::Zle,
            Some(CompressionKind::Lz4) => Compression::Lz4,
            Some(CompressionKind::Zstd) => Compression::Zstd,
            _ if pointer.logical_size() == stored.len() as u64 => return Ok(None),
            _ => {
                let problem = "stored without compression in another size";
                let structure = "block pointer";
                let source = cenote_ondisk::DecodeError::Inconsistent { structure, problem };
                return Err(IoError::BadPointer { bookmark, source });
            }
        };
        let size = pointer.logical_size();
        let lease = self.memory.lease_patiently(size, PATIENCE);
        let _lease = lease.map_err(|source| IoError::Memory { bookmark, source })?;
        let size = usize::try_from(size).expect("checked to be at most 16 MiB");
        let mut logical = BlockBuffer::take(size);
        match compress::decompress(kind, stored, &mut logical) {
            Ok(()) => Ok(Some(logical)),
            Err(source) => {
                let pointer = Box::new(*pointer);
                Err(IoError::Decompress {
                    bookmark,
                    pointer,
                    source,
                })
            }
        }
    }
}
