//! Writing the blocks of dnodes.

use super::batch::Batch;
use super::job::Job;
use super::{Outcome, Writer, commit};
use crate::error::DmuError;
use crate::object_set::slots_of;
use cenote_base::{BlockId, ObjectId};
use cenote_cache::BlockBuffer;
use cenote_io::{Form, StoredForm};
use cenote_ondisk::block_pointer::BLOCK_POINTER_SIZE;
use cenote_ondisk::dnode::{DNODE_CORE_SIZE, DNODE_SIZE};
use cenote_ondisk::{CompressionKind, Dnode, Objset};
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
        self.take_raw_header(&mut new);
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
            let form = self.put_raw_areas(&mut contents, block * per_block);
            let fill = dnodes_in(&contents);
            batch.add_stored(&mut jobs, (0, 0, block), Arc::new(contents), (fill, form))?;
        }
        self.write_untouched(&mut jobs, &mut batch, (outcomes, per_block))?;
        batch.flush(&mut jobs)?;
        if let Some(raw) = self.live.raw.get() {
            raw.lock().forget(self.txg);
        }
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

/// Object sets that are received as they are stored elsewhere.
impl Writer<'_> {
    /// Gives the meta-dnode what the MAC runs over that came with the stream.
    fn take_raw_header(&self, meta: &mut Dnode) {
        if let Some(raw) = self.live.raw.get() {
            let header = raw.lock().header;
            (meta.checksum, meta.compression) = (header.checksum, header.compression);
            meta.levels = meta.levels.max(header.levels);
            meta.block_id_max = meta.block_id_max.max(header.block_id_max);
        }
    }

    /// Puts bonus areas as they arrived into a block of dnodes; returns how it is protected.
    ///
    /// A correct sender describes every block. One without a description is written with a MAC that
    /// does not match, which a system with the key will notice.
    fn put_raw_areas(&self, contents: &mut [u8], first: u64) -> Option<Form> {
        let raw = self.live.raw.get()?.lock();
        let mut at = 0;
        while at < contents.len() {
            let slots = slots_of(&contents[at..]);
            let id = ObjectId(first + (at / DNODE_SIZE) as u64);
            let end = (at + slots * DNODE_SIZE).min(contents.len());
            let pointers = usize::from(contents[at + 3]).min(3);
            let start = at + DNODE_CORE_SIZE + pointers * BLOCK_POINTER_SIZE;
            if let Some(area) = raw.area(id).filter(|_| contents[at] != 0) {
                let length = area.len().min(end.saturating_sub(start));
                contents[start..start + length].copy_from_slice(&area[..length]);
            }
            at = end;
        }
        Some(Form::Stored(StoredForm {
            logical_size: contents.len() as u64,
            compression: CompressionKind::Off.number(),
            ..raw.form(first).unwrap_or_default()
        }))
    }

    /// Writes the blocks of dnodes that arrived with a new MAC but without changed dnodes.
    fn write_untouched(
        &self,
        jobs: &mut [Job; 1],
        batch: &mut Batch<'_, '_>,
        (outcomes, per_block): (&[Outcome], u64),
    ) -> Result<(), DmuError> {
        let Some(raw) = self.live.raw.get() else {
            return Ok(());
        };
        // The lock is taken again for each of them.
        let due = raw.lock().due(self.txg);
        for first in due {
            let block = first / per_block;
            if outcomes
                .iter()
                .any(|outcome| outcome.live.id.0 / per_block == block)
            {
                continue;
            }
            let Some(old) = jobs[0].base.block(BlockId(block))? else {
                continue;
            };
            let mut contents = BlockBuffer::clone(&old);
            let form = self.put_raw_areas(&mut contents, first);
            let fill = dnodes_in(&contents);
            batch.add_stored(jobs, (0, 0, block), Arc::new(contents), (fill, form))?;
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
