//! A device as the only file of a FUSE mount: what `losetup`, qemu and other programs can open.
//!
//! The kernel caches nothing of it: who opens it caches by himself. A punched hole is discarded
//! where that leaves zeros, and else filled with them.

use cenote_device::{Device, DeviceError, DeviceKind};
use cenote_fuse::{
    Attr, AttrChanges, Context, DataCache, DeviceNumber, DirectoryReply, Entry, Errno, Features,
    FileKind, FilePlace, FileSystem, FileSystemStatus, Handle, Lifetime, Lookup, NodeId, Opened,
    Payload, SeekTarget, Timestamp,
};
use std::sync::Arc;

/// The file's node.
const FILE: NodeId = NodeId(2);
/// `O_ACCMODE`.
const ACCESS: u32 = 3;
/// `FALLOC_FL_KEEP_SIZE`, `FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE`.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
/// Zeros that are written at once.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// Devices are written in these.
const SECTOR: u64 = 512;

/// The mount.
pub struct DeviceFile {
    device: Arc<dyn Device>,
    name: String,
    time: Timestamp,
    owner: (u32, u32),
}

impl DeviceFile {
    /// A directory with `device` as the file `name`.
    pub fn new(device: Arc<dyn Device>, name: String, seconds: i64) -> Self {
        let owner = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        Self {
            device,
            name,
            time: Timestamp::new(seconds, 0),
            owner,
        }
    }

    fn attr(&self, node: NodeId) -> Result<Attr, Errno> {
        let (kind, mode, size) = match node {
            NodeId::ROOT => (FileKind::Directory, 0o755, 0),
            FILE if self.device.is_writable() => (FileKind::Regular, 0o600, self.device.size()),
            FILE => (FileKind::Regular, 0o400, self.device.size()),
            _ => return Err(Errno::NOENT),
        };
        Ok(Attr {
            ino: node.0,
            kind,
            mode,
            uid: self.owner.0,
            gid: self.owner.1,
            nlink: 1,
            size,
            blocks: size / SECTOR,
            block_size: 128 << 10,
            device: DeviceNumber::default(),
            accessed: self.time,
            modified: self.time,
            changed: self.time,
            born: None,
        })
    }

    fn fail(&self, error: &DeviceError) -> Errno {
        eprintln!("cenote: {error}");
        Errno::IO
    }

    fn check(&self, node: NodeId, offset: u64, length: u64) -> Result<(), Errno> {
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        match (node, end <= self.device.size()) {
            (FILE, true) => Ok(()),
            (FILE, false) => Err(Errno::NOSPC),
            _ => Err(Errno::ISDIR),
        }
    }

    /// Makes a range read as zeros.
    fn clear(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        let end = offset + length;
        let is_whole = offset.is_multiple_of(SECTOR) && end.is_multiple_of(SECTOR);
        if is_whole && self.device.nature().kind == DeviceKind::Store {
            return self.device.discard(offset, length);
        }
        let mut at = offset;
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            self.device.write_at(at, &ZEROS[..piece as usize])?;
            at += piece;
        }
        Ok(())
    }
}

impl FileSystem for DeviceFile {
    fn features(&self) -> Features {
        Features {
            writable: self.device.is_writable(),
            ..Features::default()
        }
    }

    fn lookup(&self, _: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        if parent != NodeId::ROOT {
            return Err(Errno::NOTDIR);
        }
        if name != self.name.as_bytes() {
            return Ok(Lookup::Absent(Lifetime::FOREVER));
        }
        Ok(Lookup::Found(self.entry()?))
    }

    fn getattr(&self, _: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        Ok((self.attr(node)?, Lifetime::FOREVER))
    }

    fn readlink(&self, _: &Context<'_>, _: NodeId, _: &mut Payload) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn open(&self, _: &Context<'_>, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        if node != FILE {
            return Err(Errno::ISDIR);
        }
        if flags & ACCESS != 0 && !self.device.is_writable() {
            return Err(Errno::ROFS);
        }
        Ok(Opened {
            handle: Handle::default(),
            cache: DataCache::Direct,
        })
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
        let left = self.device.size().saturating_sub(offset);
        let length = size.min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(());
        }
        self.check(node, offset, length as u64)?;
        let bytes = self.device.read_vec(offset, length);
        data.push_copy(&bytes.map_err(|error| self.fail(&error))?);
        Ok(())
    }

    fn seek(
        &self,
        _: &Context<'_>,
        _: NodeId,
        _: Handle,
        offset: u64,
        target: SeekTarget,
    ) -> Result<u64, Errno> {
        let size = self.device.size();
        match target {
            _ if offset >= size => Err(Errno::NXIO),
            SeekTarget::Data => Ok(offset),
            SeekTarget::Hole => Ok(size),
        }
    }

    fn readdir(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Handle,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        if node != NodeId::ROOT {
            return Err(Errno::NOTDIR);
        }
        let entry = self.entry()?;
        for place in cookie..3 {
            let next = place + 1;
            let added = match place {
                0 => reply.add_name(b".", NodeId::ROOT.0, FileKind::Directory, next),
                1 => reply.add_name(b"..", NodeId::ROOT.0, FileKind::Directory, next),
                _ => reply.add_entry(self.name.as_bytes(), &entry, next),
            };
            if !added {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: &Context<'_>, _: NodeId) -> Result<FileSystemStatus, Errno> {
        Ok(FileSystemStatus {
            blocks: self.device.size() / SECTOR,
            block_size: SECTOR as u32,
            fragment_size: SECTOR as u32,
            name_length_max: 255,
            ..FileSystemStatus::default()
        })
    }

    fn setattr(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Option<Handle>,
        changes: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        // A device keeps its size; times come and go with the mount.
        match changes.size {
            Some(size) if size != self.device.size() => Err(Errno::PERM),
            _ => Ok((self.attr(node)?, Lifetime::FOREVER)),
        }
    }

    fn write(&self, _: &Context<'_>, place: FilePlace, data: &[u8], _: bool) -> Result<(), Errno> {
        self.check(place.node, place.offset, data.len() as u64)?;
        let written = self.device.write_at(place.offset, data);
        written.map_err(|error| self.fail(&error))
    }

    fn fsync(&self, _: &Context<'_>, _: NodeId) -> Result<(), Errno> {
        self.device.flush().map_err(|error| self.fail(&error))
    }

    fn allocate(
        &self,
        _: &Context<'_>,
        place: FilePlace,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        self.check(place.node, place.offset, length)?;
        match mode & !KEEP_SIZE {
            // There is room for all of it.
            0 => Ok(()),
            PUNCH_HOLE | ZERO_RANGE => {
                let cleared = self.clear(place.offset, length);
                cleared.map_err(|error| self.fail(&error))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

impl DeviceFile {
    fn entry(&self) -> Result<Entry, Errno> {
        Ok(Entry {
            node: FILE,
            generation: 0,
            attr: self.attr(FILE)?,
            entry_lifetime: Lifetime::FOREVER,
            attr_lifetime: Lifetime::FOREVER,
        })
    }
}
