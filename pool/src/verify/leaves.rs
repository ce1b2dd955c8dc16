//! Reading blocks and judging them: checksum, MAC, decompression, and on request every copy.

use super::report::VerifyOptions;
use crate::pool::Pool;
use cenote_base::{MemoryBudget, MemoryLease};
use cenote_device::BlockBuffer;
use cenote_dmu::Block;
use cenote_dmu::traverse::{Reader, Root, Visit};
use cenote_io::{IoContext, IoError, ObjsetKeys, Pipeline, ReadContext};
use cenote_ondisk::block_pointer::Protection;
use cenote_ondisk::{BlockPointer, ObjectType};
use cenote_vdev::{BatchRead, CopyHealth};
use std::sync::Arc;
use std::time::Duration;

/// What checking one block found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The contents of a block that leads to others, nothing for data, or what is wrong.
    pub(crate) result: Result<Option<Block>, String>,
    /// Copies and parity that are bad though another way led to the data.
    pub(crate) bad_copies: u64,
    /// Only the checksum could be judged.
    pub(crate) without_key: bool,
}

/// Memory for comparing a block's columns and parity, in multiples of its size: the columns, the
/// block assembled from them, and the recomputed parity.
const COPIES_IN_MEMORY: u64 = 4;
/// How long a group waits for the buffers of others: far longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What reads and decodes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pipeline: Arc<Pipeline>,
    /// What the stored bytes of groups that are being checked may take.
    buffers: Arc<MemoryBudget>,
    options: VerifyOptions,
}

impl Engine {
    /// An engine over `pool`'s pipeline.
    pub(crate) fn new(pool: &Pool, options: VerifyOptions) -> Self {
        Self {
            pipeline: Arc::clone(pool.cache().pipeline()),
            buffers: Arc::clone(&pool.options().buffers.scans),
            options,
        }
    }

    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Memory for what is read here; see [`lease`].
    fn lease(&self, bytes: u64) -> Option<MemoryLease> {
        lease(&self.buffers, bytes)
    }
}

/// As many bytes of `buffers` as are wanted, or all of them: then a block that is larger than
/// the budget is at least the only one.
///
/// Decoding leases from the pipeline's budget. This is a separate one, so that a thread does not
/// wait for memory while holding memory that others wait for.
fn lease(buffers: &Arc<MemoryBudget>, bytes: u64) -> Option<MemoryLease> {
    let bytes = bytes.min(buffers.limit());
    buffers.lease_patiently(bytes, PATIENCE).ok()
}

impl Reader for Engine {
    type Found = Checked;

    fn read(&self, visit: &Visit, root: &Root) -> Checked {
        let is_wanted = true;
        check(self, visit, root.keys.as_deref(), is_wanted)
    }

    fn read_group(&self, group: &[Visit], roots: &[Root]) -> Vec<Checked> {
        let keys_of = |visit: &Visit| roots[visit.root].keys.as_deref();
        let mut checked: Vec<Option<Checked>> = match self.options.all_copies {
            true => group.iter().map(|_| None).collect(),
            false => check_at_once(self, group, &keys_of),
        };
        for (visit, checked) in group.iter().zip(&mut checked) {
            // Slow and sure: all redundancy, and the bad copies counted on their vdevs.
            checked.get_or_insert_with(|| check(self, visit, keys_of(visit), false));
        }
        checked.into_iter().flatten().collect()
    }
}

/// Reads a group in as few requests as possible; `None` for blocks that could not be read this way.
fn check_at_once<'a>(
    engine: &Engine,
    group: &[Visit],
    keys_of: &dyn Fn(&Visit) -> Option<&'a ObjsetKeys>,
) -> Vec<Option<Checked>> {
    let plain: Vec<usize> = (0..group.len())
        .filter(|i| !group[*i].pointer.is_embedded() && !group[*i].pointer.is_gang())
        .collect();
    let sizes = plain.iter().map(|i| group[*i].pointer.physical_size());
    let Some(_lease) = engine.lease(sizes.sum()) else {
        return group.iter().map(|_| None).collect();
    };
    let reads: Vec<BatchRead> = plain
        .iter()
        .map(|i| batch_read(&group[*i].pointer))
        .collect();
    let mut stored: Vec<Option<BlockBuffer>> = group.iter().map(|_| None).collect();
    for (index, bytes) in plain.into_iter().zip(
        engine
            .pipeline
            .vdevs()
            .read_batch(&reads, &IoContext::VERIFICATION),
    ) {
        stored[index] = bytes;
    }
    let each = group.iter().zip(stored);
    each.map(|(visit, stored)| {
        let stored = stored.filter(|stored| good(engine, visit, stored))?;
        Some(decode(engine, visit, &stored, keys_of(visit), false, 0))
    })
    .collect()
}

fn batch_read(pointer: &BlockPointer) -> BatchRead {
    let size = usize::try_from(pointer.physical_size()).expect("checked to be at most 16 MiB");
    BatchRead {
        dva: pointer.dva(0),
        size,
        birth: pointer.physical_birth(),
    }
}

fn good(engine: &Engine, visit: &Visit, stored: &[u8]) -> bool {
    matches!(
        engine
            .pipeline
            .verify(&visit.pointer, stored, visit.bookmark),
        Ok(true)
    )
}

/// Checks one block by all means; returns its contents if `wanted`.
fn check(engine: &Engine, visit: &Visit, keys: Option<&ObjsetKeys>, wanted: bool) -> Checked {
    // If the lease does not come in time the block is read without: another user is very slow.
    let _lease = engine.lease(
        visit
            .pointer
            .physical_size()
            .saturating_mul(COPIES_IN_MEMORY),
    );
    let (bad_copies, stored) = match engine.options.all_copies {
        true => check_copies(engine, visit),
        false => (0, None),
    };
    let stored = match stored {
        Some(stored) => Ok(stored),
        None => {
            engine
                .pipeline
                .read_stored(&visit.pointer, visit.bookmark, &IoContext::VERIFICATION)
        }
    };
    match stored {
        Ok(stored) => decode(engine, visit, &stored, keys, wanted, bad_copies),
        Err(error) => Checked {
            result: Err(problem(error)),
            bad_copies,
            without_key: false,
        },
    }
}

fn problem(error: IoError) -> String {
    error.to_string()
}

/// Judges every copy of a block and all parity below: how many are bad, and the stored bytes if
/// any copy is good.
fn check_copies(engine: &Engine, visit: &Visit) -> (u64, Option<Vec<u8>>) {
    let pointer = &visit.pointer;
    if pointer.is_embedded() || pointer.is_gang() {
        return (0, None);
    }
    let read = batch_read(pointer);
    let verify = |data: &[u8]| good(engine, visit, data);
    let vdevs = engine.pipeline.vdevs();
    let is_bad = |health| matches!(health, CopyHealth::Unreadable | CopyHealth::Wrong);
    let (mut bad, mut stored) = (0, None);
    for dva in pointer.dvas() {
        match vdevs.check_copies(
            dva,
            read.size,
            read.birth,
            &verify,
            &IoContext::VERIFICATION,
        ) {
            Ok(report) => {
                let verdicts = report.verdicts.iter();
                bad += verdicts.filter(|verdict| is_bad(verdict.health)).count() as u64;
                stored = stored.or(report.data);
            }
            Err(_) => bad += 1,
        }
    }
    (bad, stored)
}

/// Whether nothing but the checksum can be judged without the key.
fn needs_key(pointer: &BlockPointer) -> bool {
    match pointer.protection() {
        Protection::Encrypted | Protection::Authenticated => true,
        Protection::None | Protection::IndirectMac => false,
    }
}

fn decode(
    engine: &Engine,
    visit: &Visit,
    stored: &[u8],
    keys: Option<&ObjsetKeys>,
    wanted: bool,
    bad_copies: u64,
) -> Checked {
    let pointer = &visit.pointer;
    let without_key = keys.is_none() && needs_key(pointer);
    let clear = pointer.object_type() == ObjectType::DNODE || !pointer.has_crypt_parameters();
    if without_key && !clear {
        return Checked {
            result: Ok(None),
            bad_copies,
            without_key,
        };
    }
    let context = ReadContext {
        bookmark: visit.bookmark,
        keys,
    };
    let result = match engine.pipeline.decode(pointer, stored, context) {
        Ok(contents) if wanted => {
            let contents = contents.unwrap_or_else(|| BlockBuffer::copy_of(stored));
            Ok(Some(Arc::new(contents)))
        }
        Ok(_) => Ok(None),
        Err(error) => Err(problem(error)),
    };
    Checked {
        result,
        bad_copies,
        without_key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight workers that each compared the columns of a block of 16 MiB took half a gigabyte,
    /// whatever the limit was.
    #[test]
    fn blocks_beyond_the_budget_are_checked_one_at_a_time() {
        let buffers = MemoryBudget::new(8 << 20);
        let block = COPIES_IN_MEMORY * (16 << 20);
        let first = lease(&buffers, block).expect("no other lease exists");
        assert!(buffers.lease(1).is_err(), "the second one has to wait");
        drop(first);
        let small: Vec<_> = (0..16)
            .map(|_| lease(&buffers, COPIES_IN_MEMORY * (128 << 10)))
            .collect();
        assert!(
            small.iter().all(Option::is_some),
            "together as far as they fit"
        );
    }
}
