//! One seed: a pool is made, written to by three threads, loses its power, and is judged.
//!
//! The seed decides everything: the layout, what the writers do, when each thread runs, how long
//! a device takes, where the power is cut and what the devices keep. Three judgements follow
//! each cut.
//! The pool must import. [`verify`](cenote_pool::verify) must find no fault in any block. And each
//! writer's directory must be as it was after its operations, once the intent log is replayed, in
//! memory or for good: none that was promised may be missing.

use crate::disks::Disks;
use crate::files::{Writer, found, may_be_left};
use crate::record::{Event, Record, bounds};
use anyhow::{Context, Result, bail, ensure};
use cenote_base::rt;
use cenote_base::rt::Random;
use cenote_base::{Env, RealEnv};
use cenote_dataset::{Access, OpenDataset};
use cenote_device::Opener;
use cenote_dsl::write::{Encryption, Format, NewKeyFormat, UserKey};
use cenote_dsl::{DatasetName, DslError};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{
    Actor, CreateRequest, ImportOptions, NewVdev, Pool, VdevShape, assemble, default_features,
    import,
};
use cenote_posix::write::{FormatParams, WriteSettings, format_new};
use cenote_posix::{FileSystem, PosixError, ReplayOptions, Timestamp};
use cenote_vdev::{AllocationClass, scan};
use std::path::Path;
use std::sync::Arc;

/// The pool's name.
pub const POOL: &str = "sim";

const WRITERS: usize = 3;
const DISK_SIZE: usize = 80 << 20;
const KEY: &[u8] = &[7; 32];

/// Operations of each writer before the recording begins, so that freed space is used again.
const WARM_UP: usize = 30;
/// Operations of each writer that are recorded.
const OPERATIONS: usize = 40;
/// Power cuts of one record.
const CUTS: usize = 4;

/// What a seed went through.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Events that were recorded.
    pub events: usize,
    /// Power cuts that were judged.
    pub cuts: usize,
}

struct Plan {
    shape: VdevShape,
    disks: usize,
    is_encrypted: bool,
}

impl Plan {
    fn draw(random: &mut Random) -> Self {
        let (shape, disks) = match random.below(6) {
            0 => (VdevShape::Single, 1),
            1 => (VdevShape::Mirror, 2),
            2 => (VdevShape::Mirror, 3),
            3 => (VdevShape::Raidz { parity: 1 }, 3),
            4 => (VdevShape::Raidz { parity: 2 }, 4),
            _ => {
                let (parity, data, spares) = (1, 2, 1);
                let shape = VdevShape::Draid {
                    parity,
                    data,
                    spares,
                };
                (shape, 5)
            }
        };
        Self {
            shape,
            disks,
            is_encrypted: random.happens(25),
        }
    }
}

/// What a seed does not decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The disks are left here as the last cut left them.
    pub kept: Option<&'a Path>,
    /// The disks lie about flushes, so that something must be lost.
    pub lose_flushes: bool,
}

/// Lives through `seed`.
///
/// # Errors
/// What went wrong, with the place of the cut.
pub fn live(seed: u64, options: Options<'_>) -> Result<Outcome> {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random);
    let disks = Disks::new(plan.disks, DISK_SIZE, random.fork());
    let disks = Arc::new(disks.losing_flushes(options.lose_flushes));
    let (pool, fs) = begin(&disks, &plan)?;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::new(&fs, &directory(number), random.fork())?);
    }
    work(&disks, &fs, &mut writers, WARM_UP, &mut random)?;
    fs.sync()?;
    let before: Vec<usize> = writers
        .iter()
        .map(|writer| writer.states.len() - 1)
        .collect();
    disks.record();
    for (number, operations) in before.into_iter().enumerate() {
        note_promise(&disks, number, operations);
    }
    work(&disks, &fs, &mut writers, OPERATIONS, &mut random)?;
    let record = disks.take_record();
    drop(fs);
    drop(pool);
    for number in 0..CUTS {
        // The promises of the beginning come first.
        let cut = WRITERS + 1 + random.index(record.len() - WRITERS - 1);
        let keep = [0, 30, 70, 100][random.index(4)];
        let after = Arc::new(disks.after(&record, cut, keep, &mut random));
        let what = || {
            format!(
                "cut {number} at {cut} of {} events, {keep} % kept",
                record.len()
            )
        };
        rt::trace!("{}", what());
        let kept = options.kept.filter(|_| number + 1 == CUTS);
        judge(&after, &record, cut, &writers, kept, &mut random).with_context(what)?;
    }
    Ok(Outcome {
        events: record.len(),
        cuts: CUTS,
    })
}

fn directory(writer: usize) -> String {
    format!("w{writer}")
}

fn note_promise(disks: &Disks, writer: usize, operations: usize) {
    // The number of a state is the number of operations before it.
    disks.note(Event::Begun {
        writer,
        operation: operations.saturating_sub(1),
    });
    disks.note(Event::Promised { writer, operations });
}

/// All writers make so many operations, each in a thread of its own.
fn work(
    disks: &Disks,
    fs: &FileSystem,
    writers: &mut [Writer],
    operations: usize,
    random: &mut Random,
) -> Result<()> {
    let forks: Vec<Random> = writers.iter().map(|_| random.fork()).collect();
    rt::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .zip(forks)
            .enumerate()
            .map(|(number, (writer, random))| {
                let body = move || work_alone(disks, fs, number, writer, operations, random);
                scope.spawn_named(format!("writer{number}"), body)
            })
            .collect();
        for thread in threads {
            match thread.context("a thread")?.join() {
                Ok(result) => result?,
                Err(_) => bail!("a writer panicked"),
            }
        }
        Ok(())
    })
}

fn work_alone(
    disks: &Disks,
    fs: &FileSystem,
    number: usize,
    writer: &mut Writer,
    operations: usize,
    mut random: Random,
) -> Result<()> {
    for _ in 0..operations {
        let operation = writer.states.len() - 1;
        disks.note(Event::Begun {
            writer: number,
            operation,
        });
        writer.operate(fs)?;
        sync_some(disks, fs, number, writer, &mut random)?;
    }
    Ok(())
}

/// Now and then a writer syncs all, one of its files, or its directory.
fn sync_some(
    disks: &Disks,
    fs: &FileSystem,
    number: usize,
    writer: &Writer,
    random: &mut Random,
) -> Result<()> {
    let operations = writer.states.len() - 1;
    let file = match random.below(20) {
        0 => {
            match random.happens(20) {
                true => fs.sync()?,
                false => fs.fsync_all()?,
            }
            disks.note(Event::Promised {
                writer: number,
                operations,
            });
            return Ok(());
        }
        1..4 => match writer.any_file(random) {
            Some((file, object)) => {
                fs.fsync(object)?;
                Some(file)
            }
            None => return Ok(()),
        },
        4 => {
            fs.fsync(writer.directory())?;
            None
        }
        _ => return Ok(()),
    };
    disks.note(Event::PromisedFile {
        writer: number,
        file,
        operations,
    });
    Ok(())
}

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// Imports what is left, and compares it with what the writers did.
fn judge(
    disks: &Arc<Disks>,
    record: &Record,
    cut: usize,
    writers: &[Writer],
    kept: Option<&Path>,
    random: &mut Random,
) -> Result<()> {
    if let Some(directory) = kept {
        disks.save(directory)?;
    }
    let is_read_only = random.happens(50);
    let pool = open(disks, is_read_only)?;
    compare(&pool, record, cut, writers)?;
    if is_read_only {
        return Ok(());
    }
    // The work goes on: what is there must do for a pool that is written to.
    let fs = files(&pool)?;
    let mut writer = Writer::new(&fs, "after", random.fork())?;
    for _ in 0..10 {
        writer.operate(&fs)?;
    }
    fs.fsync_all()?;
    let (last, found) = (writer.states.last().context("one")?, found(&fs, "after")?);
    ensure!(found.is_same(last), "after the import a file was lost");
    drop(fs);
    check(&pool)
}

fn compare(pool: &Pool, record: &Record, cut: usize, writers: &[Writer]) -> Result<()> {
    check(pool)?;
    let fs = match pool.is_writable() {
        true => files(pool)?,
        false => files_for_reading(pool)?,
    };
    let all = bounds(record, cut, writers.len());
    for (number, (writer, bounds)) in writers.iter().zip(all).enumerate() {
        let found = found(&fs, &directory(number))?;
        let (least, most) = (bounds.least, bounds.most.min(writer.states.len() - 1));
        ensure!(
            may_be_left(&writer.states, &bounds, &found),
            "writer {number} had begun {most} operations and was promised {bounds:?}\n\
             found:    {}\n\
             promised: {}\n\
             then:     {}",
            found.summary(),
            writer.states[least].summary(),
            writer.told(least..most),
        );
    }
    Ok(())
}

fn check(pool: &Pool) -> Result<()> {
    let report = verify(pool, &VerifyOptions::default(), &Silent)?;
    // A device that lacks the last group is brought up to date by a resilver.
    let is_whole = report.complete && report.problems == 0;
    ensure!(is_whole, "verify found faults: {report:?}");
    Ok(())
}

fn begin(disks: &Arc<Disks>, plan: &Plan) -> Result<(Pool, Arc<FileSystem>)> {
    let encryption = match plan.is_encrypted {
        false => Encryption::Inherit,
        true => {
            let name = DatasetName::parse(POOL)?;
            let key = UserKey::derive(&name, KEY, NewKeyFormat::Raw, "prompt", &RealEnv::new())?;
            Encryption::On {
                suite: None,
                key: Some(key),
            }
        }
    };
    let vdev = NewVdev {
        shape: plan.shape,
        class: AllocationClass::Normal,
        leaves: disks.leaves(),
    };
    let request = CreateRequest {
        name: POOL.to_owned(),
        version: 5000,
        vdevs: vec![vdev],
        spares: Vec::new(),
        cache_devices: Vec::new(),
        ashift: None,
        features: default_features(),
        properties: Vec::new(),
        comment: None,
        compatibility: None,
        root_properties: Vec::new(),
        encryption,
        format: Some(empty_file_system()),
        actor: Actor {
            user: 0,
            host: "sim".to_owned(),
        },
        command: Some(format!("zpool create {POOL}")),
    };
    let pool = cenote_pool::create(request, &options(disks, false), env())?;
    let fs = files(&pool)?;
    Ok((pool, fs))
}

fn empty_file_system() -> Format {
    Box::new(|set, tx| {
        let made = format_new(set, tx, &FormatParams::default());
        let failed = |error: PosixError| DslError::Format {
            reason: error.to_string(),
        };
        made.map(drop).map_err(failed)
    })
}

fn env() -> Arc<dyn Env> {
    Arc::new(RealEnv::new())
}

fn options(disks: &Arc<Disks>, is_read_only: bool) -> ImportOptions {
    ImportOptions {
        read_only: is_read_only,
        hostid: 0x1234,
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        ..ImportOptions::default()
    }
}

fn open(disks: &Arc<Disks>, is_read_only: bool) -> Result<Pool> {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let candidate = candidates.first().context("no pool is found")?;
    Ok(import(candidate, &options(disks, is_read_only), env())?)
}

fn load_key(pool: &Pool) -> Result<()> {
    let dataset = pool.dsl().dataset(pool.dsl().pool_name())?;
    if dataset.directory().crypto_key()?.is_some() {
        match pool.dsl().load_key(dataset.directory(), KEY, false) {
            Ok(_) | Err(DslError::KeyLoaded { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn files_for_reading(pool: &Pool) -> Result<Arc<FileSystem>> {
    load_key(pool)?;
    let dataset = pool.dsl().dataset(pool.dsl().pool_name())?;
    let options = ReplayOptions {
        last_synced: pool.txg(),
        synced_at: synced_at(pool),
        settings: WriteSettings::default(),
        env: env(),
    };
    let (fs, report) = FileSystem::open_replayed(dataset.object_set()?, &options)?;
    ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
    Ok(Arc::new(fs))
}

/// When the pool was synced last before it was opened.
fn synced_at(pool: &Pool) -> Timestamp {
    let seconds = pool.opened_uberblock().timestamp.cast_signed();
    Timestamp::from_stored((seconds, 0))
}

/// Replays the log that a cut left, for good.
fn replay(pool: &Pool, open: &OpenDataset) -> Result<()> {
    let Some(log) = open.log()? else {
        return Ok(());
    };
    // Of a log whose records are all in groups a cut leaves the block for the next ones.
    if log.is_claimed() {
        let settings = WriteSettings::default();
        let report = FileSystem::replay_log(open, &log, settings, synced_at(pool))?;
        ensure!(report.stopped.is_none(), "the log does not fit: {report:?}");
    }
    open.destroy_log(&log)?;
    Ok(open.end()?)
}

/// The pool's root file system, open for writing.
fn files(pool: &Pool) -> Result<Arc<FileSystem>> {
    load_key(pool)?;
    let dataset = pool.dsl().dataset(pool.dsl().pool_name())?;
    let gate = pool.gate()?;
    let access = Access {
        dsl: Arc::clone(pool.dsl()),
        gate: Arc::clone(gate),
        env: env(),
        blocks: Some(Arc::clone(pool.block_writer()?)),
        damage: None,
    };
    replay(pool, &access.open(&dataset)?)?;
    let open = Arc::new(access.open(&dataset)?);
    let fs = FileSystem::open_writable(open, WriteSettings::default())?;
    fs.drain_delete_queue()?;
    Ok(Arc::new(fs))
}
