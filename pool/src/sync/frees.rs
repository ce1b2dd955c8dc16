//! Giving blocks' space back.

use super::syncer::Syncer;
use cenote_base::{Bookmark, ObjsetId, Txg, VdevId};
use cenote_dsl::DslError;
use cenote_io::{IoContext, IoError, RangeConflict};
use cenote_ondisk::{BlockPointer, Dva};

/// A piece of a vdev that a block takes.
struct Piece {
    vdev: VdevId,
    offset: u64,
    bytes: u64,
}

impl Piece {
    fn at(dva: Dva) -> Self {
        Self {
            vdev: dva.vdev(),
            offset: dva.offset(),
            bytes: dva.asize(),
        }
    }
}

impl Syncer {
    /// Frees a block, including gang members. From the second pass on, in pools without space map
    /// logs, the block is added to the list of deferred frees instead (format/1d.5).
    pub(super) fn free_block(&self, pointer: &BlockPointer) -> Result<(), DslError> {
        if pointer.is_hole() || pointer.is_embedded() {
            return Ok(());
        }
        if self.may_be_shared(pointer) {
            self.shared().lost.push(*pointer);
            return Ok(());
        }
        self.free_now(pointer)
    }

    /// Frees a block that nothing else refers to.
    pub(super) fn free_now(&self, pointer: &BlockPointer) -> Result<(), DslError> {
        if self.defers_frees() {
            self.deferred().push(*pointer);
            return Ok(());
        }
        let pieces = self.pieces(pointer).map_err(cenote_dmu::DmuError::from)?;
        let only_checkpoint = pointer.physical_birth() <= self.checkpoint_txg();
        let mut stack = pieces;
        while let Some(piece) = stack.pop() {
            let Piece {
                vdev,
                offset,
                bytes,
            } = piece;
            let range = offset..offset.saturating_add(bytes);
            match self.vdevs.shape().mapped(vdev, range.clone()) {
                Ok(None) => {}
                Ok(Some(targets)) => {
                    self.obsolete().entry(vdev).or_default().push(range);
                    stack.extend(targets.iter().map(|entry| Piece::at(entry.target)));
                    continue;
                }
                Err(_) => {
                    self.note_conflict(vdev, RangeConflict { range });
                    continue;
                }
            }
            let freed = match only_checkpoint {
                true => self.space.checkpoint(vdev, offset, bytes),
                false => self.space.free(vdev, offset, bytes),
            };
            if let Err(conflict) = freed {
                self.note_conflict(vdev, conflict);
            }
        }
        Ok(())
    }

    /// The pool is not written to any more once the space maps contradict what is freed.
    fn note_conflict(&self, vdev: VdevId, conflict: RangeConflict) {
        self.space.note_conflict(vdev, conflict);
    }

    /// All pieces that a block takes.
    ///
    /// The members of a gang with an unreadable header are not recorded anywhere else: their space
    /// is leaked, and the pool continues.
    fn pieces(&self, pointer: &BlockPointer) -> Result<Vec<Piece>, IoError> {
        let whole = |pointer: &BlockPointer| {
            let dvas = pointer.dvas();
            dvas.map(Piece::at).collect::<Vec<_>>()
        };
        if !pointer.is_gang() {
            return Ok(whole(pointer));
        }
        // A header takes what any 512-byte block takes on its vdev (format/1d.6).
        let header = |pointer: &BlockPointer| {
            let mut pieces = whole(pointer);
            for piece in &mut pieces {
                let bytes = self.vdevs.shape().asize(piece.vdev, 512, Txg(0));
                piece.bytes = bytes.unwrap_or(piece.bytes);
            }
            pieces
        };
        let mut pieces = header(pointer);
        let bookmark = Bookmark {
            objset: ObjsetId::MOS,
            ..Bookmark::default()
        };
        let parts = match self
            .pipeline
            .gang_parts(pointer, bookmark, &IoContext::SYNCING)
        {
            Err(error) if error.is_damage() => Vec::new(),
            parts => parts?,
        };
        for part in parts {
            pieces.extend(match part.is_gang() {
                true => header(&part),
                false => whole(&part),
            });
        }
        Ok(pieces)
    }
}
