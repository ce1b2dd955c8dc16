//! Whether the blocks that a change needs can be read.
//!
//! Syncing replaces the pointer to each block that was written and gives up all that was freed: it
//! reads the indirect blocks above them. Unreadable ones would stop it, and with it the pool. So a
//! change of an object in an open group checks them first and fails with an error, and the pool
//! continues without that change. (OpenZFS's transactions read what they hold for the same reason.)
//! What is damaged between the change and its sync still suspends the pool. A set that is changed
//! in memory only is never synced, so nothing of it has to be readable for that.

use crate::error::DmuError;
use crate::live::{LiveObject, Place};
use crate::object::Object;
use crate::traverse::{Event, Ordered, Root, Since, Walk};
use cenote_base::{BlockId, Level};
use std::sync::Arc;

impl Object {
    /// Checks that `block` can be given new contents.
    pub(crate) fn check_way_to(&self, block: BlockId) -> Result<(), DmuError> {
        let Some(live) = self.synced_live() else {
            return Ok(());
        };
        live.look(block.0, |place| match place {
            Place::Committed(dnode) => {
                let on_disk = self.committed(Arc::clone(dnode));
                on_disk.data_pointer(block).map(drop)
            }
            // The write or free of this block has checked that.
            Place::Contents(_) | Place::Pointer(_) | Place::Hole => Ok(()),
        })
    }

    /// The object's changes, if they will be written.
    fn synced_live(&self) -> Option<&Arc<LiveObject>> {
        let is_in_memory = self.set().live.as_ref()?.is_in_memory();
        self.live.as_ref().filter(|_| !is_in_memory)
    }

    /// Checks that the object can be freed with all that it has on disk.
    ///
    /// # Errors
    /// If an indirect block is damaged.
    pub fn check_freeable(&self) -> Result<(), DmuError> {
        self.check_tree(0, u64::MAX)
    }

    /// Checks that the blocks `[start, end)` can be freed.
    pub(crate) fn check_tree(&self, start: u64, end: u64) -> Result<(), DmuError> {
        let Some(live) = self.synced_live() else {
            return Ok(());
        };
        let newest = || live.read().committed.clone();
        let mut looked_at = newest();
        while let Some(dnode) = looked_at {
            let checked = self.committed(Arc::clone(&dnode)).read_tree(start, end);
            if checked.is_ok() {
                return checked;
            }
            // What a sync replaced meanwhile may be given up, and written over.
            looked_at = newest();
            if looked_at
                .as_ref()
                .is_some_and(|now| Arc::ptr_eq(now, &dnode))
            {
                return checked;
            }
        }
        Ok(())
    }

    /// Reads all indirect blocks above the blocks `[start, end)` on disk.
    fn read_tree(&self, start: u64, end: u64) -> Result<(), DmuError> {
        let is_flat = self.dnode().levels == 1;
        let Some(last) = end.checked_sub(1).filter(|_| !is_flat) else {
            return Ok(());
        };
        let walk = Walk {
            lowest: Level(1),
            retention: self.set().retention(true),
            ..Walk::default()
        };
        let walk = walk.over(BlockId(start), BlockId(last));
        let cache = Arc::clone(self.set().cache());
        let mut tree = Ordered::new(cache, Root::of_object(self, Since::EVER), walk);
        while let Some(event) = tree.next() {
            match event {
                // The lowest are not gone into.
                Event::Block(block) if block.bookmark.level == Level(1) => {
                    tree.read(&block)?;
                }
                Event::Damage(damage) => return Err(damage.error),
                _ => {}
            }
        }
        Ok(())
    }
}
