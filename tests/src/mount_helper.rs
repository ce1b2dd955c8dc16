//! The helper of mount(8) for our type, while suites run that mount by it.
//!
//! mount(8) looks for helpers in `/sbin` only: a link there leads to the program under test.

use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Where mount(8) looks for the helper of mounts of our type.
const HELPER: &str = "/sbin/mount.fuse.cenote";

/// The link to the helper; it goes when this is dropped.
pub(crate) struct Helper;

impl Helper {
    /// Makes the link, which must not be there yet.
    pub fn install(program: &Path) -> Result<Self> {
        symlink(program, HELPER).with_context(|| format!("cannot make {HELPER}"))?;
        Ok(Self)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(HELPER) {
            eprintln!("{HELPER} is left behind: {error}");
        }
    }
}
