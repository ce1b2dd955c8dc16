//! Raising a file system's version (format/3b 1).
//!
//! Files keep the form that they have: those of before version 5 stay legacy znodes, which every
//! later version reads.

use crate::attributes::AttributeTables;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::{MASTER_NODE, VERSION_SYSTEM_ATTRIBUTES};
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Transaction, Zap};
use cenote_ondisk::ObjectType;
use cenote_ondisk::master_node::keys;
use cenote_ondisk::system_attributes::SaTables;

impl FileSystem {
    /// Upgrades the file system to `version`, which is at most
    /// [`VERSION_MAX`](crate::master::VERSION_MAX).
    ///
    /// # Errors
    ///
    /// [`PosixError::InvalidValue`] if it is of a later version already.
    pub fn upgrade(&self, version: u64) -> Result<(), PosixError> {
        let writer = self.require_writer()?;
        let _held = writer.lock(&[MASTER_NODE]);
        if version < self.version() {
            return Err(PosixError::InvalidValue);
        }
        let tx = self.begin_freeing(0)?;
        self.log_nothing(&tx);
        let master = self.set().zap(MASTER_NODE)?;
        let needs_tables = version >= VERSION_SYSTEM_ATTRIBUTES && self.tables().is_none();
        // Before the version, which promises it.
        let attributes = match needs_tables {
            true => Some(self.attribute_tables(&tx, &master)?),
            false => None,
        };
        master.update_u64(&tx, keys::VERSION, version)?;
        tx.keep();
        self.set_upgraded(version, attributes);
        Ok(())
    }

    /// The node of attributes, made if there is none, with its tables. A new one names none: they
    /// come with the first file that needs them, for OpenZFS does not open a file system that has
    /// tables with nothing in them.
    fn attribute_tables(
        &self,
        tx: &Transaction,
        master: &Zap,
    ) -> Result<(ObjectId, AttributeTables), PosixError> {
        if let Some(id) = master
            .lookup_u64(keys::SA_MASTER_NODE)?
            .filter(|id| *id != 0)
        {
            let id = ObjectId(id);
            return Ok((id, AttributeTables::read(self.set(), id)?));
        }
        let new = NewObject::new(ObjectType::SA_MASTER_NODE, 512);
        let object = self.set().allocate(tx, new)?;
        Zap::initialize(&object, tx, NewZap::default())?;
        master.update_u64(tx, keys::SA_MASTER_NODE, object.id().0)?;
        Ok((object.id(), AttributeTables::new(SaTables::default())))
    }
}
