//! Livelists: the blocks that belong to a clone alone (format/3a 8).
//!
//! A clone shares most of its tree with its origin. To find its few own blocks when it is
//! destroyed, one would have to read all indirect blocks that it changed. So the clone records each
//! block that is born in it after its origin, and each of these that it frees. A block whose
//! entries have one more birth than frees belongs to the clone alone:
//!
//! ```text
//!              key 20                             key 57
//! entries      +a@21 +b@21 +c@30 -a@21 -c@30      +d@58 +e@58 -d@58
//! own          b                                  e
//! ```
//!
//! A block's key is its address and not just its birth: a deduplicated block may have several
//! references. The list is divided by birth, like a deadlist, so that both entries of a block are
//! in the same part. A new part begins when the newest has too many live blocks
//! (`zfs_livelist_max_entries`). A part that is long but has few live blocks is condensed: it is
//! rewritten with these alone.
//!
//! Destroying the clone moves the list into a table of the pool. Each later transaction group takes
//! one part out of a list there and adds its live blocks to the pool's list of blocks to free. The
//! blocks only move between lists, so a crash at any point neither leaks them nor frees them twice.
//!
//! If a clone shares little with its origin, the list is dropped
//! (`zfs_livelist_min_percent_shared`). It is also dropped when a promotion or a rollback changes
//! which blocks are the clone's own. Such a clone is destroyed like any other dataset.

use super::accounting::{Part, SpaceChange};
use crate::deadlist::{Deadlist, DeadlistEntry};
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use crate::write::context::SyncContext;
use crate::write::pool::metadata::number_key;
use cenote_base::{ObjectId, Txg, settings};
use cenote_ondisk::bpobj;
use cenote_ondisk::dsl_dir::fields::LIVELIST;
use cenote_ondisk::features;
use cenote_ondisk::{BlockPointer, ObjectType};
use std::collections::HashMap;

/// Blocks that are gathered before they are written to a list.
const BATCH: usize = 4096;
/// Blocks that are looked for at a time: each takes about 40 bytes.
const LIVE_MAX: usize = 1 << 20;

/// What identifies a block: vdev and offset of its first copy.
type Place = [u64; 2];

fn place(block: &BlockPointer) -> Place {
    let dva = block.dva(0);
    [dva.vdev().0, dva.offset()]
}

/// One of several shares into which blocks are divided by their places.
#[derive(Clone, Copy)]
struct Share {
    index: u64,
    of: u64,
}

impl Share {
    fn has(self, place: Place) -> bool {
        (place[1] >> 9).wrapping_add(place[0]) % self.of == self.index
    }
}

impl SyncContext<'_> {
    /// Gives a new clone an empty list, if the pool has the feature.
    pub(crate) fn begin_livelist(&self, directory: ObjectId) -> Result<(), DslError> {
        if self.dsl.features().get(features::LIVELIST).is_none() {
            return Ok(());
        }
        self.feature_changed(features::LIVELIST, 1)?;
        let livelist = self.create_deadlist(&[])?;
        self.set_extension(directory, LIVELIST, livelist.0)
    }

    /// The list of a directory's head, if it is a clone and keeps one.
    fn livelist(&self, directory: ObjectId) -> Result<Option<ObjectId>, DslError> {
        let Some(zap) = Dsl::extension(&self.mos().object(directory)?)? else {
            return Ok(None);
        };
        let id = zap.lookup_u64(LIVELIST)?;
        Ok(id.filter(|id| *id != 0).map(ObjectId))
    }

    /// The list of a head that is about to be written, with a part for what is born now.
    ///
    /// Parts begin with a group and never within one: a block's two entries would be in two of
    /// them.
    pub(crate) fn open_livelist(&self, directory: ObjectId) -> Result<Option<ObjectId>, DslError> {
        let Some(livelist) = self.livelist(directory)? else {
            return Ok(None);
        };
        let key = Txg(self.txg().0.saturating_sub(1));
        let entries = self.deadlist_entries(livelist)?;
        let is_full = match entries.last() {
            Some(newest) => newest.key < key && self.live_count(newest)? > max_entries(),
            None => true,
        };
        if is_full {
            for list in self.create_empty_lists(1)? {
                self.set_number(livelist, &number_key(key.0), list.0)?;
            }
        }
        Ok(Some(livelist))
    }

    fn live_count(&self, part: &DeadlistEntry) -> Result<u64, DslError> {
        let header = self.list_header(part.bpobj)?;
        let freed = header.freed.unwrap_or(0);
        Ok(header.entries.saturating_sub(freed.saturating_mul(2)))
    }

    /// Writes down what was born and what was given up.
    pub(crate) fn note_in_livelist(
        &self,
        livelist: ObjectId,
        born: &[BlockPointer],
        given_up: &[BlockPointer],
    ) -> Result<(), DslError> {
        // A block may be born and given up in one group.
        self.enter_blocks(livelist, born, false)?;
        self.enter_blocks(livelist, given_up, true)
    }

    /// Drops the list of a head that was just written, or shortens it, where that is due.
    pub(crate) fn trim_livelist(
        &self,
        directory: ObjectId,
        referenced: u64,
    ) -> Result<(), DslError> {
        let Some(livelist) = self.livelist(directory)? else {
            return Ok(());
        };
        let own = self.directory(directory)?.breakdown.head;
        let shared = u128::from(referenced.saturating_sub(own)) * 100;
        let percent = shared.checked_div(u128::from(referenced));
        let least = u128::from(settings::LIVELIST_MIN_PERCENT_SHARED.get());
        if percent.is_some_and(|percent| percent <= least) {
            return self.drop_livelist(directory);
        }
        match self.deadlist_entries(livelist)?.last() {
            Some(newest) => self.condense(livelist, newest),
            None => Ok(()),
        }
    }

    /// Rewrites a part if it is long and at least half of its entries cancel out.
    fn condense(&self, livelist: ObjectId, part: &DeadlistEntry) -> Result<(), DslError> {
        let entries = self.list_header(part.bpobj)?.entries;
        if entries <= max_entries() || self.live_count(part)?.saturating_mul(2) > entries {
            return Ok(());
        }
        let list = self.create_list()?;
        self.copy_live(part.bpobj, list)?;
        self.set_number(livelist, &number_key(part.key.0), list.0)?;
        self.destroy_list(part.bpobj)
    }

    /// Appends what lives in a part of a livelist to a list; returns how many blocks that is.
    fn copy_live(&self, part: ObjectId, list: ObjectId) -> Result<usize, DslError> {
        let mut shares = 1;
        let first = loop {
            let share = Share {
                index: 0,
                of: shares,
            };
            match self.live_in(part, share, LIVE_MAX)? {
                Some(live) => break live,
                None => shares *= 2,
            }
        };
        let mut copied = self.copy_share(part, list, first)?;
        for index in 1..shares {
            let share = Share { index, of: shares };
            // The shares are about as large as the first one.
            let live = self.live_in(part, share, usize::MAX)?;
            copied += self.copy_share(part, list, live.unwrap_or_default())?;
        }
        Ok(copied)
    }

    /// How often each block of a share stands more often as born than as given up. `None` if there
    /// are more than `limit` at a time.
    fn live_in(
        &self,
        part: ObjectId,
        share: Share,
        limit: usize,
    ) -> Result<Option<HashMap<Place, i64>>, DslError> {
        let mut live = HashMap::new();
        self.each_listed(part, &mut |block| {
            let place = place(block);
            if !share.has(place) || live.len() > limit {
                return Ok(());
            }
            let count = live.entry(place).or_insert(0_i64);
            *count += if bpobj::is_free(block) { -1 } else { 1 };
            if *count == 0 {
                live.remove(&place);
            }
            Ok(())
        })?;
        Ok((live.len() <= limit).then_some(live))
    }

    fn copy_share(
        &self,
        part: ObjectId,
        list: ObjectId,
        mut live: HashMap<Place, i64>,
    ) -> Result<usize, DslError> {
        let mut copied = 0;
        let mut batch = Vec::with_capacity(BATCH);
        self.each_listed(part, &mut |block| {
            let count = live.get_mut(&place(block)).filter(|count| **count > 0);
            let Some(count) = count.filter(|_| !bpobj::is_free(block)) else {
                return Ok(());
            };
            *count -= 1;
            copied += 1;
            batch.push(*block);
            if batch.len() == BATCH {
                self.append_blocks(list, &batch, false)?;
                batch.clear();
            }
            Ok(())
        })?;
        if !batch.is_empty() {
            self.append_blocks(list, &batch, false)?;
        }
        Ok(copied)
    }

    /// Forgets a clone's list, if it keeps one; the clone is then destroyed like any other dataset.
    pub(crate) fn drop_livelist(&self, directory: ObjectId) -> Result<(), DslError> {
        let Some(livelist) = self.livelist(directory)? else {
            return Ok(());
        };
        self.destroy_deadlist(livelist)?;
        self.remove_entry(directory, LIVELIST.as_bytes())?;
        self.feature_changed(features::LIVELIST, -1)?;
        Ok(())
    }

    /// Queues the list of a clone that is being destroyed, so that later groups free its blocks,
    /// and charges `$FREE` with them. Returns false if the clone has no list.
    pub(crate) fn give_up_livelist(&self, directory: ObjectId) -> Result<bool, DslError> {
        let Some(livelist) = self.livelist(directory)? else {
            return Ok(false);
        };
        let space = Deadlist::totals_of(self.dsl, livelist)?;
        let free = self.hidden_directory("$FREE")?;
        self.use_space(free, Part::Head, SpaceChange::from(space))?;
        let table = match self.dsl.object_directory().object(keys::DELETED_CLONES)? {
            Some(table) => table,
            None => {
                let table = self.create_table(ObjectType::ZAP_METADATA)?;
                self.set_directory_number(keys::DELETED_CLONES, table.0)?;
                table
            }
        };
        self.set_number(table, &number_key(livelist.0), livelist.0)?;
        self.remove_entry(directory, LIVELIST.as_bytes())?;
        Ok(true)
    }

    /// Hands the blocks of one part of a destroyed clone's list to the pool's list of blocks to be
    /// freed. Returns how many they were, or `None` if there is no such list.
    pub(crate) fn free_part_of_clone(&self) -> Result<Option<usize>, DslError> {
        let Some(table) = self.dsl.object_directory().object(keys::DELETED_CLONES)? else {
            return Ok(None);
        };
        let queued = self.mos().zap(table)?.entries().next().transpose()?;
        let queued = queued.and_then(|entry| entry.value.as_u64());
        let Some(livelist) = queued.map(ObjectId) else {
            self.remove_directory_entry(keys::DELETED_CLONES)?;
            self.destroy_object(table)?;
            return Ok(Some(0));
        };
        let mut moved = 0;
        let parts = self.deadlist_entries(livelist)?;
        if let Some(part) = parts.first() {
            let key = keys::FREE_BPOBJ;
            let list = self.dsl.object_directory().object(key)?;
            moved = self.copy_live(part.bpobj, list.ok_or(DslError::MissingEntry { key })?)?;
            self.remove_entry(livelist, &number_key(part.key.0))?;
            self.destroy_list(part.bpobj)?;
            self.change_totals(livelist, SpaceChange::from(part.space).negated())?;
        }
        if parts.len() <= 1 {
            self.destroy_object(livelist)?;
            self.remove_entry(table, &number_key(livelist.0))?;
            self.feature_changed(features::LIVELIST, -1)?;
        }
        Ok(Some(moved))
    }
}

fn max_entries() -> u64 {
    settings::LIVELIST_MAX_ENTRIES.get()
}
