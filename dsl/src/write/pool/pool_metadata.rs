//! What the sync of the pool's own metadata asks of the dataset layer.

use crate::deadlist::SpaceTriple;
use crate::error::DslError;
use crate::object_directory::keys;
use crate::write::blocks::accounting::{Part, SpaceChange};
use crate::write::context::SyncContext;
use cenote_ondisk::BlockPointer;

/// Deferred frees taken from their list at a time.
const DEFERRED_BATCH: usize = 4096;

impl SyncContext<'_> {
    /// Counts blocks of the meta object set that were born or died, in `$MOS` and above. Returns
    /// whether that changed anything, and with it the meta object set.
    ///
    /// # Errors
    /// If the directories cannot be read.
    pub fn account_metadata(
        &self,
        born: &[BlockPointer],
        died: &[BlockPointer],
    ) -> Result<bool, DslError> {
        let sum = |blocks: &[BlockPointer]| {
            let spaces = blocks.iter().map(|block| self.dsl.space_of_block(block));
            SpaceChange::from(spaces.fold(SpaceTriple::default(), SpaceTriple::plus))
        };
        // All sizes of the metadata of a pool are those that it has compressed.
        let change = sum(born).plus(sum(died).negated());
        if change == SpaceChange::default() {
            return Ok(false);
        }
        let directory = self.hidden_directory("$MOS")?;
        self.use_space(directory, Part::Head, change)?;
        Ok(true)
    }

    /// Puts blocks on the list of those that the next transaction group frees.
    ///
    /// # Errors
    /// If there is no such list or it cannot be changed.
    pub fn defer_frees(&self, blocks: &[BlockPointer]) -> Result<(), DslError> {
        let key = keys::SYNC_BPLIST;
        let list = self.dsl.object_directory().object(key)?;
        let list = list.ok_or(DslError::MissingEntry { key })?;
        self.append_blocks(list, blocks, false).map(|_| ())
    }

    /// Takes some blocks from the list of those whose freeing the transaction group before
    /// deferred; empty when there are no more.
    ///
    /// # Errors
    /// If the list cannot be read or changed.
    pub fn take_deferred_frees(&self) -> Result<Vec<BlockPointer>, DslError> {
        match self.dsl.object_directory().object(keys::SYNC_BPLIST)? {
            Some(list) => self.take_blocks(list, DEFERRED_BATCH),
            None => Ok(Vec::new()),
        }
    }
}
