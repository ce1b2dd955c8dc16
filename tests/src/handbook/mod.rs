//! Runs the commands of the documentation, and compares their output.
//!
//! Untested commands in documentation become wrong. So every block of commands in the handbook is
//! run, page by page, in a [`world`] of its own: this machine with other disks and a daemon of its
//! own. A page contains only what readers need; test code is in its comments ([`page`] has the
//! rules). Output on a page is compared line by line, except figures that differ from run to run
//! ([`compare`]).
//!
//! A comment excludes blocks that need another machine, an hour or a web page, and says why. Their
//! number is limited, so that they remain exceptions.

pub mod compare;
pub mod page;
pub mod world;

use crate::golden;
use crate::program::cenote_path;
use anyhow::{Context, Result, bail};
use page::Page;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Where pages with commands are, and how many of their blocks may be left out.
const PLACES: [&str; 4] = [
    "README.md",
    "docs/tutorials",
    "docs/operations",
    "docs/explanations",
];

/// Blocks of all pages that are not run.
pub const NOT_RUN_MAX: usize = 28;

/// Pages that are run at the same time: commands wait for disks and for each other.
const PAGES_AT_ONCE: usize = 3;

/// How the pages did.
#[derive(Debug, Default)]
pub struct Report {
    /// Commands that were run.
    pub commands: usize,
    /// Lines of output that were compared.
    pub lines: usize,
    /// Blocks that were not run: place and reason.
    pub not_run: Vec<String>,
    /// Pages in the order of their names, and how long each took.
    pub pages: Vec<(String, Duration)>,
    /// What was wrong, page by page.
    pub failures: Vec<String>,
}

/// All pages that have commands.
///
/// # Errors
/// A page cannot be read, or its comments are wrong.
pub fn pages() -> Result<Vec<Page>> {
    let root = golden::workspace_root();
    let mut paths: Vec<PathBuf> = Vec::new();
    for place in PLACES {
        let path = root.join(place);
        match path.is_dir() {
            false => paths.push(path),
            true => {
                for entry in std::fs::read_dir(&path)? {
                    let page = entry?.path();
                    // Pictures lie in a directory beside the pages.
                    if page.extension().is_some_and(|kind| kind == "md") {
                        paths.push(page);
                    }
                }
            }
        }
    }
    paths.sort();
    let mut pages = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap_or(&path);
        let name = name.to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).with_context(|| name.clone())?;
        pages.push(Page::parse(&name, &text)?);
    }
    Ok(pages)
}

/// Runs the pages whose names contain one of `words`, or all; prints each as it ends.
///
/// # Errors
/// No page has such a name, or a world cannot be made.
pub fn run(words: &[String]) -> Result<Report> {
    let mut pages = pages()?;
    pages.retain(|page| words.is_empty() || words.iter().any(|word| page.name.contains(word)));
    if pages.is_empty() {
        bail!(
            "no page of the handbook has a name with {}",
            words.join(" or ")
        );
    }
    let (next, report) = (AtomicUsize::new(0), Mutex::new(Report::default()));
    let (program, lock) = (cenote_path(), || report.lock().expect("no page panicked"));
    std::thread::scope(|scope| {
        for _ in 0..PAGES_AT_ONCE {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let begun = Instant::now();
                    let result = run_page(page, &program);
                    let mut report = lock();
                    report.commands += page.commands();
                    report.lines += page.lines();
                    report.not_run.extend(page.not_run.iter().cloned());
                    report.pages.push((page.name.clone(), begun.elapsed()));
                    if let Err(error) = result {
                        report.failures.push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let mut report = report.into_inner().expect("no page panicked");
    report.pages.sort();
    report.failures.sort();
    Ok(report)
}

/// Runs one page, and compares what it shows.
fn run_page(page: &Page, program: &Path) -> Result<()> {
    if page.steps.is_empty() {
        return Ok(());
    }
    let results = world::run(page, program)?;
    for (step, result) in page.steps.iter().zip(&results) {
        let place = format!("{}:{}: {}", page.name, step.line, step.command.trim_end());
        let Some(code) = result.code else {
            bail!("{place}\ndid not end; it had printed\n{}", result.output);
        };
        if code != step.code {
            bail!(
                "{place}\nended with {code}, not {}:\n{}",
                step.code,
                result.output
            );
        }
        if let Some(expected) = &step.expected
            && let Err(difference) = compare::lines(expected, &result.output)
        {
            bail!(
                "{place}\n{difference}\nall that it printed:\n{}",
                result.output
            );
        }
    }
    match results.len() == page.steps.len() {
        true => Ok(()),
        false => bail!("{}: only {} steps were run", page.name, results.len()),
    }
}
