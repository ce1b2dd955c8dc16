//! Reads through FUSE.

use super::mounted::NullServer;
use super::product::Mounted;
use super::{Comparison, Options, codecs, machine, rivals};
use anyhow::Result;

/// Enough for all that is read here to stay cached.
const MEMORY: &str = "4G";
const RANDOM_BYTES: u64 = 256 << 20;

/// Cold sequential reads, uncompressed and compressed.
pub fn sequential(options: &Options) -> Result<Vec<Comparison>> {
    let image = rivals::files_image(&options.directory, options.files_image.as_deref())?;
    let mut comparisons = Vec::new();
    for compression in ["off", "lz4", "zstd"] {
        let mounted = Mounted::new(&image, &format!("bf/{compression}"), MEMORY)?;
        let file = mounted.path().join("data.bin");
        let rate = machine::read_rate(&file)?;
        let (name, ceiling) = match compression {
            "off" => {
                machine::drop_caches()?;
                // Behind the labels and the start of the pool lies what was just read.
                let disk = machine::direct_read_rate(&image, 64 << 20, 768 << 20)?;
                (
                    "uncompressed, against the image by O_DIRECT".to_string(),
                    disk,
                )
            }
            kind => {
                let decoder = codecs::decode_rate(kind, &file)?;
                (format!("{kind}, against both cores decoding"), decoder)
            }
        };
        comparisons.push(Comparison::rates(name, rate, ceiling, "MB/s", 0.8));
    }
    Ok(comparisons)
}

/// Random reads of a file that is cached, beside the null server with as many clients.
pub fn random(options: &Options) -> Result<Vec<Comparison>> {
    let image = rivals::files_image(&options.directory, options.files_image.as_deref())?;
    let mounted = Mounted::new(&image, "bf/rec16", MEMORY)?;
    let file = mounted.path().join("data.bin");
    machine::read_rate(&file)?;
    let null = NullServer::new(0)?;
    let mut comparisons = Vec::new();
    for threads in [1, 2, 4] {
        // In turns, so that what else the machine does meets both.
        let (mut ours, mut ceiling) = (0_f64, 0_f64);
        for _ in 0..3 {
            ours = ours.max(machine::random_read_rate(
                &file,
                RANDOM_BYTES,
                threads,
                2.0,
            )?);
            let path = null.path().join("data");
            ceiling = ceiling.max(machine::random_read_rate(
                &path,
                RANDOM_BYTES,
                threads,
                2.0,
            )?);
        }
        let name = format!("{threads} readers");
        comparisons.push(Comparison::rates(name, ours, ceiling, "k/s", 0.8));
    }
    Ok(comparisons)
}
