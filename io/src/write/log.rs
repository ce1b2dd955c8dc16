//! Blocks of intent logs: written by the committing thread, and made durable before it returns.
//!
//! They differ from other blocks (format/2e 2). The pointer is made before the contents: it stands
//! in the block before it. Its checksum words are the verifier that ties the block to its place in
//! the chain; the checksum itself is in the block. There is one copy, never a gang. A commit does
//! not wait for devices that are gone: it falls back to its transaction group, which does wait. A
//! log device that fails is given up, so that the next chain is elsewhere.

use super::pipeline::Writer;
use super::pointer::{self, Properties};
use super::{AllocationRequest, flight};
use crate::crypt::ObjsetKeys;
use crate::error::IoError;
use crate::pipeline::Pipeline;
use cenote_base::{BlockId, Bookmark, Level, ObjectId, ObjsetId, Txg, VdevId, settings};
use cenote_device::{BlockBuffer, Purpose};
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, ObjectType};
use cenote_vdev::{AllocationClass, FlushMark, IoClass, VdevWrite};
use std::sync::Arc;

/// Log blocks that were written, for the flush that makes them durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogMark {
    /// The moment before the first of them was sent.
    before: FlushMark,
    /// How often devices had been exchanged then.
    exchanges: u64,
    vdevs: Vec<VdevId>,
    /// The first of them.
    bookmark: Bookmark,
}

impl LogMark {
    /// Adds blocks that were written later.
    pub fn join(&mut self, later: &Self) {
        for vdev in &later.vdevs {
            if !self.vdevs.contains(vdev) {
                self.vdevs.push(*vdev);
            }
        }
    }
}

/// The place of a log block with this verifier: chain guid, object set, number.
fn bookmark_of(verifier: [u64; 4]) -> Bookmark {
    Bookmark {
        objset: ObjsetId(verifier[2]),
        object: ObjectId(0),
        level: Level(0),
        block: BlockId(verifier[3]),
    }
}

impl Writer {
    /// Makes the pointer to a log block that will be written later: takes space of `class`, or of
    /// one that takes its place, in the open group `txg`, and draws the initialization vector if
    /// the object set has `keys`.
    ///
    /// # Errors
    /// If there is no space in one piece, or no randomness.
    pub fn allocate_log_block(
        &self,
        txg: Txg,
        size: u64,
        verifier: [u64; 4],
        keys: Option<&ObjsetKeys>,
        (class, leaves): (AllocationClass, u64),
    ) -> Result<BlockPointer, IoError> {
        let bookmark = bookmark_of(verifier);
        let properties = Properties {
            logical_size: size,
            physical_size: size,
            compression: CompressionKind::Off,
            checksum: ChecksumKind::Zilog2,
            object_type: ObjectType::INTENT_LOG,
            level: Level(0),
            is_protected: keys.is_some(),
            is_dedup: false,
        };
        let mut pointer = pointer::stored(&properties, txg, 0);
        pointer::set_checksum(&mut pointer, verifier);
        if let Some(keys) = keys {
            let random = |source| IoError::Random { bookmark, source };
            let [iv @ .., s0, s1, s2, s3, s4, s5, s6, s7] =
                self.encoding.random().map_err(random)?;
            let salt = keys.salt_for_writing(|| Ok([s0, s1, s2, s3, s4, s5, s6, s7]));
            pointer::set_crypt_parameters(&mut pointer, salt.map_err(random)?, iv);
        }
        let request = AllocationRequest {
            class,
            size,
            copies: 1,
            object_type: ObjectType::INTENT_LOG,
            level: Level(0),
            for_gang: false,
            hint: None,
            leaves: Some(leaves),
        };
        let allocation = self.allocator.allocate(txg, request);
        let allocation = allocation.map_err(|source| IoError::NoSpace { bookmark, source })?;
        pointer::set_dvas(&mut pointer, allocation.dvas(), false);
        Ok(pointer)
    }
}

impl Pipeline {
    /// Sends log blocks to the devices and waits until these took them. A block may be given
    /// without what is behind its covered part.
    ///
    /// # Errors
    /// If too few devices took a block: none of them counts then.
    pub fn write_log_blocks(
        &self,
        blocks: Vec<(BlockPointer, Arc<BlockBuffer>)>,
    ) -> Result<LogMark, IoError> {
        let vdevs = self.vdevs();
        let bookmarks = blocks.iter();
        let bookmarks: Vec<Bookmark> = bookmarks
            .map(|(pointer, _)| bookmark_of(pointer.checksum()))
            .collect();
        let sent = blocks.iter().map(|(pointer, _)| pointer.dva(0));
        let mut mark = LogMark {
            before: vdevs.flush_mark(),
            exchanges: self.writing.unflushed.begin(sent),
            vdevs: Vec::new(),
            bookmark: bookmarks.first().copied().unwrap_or_default(),
        };
        let mut writes = Vec::with_capacity(blocks.len());
        for (index, (pointer, mut data)) in blocks.into_iter().enumerate() {
            let dva = pointer.dva(0);
            // Where a block lies in columns, these depend on its whole size.
            let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
            if vdevs.has_parity(dva.vdev()) && data.len() < size {
                let mut whole = data.to_vec();
                whole.resize(size, 0);
                data = Arc::new(BlockBuffer::from(whole));
            }
            let later = LogMark {
                vdevs: vec![dva.vdev()],
                ..LogMark::default()
            };
            mark.join(&later);
            let write = VdevWrite {
                class: IoClass::SyncWrite,
                purpose: Purpose::Metadata,
                ..VdevWrite::new(dva, data, pointer.physical_birth())
            };
            writes.push((index, write));
        }
        match flight::send_now(self, writes).into_iter().next() {
            Some((index, source)) => {
                self.vdevs().rest_logs(&source);
                let bookmark = bookmarks[index];
                Err(IoError::Unwritable { bookmark, source })
            }
            None => Ok(mark),
        }
    }

    /// Makes log blocks durable.
    ///
    /// # Errors
    /// If they may be lost: by this flush, by an earlier one that covered them, or since a device
    /// was exchanged in between.
    pub fn flush_log(&self, mark: &LogMark) -> Result<(), IoError> {
        let bookmark = mark.bookmark;
        if !settings::ZIL_NO_CACHE_FLUSH.is_on() {
            let flushed = self.vdevs().flush_since(&mark.before, &mark.vdevs);
            flushed.map_err(|source| {
                self.vdevs().rest_logs(&source);
                IoError::Unwritable { bookmark, source }
            })?;
        }
        match self.writing.unflushed.exchanges() == mark.exchanges {
            true => Ok(()),
            false => Err(IoError::Exchanged { bookmark }),
        }
    }
}
