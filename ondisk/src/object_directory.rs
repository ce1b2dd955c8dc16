//! The object directory: object 1 of the meta object set, where everything in a pool is found.
//!
//! Source: format/1b 4. A ZAP from names to object numbers or small arrays. Which names there
//! are depends on the pool's version, its features and its history.

use cenote_base::ObjectId;

/// The object directory's number.
pub const OBJECT_DIRECTORY: ObjectId = ObjectId(1);

/// The names whose value is the number of one object, a plain number or an array of them.
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
