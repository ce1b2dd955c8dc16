//! The dataset and snapshot layer: from a pool's metadata to named datasets.
//!
//! A pool's datasets hang in a tree of *directories*, which carry limits, properties and space
//! accounting. A directory has a *head* dataset, which has snapshots; a clone is a directory
//! whose head began as another's snapshot. Here names become datasets, datasets become object
//! sets (with their keys, if they are encrypted), and all that is stored about them is read:
//! properties with their inheritance, bookmarks, holds, deadlists, histories, error logs.
//!
//! Nothing recurses over what the disk says: chains and nestings have bounds, and a structure
//! that contradicts another is refused with its object number. What file systems and volumes
//! contain belongs to the layers above.

#![forbid(unsafe_code)]

mod bookmarks;
mod check;
mod crypto_key;
mod dataset;
mod deadlist;
mod dedup;
mod dedup_log;
mod directory;
mod dsl;
mod error;
mod error_log;
mod facts;
mod features;
#[cfg(test)]
mod golden_tests;
mod holds;
mod key_material;
mod key_store;
mod keys;
mod moment;
mod name;
mod object_directory;
mod object_sets;
mod objset_cache;
mod once;
mod permissions;
mod pool_state;
pub mod property;
mod reclaim;
pub mod resume_token;
mod sharing;
mod space;
#[cfg(test)]
mod testing;
mod walk;
pub mod write;

pub use bookmarks::Bookmark;
pub use cenote_ledger::{Answer, Limit, PoolRoom, Request, Rooms};
pub use cenote_ondisk::features::{FEATURE_VERSION, OLD_VERSIONS};
pub use check::{CheckProblem, check};
pub use crypto_key::CryptoKey;
pub use dataset::{Dataset, DatasetType, SnapshotEntry};
pub use deadlist::{Deadlist, DeadlistEntry, SpaceTriple};
pub use dedup::{
    CloneTotals, clone_totals, dedup_histograms, dedup_ratio, dedup_saved, dedup_table_size,
    dedup_totals, lost_dedup_figures,
};
pub use dedup_log::{entry_figures, waiting_entries};
pub use directory::{ChildEntry, Directory};
pub use dsl::Dsl;
pub use error::DslError;
pub use error_log::{ErrorEntry, pointer_in};
pub use facts::{BLOCK_SIZES, DeflateRatios, PoolFacts, SpaceFacts};
pub use features::{EnabledFeature, FeatureTable, Features};
pub use holds::Hold;
pub use key_material::{KeyFormat, KeyMaterialError};
pub use key_store::KeyStore;
pub use keys::KeyStatus;
pub use moment::Change;
pub use name::{DatasetName, NAME_LENGTH_MAX, NESTING_MAX, NameError, NameKind, check_pool_name};
pub use object_directory::{ObjectDirectory, keys as directory_keys};
pub use pool_state::{ActivityState, Expansion, Rebuild};
pub use property::stored::Stored;
pub use property::{Property, PropertyReport, PropertySource, PropertyValue};
pub use reclaim::{KeptBy, Reclaimed};
pub use resume_token::receive_resume_token;
pub use sharing::DedupFigures;
pub use space::slop;
