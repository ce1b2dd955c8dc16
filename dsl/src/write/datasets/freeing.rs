//! Freeing the blocks of destroyed datasets in the background (format/3a 8).
//!
//! The first dataset of the queue is walked in post-order: data before the blocks that point to it.
//! So a crash at any point leaves a tree whose upper part is intact. Each transaction group frees a
//! limited number of blocks and records where the walk stopped. Freed blocks are never read again,
//! because their space may be in use by now.
//!
//! An unreadable block stalls the walk: everything before it is freed, and the rest waits for the
//! next import, when the device may work again. With `zfs_free_leak_on_eio` the walk continues
//! behind the block; the space below it is leaked and charged to the directory `$LEAK` (zfs(4)). If
//! the object set block itself is unreadable, an intent log that waits for it
//! ([`crate::write::pool::log_notes`]) is leaked, too; its size is unknown.

use crate::deadlist::SpaceTriple;
use crate::error::DslError;
use crate::object_directory::keys;
use crate::write::blocks::accounting::{Part as DirectoryPart, SpaceChange};
use crate::write::context::SyncContext;
use cenote_base::{Bookmark, Txg, settings};
use cenote_dmu::Retention;
use cenote_dmu::traverse::{Event, Order, Ordered, Part, Root, Since, Start, Walk};
use cenote_ondisk::bptree::{BptreeEntry, ENTRY_SIZE, OBJSET_DESTROYED};
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Blocks taken from the list of single blocks at a time.
const LIST_BATCH: usize = 1024;

/// How far a walk came.
enum Outcome {
    Finished,
    Paused(Bookmark),
    /// A block was unreadable. The walk resumes here, or at its start if this is `None`.
    Stalled(Option<Bookmark>),
}

impl SyncContext<'_> {
    /// Frees some of what waits to be freed. Returns whether anything was done.
    ///
    /// # Errors
    /// If the pool's metadata cannot be read.
    pub fn free_in_background(&self) -> Result<bool, DslError> {
        let most = settings::ASYNC_FREE_BLOCKS_MAX.get();
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        let mut worked = self.free_listed(&mut left)?;
        if left > 0
            && let Some(moved) = self.free_part_of_clone()?
        {
            left = left.saturating_sub(moved);
            worked = true;
        }
        while left > 0 && self.free_queued(&mut left)? {
            worked = true;
        }
        Ok(worked)
    }

    /// Frees all blocks below the root of a destroyed object set that were born after a txg.
    /// Without a queue nothing can wait: what cannot be read is given up.
    pub(crate) fn free_at_once(
        &self,
        root: &BlockPointer,
        born_after: Txg,
    ) -> Result<(), DslError> {
        let is_to_leak = true;
        let mut freeing = self.tree_freeing(usize::MAX, is_to_leak);
        freeing.run(root, born_after, None).map(drop)
    }

    fn tree_freeing(&self, left: usize, is_to_leak: bool) -> TreeFreeing<'_> {
        TreeFreeing {
            context: self,
            left,
            is_to_leak,
            freed: SpaceTriple::default(),
        }
    }

    /// Frees blocks of the pool's list of single blocks.
    fn free_listed(&self, left: &mut usize) -> Result<bool, DslError> {
        let Some(list) = self.dsl.object_directory().object(keys::FREE_BPOBJ)? else {
            return Ok(false);
        };
        let mut worked = false;
        while *left > 0 {
            let blocks = self.take_blocks(list, LIST_BATCH.min(*left))?;
            if blocks.is_empty() {
                break;
            }
            let mut sum = SpaceTriple::default();
            for block in &blocks {
                sum = sum.plus(self.dsl.space_of_block(block));
                self.release(block)?;
            }
            let free = self.hidden_directory("$FREE")?;
            self.use_space(free, DirectoryPart::Head, SpaceChange::from(sum).negated())?;
            *left -= blocks.len();
            worked = true;
        }
        Ok(worked)
    }

    /// Resumes the first dataset of the queue.
    fn free_queued(&self, left: &mut usize) -> Result<bool, DslError> {
        let Some(queue) = self.dsl.object_directory().object(keys::BPTREE)? else {
            return Ok(false);
        };
        let leaks = settings::FREE_LEAK.get() != 0;
        if self.dsl.freeing_is_stalled.load(Ordering::Relaxed) && !leaks {
            return Ok(false);
        }
        let object = self.mos().object(queue)?;
        let mut header = self.queue_header(queue)?;
        if header.begin == header.end {
            self.remove_directory_entry(keys::BPTREE)?;
            self.destroy_object(queue)?;
            self.feature_changed(features::ASYNC_DESTROY, -1)?;
            self.forget_waiting_logs()?;
            self.note_leak()?;
            return Ok(true);
        }
        let size = ENTRY_SIZE as u64;
        let mut bytes = [0; ENTRY_SIZE];
        object.read(header.begin * size, &mut bytes)?;
        let entry = BptreeEntry::decode(&bytes);
        let mut entry = entry.map_err(|source| DslError::decode(queue, source))?;
        let mut freeing = self.tree_freeing(*left, leaks);
        let outcome = freeing.run(&entry.block_pointer, entry.birth_txg, entry.resume)?;
        let freed = freeing.freed;
        *left = freeing.left;
        match outcome {
            Outcome::Finished => {
                object.free_range(self.tx, header.begin * size, size)?;
                header.begin = header.begin.saturating_add(1);
            }
            Outcome::Paused(bookmark) => {
                entry.resume = Some(bookmark);
                object.write(self.tx, header.begin * size, &entry.encode())?;
                *left = 0;
            }
            Outcome::Stalled(bookmark) => {
                entry.resume = bookmark;
                object.write(self.tx, header.begin * size, &entry.encode())?;
                self.dsl.freeing_is_stalled.store(true, Ordering::Relaxed);
                *left = 0;
            }
        }
        header.bytes = header.bytes.saturating_sub(freed.used);
        header.compressed_bytes = header.compressed_bytes.saturating_sub(freed.compressed);
        header.uncompressed_bytes = header.uncompressed_bytes.saturating_sub(freed.uncompressed);
        object.set_bonus(
            self.tx,
            ObjectType::UINT64_METADATA,
            header.encode().to_vec(),
        )?;
        let free = self.hidden_directory("$FREE")?;
        self.use_space(
            free,
            DirectoryPart::Head,
            SpaceChange::from(freed).negated(),
        )?;
        Ok(true)
    }

    /// Accounts what is left of the space that was to be freed, when nothing waits any more, to the
    /// directory of what is lost.
    fn note_leak(&self) -> Result<(), DslError> {
        let free = self.hidden_directory("$FREE")?;
        let phys = self.directory(free)?;
        let left = SpaceTriple {
            used: phys.used_bytes,
            compressed: phys.compressed_bytes,
            uncompressed: phys.uncompressed_bytes,
        };
        if left == SpaceTriple::default() {
            return Ok(());
        }
        let root = self.dsl.root()?;
        let leak = match root.child(b"$LEAK")? {
            Some(found) => found.id(),
            None => self.create_directory(Some(root.id()), b"$LEAK")?,
        };
        self.use_space(leak, DirectoryPart::Head, SpaceChange::from(left))?;
        self.use_space(free, DirectoryPart::Head, SpaceChange::from(left).negated())
    }
}

/// The freeing of one tree.
struct TreeFreeing<'a> {
    context: &'a SyncContext<'a>,
    /// Blocks that may still be freed.
    left: usize,
    /// What cannot be read is passed over.
    is_to_leak: bool,
    freed: SpaceTriple,
}

impl TreeFreeing<'_> {
    /// Frees what was born after a txg below the root of an object set, from a place on.
    fn run(
        &mut self,
        root: &BlockPointer,
        born_after: Txg,
        resume: Option<Bookmark>,
    ) -> Result<Outcome, DslError> {
        let root = Root {
            objset: OBJSET_DESTROYED,
            start: Start::Objset(*root),
            since: Since::accounting(born_after),
            keys: None,
        };
        let walk = Walk {
            order: Order::Post,
            resume,
            // Freed blocks are not read again.
            retention: Retention::Pass,
            ..Walk::default()
        };
        let cache = Arc::clone(self.context.mos().cache());
        let mut tree = Ordered::new(cache, root, walk);
        while let Some(event) = tree.next() {
            match event {
                // The object set block is the last, and no bookmark names it (format/3a 8).
                Event::Block(block) if self.left == 0 && block.part != Part::Objset => {
                    return Ok(Outcome::Paused(block.bookmark));
                }
                Event::Block(block) => {
                    if block.part == Part::Objset {
                        self.context.free_waiting_log(&block.pointer)?;
                    }
                    self.free(&block.pointer)?;
                }
                Event::Damage(damage) if !damage.error.is_damage() => {
                    return Err(damage.error.into());
                }
                Event::Damage(damage) if !self.is_to_leak => {
                    return Ok(Outcome::Stalled(damage.resume));
                }
                // What follows a dnode that does not decode may be its inside, and no dnodes.
                Event::Damage(_) => tree.pass_over(),
                Event::Object(..) | Event::Hole(_) | Event::FreeSlots { .. } => {}
            }
        }
        Ok(Outcome::Finished)
    }

    fn free(&mut self, pointer: &BlockPointer) -> Result<(), DslError> {
        let space = self.context.dsl.space_of_block(pointer);
        self.context.release(pointer)?;
        self.freed = self.freed.plus(space);
        self.left = self.left.saturating_sub(1);
        Ok(())
    }
}
