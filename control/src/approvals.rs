//! Which values of properties the administrator of this machine has said yes to, kept on disk.
//!
//! Some values make a machine do something: `cenote:nbd=on` serves a volume. They are stored in
//! the pool, and a pool may come from elsewhere, as may a stream. So the yes is stored here, in one
//! file in the state directory for all daemons of a user: it outlives exports and restarts, and
//! another machine does not have it. What needs a yes and what counts as one is the engine's to
//! say.
//!
//! Daemons that share a state directory change the file in turns ([`lock`]). It is written before
//! the command that says yes is answered.
//!
//! *Invariant: the file is replaced as a whole (`rename`), so a reader sees one state or another.*

use crate::record::{has_trusted_owner, replace_file};
use crate::regular;
use cenote_base::rt;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::{Error, ErrorKind, Read, Result};
use std::path::Path;
use std::time::Duration;

/// The longest file: all that [`VALUES_MAX`] values take, unless they are long texts.
const SIZE_MAX: u64 = 16 << 20;
/// Values that are kept.
pub const VALUES_MAX: usize = 1 << 16;

/// How long another daemon may take to write the file, and how often it is asked.
const LOCK_TRIES: u32 = 40;
const LOCK_INTERVAL: Duration = Duration::from_millis(50);

/// A value that may act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovedValue {
    /// The guid of the pool.
    pub pool: u64,
    /// The guid of the dataset that has the value.
    pub dataset: u64,
    /// The property.
    pub property: String,
    /// Its value.
    pub value: String,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRecord {
    /// The values.
    pub values: Vec<ApprovedValue>,
    /// The guids of pools that this machine had before there was this file, and that were not
    /// imported since: what is in force in them then may act.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools_before: Vec<u64>,
}

impl ApprovalRecord {
    /// Reads the file; `None` if there is none. Of one that is damaged a
    /// copy is kept.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or belongs to another user.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let file = match regular::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        if !has_trusted_owner(&file.metadata()?) {
            return Err(ErrorKind::PermissionDenied.into());
        }
        let mut bytes = Vec::new();
        file.take(SIZE_MAX).read_to_end(&mut bytes)?;
        match serde_json::from_slice::<Self>(&bytes) {
            Ok(mut record) => {
                record.values.truncate(VALUES_MAX);
                Ok(Some(record))
            }
            Err(error) => {
                // It stays until it is replaced: without a file a machine counts as new.
                let aside = path.with_extension("json.damaged");
                fs::copy(path, &aside)?;
                let reason = format!("{error}; a copy is {}", aside.display());
                Err(Error::new(ErrorKind::InvalidData, reason))
            }
        }
    }

    /// Writes the file so that it outlives a crash of the machine.
    ///
    /// # Errors
    /// The system's; what was there stays then.
    pub fn store(&self, path: &Path) -> Result<()> {
        replace_file(path, &serde_json::to_vec(self)?, true)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }
}

/// Keeps other daemons from changing the file until the answer is dropped.
///
/// # Errors
/// The system's, or another daemon does not let go.
pub fn lock(path: &Path) -> Result<File> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
    let mut options = File::options();
    let file = path.with_extension("lock");
    let file = regular::open_with(options.write(true).create(true).truncate(false), &file)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => rt::sleep(LOCK_INTERVAL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(Error::new(
        ErrorKind::TimedOut,
        "another daemon holds its lock",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_and_half_of_it_is_no_absence() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state/approvals.json");
        let held = lock(&path).expect("locked");
        assert_eq!(ApprovalRecord::load(&path).expect("none"), None);
        let record = ApprovalRecord {
            values: vec![ApprovedValue {
                pool: u64::MAX,
                dataset: 1,
                property: "cenote:nbd".to_owned(),
                value: "on".to_owned(),
            }],
            pools_before: vec![u64::MAX - 1],
        };
        record.store(&path).expect("stored");
        assert_eq!(ApprovalRecord::load(&path).expect("read"), Some(record));
        let other = lock(&path).expect_err("it is held");
        assert_eq!(other.kind(), ErrorKind::TimedOut);
        drop(held);
        lock(&path).expect("it is free");
        fs::write(&path, "{\"values\": [").expect("written");
        let error = ApprovalRecord::load(&path).expect_err("half of one");
        assert!(error.to_string().contains(".damaged"), "{error}");
        ApprovalRecord::load(&path).expect_err("still");
        ApprovalRecord::default().store(&path).expect("stored");
        ApprovalRecord::load(&path).expect("another one");
    }
}
