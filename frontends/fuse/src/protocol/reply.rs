//! Answers: the header of 16 bytes and the structures that follow it.

use super::wire::Writer;
use crate::values::{
    Attr, DeviceNumber, Entry, FileKind, FileSystemStatus, Lifetime, Lookup, Timestamp,
};

/// Bytes of `struct fuse_out_header`.
pub(crate) const HEADER_SIZE: usize = 16;
/// Bytes of `struct fuse_attr`.
const ATTR_SIZE: usize = 88;
/// Bytes of `struct fuse_entry_out`.
const ENTRY_SIZE: usize = 40 + ATTR_SIZE;
/// Bytes of `struct fuse_statx_out`, the largest fixed answer.
const STATX_SIZE: usize = 288;
/// Bytes of `struct fuse_dirent` before the name.
const DIRENT_HEAD: usize = 24;

/// Bits of `stx_mask`.
const STATX_BASIC_STATS: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

/// A fixed-size answer under construction, on the stack.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: [u8; STATX_SIZE],
    length: usize,
}

impl Body {
    /// No bytes: an answer that says only "done".
    pub const EMPTY: Body = Body {
        bytes: [0; STATX_SIZE],
        length: 0,
    };

    fn build(encode: impl FnOnce(&mut Writer<'_>)) -> Body {
        let mut body = Body::EMPTY;
        let mut writer = Writer::new(&mut body.bytes);
        encode(&mut writer);
        body.length = writer.len();
        body
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// `fuse_entry_out`. Node 0 makes a negative entry.
    pub fn lookup(lookup: &Lookup) -> Body {
        Body::build(|writer| match lookup {
            Lookup::Found(entry) => encode_entry(writer, entry),
            Lookup::Absent(lifetime) => {
                let duration = lifetime.duration();
                writer.u64(0).u64(0).u64(duration.as_secs()).u64(0);
                writer.u32(duration.subsec_nanos()).u32(0).zeros(ATTR_SIZE);
            }
        })
    }

    /// `fuse_entry_out` of a file that was just made.
    pub fn entry(entry: &Entry) -> Body {
        Body::build(|writer| encode_entry(writer, entry))
    }

    /// `fuse_entry_out` and `fuse_open_out` of a file that was made and opened.
    pub fn created(entry: &Entry, handle: u64, flags: u32) -> Body {
        Body::build(|writer| {
            encode_entry(writer, entry);
            writer.u64(handle).u32(flags).u32(0);
        })
    }

    /// `fuse_write_out`: how much was written; below 2^32, which is the largest request.
    pub fn written(bytes: usize) -> Body {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Body::build(|writer| {
            writer.u32(bytes).u32(0);
        })
    }

    /// `fuse_attr_out`.
    pub fn attr(attr: &Attr, lifetime: Lifetime) -> Body {
        let duration = lifetime.duration();
        Body::build(|writer| {
            writer
                .u64(duration.as_secs())
                .u32(duration.subsec_nanos())
                .u32(0);
            encode_attr(writer, attr);
        })
    }

    /// `fuse_statx_out`.
    pub fn statx(attr: &Attr, lifetime: Lifetime) -> Body {
        let duration = lifetime.duration();
        let born = attr.born.map_or(0, |_| STATX_BTIME);
        Body::build(|writer| {
            writer
                .u64(duration.as_secs())
                .u32(duration.subsec_nanos())
                .u32(0)
                .zeros(16);
            writer
                .u32(STATX_BASIC_STATS | born)
                .u32(attr.block_size)
                .u64(0);
            writer.u32(attr.nlink).u32(attr.uid).u32(attr.gid);
            // The mode has 16 bits: 4 of type, 12 of permissions.
            writer
                .u16((attr.kind.type_bits() << 12) as u16 | (attr.mode & 0o7777))
                .u16(0);
            writer.u64(attr.ino).u64(attr.size).u64(attr.blocks).u64(0);
            for time in [
                attr.accessed,
                attr.born.unwrap_or_default(),
                attr.changed,
                attr.modified,
            ] {
                writer.i64(time.seconds).u32(time.nanoseconds).u32(0);
            }
            writer
                .u32(attr.device.major)
                .u32(attr.device.minor)
                .zeros(8 + 14 * 8);
        })
    }

    /// `fuse_open_out`.
    pub fn open(handle: u64, flags: u32) -> Body {
        Body::build(|writer| {
            writer.u64(handle).u32(flags).u32(0);
        })
    }

    /// `fuse_statfs_out`.
    pub fn statfs(status: &FileSystemStatus) -> Body {
        Body::build(|writer| {
            writer
                .u64(status.blocks)
                .u64(status.blocks_free)
                .u64(status.blocks_available);
            writer.u64(status.files).u64(status.files_free);
            writer.u32(status.block_size).u32(status.name_length_max);
            writer.u32(status.fragment_size).u32(0).zeros(6 * 4);
        })
    }

    /// `fuse_ioctl_out` and what the operation gives, at most [`STATX_SIZE`] bytes in all.
    pub fn ioctl(output: &[u8]) -> Body {
        Body::build(|writer| {
            writer.u32(0).u32(0).u32(0).u32(0).raw(output);
        })
    }

    /// `fuse_getxattr_out`: the size of a value or list.
    pub fn xattr_size(size: usize) -> Body {
        // The payload's limit keeps sizes far below 2^32.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        Body::build(|writer| {
            writer.u32(size).u32(0);
        })
    }

    /// `fuse_lseek_out`.
    pub fn seek(offset: u64) -> Body {
        Body::build(|writer| {
            writer.u64(offset);
        })
    }
}

/// The header of an answer with `body_length` bytes after it; `error` is 0 or a negative errno.
pub(crate) fn header(unique: u64, error: i32, body_length: usize) -> [u8; HEADER_SIZE] {
    let length = u32::try_from(HEADER_SIZE + body_length).expect("answers are at most a few MiB");
    let mut bytes = [0; HEADER_SIZE];
    Writer::new(&mut bytes).u32(length).i32(error).u64(unique);
    bytes
}

fn encode_entry(writer: &mut Writer<'_>, entry: &Entry) {
    let name = entry.entry_lifetime.duration();
    let attr = entry.attr_lifetime.duration();
    writer
        .u64(entry.node.0)
        .u64(entry.generation)
        .u64(name.as_secs())
        .u64(attr.as_secs());
    writer.u32(name.subsec_nanos()).u32(attr.subsec_nanos());
    encode_attr(writer, &entry.attr);
}

fn encode_attr(writer: &mut Writer<'_>, attr: &Attr) {
    let seconds = |time: Timestamp| time.seconds;
    writer.u64(attr.ino).u64(attr.size).u64(attr.blocks);
    writer
        .i64(seconds(attr.accessed))
        .i64(seconds(attr.modified))
        .i64(seconds(attr.changed));
    writer
        .u32(attr.accessed.nanoseconds)
        .u32(attr.modified.nanoseconds);
    writer.u32(attr.changed.nanoseconds);
    writer.u32(attr.kind.type_bits() << 12 | u32::from(attr.mode & 0o7777));
    writer
        .u32(attr.nlink)
        .u32(attr.uid)
        .u32(attr.gid)
        .u32(encode_device(attr.device));
    writer.u32(attr.block_size).u32(0);
}

/// The kernel's 32-bit device number: minor bits 0-7, major bits 8-19, minor's upper bits 20-31.
fn encode_device(device: DeviceNumber) -> u32 {
    (device.minor & 0xff) | ((device.major & 0xfff) << 8) | ((device.minor & 0xfff00) << 12)
}

/// Bytes that an entry with a name of `name_length` takes, padding to 8 included.
pub(crate) fn directory_entry_size(name_length: usize, with_attributes: bool) -> usize {
    let prefix = if with_attributes { ENTRY_SIZE } else { 0 };
    prefix + (DIRENT_HEAD + name_length).next_multiple_of(8)
}

/// Encodes one entry over the whole of `space`.
///
/// `entry` is absent in a plain listing. In one with attributes it is `Some(None)` for a name
/// whose file the kernel shall not remember (node 0).
pub(crate) fn encode_directory_entry(
    space: &mut [u8],
    name: &[u8],
    ino: u64,
    kind: FileKind,
    next: u64,
    entry: Option<Option<&Entry>>,
) {
    let size = space.len();
    let mut writer = Writer::new(space);
    match entry {
        Some(Some(entry)) => encode_entry(&mut writer, entry),
        Some(None) => {
            writer.zeros(ENTRY_SIZE);
        }
        None => {}
    }
    // The name's length is bounded by the size of the reply that `space` was cut from.
    writer
        .u64(ino)
        .u64(next)
        .u32(name.len() as u32)
        .u32(kind.type_bits())
        .raw(name);
    let padding = size - writer.len();
    assert!(padding < 8, "the entry does not fill its space");
    writer.zeros(padding);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::Fields;
    use crate::values::NodeId;

    fn sample() -> Attr {
        Attr {
            ino: 42,
            kind: FileKind::CharDevice,
            mode: 0o4755,
            uid: 1,
            gid: 2,
            nlink: 3,
            size: 4,
            blocks: 5,
            block_size: 131072,
            device: DeviceNumber {
                major: 0x123,
                minor: 0x45678,
            },
            accessed: Timestamp::new(-2, 999_999_999),
            modified: Timestamp::new(1, 2),
            changed: Timestamp::new(3, 4),
            born: Some(Timestamp::new(-5, 6)),
        }
    }

    #[test]
    fn sizes_are_the_kernels() {
        let entry = Entry {
            node: NodeId(9),
            generation: 1,
            attr: sample(),
            entry_lifetime: Lifetime::FOREVER,
            attr_lifetime: Lifetime::NONE,
        };
        assert_eq!(Body::lookup(&Lookup::Found(entry)).bytes().len(), 128);
        assert_eq!(
            Body::lookup(&Lookup::Absent(Lifetime::FOREVER))
                .bytes()
                .len(),
            128
        );
        assert_eq!(Body::attr(&sample(), Lifetime::NONE).bytes().len(), 104);
        assert_eq!(Body::statx(&sample(), Lifetime::NONE).bytes().len(), 288);
        assert_eq!(Body::open(1, 2).bytes().len(), 16);
        assert_eq!(Body::statfs(&FileSystemStatus::default()).bytes().len(), 80);
        assert_eq!(Body::xattr_size(1).bytes().len(), 8);
        assert_eq!(Body::seek(1).bytes().len(), 8);
        assert_eq!(directory_entry_size(1, false), 32);
        assert_eq!(directory_entry_size(8, true), 160);
    }

    #[test]
    fn attributes_lie_where_the_kernel_looks() {
        let body = Body::attr(&sample(), Lifetime::FOREVER);
        let mut fields = Fields::new(&body.bytes()[16..]);
        assert_eq!(fields.u64(), Ok(42));
        assert_eq!(fields.u64(), Ok(4));
        assert_eq!(fields.u64(), Ok(5));
        assert_eq!(fields.u64(), Ok((-2i64).cast_unsigned()));
        let mut fields = Fields::new(&body.bytes()[16 + 48..]);
        assert_eq!(fields.u32(), Ok(999_999_999));
        assert_eq!(fields.u32(), Ok(2));
        assert_eq!(fields.u32(), Ok(4));
        assert_eq!(fields.u32(), Ok(0o024755));
        assert_eq!(fields.u32(), Ok(3));
        assert_eq!((fields.u32(), fields.u32()), (Ok(1), Ok(2)));
        assert_eq!(fields.u32(), Ok(0x4561_2378));
    }

    #[test]
    fn directory_entries_are_padded() {
        let mut space = [0xee; 32];
        encode_directory_entry(&mut space, b"ab", 7, FileKind::Fifo, 11, None);
        let mut fields = Fields::new(&space);
        assert_eq!((fields.u64(), fields.u64()), (Ok(7), Ok(11)));
        assert_eq!((fields.u32(), fields.u32()), (Ok(2), Ok(1)));
        assert_eq!(&space[24..], b"ab\0\0\0\0\0\0");
    }
}
