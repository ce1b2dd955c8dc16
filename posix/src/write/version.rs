//! Raising a file system's version (format/3b 1).
//!
//! Files keep the form that they have: those of before version 5 stay legacy znodes, which every
//! later version reads.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::master::{MASTER_NODE, VERSION_SYSTEM_ATTRIBUTES};
use cenote_base::ObjectId;
use cenote_dmu::zap::NewZap;
use cenote_dmu::{NewObject, Transaction, Zap};
use cenote_ondisk::ObjectType;

impl FileSystem {
    /// Makes the file system one of `version`, which is at most
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
        let tx = writer.begin_freeing(0)?;
        let master = self.set().zap(MASTER_NODE)?;
        master.update_u64(&tx, "VERSION", version)?;
        let needs_tables = version >= VERSION_SYSTEM_ATTRIBUTES && self.tables().is_none();
        let attributes = match needs_tables {
            true => Some(self.make_attribute_master(&tx, &master)?),
            false => None,
        };
        self.set_upgraded(version, attributes);
        Ok(())
    }

    /// The node of attributes. The tables that it will name come with the first file that needs
    /// them: OpenZFS does not open a file system that has tables with nothing in them.
    fn make_attribute_master(
        &self,
        tx: &Transaction,
        master: &Zap,
    ) -> Result<ObjectId, PosixError> {
        let new = NewObject::new(ObjectType::SA_MASTER_NODE, 512);
        let object = self.set().allocate(tx, new)?;
        Zap::initialize(&object, tx, NewZap::default())?;
        master.insert_u64(tx, "SA_ATTRS", object.id().0)?;
        Ok(object.id())
    }
}
