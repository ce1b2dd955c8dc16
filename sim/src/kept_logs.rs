//! A checkpoint beside intent logs that wait for their replay.
//!
//! A log that was claimed after a crash is a part of the pool's state until it is replayed: it has
//! all data promised by `fsync`. So a checkpoint keeps it, whatever happens to it later.
//!
//! Here files are written and the power fails. The pool is imported without opening its datasets,
//! and gets a checkpoint. Then the logs are replayed and destroyed, and other files fill the free
//! space. The pool is rewound to the checkpoint and must have everything that was promised; or the
//! checkpoint is discarded and must leave nothing behind.

use crate::disks::Disks;
use crate::files::{Writer, found, may_be_left};
use crate::machine::{self, DISK_SIZE, Layout, POOL, actor};
use crate::record::{Bounds, bounds};
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt::{self, Random, World};
use cenote_pool::Pool;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Disks that the pool may get.
const FREE_DISKS: usize = 0;
/// Operations before the cut.
const OPERATIONS: usize = 20;
/// Operations of each writer after the checkpoint, in files that take some space.
const OPERATIONS_AFTER: usize = 40;
/// Groups that are written before a rewind: freed space is used again after three.
const GROUPS: usize = 5;

/// Lives through a seed; whether a log waited when the checkpoint was taken.
///
/// # Errors
/// What was lost.
pub fn keep_logs(seed: u64) -> Result<bool> {
    let world = World::simulated(seed);
    let lived = AssertUnwindSafe(|| world.run(|| live(Random::new(seed))));
    let lived = catch_unwind(lived).unwrap_or_else(|payload| {
        bail!("{}", rt::panic_words(&*payload));
    });
    lived.with_context(|| format!("seed {seed}"))
}

fn live(mut random: Random) -> Result<bool> {
    let layout = Layout::draw(&mut random);
    let count = layout.disks() + FREE_DISKS;
    let disks = Arc::new(Disks::new(count, DISK_SIZE, random.fork()));
    let pool = machine::create(&disks, &layout)?;
    let fs = machine::files(&pool, POOL, layout.settings)?;
    let mut writer = Writer::new(&fs, "w", 0, random.fork())?;
    machine::fsync_all(&fs)?;
    disks.record();
    writer.promise(&disks);
    (0..OPERATIONS).try_for_each(|_| writer.operate(&disks, &fs))?;
    machine::fsync_all(&fs)?;
    writer.promise(&disks);
    let record = disks.take_record();
    drop(fs);
    pool.close()?;
    let keep = [0, 50, 100][random.index(3)];
    let cut = disks.after(&record, record.len(), keep, &mut random);
    let bounds = bounds(&record, record.len(), 1);
    after_cut(&Arc::new(cut), &layout, (&writer, &bounds[0]), &mut random)
}

/// Takes the checkpoint and goes back to it.
fn after_cut(
    disks: &Arc<Disks>,
    layout: &Layout,
    (writer, bounds): (&Writer, &Bounds),
    random: &mut Random,
) -> Result<bool> {
    let pool = machine::open(disks, false)?;
    let root = machine::dataset(&pool, POOL)?;
    let waits = machine::is_log_waiting(&root)?;
    if random.happens(30) {
        // Claimed by one import, kept by the next.
        pool.export()?;
        drop((root, pool));
        return after_cut(disks, layout, (writer, bounds), random);
    }
    drop(root);
    pool.take_checkpoint(&actor(), "zpool checkpoint")?;
    if random.happens(80) {
        overwrite(disks, &pool, layout, random)?;
    }
    let is_exported = random.happens(50);
    match is_exported {
        true => pool.export()?,
        false => pool.close()?,
    }
    drop(pool);
    if random.happens(30) {
        return discarded(disks).map(|()| waits);
    }
    if random.happens(30) {
        let pool = machine::open_at_checkpoint(disks, true)?;
        judge(&pool, layout, writer, bounds).context("read at the checkpoint")?;
    }
    let pool = machine::open_at_checkpoint(disks, false)?;
    ensure!(pool.discarded_logs().is_empty(), "a log is lost");
    if random.happens(30) {
        // The import that went back is the last but one.
        pool.close()?;
        drop(pool);
        let pool = machine::open(disks, false)?;
        judge(&pool, layout, writer, bounds).context("imported again")?;
        pool.export()?;
        return Ok(waits);
    }
    judge(&pool, layout, writer, bounds).context("back at the checkpoint")?;
    pool.export()?;
    Ok(waits)
}

/// Replays the logs, and writes wherever there is space.
fn overwrite(disks: &Arc<Disks>, pool: &Pool, layout: &Layout, random: &mut Random) -> Result<()> {
    let fs = machine::files(pool, POOL, layout.settings)?;
    let mut other = Writer::new(&fs, "later", 1, random.fork())?;
    for group in 0..GROUPS {
        for _ in 0..OPERATIONS_AFTER / GROUPS {
            other.operate(disks, &fs)?;
        }
        rt::trace!("group {group}");
        pool.sync()?;
    }
    fs.dataset()?.end()?;
    Ok(())
}

fn judge(pool: &Pool, layout: &Layout, writer: &Writer, bounds: &Bounds) -> Result<()> {
    let fs = machine::files(pool, POOL, layout.settings)?;
    let found = found(&fs, "w")?;
    let is_right = may_be_left(&writer.states, bounds, &found);
    ensure!(is_right, "promised {bounds:?}; found: {}", found.summary());
    if pool.is_writable() {
        fs.dataset()?.end()?;
        whole(pool)?;
    }
    Ok(())
}

/// Discards the checkpoint, and waits for the end.
fn discarded(disks: &Arc<Disks>) -> Result<()> {
    let pool = machine::open(disks, false)?;
    drop(machine::files(&pool, POOL, Layout::plain().settings)?);
    pool.discard_checkpoint(&actor(), "zpool checkpoint -d")?;
    while pool.is_discarding()? {
        pool.sync()?;
    }
    let kept: u64 = pool.space().values().map(|space| space.checkpoint).sum();
    ensure!(kept == 0, "{kept} bytes are still kept");
    whole(&pool)?;
    Ok(pool.export()?)
}

fn whole(pool: &Pool) -> Result<()> {
    pool.sync()?;
    let report = machine::report(pool)?;
    let is_whole = report.complete && report.problems == 0;
    ensure!(is_whole, "verify found faults: {report:?}");
    Ok(())
}
