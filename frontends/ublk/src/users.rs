//! The users of a device: mounts, other devices, programs.
//!
//! The kernel has no list of openers. Devices on top are in sysfs, mounts and swap in procfs, and
//! root can read the descriptors of all processes. The rest (other mount namespaces, users within
//! the kernel) hold the device exclusively, so an exclusive open fails.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// The user of the device with this number; `None` if none was found.
pub(crate) fn of(number: u32) -> Option<String> {
    let name = format!("ublkb{number}");
    let node = Path::new("/dev").join(&name);
    let device = fs::metadata(&node).ok()?.rdev();
    above(&name)
        .or_else(|| {
            mount(
                &fs::read_to_string("/proc/self/mountinfo").ok()?,
                device,
                &name,
            )
        })
        .or_else(|| swap(&fs::read_to_string("/proc/swaps").ok()?, &name))
        .or_else(|| program(Path::new("/proc"), device))
        .or_else(|| holder(&node))
}

/// Partitions that are used count as well; they are devices below.
fn above(name: &str) -> Option<String> {
    let block = Path::new("/sys/block").join(name);
    let holders = fs::read_dir(block.join("holders")).ok()?;
    let above = holders.flatten().next()?.file_name();
    Some(format!("the device {} is on it", above.to_string_lossy()))
}

/// A line is "36 35 98:0 /root /mount/point options ... - type source options".
fn mount(table: &str, device: u64, name: &str) -> Option<String> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let wanted = format!("{major}:{minor}");
    let mut lines = table.lines().map(|line| line.split(' '));
    let point = lines.find_map(|mut words| {
        let number = words.nth(2)?;
        let point = words.nth(1)?;
        // btrfs has numbers of its own; partitions have the name and more.
        let source = words.skip_while(|word| *word != "-").nth(2)?;
        let source = source.strip_prefix("/dev/").unwrap_or_default();
        (number == wanted || is_part(source, name)).then(|| point.to_owned())
    })?;
    Some(format!("it is mounted at {point}"))
}

/// Whether this is the device, or a partition of it.
fn is_part(source: &str, name: &str) -> bool {
    match source.strip_prefix(name) {
        Some("") => true,
        Some(rest) => rest
            .strip_prefix('p')
            .is_some_and(|part| part.parse::<u32>().is_ok()),
        None => false,
    }
}

fn swap(table: &str, name: &str) -> Option<String> {
    let mut paths = table
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let is_used = paths.any(|path| {
        path.strip_prefix("/dev/")
            .is_some_and(|path| is_part(path, name))
    });
    is_used.then(|| "it is used for swap".to_owned())
}

fn program(processes: &Path, device: u64) -> Option<String> {
    for process in fs::read_dir(processes).ok()?.flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes end while we look.
        let Ok(descriptors) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        for descriptor in descriptors.flatten() {
            let Ok(metadata) = fs::metadata(descriptor.path()) else {
                continue;
            };
            if metadata.file_type().is_block_device() && metadata.rdev() == device {
                let program = fs::read_to_string(process.path().join("comm"));
                let program = program.unwrap_or_default();
                return Some(format!("{} (process {id}) has it open", program.trim()));
            }
        }
    }
    None
}

fn holder(node: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NONBLOCK;
    match rustix::fs::open(node, flags, Mode::empty()) {
        Err(Errno::BUSY) => Some("something holds it exclusively".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_and_swap_are_found() {
        let table = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                     36 22 259:3 / /mnt/a\\040b rw,noatime shared:1 - ext4 /dev/ublkb3 rw\n\
                     37 22 0:44 / /srv rw - btrfs /dev/ublkb4p1 rw\n";
        let device = rustix::fs::makedev(259, 3);
        let other = rustix::fs::makedev(259, 9);
        let found = mount(table, device, "ublkb3").expect("it is mounted");
        assert_eq!(found, "it is mounted at /mnt/a\\040b");
        let found = mount(table, other, "ublkb4").expect("a partition is mounted");
        assert_eq!(found, "it is mounted at /srv");
        assert_eq!(mount(table, other, "ublkb33"), None);
        assert_eq!(mount("", other, "ublkb3"), None);
        let table = "Filename Type Size Used Priority\n/dev/ublkb5 partition 1 0 -2\n";
        assert!(swap(table, "ublkb5").is_some());
        assert!(swap(table, "ublkb55").is_none());
        assert!(!is_part("ublkb12", "ublkb1"));
    }

    #[test]
    fn nobody_uses_what_does_not_exist() {
        assert_eq!(of(4_000_000), None);
        assert!(holder(Path::new("/dev/null")).is_none());
    }
}
