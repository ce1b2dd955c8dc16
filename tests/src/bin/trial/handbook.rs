//! `cargo xtask book --test`: the commands of the handbook, page by page.

use anyhow::{Result, bail};
use cenote_tests::handbook::{self, world};
use cenote_tests::words::{self, Words};
use std::process::ExitCode;

/// Runs it with the words of its command line.
pub fn main(words: Words) -> ExitCode {
    words::end("handbook", run(words))
}

fn run(words: Words) -> Result<bool> {
    if let Some(obstacle) = world::obstacle() {
        bail!("{obstacle}");
    }
    let words: Vec<String> = words.collect();
    let report = handbook::run(&words)?;
    for (page, time) in &report.pages {
        println!("{:>6.1} s  {page}", time.as_secs_f64());
    }
    for place in &report.not_run {
        println!("not run  {place}");
    }
    for failure in &report.failures {
        println!("\n{failure}");
    }
    println!(
        "{} pages: {} commands were run, {} lines of output compared, {} blocks not run, \
         {} failures",
        report.pages.len(),
        report.commands,
        report.lines,
        report.not_run.len(),
        report.failures.len()
    );
    Ok(report.failures.is_empty())
}
