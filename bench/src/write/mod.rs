//! Writing beside OpenZFS's engine, the kernel's btrfs and XFS, an empty FUSE server and the disk.
//!
//! All write the same bytes to files on the same disk that have their space already; rounds are
//! taken in turns and their medians compared, so that what else the machine does meets all of
//! them. A time ends when `fsync` has returned. Processor time is that of the processes which
//! take part, in the kernel too; what the kernel's file systems take is in threads of the kernel,
//! so for them it is all that the machine did. Mounting and dropping caches need root.

mod engine;
mod files;
pub(crate) mod machine;
mod options;
mod overwrite;
pub(crate) mod product;
mod readback;
pub(crate) mod report;
pub(crate) mod rivals;
mod sequential;
mod workload;

pub use options::Options;

use anyhow::{Result, bail};
use report::Report;

struct Part {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    /// What processor time is counted for.
    per: &'static str,
    /// Runs only when asked for by name.
    is_extra: bool,
    run: fn(&Options) -> Result<Report>,
}

const fn part(
    name: &'static str,
    title: &'static str,
    (unit, per): (&'static str, &'static str),
    run: fn(&Options) -> Result<Report>,
) -> Part {
    Part {
        name,
        title,
        unit,
        per,
        is_extra: false,
        run,
    }
}

const BYTES: (&str, &str) = ("MB/s", "GiB");
const OPERATIONS: (&str, &str) = ("1000/s", "10k");

/// The parts, in the order in which they run.
const PARTS: [Part; 7] = [
    part(
        "sequential",
        "1 MiB writes and fsync",
        BYTES,
        sequential::run,
    ),
    part(
        "incompressible",
        "random bytes, with zstd and without",
        BYTES,
        sequential::incompressible,
    ),
    part(
        "readback",
        "cold sequential reads of both sides' pools",
        BYTES,
        readback::run,
    ),
    part(
        "files",
        "20,000 files of 1 to 10 KiB",
        OPERATIONS,
        files::small,
    ),
    part(
        "overwrite",
        "4 KiB at random places, recordsize 16K",
        OPERATIONS,
        overwrite::run,
    ),
    Part {
        is_extra: true,
        ..part(
            "million",
            "empty files, up to a million",
            OPERATIONS,
            files::million,
        )
    },
    Part {
        is_extra: true,
        ..part("pipeline", "the pipeline alone", BYTES, engine::run)
    },
];

/// Runs the parts and prints a table for each; false if a goal is missed.
pub fn run(options: &Options) -> Result<bool> {
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    let is_known = |name: &&String| names.contains(&name.as_str());
    if let Some(unknown) = options.parts.iter().find(|name| !is_known(name)) {
        bail!("no part '{unknown}'; there are: {}", names.join(", "));
    }
    std::fs::create_dir_all(&options.directory)?;
    let mut good = true;
    let mut results = serde_json::Map::new();
    for part in PARTS {
        let is_chosen = match options.parts.is_empty() {
            true => !part.is_extra,
            false => options.parts.iter().any(|name| name == part.name),
        };
        if !is_chosen {
            continue;
        }
        println!("\n{}: {}", part.name, part.title);
        match (part.run)(options) {
            Ok(report) => {
                good &= report.print(part.unit, part.per);
                results.insert(part.name.to_owned(), report.json());
            }
            Err(error) => {
                println!("  not measured: {error:#}");
                good = false;
            }
        }
    }
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&results)?;
        std::fs::write(path, text)?;
    }
    Ok(good)
}
