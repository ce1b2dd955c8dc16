//! A file system of constants: the ceiling of the transport.
//!
//! It answers everything without looking anything up, so a benchmark on it measures the kernel,
//! the protocol and the worker threads alone. The root holds `data`, one huge file of zeros, and
//! files named by decimal numbers below a chosen count. What is made, written or removed is
//! accepted and forgotten.

use crate::filesystem::{Context, FileSystem};
use crate::payload::{DirectoryReply, Payload};
use crate::values::{
    Attr, AttrChanges, DeviceNumber, Entry, Errno, Features, FileKind, FilePlace, FileSystemStatus,
    Handle, Lifetime, Lookup, NewMode, NodeId, Opened, SeekTarget, Timestamp,
};

/// The size of `data`: 1 TiB.
pub const DATA_SIZE: u64 = 1 << 40;

const DATA: NodeId = NodeId(2);
/// File N has the node id `FIRST_FILE + N`.
const FIRST_FILE: u64 = 16;
/// What is made gets a node id from here on, by the hash of its name.
const MADE_FILES: u64 = 1 << 60;
const MADE_DIRECTORIES: u64 = 1 << 61;

/// The null server.
#[derive(Debug, Clone, Copy)]
pub struct NullFileSystem {
    /// How many numbered files the root lists.
    pub files: u64,
    /// For all names and attributes; [`Lifetime::NONE`] makes every call a round trip.
    pub lifetime: Lifetime,
}

impl NullFileSystem {
    fn attr(&self, node: NodeId) -> Result<Attr, Errno> {
        let (kind, mode, size) = match node {
            NodeId::ROOT => (FileKind::Directory, 0o755, self.files + 3),
            DATA => (FileKind::Regular, 0o444, DATA_SIZE),
            NodeId(made) if made >= MADE_DIRECTORIES => (FileKind::Directory, 0o755, 0),
            NodeId(made) if made >= MADE_FILES => (FileKind::Regular, 0o644, 0),
            NodeId(file) if file >= FIRST_FILE && file - FIRST_FILE < self.files => {
                (FileKind::Regular, 0o444, 4096)
            }
            _ => return Err(Errno::STALE),
        };
        Ok(Attr {
            ino: node.0,
            kind,
            mode,
            uid: 0,
            gid: 0,
            nlink: 1,
            size,
            blocks: size.div_ceil(512),
            block_size: 128 << 10,
            device: DeviceNumber::default(),
            accessed: Timestamp::default(),
            modified: Timestamp::default(),
            changed: Timestamp::default(),
            born: None,
        })
    }

    fn entry(&self, node: NodeId) -> Result<Entry, Errno> {
        Ok(Entry {
            node,
            generation: 0,
            attr: self.attr(node)?,
            entry_lifetime: self.lifetime,
            attr_lifetime: self.lifetime,
        })
    }

    /// The node at a place of the listing: `.`, `..`, `data`, then the numbered files.
    fn listed(&self, place: u64) -> Option<NodeId> {
        match place {
            0 | 1 => Some(NodeId::ROOT),
            2 => Some(DATA),
            place if place - 3 < self.files => Some(NodeId(FIRST_FILE + place - 3)),
            _ => None,
        }
    }
}

/// A number for a name, below 2^60.
fn hash_of(name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
    name.iter().fold(0xCBF2_9CE4_8422_2325, step) >> 4
}

impl FileSystem for NullFileSystem {
    fn features(&self) -> Features {
        Features {
            writable: true,
            ..Features::default()
        }
    }

    fn open(&self, _: &Context<'_>, _: NodeId, _: u32, _: bool) -> Result<Opened, Errno> {
        Ok(Opened::default())
    }

    fn create(
        &self,
        _: &Context<'_>,
        _: NodeId,
        name: &[u8],
        _: NewMode,
        _: u32,
    ) -> Result<(Entry, Opened), Errno> {
        let entry = self.entry(NodeId(MADE_FILES + hash_of(name)))?;
        Ok((entry, Opened::default()))
    }

    fn mkdir(&self, _: &Context<'_>, _: NodeId, name: &[u8], _: NewMode) -> Result<Entry, Errno> {
        self.entry(NodeId(MADE_DIRECTORIES + hash_of(name)))
    }

    fn write(&self, _: &Context<'_>, _: FilePlace, _: &[u8], _: bool) -> Result<(), Errno> {
        Ok(())
    }

    fn setattr(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Option<Handle>,
        _: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        Ok((self.attr(node)?, self.lifetime))
    }

    fn unlink(&self, _: &Context<'_>, _: NodeId, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn rmdir(&self, _: &Context<'_>, _: NodeId, _: &[u8]) -> Result<(), Errno> {
        Ok(())
    }

    fn lookup(&self, _: &Context<'_>, _: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        if name == b"data" {
            return Ok(Lookup::Found(self.entry(DATA)?));
        }
        let number = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.parse::<u64>().ok());
        match number {
            Some(number) if number < self.files => {
                Ok(Lookup::Found(self.entry(NodeId(FIRST_FILE + number))?))
            }
            _ => Ok(Lookup::Absent(self.lifetime)),
        }
    }

    fn getattr(&self, _: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        Ok((self.attr(node)?, self.lifetime))
    }

    fn readlink(&self, _: &Context<'_>, _: NodeId, _: &mut Payload) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn read(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Handle,
        offset: u64,
        size: usize,
        data: &mut Payload,
    ) -> Result<(), Errno> {
        let left = self.attr(node)?.size.saturating_sub(offset);
        data.push_zeros(usize::try_from(left).unwrap_or(usize::MAX).min(size));
        Ok(())
    }

    fn seek(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno> {
        let size = self.attr(node)?.size;
        match target {
            _ if offset >= size => Err(Errno::NXIO),
            SeekTarget::Data => Ok(offset),
            SeekTarget::Hole => Ok(size),
        }
    }

    fn readdir(
        &self,
        _: &Context<'_>,
        _: NodeId,
        _: Handle,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        for place in cookie.. {
            let Some(node) = self.listed(place) else {
                break;
            };
            let number = place.saturating_sub(3).to_string();
            let next = place + 1;
            let added = match place {
                0 => reply.add_name(b".", 1, FileKind::Directory, next),
                1 => reply.add_name(b"..", 1, FileKind::Directory, next),
                2 => reply.add_entry(b"data", &self.entry(node)?, next),
                _ => reply.add_entry(number.as_bytes(), &self.entry(node)?, next),
            };
            if !added {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: &Context<'_>, _: NodeId) -> Result<FileSystemStatus, Errno> {
        Ok(FileSystemStatus {
            blocks: DATA_SIZE >> 9,
            files: self.files,
            block_size: 128 << 10,
            fragment_size: 512,
            name_length_max: 255,
            ..FileSystemStatus::default()
        })
    }
}
