//! Writing beside the bare disk: what the pipeline alone takes from contents to durable blocks.
//!
//! The pools are files below the build directory, written anew each time; nothing above the
//! pipeline takes part. CPU time is that of this process. OpenZFS's engine is measured on the
//! same bytes and layouts by `openzfs-ref bench-write`.

mod engine;
mod machine;

use anyhow::Result;
use std::path::PathBuf;

pub use engine::Layout;

/// What to measure and where.
#[derive(Debug)]
pub struct Options {
    /// Where the pools' files are made.
    pub directory: PathBuf,
    /// The bytes to write; a compressible pattern without.
    pub data: Option<PathBuf>,
    /// MiB to write in each run.
    pub mebibytes: usize,
    /// Layouts to run; all if empty.
    pub layouts: Vec<Layout>,
    /// Compressions to run, by property value; all if empty.
    pub compressions: Vec<String>,
}

/// Runs every layout with every compression and prints a line for each.
pub fn run(options: &Options) -> Result<()> {
    std::fs::create_dir_all(&options.directory)?;
    let layouts = match options.layouts.as_slice() {
        [] => Layout::ALL.to_vec(),
        chosen => chosen.to_vec(),
    };
    let all = ["off", "lz4", "zstd-3", "noise-off", "noise-zstd-3"].map(str::to_owned);
    let compressions = match options.compressions.as_slice() {
        [] => all.to_vec(),
        chosen => chosen.to_vec(),
    };
    println!(
        "{:<28} {:>10} {:>12} {:>12} {:>10}",
        "", "MB/s", "CPU s/GiB", "stored/data", "requests"
    );
    let ceiling = machine::direct_write_rate(&options.directory.join("ceiling"), 512)?;
    println!("{:<28} {ceiling:>10.0}", "disk, 1 MiB at a time");
    for layout in layouts {
        for compression in &compressions {
            let figures = engine::measure(options, layout, compression)?;
            println!(
                "{:<28} {:>10.0} {:>12.2} {:>12.2} {:>10}",
                format!("{} {compression}", layout.name()),
                figures.megabytes_per_second,
                figures.cpu_seconds_per_gib,
                figures.stored_ratio,
                figures.requests
            );
        }
    }
    Ok(())
}
