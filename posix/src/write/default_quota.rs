//! Limits of all users, groups or projects that have none of their own (format/3b 2).

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::{AccountKind, MASTER_NODE};
use crate::write::quota::limit_name;

impl FileSystem {
    /// Sets the limit in bytes, or objects, for ids without a limit of their own; 0 removes it.
    ///
    /// # Errors
    /// If the file system takes no changes.
    pub fn set_default_quota(
        &self,
        kind: AccountKind,
        limit: u64,
        of_objects: bool,
    ) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[MASTER_NODE]);
        let tx = self.begin_freeing(0)?;
        self.log_nothing(&tx);
        let key = format!("default{}", limit_name(kind, of_objects));
        let master = self.set().zap(MASTER_NODE)?;
        match limit {
            0 => drop(master.remove(&tx, key.as_bytes())?),
            _ => master.update_u64(&tx, &key, limit)?,
        }
        tx.keep();
        let mut quotas = writer.quotas.write();
        let quota = &mut quotas[kind as usize];
        match of_objects {
            true => quota.objects_default = limit,
            false => quota.space_default = limit,
        }
        Ok(())
    }
}
