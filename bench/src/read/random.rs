//! 4 KiB reads at random places of a file that is cached, beside the empty FUSE server.
//!
//! What a single reader sees depends most of all on where the scheduler puts the server's thread:
//! on the reader's processor a request takes some 5 microseconds, on another one that sleeps up
//! to 70, and either lasts for a while. Many short rounds in turns and their medians meet both
//! servers with the same luck; the best round of each would compare two lucky moments. With all
//! threads on one processor there is no such luck: that is the cost of a request.

use super::mounted::NullServer;
use super::product::Mounted;
use super::{Comparison, Options, files, machine};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// Enough for all that is read here to stay cached.
const MEMORY: &str = "4G";
const FILE_BYTES: u64 = 256 << 20;
/// Rounds of each server; an odd number has a median.
const ROUNDS: usize = 11;
const ROUND_SECONDS: f64 = 0.6;

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// The median rates of both files, read in turns.
fn rates(ours: &Path, theirs: &Path, threads: u64) -> Result<(f64, f64)> {
    let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (path, rates) in [(ours, &mut our_rates), (theirs, &mut their_rates)] {
            let rate = machine::random_read_rate(path, FILE_BYTES, threads, ROUND_SECONDS)?;
            rates.push(rate);
        }
    }
    Ok((median(our_rates), median(their_rates)))
}

/// Binds all threads of a process to some processors; `taskset` of util-linux does it.
fn bind(process: u32, processors: &str) -> Result<()> {
    let process = process.to_string();
    let arguments = ["-a", "-c", "-p", processors, &process];
    let output = Command::new("taskset").args(arguments).output()?;
    anyhow::ensure!(output.status.success(), "taskset does not bind {process}");
    Ok(())
}

/// Random reads by one, two and four readers.
pub fn run(options: &Options) -> Result<Vec<Comparison>> {
    let image = files::image(&options.directory, options.files_image.as_deref())?;
    let mounted = Mounted::new(&image, "bf/rec16", MEMORY)?;
    let ours = mounted.path().join("data.bin");
    machine::read_rate(&ours)?;
    let null = NullServer::new(0)?;
    let theirs = null.path().join("data");
    let mut comparisons = Vec::new();
    for threads in [1, 2, 4] {
        let (our_rate, their_rate) = rates(&ours, &theirs, threads)?;
        let name = format!("{threads} readers");
        comparisons.push(Comparison::rates(name, our_rate, their_rate, "k/s", 0.8));
    }
    let all = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
    let processes = [mounted.process(), null.process(), std::process::id()];
    for process in processes {
        bind(process, "0")?;
    }
    let bound = rates(&ours, &theirs, 1);
    for process in processes {
        bind(process, &all)?;
    }
    let (our_rate, their_rate) = bound?;
    let name = "1 reader, all on one processor";
    comparisons.push(Comparison::rates(name, our_rate, their_rate, "k/s", 0.8));
    Ok(comparisons)
}
