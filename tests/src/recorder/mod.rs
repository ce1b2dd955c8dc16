//! Power cuts of the real daemon: `cargo xtask recorder`.
//!
//! The daemon works on recording disks: exports of an NBD server in this process, which records
//! every write, in the order of the replies, and every flush. Meanwhile threads write files and
//! sync them, and note between which places of the record each of their calls was.
//!
//! Then disks are made as a power cut would have left them, at random places of the record. Writes
//! covered by a flush that was answered before the cut are there. Each later write is there or not,
//! on each disk separately: all of them (a prefix of the record), none, any subset, or only some
//! sectors of a write. Disks with a volatile cache may do all that. Each of these pools is
//! imported, and checked against what had been acknowledged to the threads:
//!
//! - data acknowledged before the cut is there, and operations that began after it are not;
//! - a file that was synced before it got its name is complete;
//! - `cenote verify` finds no error, and neither does OpenZFS in some of them.

mod cut;
mod disk;
mod history;
mod record;

use crate::random::Random;
use crate::referee;
use crate::site::Site;
use anyhow::{Context, Result};
use cenote_nbd::{Limits, Listener, Server, TlsPolicy};
use cut::Cut;
use disk::Disks;
use history::History;
use record::Record;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Layouts: words of `zpool create`; a number means a disk.
const LAYOUTS: [&str; 5] = [
    "0",
    "mirror 0 1",
    "raidz1 0 1 2",
    "0 log 1",
    "0 log mirror 1 2",
];
const DISK_BYTES: u64 = 192 << 20;

/// What one run does.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first recording's seed.
    pub seed: u64,
    /// Recordings, each with the seed behind the one before.
    pub count: u64,
    /// How long the daemon works in each.
    pub milliseconds: u64,
    /// Cuts of each.
    pub cuts: u64,
    /// OpenZFS judges each so-manieth cut.
    pub judge: u64,
}

/// Runs recordings; whether nothing was lost.
///
/// # Errors
/// None of a recording: those are printed with its seed.
pub fn run(options: &Options) -> Result<bool> {
    let mut failed = 0;
    for seed in options.seed..options.seed.saturating_add(options.count) {
        match recording(seed, options) {
            Ok(story) => println!("ok   seed {seed}: {story}"),
            Err(error) => {
                failed += 1;
                println!("FAIL seed {seed}: {error:#}");
            }
        }
    }
    let good = options.count - failed;
    println!("{good} of {} recordings went well", options.count);
    Ok(failed == 0)
}

fn recording(seed: u64, options: &Options) -> Result<String> {
    let mut random = Random::new(seed);
    let layout = *random.choose(&LAYOUTS);
    let place = tempfile::Builder::new()
        .prefix("cenote-record.")
        .tempdir()?;
    let recorded = record(&mut random, layout, place.path(), options);
    let (record, history, count) = recorded.with_context(|| layout.to_owned())?;
    let site = Site::new("tank")?;
    let mut judged = Ok(());
    for number in 1..=options.cuts {
        let cut = Cut::draw(&mut random, &record);
        let is_judged = options.judge > 0 && number % options.judge == 0;
        let found = judge(&site, &record, &history, &cut, is_judged);
        if let Err(error) = found {
            judged = Err(error.context(format!("cut {number}, {cut}")));
            break;
        }
    }
    site.abandon();
    judged.with_context(|| layout.to_owned())?;
    Ok(format!(
        "{layout}: {count} calls acknowledged, {} cuts of {} writes and {} flushes",
        options.cuts,
        record.writes(),
        record.flushes()
    ))
}

/// Lets the daemon work on disks that record.
fn record(
    random: &mut Random,
    layout: &str,
    place: &Path,
    options: &Options,
) -> Result<(Arc<Record>, History, usize)> {
    let record = Arc::new(Record::create(&place.join("record"), layout)?);
    let disks = Disks::create(place, &record, DISK_BYTES)?;
    let socket = place.join("nbd");
    let listener = Listener::unix(&socket)?;
    let limits = Limits::default();
    let server = Server::start(Arc::new(disks), vec![listener], limits, TlsPolicy::Off)?;
    let site = Site::new("tank")?;
    let words: Vec<String> = layout
        .split(' ')
        .map(|word| match word.parse::<usize>() {
            Ok(number) => format!("nbd+unix:///{number}?socket={}", socket.display()),
            Err(_) => word.to_owned(),
        })
        .collect();
    let (root, words) = (site.path(""), words.join(" "));
    let root = root.display();
    site.ok(&format!(
        "zpool create -f -o ashift=12 -R {root} tank {words}"
    ))?;
    if random.index(2) == 0 {
        // Everything stays in the log.
        site.ok("cenote settings set zfs_txg_timeout=3600")?;
    }
    site.ok("zpool sync tank")?;
    let time = Duration::from_millis(options.milliseconds);
    let history = History::write(&site.path("tank"), &record, random, time)?;
    record.end();
    let count = history.acknowledged(u64::MAX);
    // Later events are not part of it.
    site.export()?;
    site.abandon();
    drop(server);
    Ok((record, history, count))
}

/// Makes the disks of a cut, imports them and looks at everything.
fn judge(
    site: &Site,
    record: &Record,
    history: &History,
    cut: &Cut,
    is_judged: bool,
) -> Result<()> {
    let devices = site.devices().display().to_string();
    for disk in 0..record.disks() {
        let path = site.devices().join(format!("disk-{disk}.img"));
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)?;
        file.set_len(DISK_BYTES)?;
        cut.apply(record, disk, &file)?;
    }
    site.import("-f")?;
    let compared = history.compare(&site.path("tank"), cut.at);
    site.export()?;
    compared?;
    site.ok(&format!("cenote verify -q -d {devices} tank"))?;
    if is_judged && referee::path().is_some() {
        site.judge()?;
    }
    for entry in fs::read_dir(site.devices())? {
        fs::remove_file(entry?.path())?;
    }
    Ok(())
}
