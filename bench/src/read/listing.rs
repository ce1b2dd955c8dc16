//! `find -ls` over 100,000 files, cold and warm, beside btrfs with the same files.

use super::mounted::Btrfs;
use super::product::Mounted;
use super::rivals::output;
use super::{Comparison, Options, files, machine};
use anyhow::{Result, ensure};
use std::ffi::OsStr;
use std::path::Path;

const FILES_MIN: usize = 100_000;

fn find(directory: &Path) -> Result<f64> {
    let words = [directory.as_os_str(), OsStr::new("-ls")];
    let (seconds, listing) = machine::seconds(|| output(Path::new("find"), &words))?;
    ensure!(
        listing.lines().count() >= FILES_MIN,
        "the pool of files is not whole"
    );
    Ok(seconds)
}

/// Mounts that are listed, each with caches that were just dropped.
const ROUNDS: usize = 5;

/// Seconds of the first listing of a mount, and of the quickest of three later ones.
#[derive(Clone, Copy)]
struct Times {
    cold: f64,
    warm: f64,
}

fn times(directory: &Path) -> Result<Times> {
    let cold = find(directory)?;
    let runs = (0..3)
        .map(|_| find(directory))
        .collect::<Result<Vec<f64>>>()?;
    let warm = runs.into_iter().fold(f64::INFINITY, f64::min);
    Ok(Times { cold, warm })
}

fn median(rounds: &[Times], of: impl Fn(&Times) -> f64) -> f64 {
    let mut seconds: Vec<f64> = rounds.iter().map(of).collect();
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Lists both in turns, so that what else the machine does meets both.
pub fn run(options: &Options) -> Result<Vec<Comparison>> {
    let image = files::image(&options.directory, options.files_image.as_deref())?;
    let btrfs = {
        let source = Mounted::new(&image, "bf/many", "512M")?;
        Btrfs::new(&options.directory.join("btrfs.raw"), &source.path())?
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mounted = Mounted::new(&image, "bf/many", "512M")?;
        ours.push(times(&mounted.path())?);
        drop(mounted);
        btrfs.mount()?;
        theirs.push(times(btrfs.path())?);
        btrfs.unmount()?;
    }
    let cold = |rounds: &[Times]| median(rounds, |times| times.cold);
    let warm = |rounds: &[Times]| median(rounds, |times| times.warm);
    Ok(vec![
        Comparison::seconds("cold", cold(&ours), cold(&theirs), 1.0),
        Comparison::seconds("warm", warm(&ours), warm(&theirs), 1.0 / 1.5),
    ])
}
