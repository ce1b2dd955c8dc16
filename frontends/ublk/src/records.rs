//! What is kept about devices, so that a later process recognises them.
//!
//! The kernel keeps a device when its process dies, and with it a number of 64 bits that we chose
//! at random. The name is in a file of ours, with the same number. A file whose number is not the
//! kernel's is about a device that no longer exists; it is never believed. The directory is in
//! `/run`, which a restart of the machine empties, as it ends the devices; only its owner may
//! write there, or it is not used at all.

use crate::UblkError;
use crate::private::is_private_directory;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where the files are.
const DIRECTORY: &str = "/run/cenote-ublk";

/// A file is a few hundred bytes; more is not read.
const FILE_BYTES_MAX: u64 = 16 << 10;

/// What is kept about a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub name: String,
    pub is_read_only: bool,
    /// What the kernel keeps with the device.
    pub token: u64,
}

/// The directory of files.
pub(crate) struct Records(PathBuf);

impl Records {
    /// The machine's.
    pub fn of_machine() -> Self {
        Self(PathBuf::from(DIRECTORY))
    }

    #[cfg(test)]
    fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    fn path(&self, number: u32) -> PathBuf {
        self.0.join(format!("{number}.json"))
    }

    /// Whether the directory exists; refuses one that other users may write to.
    fn check(&self) -> Result<bool, UblkError> {
        is_private_directory(&self.0).map_err(failed(&self.0))
    }

    /// Keeps a record.
    pub fn write(&self, number: u32, record: &Record) -> Result<(), UblkError> {
        if !self.check()? {
            let mut builder = std::fs::DirBuilder::new();
            match builder.mode(0o700).create(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&self.0)(error));
                }
                _ => self.check()?,
            };
        }
        let path = self.path(number);
        let new = path.with_extension("new");
        let text = serde_json::to_vec(record).map_err(io::Error::from);
        let written = text.and_then(|text| {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            std::fs::rename(&new, &path)
        });
        written.map_err(failed(&path))
    }

    /// The record of a device, if there is one that makes sense.
    pub fn read(&self, number: u32) -> Result<Option<Record>, UblkError> {
        if !self.check()? {
            return Ok(None);
        }
        let path = self.path(number);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(&path)(error.into())),
        };
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(failed(&path))?;
        Ok(serde_json::from_str(&text).ok())
    }

    /// Forgets a device.
    pub fn remove(&self, number: u32) {
        let path = self.path(number);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                log::warn!("{}: {error}", path.display());
            }
            _ => {}
        }
    }

    /// The numbers of all devices that there are records of, in order.
    pub fn numbers(&self) -> Result<Vec<u32>, UblkError> {
        if !self.check()? {
            return Ok(Vec::new());
        }
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(failed(&self.0))? {
            let name = entry.map_err(failed(&self.0))?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".json"));
            numbers.extend(name.and_then(|number| number.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> UblkError {
    let path = path.to_owned();
    move |source| UblkError::Record { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn record(name: &str) -> Record {
        Record {
            name: name.to_owned(),
            is_read_only: false,
            token: u64::MAX,
        }
    }

    #[test]
    fn records_are_found_again() {
        let directory = tempfile::tempdir().expect("there is room");
        let records = Records::at(&directory.path().join("ublk"));
        assert!(records.numbers().expect("none").is_empty());
        assert_eq!(records.read(3).expect("none"), None);
        records
            .write(3, &record("tank/a b"))
            .expect("it is written");
        records.write(12, &record("tank/c")).expect("it is written");
        assert_eq!(records.numbers().expect("two"), [3, 12]);
        assert_eq!(records.read(3).expect("one"), Some(record("tank/a b")));
        records.remove(3);
        records.remove(3);
        assert_eq!(records.numbers().expect("one"), [12]);
        std::fs::write(directory.path().join("ublk/12.json"), "{").expect("it is written");
        assert_eq!(records.read(12).expect("it is no record"), None);
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
        let directory = tempfile::tempdir().expect("there is room");
        let records = Records::at(directory.path());
        records.write(1, &record("tank/a")).expect("it is written");
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("2.json"))
            .expect("it is linked");
        assert!(records.read(2).is_err());
        let open = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(directory.path(), open).expect("it is opened");
        let told = records.read(1).expect_err("others can write").to_string();
        assert!(told.contains("only this user"), "{told}");
        assert!(records.write(1, &record("tank/a")).is_err());
        assert!(records.numbers().is_err());
    }
}
