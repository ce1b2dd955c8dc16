//! `boot`: the packages in a guest with systemd. The guest is in the package `cenote-tests`.

use super::common::version;
use super::making::{build, make_debs};
use crate::{delegate, workspace};
use anyhow::{Context, Result};
use std::path::PathBuf;

/// `boot [--program PATH] [OPTION...]`.
pub fn run(arguments: &[String]) -> Result<bool> {
    let mut program = None;
    let mut rest = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--program" => {
                let path = words.next().context("--program needs a value")?;
                program = Some(PathBuf::from(path));
            }
            _ => rest.push(word.clone()),
        }
    }
    let program = match program {
        Some(program) => program,
        None => build()?,
    };
    let packages = workspace::root().join("target/boot-packages");
    if packages.exists() {
        std::fs::remove_dir_all(&packages)?;
    }
    make_debs(&program, &packages, version().to_owned())?;
    rest.extend(["--packages".to_owned(), packages.display().to_string()]);
    delegate::trial("boot", &rest)
}
