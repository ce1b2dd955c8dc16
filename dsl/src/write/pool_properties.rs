//! Setting properties of the pool itself (format/3c 6).

use super::context::{SyncContext, SyncTask};
use crate::error::DslError;
use crate::object_directory::keys;
use crate::property::stored::Stored;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::ObjectType;

const POOL_PROPERTIES: ObjectType = ObjectType(31);

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
                let table = context.create_table(POOL_PROPERTIES)?;
                context.set_directory_number(keys::POOL_PROPERTIES, table.0)?;
                table
            }
        };
        let key = self.name.as_bytes();
        match &self.value {
            Stored::Text(text) if text.is_empty() => context.remove_entry(table, key),
            Stored::Text(text) => {
                let zap = context.mos().zap(table)?;
                Ok(zap.update(context.tx, key, &ZapValue::from_text(text))?)
            }
            Stored::Number(number) => context.set_number(table, key, *number),
        }
    }
}
