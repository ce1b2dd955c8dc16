//! A random history of datasets and snapshots, a small share of what `cargo xtask history` does.

use anyhow::{Context, Result};
use cenote_tests::history::{self, Options};

/// `CENOTE_SEED` chooses what is done.
#[test]
fn commands_keep_to_the_model() -> Result<()> {
    if !cenote_tests::pool::can_mount() {
        return Ok(());
    }
    let seed = std::env::var("CENOTE_SEED").ok();
    let seed = seed.map_or(Ok(3), |seed| seed.parse())?;
    let options = Options {
        seed,
        steps: 200,
        judge_interval: 1000,
        kills: 1,
    };
    let report = history::run(&options).with_context(|| format!("seed {seed}"))?;
    println!("seed {seed}: {report:?}");
    Ok(())
}
