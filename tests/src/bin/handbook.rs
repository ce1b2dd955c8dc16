//! `cargo xtask book --test`: the commands of the handbook, page by page.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use cenote_tests::handbook::{self, world};
use cenote_tests::words;
use std::process::ExitCode;

fn main() -> ExitCode {
    words::end("handbook", run())
}

fn run() -> Result<bool> {
    if let Some(obstacle) = world::obstacle() {
        bail!("{obstacle}");
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
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
