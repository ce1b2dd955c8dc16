//! Which devices may hold a part of a pool.
//!
//! A search takes directories, files and devices, opens whatever is large enough, and shows
//! each to the caller's judgement; what is not wanted is closed at once, so that a directory of
//! thousands of files needs few descriptors. A whole disk or disk image is looked at as it is
//! and partition by partition. Nothing that fails ends the search: failures are reported beside
//! what was found.

use crate::opener::EntryKind;
use crate::{Device, DeviceError, Opener, Partition, WindowDevice, partitions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The smallest device that can belong to a pool: 64 MiB (`SPA_MINDEVSIZE`).
pub const DEVICE_SIZE_MIN: u64 = 64 << 20;

/// A caller's judgement of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Of no interest.
    None,
    /// Perhaps: taken unless one of its partitions fits at all.
    Weak,
    /// Certainly.
    Strong,
}

/// A device that the caller's judgement accepted.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path that it was opened by.
    pub path: PathBuf,
    /// The part of the path's device that it is, if not all of it.
    pub partition: Option<Partition>,
    /// The open device, or a window into it.
    pub device: Arc<dyn Device>,
}

/// What a search found and what it could not look at.
#[derive(Debug, Default)]
pub struct Search {
    /// Accepted devices, in order of the given paths and sorted within a directory.
    pub candidates: Vec<Candidate>,
    /// Paths and partition tables that could not be read.
    pub failures: Vec<DeviceError>,
}

/// Looks through `paths` for devices that `judge` finds fit.
///
/// A path is a device, a file, or a directory whose files and block devices are taken (not
/// those of its subdirectories). In a directory, files below 64 MiB are skipped unopened, and
/// block devices are not searched for partitions, because the kernel lists those beside them.
pub fn search(
    paths: &[PathBuf],
    opener: &dyn Opener,
    judge: &dyn Fn(&dyn Device) -> Fit,
) -> Search {
    let mut found = Search::default();
    for path in paths {
        match opener.list(path) {
            Ok(None) => found.look_at(path, opener, judge, true),
            Ok(Some(entries)) => {
                for entry in entries {
                    match entry.kind {
                        EntryKind::File(size) if size < DEVICE_SIZE_MIN => {}
                        EntryKind::File(_) => found.look_at(&entry.path, opener, judge, true),
                        EntryKind::Block => found.look_at(&entry.path, opener, judge, false),
                    }
                }
            }
            Err(error) => found.failures.push(error),
        }
    }
    found
}

impl Search {
    fn look_at(
        &mut self,
        path: &Path,
        opener: &dyn Opener,
        judge: &dyn Fn(&dyn Device) -> Fit,
        with_partitions: bool,
    ) {
        let device = match opener.open(path) {
            Ok(device) => device,
            Err(error) => return self.failures.push(error),
        };
        if device.size() < DEVICE_SIZE_MIN {
            return;
        }
        let fit = judge(device.as_ref());
        let before = self.candidates.len();
        if fit != Fit::Strong && with_partitions {
            match partitions(device.as_ref()) {
                Ok(list) => self.look_into(path, &device, list, judge),
                Err(error) => self.failures.push(error),
            }
        }
        if fit != Fit::None && self.candidates.len() == before {
            self.candidates.push(Candidate {
                path: path.into(),
                partition: None,
                device,
            });
        }
    }

    fn look_into(
        &mut self,
        path: &Path,
        device: &Arc<dyn Device>,
        list: Vec<Partition>,
        judge: &dyn Fn(&dyn Device) -> Fit,
    ) {
        for partition in list {
            if partition.length < DEVICE_SIZE_MIN {
                continue;
            }
            let (start, length) = (partition.start, Some(partition.length));
            match WindowDevice::new(Arc::clone(device), start, length) {
                Ok(window) if judge(&window) == Fit::None => {}
                Ok(window) => self.candidates.push(Candidate {
                    path: path.into(),
                    partition: Some(partition),
                    device: Arc::new(window),
                }),
                Err(error) => self.failures.push(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemOpener;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    fn is_marked(device: &dyn Device) -> Fit {
        match device.read_vec(0, 6) {
            Ok(bytes) if bytes == b"marked" => Fit::Strong,
            // A trace at the end of the disk is not enough when a partition has the mark.
            _ if device.path().ends_with("a-disk") => Fit::Weak,
            _ => Fit::None,
        }
    }

    /// A sparse file of 80 MiB with `marked` at byte `at`.
    fn image(path: &Path, at: u64) {
        let file = File::create_new(path).expect("a new file");
        file.set_len(80 << 20).expect("sparse");
        file.write_all_at(b"marked", at).expect("writable");
    }

    #[test]
    fn finds_whole_files_and_partitions_of_images() {
        let directory = tempfile::tempdir().expect("a directory");
        image(&directory.path().join("b-whole"), 0);
        image(&directory.path().join("a-disk"), 1 << 20);
        std::fs::write(directory.path().join("small"), b"marked").expect("writable");
        // One MBR partition from sector 2048 to the end: type 0xbf.
        let mut table = [0; 66];
        table[4] = 0xbf;
        table[8..12].copy_from_slice(&2048u32.to_le_bytes());
        table[12..16].copy_from_slice(&((79u32 << 20) / 512).to_le_bytes());
        table[64..].copy_from_slice(&[0x55, 0xaa]);
        let disk = File::options()
            .write(true)
            .open(directory.path().join("a-disk"));
        disk.expect("there")
            .write_all_at(&table, 446)
            .expect("writable");

        let paths = [
            directory.path().to_path_buf(),
            directory.path().join("gone"),
        ];
        let found = search(&paths, &SystemOpener::default(), &is_marked);
        let names: Vec<_> = found
            .candidates
            .iter()
            .map(|candidate| (candidate.path.file_name(), candidate.partition.is_some()))
            .collect();
        assert_eq!(
            names,
            [
                (Some("a-disk".as_ref()), true),
                (Some("b-whole".as_ref()), false)
            ]
        );
        assert_eq!(found.failures.len(), 1, "{:?}", found.failures);
    }
}
