//! `cenote verify` and `zdb -bcc` on the same pools, both cold.

use super::{Comparison, Options, machine, product, rivals};
use anyhow::{Context, Result};
use cenote_tests::referee;
use std::ffi::OsStr;

pub fn run(options: &Options) -> Result<Vec<Comparison>> {
    let cenote = product::program("cenote", "cenote")?;
    let mut comparisons = Vec::new();
    for (name, layout, size) in [("single", "single", "6G"), ("raidz2", "raidz2:6", "2G")] {
        let pool = rivals::data_pool(&options.directory, name, layout, size)?;
        machine::drop_caches()?;
        let verify = ["verify", "--quiet", "-d"].map(OsStr::new);
        let mut words = verify.to_vec();
        words.extend([pool.as_os_str(), OsStr::new(name)]);
        let (ours, _) = machine::seconds(|| rivals::output(&cenote, &words))?;
        machine::drop_caches()?;
        let zdb = referee::find_zdb().context("zdb is not installed")?;
        let mut words = ["-e", "-p"].map(OsStr::new).to_vec();
        words.extend([pool.as_os_str(), OsStr::new("-bcc"), OsStr::new(name)]);
        let (theirs, _) = machine::seconds(|| rivals::output(&zdb, &words))?;
        comparisons.push(Comparison::seconds(
            format!("{layout}, 4 GiB, lz4"),
            ours,
            theirs,
            4.0,
        ));
        let image = std::fs::read_dir(&pool)?.filter_map(|entry| Some(entry.ok()?.path()));
        let image = image
            .filter(|path| path.extension().is_some_and(|e| e == "img"))
            .min();
        if let Some(image) = image {
            let disk = machine::direct_read_rate(&image, 1 << 30)?;
            println!("  (one image by direct 1 MiB reads, with its holes: {disk:.0} MB/s)");
        }
    }
    Ok(comparisons)
}
