//! Counts of file systems and snapshots, and the limits on them (format/3a 1).
//!
//! The counts exist once a limit was set anywhere in the pool, from the directories upwards that
//! have them.

use super::context::SyncContext;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::property::stored::StoredProperties;
use cenote_base::ObjectId;
use cenote_ondisk::dsl_dir::DslDir;
use cenote_ondisk::dsl_dir::fields;
use cenote_ondisk::features;
use std::collections::BTreeMap;

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
    pub(super) fn check_limits_at(
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

    /// Has a new directory keep counts, in a pool that has limits.
    pub(super) fn begin_counts(&self, directory: ObjectId) -> Result<(), DslError> {
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
}
