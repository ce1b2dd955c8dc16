//! Setting properties of the pool itself (format/3c 6).

use crate::error::DslError;
use crate::object_directory::keys;
use crate::property::stored::Stored;
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::ObjectId;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::ObjectType;

/// The property that names a dataset by its object.
const BOOT_FILE_SYSTEM: &[u8] = b"bootfs";

impl SyncContext<'_> {
    /// A dataset goes: the pool is not booted from it any more.
    pub(crate) fn forget_boot_file_system(&self, dataset: ObjectId) -> Result<(), DslError> {
        let directory = self.dsl.object_directory();
        let Some(table) = directory.object(keys::POOL_PROPERTIES)? else {
            return Ok(());
        };
        let named = self.mos().zap(table)?.lookup(BOOT_FILE_SYSTEM)?;
        match named.and_then(|value| value.as_u64()) {
            Some(named) if named == dataset.0 => self.remove_entry(table, BOOT_FILE_SYSTEM),
            _ => Ok(()),
        }
    }
}

/// Sets a property that is stored in the pool's table.
#[derive(Clone, Debug)]
pub struct SetPoolProperty {
    /// The property.
    pub name: String,
    /// The value; an empty text takes it away.
    pub value: Stored,
}

impl SyncTask for SetPoolProperty {
    fn check(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let table = match context
            .dsl
            .object_directory()
            .object(keys::POOL_PROPERTIES)?
        {
            Some(table) => table,
            None => {
                let table = context.create_table(ObjectType::POOL_PROPERTIES)?;
                context.set_directory_number(keys::POOL_PROPERTIES, table.0)?;
                table
            }
        };
        let is_empty = matches!(&self.value, Stored::Text(text) if text.is_empty());
        let value = Some(&self.value).filter(|_| !is_empty);
        context.set_property(table, &self.name, value)
    }
}

impl SyncContext<'_> {
    /// Sets a property in a table of the pool or of a vdev, or takes it away.
    ///
    /// # Errors
    /// If the table cannot be changed.
    pub fn set_property(
        &self,
        table: ObjectId,
        name: &str,
        value: Option<&Stored>,
    ) -> Result<(), DslError> {
        let key = name.as_bytes();
        match value {
            None => self.remove_entry(table, key),
            Some(Stored::Text(text)) => {
                let zap = self.mos().zap(table)?;
                Ok(zap.update(self.tx, key, &ZapValue::from_text(text))?)
            }
            Some(Stored::Number(number)) => self.set_number(table, key, *number),
        }
    }
}
