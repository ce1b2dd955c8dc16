//! Many small files, and many files in one directory.

use super::machine::Clocks;
use super::product::Daemon;
use super::report::{Figures, Report};
use super::rivals::{self, Kernel};
use super::workload::{self, sync};
use super::{Options, product};
use crate::read::mounted::NullServer;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Files that are made and removed.
const FILES: u64 = 20_000;
const CASES: [&str; 3] = ["create", "create and sync", "remove"];

/// Makes and removes files in `directory`, and adds three rows for `who`.
fn measure(
    report: &mut Report,
    who: &str,
    directory: &Path,
    data: &[u8],
    clocks: impl Fn() -> Result<Clocks>,
) -> Result<()> {
    let before = clocks()?;
    let rates = workload::small_files(&directory.join("many"), FILES, data)?;
    let spent = clocks()?.since(&before);
    let figures = spent.per_ten_thousand(rates.create, FILES);
    let only = |rate| Figures {
        rate,
        ..Figures::default()
    };
    report.add(CASES[0], who, only(rates.create));
    report.add(CASES[1], who, only(rates.create_synced));
    // The processor time of all three together stands in the last row.
    let rate = rates.remove;
    report.add(CASES[2], who, Figures { rate, ..figures });
    Ok(())
}

/// Small objects by OpenZFS's engine, which has no file system above it.
fn openzfs(options: &Options, report: &mut Report) -> Result<()> {
    product::devices(options, "single")?;
    let directory = product::directory(options, "single");
    let count = FILES.to_string();
    let mut words = vec![
        OsStr::new("bench-objects"),
        directory.as_os_str(),
        OsStr::new(product::POOL),
    ];
    words.extend(["--reuse", "--names", "--layout", "single"].map(OsStr::new));
    words.extend(["--count", &count].map(OsStr::new));
    let answer = rivals::openzfs(&words)?;
    let who = "OpenZFS objects";
    for (case, part) in [(CASES[1], "create"), (CASES[2], "free")] {
        let part = answer
            .get(part)
            .context("openzfs-ref says nothing of a part")?;
        let rate = part.get("objects_per_s").and_then(Value::as_f64);
        let rate = rate.context("no objects_per_s")? / 1e3;
        let figures = Figures {
            rate,
            ..Figures::default()
        };
        report.add(case, who, figures);
    }
    Ok(())
}

/// 20,000 files beside btrfs, XFS and an empty server.
pub fn small(options: &Options) -> Result<Report> {
    let data = rivals::data(options)?;
    let null = NullServer::new(0)?;
    let mut report = Report::default();
    for _ in 0..options.rounds {
        let daemon = Daemon::create(options, "single", &["compression=zstd"])?;
        let path = daemon.path();
        measure(&mut report, "cenote", &path, &data, || daemon.clocks())?;
        drop(daemon);
        let process = null.process();
        measure(&mut report, "empty FUSE server", null.path(), &data, || {
            Clocks::now(Some(process))
        })?;
        for (kind, mount) in [("btrfs", "compress=zstd"), ("xfs", "")] {
            let kernel = Kernel::new(options, kind, mount)?;
            measure(&mut report, kind, kernel.path(), &data, || {
                Clocks::now(None)
            })?;
        }
        openzfs(options, &mut report)?;
    }
    for case in CASES {
        report.want_rate(case, ("cenote", "btrfs"), 0.5);
    }
    for case in [CASES[0], CASES[2]] {
        report.want_rate(case, ("cenote", "empty FUSE server"), 0.0);
    }
    Ok(report)
}

/// The step between two files to stat: far, and without a common factor with any of the counts.
const STRIDE: u64 = 618_033_989;

/// How the cost of a file changes from the smallest count to the largest.
const FLAT: f64 = 0.67;

/// Where file `index` lies: all in one directory, or a thousand in each of many.
fn place(root: &Path, is_tree: bool, index: u64) -> PathBuf {
    match is_tree {
        true => root.join(format!("{}/{index}", index / 1000)),
        false => root.join(index.to_string()),
    }
}

fn step(
    report: &mut Report,
    case: String,
    count: u64,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let began = Instant::now();
    work()?;
    add_rate(report, &case, count, count, began);
    Ok(())
}

/// Adds the rate of so many operations since `began` to the row of so many files.
fn add_rate(report: &mut Report, case: &str, files: u64, operations: u64, began: Instant) {
    let figures = Figures {
        rate: operations as f64 / 1e3 / began.elapsed().as_secs_f64(),
        ..Figures::default()
    };
    report.add(case, &format!("{files} files"), figures);
}

fn count_entries(directory: &Path) -> Result<u64> {
    let mut count = 0;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => waiting.push(entry.path()),
                false => count += 1,
            }
        }
    }
    Ok(count)
}

/// Makes, lists, looks at and removes `count` empty files.
fn many(report: &mut Report, root: &Path, is_tree: bool, count: u64) -> Result<()> {
    let shape = if is_tree { "tree" } else { "directory" };
    std::fs::create_dir(root)?;
    let began = Instant::now();
    step(report, format!("{shape}: create"), count, || {
        for index in 0..count {
            if is_tree && index % 1000 == 0 {
                std::fs::create_dir(root.join((index / 1000).to_string()))?;
            }
            File::create(place(root, is_tree, index))?;
        }
        Ok(())
    })?;
    let synced = |report: &mut Report, what: &str, began: Instant| -> Result<()> {
        sync(&File::open(root)?)?;
        let case = format!("{shape}: {what}, on disk");
        add_rate(report, &case, count, count, began);
        Ok(())
    };
    synced(report, "create", began)?;
    std::fs::write("/proc/sys/vm/drop_caches", "2").context("dropping caches needs root")?;
    step(report, format!("{shape}: list"), count, || {
        ensure!(count_entries(root)? == count, "files are missing");
        Ok(())
    })?;
    let looked = count.min(100_000);
    std::fs::write("/proc/sys/vm/drop_caches", "2").context("dropping caches needs root")?;
    let began = Instant::now();
    for number in 0..looked {
        // Each once: the kernel would answer for files that were read before.
        std::fs::metadata(place(root, is_tree, number * STRIDE % count))?;
    }
    add_rate(report, &format!("{shape}: stat"), count, looked, began);
    let began = Instant::now();
    step(report, format!("{shape}: remove"), count, || {
        for index in 0..count {
            std::fs::remove_file(place(root, is_tree, index))?;
        }
        Ok(())
    })?;
    synced(report, "remove", began)
}

/// 10,000, 100,000 and a million files in one directory and in a tree.
pub fn million(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    let counts = [10_000, 100_000, 1_000_000];
    let counts = counts.into_iter().filter(|count| *count <= options.files);
    let daemon = Daemon::create(options, "single", &[])?;
    for is_tree in [false, true] {
        for count in counts.clone() {
            let root = daemon.path().join(format!("{count}-{is_tree}"));
            many(&mut report, &root, is_tree, count)?;
        }
    }
    let rows: Vec<String> = report.rows.iter().map(|row| row.case.clone()).collect();
    for case in rows {
        let pair = (format!("{} files", options.files), "10000 files");
        let is_new = report
            .goals
            .iter()
            .all(|goal| !goal.name.starts_with(&case));
        if is_new {
            report.want_rate(&case, (&pair.0, pair.1), FLAT);
        }
    }
    Ok(report)
}
