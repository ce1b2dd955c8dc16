//! Reading blocks and judging them: checksum, MAC, decompression, and on request every copy.

use super::visit::Visit;
use super::walk::Engine;
use cenote_io::{IoError, ObjsetKeys, ReadContext};
use cenote_ondisk::block_pointer::Protection;
use cenote_ondisk::{BlockPointer, ObjectType};
use cenote_vdev::{BatchRead, CopyHealth};
use std::sync::Arc;
use std::time::Duration;

/// What checking one block found.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The contents of a block that leads to others, nothing for data, or what is wrong.
    pub(crate) result: Result<Option<Vec<u8>>, String>,
    /// Copies and parity that are bad though another way led to the data.
    pub(crate) bad_copies: u64,
    /// Only the checksum could be judged.
    pub(crate) without_key: bool,
}

/// Stored bytes that one worker reads at a time.
const GROUP_BYTES: u64 = 4 << 20;
/// Groups between two looks at the watcher.
const GROUPS_PER_ROUND: usize = 16;
/// How long a group waits for the buffers of others: far longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// Cuts sorted visits into groups for workers, and those into rounds.
pub(crate) fn rounds(visits: Vec<Visit>) -> Vec<Vec<Vec<Visit>>> {
    let mut groups: Vec<Vec<Visit>> = Vec::new();
    let mut bytes = GROUP_BYTES;
    for visit in visits {
        let size = visit.pointer.physical_size();
        if bytes + size > GROUP_BYTES {
            groups.push(Vec::new());
            bytes = 0;
        }
        bytes += size;
        groups
            .last_mut()
            .expect("pushed when the first visit came")
            .push(visit);
    }
    let mut rounds = Vec::new();
    while !groups.is_empty() {
        let rest = groups.split_off(groups.len().min(GROUPS_PER_ROUND));
        rounds.push(std::mem::replace(&mut groups, rest));
    }
    rounds
}

/// Checks data blocks that lie close together.
pub(crate) fn check_group(
    engine: &Engine,
    group: &[Visit],
    keys: &[Option<Arc<ObjsetKeys>>],
) -> Vec<Checked> {
    assert_eq!(group.len(), keys.len());
    if engine.options.all_copies {
        let each = group.iter().zip(keys);
        return each
            .map(|(visit, keys)| check(engine, visit, keys.as_deref(), false))
            .collect();
    }
    let plain: Vec<usize> = (0..group.len())
        .filter(|i| !group[*i].pointer.is_embedded() && !group[*i].pointer.is_gang())
        .collect();
    // Decoding leases from the pipeline's budget; these buffers have one of their own, so that
    // nobody waits for memory while holding what others wait for.
    let bytes: u64 = plain
        .iter()
        .map(|i| group[*i].pointer.physical_size())
        .sum();
    let bytes = bytes.min(engine.buffers.limit());
    let Ok(_lease) = engine.buffers.lease_patiently(bytes, PATIENCE) else {
        let each = group.iter().zip(keys);
        return each
            .map(|(visit, keys)| check(engine, visit, keys.as_deref(), false))
            .collect();
    };
    let reads: Vec<BatchRead> = plain
        .iter()
        .map(|i| batch_read(&group[*i].pointer))
        .collect();
    let mut stored: Vec<Option<Vec<u8>>> = group.iter().map(|_| None).collect();
    for (index, bytes) in plain
        .into_iter()
        .zip(engine.pipeline.vdevs().read_batch(&reads))
    {
        stored[index] = bytes;
    }
    let each = group.iter().zip(keys).zip(stored);
    each.map(|((visit, keys), stored)| {
        let keys = keys.as_deref();
        match stored {
            Some(stored) if good(engine, visit, &stored) => {
                decode(engine, visit, &stored, keys, false, 0)
            }
            // Slow and sure: all redundancy, and the bad copies counted on their vdevs.
            _ => check(engine, visit, keys, false),
        }
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
pub(crate) fn check(
    engine: &Engine,
    visit: &Visit,
    keys: Option<&ObjsetKeys>,
    wanted: bool,
) -> Checked {
    let bad_copies = match engine.options.all_copies {
        true => count_bad_copies(engine, visit),
        false => 0,
    };
    match engine.pipeline.read_stored(&visit.pointer, visit.bookmark) {
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

/// Judges every copy of a block and all parity below.
fn count_bad_copies(engine: &Engine, visit: &Visit) -> u64 {
    let pointer = &visit.pointer;
    if pointer.is_embedded() || pointer.is_gang() {
        return 0;
    }
    let read = batch_read(pointer);
    let verify = |data: &[u8]| good(engine, visit, data);
    let vdevs = engine.pipeline.vdevs();
    let bad = |health| matches!(health, CopyHealth::Unreadable | CopyHealth::Wrong);
    let judge = |dva| match vdevs.check_copies(dva, read.size, read.birth, &verify) {
        Ok(report) => report
            .verdicts
            .iter()
            .filter(|verdict| bad(verdict.health))
            .count() as u64,
        Err(_) => 1,
    };
    pointer.dvas().map(judge).sum()
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
        Ok(contents) if wanted => Ok(Some(contents.unwrap_or_else(|| stored.to_vec()))),
        Ok(_) => Ok(None),
        Err(error) => Err(problem(error)),
    };
    Checked {
        result,
        bad_copies,
        without_key,
    }
}
