//! Devices as files of a FUSE mount, for `losetup`, qemu and other programs.
//!
//! File names may contain directories, which are created. The tree never changes.
//!
//! The kernel caches nothing of it, because the program that opens a file has a cache. A punched
//! hole is discarded if the device then reads as zeros. On a network disk the server punches it;
//! elsewhere zeros are written.

use cenote_device::{Device, DeviceError, DeviceKind};
use cenote_fuse::{
    Attr, AttrChanges, Context, DataCache, DeviceNumber, DirectoryReply, Entry, Errno, Features,
    FileKind, FilePlace, FileSystem, FileSystemStatus, Handle, Lifetime, Lookup, NodeId, Opened,
    Payload, SeekTarget, Timestamp,
};
use cenote_nbd_client::NbdDevice;
use std::sync::Arc;
use std::time::Duration;

/// `O_ACCMODE`.
const ACCESS: u32 = 3;
/// `FALLOC_FL_KEEP_SIZE`, `FALLOC_FL_PUNCH_HOLE`, `FALLOC_FL_ZERO_RANGE`.
const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 2;
const ZERO_RANGE: u32 = 16;
/// Zeros for one write.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
/// How long the kernel may cache the size of a device.
const SIZE_LIFETIME: Lifetime = Lifetime::bounded(Duration::from_secs(1));
/// The unit of writes to devices.
const SECTOR: u64 = 512;

/// A file or a directory; its number is its index plus [`NodeId::ROOT`].
struct Node {
    name: String,
    parent: usize,
    /// `None` for a directory.
    device: Option<Shown>,
}

/// What a file shows.
#[derive(Clone)]
pub enum Shown {
    /// Any device.
    Device(Arc<dyn Device>),
    /// A network disk, whose server can punch holes.
    Network(Arc<NbdDevice>),
}

impl Shown {
    /// The device behind the file.
    pub fn device(&self) -> &dyn Device {
        match self {
            Self::Device(device) => device.as_ref(),
            Self::Network(device) => device.as_ref(),
        }
    }
}

/// The mount.
pub struct DeviceFiles {
    nodes: Vec<Node>,
    time: Timestamp,
    owner: (u32, u32),
}

impl DeviceFiles {
    /// A directory with these devices as files.
    pub fn new(devices: Vec<(String, Shown)>, seconds: i64) -> Self {
        let owner = (
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
        );
        let mut files = Self {
            nodes: Vec::new(),
            time: Timestamp::new(seconds, 0),
            owner,
        };
        files.add("", 0, None);
        for (name, device) in devices {
            let (directories, last) = name.rsplit_once('/').unwrap_or(("", &name));
            let mut parent = 0;
            for word in directories.split('/').filter(|word| !word.is_empty()) {
                let known = files.child(parent, word.as_bytes());
                parent = known.unwrap_or_else(|| files.add(word, parent, None));
            }
            files.add(last, parent, Some(device));
        }
        files
    }

    fn add(&mut self, name: &str, parent: usize, device: Option<Shown>) -> usize {
        self.nodes.push(Node {
            name: name.to_owned(),
            parent,
            device,
        });
        self.nodes.len() - 1
    }

    /// The index of a file or directory in a directory.
    fn child(&self, parent: usize, name: &[u8]) -> Option<usize> {
        let is_it = |node: &Node| node.parent == parent && node.name.as_bytes() == name;
        let found = self.nodes.iter().skip(1).position(is_it);
        found.map(|index| index + 1)
    }

    fn index(&self, node: NodeId) -> Result<usize, Errno> {
        let index = node.0.checked_sub(NodeId::ROOT.0);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let index = index.filter(|index| *index < self.nodes.len());
        index.ok_or(Errno::NOENT)
    }

    fn id(index: usize) -> NodeId {
        NodeId(NodeId::ROOT.0 + index as u64)
    }

    fn shown(&self, node: NodeId) -> Result<&Shown, Errno> {
        let shown = self.nodes[self.index(node)?].device.as_ref();
        shown.ok_or(Errno::ISDIR)
    }

    /// The device of a file.
    fn device(&self, node: NodeId) -> Result<&dyn Device, Errno> {
        Ok(self.shown(node)?.device())
    }

    fn attr(&self, node: NodeId) -> Result<Attr, Errno> {
        let node_of = &self.nodes[self.index(node)?];
        let (kind, mode, size) = match node_of.device.as_ref().map(Shown::device) {
            None => (FileKind::Directory, 0o755, 0),
            Some(device) if device.is_writable() => (FileKind::Regular, 0o600, device.size()),
            Some(device) => (FileKind::Regular, 0o400, device.size()),
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

    /// The device of a file, if it has this range.
    fn range(&self, node: NodeId, offset: u64, length: u64) -> Result<&dyn Device, Errno> {
        let device = self.device(node)?;
        let end = offset.checked_add(length).ok_or(Errno::FBIG)?;
        match end <= device.size() {
            true => Ok(device),
            false => Err(Errno::NOSPC),
        }
    }

    /// Makes a range read as zeros.
    fn clear(shown: &Shown, offset: u64, length: u64) -> Result<(), DeviceError> {
        let device = match shown {
            Shown::Network(device) => return device.zero(offset, length),
            Shown::Device(device) => device,
        };
        let end = offset + length;
        let is_whole = offset.is_multiple_of(SECTOR) && end.is_multiple_of(SECTOR);
        if is_whole && device.nature().kind == DeviceKind::Store {
            return device.discard(offset, length);
        }
        let mut at = offset;
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            device.write_at(at, &ZEROS[..piece as usize])?;
            at += piece;
        }
        Ok(())
    }
}

impl FileSystem for DeviceFiles {
    fn features(&self) -> Features {
        Features {
            writable: self.devices().any(|device| device.is_writable()),
            ..Features::default()
        }
    }

    fn lookup(&self, _: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        let parent = self.index(parent)?;
        if self.nodes[parent].device.is_some() {
            return Err(Errno::NOTDIR);
        }
        match self.child(parent, name) {
            Some(index) => Ok(Lookup::Found(self.entry(index)?)),
            None => Ok(Lookup::Absent(Lifetime::FOREVER)),
        }
    }

    fn getattr(&self, _: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        if let Some(device) = &self.nodes[self.index(node)?].device {
            device.device().grow();
        }
        Ok((self.attr(node)?, SIZE_LIFETIME))
    }

    fn readlink(&self, _: &Context<'_>, _: NodeId, _: &mut Payload) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn open(&self, _: &Context<'_>, node: NodeId, flags: u32, _: bool) -> Result<Opened, Errno> {
        let device = self.device(node)?;
        if flags & ACCESS != 0 && !device.is_writable() {
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
        let device = self.device(node)?;
        let left = device.size().saturating_sub(offset);
        let length = size.min(usize::try_from(left).unwrap_or(usize::MAX));
        if length == 0 {
            return Ok(());
        }
        let bytes = device.read_vec(offset, length);
        data.push_copy(&bytes.map_err(|error| self.fail(&error))?);
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
        let size = self.device(node)?.size();
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
        let index = self.index(node)?;
        if self.nodes[index].device.is_some() {
            return Err(Errno::NOTDIR);
        }
        let above = Self::id(self.nodes[index].parent);
        let children = (1..self.nodes.len()).filter(|child| self.nodes[*child].parent == index);
        let places = [None, None].into_iter().chain(children.map(Some));
        let from = usize::try_from(cookie).unwrap_or(usize::MAX);
        for (place, child) in places.enumerate().skip(from) {
            let next = place as u64 + 1;
            let added = match (child, place) {
                (Some(child), _) => {
                    let name = self.nodes[child].name.as_bytes();
                    reply.add_entry(name, &self.entry(child)?, next)
                }
                (None, 0) => reply.add_name(b".", node.0, FileKind::Directory, next),
                (None, _) => reply.add_name(b"..", above.0, FileKind::Directory, next),
            };
            if !added {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: &Context<'_>, _: NodeId) -> Result<FileSystemStatus, Errno> {
        Ok(FileSystemStatus {
            blocks: self.devices().map(|device| device.size() / SECTOR).sum(),
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
        // The size of a device is fixed, and times are not stored.
        match changes.size {
            Some(size) if size != self.device(node)?.size() => Err(Errno::PERM),
            _ => Ok((self.attr(node)?, SIZE_LIFETIME)),
        }
    }

    fn write(&self, _: &Context<'_>, place: FilePlace, data: &[u8], _: bool) -> Result<(), Errno> {
        let device = self.range(place.node, place.offset, data.len() as u64)?;
        let written = device.write_at(place.offset, data);
        written.map_err(|error| self.fail(&error))
    }

    fn fsync(&self, _: &Context<'_>, node: NodeId) -> Result<(), Errno> {
        let flushed = self.device(node)?.flush();
        flushed.map_err(|error| self.fail(&error))
    }

    fn allocate(
        &self,
        _: &Context<'_>,
        place: FilePlace,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        self.range(place.node, place.offset, length)?;
        match mode & !KEEP_SIZE {
            // All space exists already.
            0 => Ok(()),
            PUNCH_HOLE | ZERO_RANGE => {
                let shown = self.shown(place.node)?;
                let cleared = Self::clear(shown, place.offset, length);
                cleared.map_err(|error| self.fail(&error))
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

impl DeviceFiles {
    fn devices(&self) -> impl Iterator<Item = &dyn Device> {
        let shown = self.nodes.iter().filter_map(|node| node.device.as_ref());
        shown.map(Shown::device)
    }

    fn entry(&self, index: usize) -> Result<Entry, Errno> {
        let node = Self::id(index);
        Ok(Entry {
            node,
            generation: 0,
            attr: self.attr(node)?,
            entry_lifetime: Lifetime::FOREVER,
            attr_lifetime: SIZE_LIFETIME,
        })
    }
}
