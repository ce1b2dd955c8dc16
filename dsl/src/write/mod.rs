//! Changing datasets.
//!
//! A head that is open for writing ([`Head`]) gets its changes by transactions on its object set.
//! When a transaction group is written, the head writes its blocks and accounts what was born and
//! what died; then the queued [`SyncTask`]s change the tree of datasets itself. Both happen in
//! syncing context, one after the other, so nothing here needs locks against itself.
//!
//! # How deadlists move
//!
//! A dataset's deadlist has the blocks that the previous snapshot refers to and the dataset does
//! not. It is divided by the blocks' births at the creations of the snapshots before that one, so
//! each part has the blocks that certain snapshots share. Here is a file system with snapshots made
//! in the txgs 10, 20 and 30. A block is written as its birth; `(10 20]` is the entry with the key
//! 10.
//!
//! ```text
//!                s10            s20                  s30                    head
//! deadlist       -              (0 10] 4 7           (0 10] 9  (10 20] 15   (0 10] 2 (10 20] -
//!                                                                           (20 30] 22 25
//! ```
//!
//! A new snapshot at 40 takes over the head's deadlist, and the head gets an empty one with one
//! more key, 30. That is all: no block moves.
//!
//! ```text
//!                s30                    s40                                 head
//! deadlist       (0 10] 9  (10 20] 15   (0 10] 2 (10 20] - (20 30] 22 25    (0 10] (10 20] (20 30]
//!                                                                           (30 40] all empty
//! ```
//!
//! When s20 is destroyed (in the first drawing), the blocks that it alone holds were born after 10,
//! since s10 has nothing younger, and are dead in s30: the entries of s30's deadlist from the key
//! 10 on. These entries move as a whole to the pool's list of blocks to free. Then the rest of the
//! two lists is merged, and the head's deadlist is not divided at 20 any more.
//!
//! ```text
//!                s10                    s30                                 head
//! deadlist       -                      (0 10] 4 7 9      15 is freed       (0 10] 2
//!                                                                           (10 30] 22 25
//! ```
//!
//! The entries are lists of block pointers that can be joined by number (`block_list`), so all of
//! this takes the same time for any number of blocks. A snapshot's unique space is a sum over a few
//! entries. Older snapshots may keep keys of destroyed snapshots: no new entries use them, and all
//! queries are sums between keys of existing snapshots.
//!
//! A clone's deadlists have the keys of the snapshots that its origin came after, too. When it is
//! promoted, snapshots change their directory, and their deadlists come with them unchanged.
//!
//! Concurrent readers see each structure in a consistent state, but not all of them as of one
//! instant. Those that need one must reopen their handles after the transaction group.

mod blocks;
mod context;
mod datasets;
mod ending_logs;
mod head;
mod head_policy;
mod heads;
mod in_use;
mod keys;
mod log;
mod open_head;
mod policy;
mod pool;
mod properties;
mod snapshots;
mod streams;

pub use context::{PoolServices, SyncContext, SyncTask};
pub use datasets::clone::CloneDataset;
pub use datasets::create::{CreateDataset, Format};
pub use datasets::delegate::{Delegate, MadeBy};
pub use datasets::destroy::DestroyDataset;
pub use datasets::promote::PromoteDataset;
pub use datasets::rename::RenameDataset;
pub use heads::KeptHead;
pub use in_use::Heads;
pub use keys::encryption::{ChangeKey, Encryption, KeyPlan, NewKeyFormat, UserKey};
pub use keys::received::{InheritKey, KeyOwner};
pub use open_head::Head;
pub use policy::{Functions, HeadPolicy, RedundantMetadata};
pub use pool::error_log::ErrorLog;
pub use pool::new_pool::{EnableFeatures, NewMetadata, create_metadata};
pub use pool::pool_properties::SetPoolProperty;
pub use properties::{RevertProperty, SetProperties, Setting, feature_needed};
pub use snapshots::bookmark_task::{CreateBookmarks, DestroyBookmarks};
pub use snapshots::destroy_snapshot::DestroySnapshots;
pub use snapshots::hold::{EndTemporaryHolds, HoldSnapshots, ReleaseSnapshots};
pub use snapshots::rename_snapshot::RenameSnapshots;
pub use snapshots::rollback::RollbackDataset;
pub use snapshots::snapshot::CreateSnapshots;
pub use streams::postponed::{Postponed, RECEIVE_CHILD};
pub use streams::receive::{BeginReceive, ReceiveInto, raw_header};
pub use streams::receive_end::{EndReceive, is_modified_since};
pub use streams::receive_properties::SetReceived;
pub use streams::resume_point::ResumePoint;
