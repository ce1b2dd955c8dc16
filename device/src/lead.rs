//! Whether the name of an open device still leads to it.
//!
//! An open file stays what it was, whatever becomes of its name. A program that exchanges the file
//! for a copy of itself (`cp a b; mv b a`, a restored backup) leaves the open one without a name:
//! what is written to it is gone when it is closed. So a handle is a device only as long as its
//! name leads to it.
//!
//! What is compared, by what the system says of the open file and of its name:
//!
//! - of files the device number and the inode, and whether any name is left at all;
//! - of block devices their number, and the sequence number that the kernel gives each disk (of a
//!   partition: its disk's), because numbers are used again. Two nodes that are paths to one disk
//!   have the same world-wide name.
//!
//! A name that leads to *something else* is strong evidence. What is written to a block device is
//! not lost with its name, and udev rewrites links: so there it counts only if it lasts. A name
//! that leads *nowhere* is weak: the file was moved, its directory cannot be searched any more, or
//! udev rewrites a link at this moment. Then the open file is used as before, unless no name of it
//! is left. Deliberately absent: what lies below a block device. A loop device whose file was
//! exchanged is still the same device.

use cenote_base::rt::Instant;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long the name of a block device leads elsewhere until that counts: udev handles the events
/// of a disk within a second.
const LINK_SETTLES: Duration = Duration::from_secs(2);

/// Where the name of an open device leads by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lead {
    /// To the device, or nothing speaks against it.
    Here,
    /// To nothing, or to a file that cannot be examined. The device is still there: it was moved.
    Nowhere,
    /// To nothing, and no other name is left: the file is gone as soon as it is closed.
    Deleted,
    /// To another file or device.
    Elsewhere,
}

impl Lead {
    /// Whether a later opening by this name would not find what is written to the open device.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Deleted | Self::Elsewhere)
    }
}

/// Names that are of descriptors: what they lead to depends on the process that looks.
const DESCRIPTORS: [&str; 3] = ["/proc", "/dev/fd", "/dev/stdin"];

/// What an open file or block device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    Block {
        number: u64,
        /// The kernel's number of the disk; `None` before Linux 5.15.
        sequence: Option<String>,
    },
}

/// An attribute of a block device, or of the disk that it is a partition of.
fn attribute(number: u64, names: &[&str]) -> Option<String> {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let paths = names
        .iter()
        .map(|name| format!("/sys/dev/block/{major}:{minor}/{name}"));
    let texts = paths.filter_map(|path| std::fs::read_to_string(path).ok());
    texts
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty())
}

fn sequence(number: u64) -> Option<String> {
    attribute(number, &["diskseq", "../diskseq"])
}

/// The world-wide name of a disk, and which partition of it this is.
fn world_wide_name(number: u64) -> Option<(String, Option<String>)> {
    let places = ["wwid", "device/wwid", "../wwid", "../device/wwid"];
    let name = attribute(number, &places)?;
    Some((name, attribute(number, &["partition"])))
}

impl Identity {
    /// What these facts, of an open file or of a name, are of; `None` if it is no device.
    pub(crate) fn of(metadata: &Metadata) -> Option<Self> {
        let kind = metadata.file_type();
        if kind.is_block_device() {
            let number = metadata.rdev();
            let sequence = sequence(number);
            return Some(Self::Block { number, sequence });
        }
        let (device, inode) = (metadata.dev(), metadata.ino());
        kind.is_file().then_some(Self::File { device, inode })
    }

    /// Whether two names lead to one device.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Block { number, sequence },
                Self::Block {
                    number: other,
                    sequence: now,
                },
            ) if number == other => sequence.is_none() || now.is_none() || sequence == now,
            (Self::Block { number, .. }, Self::Block { number: other, .. }) => {
                let name = world_wide_name(*number);
                name.is_some() && name == world_wide_name(*other)
            }
            _ => self == other,
        }
    }
}

/// Since when the name of a block device leads elsewhere.
#[derive(Debug)]
pub(crate) struct Settling {
    begun: Instant,
    /// Milliseconds after `begun`, and 1; 0 while it does not.
    since: AtomicU64,
}

impl Settling {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            since: AtomicU64::new(0),
        }
    }

    /// What a look came to, with the looks before it.
    pub(crate) fn judge(&self, lead: Lead) -> Lead {
        if lead != Lead::Elsewhere {
            self.since.store(0, Ordering::Relaxed);
            return lead;
        }
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let first = self.since.compare_exchange(
            0,
            now.saturating_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        let since = first.err().map_or(now, |since| since - 1);
        match u128::from(now.saturating_sub(since)) >= LINK_SETTLES.as_millis() {
            true => Lead::Elsewhere,
            false => Lead::Nowhere,
        }
    }
}

/// Where `path` leads, by which `file` was opened when it was `identity`.
pub(crate) fn look(path: &Path, file: &File, identity: &Identity) -> Lead {
    if DESCRIPTORS.iter().any(|names| path.starts_with(names)) {
        return Lead::Here;
    }
    let named = std::fs::metadata(path);
    match named.as_ref().map(Identity::of) {
        Ok(Some(named)) if identity.is_same(&named) => return Lead::Here,
        Ok(Some(_)) => return Lead::Elsewhere,
        Ok(None) | Err(_) => {}
    }
    // A file that may not be examined proves nothing.
    let is_absent = named.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    let is_file = matches!(identity, Identity::File { .. });
    let has_name = !is_file
        || file
            .metadata()
            .map_or(true, |metadata| metadata.nlink() > 0);
    match is_absent && !has_name {
        true => Lead::Deleted,
        false => Lead::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Device, FileDevice, FileOptions};
    use cenote_base::rt::{self, World};
    use std::fs;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    struct Place {
        directory: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let place = Self { directory };
            fs::write(place.at("a"), [7; 8192]).expect("writable");
            place
        }

        fn at(&self, name: &str) -> std::path::PathBuf {
            self.directory.path().join(name)
        }

        fn open(&self, name: &str) -> FileDevice {
            let options = FileOptions {
                writable: true,
                direct: true,
            };
            FileDevice::open(&self.at(name), options).expect("a file")
        }
    }

    #[test]
    fn a_file_that_was_exchanged_for_a_copy_of_itself_is_another() {
        let place = Place::new();
        let device = place.open("a");
        assert_eq!(device.lead(), Lead::Here);
        fs::copy(place.at("a"), place.at("x")).expect("copied");
        fs::rename(place.at("x"), place.at("a")).expect("renamed");
        assert_eq!(device.lead(), Lead::Elsewhere);
        assert_eq!(place.open("a").lead(), Lead::Here);
    }

    #[test]
    fn a_file_that_was_moved_is_the_same_until_another_takes_its_name() {
        let place = Place::new();
        let device = place.open("a");
        fs::rename(place.at("a"), place.at("b")).expect("renamed");
        assert_eq!(device.lead(), Lead::Nowhere);
        fs::copy(place.at("b"), place.at("a")).expect("copied");
        assert_eq!(device.lead(), Lead::Elsewhere);
        fs::rename(place.at("b"), place.at("a")).expect("renamed");
        assert_eq!(device.lead(), Lead::Here);
    }

    #[test]
    fn the_last_name_counts() {
        let place = Place::new();
        let device = place.open("a");
        fs::hard_link(place.at("a"), place.at("b")).expect("linked");
        fs::remove_file(place.at("a")).expect("removed");
        assert_eq!(device.lead(), Lead::Nowhere);
        fs::remove_file(place.at("b")).expect("removed");
        assert_eq!(device.lead(), Lead::Deleted);
        // A directory in its place is no device.
        fs::create_dir(place.at("a")).expect("made");
        assert_eq!(device.lead(), Lead::Nowhere);
    }

    #[test]
    fn links_are_followed_and_descriptors_are_not_judged() {
        let place = Place::new();
        fs::write(place.at("b"), [7; 8192]).expect("writable");
        symlink(place.at("a"), place.at("link")).expect("linked");
        let device = place.open("link");
        assert_eq!(device.lead(), Lead::Here);
        fs::remove_file(place.at("link")).expect("removed");
        assert_eq!(device.lead(), Lead::Nowhere, "udev makes it again");
        symlink(place.at("b"), place.at("link")).expect("linked");
        assert_eq!(device.lead(), Lead::Elsewhere);
        let file = File::open(place.at("b")).expect("there");
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let device = FileDevice::open(Path::new(&own), FileOptions::default()).expect("a file");
        drop(file);
        fs::remove_file(place.at("b")).expect("removed");
        assert_eq!(device.lead(), Lead::Here);
    }

    /// A link that udev rewrites for a moment would have suspended the pool.
    #[test]
    fn a_link_to_another_disk_counts_if_it_lasts() {
        World::simulated(1).run(|| {
            let settling = Settling::new();
            assert_eq!(settling.judge(Lead::Elsewhere), Lead::Nowhere);
            rt::sleep(LINK_SETTLES / 2);
            assert_eq!(settling.judge(Lead::Elsewhere), Lead::Nowhere);
            assert_eq!(settling.judge(Lead::Here), Lead::Here);
            rt::sleep(LINK_SETTLES / 2);
            assert_eq!(settling.judge(Lead::Elsewhere), Lead::Nowhere);
            rt::sleep(LINK_SETTLES);
            assert_eq!(settling.judge(Lead::Elsewhere), Lead::Elsewhere);
        });
    }

    #[test]
    fn numbers_of_block_devices_are_used_again() {
        let disk = |sequence: Option<&str>| Identity::Block {
            number: rustix::fs::makedev(250, 77),
            sequence: sequence.map(str::to_owned),
        };
        assert!(disk(Some("9")).is_same(&disk(Some("9"))));
        assert!(!disk(Some("9")).is_same(&disk(Some("10"))));
        assert!(
            disk(Some("9")).is_same(&disk(None)),
            "older kernels say nothing"
        );
        let other = Identity::Block {
            number: rustix::fs::makedev(250, 78),
            sequence: Some("9".to_owned()),
        };
        assert!(!disk(Some("9")).is_same(&other));
    }
}
