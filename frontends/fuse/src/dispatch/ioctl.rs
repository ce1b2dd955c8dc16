//! The `ioctl`s that make sense on a file system: the flags and projects of files.
//!
//! `chattr` and `lsattr` come as two pairs of commands, an older one with a word of flags and a
//! newer one with a structure (`fsxattr` of `linux/fs.h`) that has a project, too. The kernel
//! checks permissions. The DOS attributes come by commands of OpenZFS (`ZFS_IOC_GETDOSFLAGS`),
//! about which the kernel knows nothing. Cloning (`FICLONE`) never gets here: the kernel answers it
//! for all FUSE mounts with `EOPNOTSUPP`, and copying by `copy_file_range` shares blocks instead.

use super::{Answer, Outcome, Worker};
use crate::filesystem::Context;
use crate::protocol::reply::Body;
use crate::protocol::wire::{Fields, Malformed, Writer};
use crate::values::{Errno, FileFlags, NodeId};

/// Commands. Those of 32-bit programs differ in the size that they state.
mod command {
    pub const GET_FLAGS: u32 = 0x8008_6601;
    pub const GET_FLAGS_32: u32 = 0x8004_6601;
    pub const SET_FLAGS: u32 = 0x4008_6602;
    pub const SET_FLAGS_32: u32 = 0x4004_6602;
    pub const GET_EXTENDED: u32 = 0x801C_581F;
    pub const SET_EXTENDED: u32 = 0x401C_5820;
    pub const GET_VERSION: u32 = 0x8008_7601;
    pub const GET_VERSION_32: u32 = 0x8004_7601;
    pub const GET_DOS: u32 = 0x8008_8301;
    pub const SET_DOS: u32 = 0x4008_8302;
}

/// The meaning of bits in the word of flags and in the structure.
struct Bits {
    immutable: u32,
    append_only: u32,
    no_dump: u32,
    project_inherit: u32,
    /// Bits that say something which is not ours to change.
    ignored: u32,
}

/// `FS_*_FL`.
const FLAGS: Bits = Bits {
    immutable: 0x10,
    append_only: 0x20,
    no_dump: 0x40,
    project_inherit: 0x2000_0000,
    ignored: 0,
};

/// `FS_XFLAG_*`; the highest says that there are extended attributes.
const EXTENDED: Bits = Bits {
    immutable: 0x8,
    append_only: 0x10,
    no_dump: 0x80,
    project_inherit: 0x200,
    ignored: 0x8000_0000,
};

/// Bytes of `struct fsxattr`: flags, extent size, extents, project, another size, padding.
const EXTENDED_SIZE: usize = 28;

/// Bytes of a version, as `lsattr -v` reads it: the commands name a long, and all callers have an
/// int.
const VERSION_SIZE: usize = 4;

impl Bits {
    fn encode(&self, flags: &FileFlags) -> u32 {
        let pairs = [
            (flags.immutable, self.immutable),
            (flags.append_only, self.append_only),
            (flags.no_dump, self.no_dump),
            (flags.project_inherit, self.project_inherit),
        ];
        let set = pairs.iter().filter(|(is_set, _)| *is_set);
        set.map(|(_, bit)| bit).sum()
    }

    /// `EOPNOTSUPP` for flags that files here do not have.
    fn decode(&self, word: u32, project: Option<u32>) -> Result<FileFlags, Errno> {
        let known = self.immutable | self.append_only | self.no_dump | self.project_inherit;
        if word & !(known | self.ignored) != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        Ok(FileFlags {
            immutable: word & self.immutable != 0,
            append_only: word & self.append_only != 0,
            no_dump: word & self.no_dump != 0,
            project_inherit: word & self.project_inherit != 0,
            project,
        })
    }
}

/// An `ioctl` request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request<'a> {
    command: u32,
    output_size: usize,
    input: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads `fuse_ioctl_in` and what follows it.
    pub(super) fn decode(arguments: &'a [u8]) -> Result<Self, Malformed> {
        const FIXED: usize = 32;
        let mut fields = Fields::new(arguments);
        fields.u64()?;
        fields.u32()?;
        let command = fields.u32()?;
        fields.u64()?;
        let input_size = fields.u32()? as usize;
        let output_size = fields.u32()? as usize;
        let rest = arguments.get(FIXED..).unwrap_or_default();
        let input = rest.get(..input_size).ok_or(Malformed::Truncated {
            offset: FIXED,
            missing: input_size - rest.len(),
        })?;
        Ok(Self {
            command,
            output_size,
            input,
        })
    }

    /// The number that an operation is given; it may be longer than what the kernel passes on.
    fn word(&self) -> Result<u32, Errno> {
        Fields::new(self.input).u32().map_err(|_| Errno::INVAL)
    }

    /// `fuse_ioctl_out` with an answer, cut to what the caller has room for.
    fn answer(&self, output: &[u8]) -> Outcome {
        let output = &output[..output.len().min(self.output_size)];
        Ok(Answer::Fixed(Body::ioctl(output)))
    }
}

impl Worker<'_> {
    pub(super) fn ioctl(&self, context: &Context<'_>, node: NodeId, arguments: &[u8]) -> Outcome {
        let file_system = &*self.session.file_system;
        let request = Request::decode(arguments).map_err(|_| {
            self.session.metrics.malformed.add(1);
            Errno::IO
        })?;
        match request.command {
            command::GET_FLAGS | command::GET_FLAGS_32 => {
                let flags = file_system.file_flags(context, node)?;
                let word = FLAGS.encode(&flags);
                request.answer(&word.to_le_bytes())
            }
            command::SET_FLAGS | command::SET_FLAGS_32 => {
                let flags = FLAGS.decode(request.word()?, None)?;
                file_system.set_file_flags(context, node, &flags)?;
                file_system.sync_if_due(node, false)?;
                request.answer(&[])
            }
            command::GET_EXTENDED => {
                let flags = file_system.file_flags(context, node)?;
                let mut output = [0; EXTENDED_SIZE];
                Writer::new(&mut output)
                    .u32(EXTENDED.encode(&flags))
                    .u32(0)
                    .u32(0)
                    .u32(flags.project.unwrap_or(0));
                request.answer(&output)
            }
            command::SET_EXTENDED => {
                let mut fields = Fields::new(request.input);
                let mut field = || fields.u32().map_err(|_| Errno::INVAL);
                let (word, extent_size) = (field()?, field()?);
                field()?;
                let project = field()?;
                if extent_size != 0 {
                    return Err(Errno::OPNOTSUPP);
                }
                let flags = EXTENDED.decode(word, Some(project))?;
                file_system.set_file_flags(context, node, &flags)?;
                file_system.sync_if_due(node, false)?;
                request.answer(&[])
            }
            command::GET_VERSION | command::GET_VERSION_32 => {
                let generation = file_system.generation(context, node)?;
                request.answer(&generation.to_le_bytes()[..VERSION_SIZE])
            }
            command::GET_DOS => {
                let attributes = file_system.dos_attributes(context, node)?;
                request.answer(&attributes.to_le_bytes())
            }
            command::SET_DOS => {
                let attributes = Fields::new(request.input).u64();
                let attributes = attributes.map_err(|_| Errno::INVAL)?;
                file_system.set_dos_attributes(context, node, attributes)?;
                file_system.sync_if_due(node, false)?;
                request.answer(&[])
            }
            _ => Err(Errno::NOTTY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_both_ways() {
        for bits in [FLAGS, EXTENDED] {
            for number in 0..16 {
                let flags = FileFlags {
                    immutable: number & 1 != 0,
                    append_only: number & 2 != 0,
                    no_dump: number & 4 != 0,
                    project_inherit: number & 8 != 0,
                    project: Some(7),
                };
                assert_eq!(bits.decode(bits.encode(&flags), Some(7)), Ok(flags));
            }
        }
        // FS_COMPR_FL.
        assert_eq!(FLAGS.decode(0x4, None), Err(Errno::OPNOTSUPP));
        assert!(EXTENDED.decode(0x8000_0008, None).is_ok());
    }

    #[test]
    fn no_prefix_of_a_request_panics() {
        let mut arguments = [0; 60];
        Writer::new(&mut arguments)
            .u64(1)
            .u32(0)
            .u32(command::SET_EXTENDED)
            .u64(0)
            .u32(28)
            .u32(0)
            .u32(0x8)
            .u32(0)
            .u32(0)
            .u32(77);
        for length in 0..60 {
            assert!(Request::decode(&arguments[..length]).is_err());
        }
        let request = Request::decode(&arguments).expect("whole");
        assert_eq!(
            (request.command, request.input.len()),
            (command::SET_EXTENDED, 28)
        );
    }
}
