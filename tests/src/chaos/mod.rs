//! Repair under concurrent commands and crashes: `cargo xtask chaos`.
//!
//! Devices of a pool are taken offline, brought online, replaced, attached, detached and spared
//! while scrubs and resilvers run and a writer writes. Several commands run at once, milliseconds
//! apart, and the daemon is killed or the pool exported in between. The pool may refuse any of
//! them. Afterwards this must hold:
//!
//! - without further commands, it finishes its work in bounded time;
//! - then it reports no problem, so as many devices as its redundancy allows are removed at random,
//!   and every file has its contents;
//! - with all devices, a scrub finds nothing to repair;
//! - the sides that a split takes are complete;
//! - OpenZFS finds no error.

mod draw;
mod session;
mod tree;
mod writer;

use anyhow::Result;
use session::Session;

/// What one run does.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The first session's seed.
    pub seed: u64,
    /// Sessions, each with the seed behind the one before.
    pub count: u64,
    /// Storms in one session.
    pub storms: u32,
    /// OpenZFS judges each so-manieth session.
    pub judge: u64,
}

/// Runs sessions; whether all went well.
///
/// # Errors
/// None of a session: those are printed with its seed and its story.
pub fn run(options: &Options) -> Result<bool> {
    let mut failed = 0;
    for seed in options.seed..options.seed.saturating_add(options.count) {
        let is_judged = options.judge > 0 && seed % options.judge == 0;
        match session(seed, options.storms, is_judged) {
            Ok(layout) => println!("ok   seed {seed} {layout}"),
            Err(error) => {
                failed += 1;
                println!("FAIL seed {seed}: {error:#}");
            }
        }
    }
    let good = options.count - failed;
    println!("{good} of {} sessions went well", options.count);
    Ok(failed == 0)
}

/// One session; the layout that it was about.
///
/// # Errors
/// What was lost, or did not come to rest, with all that was done before.
pub fn session(seed: u64, storms: u32, is_judged: bool) -> Result<String> {
    let mut session = Session::new(seed)?;
    match session.run(storms) {
        Ok(()) => {
            let layout = session.layout.to_owned();
            session.finish(is_judged)?;
            Ok(layout)
        }
        Err(error) => {
            let story = session.abandon();
            Err(error.context(format!("the story:\n{story}\nand then")))
        }
    }
}
