//! Programs that append to files and wait each time, alone and beside others.

use super::options::Options;
use super::rival::{OURS, OURS_WITH_LOG, Rival};
use crate::write::machine;
use crate::write::report::{Figures, Report};
use anyhow::Result;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const BLOCK: usize = 4096;
/// Callers at a time, and how much faster than XFS we want to be then.
const CASES: [(usize, f64); 3] = [(1, 1.0), (4, 1.0), (16, 1.5)];

/// The disk, without any file system between.
const DISK: &str = "ceiling: one flush each";
/// MiB of the file in which the disk's own rate is measured.
const RAW_MEBIBYTES: usize = 64;

/// Operations that were done, and in what time.
struct Done {
    operations: u64,
    elapsed: Duration,
}

impl Done {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// Bytes that no compression makes smaller, other ones each time.
struct Noise {
    bytes: Vec<u8>,
    count: u64,
}

impl Noise {
    fn new(seed: u64) -> Self {
        let mut bytes = vec![0; BLOCK];
        cenote_tests::random::Random::new(seed).fill(&mut bytes);
        Self { bytes, count: 0 }
    }

    fn next(&mut self) -> &[u8] {
        self.count += 1;
        self.bytes[..8].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes
    }
}

/// Appends to a file for each thread, and waits after each block.
fn append(directory: &Path, threads: usize, time: Duration) -> Result<Done> {
    let began = Instant::now();
    let one = |index: usize| -> Result<u64> {
        let mut noise = Noise::new(index as u64);
        let mut file = File::create(directory.join(format!("log-{index}")))?;
        let mut count = 0;
        while began.elapsed() < time {
            file.write_all(noise.next())?;
            file.sync_all()?;
            count += 1;
        }
        Ok(count)
    };
    let counts: Result<Vec<u64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|index| scope.spawn(move || one(index)))
            .collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.expect("no panic")).collect()
    });
    Ok(Done {
        operations: counts?.iter().sum(),
        elapsed: began.elapsed(),
    })
}

/// Writes into a file that has its space, and flushes the disk after each block.
fn ceiling(options: &Options, time: Duration) -> Result<Done> {
    let path = options.directory.join("raw.img");
    machine::fill(&path, RAW_MEBIBYTES)?;
    let file = File::options().write(true).open(&path)?;
    let places = (RAW_MEBIBYTES << 20) / BLOCK;
    let mut noise = Noise::new(0);
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < time {
        let offset = count as usize % places * BLOCK;
        file.write_all_at(noise.next(), offset as u64)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(Done {
        operations: count,
        elapsed: began.elapsed(),
    })
}

fn measure(rival: &Rival, threads: usize, time: Duration) -> Result<Figures> {
    let place = rival.place("appends", &[])?;
    rival.settle()?;
    let (bytes, clocks) = (rival.written()?, rival.clocks()?);
    let done = append(&place, threads, time)?;
    let spent = rival.clocks()?.since(&clocks);
    rival.settle()?;
    let written = rival.written()? - bytes;
    rival.clear("appends")?;
    let appended = done.operations * BLOCK as u64;
    Ok(Figures {
        stored: Some(written as f64 / appended as f64),
        ..spent.per_ten_thousand(done.rate(), done.operations)
    })
}

/// 1, 4 and 16 callers.
pub fn run(options: &Options) -> Result<Report> {
    let rivals = Rival::all(options)?;
    let time = Duration::from_secs(options.seconds);
    let mut report = Report::default();
    for (threads, _) in CASES {
        let case = case(threads);
        for _ in 0..options.rounds {
            let done = ceiling(options, time)?;
            report.add(
                &case,
                DISK,
                Figures {
                    rate: done.rate(),
                    stored: Some(1.0),
                    ..Figures::default()
                },
            );
            for rival in &rivals {
                report.add(&case, rival.name, measure(rival, threads, time)?);
            }
        }
    }
    for (threads, wanted) in CASES {
        let case = case(threads);
        report.want_rate(&case, (OURS, "xfs"), wanted);
        report.want_rate(&case, (OURS, DISK), 0.0);
        report.want_rate(&case, (OURS_WITH_LOG, OURS), 1.0);
    }
    Ok(report)
}

fn case(threads: usize) -> String {
    format!("{threads} at a time")
}
