//! The space that destroying snapshots would free, without reading a block (format/3a 4 and 5).
//!
//! Snapshots that refer to a block are adjacent on the chain: from the first after its birth to the
//! last before its death. The block is in the deadlist of whatever comes after that last one. So a
//! set of snapshots consists of runs without a gap. Each run frees the blocks that died within it
//! and were born after the snapshot before it, and the sum over the runs is exact:
//!
//! ```text
//! chain        a --- B --- C --- d --- E --- head       B, C and E are to go
//! run B C      deadlists of C and d, entries born after a
//! run E        deadlist of the head, entries born after d
//! ```
//!
//! A snapshot adds the same amount whether later ones are destroyed with it or not, so one pass
//! gives the results for all sets of the oldest snapshots. Snapshots with clones or holds stay, and
//! so divide runs. Blocks shared by other means than snapshots (deduplication, cloned files) are
//! counted once for each reference, as everywhere in the accounting.

use crate::dataset::{Dataset, SnapshotEntry};
use crate::deadlist::Deadlist;
use crate::error::DslError;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::dsl_dataset::DslDataset;

/// What keeps a snapshot from being destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptBy {
    /// It has user holds.
    Holds,
    /// Datasets began as it.
    Clones,
    /// It is the system's own.
    System,
}

/// A snapshot, and what goes with it.
#[derive(Clone, Debug)]
pub struct Reclaimed {
    /// Its name and object.
    pub entry: SnapshotEntry,
    /// Its stored fields.
    pub phys: DslDataset,
    /// Bytes that are given back if it is destroyed together with the chosen ones before it, in
    /// addition to what those give back.
    pub freed: u64,
    /// Why it stays.
    pub kept_by: Option<KeptBy>,
}

impl Dataset {
    /// The snapshots of a head that are chosen by name, the oldest first, with what each gives
    /// back.
    ///
    /// `None` in pools before version 26, whose deadlists cannot be divided.
    ///
    /// # Errors
    /// If a snapshot or a deadlist cannot be read, or the chain is not one.
    pub fn reclaimed_by(
        &self,
        mut chosen: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Vec<Reclaimed>>, DslError> {
        let chain = self.chain()?;
        let mut all = Vec::new();
        // The snapshot before the run that the previous one belongs to.
        let mut run: Option<Txg> = None;
        for (at, (entry, phys)) in chain.iter().enumerate() {
            let next = chain.get(at + 1).map_or(self.phys(), |(_, next)| next);
            if next.previous_snapshot != Some(entry.object) {
                let problem = "its snapshots are no chain";
                return Err(DslError::structure(self.id(), problem));
            }
            let is_chosen = chosen(&entry.name);
            let kept_by = match is_chosen {
                true => self.kept_by(entry, phys)?,
                false => None,
            };
            let mut freed = 0;
            if is_chosen && kept_by.is_none() {
                let before = *run.get_or_insert(phys.previous_snapshot_txg);
                match Deadlist::space_born_after(self.dsl(), next.deadlist, before)? {
                    Some(space) => freed = space.used,
                    None => return Ok(None),
                }
            } else {
                run = None;
            }
            if is_chosen {
                let (entry, phys) = (entry.clone(), phys.clone());
                all.push(Reclaimed {
                    entry,
                    phys,
                    freed,
                    kept_by,
                });
            }
        }
        Ok(Some(all))
    }

    /// All snapshots, the oldest first.
    fn chain(&self) -> Result<Vec<(SnapshotEntry, DslDataset)>, DslError> {
        let read = |entry: SnapshotEntry| {
            let (_, phys) = self.dsl().read_dataset(entry.object)?;
            Ok((entry, phys))
        };
        self.snapshots()?.into_iter().map(read).collect()
    }

    fn kept_by(
        &self,
        entry: &SnapshotEntry,
        phys: &DslDataset,
    ) -> Result<Option<KeptBy>, DslError> {
        if crate::name::is_hidden_component(&entry.name) {
            return Ok(Some(KeptBy::System));
        }
        if phys.children > 1 {
            return Ok(Some(KeptBy::Clones));
        }
        let holds = |table: ObjectId| Ok::<_, DslError>(self.dsl().mos().zap(table)?.count());
        let holds = phys.holds.map(holds).transpose()?.unwrap_or(0);
        Ok((holds > 0).then_some(KeptBy::Holds))
    }
}
