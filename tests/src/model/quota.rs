//! Hitting a quota: the writer gets an error, others can write, and existing data stays.

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

/// An owner that has nothing else in the file system.
const OWNER: u32 = 54_321;

/// Writes between two waits for a group, with which owners' use is counted.
const COUNTED_EVERY: u64 = 8;

/// The version of file systems from which on owners have quotas.
const VERSION_QUOTAS: u64 = 4;

/// What is limited.
#[derive(Clone, Copy)]
enum Limited {
    FileSystem,
    User,
    Group,
}

impl Limited {
    /// The property that limits, and the one that says what is used.
    fn properties(self) -> (String, String) {
        match self {
            Self::FileSystem => ("refquota".to_owned(), "referenced".to_owned()),
            Self::User => (format!("userquota@{OWNER}"), format!("userused@{OWNER}")),
            Self::Group => (format!("groupquota@{OWNER}"), format!("groupused@{OWNER}")),
        }
    }
}

impl Session {
    /// Sets a quota just above what is there, writes until it is hit, and takes it away.
    pub(super) fn hit_quota(&mut self, turn: u64) -> Result<()> {
        let limited = [Limited::FileSystem, Limited::User, Limited::Group];
        let limited = limited[usize::try_from(turn)? % limited.len()];
        let (limit, used) = limited.properties();
        let dataset = self.dataset().to_string();
        let site = std::sync::Arc::clone(&self.site);
        let version = site.ok(&format!("zfs get -H -o value version {dataset}"))?;
        let has_owners_quotas = version.trim().parse::<u64>()? >= VERSION_QUOTAS;
        if !has_owners_quotas && !matches!(limited, Limited::FileSystem) {
            return Ok(());
        }
        site.ok("zpool sync tank")?;
        let used = site.ok(&format!("zfs get -Hp -o value {used} {dataset}"))?;
        let quota = used.trim().parse::<u64>().context("a number")? + LEFT;
        site.ok(&format!("zfs set {limit}={quota} {dataset}"))?;
        let path = self.root.join("quota");
        let file = File::create(&path)?;
        match limited {
            Limited::FileSystem => {}
            Limited::User => std::os::unix::fs::fchown(&file, Some(OWNER), None)?,
            Limited::Group => std::os::unix::fs::fchown(&file, None, Some(OWNER))?,
        }
        self.fill(&file).with_context(|| limit.clone())?;
        drop(file);
        fs::remove_file(&path).context("removing a file with a full quota")?;
        site.ok(&format!("zfs set {limit}=none {dataset}"))?;
        self.compare_after("a full quota")
    }

    /// Writes until a quota is hit.
    fn fill(&mut self, file: &File) -> Result<()> {
        let mut written = 0;
        for count in 1.. {
            let piece = self.noise(PIECE);
            match file.write_all_at(&piece, written) {
                Ok(()) => written += PIECE as u64,
                Err(error) => {
                    let error = Errno::from_io_error(&error);
                    ensure!(error == Some(Errno::DQUOT), "{error:?}, not EDQUOT");
                    break;
                }
            }
            if count % COUNTED_EVERY == 0 {
                // Accounts are those of the last group.
                self.site.ok("zpool sync tank")?;
            }
            if written > WRITTEN_MAX {
                bail!("{written} bytes in a quota of {LEFT} more");
            }
        }
        ensure!(written > 0, "the quota leaves room for {LEFT} bytes");
        Ok(())
    }
}
