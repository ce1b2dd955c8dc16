//! `book`: the handbook, one site of all documents and the manual pages.
//!
//! The documents stay where people find them in the repository. They are copied to a directory in
//! `target`, with the manual pages beside them, which the program makes from its tables
//! ([`manual`]); mdBook makes a site of that. `docs/SUMMARY.md` is the table of contents. A link to
//! something that the site has not, such as a source file, becomes plain text there. Afterwards
//! every link of the site is followed ([`site`]).
//!
//! `--test` runs the commands of the handbook instead; they are in the package `cenote-tests`.

mod manual;
mod site;
mod staging;

use crate::{delegate, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What makes the site.
const MDBOOK: &str = "mdbook";

/// Its releases that take `docs/book.toml` as it is.
const MDBOOK_VERSION: &str = "0.5";

/// `book [--program PATH] [--to DIRECTORY] | --test [PAGE...]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    if let Some((first, pages)) = arguments.split_first()
        && first == "--test"
    {
        return delegate::trial("handbook", pages);
    }
    let mut program = None;
    let mut directory = workspace::root().join("target/book");
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--program" => program = Some(PathBuf::from(value()?)),
            "--to" => directory = std::path::absolute(value()?)?,
            other => bail!("'{other}' is not understood; 'cargo xtask help' has the options"),
        }
    }
    let program = match program.or_else(|| std::env::var_os("CENOTE_BIN").map(PathBuf::from)) {
        Some(program) => program,
        None => crate::package::build()?,
    };
    make(&program, &directory)
}

/// mdBook is a tool of developers, as fio and QEMU are: it is not built with the workspace.
fn check_version() -> Result<()> {
    let advice = format!("run 'cargo install {MDBOOK} --version ^{MDBOOK_VERSION} --locked'");
    let output = Command::new(MDBOOK).arg("--version").output();
    let output = output.with_context(|| format!("{MDBOOK} is not installed: {advice}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.trim().rsplit(['v', ' ']).next().unwrap_or_default();
    ensure!(
        version.starts_with(&format!("{MDBOOK_VERSION}.")),
        "{MDBOOK} {version} is not of the series {MDBOOK_VERSION}: {advice}"
    );
    Ok(())
}

/// Makes the site below `directory/html`; whether all its links lead somewhere.
pub fn make(program: &Path, directory: &Path) -> Result<bool> {
    check_version()?;
    let source = directory.join("src");
    if source.exists() {
        std::fs::remove_dir_all(&source)?;
    }
    let pages = manual::write(program, &source.join("reference"))?;
    let count = staging::stage(&workspace::root(), directory, &pages)?;
    let mut mdbook = Command::new(MDBOOK);
    ensure!(
        workspace::succeeds(mdbook.arg("build").arg(directory))?,
        "{MDBOOK} failed"
    );
    let html = directory.join("html");
    let problems = site::check(&html)?;
    for problem in &problems {
        println!("{problem}");
    }
    println!(
        "{}: {count} documents and {} manual pages, {} links lead nowhere",
        html.join("index.html").display(),
        pages.len(),
        problems.len()
    );
    Ok(problems.is_empty())
}
