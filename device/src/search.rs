//! Which devices may hold a part of a pool.
//!
//! A search takes directories, files and devices, opens all that are large enough, and passes each
//! to the caller's judgement. It closes rejected ones at once, so that a directory of thousands of
//! files needs few descriptors. A whole disk or disk image is examined as it is and partition by
//! partition. A failure does not end the search: failures are reported beside what was found.
//!
//! A device is examined once, however many names it has in the given places. The labels of a disk
//! say nothing about partitions on it: a disk that a pool used as a whole keeps labels of that pool
//! at its ends when it gets a partition table. So partitions are always examined.

use crate::opener::EntryKind;
use crate::{Device, DeviceError, Opener, Partition, WindowDevice, partitions};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The smallest device that can belong to a pool: 64 MiB (`SPA_MINDEVSIZE`).
pub const DEVICE_SIZE_MIN: u64 = 64 << 20;

/// A caller's judgement of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Of no interest.
    None,
    /// Perhaps: taken unless one of its partitions fits at all.
    Weak,
    /// Certainly, whatever is in its partitions.
    Strong,
}

/// A device that the caller's judgement accepted.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The path that it was opened by.
    pub path: PathBuf,
    /// Whether the caller named this path itself, and not a directory that it is in.
    pub is_named: bool,
    /// Whether the caller gave this path itself, and not a directory that it is in.
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

/// Something to look at.
struct Place {
    path: PathBuf,
    is_named: bool,
    with_partitions: bool,
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
    for place in places(paths, opener, &mut found.failures) {
        found.look_at(&place, opener, judge);
    }
    found
}

/// The places to examine: each device once, by the name that the caller gave, or by the first.
fn places(paths: &[PathBuf], opener: &dyn Opener, failures: &mut Vec<DeviceError>) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    let mut known: HashMap<(u64, u64), usize> = HashMap::new();
    let mut add = |new: Place| {
        let identity = opener.identity(&new.path);
        let index = identity.map(|identity| *known.entry(identity).or_insert(places.len()));
        match index.and_then(|index| places.get_mut(index)) {
            Some(place) => {
                if new.is_named && !place.is_named {
                    (place.path, place.is_named) = (new.path, true);
                }
                place.with_partitions |= new.with_partitions;
            }
            None => places.push(new),
        }
    };
    for path in paths {
        match opener.list(path) {
            Ok(None) => add(Place {
                path: path.clone(),
                is_named: true,
                with_partitions: true,
            }),
            Ok(Some(entries)) => {
                let is_small =
                    |kind| matches!(kind, EntryKind::File(size) if size < DEVICE_SIZE_MIN);
                for entry in entries.into_iter().filter(|entry| !is_small(entry.kind)) {
                    add(Place {
                        path: entry.path,
                        is_named: false,
                        with_partitions: entry.kind != EntryKind::Block,
                    });
                }
            }
            Err(error) => failures.push(error),
        }
    }
    places
}

impl Search {
    fn look_at(&mut self, place: &Place, opener: &dyn Opener, judge: &dyn Fn(&dyn Device) -> Fit) {
        let device = match opener.open(&place.path) {
            Ok(device) => device,
            Err(error) => return self.failures.push(error),
        };
        if device.size() < DEVICE_SIZE_MIN {
            return;
        }
        let fit = judge(device.as_ref());
        let before = self.candidates.len();
        if place.with_partitions {
            match partitions(device.as_ref()) {
                Ok(list) => self.look_into(place, &device, list, judge),
                // Where a pool has the whole disk there need be no table.
                Err(_) if fit == Fit::Strong => {}
                Err(error) => self.failures.push(error),
            }
        }
        let is_partitioned = self.candidates.len() > before;
        if fit == Fit::Strong || fit == Fit::Weak && !is_partitioned {
            self.candidates.push(Candidate {
                path: place.path.clone(),
                is_named: place.is_named,
                partition: None,
                device,
            });
        }
    }

    fn look_into(
        &mut self,
        place: &Place,
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
                    path: place.path.clone(),
                    is_named: place.is_named,
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
    use std::path::Path;

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

    /// A link beside a file, or a directory named twice, made two devices of one.
    #[test]
    fn names_of_one_device_are_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = |name: &str| directory.path().join(name);
        image(&here("b-whole"), 0);
        std::os::unix::fs::symlink(here("b-whole"), here("a-link")).expect("room");
        std::fs::hard_link(here("b-whole"), here("c-link")).expect("room");
        let all = directory.path().to_path_buf();
        let name = |paths: &[PathBuf]| {
            let found = search(paths, &SystemOpener::default(), &is_marked);
            assert_eq!(found.candidates.len(), 1, "{:?}", found.candidates);
            let candidate = &found.candidates[0];
            (candidate.path.clone(), candidate.is_named)
        };
        assert_eq!(name(&[all.clone(), all.clone()]), (here("a-link"), false));
        assert_eq!(name(&[all, here("c-link")]), (here("c-link"), true));
    }

    /// Labels of a pool that had the whole disk hid the pools in its partitions.
    #[test]
    fn partitions_are_looked_at_in_any_case() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("disk");
        image(&path, 0);
        let disk = File::options().write(true).open(&path).expect("there");
        disk.write_all_at(b"marked", 1 << 20).expect("writable");
        let mut table = [0; 66];
        table[4] = 0xbf;
        table[8..12].copy_from_slice(&2048u32.to_le_bytes());
        table[12..16].copy_from_slice(&((79u32 << 20) / 512).to_le_bytes());
        table[64..].copy_from_slice(&[0x55, 0xaa]);
        disk.write_all_at(&table, 446).expect("writable");
        let found = search(&[path], &SystemOpener::default(), &is_marked);
        let parts = found.candidates.iter();
        let parts: Vec<_> = parts.map(|found| found.partition.is_some()).collect();
        assert_eq!(parts, [true, false]);
    }
}
