//! How long snapshots take, and whether that grows.
//!
//! Measured are whole commands, as a user gives them: a process starts, the daemon carries it out,
//! and the answer comes when the transaction group is on disk. That costs some milliseconds
//! whatever is done, so an empty `zpool sync` stands beside. What has to be flat: a snapshot,
//! over the files of its dataset; listing and destroying, over the number of snapshots of a tree.
//!
//! Snapshots of one dataset are another matter: each has a list with a key for every older one
//! (format/3a 4), so the thousandth costs more than the first, in OpenZFS, too. Its library makes
//! and destroys as many beside, by calls instead of commands.

use anyhow::{Context, Result, ensure};
use cenote_tests::referee;
use cenote_tests::site::Site;
use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

const RIVAL: &str = include_str!("rival.py");
/// Files in a directory.
const FILES_TOGETHER: u64 = 10_000;
/// Threads that make files.
const THREADS: u64 = 2;

/// What to measure.
#[derive(Debug)]
pub struct Options {
    /// Parts; all if empty.
    pub parts: Vec<String>,
    /// Files of the larger dataset.
    pub files: u64,
    /// Datasets of the tree.
    pub datasets: u64,
    /// Snapshots of all of them together.
    pub snapshots: u64,
    /// Snapshots of one dataset.
    pub of_one: u64,
    /// Rounds of each single command.
    pub rounds: u64,
    /// Where to put the figures as JSON.
    pub json: Option<PathBuf>,
}

/// Names and milliseconds.
#[derive(Debug, Default)]
struct Figures(Vec<(String, f64)>);

impl Figures {
    fn put(&mut self, name: impl Into<String>, milliseconds: f64) {
        let name = name.into();
        println!("{name:<58} {milliseconds:>10.3} ms");
        self.0.push((name, milliseconds));
    }
}

/// Measures, and prints as it goes.
pub fn run(options: &Options) -> Result<()> {
    let wanted = |part: &str| {
        let parts = &options.parts;
        parts.is_empty() || parts.iter().any(|name| name == part)
    };
    let mut figures = Figures::default();
    if wanted("files") {
        files(options, &mut figures)?;
    }
    if wanted("tree") {
        tree(options, &mut figures)?;
    }
    if wanted("one") {
        of_one(options, &mut figures)?;
    }
    if let Some(path) = &options.json {
        let pairs = figures.0.into_iter();
        let object: serde_json::Map<String, Value> =
            pairs.map(|(name, value)| (name, value.into())).collect();
        fs::write(path, Value::from(object).to_string())?;
    }
    Ok(())
}

/// Milliseconds of a command.
fn timed(site: &Site, line: &str) -> Result<f64> {
    let start = Instant::now();
    site.ok(line)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// The median of a command that has a number in it.
fn rounds(site: &Site, count: u64, line: impl Fn(u64) -> String) -> Result<f64> {
    let mut values = Vec::new();
    for round in 0..count {
        values.push(timed(site, &line(round))?);
    }
    Ok(median(values))
}

/// One snapshot of a small and of a large dataset.
fn files(options: &Options, figures: &mut Figures) -> Result<()> {
    let site = Site::create("single", 16 << 10, "-O atime=off -O recordsize=4K")?;
    let rounds_of = |line: &dyn Fn(u64) -> String| rounds(&site, options.rounds, line);
    figures.put("zpool sync", rounds_of(&|_| "zpool sync tank".to_owned())?);
    for (name, count) in [("few", 1000), ("many", options.files)] {
        site.ok(&format!("zfs create tank/{name}"))?;
        let start = Instant::now();
        make_files(&site, name, count)?;
        site.ok("zpool sync tank")?;
        println!("{count} files in {:.0?}", start.elapsed());
        let snapshot = rounds_of(&|round| format!("zfs snapshot tank/{name}@s{round}"))?;
        figures.put(format!("zfs snapshot, {count} files"), snapshot);
        // With something new in it, as a snapshot in use has.
        let mut values = Vec::new();
        for round in 0..options.rounds {
            fs::write(
                site.path(&format!("tank/{name}")).join("0/0"),
                round.to_string(),
            )?;
            values.push(timed(&site, &format!("zfs snapshot tank/{name}@w{round}"))?);
        }
        figures.put(
            format!("the same, a file just written, {count} files"),
            median(values),
        );
        let destroy = rounds_of(&|round| format!("zfs destroy tank/{name}@w{round}"))?;
        figures.put(format!("zfs destroy of a snapshot, {count} files"), destroy);
    }
    site.finish()
}

fn make_files(site: &Site, dataset: &str, count: u64) -> Result<()> {
    let root = site.path(&format!("tank/{dataset}"));
    let directories = count.div_ceil(FILES_TOGETHER);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let root = &root;
                scope.spawn(move || -> Result<()> {
                    for directory in (thread..directories).step_by(THREADS as usize) {
                        let place = root.join(directory.to_string());
                        fs::create_dir(&place)?;
                        let first = directory * FILES_TOGETHER;
                        for file in 0..FILES_TOGETHER.min(count - first) {
                            File::create(place.join(file.to_string()))?;
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        }
        Ok(())
    })
}

/// Snapshots of many datasets at once, listed and destroyed.
fn tree(options: &Options, figures: &mut Figures) -> Result<()> {
    let site = Site::create("single", 4096, "-O canmount=off")?;
    let count = options.datasets;
    for number in 0..count {
        site.ok(&format!("zfs create tank/d{number}"))?;
    }
    let each = options.snapshots.div_ceil(count);
    let (small, list) = (
        (each / 10).max(1),
        "zfs list -H -t snapshot -o name,used -r tank",
    );
    let mut values = Vec::new();
    for number in 0..each {
        values.push(timed(&site, &format!("zfs snapshot -r tank@s{number}"))?);
        if number + 1 == small || number + 1 == each {
            let snapshots = (number + 1) * (count + 1);
            let listed = rounds(&site, 3, |_| list.to_owned())?;
            figures.put(format!("zfs list of {snapshots} snapshots"), listed);
            let share = listed / snapshots as f64;
            figures.put(format!("  for each of {snapshots}"), share);
        }
    }
    figures.put(
        format!("zfs snapshot -r of {count} datasets"),
        median(values),
    );
    let space = timed(&site, "cenote space -H tank")?;
    figures.put(
        format!("cenote space of {} snapshots", each * (count + 1)),
        space,
    );
    let last = small - 1;
    let destroyed = timed(&site, &format!("zfs destroy -r tank@s0%s{last}"))?;
    let snapshots = small * (count + 1);
    let name = format!("zfs destroy -r of {snapshots} snapshots, for each");
    figures.put(name, destroyed / snapshots as f64);
    let destroyed = timed(&site, "zfs destroy -r tank@%")?;
    let snapshots = (each - small) * (count + 1);
    let name = format!("zfs destroy -r of {snapshots} snapshots, for each");
    figures.put(name, destroyed / snapshots.max(1) as f64);
    site.finish()
}

/// Many snapshots of one dataset, and the same by OpenZFS's library.
fn of_one(options: &Options, figures: &mut Figures) -> Result<()> {
    let site = Site::create("single", 4096, "-O canmount=off")?;
    site.ok("zfs create tank/one")?;
    let half = options.of_one / 2;
    let make = |first: u64, last: u64| -> Result<f64> {
        let start = Instant::now();
        for number in first..last {
            site.ok(&format!("zfs snapshot tank/one@n{number}"))?;
        }
        Ok(start.elapsed().as_secs_f64() * 1e3 / (last - first) as f64)
    };
    let count = options.of_one;
    figures.put(
        format!("each of the first {half} snapshots"),
        make(0, half)?,
    );
    figures.put(format!("each of the next {half}"), make(half, count)?);
    let listed = timed(&site, "zfs list -H -t snapshot -r tank/one")?;
    figures.put(
        format!("zfs list of {count}, for each"),
        listed / count as f64,
    );
    let space = timed(&site, "cenote space -H tank/one")?;
    figures.put(
        format!("cenote space of {count}, for each"),
        space / count as f64,
    );
    let destroyed = timed(&site, "zfs destroy tank/one@%")?;
    figures.put(
        format!("zfs destroy of {count}, for each"),
        destroyed / count as f64,
    );
    site.export()?;
    rival(options, &site, figures)?;
    site.judge()
}

fn rival(options: &Options, site: &Site, figures: &mut Figures) -> Result<()> {
    let Some(program) = referee::path() else {
        println!("OpenZFS is not installed to compare with");
        return Ok(());
    };
    let script = tempfile::NamedTempFile::new()?;
    fs::write(script.path(), RIVAL)?;
    let (datasets, count) = (options.datasets, options.of_one);
    let output = Command::new("python3")
        .arg(script.path())
        .arg(program)
        .arg(site.devices())
        .args(["tank", &datasets.to_string(), &count.to_string()])
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the rival: {errors}");
    let seconds: Value = serde_json::from_slice(&output.stdout)?;
    let of = |name: &str| {
        let value = seconds[name].as_f64();
        value
            .map(|value| value * 1e3)
            .context("a figure of the rival")
    };
    let half = count / 2;
    let tree = of("tree")?;
    figures.put(
        format!("OpenZFS's library: of {datasets} datasets at once"),
        tree,
    );
    let (first, second) = (of("first half")?, of("second half")?);
    let name = format!("OpenZFS's library: each of the first {half} snapshots");
    figures.put(name, first / half as f64);
    let name = format!("OpenZFS's library: each of the next {half}");
    figures.put(name, second / half as f64);
    let destroy = of("destroy")? / count as f64;
    figures.put(
        format!("OpenZFS's library: destroy of {count}, for each"),
        destroy,
    );
    Ok(())
}
