//! Bookmarks: the place of a snapshot in its chain, kept after its destruction (format/3a 9).
//!
//! With the feature `bookmark_written` a bookmark counts the blocks of its snapshot that die before
//! the next snapshot. This gives the space written since then, even after the snapshot is
//! destroyed. Its txg then also stays a key of deadlists, as if the snapshot still existed.

use crate::deadlist::{DeadlistEntry, SpaceTriple, space_within};
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::write::context::SyncContext;
use cenote_base::{ObjectId, Txg};
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::ObjectType;
use cenote_ondisk::bookmark_phys::{
    BookmarkPhys, BookmarkSpace, FLAG_HAS_FREED_BEFORE_NEXT, FLAG_SNAPSHOT_EXISTS, WORDS_V1,
};
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::features;

/// What died of a bookmark's snapshot before the next one was taken.
#[derive(Clone, Debug)]
pub(crate) struct BookmarkSum {
    pub name: Vec<u8>,
    pub txg: Txg,
    pub space: SpaceTriple,
}

/// A bookmark as its table has it.
#[derive(Clone, Debug)]
pub(crate) struct StoredBookmark {
    pub name: Vec<u8>,
    pub phys: BookmarkPhys,
}

impl StoredBookmark {
    /// Whether it counts what dies of its snapshot.
    pub fn counts(&self) -> bool {
        self.phys.flags & FLAG_HAS_FREED_BEFORE_NEXT != 0
    }
}

fn add(sum: &mut BookmarkSpace, space: SpaceTriple) {
    sum.referenced = sum.referenced.saturating_add(space.used);
    sum.compressed = sum.compressed.saturating_add(space.compressed);
    sum.uncompressed = sum.uncompressed.saturating_add(space.uncompressed);
}

impl SyncContext<'_> {
    /// The table of a head's bookmarks.
    fn bookmark_table(&self, head: ObjectId) -> Result<Option<ObjectId>, DslError> {
        let object = self.mos().object(head)?;
        let Some(zap) = Dsl::extension(&object)? else {
            return Ok(None);
        };
        let table = zap.lookup_u64(fields::BOOKMARKS)?.filter(|id| *id != 0);
        Ok(table.map(ObjectId))
    }

    /// A head's bookmarks.
    pub(crate) fn stored_bookmarks(&self, head: ObjectId) -> Result<Vec<StoredBookmark>, DslError> {
        let mut bookmarks = Vec::new();
        let Some(table) = self.bookmark_table(head)? else {
            return Ok(bookmarks);
        };
        for entry in self.mos().zap(table)?.entries() {
            let entry = entry?;
            let words = entry.value.as_u64s().unwrap_or_default();
            let phys = BookmarkPhys::from_words(&words);
            bookmarks.push(StoredBookmark {
                name: entry.key.as_name().unwrap_or_default().to_vec(),
                phys: phys.map_err(|source| DslError::decode(table, source))?,
            });
        }
        Ok(bookmarks)
    }

    /// Adds a bookmark to a head, which has none of this name.
    pub(crate) fn add_bookmark(
        &self,
        head: ObjectId,
        bookmark: &StoredBookmark,
    ) -> Result<(), DslError> {
        let table = match self.bookmark_table(head)? {
            Some(table) => table,
            None => {
                let table = self.create_name_table(ObjectType::ZAP_METADATA)?;
                self.set_extension(head, fields::BOOKMARKS, table.0)?;
                self.feature_changed(features::BOOKMARKS, 1)?;
                table
            }
        };
        let phys = &bookmark.phys;
        let is_more =
            bookmark.counts() || phys.ivset_guid.is_some() || phys.redaction_list.is_some();
        let is_new = is_more && self.dsl.features().get(features::BOOKMARK_V2).is_some();
        if is_new {
            self.feature_changed(features::BOOKMARK_V2, 1)?;
        }
        if bookmark.counts() {
            self.feature_changed(features::BOOKMARK_WRITTEN, 1)?;
        }
        let value = ZapValue::from_u64s(&phys.to_words(is_new));
        let zap = self.mos().zap(table)?;
        Ok(zap.update(self.tx, &bookmark.name, &value)?)
    }

    /// Takes a bookmark from a head, and with the last one their table. What it redacts by stays.
    pub(crate) fn take_bookmark(
        &self,
        head: ObjectId,
        name: &[u8],
    ) -> Result<Option<StoredBookmark>, DslError> {
        let Some(table) = self.bookmark_table(head)? else {
            return Ok(None);
        };
        let zap = self.mos().zap(table)?;
        let Some(value) = zap.lookup(name)? else {
            return Ok(None);
        };
        let words = value.as_u64s().unwrap_or_default();
        let phys = BookmarkPhys::from_words(&words);
        let bookmark = StoredBookmark {
            name: name.to_vec(),
            phys: phys.map_err(|source| DslError::decode(table, source))?,
        };
        if words.len() > WORDS_V1 {
            self.feature_changed(features::BOOKMARK_V2, -1)?;
        }
        if bookmark.counts() {
            self.feature_changed(features::BOOKMARK_WRITTEN, -1)?;
        }
        zap.remove(self.tx, name)?;
        if self.mos().zap(table)?.count() == 0 {
            self.destroy_object(table)?;
            self.remove_entry(head, fields::BOOKMARKS.as_bytes())?;
            self.feature_changed(features::BOOKMARKS, -1)?;
        }
        Ok(Some(bookmark))
    }

    /// Destroys all bookmarks of a head that is destroyed.
    pub(crate) fn destroy_bookmarks(&self, head: ObjectId) -> Result<(), DslError> {
        for bookmark in self.stored_bookmarks(head)? {
            self.take_bookmark(head, &bookmark.name)?;
            self.destroy_redaction(&bookmark)?;
        }
        Ok(())
    }

    /// Frees the list of what a bookmark redacts by.
    pub(crate) fn destroy_redaction(&self, bookmark: &StoredBookmark) -> Result<(), DslError> {
        let Some(list) = bookmark.phys.redaction_list else {
            return Ok(());
        };
        if self.mos().object(list)?.spill()?.is_some() {
            self.feature_changed(features::REDACTION_LIST_SPILL, -1)?;
        }
        self.feature_changed(features::REDACTION_BOOKMARKS, -1)?;
        self.destroy_object(list)
    }

    /// Sets the count of what died before the successor of the snapshot of `txg`, which is another
    /// now.
    pub(crate) fn recount_bookmarks(
        &self,
        head: ObjectId,
        txg: Txg,
        freed: SpaceTriple,
    ) -> Result<(), DslError> {
        for mut bookmark in self.stored_bookmarks(head)? {
            if bookmark.counts() && bookmark.phys.creation_txg == txg {
                bookmark.phys.freed_before_next = BookmarkSpace::default();
                add(&mut bookmark.phys.freed_before_next, freed);
                self.store_counting(head, &bookmark)?;
            }
        }
        Ok(())
    }

    /// Whether a head has a bookmark that counts of a snapshot of `txg`.
    pub(crate) fn counts_since(&self, head: ObjectId, txg: Txg) -> Result<bool, DslError> {
        let bookmarks = self.stored_bookmarks(head)?;
        let mut counting = bookmarks.iter().filter(|bookmark| bookmark.counts());
        Ok(counting.any(|bookmark| bookmark.phys.creation_txg == txg))
    }

    /// Stores what a bookmark that counts has counted.
    fn store_counting(&self, head: ObjectId, bookmark: &StoredBookmark) -> Result<(), DslError> {
        let Some(table) = self.bookmark_table(head)? else {
            return Ok(());
        };
        let value = ZapValue::from_u64s(&bookmark.phys.to_words(true));
        Ok(self
            .mos()
            .zap(table)?
            .update(self.tx, &bookmark.name, &value)?)
    }

    /// Updates the bookmarks of a head when one of its snapshots is destroyed, before the
    /// successor's deadlist changes. Returns whether a bookmark continues the snapshot's count.
    pub(crate) fn note_lost_snapshot(
        &self,
        head: ObjectId,
        snapshot: &DslDataset,
        next: &[DeadlistEntry],
    ) -> Result<bool, DslError> {
        let mut is_counted = false;
        for mut bookmark in self.stored_bookmarks(head)? {
            let txg = bookmark.phys.creation_txg;
            if !bookmark.counts() || txg < snapshot.previous_snapshot_txg {
                continue;
            }
            if txg == snapshot.creation_txg {
                is_counted = true;
                bookmark.phys.flags &= !FLAG_SNAPSHOT_EXISTS;
            } else if txg < snapshot.creation_txg {
                let freed = space_within(next, Txg(0), txg);
                add(&mut bookmark.phys.freed_before_next, freed);
            } else {
                continue;
            }
            self.store_counting(head, &bookmark)?;
        }
        Ok(is_counted)
    }

    /// The bookmarks of a dataset's head that count what dies of their snapshots now.
    pub(crate) fn counting_bookmarks(
        &self,
        phys: &DslDataset,
    ) -> Result<Vec<BookmarkSum>, DslError> {
        let Some(head) = self.directory(phys.directory)?.head_dataset else {
            return Ok(Vec::new());
        };
        let mut bookmarks = self.stored_bookmarks(head)?;
        bookmarks.retain(|bookmark| {
            bookmark.counts() && bookmark.phys.creation_txg >= phys.previous_snapshot_txg
        });
        let sum = |bookmark: StoredBookmark| BookmarkSum {
            name: bookmark.name,
            txg: bookmark.phys.creation_txg,
            space: SpaceTriple::default(),
        };
        Ok(bookmarks.into_iter().map(sum).collect())
    }

    /// Adds to bookmarks what died of their snapshots.
    pub(crate) fn freed_before_next_snapshot(
        &self,
        head: ObjectId,
        sums: &[BookmarkSum],
    ) -> Result<(), DslError> {
        if sums.iter().all(|sum| sum.space == SpaceTriple::default()) {
            return Ok(());
        }
        for mut bookmark in self.stored_bookmarks(head)? {
            let sum = sums.iter().find(|sum| sum.name == bookmark.name);
            if let Some(sum) = sum.filter(|_| bookmark.counts()) {
                add(&mut bookmark.phys.freed_before_next, sum.space);
                self.store_counting(head, &bookmark)?;
            }
        }
        Ok(())
    }
}
