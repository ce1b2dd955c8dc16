//! How much space datasets may still use (format/3c 1 and 2).

use crate::dataset::{CHAIN_LENGTH_MAX, Dataset};
use crate::deadlist::Deadlist;
use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::NESTING_MAX;
use crate::object_directory::keys;
use crate::property::table::Property;
use cenote_base::{ObjectId, Txg, settings};
use cenote_ledger::PoolRoom;
use cenote_ondisk::bpobj::BpobjHeader;
use cenote_ondisk::dsl_dir::DslDir;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The reserve is at most this.
const SLOP_MAX: u64 = 128 * GIB;
/// The reserve is at least this, or half of a pool that is smaller than twice this.
const SLOP_MIN: u64 = 128 * MIB;

/// What dedup and cloning save counts only where less than this share of the pool is left.
const SAVED_SHARE: u64 = 8;

/// The part of `space` that only the system may use: so that a full pool can still be freed.
pub fn slop(normal: u64, embedded_log: u64) -> u64 {
    let slop = (normal >> settings::SLOP_SHIFT.get()).min(SLOP_MAX);
    let slop = slop - embedded_log.min(slop / 2);
    slop.max(SLOP_MIN.min(normal / 2))
}

impl Dsl {
    /// Bytes that all datasets together may use, the reserve not included.
    pub fn usable_space(&self) -> Result<u64, DslError> {
        Ok(self.room_with(self.saved_space()?, 0)?.usable)
    }

    /// What the pool as a whole has, for the ledger of room; `is_freeing` says that destroyed
    /// datasets are being freed.
    pub(crate) fn pool_room(&self, is_freeing: bool) -> Result<PoolRoom, DslError> {
        let freeing = if is_freeing { self.freeing()? } else { 0 };
        let room = self.room_with(0, freeing)?;
        // What dedup and cloning save takes long to compute, and matters where there is little.
        let margin = room.usable_later / SAVED_SHARE;
        match self.rooms().root_used() {
            Some(used) if used.saturating_add(margin) < room.usable => Ok(room),
            _ => self.room_with(self.saved_space()?, freeing),
        }
    }

    /// The reserve takes what was freed and is not usable yet, up to its half.
    fn room_with(&self, saved: u64, freeing: u64) -> Result<PoolRoom, DslError> {
        let space = self.space();
        let slop = slop(space.normal, space.embedded_log);
        let total = space
            .normal
            .saturating_add(space.special_allocated)
            .saturating_add(space.dedup_allocated)
            .saturating_add(saved)
            .saturating_sub(space.checkpoint);
        let deferred = space.deferred.saturating_add(self.deferred_bytes()?);
        let usable_later = total.saturating_sub(slop);
        Ok(PoolRoom {
            usable: usable_later.saturating_sub(deferred.saturating_sub(slop / 2)),
            usable_later,
            physical: total.saturating_sub(slop / 2),
            deferred,
            freeing,
        })
    }

    /// Brings the figures of the group `txg` into force, which is on disk: what was in flight for
    /// it is part of them now.
    ///
    /// # Errors
    /// If the pool's metadata cannot be read.
    pub fn commit_room(self: &Arc<Self>, txg: Txg, is_freeing: bool) -> Result<(), DslError> {
        let is_asked = !self.rooms().is_unused();
        let pool = is_asked.then(|| self.pool_room(is_freeing)).transpose()?;
        let missing = self.rooms().missing().into_iter();
        let above: Result<Vec<_>, _> = missing.map(|id| self.directories_above(id)).collect();
        self.rooms().commit(txg, pool, &above?);
        Ok(())
    }

    /// A directory and all above it, as they are now.
    pub(crate) fn directories_above(
        &self,
        id: ObjectId,
    ) -> Result<Vec<(ObjectId, DslDir)>, DslError> {
        let mut chain = Vec::new();
        let mut at = Some(id);
        while let Some(id) = at {
            if chain.len() > NESTING_MAX + 1 {
                let problem = "its ancestors are nested too deep";
                return Err(DslError::structure(id, problem));
            }
            let (_, phys) = self.read_directory(id)?;
            at = phys.parent;
            chain.push((id, phys));
        }
        Ok(chain)
    }

    /// Bytes that were freed and become free with the next transaction groups.
    pub fn deferred_bytes(&self) -> Result<u64, DslError> {
        let Some(id) = self.object_directory().object(keys::SYNC_BPLIST)? else {
            return Ok(0);
        };
        let object = self.mos().object(id)?;
        let header = BpobjHeader::decode(&object.dnode().bonus);
        Ok(header.map_err(|source| DslError::decode(id, source))?.bytes)
    }
}

impl Directory {
    /// Bytes that the directory and all below may still use.
    pub fn available(&self) -> Result<u64, DslError> {
        let mut chain: Vec<_> = self.ancestry().collect();
        let mut above: Option<u64> = None;
        while let Some(directory) = chain.pop() {
            let phys = directory.phys();
            let mut limit = match phys.quota {
                0 => u64::MAX,
                quota => quota,
            };
            let mut parent = u64::MAX;
            if let Some(above) = above {
                let reserved = phys.reservation.saturating_sub(phys.used_bytes);
                parent = above.saturating_add(reserved);
            } else {
                limit = limit.min(directory.dsl().usable_space()?);
            }
            let room = limit.saturating_sub(phys.used_bytes);
            above = Some(parent.min(room));
        }
        Ok(above.expect("a directory is in its own ancestry"))
    }
}

impl Dataset {
    /// Refuses contents of `referenced` bytes that are more than `refquota` allows.
    ///
    /// # Errors
    /// If they are, or the property cannot be read.
    pub(crate) fn check_refquota(&self, referenced: u64) -> Result<(), DslError> {
        let quota = self.stored_number(Property::RefQuota)?;
        match quota != 0 && referenced > quota {
            true => Err(DslError::AboveRefquota {
                name: self.name().clone(),
                referenced,
                quota,
            }),
            false => Ok(()),
        }
    }

    /// Bytes that may still be written to the dataset.
    pub fn available(&self) -> Result<u64, DslError> {
        let reserved = self.stored_number(Property::RefReservation)?;
        let reserved = reserved.saturating_sub(self.phys().unique_bytes);
        let available = self.directory().available()?.saturating_add(reserved);
        Ok(match self.stored_number(Property::RefQuota)? {
            0 => available,
            quota => available.min(quota.saturating_sub(self.phys().referenced_bytes)),
        })
    }
}

impl Dataset {
    /// Bytes that destroying the snapshots from this one to `last` would free: `last` is this one,
    /// or a later one on the same chain (format/3a 5).
    ///
    /// `None` if it is not, or in pools before version 26, whose deadlists cannot be divided.
    ///
    /// # Errors
    /// If a snapshot or its deadlist cannot be read.
    pub fn space_freed_with(&self, last: &Dataset) -> Result<Option<u64>, DslError> {
        let (dsl, before) = (self.dsl(), self.phys().previous_snapshot_txg);
        let mut freed = 0_u64;
        let mut at = last.phys().clone();
        for _ in 0..CHAIN_LENGTH_MAX {
            let Some(next) = at.next_snapshot else {
                return Ok(None);
            };
            let (_, next) = dsl.read_dataset(next)?;
            let dead = Deadlist::open(dsl, next.deadlist)?;
            let Some(space) = dead.space_after(before) else {
                return Ok(None);
            };
            freed = freed.saturating_add(space.used);
            if next.previous_snapshot == Some(self.id()) {
                return Ok(Some(freed));
            }
            let Some(previous) = at.previous_snapshot.filter(|_| at.creation_txg > before) else {
                return Ok(None);
            };
            at = dsl.read_dataset(previous)?.1;
        }
        let problem = "its chain of snapshots does not end";
        Err(DslError::structure(last.id(), problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_is_a_32nd_within_bounds() {
        assert_eq!(slop(64 * MIB, 0), 32 * MIB, "half of a tiny pool");
        assert_eq!(slop(GIB, 0), 128 * MIB);
        assert_eq!(slop(64 * GIB, 0), 2 * GIB);
        assert_eq!(slop(64 * GIB, GIB), GIB, "less the embedded log");
        assert_eq!(slop(64 * GIB, 10 * GIB), GIB, "by half at most");
        assert_eq!(slop(1 << 50, 0), SLOP_MAX);
        assert_eq!(slop(u64::MAX, u64::MAX), 64 * GIB);
    }
}
