//! Counts of file systems and snapshots, and the limits on them (format/3a 1).
//!
//! The counts exist once a limit was set anywhere in the pool: from the directory at which it was
//! set downwards, and in all directories made since. What changes below is added from the inside
//! out, up to the first directory that keeps no counts.

use crate::directory::Directory;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::property::stored::StoredProperties;
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_ondisk::dsl_dir::{DslDir, fields};
use cenote_ondisk::features;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What moves from one directory to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// Bytes.
    pub space: u64,
    pub filesystems: u64,
    pub snapshots: u64,
}

impl SyncContext<'_> {
    /// Refuses more file systems or snapshots below `directory` than a limit allows.
    pub(crate) fn check_limits(
        &self,
        directory: ObjectId,
        filesystems: u64,
        snapshots: u64,
    ) -> Result<(), DslError> {
        self.check_limits_of([directory], filesystems, snapshots)
    }

    /// As [`Self::check_limits`] for each of several directories, which may be below one another.
    pub(crate) fn check_limits_of(
        &self,
        directories: impl IntoIterator<Item = ObjectId>,
        filesystems: u64,
        snapshots: u64,
    ) -> Result<(), DslError> {
        if !self.dsl.features().is_active(features::FILESYSTEM_LIMITS) {
            return Ok(());
        }
        let mut below: BTreeMap<ObjectId, u64> = BTreeMap::new();
        for directory in directories {
            let mut at = Some(directory);
            while let Some(id) = at {
                *below.entry(id).or_default() += 1;
                at = self.directory(id)?.parent;
            }
        }
        for (id, times) in below {
            let (filesystems, snapshots) = (
                filesystems.saturating_mul(times),
                snapshots.saturating_mul(times),
            );
            self.check_limits_at(id, filesystems, snapshots)?;
        }
        Ok(())
    }

    /// Refuses more than the limits of one directory itself allow.
    pub(crate) fn check_limits_at(
        &self,
        directory: ObjectId,
        filesystems: u64,
        snapshots: u64,
    ) -> Result<(), DslError> {
        let (object, phys) = self.dsl.read_directory(directory)?;
        let Some(zap) = Dsl::extension(&object)? else {
            return Ok(());
        };
        let counts = [
            (fields::FILESYSTEM_COUNT, "filesystem_limit", filesystems),
            (fields::SNAPSHOT_COUNT, "snapshot_limit", snapshots),
        ];
        for (field, property, more) in counts {
            let Some(count) = zap.lookup_u64(field)? else {
                continue;
            };
            let count = count.saturating_add(more);
            if more > 0 && count > self.limit_of(&phys, property)? {
                return Err(DslError::LimitReached { property });
            }
        }
        Ok(())
    }

    fn limit_of(&self, directory: &DslDir, property: &str) -> Result<u64, DslError> {
        let properties = StoredProperties::load(&self.mos().zap(directory.properties)?)?;
        Ok(match properties.get(property) {
            Some(crate::property::stored::Stored::Number(limit)) => *limit,
            _ => u64::MAX,
        })
    }

    /// Starts the counts of a directory and of all below it, because a limit is set on it. Does
    /// nothing if it has counts already.
    pub(crate) fn activate_limits(&self, directory: &Arc<Directory>) -> Result<(), DslError> {
        if self.keeps_counts(directory.id())? {
            return Ok(());
        }
        self.count_below(directory)?;
        self.feature_changed(features::FILESYSTEM_LIMITS, 1)?;
        Ok(())
    }

    fn keeps_counts(&self, directory: ObjectId) -> Result<bool, DslError> {
        let (object, _) = self.dsl.read_directory(directory)?;
        match Dsl::extension(&object)? {
            Some(zap) => Ok(zap.lookup_u64(fields::FILESYSTEM_COUNT)?.is_some()),
            None => Ok(false),
        }
    }

    /// Counts what is below a directory, and stores that in all directories there that keep no
    /// counts yet.
    pub(crate) fn count_below(&self, top: &Arc<Directory>) -> Result<(u64, u64), DslError> {
        // Parents before their children, so that the sums can be made from the end.
        let mut found: Vec<(Arc<Directory>, usize)> = vec![(Arc::clone(top), 0)];
        let mut at = 0;
        let mut seen = HashSet::from([top.id()]);
        while let Some((directory, _)) = found.get(at).cloned() {
            for child in directory.listed_children()? {
                if seen.insert(child.object) {
                    found.push((directory.open_child(&child)?, at));
                }
            }
            at += 1;
        }
        let mut sums = vec![(0_u64, 0_u64); found.len()];
        for (index, (directory, parent)) in found.iter().enumerate().rev() {
            let head = directory.head()?;
            let own = head.map_or(Ok(0), |head| head.listed_snapshots().map(|own| own.len()))?;
            sums[index].1 += own as u64;
            let (filesystems, snapshots) = sums[index];
            if !self.keeps_counts(directory.id())? {
                self.set_extension(directory.id(), fields::FILESYSTEM_COUNT, filesystems)?;
                self.set_extension(directory.id(), fields::SNAPSHOT_COUNT, snapshots)?;
            }
            if index > 0 {
                sums[*parent].0 += filesystems + 1;
                sums[*parent].1 += snapshots;
            }
        }
        Ok(sums[0])
    }

    /// Starts the counts of a new directory, in a pool with limits.
    pub(crate) fn begin_counts(&self, directory: ObjectId) -> Result<(), DslError> {
        if self.dsl.features().is_active(features::FILESYSTEM_LIMITS) {
            self.set_extension(directory, fields::FILESYSTEM_COUNT, 0)?;
            self.set_extension(directory, fields::SNAPSHOT_COUNT, 0)?;
        }
        Ok(())
    }

    /// Adds to the counts of `directory` and of all directories above that keep them.
    pub(crate) fn change_counts(
        &self,
        directory: Option<ObjectId>,
        filesystems: i64,
        snapshots: i64,
    ) -> Result<(), DslError> {
        if !self.dsl.features().is_active(features::FILESYSTEM_LIMITS) {
            return Ok(());
        }
        let mut at = directory;
        while let Some(id) = at {
            let (object, phys) = self.dsl.read_directory(id)?;
            let Some(zap) = Dsl::extension(&object)? else {
                return Ok(());
            };
            let changes = [
                (fields::FILESYSTEM_COUNT, filesystems),
                (fields::SNAPSHOT_COUNT, snapshots),
            ];
            for (field, change) in changes {
                if let Some(count) = zap.lookup_u64(field)?.filter(|_| change != 0) {
                    let count = count.saturating_add_signed(change);
                    self.set_number(id, field.as_bytes(), count)?;
                }
            }
            at = phys.parent;
        }
        Ok(())
    }

    /// The file systems with and below a directory, and all their snapshots.
    pub(crate) fn counts_of(&self, directory: &Arc<Directory>) -> Result<(u64, u64), DslError> {
        if !self.dsl.features().is_active(features::FILESYSTEM_LIMITS) {
            return Ok((0, 0));
        }
        let (object, _) = self.dsl.read_directory(directory.id())?;
        let zap = Dsl::extension(&object)?;
        let count = |field| match &zap {
            Some(zap) => zap.lookup_u64(field),
            None => Ok(None),
        };
        match (
            count(fields::FILESYSTEM_COUNT)?,
            count(fields::SNAPSHOT_COUNT)?,
        ) {
            (Some(filesystems), Some(snapshots)) => Ok((filesystems.saturating_add(1), snapshots)),
            _ => Ok((0, 0)),
        }
    }

    /// Starts the counts of a directory that moves below one with counts.
    pub(crate) fn begin_counts_below(
        &self,
        parent: &Arc<Directory>,
        directory: &Arc<Directory>,
    ) -> Result<(), DslError> {
        if self.keeps_counts(parent.id())? && !self.keeps_counts(directory.id())? {
            self.count_below(directory)?;
        }
        Ok(())
    }

    /// Refuses to move something from one directory to another if a quota or limit above that
    /// one, and not above both, does not allow it.
    pub(crate) fn check_transfer(
        &self,
        from: &Arc<Directory>,
        to: &Arc<Directory>,
        moved: Moved,
    ) -> Result<(), DslError> {
        let common: HashSet<ObjectId> = from.ancestry().map(Directory::id).collect();
        let is_new = |above: &&Directory| !common.contains(&above.id());
        for directory in to.ancestry().take_while(is_new) {
            let phys = directory.phys();
            let used = phys.used_bytes.saturating_add(moved.space);
            if phys.quota != 0 && used > phys.quota {
                let name = to.name().clone();
                return Err(DslError::NoSpaceFor { name });
            }
            self.check_limits_at(directory.id(), moved.filesystems, moved.snapshots)?;
        }
        Ok(())
    }
}
