//! Changing the error log (format/1b 7).

use super::metadata::number_key;
use crate::error::DslError;
use crate::error_log::ErrorEntry;
use crate::object_directory::keys;
use crate::write::context::SyncContext;
use cenote_base::{ObjectId, ObjsetId};
use cenote_dmu::DmuError;
use cenote_dmu::zap::ZapValue;
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::dsl_dir::DslDir;
use cenote_ondisk::{ObjectType, features};
use std::collections::BTreeSet;

/// Which of the two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorLog {
    /// Errors of normal operation and of the last complete scrub.
    Last,
    /// Errors of the scrub that is under way.
    Scrub,
}

impl ErrorLog {
    fn key(self) -> &'static str {
        match self {
            Self::Last => keys::ERROR_LOG_LAST,
            Self::Scrub => keys::ERROR_LOG_SCRUB,
        }
    }
}

/// The names that are noted with an entry: none.
const NO_NAMES: &[u8] = &[0];

impl SyncContext<'_> {
    fn by_head(&self) -> bool {
        self.dsl.features().is_active(features::HEAD_ERRLOG)
    }

    /// Adds damaged blocks to a log. Each entry's `objset` is the dataset or snapshot in which
    /// the block was met.
    pub fn add_errors(
        &self,
        log: ErrorLog,
        entries: &BTreeSet<ErrorEntry>,
    ) -> Result<(), DslError> {
        if entries.is_empty() {
            return Ok(());
        }
        let table = match self.dsl.object_directory().object(log.key())? {
            Some(table) => table,
            None => {
                let table = self.create_table(ObjectType::ERROR_LOG)?;
                self.set_directory_number(log.key(), table.0)?;
                table
            }
        };
        for entry in entries {
            match self.by_head() {
                true => self.add_by_head(table, entry)?,
                false => {
                    let (objset, object) = (entry.objset.0, entry.object.0);
                    let (level, block) = (entry.level, entry.block);
                    let key = format!("{objset:x}:{object:x}:{level:x}:{block:x}");
                    self.add_key(table, &key)?;
                }
            }
        }
        Ok(())
    }

    fn add_key(&self, table: ObjectId, key: &str) -> Result<(), DslError> {
        let zap = self.mos().zap(table)?;
        let value = ZapValue::from_bytes(NO_NAMES);
        Ok(zap.update(self.tx, key.as_bytes(), &value)?)
    }

    fn add_by_head(&self, log: ObjectId, entry: &ErrorEntry) -> Result<(), DslError> {
        // What is destroyed meanwhile has no errors any more.
        let Some(head) = self.head_of(entry.objset)? else {
            return Ok(());
        };
        let known = self.mos().zap(log)?.lookup(&number_key(head.0))?;
        let table = match known.and_then(|value| value.as_u64()) {
            Some(table) => ObjectId(table),
            None => {
                let table = self.create_table(ObjectType::ERROR_LOG)?;
                self.set_number(log, &number_key(head.0), table.0)?;
                table
            }
        };
        let birth = entry.birth.unwrap_or_default().0;
        let (object, level, block) = (entry.object.0, entry.level, entry.block);
        let key = format!("{object:x}:{level:x}:{block:x}:{birth:x}");
        self.add_key(table, &key)
    }

    /// The head of the family that a dataset or snapshot is of.
    fn head_of(&self, objset: ObjsetId) -> Result<Option<ObjectId>, DslError> {
        if objset == ObjsetId::MOS {
            return Ok(Some(ObjectId(0)));
        }
        let object = match self.mos().object(ObjectId(objset.0)) {
            Ok(object) => object,
            Err(DmuError::NoSuchObject { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if object.dnode().bonus_type != ObjectType::DSL_DATASET {
            return Ok(None);
        }
        let id = object.id();
        let dataset = DslDataset::decode(&object.dnode().bonus);
        let dataset = dataset.map_err(|source| DslError::decode(id, source))?;
        let directory = self.mos().object(dataset.directory)?;
        let directory = DslDir::decode(&directory.dnode().bonus);
        let directory = directory.map_err(|source| DslError::decode(dataset.directory, source))?;
        Ok(directory.head_dataset)
    }

    /// Forgets all entries of a log.
    pub fn clear_errors(&self, log: ErrorLog) -> Result<(), DslError> {
        let Some(table) = self.dsl.object_directory().object(log.key())? else {
            return Ok(());
        };
        if self.by_head() {
            let mut tables = Vec::new();
            for entry in self.mos().zap(table)?.entries() {
                tables.extend(entry?.value.as_u64().map(ObjectId));
            }
            for table in tables {
                self.destroy_object(table)?;
            }
        }
        self.destroy_object(table)?;
        self.set_directory_number(log.key(), 0)
    }

    /// Takes blocks off both logs that are damaged no more, as [`crate::Dsl::error_log`] has them.
    pub fn remove_errors(&self, entries: &BTreeSet<ErrorEntry>) -> Result<(), DslError> {
        for log in [ErrorLog::Last, ErrorLog::Scrub] {
            let Some(table) = self.dsl.object_directory().object(log.key())? else {
                continue;
            };
            for entry in entries {
                let (object, level, block) = (entry.object.0, entry.level, entry.block);
                if !self.by_head() {
                    let objset = entry.objset.0;
                    let key = format!("{objset:x}:{object:x}:{level:x}:{block:x}");
                    self.remove_entry(table, key.as_bytes())?;
                    continue;
                }
                let own = self.mos().zap(table)?.lookup(&number_key(entry.objset.0))?;
                if let Some(own) = own.and_then(|value| value.as_u64()) {
                    let birth = entry.birth.unwrap_or_default().0;
                    let key = format!("{object:x}:{level:x}:{block:x}:{birth:x}");
                    self.remove_entry(ObjectId(own), key.as_bytes())?;
                }
            }
        }
        Ok(())
    }

    /// A scrub is complete: what it found takes the place of what was known before.
    pub fn rotate_errors(&self) -> Result<(), DslError> {
        self.clear_errors(ErrorLog::Last)?;
        let found = self.dsl.object_directory().object(ErrorLog::Scrub.key())?;
        if let Some(found) = found {
            self.set_directory_number(ErrorLog::Last.key(), found.0)?;
            self.set_directory_number(ErrorLog::Scrub.key(), 0)?;
        }
        Ok(())
    }
}
