//! Sequential reads through FUSE, beside what the disk, the decoders and the transport give.
//!
//! The file system's part of the time is what is left when the ceiling's is taken away, so both
//! are measured in turns and the medians compared: a virtual machine's neighbours then disturb
//! both. Three ceilings hold, and the lowest counts: the disk's rate, times the ratio where blocks
//! are compressed; what both processors decompress; what an empty FUSE server sends. Decoding and
//! sending take the same processors, so what both together allow is shown too.

use super::mounted::NullServer;
use super::product::Mounted;
use super::{Comparison, Options, codecs, files, machine};
use anyhow::Result;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Enough for the largest file as stored, too little for any of them decoded.
const MEMORY: &str = "2G";
const ROUNDS: usize = 3;
/// Bytes read from the disk and from the empty server.
const CEILING_BYTES: u64 = 768 << 20;
/// Of the lowest ceiling.
const WANTED: f64 = 0.8;

/// What was measured in one round, in MB/s.
#[derive(Clone, Copy, Default)]
struct Round {
    cold: f64,
    warm: f64,
    disk: f64,
    decoding: f64,
    empty: f64,
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One round; and how many times the file's size on disk its contents are.
fn round(image: &Path, compression: &str, null: &NullServer) -> Result<(Round, f64)> {
    let mounted = Mounted::new(image, &format!("bf/{compression}"), MEMORY)?;
    let file = mounted.path().join("data.bin");
    let metadata = std::fs::metadata(&file)?;
    let ratio = metadata.len() as f64 / (metadata.blocks() * 512) as f64;
    let cold = machine::read_rate(&file)?;
    let warm = machine::read_rate(&file)?;
    let decoding = match compression {
        "off" => f64::INFINITY,
        kind => codecs::decode_rate(kind, &file)?,
    };
    drop(mounted);
    machine::drop_caches()?;
    let disk = machine::direct_read_rate(image, CEILING_BYTES)?;
    let empty = machine::read_rate_of(&null.path().join("data"), CEILING_BYTES)?;
    let round = Round {
        cold,
        warm,
        disk,
        decoding,
        empty,
    };
    Ok((round, ratio.max(1.0)))
}

/// Cold and warm reads of one file.
fn measure(image: &Path, compression: &str, null: &NullServer) -> Result<Vec<Comparison>> {
    let (mut rounds, mut ratio) = (Vec::new(), 1.0);
    for _ in 0..ROUNDS {
        let (measured, found) = round(image, compression, null)?;
        rounds.push(measured);
        ratio = found;
    }
    let disk = median(&rounds, |round| round.disk) * ratio;
    let decoding = median(&rounds, |round| round.decoding);
    let empty = median(&rounds, |round| round.empty);
    let (cold, warm) = (
        median(&rounds, |round| round.cold),
        median(&rounds, |round| round.warm),
    );
    let compare = |name: String, ours, ceiling, wanted| {
        Comparison::rates(
            format!("{compression}, {name}"),
            ours,
            ceiling,
            "MB/s",
            wanted,
        )
    };
    let by_disk = match compression {
        "off" => "cold, of O_DIRECT".to_owned(),
        _ => format!("cold, of O_DIRECT x {ratio:.2}"),
    };
    let mut comparisons = Vec::new();
    // A cold read is held to the lower of its two ceilings; the other is shown.
    let wanted_if = |holds: bool| if holds { WANTED } else { 0.0 };
    comparisons.push(compare(by_disk, cold, disk, wanted_if(disk < decoding)));
    if decoding.is_finite() {
        let name = "cold, of both processors decoding".to_owned();
        comparisons.push(compare(name, cold, decoding, wanted_if(disk >= decoding)));
        let name = "cached as stored, of both decoding".to_owned();
        comparisons.push(compare(name, warm, decoding, WANTED));
        // An empty server keeps one processor busy; its work comes on top of the decoders'.
        let both = 1.0 / (1.0 / decoding + 0.5 / empty);
        let name = "cached as stored, of decoding and sending".to_owned();
        comparisons.push(compare(name, warm, both, 0.0));
    }
    comparisons.push(compare(
        "cached, of an empty server".to_owned(),
        warm,
        empty,
        0.0,
    ));
    Ok(comparisons)
}

/// Sequential reads, uncompressed and compressed.
pub fn sequential(options: &Options) -> Result<Vec<Comparison>> {
    let image = files::image(&options.directory, options.files_image.as_deref())?;
    let null = NullServer::new(0)?;
    let mut comparisons = Vec::new();
    for compression in ["off", "lz4", "zstd"] {
        comparisons.extend(measure(&image, compression, &null)?);
    }
    Ok(comparisons)
}
