//! `find -ls` over 100,000 files, cold and warm, beside btrfs with the same files.

use super::mounted::Btrfs;
use super::product::Mounted;
use super::rivals::output;
use super::{Comparison, Options, machine, rivals};
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

/// The best of three warm runs.
fn warm(directory: &Path) -> Result<f64> {
    let runs = (0..3)
        .map(|_| find(directory))
        .collect::<Result<Vec<f64>>>()?;
    Ok(runs.into_iter().fold(f64::INFINITY, f64::min))
}

pub fn run(options: &Options) -> Result<Vec<Comparison>> {
    let image = rivals::files_image(&options.directory, options.files_image.as_deref())?;
    let btrfs = {
        let source = Mounted::new(&image, "bf/many", "512M")?;
        Btrfs::new(&options.directory.join("btrfs.raw"), &source.path())?
    };
    let mounted = Mounted::new(&image, "bf/many", "512M")?;
    let (ours_cold, ours_warm) = (find(&mounted.path())?, warm(&mounted.path())?);
    drop(mounted);
    btrfs.mount()?;
    let (theirs_cold, theirs_warm) = (find(btrfs.path())?, warm(btrfs.path())?);
    btrfs.unmount()?;
    Ok(vec![
        Comparison::seconds("cold", ours_cold, theirs_cold, 1.0),
        Comparison::seconds("warm", ours_warm, theirs_warm, 1.0 / 1.5),
    ])
}
