//! `release`: what is published for a version, in one directory.
//!
//! The version is that of Cargo.toml, and CHANGELOG.md must have a section for it, made by
//! `cargo xtask notes`, with no notes left out. The program is built from a tree without changes.
//! The directory then has the packages, the manual pages and the handbook as archives, the section
//! as the release's notes, a list of all components (an SBOM in the form of SPDX), and checksums of
//! everything. Signing is left to a person with a key; SECURITY.md says how.

use crate::package::{build, make, output, version};
use crate::{book, notes, workspace};
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The words of the command line.
struct Options {
    program: Option<PathBuf>,
    directory: PathBuf,
    is_draft: bool,
    has_handbook: bool,
}

/// `release [--program PATH] [--to DIRECTORY] [--draft] [--no-handbook]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let options = options(arguments)?;
    if !options.is_draft {
        let changed = output(workspace::git().args(["status", "--porcelain"]))?;
        ensure!(
            changed.is_empty(),
            "the working tree has changes that are not committed; commit them, or use --draft:\n\
             {changed}"
        );
    }
    let text = notes_of_this_version(options.is_draft)?;
    let directory = &options.directory;
    let program = match options.program {
        Some(program) => program,
        None => build()?,
    };
    let said = output(Command::new(&program).arg("version"))?;
    ensure!(
        said.contains(version()),
        "{} is another version: {}",
        program.display(),
        said.trim()
    );
    let mut files = make(&program, directory, version().to_owned())?;
    files.push(manual(&program, directory)?);
    if options.has_handbook {
        files.push(handbook(&program, directory)?);
    }
    let written = [
        ("NOTES.md", text),
        (
            "sbom.spdx.json",
            serde_json::to_string_pretty(&components()?)?,
        ),
    ];
    for (name, text) in written {
        let path = directory.join(name);
        std::fs::write(&path, text)?;
        files.push(path);
    }
    let sums = checksums(directory, &files)?;
    std::fs::write(directory.join("SHA256SUMS"), sums)?;
    println!(
        "{}: {} files and SHA256SUMS",
        directory.display(),
        files.len()
    );
    println!("Sign it as SECURITY.md says before it is published.");
    Ok(true)
}

fn options(arguments: &[String]) -> Result<Options> {
    let mut options = Options {
        program: None,
        directory: workspace::root().join("target/published"),
        is_draft: false,
        has_handbook: true,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--program" => options.program = Some(PathBuf::from(value()?)),
            "--to" => options.directory = std::path::absolute(value()?)?,
            "--draft" => options.is_draft = true,
            "--no-handbook" => options.has_handbook = false,
            other => bail!("'{other}' is not understood; 'cargo xtask help' has the options"),
        }
    }
    Ok(options)
}

/// The section of the changelog, or of a draft the notes that are in no section yet.
fn notes_of_this_version(is_draft: bool) -> Result<String> {
    let changes = std::fs::read_to_string(workspace::root().join("CHANGELOG.md"))?;
    let pending = notes::pending()?;
    match section(&changes, version()) {
        _ if is_draft && !pending.is_empty() => Ok(pending),
        Some(_) if !pending.is_empty() => bail!(
            "changelog/ has notes that are not in CHANGELOG.md: raise the version in Cargo.toml \
             and run 'cargo xtask notes', or use --draft"
        ),
        Some(text) => Ok(text),
        None => bail!(
            "CHANGELOG.md has no section '## {}'; run 'cargo xtask notes', or use --draft",
            version()
        ),
    }
}

/// The manual pages, for systems without a package.
fn manual(program: &Path, directory: &Path) -> Result<PathBuf> {
    let pages = directory.join("tree/man");
    if pages.exists() {
        std::fs::remove_dir_all(&pages)?;
    }
    output(Command::new(program).args(["man", "--to"]).arg(&pages))?;
    archive(directory, "man", &pages)
}

/// The handbook as a site.
fn handbook(program: &Path, directory: &Path) -> Result<PathBuf> {
    let site = directory.join("tree/book");
    ensure!(book::make(program, &site)?, "the handbook has dead links");
    archive(directory, "handbook", &site.join("html"))
}

/// The files below `tree` as `cenote-WHAT-VERSION.tar.gz`. The archive is the same whenever it is
/// made.
fn archive(directory: &Path, what: &str, tree: &Path) -> Result<PathBuf> {
    let name = format!("cenote-{what}-{}", version());
    let path = directory.join(format!("{name}.tar.gz"));
    let date = output(workspace::git().args(["log", "-1", "--format=%cI"]))?;
    let mut tar = Command::new("tar");
    tar.args([
        "--create",
        "--gzip",
        "--sort=name",
        "--owner=0",
        "--group=0",
    ]);
    tar.args(["--numeric-owner", "--mtime", date.trim()]);
    tar.arg("--transform").arg(format!("s,^\\.,{name},"));
    tar.arg("--file").arg(&path).arg("--directory").arg(tree);
    output(tar.arg("."))?;
    Ok(path)
}

/// A section of the changelog, without its title.
fn section(changes: &str, version: &str) -> Option<String> {
    let is_title = |line: &str| {
        let title = line.strip_prefix("## ")?;
        let word = title.split([' ', ']']).next().unwrap_or_default();
        Some(word.trim_start_matches('[') == version)
    };
    let mut lines = changes.lines();
    lines.find(|line| is_title(line) == Some(true))?;
    let body = lines.take_while(|line| is_title(line).is_none());
    let body: Vec<&str> = body.collect();
    Some(format!("{}\n", body.join("\n").trim()))
}

fn checksums(directory: &Path, files: &[PathBuf]) -> Result<String> {
    let mut sum = Command::new("sha256sum");
    sum.current_dir(directory);
    for file in files {
        sum.arg(file.file_name().unwrap_or_default());
    }
    output(&mut sum)
}

/// All crates in the program: those that it is built from on this system.
fn components() -> Result<Value> {
    let mut cargo = workspace::cargo();
    cargo.args(["tree", "--locked", "--package", "cenote"]);
    cargo.args(["--edges", "normal,build", "--prefix", "none", "--no-dedupe"]);
    let tree = output(cargo.args(["--format", "{p}|{l}"]))?;
    let lines: BTreeSet<&str> = tree.lines().collect();
    let packages: Vec<Value> = lines.into_iter().filter_map(component).collect();
    ensure!(packages.len() > 1, "cargo lists no crates");
    Ok(json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("cenote-{}", version()),
        "documentNamespace": format!("urn:cenote:sbom:{}", version()),
        "creationInfo": { "creators": ["Tool: cargo xtask release"], "created": now()? },
        "packages": packages,
    }))
}

/// A crate of a line `NAME vVERSION (PLACE)|LICENCE`.
fn component(line: &str) -> Option<Value> {
    let (package, license) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    let id = format!("SPDXRef-{name}-{version}");
    let id = id.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
    Some(json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "licenseDeclared": license.replace('/', " OR "),
        "downloadLocation": "NOASSERTION",
        "externalRefs": [{
            "referenceCategory": "PACKAGE-MANAGER",
            "referenceType": "purl",
            "referenceLocator": format!("pkg:cargo/{name}@{version}"),
        }],
    }))
}

/// The date as SPDX writes it.
fn now() -> Result<String> {
    let date = output(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ"]))?;
    Ok(date.trim().to_owned())
}
