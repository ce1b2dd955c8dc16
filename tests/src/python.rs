//! Scripts of Python, for what programs do with a mount that takes few lines there.

use crate::missing;
use anyhow::{Result, ensure};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs a script, as another user and group if they are given; whether Python is here.
///
/// # Errors
/// If the script fails, with all that it printed.
pub fn python(script: &str, arguments: &[&str], ids: Option<(u32, u32)>) -> Result<bool> {
    let mut command = Command::new("python3");
    command.arg("-c").arg(script).args(arguments);
    if let Some((uid, gid)) = ids {
        command.uid(uid).gid(gid);
    }
    let Ok(output) = command.output() else {
        missing!("there is no python3");
        return Ok(false);
    };
    ensure!(output.status.success(), "{output:?}");
    Ok(true)
}
