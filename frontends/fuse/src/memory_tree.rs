//! A tree in memory: what tests mount, and an example of a [`FileSystem`].
//!
//! It is built first and served afterwards, unchanging, so places in a directory's list serve as
//! its cookies.

use crate::filesystem::{Context, FileSystem};
use crate::payload::{DirectoryReply, Payload};
use crate::values::{
    Attr, DeviceNumber, Entry, Errno, Features, FileKind, FileSystemStatus, Handle, Lifetime,
    Lookup, NodeId, SeekTarget, Timestamp,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a file holds.
#[derive(Debug, Clone, Default)]
enum Content {
    /// Names in listing order, and the same by name.
    Directory(Vec<(Vec<u8>, NodeId)>, BTreeMap<Vec<u8>, NodeId>),
    /// Extents by offset; what lies between them is a hole.
    Regular(BTreeMap<u64, Arc<Vec<u8>>>),
    /// A link's target.
    Symlink(Vec<u8>),
    /// Nothing: devices, pipes and sockets.
    #[default]
    Special,
}

#[derive(Debug, Clone)]
struct MemoryFile {
    attr: Attr,
    parent: NodeId,
    content: Content,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A file tree in memory.
#[derive(Debug, Clone)]
pub struct MemoryTree {
    files: Vec<MemoryFile>,
    /// Choices for the mount.
    pub features: Features,
    /// For all names and attributes.
    pub lifetime: Lifetime,
    /// What `statfs` shows.
    pub status: FileSystemStatus,
}

impl Default for MemoryTree {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTree {
    /// An empty root directory, owned by root.
    pub fn new() -> Self {
        let mut tree = MemoryTree {
            files: Vec::new(),
            features: Features::default(),
            lifetime: Lifetime::FOREVER,
            status: FileSystemStatus {
                block_size: 128 << 10,
                fragment_size: 512,
                name_length_max: 255,
                ..FileSystemStatus::default()
            },
        };
        let content = Content::Directory(Vec::new(), BTreeMap::new());
        tree.add_node(NodeId::ROOT, FileKind::Directory, content);
        tree
    }

    fn add_node(&mut self, parent: NodeId, kind: FileKind, content: Content) -> NodeId {
        let node = NodeId(self.files.len() as u64 + 1);
        self.files.push(MemoryFile {
            attr: Attr {
                ino: node.0,
                kind,
                mode: if kind == FileKind::Directory {
                    0o755
                } else {
                    0o644
                },
                uid: 0,
                gid: 0,
                nlink: if kind == FileKind::Directory { 2 } else { 0 },
                size: 0,
                blocks: 1,
                block_size: 4096,
                device: DeviceNumber::default(),
                accessed: Timestamp::default(),
                modified: Timestamp::default(),
                changed: Timestamp::default(),
                born: None,
            },
            parent,
            content,
            xattrs: BTreeMap::new(),
        });
        node
    }

    fn file(&self, node: NodeId) -> Result<&MemoryFile, Errno> {
        let index = usize::try_from(node.0.wrapping_sub(1)).map_err(|_| Errno::STALE)?;
        self.files.get(index).ok_or(Errno::STALE)
    }

    fn file_mut(&mut self, node: NodeId) -> &mut MemoryFile {
        let file = self.files.get_mut(node.0 as usize - 1);
        file.expect("only nodes made by this tree are changed")
    }

    /// The attributes, to be changed. Size and link count follow from the content by themselves.
    pub fn attr_mut(&mut self, node: NodeId) -> &mut Attr {
        &mut self.file_mut(node).attr
    }

    /// Gives `node` one more name.
    pub fn link(&mut self, parent: NodeId, name: &[u8], node: NodeId) {
        let is_directory = self.file_mut(node).attr.kind == FileKind::Directory;
        if !is_directory {
            self.file_mut(node).attr.nlink += 1;
        }
        let directory = self.file_mut(parent);
        let Content::Directory(list, names) = &mut directory.content else {
            panic!("names are put into directories only");
        };
        list.push((name.to_vec(), node));
        names.insert(name.to_vec(), node);
        directory.attr.size = list.len() as u64 + 2;
        directory.attr.nlink += u32::from(is_directory);
    }

    fn add(&mut self, parent: NodeId, name: &[u8], kind: FileKind, content: Content) -> NodeId {
        let node = self.add_node(parent, kind, content);
        self.link(parent, name, node);
        node
    }

    /// Adds an empty directory.
    pub fn add_directory(&mut self, parent: NodeId, name: &[u8]) -> NodeId {
        let content = Content::Directory(Vec::new(), BTreeMap::new());
        self.add(parent, name, FileKind::Directory, content)
    }

    /// Adds a file of `size` bytes that is all hole but for `extents`, which must not overlap.
    pub fn add_file(
        &mut self,
        parent: NodeId,
        name: &[u8],
        size: u64,
        extents: Vec<(u64, Vec<u8>)>,
    ) -> NodeId {
        let extents: BTreeMap<u64, Arc<Vec<u8>>> = extents
            .into_iter()
            .map(|(offset, bytes)| (offset, Arc::new(bytes)))
            .collect();
        let stored: usize = extents.values().map(|bytes| bytes.len()).sum();
        let node = self.add(parent, name, FileKind::Regular, Content::Regular(extents));
        let attr = self.attr_mut(node);
        attr.size = size;
        attr.blocks = stored.div_ceil(512) as u64;
        node
    }

    /// Adds a symbolic link.
    pub fn add_symlink(&mut self, parent: NodeId, name: &[u8], target: &[u8]) -> NodeId {
        let content = Content::Symlink(target.to_vec());
        let node = self.add(parent, name, FileKind::Symlink, content);
        let attr = self.attr_mut(node);
        attr.size = target.len() as u64;
        attr.mode = 0o777;
        node
    }

    /// Adds a device node, pipe or socket.
    pub fn add_special(
        &mut self,
        parent: NodeId,
        name: &[u8],
        kind: FileKind,
        device: DeviceNumber,
    ) -> NodeId {
        let node = self.add(parent, name, kind, Content::Special);
        self.attr_mut(node).device = device;
        node
    }

    /// Sets an extended attribute.
    pub fn set_xattr(&mut self, node: NodeId, name: &[u8], value: &[u8]) {
        self.file_mut(node)
            .xattrs
            .insert(name.to_vec(), value.to_vec());
    }

    fn entry(&self, node: NodeId) -> Result<Entry, Errno> {
        Ok(Entry {
            node,
            generation: 0,
            attr: self.file(node)?.attr,
            entry_lifetime: self.lifetime,
            attr_lifetime: self.lifetime,
        })
    }
}

impl FileSystem for MemoryTree {
    fn features(&self) -> Features {
        self.features
    }

    fn lookup(&self, _: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        let directory = self.file(parent)?;
        if name.len() > self.status.name_length_max as usize {
            return Err(Errno::NAMETOOLONG);
        }
        let found = match (&directory.content, name) {
            (Content::Directory(..), b".") => Some(parent),
            (Content::Directory(..), b"..") => Some(directory.parent),
            (Content::Directory(_, names), name) => names.get(name).copied(),
            _ => return Err(Errno::NOTDIR),
        };
        match found {
            Some(node) => Ok(Lookup::Found(self.entry(node)?)),
            None => Ok(Lookup::Absent(self.lifetime)),
        }
    }

    fn getattr(&self, _: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        Ok((self.file(node)?.attr, self.lifetime))
    }

    fn readlink(&self, _: &Context<'_>, node: NodeId, target: &mut Payload) -> Result<(), Errno> {
        match &self.file(node)?.content {
            Content::Symlink(bytes) => {
                target.push_copy(bytes);
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
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
        let file = self.file(node)?;
        let Content::Regular(extents) = &file.content else {
            return Err(Errno::ISDIR);
        };
        let end = file.attr.size.min(offset.saturating_add(size as u64));
        let mut position = offset;
        let first = extents
            .range(..=offset)
            .next_back()
            .map_or(offset, |(start, _)| *start);
        for (start, bytes) in extents.range(first..end.max(first)) {
            let stop = (start + bytes.len() as u64).min(end);
            if stop <= position {
                continue;
            }
            if *start > position {
                data.push_zeros((start - position) as usize);
                position = *start;
            }
            let range = (position - start) as usize..(stop - start) as usize;
            data.push_shared(bytes.clone(), range);
            position = stop;
        }
        data.push_zeros(end.saturating_sub(position) as usize);
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
        let file = self.file(node)?;
        let Content::Regular(extents) = &file.content else {
            return Err(Errno::INVAL);
        };
        let size = file.attr.size;
        if offset >= size {
            return Err(Errno::NXIO);
        }
        let mut position = offset;
        for (start, bytes) in extents {
            let stop = start + bytes.len() as u64;
            let inside = *start <= position && position < stop;
            match target {
                SeekTarget::Data if inside => return Ok(position),
                SeekTarget::Data if *start > position => return Ok((*start).min(size)),
                SeekTarget::Hole if inside => position = stop,
                _ => {}
            }
        }
        match target {
            SeekTarget::Data => Err(Errno::NXIO),
            SeekTarget::Hole => Ok(position.min(size)),
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
        let directory = self.file(node)?;
        let Content::Directory(list, _) = &directory.content else {
            return Err(Errno::NOTDIR);
        };
        let dots = [(&b"."[..], node), (&b".."[..], directory.parent)];
        let names = list.iter().map(|(name, node)| (name.as_slice(), *node));
        let all = dots.into_iter().chain(names).enumerate();
        for (place, (name, node)) in all.skip(usize::try_from(cookie).unwrap_or(usize::MAX)) {
            let entry = self.entry(node)?;
            let next = place as u64 + 1;
            let added = match place {
                0 | 1 => reply.add_name(name, entry.attr.ino, FileKind::Directory, next),
                _ => reply.add_entry(name, &entry, next),
            };
            if !added {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self, _: &Context<'_>, _: NodeId) -> Result<FileSystemStatus, Errno> {
        Ok(self.status)
    }

    fn getxattr(
        &self,
        _: &Context<'_>,
        node: NodeId,
        name: &[u8],
        value: &mut Payload,
    ) -> Result<(), Errno> {
        let stored = self.file(node)?.xattrs.get(name).ok_or(Errno::NODATA)?;
        value.push_copy(stored);
        Ok(())
    }

    fn listxattr(&self, _: &Context<'_>, node: NodeId, names: &mut Payload) -> Result<(), Errno> {
        for name in self.file(node)?.xattrs.keys() {
            names.push_copy(name);
            names.push_copy(&[0]);
        }
        Ok(())
    }
}
