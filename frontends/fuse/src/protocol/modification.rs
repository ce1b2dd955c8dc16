//! Requests that change something.

use super::init::capability;
use super::opcode;
use super::wire::{Fields, Malformed};
use crate::values::{AttrChanges, DeviceNumber, Handle, NodeId, TimeChange, Timestamp};
use rustix::fs::OFlags;

/// A changing operation with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modification<'a> {
    SetAttr {
        handle: Option<Handle>,
        changes: AttrChanges,
    },
    SymLink {
        name: &'a [u8],
        target: &'a [u8],
    },
    MkNod {
        mode: u32,
        device: DeviceNumber,
        umask: u32,
        name: &'a [u8],
    },
    MkDir {
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    RmDir {
        name: &'a [u8],
    },
    Rename {
        to: NodeId,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        node: NodeId,
        name: &'a [u8],
    },
    Write {
        handle: Handle,
        offset: u64,
        flags: u32,
        is_synchronous: bool,
        data: &'a [u8],
    },
    Create {
        flags: u32,
        mode: u32,
        umask: u32,
        name: &'a [u8],
    },
    TmpFile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Allocate {
        handle: Handle,
        offset: u64,
        length: u64,
        mode: u32,
    },
    CopyRange {
        from: Handle,
        from_offset: u64,
        to: NodeId,
        to_handle: Handle,
        to_offset: u64,
        length: u64,
    },
    SetXattr {
        flags: u32,
        clears_setgid: bool,
        name: &'a [u8],
        value: &'a [u8],
    },
    RemoveXattr {
        name: &'a [u8],
    },
}

/// Bits of `fuse_setattr_in.valid`, `FATTR_*`.
mod valid {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const HANDLE: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUID_GID: u32 = 1 << 11;
}

/// Bytes of `struct fuse_write_in`.
pub(crate) const WRITE_ARGUMENTS: usize = 40;

/// What a WRITE says before its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WriteHead {
    pub handle: Handle,
    pub offset: u64,
    /// Bytes of data.
    pub size: usize,
    pub flags: u32,
    /// The data is to be on disk before the answer.
    pub is_synchronous: bool,
}

impl WriteHead {
    /// Reads the arguments, which have [`WRITE_ARGUMENTS`] bytes.
    pub fn decode(mut fields: Fields<'_>) -> Result<Self, Malformed> {
        let (handle, offset) = (Handle(fields.u64()?), fields.u64()?);
        let (size, flags) = (fields.u32()? as usize, fields.u32()?);
        let _lock_owner = fields.u64()?;
        // Of the file or, as `pwritev2` has them, of this call. `O_SYNC` has the bit of `O_DSYNC`.
        let open_flags = fields.u32()?;
        Ok(Self {
            handle,
            offset,
            size,
            flags,
            is_synchronous: open_flags & OFlags::DSYNC.bits() != 0,
        })
    }
}

impl<'a> Modification<'a> {
    /// Reads the arguments that follow the header; `None` if the operation changes nothing.
    /// `capabilities` are those of the connection.
    pub fn decode(
        code: u32,
        arguments: &'a [u8],
        capabilities: u64,
    ) -> Result<Option<Self>, Malformed> {
        let mut fields = Fields::new(arguments);
        Ok(Some(match code {
            opcode::SETATTR => Self::decode_setattr(fields)?,
            opcode::WRITE => Self::decode_write(fields, arguments)?,
            opcode::SETXATTR => {
                let is_extended = capabilities & capability::SETXATTR_EXT != 0;
                Self::decode_setxattr(fields, arguments, is_extended)?
            }
            opcode::REMOVEXATTR => Self::RemoveXattr {
                name: fields.name()?,
            },
            opcode::FALLOCATE => Self::Allocate {
                handle: Handle(fields.u64()?),
                offset: fields.u64()?,
                length: fields.u64()?,
                mode: fields.u32()?,
            },
            opcode::COPY_FILE_RANGE => Self::CopyRange {
                from: Handle(fields.u64()?),
                from_offset: fields.u64()?,
                to: NodeId(fields.u64()?),
                to_handle: Handle(fields.u64()?),
                to_offset: fields.u64()?,
                length: fields.u64()?,
            },
            opcode::UNLINK => Self::Unlink {
                name: fields.name()?,
            },
            opcode::RMDIR => Self::RmDir {
                name: fields.name()?,
            },
            opcode::LINK => Self::Link {
                node: NodeId(fields.u64()?),
                name: fields.name()?,
            },
            opcode::RENAME | opcode::RENAME2 => Self::decode_rename(code, fields)?,
            code => return Self::decode_new(code, fields),
        }))
    }

    /// Operations that make something.
    fn decode_new(code: u32, mut fields: Fields<'a>) -> Result<Option<Self>, Malformed> {
        Ok(Some(match code {
            opcode::SYMLINK => Self::SymLink {
                name: fields.name()?,
                target: fields.name()?,
            },
            opcode::MKNOD => {
                let (mode, device, umask) = (fields.u32()?, fields.u32()?, fields.u32()?);
                fields.u32()?;
                Self::MkNod {
                    mode,
                    device: decode_device(device),
                    umask,
                    name: fields.name()?,
                }
            }
            opcode::MKDIR => Self::MkDir {
                mode: fields.u32()?,
                umask: fields.u32()?,
                name: fields.name()?,
            },
            opcode::CREATE | opcode::TMPFILE => {
                let (flags, mode, umask) = (fields.u32()?, fields.u32()?, fields.u32()?);
                fields.u32()?;
                if code == opcode::TMPFILE {
                    return Ok(Some(Self::TmpFile { flags, mode, umask }));
                }
                let name = fields.name()?;
                Self::Create {
                    flags,
                    mode,
                    umask,
                    name,
                }
            }
            _ => return Ok(None),
        }))
    }

    fn decode_rename(code: u32, mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let to = NodeId(fields.u64()?);
        let mut flags = 0;
        if code == opcode::RENAME2 {
            flags = fields.u32()?;
            fields.u32()?;
        }
        Ok(Self::Rename {
            to,
            flags,
            name: fields.name()?,
            new_name: fields.name()?,
        })
    }

    fn decode_setattr(mut fields: Fields<'a>) -> Result<Self, Malformed> {
        let valid = fields.u32()?;
        fields.u32()?;
        let handle = Handle(fields.u64()?);
        let size = fields.u64()?;
        fields.u64()?;
        let seconds = [fields.u64()?, fields.u64()?, fields.u64()?];
        let nanoseconds = [fields.u32()?, fields.u32()?, fields.u32()?];
        let mode = fields.u32()?;
        fields.u32()?;
        let (uid, gid) = (fields.u32()?, fields.u32()?);
        let has = |bit: u32| valid & bit != 0;
        // Times before 1970 are negative numbers in the same 64 bits.
        let time = |which: usize| Timestamp {
            seconds: seconds[which] as i64,
            nanoseconds: nanoseconds[which],
        };
        let change = |set: u32, now: u32, which: usize| match (has(now), has(set)) {
            (true, _) => Some(TimeChange::Now),
            (false, true) => Some(TimeChange::To(time(which))),
            (false, false) => None,
        };
        Ok(Self::SetAttr {
            handle: has(valid::HANDLE).then_some(handle),
            changes: AttrChanges {
                mode: has(valid::MODE).then_some(mode),
                uid: has(valid::UID).then_some(uid),
                gid: has(valid::GID).then_some(gid),
                size: has(valid::SIZE).then_some(size),
                accessed: change(valid::ATIME, valid::ATIME_NOW, 0),
                modified: change(valid::MTIME, valid::MTIME_NOW, 1),
                changed: has(valid::CTIME).then(|| time(2)),
                kill_suid_gid: has(valid::KILL_SUID_GID),
            },
        })
    }

    fn decode_write(fields: Fields<'a>, arguments: &'a [u8]) -> Result<Self, Malformed> {
        let WriteHead {
            handle,
            offset,
            size,
            flags,
            is_synchronous,
        } = WriteHead::decode(fields)?;
        Ok(Self::Write {
            handle,
            offset,
            flags,
            is_synchronous,
            data: piece(arguments, WRITE_ARGUMENTS, size)?,
        })
    }

    fn decode_setxattr(
        mut fields: Fields<'a>,
        arguments: &'a [u8],
        is_extended: bool,
    ) -> Result<Self, Malformed> {
        /// `FUSE_SETXATTR_ACL_KILL_SGID`.
        const KILL_SETGID: u32 = 1 << 0;
        let size = fields.u32()? as usize;
        let flags = fields.u32()?;
        let (mut fixed, mut clears_setgid) = (8, false);
        if is_extended {
            fixed = 16;
            clears_setgid = fields.u32()? & KILL_SETGID != 0;
            fields.u32()?;
        }
        let name = fields.name()?;
        let value = piece(arguments, fixed + name.len() + 1, size)?;
        Ok(Self::SetXattr {
            flags,
            clears_setgid,
            name,
            value,
        })
    }
}

fn piece(arguments: &[u8], start: usize, size: usize) -> Result<&[u8], Malformed> {
    let rest = arguments.get(start..).unwrap_or_default();
    rest.get(..size).ok_or(Malformed::Truncated {
        offset: start,
        // Evaluated for what is long enough, too.
        missing: size.saturating_sub(rest.len()),
    })
}

/// The kernel's 32-bit device numbers: minor 7-0, major 19-8, minor 31-20.
fn decode_device(number: u32) -> DeviceNumber {
    DeviceNumber {
        major: (number & 0xfff00) >> 8,
        minor: (number & 0xff) | ((number >> 12) & 0xfff00),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::Writer;

    #[test]
    fn no_prefix_of_the_arguments_panics() {
        for code in 0..opcode::LIMIT {
            for length in 0..120 {
                let _ = Modification::decode(code, &vec![1; length], u64::MAX);
            }
        }
    }

    #[test]
    fn a_write_carries_its_data() {
        let mut arguments = [0; 45];
        Writer::new(&mut arguments)
            .u64(9)
            .u64(4096)
            .u32(5)
            .u32(4)
            .u64(0)
            .u32((OFlags::SYNC | OFlags::RDWR).bits())
            .u32(0)
            .raw(b"bytes");
        let decoded = Modification::decode(opcode::WRITE, &arguments, 0);
        let expected = Modification::Write {
            handle: Handle(9),
            offset: 4096,
            flags: 4,
            is_synchronous: true,
            data: b"bytes",
        };
        assert_eq!(decoded, Ok(Some(expected)));
        assert!(Modification::decode(opcode::WRITE, &arguments[..44], 0).is_err());
    }

    #[test]
    fn old_kernels_set_attributes_without_flags_of_their_own() {
        let decode = |words: &[u32], capabilities| {
            let mut arguments: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            arguments.extend_from_slice(b"user.a\0value");
            let decoded = Modification::decode(opcode::SETXATTR, &arguments, capabilities);
            match decoded {
                Ok(Some(Modification::SetXattr {
                    flags: 2,
                    clears_setgid,
                    name: b"user.a",
                    value: b"value",
                })) => clears_setgid,
                other => panic!("{other:?}"),
            }
        };
        assert!(!decode(&[5, 2], 0));
        assert!(!decode(&[5, 2, 0, 0], capability::SETXATTR_EXT));
        assert!(decode(&[5, 2, 1, 0], capability::SETXATTR_EXT));
    }

    #[test]
    fn device_numbers_are_taken_apart() {
        let sda = decode_device(0x0810);
        assert_eq!((sda.major, sda.minor), (8, 16));
        let large = decode_device(0xfff0_0000 | 0x12_34 | 0xf_0000);
        assert_eq!((large.major, large.minor), (0xf12, 0xfff34));
    }
}
