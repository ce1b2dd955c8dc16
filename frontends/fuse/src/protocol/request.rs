//! Requests: the header of 40 bytes and the arguments of each operation.

use super::opcode;
use super::wire::{Fields, Malformed};
use crate::values::{Handle, SeekTarget};

/// Bytes of `struct fuse_in_header`.
pub(crate) const HEADER_SIZE: usize = 40;

/// `struct fuse_in_header`: length, operation, number, node, caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub opcode: u32,
    /// The request's number, which its answer repeats.
    pub unique: u64,
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

impl RequestHeader {
    /// Splits a received request into header and arguments.
    pub fn decode(bytes: &[u8]) -> Result<(RequestHeader, &[u8]), Malformed> {
        Self::decode_front(bytes, bytes.len())
    }

    /// As [`Self::decode`] of the front of a request, of which `received` bytes came.
    pub fn decode_front(
        bytes: &[u8],
        received: usize,
    ) -> Result<(RequestHeader, &[u8]), Malformed> {
        let mut fields = Fields::new(bytes);
        let stated = fields.u32()? as usize;
        if stated != received {
            return Err(Malformed::LengthMismatch { stated, received });
        }
        let header = RequestHeader {
            opcode: fields.u32()?,
            unique: fields.u64()?,
            node: fields.u64()?,
            uid: fields.u32()?,
            gid: fields.u32()?,
            pid: fields.u32()?,
        };
        // total_extlen and padding; extensions follow the arguments, which are read from the front.
        fields.u32()?;
        Ok((header, &bytes[HEADER_SIZE..]))
    }

    /// The operation of the request that `bytes` begin with.
    pub fn opcode_of(bytes: &[u8]) -> Option<u32> {
        let code = bytes.get(4..8)?.first_chunk()?;
        Some(u32::from_le_bytes(*code))
    }
}

/// An operation with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget {
        entries: ForgetList<'a>,
    },
    GetAttr,
    StatX,
    ReadLink,
    Open {
        flags: u32,
        /// The caller may not keep setuid and setgid bits of what `O_TRUNC` empties.
        kill_suid_gid: bool,
    },
    Read {
        handle: Handle,
        offset: u64,
        size: u32,
    },
    Release {
        handle: Handle,
    },
    Seek {
        handle: Handle,
        offset: u64,
        target: SeekTarget,
    },
    OpenDir,
    ReadDir {
        handle: Handle,
        cookie: u64,
        size: u32,
        with_attributes: bool,
    },
    ReleaseDir {
        handle: Handle,
    },
    StatFs,
    GetXattr {
        size: u32,
        name: &'a [u8],
    },
    ListXattr {
        size: u32,
    },
    Interrupt {
        unique: u64,
    },
    Flush,
    /// FSYNC or FSYNCDIR.
    Sync {
        is_directory: bool,
    },
    Destroy,
    /// An `ioctl`, whose arguments its dispatcher reads.
    Ioctl,
    /// An operation that changes something: [`super::modification`] reads its arguments.
    Modify,
    /// An operation this crate does not implement.
    Unknown,
}

/// The pairs of node and count of a BATCH_FORGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForgetList<'a> {
    pairs: &'a [u8],
}

impl ForgetList<'_> {
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pairs.chunks_exact(16).map_while(|pair| {
            let mut fields = Fields::new(pair);
            Some((fields.u64().ok()?, fields.u64().ok()?))
        })
    }
}

/// `SEEK_DATA` and `SEEK_HOLE`; the kernel handles the other origins itself.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// `FUSE_OPEN_KILL_SUIDGID` of `fuse_open_in.open_flags`.
const OPEN_KILL_SUID_GID: u32 = 1 << 0;

impl<'a> Operation<'a> {
    /// Reads the arguments that follow the header.
    pub fn decode(code: u32, arguments: &'a [u8]) -> Result<Operation<'a>, Malformed> {
        let mut fields = Fields::new(arguments);
        Ok(match code {
            opcode::LOOKUP => Operation::Lookup {
                name: fields.name()?,
            },
            opcode::FORGET => Operation::Forget {
                lookups: fields.u64()?,
            },
            opcode::BATCH_FORGET => Self::decode_batch_forget(arguments)?,
            opcode::GETATTR => Operation::GetAttr,
            opcode::STATX => Operation::StatX,
            opcode::READLINK => Operation::ReadLink,
            opcode::OPEN => Operation::Open {
                flags: fields.u32()?,
                kill_suid_gid: fields.u32()? & OPEN_KILL_SUID_GID != 0,
            },
            opcode::READ => Operation::Read {
                handle: Handle(fields.u64()?),
                offset: fields.u64()?,
                size: fields.u32()?,
            },
            opcode::RELEASE => Operation::Release {
                handle: Handle(fields.u64()?),
            },
            opcode::LSEEK => Self::decode_seek(fields)?,
            opcode::OPENDIR => Operation::OpenDir,
            opcode::READDIR | opcode::READDIRPLUS => Operation::ReadDir {
                handle: Handle(fields.u64()?),
                cookie: fields.u64()?,
                size: fields.u32()?,
                with_attributes: code == opcode::READDIRPLUS,
            },
            opcode::RELEASEDIR => Operation::ReleaseDir {
                handle: Handle(fields.u64()?),
            },
            opcode::STATFS => Operation::StatFs,
            opcode::GETXATTR => {
                let size = fields.u32()?;
                fields.u32()?;
                Operation::GetXattr {
                    size,
                    name: fields.name()?,
                }
            }
            opcode::LISTXATTR => Operation::ListXattr {
                size: fields.u32()?,
            },
            opcode::INTERRUPT => Operation::Interrupt {
                unique: fields.u64()?,
            },
            opcode::FLUSH => Operation::Flush,
            opcode::FSYNC | opcode::FSYNCDIR => Operation::Sync {
                is_directory: code == opcode::FSYNCDIR,
            },
            opcode::DESTROY => Operation::Destroy,
            opcode::IOCTL => Operation::Ioctl,
            code if modifies(code) => Operation::Modify,
            _ => Operation::Unknown,
        })
    }

    fn decode_batch_forget(arguments: &'a [u8]) -> Result<Operation<'a>, Malformed> {
        let mut fields = Fields::new(arguments);
        let count = fields.u32()? as usize;
        fields.u32()?;
        let pairs = &arguments[8..];
        let needed = count.saturating_mul(16);
        match pairs.get(..needed) {
            Some(pairs) => Ok(Operation::BatchForget {
                entries: ForgetList { pairs },
            }),
            None => Err(Malformed::Truncated {
                offset: 8,
                missing: needed - pairs.len(),
            }),
        }
    }

    fn decode_seek(mut fields: Fields<'a>) -> Result<Operation<'a>, Malformed> {
        let handle = Handle(fields.u64()?);
        let offset = fields.u64()?;
        let target = match fields.u32()? {
            SEEK_DATA => SeekTarget::Data,
            SEEK_HOLE => SeekTarget::Hole,
            _ => return Ok(Operation::Unknown),
        };
        Ok(Operation::Seek {
            handle,
            offset,
            target,
        })
    }
}

/// Whether the operation belongs to the writing side.
fn modifies(code: u32) -> bool {
    matches!(
        code,
        opcode::SETATTR
            | opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::UNLINK
            | opcode::RMDIR
            | opcode::RENAME
            | opcode::RENAME2
            | opcode::LINK
            | opcode::WRITE
            | opcode::SETXATTR
            | opcode::REMOVEXATTR
            | opcode::CREATE
            | opcode::TMPFILE
            | opcode::FALLOCATE
            | opcode::COPY_FILE_RANGE
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wire::Writer;

    fn request(code: u32, arguments: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_SIZE + arguments.len()];
        let length = u32::try_from(bytes.len()).expect("a short request");
        let mut writer = Writer::new(&mut bytes);
        writer
            .u32(length)
            .u32(code)
            .u64(77)
            .u64(5)
            .u32(1000)
            .u32(100)
            .u32(4321)
            .u32(0);
        writer.raw(arguments);
        bytes
    }

    #[test]
    fn header_and_lookup() {
        let bytes = request(opcode::LOOKUP, b"a\nname\0");
        let (header, arguments) = RequestHeader::decode(&bytes).expect("whole header");
        assert_eq!(
            header,
            RequestHeader {
                opcode: 1,
                unique: 77,
                node: 5,
                uid: 1000,
                gid: 100,
                pid: 4321
            }
        );
        assert_eq!(
            Operation::decode(header.opcode, arguments),
            Ok(Operation::Lookup { name: b"a\nname" })
        );
    }

    #[test]
    fn no_prefix_of_a_request_panics() {
        for code in 0..opcode::LIMIT {
            let bytes = request(code, &[1; 80]);
            for length in 0..bytes.len() {
                let _ = RequestHeader::decode(&bytes[..length]);
                let _ = Operation::decode(code, &bytes[HEADER_SIZE.min(length)..length]);
            }
        }
    }

    #[test]
    fn a_length_that_lies_is_refused() {
        let mut bytes = request(opcode::GETATTR, &[0; 16]);
        bytes.push(0);
        assert_eq!(
            RequestHeader::decode(&bytes),
            Err(Malformed::LengthMismatch {
                stated: 56,
                received: 57
            })
        );
    }

    #[test]
    fn batch_forget_is_bounded_by_its_bytes() {
        let mut arguments = [0; 40];
        Writer::new(&mut arguments)
            .u32(2)
            .u32(0)
            .u64(10)
            .u64(1)
            .u64(11)
            .u64(3);
        let decoded = Operation::decode(opcode::BATCH_FORGET, &arguments);
        let Ok(Operation::BatchForget { entries }) = decoded else {
            panic!("{decoded:?}");
        };
        assert_eq!(entries.iter().collect::<Vec<_>>(), [(10, 1), (11, 3)]);
        Writer::new(&mut arguments).u32(u32::MAX);
        assert!(Operation::decode(opcode::BATCH_FORGET, &arguments).is_err());
    }

    #[test]
    fn writing_operations_are_known_as_such() {
        for code in [
            opcode::WRITE,
            opcode::UNLINK,
            opcode::TMPFILE,
            opcode::SETATTR,
        ] {
            assert_eq!(Operation::decode(code, &[]), Ok(Operation::Modify));
        }
        assert_eq!(Operation::decode(40, &[]), Ok(Operation::Unknown));
    }
}
