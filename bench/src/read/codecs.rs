//! Checksums, parity and decompression beside OpenZFS's implementations.

use super::{Comparison, Options, rivals};
use crate::codec;
use anyhow::{Context, Result, bail};
use cenote_codec::compress::{Compression, compress, decompress};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

const SECONDS: f64 = 8.0;
const RECORD: usize = 128 << 10;

/// Each checksum at 4 KiB and 128 KiB, against the fastest implementation in OpenZFS.
pub fn checksums(_: &Options) -> Result<Vec<Comparison>> {
    let referee = rivals::tool("openzfs-ref")?;
    let words = [
        "bench-checksum",
        "--json",
        "--seconds",
        "0.5",
        "--sizes",
        "4096,131072",
    ];
    let text = rivals::output(&referee, &words.map(OsStr::new))?;
    let rows: Vec<BTreeMap<String, serde_json::Value>> = serde_json::from_str(&text)?;
    let mut comparisons = Vec::new();
    for rate in codec::checksums(SECONDS) {
        let size = rate.block_bytes.to_string();
        let same = rows
            .iter()
            .filter(|row| row["checksum"] == rate.name.as_str());
        let theirs = same
            .filter_map(|row| row.get(&size)?.as_f64())
            .fold(0.0, f64::max);
        let name = format!("{} {} KiB", rate.name, rate.block_bytes >> 10);
        let ours = rate.gb_per_second * 1e3;
        comparisons.push(Comparison::rates(name, ours, theirs, "MB/s", 1.0));
    }
    Ok(comparisons)
}

/// The best figure of `raidz_test -B` by operation and block size, in MiB/s of one disk.
fn raidz_test() -> Result<BTreeMap<(String, usize), f64>> {
    let text = rivals::output(Path::new("raidz_test"), &[OsStr::new("-B")])?;
    let mut best = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let [_, operation, _, size, disk, ..] = fields.as_slice() else {
            continue;
        };
        let (Ok(size), Ok(disk)) = (size.parse::<usize>(), disk.parse::<f64>()) else {
            continue;
        };
        let slot = best.entry(((*operation).to_owned(), size)).or_insert(0.0);
        *slot = disk.max(*slot);
    }
    if best.is_empty() {
        bail!("raidz_test -B printed no figures");
    }
    Ok(best)
}

/// Generating and reconstructing each layout; the block size with the worst ratio is shown.
pub fn raidz(_: &Options) -> Result<Vec<Comparison>> {
    let theirs = raidz_test()?;
    let mut worst: BTreeMap<String, Comparison> = BTreeMap::new();
    for rate in codec::parity(3.0 * SECONDS) {
        let Some(rival) = theirs.get(&(rate.name.clone(), rate.block_bytes)) else {
            continue;
        };
        let name = format!("{}, worst at {} KiB", rate.name, rate.block_bytes >> 10);
        let found = Comparison::rates(name, rate.disk_bandwidth(), *rival, "MiB/s", 1.5);
        match worst.get(&rate.name) {
            Some(known) if known.ratio <= found.ratio => {}
            _ => drop(worst.insert(rate.name, found)),
        }
    }
    Ok(worst.into_values().collect())
}

/// MB/s of file contents that two threads decompress, of the records that `file` begins with.
pub fn decode_rate(kind: &str, file: &Path) -> Result<f64> {
    let (codec, level) = match kind {
        "lz4" => (Compression::Lz4, 0),
        "zstd" => (Compression::Zstd, 3),
        _ => bail!("no decoder for {kind}"),
    };
    let mut contents = vec![0; 64 << 20];
    std::os::unix::fs::FileExt::read_exact_at(&std::fs::File::open(file)?, &mut contents, 0)?;
    let encode = |record: &[u8]| {
        let mut out = vec![0; RECORD];
        let length = compress(codec, level, record, RECORD - RECORD / 8, &mut out);
        out.truncate(length.context("the data does not compress")?);
        Ok(out)
    };
    let records = contents
        .chunks_exact(RECORD)
        .map(encode)
        .collect::<Result<Vec<Vec<u8>>>>()?;
    let rounds = 8;
    let work = || {
        let mut record = vec![0; RECORD];
        for stored in records.iter().cycle().take(records.len() * rounds) {
            decompress(codec, stored, &mut record).expect("what was just compressed");
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let bytes = 2 * rounds * records.len() * RECORD;
    Ok(bytes as f64 / 1e6 / start.elapsed().as_secs_f64())
}
