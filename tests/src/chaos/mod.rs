//! Repair put to the test by people who do not wait: `cargo xtask chaos`.
//!
//! Devices of a pool are taken offline, brought back, replaced, attached, detached and spared,
//! while scrubs and resilvers are under way and somebody writes: several commands at once,
//! milliseconds apart, and the daemon is killed or the pool exported in the middle of it. Which
//! commands succeed is the pool's to say. What must be so afterwards:
//!
//! - it comes to rest by itself, in bounded time;
//! - then it says that all is well, so as many devices as its redundancy allows are taken
//!   away, drawn at random, and every file is what it was;
//! - with all devices there, a scrub finds nothing to repair;
//! - the sides that a split takes have everything;
//! - OpenZFS finds no fault.

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
