//! Other people's programs for network block devices: libnbd's shell, QEMU's tools, and an export
//! as a file by FUSE.

use crate::patience::wait_until;
use crate::skip;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program that finds the system's Python, which has libnbd.
pub fn program(name: &str, words: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(name);
    command.args(words).env("PATH", format!("/usr/bin:{path}"));
    command
}

/// Runs a program to its end; what it printed.
///
/// # Errors
/// It cannot be started, or fails.
pub fn run(name: &str, words: &[&str]) -> Result<String> {
    let output = program(name, words).stdin(Stdio::null()).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} {words:?}: {printed}{complained}"
    );
    Ok(printed)
}

/// Runs a Python script on a connection `h` to an export.
///
/// # Errors
/// The export cannot be reached, or the script fails.
pub fn nbdsh(uri: &str, script: &str) -> Result<String> {
    let connect = format!(
        "h.set_strict_mode(0)\nh.add_meta_context('base:allocation')\nh.connect_uri('{uri}')\n"
    );
    run("nbdsh", &["-c", &(connect + script)])
}

/// An export as a file, by FUSE.
pub struct AsFile(Child, PathBuf);

impl AsFile {
    /// `None`, with a notice, where that is not possible.
    ///
    /// # Errors
    /// It does not become one.
    pub fn new(uri: &str, directory: &Path) -> Result<Option<Self>> {
        std::fs::create_dir_all(directory)?;
        let file = directory.join("disk");
        std::fs::write(&file, "")?;
        let path = file.display().to_string();
        let Ok(child) = program("nbdfuse", &[&path, uri])
            .stdin(Stdio::null())
            .spawn()
        else {
            skip!("nbdfuse is not installed");
            return Ok(None);
        };
        let mut own = Self(child, file);
        let mut has_ended = false;
        wait_until("the export is a file", || {
            has_ended = own.0.try_wait()?.is_some();
            Ok(has_ended || std::fs::metadata(&own.1).is_ok_and(|meta| meta.len() > 0))
        })?;
        if has_ended {
            skip!("nbdfuse cannot mount here");
            return Ok(None);
        }
        Ok(Some(own))
    }

    /// Its path.
    pub fn path(&self) -> String {
        self.1.display().to_string()
    }

    /// Writes everything to the export, and disconnects.
    ///
    /// # Errors
    /// That cannot be done.
    pub fn end(mut self) -> Result<()> {
        run("fusermount3", &["-u", &self.path()])?;
        ensure!(self.0.wait()?.success(), "nbdfuse did not end well");
        Ok(())
    }
}

impl Drop for AsFile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
