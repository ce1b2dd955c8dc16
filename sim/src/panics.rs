//! A thread panics at a random point. All threads that wait for it must end.
//!
//! A pool is created and used. At a point drawn from the seed the running thread panics: one of the
//! pool's own (the syncing thread, a worker, a scan, a rebuild), or one that uses it. A panic is a
//! bug of ours, so anything may be lost that was not promised. But no thread may wait forever: each
//! operation ends, with or without an error. The devices are closed. And the pool can be imported
//! again, with everything that was promised before the panic, whatever the thread was doing.
//!
//! The import is a part of this: the panic may come in the first or the second import.

use crate::disks::Disks;
use crate::files::{Writer, found, may_be_left};
use crate::machine::{self, DISK_SIZE, Layout, POOL};
use crate::record::{Bounds, bounds};
use crate::upkeep::{self, Keeper};
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt::{self, Random, World};
use cenote_pool::Pool;
use cenote_posix::FileSystem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// Disks beside the pool's, which it may get.
const FREE_DISKS: usize = 2;
/// Operations of each writer.
const OPERATIONS: usize = 25;
/// Threads that write.
const WRITERS: usize = 2;
/// Commands on devices.
const COMMANDS: usize = 5;
/// How long closing unused devices may take.
const CLOSING: Duration = Duration::from_secs(60);
/// How long a world may last by its own clock.
const TIME_MAX: Duration = Duration::from_secs(4 * 3600);
/// Most points of threads that may panic before the panic, as a power of two.
const POINTS_BITS: u64 = 15;
/// Imports that may fail because of the panic, and one more.
const IMPORTS: usize = 3;

/// Names of threads that use the pool, and are not the pool's own.
const USERS: [&str; 3] = ["main", "writer", "keeper"];

fn is_pools_own(name: &str) -> bool {
    !USERS.iter().any(|user| name.starts_with(user))
}

fn is_any(name: &str) -> bool {
    name != "main"
}

/// Lives through a seed; whether the panic came.
///
/// # Errors
/// A thread that waits forever, a device that was not closed, or promised data that was lost.
pub fn panic_somewhere(seed: u64) -> Result<bool> {
    let mut random = Random::new(seed);
    let bits = random.below(POINTS_BITS);
    let points = random.below(2 << bits);
    let is_eligible = [is_pools_own, is_any][random.index(2)];
    let world = World::simulated(seed).time_limit(TIME_MAX);
    let world = world.panic_at(points, is_eligible);
    let own = world.clone();
    let lived = AssertUnwindSafe(|| world.run(|| live(&own, random)));
    let lived = std::panic::catch_unwind(lived).unwrap_or_else(|payload| {
        bail!("{}", rt::panic_words(&*payload));
    });
    lived.with_context(|| format!("seed {seed}, a panic after {points} points"))?;
    Ok(world.has_panicked())
}

/// Does something as a daemon carries out a request: a panic fails it.
fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = rt::catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|payload| bail!("it panicked: {}", rt::panic_words(&*payload)))
}

fn live(world: &World, mut random: Random) -> Result<()> {
    let layout = Layout::draw(&mut random);
    rt::trace!("{}", layout.told());
    let count = layout.disks() + FREE_DISKS;
    let disks = Arc::new(Disks::new(count, DISK_SIZE, random.fork()));
    disks.record();
    let mut writers = Vec::new();
    let worked = caught(|| work(&disks, &layout, &mut writers, &mut random));
    rt::trace!("worked: {worked:?}");
    given_back(&disks).with_context(|| format!("after the work: {worked:?}"))?;
    if worked.is_err() {
        ensure!(world.has_panicked(), "without a panic: {worked:?}");
    }
    if writers.is_empty() {
        // It came before there was anything in the pool, or there is none.
        return Ok(());
    }
    let record = disks.take_record();
    let bounds = bounds(&record, record.len(), WRITERS);
    for _ in 0..IMPORTS {
        let had_panicked = world.has_panicked();
        let judged = caught(|| judge(&disks, &layout, &writers, &bounds));
        rt::trace!("judged: {judged:?}");
        given_back(&disks).with_context(|| format!("after an import: {judged:?}"))?;
        match judged {
            Ok(()) => return Ok(()),
            Err(error) if had_panicked => return Err(error.context("imported again")),
            Err(_) => ensure!(world.has_panicked(), "without a panic: {judged:?}"),
        }
    }
    bail!("no import succeeds")
}

/// Waits until no disk is open.
fn given_back(disks: &Disks) -> Result<()> {
    let begun = rt::Instant::now();
    while disks.open_handles() > 0 {
        let count = disks.open_handles();
        ensure!(
            begun.elapsed() < CLOSING,
            "{count} devices are not given back"
        );
        rt::sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn work(
    disks: &Arc<Disks>,
    layout: &Layout,
    writers: &mut Vec<Writer>,
    random: &mut Random,
) -> Result<()> {
    let pool = machine::create(disks, layout)?;
    let fs = machine::files(&pool, POOL, layout.settings)?;
    for number in 0..WRITERS {
        let name = format!("w{number}");
        let made = caught(|| Writer::new(&fs, &name, number, random.fork()));
        let synced = made.and_then(|writer| {
            caught(|| machine::fsync_all(&fs))?;
            Ok(writer)
        });
        match synced {
            Ok(writer) => writers.push(writer),
            Err(error) => {
                writers.clear();
                return leave(&pool, fs, Err(error));
            }
        }
    }
    let first = layout.disks();
    let mut keeper = Keeper {
        random: random.fork(),
        free: (first..first + FREE_DISKS).collect(),
        is_bold: true,
    };
    let scrubs = random.happens(50);
    let worked = rt::scope(|scope| {
        let mut threads = Vec::new();
        for (number, writer) in writers.iter_mut().enumerate() {
            let fs = &fs;
            let body =
                move || (0..OPERATIONS).try_for_each(|_| caught(|| writer.operate(disks, fs)));
            threads.push(scope.spawn_named(format!("writer{number}"), body));
        }
        let pool = &pool;
        let body = move || match scrubs {
            true => caught(|| upkeep::scrub(pool)),
            false => caught(|| keeper.work(disks, pool, COMMANDS)),
        };
        threads.push(scope.spawn_named("keeper".to_owned(), body));
        let ended = threads.into_iter().map(|thread| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|_| bail!("a thread panicked")),
            Err(error) => Err(error.into()),
        });
        // All come to their end.
        let ended: Vec<Result<()>> = ended.collect();
        ended.into_iter().collect::<Result<()>>()
    });
    leave(&pool, fs, worked)
}

/// Closes the file system and exports the pool, in the ways that the daemon has.
fn leave(pool: &Pool, fs: Arc<FileSystem>, worked: Result<()>) -> Result<()> {
    let ended = caught(|| Ok(fs.dataset()?.end()?));
    drop(fs);
    let exported = match pool.suspended() {
        Some(_) => caught(|| {
            pool.abandon();
            Ok(())
        }),
        None => caught(|| Ok(pool.export()?)),
    };
    if exported.is_err() {
        let _ = caught(|| {
            pool.abandon();
            Ok(())
        });
    }
    worked.and(ended).and(exported)
}

/// Imports the pool, and compares what it has with what was done.
fn judge(disks: &Arc<Disks>, layout: &Layout, writers: &[Writer], bounds: &[Bounds]) -> Result<()> {
    let pool = machine::open(disks, false)?;
    let fs = machine::files(&pool, POOL, layout.settings)?;
    let compared = writers.iter().enumerate().try_for_each(|(number, writer)| {
        let found = caught(|| found(&fs, &format!("w{number}")))?;
        let is_right = may_be_left(&writer.states, &bounds[number], &found);
        ensure!(
            is_right,
            "writer {number} had begun {} operations and was promised {:?}; found: {}",
            writer.states.len() - 1,
            bounds[number],
            found.summary()
        );
        Ok(())
    });
    leave(&pool, fs, compared)
}
