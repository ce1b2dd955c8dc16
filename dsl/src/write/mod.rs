//! Changing datasets.
//!
//! A head that is open for writing ([`Head`]) gets its changes by transactions on its object set.
//! When a transaction group is written, the head writes its blocks and accounts what was born and
//! what died; then the queued [`SyncTask`]s change the tree of datasets itself. Both happen in
//! syncing context, one after the other, so nothing here needs locks against itself.
//!
//! Readers meanwhile see each structure whole, but not all structures of one instant; who needs
//! that opens what it looks at again after the transaction group.

mod accounting;
mod block_list;
mod context;
mod create;
mod dead;
mod destroy;
mod encryption;
mod freeing;
mod head;
mod heads;
mod limits;
mod log;
mod metadata;
mod new_pool;
mod policy;
mod pool_metadata;
mod pool_properties;
mod properties;
mod rename;

pub use context::{PoolServices, SyncContext, SyncTask};
pub use create::{CreateDataset, Format};
pub use destroy::DestroyDataset;
pub use encryption::{ChangeKey, Encryption, KeyPlan, NewKeyFormat, UserKey};
pub use head::Head;
pub use heads::Heads;
pub use new_pool::{EnableFeatures, NewMetadata, create_metadata};
pub use policy::{HeadPolicy, RedundantMetadata};
pub use pool_properties::SetPoolProperty;
pub use properties::{RevertProperty, SetProperties, Setting};
pub use rename::RenameDataset;
