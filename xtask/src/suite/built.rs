//! Building the test programs, and finding them: Cargo prints a line of JSON for each.

use crate::workspace;
use anyhow::{Context, Result};
use serde_json::Value;
use std::cmp::Reverse;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What was built.
#[derive(Debug, Default)]
pub struct Built {
    /// The test programs, the heaviest first.
    pub programs: Vec<Program>,
    /// The program `cenote`, which the end-to-end tests run.
    pub cenote: Option<PathBuf>,
    /// Cargo's target directory.
    pub target: PathBuf,
    /// What the compiler warned of in the workspace, or the lints if they compiled it.
    pub warnings: usize,
}

/// A test program.
#[derive(Debug)]
pub struct Program {
    /// The package, and the test target in it.
    pub name: String,
    /// Where the program is.
    pub path: PathBuf,
    /// The package's directory, in which its tests run.
    pub directory: PathBuf,
    /// Its length in bytes.
    length: u64,
}

/// Builds all tests; `None` if that fails. Cargo has said why then.
pub fn build() -> Result<Option<Built>> {
    let mut command = workspace::cargo();
    command.args(["test", "--workspace", "--locked", "--no-run"]);
    command.args(["--message-format", "json-diagnostic-rendered-ansi"]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut built = Built::default();
    let output = child.stdout.take().expect("it is a pipe");
    for line in BufReader::new(output).lines() {
        built.take(&serde_json::from_str(&line?).context("Cargo's messages")?);
    }
    if !child.wait()?.success() {
        return Ok(None);
    }
    let one = built.programs.first();
    let one = one.context("the workspace has no tests")?;
    // TARGET/debug/deps/PROGRAM
    let target = one.path.ancestors().nth(3);
    built.target = target
        .context("a program outside the target directory")?
        .into();
    // The end-to-end tests take longest by far, the others about as long as they are large.
    let is_end_to_end = |program: &Program| program.name.starts_with("tests ");
    built
        .programs
        .sort_by_key(|program| (!is_end_to_end(program), Reverse(program.length)));
    Ok(Some(built))
}

impl Built {
    /// Takes up a message of Cargo's, if it is of a program or a warning.
    fn take(&mut self, message: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(rendered) = message["message"]["rendered"].as_str() {
            eprint!("{rendered}");
            self.warnings += usize::from(message["message"]["level"] == "warning");
        }
        let Some(path) = text(&message["executable"]) else {
            return;
        };
        let target = &message["target"];
        let (Some(name), Some(manifest)) = (text(&target["name"]), text(&message["manifest_path"]))
        else {
            return;
        };
        if message["profile"]["test"] != true {
            if name == "cenote" {
                self.cenote = Some(path.into());
            }
            return;
        }
        let directory = Path::new(&manifest).parent().unwrap_or(Path::new("/"));
        let package = directory.strip_prefix(workspace::root());
        let package = package.unwrap_or(directory).display();
        self.programs.push(Program {
            name: format!("{package} {name}"),
            length: std::fs::metadata(&path).map_or(0, |metadata| metadata.len()),
            directory: directory.to_owned(),
            path: path.into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn programs_are_told_from_libraries() {
        let manifest = workspace::root().join("pool/Cargo.toml");
        let message = |name: &str, executable: Value, is_test: bool| {
            json!({
                "manifest_path": manifest, "executable": executable,
                "target": {"name": name}, "profile": {"test": is_test},
            })
        };
        let mut built = Built::default();
        built.take(&message("cenote_pool", Value::Null, true));
        built.take(&message("boot", "/t/debug/boot".into(), false));
        assert!(built.programs.is_empty() && built.cenote.is_none());
        built.take(&message("cenote", "/t/debug/cenote".into(), false));
        built.take(&message("all", "/t/debug/deps/all-1".into(), true));
        assert_eq!(built.cenote.as_deref(), Some(Path::new("/t/debug/cenote")));
        assert_eq!(built.programs[0].name, "pool all");
        assert_eq!(built.programs[0].directory, workspace::root().join("pool"));
        assert_eq!(built.warnings, 0);
        for level in ["warning", "note"] {
            built.take(&json!({"message": {"rendered": "unused\n", "level": level}}));
        }
        assert_eq!(built.warnings, 1);
    }
}
