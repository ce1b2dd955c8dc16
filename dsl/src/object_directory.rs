//! The object directory: object 1 of the pool's metadata, where everything is found.
//!
//! Of all its entries only `root_dataset` is needed to read datasets.

use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::{IoContext, ObjectSet, Zap};
use cenote_ondisk::brt::DIRECTORY_PREFIX;
use std::sync::Arc;

pub use cenote_ondisk::object_directory::{OBJECT_DIRECTORY, keys};

/// The open object directory.
#[derive(Clone, Debug)]
pub struct ObjectDirectory {
    zap: Zap,
}

impl ObjectDirectory {
    /// Opens the object directory of a pool's metadata.
    pub fn open(mos: &Arc<ObjectSet>) -> Result<Self, DslError> {
        let zap = mos.zap(OBJECT_DIRECTORY)?;
        Ok(Self { zap })
    }

    /// The same directory, read for something else.
    pub(crate) fn for_io(&self, io: &IoContext) -> Self {
        let zap = self.zap.for_io(io);
        Self { zap }
    }

    /// The ZAP itself, for callers that list its entries.
    pub fn zap(&self) -> &Zap {
        &self.zap
    }

    /// A plain number.
    pub fn number(&self, key: &str) -> Result<Option<u64>, DslError> {
        Ok(self.zap.lookup_u64(key)?)
    }

    /// The object that a key names; `None` when it is absent or 0.
    pub fn object(&self, key: &str) -> Result<Option<ObjectId>, DslError> {
        let number = self.number(key)?.filter(|id| *id != 0);
        Ok(number.map(ObjectId))
    }

    /// An array of numbers.
    pub fn words(&self, key: &str) -> Result<Option<Vec<u64>>, DslError> {
        let value = self.zap.lookup(key.as_bytes())?;
        Ok(value.and_then(|value| value.as_u64s()))
    }

    /// The salt of the salted checksums (format/2a 3.4).
    pub fn checksum_salt(&self) -> Result<Option<[u8; 32]>, DslError> {
        let value = self.zap.lookup(keys::CHECKSUM_SALT.as_bytes())?;
        let bytes = value.as_ref().and_then(|value| value.as_bytes());
        Ok(bytes.and_then(|bytes| bytes.try_into().ok()))
    }

    /// The numbers of all top-level vdevs with a block cloning table, with their objects.
    pub fn clone_tables(&self) -> Result<Vec<(u64, ObjectId)>, DslError> {
        let mut tables = Vec::new();
        for entry in self.zap.entries() {
            let entry = entry?;
            let vdev = entry
                .key
                .as_str()
                .and_then(|key| key.strip_prefix(DIRECTORY_PREFIX))
                .and_then(|digits| digits.parse().ok());
            if let (Some(vdev), Some(object)) = (vdev, entry.value.as_u64()) {
                tables.push((vdev, ObjectId(object)));
            }
        }
        tables.sort();
        Ok(tables)
    }
}
