//! What the kernel uses a device or a file for: mounts, swap, volumes above it, loop devices.
//!
//! A pool cannot open a block device that is claimed exclusively. But that tells neither why nor
//! where, and it does not cover files, nor a disk whose partition is in use. The kernel reports all
//! of it in `/proc` and `/sys`. Devices are compared by their numbers, files by theirs, never by
//! names: one device has many.
//!
//! Other mount namespaces (containers, services with a `/tmp` of their own) have mounts that this
//! process does not see at its own places. `/proc` shows those of all processes; each namespace is
//! read once.
//!
//! A file is searched by its name first and compared by its number then. Querying the numbers of
//! all files that are mounted or shown as disks might wait for a server that does not answer, or
//! for a pool of this very process. So a file in use by another of its names is missed.
//!
//! What cannot be read (another user's process, a kernel without sysfs) counts as no use. For
//! block devices the exclusive claim still holds.

use std::collections::HashSet;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Volumes above a device that are followed: a volume of a volume is held through that one.
const NAMES_MAX: usize = 4096;
/// Namespaces and processes that are read at most.
const PROCESSES_MAX: usize = 65_536;

/// What the kernel uses a device for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelUse {
    /// It is mounted.
    Mounted {
        /// Where; in another mount namespace that is the place there.
        at: PathBuf,
    },
    /// Memory is paged out to it.
    Swap,
    /// A volume lies on it: LVM, LUKS, MD.
    Held {
        /// The volume's name.
        by: String,
    },
    /// A loop device shows this file as a disk.
    Loop {
        /// The loop device's name.
        device: String,
    },
    /// A part of it, or the disk that it is a part of, is in use.
    Relative {
        /// The other device's name.
        name: String,
        /// What for.
        use_of_it: Box<KernelUse>,
    },
}

impl fmt::Display for KernelUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mounted { at } => write!(f, "is currently mounted on {}", at.display()),
            Self::Swap => write!(f, "is in use as swap"),
            Self::Held { by } => write!(f, "is in use by the volume {by}"),
            Self::Loop { device } => write!(f, "is in use by the loop device {device}"),
            Self::Relative { name, use_of_it } => {
                write!(f, "is in use: {name} {use_of_it}")
            }
        }
    }
}

/// Something that a device consists of, to find out whether two names mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DevicePart {
    /// A file: the file system's number, and its own.
    File(u64, u64),
    /// A block device's number.
    Block(u64),
}

/// Where the kernel tells of itself.
struct Kernel {
    processes: PathBuf,
    devices: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            processes: "/proc".into(),
            devices: "/sys".into(),
        }
    }
}

/// What the kernel uses the device or file at `path` for, if it does.
pub fn kernel_use(path: &Path) -> Option<KernelUse> {
    Kernel::default().use_of(path)
}

/// What the device or file at `path` consists of: a disk of itself and its partitions, a loop
/// device of itself and its file. Two devices that share a part cannot both be used.
pub fn device_parts(path: &Path) -> Vec<DevicePart> {
    Kernel::default().parts(path)
}

/// The device or file itself.
fn own_part(path: &Path) -> Option<DevicePart> {
    let metadata = std::fs::metadata(path).ok()?;
    let kind = metadata.file_type();
    match () {
        () if kind.is_block_device() => Some(DevicePart::Block(metadata.rdev())),
        () if kind.is_file() => Some(DevicePart::File(metadata.dev(), metadata.ino())),
        () => None,
    }
}

/// A device or file that is looked for in what the kernel tells.
struct Wanted {
    part: DevicePart,
    /// The name of a file; block devices have too many.
    name: Option<String>,
}

impl Wanted {
    fn block(number: u64) -> Self {
        let (part, name) = (DevicePart::Block(number), None);
        Self { part, name }
    }

    /// Whether it is what the kernel has at a path.
    fn is_at(&self, path: &Path) -> bool {
        let may_be = match &self.name {
            Some(name) => path.is_absolute() && file_name(path) == *name,
            None => path.starts_with("/dev"),
        };
        may_be && own_part(path) == Some(self.part)
    }
}

/// The number behind the words `major:minor`.
fn number_of(words: &str) -> Option<u64> {
    let (major, minor) = words.trim().split_once(':')?;
    let (major, minor) = (major.parse().ok()?, minor.parse().ok()?);
    Some(rustix::fs::makedev(major, minor))
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries
        .take(NAMES_MAX)
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.sort();
    paths
}

/// Undoes the octal escapes of `/proc`.
fn unescaped(word: &str) -> PathBuf {
    let bytes = word.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 4).filter(|_| *byte == b'\\');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(code);
                at += 4;
            }
            None => {
                plain.push(*byte);
                at += 1;
            }
        }
    }
    std::ffi::OsString::from_vec(plain).into()
}

impl Kernel {
    fn use_of(&self, path: &Path) -> Option<KernelUse> {
        let real = std::fs::canonicalize(path).ok()?;
        let wanted = Wanted {
            part: own_part(&real)?,
            name: Some(file_name(&real)),
        };
        let DevicePart::Block(number) = wanted.part else {
            let mut users = self.loops().into_iter();
            if let Some((device, _)) = users.find(|(_, file)| wanted.is_at(file)) {
                return Some(KernelUse::Loop { device });
            }
            return self.direct_use(&wanted, None);
        };
        let place = self.place_of(number);
        let of_it = self.direct_use(&Wanted::block(number), place.as_deref());
        of_it.or_else(|| self.use_of_relatives(place.as_deref()?))
    }

    /// What a partition's disk or a disk's partitions are in use for.
    fn use_of_relatives(&self, place: &Path) -> Option<KernelUse> {
        let mut relatives = self.partitions(place);
        if place.join("partition").exists() {
            let disk = place.parent()?.to_path_buf();
            relatives.push((self.number_at(&disk)?, disk));
        }
        relatives.into_iter().find_map(|(number, place)| {
            let use_of_it = self.direct_use(&Wanted::block(number), Some(&place))?;
            Some(KernelUse::Relative {
                name: format!("/dev/{}", file_name(&place)),
                use_of_it: Box::new(use_of_it),
            })
        })
    }

    /// What this very device is in use for.
    fn direct_use(&self, wanted: &Wanted, place: Option<&Path>) -> Option<KernelUse> {
        if let Some(at) = self.mounted_at(wanted) {
            return Some(KernelUse::Mounted { at });
        }
        if self.is_swap(wanted) {
            return Some(KernelUse::Swap);
        }
        let holder = entries(&place?.join("holders")).into_iter().next()?;
        let name = std::fs::read_to_string(holder.join("dm/name")).ok();
        let by = match name {
            Some(name) => format!("/dev/mapper/{}", name.trim()),
            None => format!("/dev/{}", file_name(&holder)),
        };
        Some(KernelUse::Held { by })
    }

    fn parts(&self, path: &Path) -> Vec<DevicePart> {
        let Some(own) = own_part(path) else {
            return Vec::new();
        };
        let mut parts = vec![own];
        if let DevicePart::Block(number) = own
            && let Some(place) = self.place_of(number)
        {
            let partitions = self.partitions(&place).into_iter();
            parts.extend(partitions.map(|(number, _)| DevicePart::Block(number)));
            let name = file_name(&place);
            let loops = self.loops().into_iter();
            let files = loops.filter(|(device, _)| *device == format!("/dev/{name}"));
            parts.extend(files.filter_map(|(_, file)| own_part(&file)));
        }
        parts
    }

    /// Where sysfs has a block device.
    fn place_of(&self, number: u64) -> Option<PathBuf> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let link = self.devices.join(format!("dev/block/{major}:{minor}"));
        std::fs::canonicalize(link).ok()
    }

    fn number_at(&self, place: &Path) -> Option<u64> {
        number_of(&std::fs::read_to_string(place.join("dev")).ok()?)
    }

    fn partitions(&self, disk: &Path) -> Vec<(u64, PathBuf)> {
        let places = entries(disk).into_iter();
        let places = places.filter(|place| place.join("partition").exists());
        let with_number = places.filter_map(|place| Some((self.number_at(&place)?, place)));
        with_number.collect()
    }

    /// The loop devices in use, and their files.
    fn loops(&self) -> Vec<(String, PathBuf)> {
        let devices = entries(&self.devices.join("block")).into_iter();
        let devices = devices.filter_map(|place| {
            let file = std::fs::read_to_string(place.join("loop/backing_file")).ok()?;
            let device = format!("/dev/{}", file_name(&place));
            Some((device, PathBuf::from(file.trim_end_matches('\n'))))
        });
        devices.collect()
    }

    fn is_swap(&self, wanted: &Wanted) -> bool {
        let table = std::fs::read_to_string(self.processes.join("swaps")).unwrap_or_default();
        let places = table
            .lines()
            .skip(1)
            .filter_map(|line| line.split(' ').next());
        let mut places = places.map(|word| unescaped(word.trim_end_matches('\t')));
        places.any(|place| wanted.is_at(&place))
    }

    /// Where a device or an image is mounted, in any mount namespace that can be seen.
    fn mounted_at(&self, wanted: &Wanted) -> Option<PathBuf> {
        let mut seen = HashSet::new();
        let own = self.processes.join("self");
        let processes = std::fs::read_dir(&self.processes).into_iter().flatten();
        let processes = processes.take(PROCESSES_MAX).flatten();
        let is_process = |path: &PathBuf| file_name(path).bytes().all(|b| b.is_ascii_digit());
        let others = processes.map(|entry| entry.path()).filter(is_process);
        std::iter::once(own).chain(others).find_map(|process| {
            let namespace = std::fs::read_link(process.join("ns/mnt")).ok();
            // A namespace without a readable name is read every time.
            if namespace.is_some_and(|namespace| !seen.insert(namespace)) {
                return None;
            }
            let table = std::fs::read(process.join("mountinfo")).ok()?;
            mount_of(&String::from_utf8_lossy(&table), wanted)
        })
    }
}

/// Where a table of mounts has a device.
fn mount_of(table: &str, wanted: &Wanted) -> Option<PathBuf> {
    let mut lines = table.lines().filter_map(|line| {
        // ID PARENT MAJOR:MINOR ROOT PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS (proc(5))
        let mut words = line.split(' ');
        let number = number_of(words.nth(2)?)?;
        let place = words.nth(1)?;
        let source = words.skip_while(|word| *word != "-").nth(2).unwrap_or("");
        Some((number, place, source))
    });
    let found = lines.find(|(number, _, source)| {
        // File systems on several devices have a number of their own: their source tells.
        wanted.part == DevicePart::Block(*number) || wanted.is_at(&unescaped(source))
    });
    found.map(|(_, place, _)| unescaped(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel that tells what a test wrote down for it.
    struct Told {
        directory: tempfile::TempDir,
        kernel: Kernel,
    }

    impl Told {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let kernel = Kernel {
                processes: directory.path().join("proc"),
                devices: directory.path().join("sys"),
            };
            let told = Self { directory, kernel };
            told.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n");
            told
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.directory.path().join(name);
            let parent = path.parent().expect("below the directory");
            std::fs::create_dir_all(parent).expect("writable");
            std::fs::write(&path, text).expect("writable");
            path
        }
    }

    #[test]
    fn a_file_behind_a_loop_device_and_one_for_swap_are_in_use() {
        let told = Told::new();
        let image = told.write("my image", "x");
        let other = told.write("other", "y");
        assert_eq!(told.kernel.use_of(&image), None);
        let text = format!("{}\n", image.display());
        told.write("sys/block/loop7/loop/backing_file", &text);
        told.write("sys/block/loop6/size", "0");
        let device = "/dev/loop7".to_owned();
        assert_eq!(told.kernel.use_of(&image), Some(KernelUse::Loop { device }));
        assert_eq!(told.kernel.use_of(&other), None);
        let text = format!("Filename Type\n{} file 1 0 -2\n", other.display());
        told.write("proc/swaps", &text);
        assert_eq!(told.kernel.use_of(&other), Some(KernelUse::Swap));
    }

    #[test]
    fn a_mount_in_any_namespace_counts() {
        let told = Told::new();
        let image = told.write("my image", "x");
        let source = image.display().to_string().replace(' ', "\\040");
        let line = "36 35 98:0 / /mnt rw,noatime master:1 - ext3 /dev/root rw\n";
        let mount = format!("40 35 0:77 / /srv\\040one rw - erofs {source} ro\n");
        told.write("proc/1/mountinfo", line);
        assert_eq!(told.kernel.use_of(&image), None);
        told.write("proc/4711/mountinfo", &format!("{line}{mount}"));
        let at = "/srv one".into();
        assert_eq!(told.kernel.use_of(&image), Some(KernelUse::Mounted { at }));
        let number = rustix::fs::makedev(98, 0);
        let found = mount_of(line, &Wanted::block(number));
        assert_eq!(found, Some("/mnt".into()));
        assert_eq!(mount_of(line, &Wanted::block(number + 1)), None);
    }

    #[test]
    fn a_partition_in_use_speaks_for_its_disk_and_the_other_way_round() {
        let told = Told::new();
        let number = rustix::fs::makedev(8, 17);
        let line = "36 35 8:17 / /boot rw - vfat /dev/sdz1 rw\n";
        told.write("proc/1/mountinfo", line);
        told.write("sys/block/sdz/dev", "8:16\n");
        told.write("sys/block/sdz/sdz1/dev", "8:17\n");
        told.write("sys/block/sdz/sdz1/partition", "1\n");
        told.write("sys/block/sdz/sdz2/dev", "8:18\n");
        told.write("sys/block/sdz/sdz2/partition", "2\n");
        let disk = told.kernel.devices.join("block/sdz");
        let used = told.kernel.use_of_relatives(&disk).expect("mounted");
        let expected = "is in use: /dev/sdz1 is currently mounted on /boot";
        assert_eq!(used.to_string(), expected);
        let parts = told.kernel.partitions(&disk);
        let numbers: Vec<u64> = parts.into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [number, number + 1]);
        // The other partition is free until the whole disk is held.
        let second = disk.join("sdz2");
        assert_eq!(told.kernel.use_of_relatives(&second), None);
        told.write("sys/block/sdz/holders/dm-3/dm/name", "vg-root\n");
        let used = told.kernel.use_of_relatives(&second).expect("held");
        let expected = "is in use: /dev/sdz is in use by the volume /dev/mapper/vg-root";
        assert_eq!(used.to_string(), expected);
    }
}
