//! Writing the blocks of dnodes.

use super::batch::Batch;
use super::job::Job;
use super::{Outcome, Writer, commit};
use crate::error::DmuError;
use crate::object_set::slots_of;
use cenote_base::BlockId;
use cenote_cache::BlockBuffer;
use cenote_ondisk::dnode::DNODE_SIZE;
use cenote_ondisk::{Dnode, Objset};
use std::sync::Arc;

impl Writer<'_> {
    /// Writes the dnodes of objects and puts the new meta-dnode into the header.
    pub(super) fn write_dnodes(
        &self,
        header: &mut Objset,
        outcomes: &[Outcome],
    ) -> Result<(), DmuError> {
        let meta = self.set.meta_object();
        let size = meta.dnode().data_block_size;
        let per_block = size / DNODE_SIZE as u64;
        let mut new = meta.dnode().clone();
        // A freed object beyond the end has no dnode there.
        let mut in_use = outcomes.iter().filter(|outcome| outcome.new.is_some());
        if let Some(last) = in_use.next_back() {
            let block = BlockId(last.live.id.0 / per_block);
            new.block_id_max = new.block_id_max.max(block);
        }
        let mut jobs = [Job::new(meta, new)];
        let mut batch = Batch::new(self, &[]);
        let groups =
            outcomes.chunk_by(|one, two| one.live.id.0 / per_block == two.live.id.0 / per_block);
        for group in groups {
            let block = group[0].live.id.0 / per_block;
            let old = jobs[0].base.block(BlockId(block))?;
            if old.is_none() && group.iter().all(|outcome| outcome.new.is_none()) {
                continue;
            }
            let mut contents = match old {
                Some(contents) => BlockBuffer::clone(&contents),
                None => BlockBuffer::zeroed(usize::try_from(size).expect("at most 16 MiB")),
            };
            patch(&mut contents, group, block * per_block);
            let fill = dnodes_in(&contents);
            batch.add(&mut jobs, (0, 0, block), Arc::new(contents), fill)?;
        }
        batch.flush(&mut jobs)?;
        self.write_indirects(&mut jobs)?;
        let [mut job] = jobs;
        job.finish(self);
        header.meta_dnode = job.new;
        for outcome in outcomes {
            commit(&outcome.live, outcome.new.clone(), self.live);
            self.set
                .note_committed(&outcome.live, outcome.new.is_some());
        }
        Ok(())
    }
}

/// Puts new dnodes into a block whose first slot is that of object `first`.
fn patch(contents: &mut [u8], group: &[Outcome], first: u64) {
    let start_of = |outcome: &Outcome| {
        let slot = usize::try_from(outcome.live.id.0 - first).expect("below 2^15");
        slot * DNODE_SIZE
    };
    for outcome in group {
        // All slots of an old dnode: it may have shrunk or gone.
        let slots = outcome.old.as_ref().map_or(0, |old| old.slots());
        let start = start_of(outcome);
        contents[start..start + slots * DNODE_SIZE].fill(0);
    }
    for outcome in group {
        if let Some(new) = &outcome.new {
            let (start, bytes) = (start_of(outcome), Dnode::encode(new));
            contents[start..start + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

/// The allocated dnodes of a block.
fn dnodes_in(contents: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while at < contents.len() {
        count += u64::from(contents[at] != 0);
        at += slots_of(&contents[at..]) * DNODE_SIZE;
    }
    count
}
