//! The kernel's table of mounts, `/proc/self/mountinfo`.
//!
//! Each line: mount id, parent id, `major:minor`, root, mount point, options, optional fields, a
//! dash, file system type, source, superblock options. White space and backslashes inside a field
//! are written as `\` and three octal digits.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The file system type of all our mounts as the kernel shows it.
pub const FILE_SYSTEM_TYPE: &str = "fuse.cenote";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount's number.
    pub id: u64,
    /// The number of the mount that it is on.
    pub parent: u64,
    /// The superblock's device number.
    pub device: (u32, u32),
    /// Which directory of the file system is mounted.
    pub root: PathBuf,
    /// Where it is mounted.
    pub mount_point: PathBuf,
    /// The type, subtype included.
    pub file_system_type: String,
    /// What is mounted: for ours the dataset's name.
    pub source: OsString,
    /// Whether the mount itself is read-only.
    pub read_only: bool,
    /// The user that made a FUSE mount.
    pub owner: Option<u32>,
}

/// All mounts this process can see, in the order they were made visible.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    mounts_in(Path::new("/proc/self/mountinfo"))
}

/// All mounts in a table, such as another process's.
pub(super) fn mounts_in(table: &Path) -> io::Result<Vec<MountEntry>> {
    let table = std::fs::read(table)?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .collect())
}

/// The mounts of Cenote that this process can see, served by any process.
pub fn own_mounts() -> io::Result<Vec<MountEntry>> {
    let mut all = mounts()?;
    all.retain(|entry| entry.file_system_type == FILE_SYSTEM_TYPE);
    Ok(all)
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = text(fields.next()?)?.parse().ok()?;
    let parent = text(fields.next()?)?.parse().ok()?;
    let (major, minor) = text(fields.next()?)?.split_once(':')?;
    let root = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let mount_point = PathBuf::from(OsString::from_vec(unescape(fields.next()?)));
    let options = fields.next()?;
    // Optional fields end with a lone dash.
    fields.find(|field| *field == b"-")?;
    let file_system_type = String::from_utf8(unescape(fields.next()?)).ok()?;
    let source = OsString::from_vec(unescape(fields.next()?));
    let mut of_superblock = fields
        .next()
        .unwrap_or_default()
        .split(|byte| *byte == b',');
    let owner = of_superblock.find_map(|option| option.strip_prefix(b"user_id="));
    Some(MountEntry {
        id,
        parent,
        device: (major.parse().ok()?, minor.parse().ok()?),
        root,
        mount_point,
        file_system_type,
        source,
        read_only: options
            .split(|byte| *byte == b',')
            .any(|option| option == b"ro"),
        owner: owner.and_then(|owner| text(owner)?.parse().ok()),
    })
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, octal(after)) {
            (b'\\', Some(value)) => {
                plain.push(value);
                rest = &after[3..];
            }
            _ => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}

/// The byte that three octal digits at the start of `digits` mean.
fn octal(digits: &[u8]) -> Option<u8> {
    let digits = text(digits.get(..3)?)?;
    u8::from_str_radix(digits, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_escapes_and_optional_fields() {
        let line =
            b"36 35 98:0 / /mnt\\040a\\134b\\012c rw,nosuid shared:1 master:2 - fuse.cenote \
            tank/my\\040home rw,user_id=0";
        let entry = parse_line(line).expect("a whole line");
        assert_eq!(entry.mount_point, Path::new("/mnt a\\b\nc"));
        assert_eq!(entry.source, "tank/my home");
        assert_eq!(entry.owner, Some(0));
        assert_eq!(entry.file_system_type, FILE_SYSTEM_TYPE);
        assert_eq!(
            (entry.id, entry.parent, entry.device, entry.read_only),
            (36, 35, (98, 0), false)
        );
    }

    #[test]
    fn broken_lines_are_skipped() {
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 2 3:4 / /x ro"), None);
        assert_eq!(parse_line(b"1 2 34 / /x ro - t s o"), None);
    }

    #[test]
    fn the_running_system_has_a_root() {
        let mounts = mounts().expect("proc is mounted");
        assert!(
            mounts
                .iter()
                .any(|entry| entry.mount_point == Path::new("/"))
        );
    }
}
