//! User holds: tags that keep a snapshot from being destroyed (format/3a 10).

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_base::ObjectId;

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// The tag.
    pub tag: String,
    /// When it was made, in seconds.
    pub time: u64,
}

impl Dataset {
    /// The holds on a snapshot in order of tag.
    pub fn holds(&self) -> Result<Vec<Hold>, DslError> {
        let Some(object) = self.phys().holds else {
            return Ok(Vec::new());
        };
        let zap = self.dsl().mos().zap(object)?;
        let mut holds = Vec::new();
        for entry in zap.entries() {
            let entry = entry?;
            let tag = String::from_utf8_lossy(entry.key.as_name().unwrap_or_default());
            let time = entry.value.as_u64().unwrap_or(0);
            let tag = tag.into_owned();
            holds.push(Hold { tag, time });
        }
        holds.sort();
        Ok(holds)
    }

    /// How many holds there are (`userrefs`).
    pub fn hold_count(&self) -> Result<u64, DslError> {
        match self.phys().holds {
            Some(object) => Ok(self.dsl().mos().zap(object)?.count()),
            None => Ok(0),
        }
    }
}

impl Dsl {
    /// The holds that are to end with the next import: snapshots' numbers and tags. What is no
    /// number is 0.
    ///
    /// # Errors
    /// If their table cannot be read.
    pub fn temporary_holds(&self) -> Result<Vec<(ObjectId, String)>, DslError> {
        let Some(table) = self.object_directory().object(keys::TEMPORARY_HOLDS)? else {
            return Ok(Vec::new());
        };
        let mut holds = Vec::new();
        for entry in self.mos().zap(table)?.entries() {
            let entry = entry?;
            let key = String::from_utf8_lossy(entry.key.as_name().unwrap_or_default());
            let (id, tag) = key.split_once('-').unwrap_or_default();
            let id = u64::from_str_radix(id, 16).unwrap_or(0);
            holds.push((ObjectId(id), tag.to_owned()));
        }
        Ok(holds)
    }
}
