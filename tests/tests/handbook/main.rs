//! The handbook is correct: its commands work, and their output is as shown.
//!
//! A program of its own, because each page gets a mount namespace of its own. It would begin with a
//! copy of what other tests have mounted at that moment, and their pools could not be exported.

use cenote_tests::handbook::{self, NOT_RUN_MAX, world};
use cenote_tests::skip;

/// Every command of the tutorials and of the pages about operation, as a reader would type it.
#[test]
fn the_commands_of_the_handbook_work() {
    if let Some(obstacle) = world::obstacle() {
        skip!("{obstacle}");
        return;
    }
    let report = handbook::run(&[]).expect("pages");
    assert!(
        report.failures.is_empty(),
        "{}",
        report.failures.join("\n\n")
    );
    assert!(report.commands > 100, "only {} commands", report.commands);
}

/// Leaving a block out is an exception: it has a reason, and there are few.
#[test]
fn few_blocks_of_the_handbook_are_left_out() {
    let pages = handbook::pages().expect("pages");
    let left_out: Vec<&String> = pages.iter().flat_map(|page| &page.not_run).collect();
    assert!(
        left_out.len() <= NOT_RUN_MAX,
        "{} blocks are not run, and at most {NOT_RUN_MAX} may be: {left_out:#?}",
        left_out.len()
    );
}
