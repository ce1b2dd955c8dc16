//! A file system's master node: the ZAP in which everything of it begins.
//!
//! Source: format/3b 1 and 2.

use cenote_base::ObjectId;

/// The master node's number, in every file system.
pub const MASTER_NODE: ObjectId = ObjectId(1);

/// Names of its entries; quotas have further ones.
#[expect(missing_docs, reason = "format/3b 1 says what each is")]
pub mod keys {
    pub const VERSION: &str = "VERSION";
    pub const ROOT: &str = "ROOT";
    pub const DELETE_QUEUE: &str = "DELETE_QUEUE";
    pub const SA_MASTER_NODE: &str = "SA_ATTRS";
    pub const FUID_TABLE: &str = "FUID";
    pub const SHARES: &str = "SHARES";
    pub const NORMALIZATION: &str = "normalization";
    pub const UTF8_ONLY: &str = "utf8only";
    pub const CASE_SENSITIVITY: &str = "casesensitivity";
}

/// Names of the entries of the master node of system attributes.
#[expect(missing_docs, reason = "format/3b 2 says what each is")]
pub mod attribute_keys {
    pub const REGISTRY: &str = "REGISTRY";
    pub const LAYOUTS: &str = "LAYOUTS";
}
