//! The rules of STYLE.md that a program can check.
//!
//! Rules that are not checked are not kept, and a check that needs a compiler plugin is too much
//! work. So these checks work on text: [`source::Source`] blanks out strings and comments, and what
//! is left is simple enough to count braces in. They see every file that is not ignored by its
//! place (`target`, hidden directories), committed or not.
//!
//! An exception is a comment at the place, with the reason: `tidy: allow(RULE, REASON)` behind
//! `//`, on one of the three lines above or in the line itself.

mod circles;
mod dependencies;
mod door;
mod english;
mod items;
mod layers;
mod links;
mod modules;
mod problem;
mod rooms;
mod sizes;
mod source;
mod uses;
mod words;

use anyhow::{Context, Result};
pub use problem::Problem;
use problem::TextFile;
use source::Source;
use std::path::{Path, PathBuf};

/// Everything in the workspace at `root` that breaks a rule, in order of place.
pub fn check(root: &Path) -> Result<Vec<Problem>> {
    let files = text_files(root)?;
    let mut problems = Vec::new();
    let packages = layers::packages(root)?;
    let mut english = english::Count::default();
    for file in &files {
        words::check_text(file, &mut problems);
        if file.is_rust() {
            let source = Source::new(&file.text);
            sizes::check(file, &source, &mut problems);
            words::check_rust(file, &source, &mut problems);
            door::check(file, &source, &mut problems);
            english.add(file, &source, &packages);
        }
    }
    links::check(root, &files, &mut problems);
    modules::check(&files, &mut problems);
    circles::check(&files, &mut problems);
    english.check(&mut problems);
    layers::check(&packages, &mut problems);
    layers::check_crate_attributes(&packages, &files, &mut problems);
    rooms::check(&packages, &files, &mut problems);
    dependencies::check(&packages, &files, &mut problems);
    problems.sort();
    problems.dedup();
    Ok(problems)
}

/// The text files below `root`. Hidden directories and build results are skipped.
fn text_files(root: &Path) -> Result<Vec<TextFile>> {
    let mut files = Vec::new();
    let mut pending: Vec<PathBuf> = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("cannot list {}", directory.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
                let generated = ["target", "corpus", "artifacts", "seeds"].contains(&name.as_str());
                if !hidden && !generated {
                    pending.push(entry.path());
                }
            } else if kind.is_file() && name != ".git" {
                // In a further working tree `.git` is a file, of git's own.
                files.extend(read_text(root, &entry.path())?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// The file at `path`, unless it is one of bytes or one that a tool writes.
fn read_text(root: &Path, path: &Path) -> Result<Option<TextFile>> {
    let relative = path.strip_prefix(root).context("a file below the root")?;
    let relative = relative.to_string_lossy().replace('\\', "/");
    let written_by_tools = [
        "Cargo.lock",
        ".json",
        ".zst",
        ".img",
        "/zfs-get.txt",
        "/zdb.txt",
    ];
    if written_by_tools
        .iter()
        .any(|suffix| relative.ends_with(suffix))
    {
        return Ok(None);
    }
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        // An editor's temporary file, gone since the directory was listed.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {relative}")),
    };
    let text = String::from_utf8(bytes).ok();
    Ok(text.map(|text| TextFile {
        path: relative,
        text,
    }))
}
