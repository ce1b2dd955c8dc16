//! The object directory: object 1 of the pool's metadata, where everything is found.
//!
//! Source: format/1b 4. A ZAP from names to object numbers or small arrays. Which keys there are
//! depends on the pool's version, its features and its history; of all of them only
//! `root_dataset` is needed to read datasets.

use crate::error::DslError;
use cenote_base::ObjectId;
use cenote_dmu::{ObjectSet, Zap};
use cenote_ondisk::brt::DIRECTORY_PREFIX;
use std::sync::Arc;

/// The object directory's number.
pub const OBJECT_DIRECTORY: ObjectId = ObjectId(1);

/// The keys whose value is the number of one object, or a plain number.
pub mod keys {
    #![expect(missing_docs, reason = "format/1b 4 says what each leads to")]
    pub const ROOT_DATASET: &str = "root_dataset";
    pub const CONFIG: &str = "config";
    pub const SYNC_BPLIST: &str = "sync_bplist";
    pub const FREE_BPOBJ: &str = "free_bpobj";
    pub const CREATION_VERSION: &str = "creation_version";
    pub const DEFLATE: &str = "deflate";
    pub const HISTORY: &str = "history";
    pub const FEATURES_FOR_READ: &str = "features_for_read";
    pub const FEATURES_FOR_WRITE: &str = "features_for_write";
    pub const FEATURE_DESCRIPTIONS: &str = "feature_descriptions";
    pub const FEATURE_ENABLED_TXG: &str = "feature_enabled_txg";
    pub const VDEV_ZAP_MAP: &str = "com.delphix:vdev_zap_map";
    pub const POOL_PROPERTIES: &str = "pool_props";
    pub const ERROR_LOG_LAST: &str = "errlog_last";
    pub const ERROR_LOG_SCRUB: &str = "errlog_scrub";
    pub const LAST_SCRUBBED_TXG: &str = "last_scrubbed_txg";
    pub const SPARES: &str = "spares";
    pub const CACHE_DEVICES: &str = "l2cache";
    pub const TEMPORARY_HOLDS: &str = "tmp_userrefs";
    pub const EMPTY_BPOBJ: &str = "empty_bpobj";
    pub const BPTREE: &str = "bptree_obj";
    pub const DELETED_CLONES: &str = "com.delphix:deleted_clones";
    pub const LOG_SPACE_MAPS: &str = "com.delphix:log_spacemap_zap";
    pub const OBSOLETE_BPOBJ: &str = "com.delphix:obsolete_bpobj";
    pub const DEDUP_STATISTICS: &str = "DDT-statistics";

    pub const CHECKSUM_SALT: &str = "org.illumos:checksum_salt";
    pub const SCAN: &str = "scan";
    pub const ERROR_SCRUB: &str = "error_scrub";
    pub const REMOVING: &str = "com.delphix:removing";
    pub const CONDENSING: &str = "com.delphix:condensing_indirect";
    pub const CHECKPOINT: &str = "com.delphix:zpool_checkpoint";
}

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

    /// The ZAP itself, for those who list it.
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
