//! Reading pools beside OpenZFS, kernel btrfs, an empty FUSE server and the bare disk.
//!
//! Each part prints what was measured, the rival's figure from the same run, their ratio and the
//! ratio that is wanted. Pools are made once, those of `verify` by OpenZFS itself, and kept
//! below the build directory. Caches are dropped before what is called cold, which needs root.

mod codecs;
mod comparison;
mod files;
mod listing;
pub(crate) mod machine;
mod memory;
pub(crate) mod mounted;
mod options;
pub(crate) mod product;
mod random;
pub(crate) mod rivals;
mod stream;
mod verify;

pub use comparison::Comparison;
pub use machine::PageBuffer;
pub use options::Options;

use anyhow::{Result, bail};

type Part = fn(&Options) -> Result<Vec<Comparison>>;

/// The parts, in the order in which they run.
const PARTS: &[(&str, &str, Part)] = &[
    ("verify", "cenote verify, against zdb -bcc", verify::run),
    (
        "checksums",
        "checksums, against OpenZFS's fastest",
        codecs::checksums,
    ),
    (
        "raidz",
        "parity, against raidz_test's fastest",
        codecs::raidz,
    ),
    (
        "stream",
        "1 MiB reads through FUSE, against disk and decoder",
        stream::sequential,
    ),
    (
        "random",
        "4 KiB reads from a warm cache, against an empty server",
        random::run,
    ),
    (
        "listing",
        "find -ls of 100,000 files, against btrfs",
        listing::run,
    ),
    (
        "memory",
        "peak memory of import and cp -a of golden pools",
        memory::run,
    ),
];

/// Runs the parts; false if a ratio is below what is wanted.
pub fn run(options: &Options) -> Result<bool> {
    let known = |name: &String| PARTS.iter().any(|(part, ..)| part == name);
    if let Some(unknown) = options.parts.iter().find(|name| !known(name)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, ..)| *name).collect();
        bail!("no part '{unknown}'; there are: {}", names.join(", "));
    }
    std::fs::create_dir_all(&options.directory)?;
    let mut good = true;
    for (name, title, part) in PARTS {
        if !options.parts.is_empty() && !options.parts.iter().any(|wanted| wanted == name) {
            continue;
        }
        println!("\n{name}: {title}");
        println!(
            "  {:<44} {:>16} {:>16} {:>7} {:>7}",
            "", "cenote", "rival/ceiling", "ratio", "wanted"
        );
        match part(options) {
            Ok(comparisons) => {
                comparisons.iter().for_each(Comparison::print);
                good &= comparisons.iter().all(|c| c.ratio >= c.wanted);
            }
            Err(error) => {
                println!("  not measured: {error:#}");
                good = false;
            }
        }
    }
    Ok(good)
}
