//! What changes datasets: sync tasks, and what they are given.
//!
//! Everything the dataset layer stores is in the meta object set, and that changes only while a
//! transaction group is being written ("syncing context"). A [`SyncTask`] is such a change: it is
//! queued, checked and carried out between the writing of the datasets and the writing of the
//! meta object set, and its caller waits until the transaction group is on disk.

use crate::dsl::Dsl;
use crate::error::DslError;
use cenote_base::{Env, Txg};
use cenote_dmu::{ObjectSet, Transaction};
use cenote_io::Writer;
use cenote_ondisk::BlockPointer;
use std::sync::Arc;

/// What the pool does for its datasets while a transaction group is written.
pub trait PoolServices: std::fmt::Debug + Send + Sync {
    /// Gives a block's space back: it can be used again some transaction groups later.
    ///
    /// # Errors
    /// If the block is a gang whose members cannot be read.
    fn free(&self, txg: Txg, pointer: &BlockPointer) -> Result<(), DslError>;

    /// Records one more reference to a cloned block. It only takes a note: no freed block may be
    /// lost until all datasets of the group are written.
    fn share(&self, pointer: &BlockPointer);

    /// What writes blocks.
    fn writer(&self) -> &Writer;

    /// Time and randomness.
    fn env(&self) -> &Arc<dyn Env>;

    /// How often the meta object set was written in this transaction group already.
    fn pass(&self) -> u32;
}

/// Syncing context: the transaction group that is being written.
#[derive(Clone, Copy, Debug)]
pub struct SyncContext<'a> {
    /// The datasets.
    pub dsl: &'a Arc<Dsl>,
    /// The transaction that changes the meta object set.
    pub tx: &'a Transaction,
    /// The pool.
    pub pool: &'a dyn PoolServices,
}

impl SyncContext<'_> {
    /// The transaction group.
    pub fn txg(&self) -> Txg {
        self.tx.txg()
    }

    /// The meta object set.
    pub fn mos(&self) -> &Arc<ObjectSet> {
        self.dsl.mos()
    }

    /// Seconds since the epoch.
    pub fn seconds(&self) -> u64 {
        self.pool.env().wall_clock().as_secs()
    }

    /// A random number that is not 0: for guids.
    pub fn random_guid(&self) -> Result<u64, DslError> {
        let mut bytes = [0; 8];
        loop {
            let filled = self.pool.env().fill_random(&mut bytes);
            filled.map_err(|source| DslError::Randomness { source })?;
            match u64::from_le_bytes(bytes) {
                0 => {}
                guid => return Ok(guid),
            }
        }
    }
}

/// A change of datasets that is carried out in syncing context.
pub trait SyncTask: Send {
    /// Whether the change is possible; nothing is changed. Unless a task says otherwise, it is.
    ///
    /// # Errors
    /// The reason why it is not, which its caller gets.
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let _ = context;
        Ok(())
    }

    /// Carries it out. [`Self::check`] has just passed.
    ///
    /// # Errors
    /// Only if the pool's metadata cannot be read or is damaged; the pool is then suspended.
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError>;
}
