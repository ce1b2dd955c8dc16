//! Reads through FUSE.

use super::product::Mounted;
use super::{Comparison, Options, codecs, machine, rivals};
use anyhow::Result;

/// Enough for all that is read here to stay cached.
const MEMORY: &str = "4G";

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
