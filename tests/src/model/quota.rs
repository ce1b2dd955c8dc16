//! A quota that is hit: the writer is told, others go on, and what was there stays.

use super::session::Session;
use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// How much more than it has the file system may refer to.
const LEFT: u64 = 4 << 20;

/// Writers that are not stopped before this had no quota.
const WRITTEN_MAX: u64 = 64 << 20;

/// One write.
const PIECE: usize = 100_000;

impl Session {
    /// Sets a quota just above what is there, writes until it is hit, and takes it away.
    pub(super) fn hit_quota(&mut self) -> Result<()> {
        let dataset = self.dataset().to_string();
        let site = std::sync::Arc::clone(&self.site);
        site.ok("zpool sync tank")?;
        let used = site.ok(&format!("zfs get -Hp -o value referenced {dataset}"))?;
        let quota = used.trim().parse::<u64>().context("a number")? + LEFT;
        site.ok(&format!("zfs set refquota={quota} {dataset}"))?;
        let path = self.root.join("quota");
        let file = File::create(&path)?;
        let mut written = 0;
        loop {
            let piece = self.noise(PIECE);
            match file.write_all_at(&piece, written) {
                Ok(()) => written += PIECE as u64,
                Err(error) => {
                    let error = Errno::from_io_error(&error);
                    ensure!(error == Some(Errno::DQUOT), "{error:?}, not EDQUOT");
                    break;
                }
            }
            if written > WRITTEN_MAX {
                bail!("{written} bytes in a quota of {LEFT} more");
            }
        }
        drop(file);
        fs::remove_file(&path).context("removing a file with a full quota")?;
        site.ok(&format!("zfs set refquota=none {dataset}"))?;
        self.compare_after("a full quota")
    }
}
