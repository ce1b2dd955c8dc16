//! The real daemon killed under load, again and again: `cargo xtask torture`.
//!
//! A session is a pool of some layout and a set of loads, each on a file system of its own:
//! databases, fio, an untar, a storm of small synced files. All of them run at once until the
//! daemon is killed at a moment drawn at random; sometimes the next daemon is killed as well,
//! while it imports. Then each load looks at what it finds:
//!
//! - Data acknowledged as durable is there and complete. Each load has a ledger of it in memory:
//!   the operations whose calls returned.
//! - Data that was not acknowledged is there or not, and never in part if the load's own order of
//!   syncs forbids that.
//! - The load's own checker finds no error: SQLite's `integrity_check`, PostgreSQL's recovery and
//!   `pg_amcheck`, the checksums that fio writes into its blocks.
//!
//! Every few kills the pool is verified by us and judged by OpenZFS. With `--foreign` the kernel
//! module of OpenZFS, in a small guest, replays what a kill left in our logs, and we replay what
//! a power cut left in its logs.
//!
//! A kill loses what is in the daemon's memory and nothing that it gave to the kernel: power cuts
//! are the business of the recorder (`cargo xtask recorder`) and of the simulator.

mod count;
mod fio;
mod foreign;
mod load;
mod loads;
mod mail;
mod options;
mod postgresql;
mod session;
mod sqlite;
mod untar;

use anyhow::Result;
use count::Counts;

pub use options::Options;

/// Runs sessions until there were so many kills; whether nothing was lost.
///
/// # Errors
/// If the counts cannot be read or written, or a load is not known. What sessions find is printed
/// with its seed and counted.
pub fn run(options: &Options) -> Result<bool> {
    loads::check_names(&options.loads)?;
    let mut counts = Counts::load(options.json.as_deref())?;
    while counts.kills < options.kills {
        let seed = options.seed + counts.sessions;
        let kills = options.session.min(options.kills - counts.kills);
        match session::run(seed, kills, options, &mut counts) {
            Ok(story) => println!("ok   seed {seed}: {story}"),
            Err(error) => {
                counts.failed.push(format!("seed {seed}: {error:#}"));
                println!("FAIL seed {seed}: {error:#}");
            }
        }
        counts.sessions += 1;
        counts.save(options.json.as_deref())?;
        println!("     {}", counts.summary());
    }
    while counts.foreign < options.foreign {
        let seed = options.seed + 1_000_000 + counts.foreign;
        match foreign::run(seed) {
            Ok(Some(story)) => println!("ok   foreign {seed}: {story}"),
            Ok(None) => break,
            Err(error) => {
                counts.failed.push(format!("foreign {seed}: {error:#}"));
                println!("FAIL foreign {seed}: {error:#}");
            }
        }
        counts.foreign += 1;
        counts.save(options.json.as_deref())?;
    }
    println!("{}", counts.summary());
    Ok(counts.failed.is_empty())
}
