//! `release`: what is published for a version, in one directory.
//!
//! The version is that of Cargo.toml, and CHANGELOG.md must have a section for it. The directory
//! then has the packages, the section as the release's notes, a list of all components (an SBOM in
//! the form of SPDX), and checksums of everything. Signing is left to a person with a key;
//! SECURITY.md says how.

use crate::package::{make, output, version};
use crate::workspace;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// `release [--program PATH] [--to DIRECTORY] [--draft]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let mut program = workspace::root().join("target/release/cenote");
    let mut directory = workspace::root().join("target/published");
    let mut is_draft = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match word.as_str() {
            "--program" => program = PathBuf::from(value()?),
            "--to" => directory = std::path::absolute(value()?)?,
            "--draft" => is_draft = true,
            other => bail!("'{other}' is not understood; 'cargo xtask help' has the options"),
        }
    }
    let changes = std::fs::read_to_string(workspace::root().join("CHANGELOG.md"))?;
    let notes = match section(&changes, version()) {
        Some(notes) => notes,
        None if is_draft => section(&changes, "Unreleased").unwrap_or_default(),
        None => bail!(
            "CHANGELOG.md has no section '## {}'; rename '## Unreleased', or use --draft",
            version()
        ),
    };
    let said = output(Command::new(&program).arg("version"))?;
    ensure!(
        said.contains(version()),
        "{} is another version: {}",
        program.display(),
        said.trim()
    );
    let mut files = make(&program, &directory, version().to_owned())?;
    let written = [
        ("NOTES.md", notes),
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
    let sums = checksums(&directory, &files)?;
    std::fs::write(directory.join("SHA256SUMS"), sums)?;
    println!(
        "{}: {} files and SHA256SUMS",
        directory.display(),
        files.len()
    );
    println!("Sign it as SECURITY.md says before it is published.");
    Ok(true)
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
