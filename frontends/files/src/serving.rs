//! The requests of the kernel, answered by a dataset's files.

use super::changes;
use super::control;
use super::convert::status_of;
use super::dataset_files::DatasetFiles;
use super::kernel_view::KernelView;
use super::node::Node;
use super::opens::{self, access_by, to_be_read, without_holes};
use cenote_fuse::{
    Attr, AttrChanges, Context, DeviceNumber, DirectoryReply, Entry, Errno, Features, FileFlags,
    FilePlace, FileSystem, FileSystemStatus, Handle, Lifetime, Lookup, NewMode, NodeId, Notifier,
    Opened, Payload, SeekTarget, XattrChange,
};
use cenote_posix::{BlockBuffer, Viewer};
use std::sync::Arc;

/// The longest path that a symbolic link may hold (`PATH_MAX` less the NUL).
const LINK_LENGTH_MAX: usize = 4095;

impl FileSystem for DatasetFiles {
    fn attach(&self, kernel: Notifier) {
        let kernel = self.kernel.get_or_init(|| kernel).clone();
        let viewer: Arc<dyn Viewer> = Arc::new(KernelView(kernel));
        self.trees
            .head()
            .add_viewer(self.viewer.get_or_init(|| viewer));
    }

    fn begin_request(&self) {
        self.gate.enter();
    }

    fn end_request(&self) {
        self.gate.leave();
    }

    fn features(&self) -> Features {
        Features {
            posix_acl: self.options.posix_acl,
            writable: self.is_writable(),
            lookup_dots: true,
            ..Features::default()
        }
    }

    fn lookup(&self, _: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<Lookup, Errno> {
        let node = self.node(parent);
        match node {
            _ if name == b"." => self.lookup_itself(node),
            _ if name == b".." => self.lookup_parent(node),
            _ if self.has_control() && self.is_root(node) && name == control::CONTROL_NAME => {
                self.control_entry(Node::Control).map(Lookup::Found)
            }
            Node::Object { tree, object } => self.lookup_object(tree, object, name),
            Node::Control if name == b"snapshot" => {
                self.control_entry(Node::Snapshots).map(Lookup::Found)
            }
            Node::Control => Ok(Lookup::Absent(Lifetime::FOREVER)),
            Node::Snapshots => self.lookup_snapshot(name),
        }
    }

    fn forget(&self, node: NodeId, _: u64) {
        if let Node::Object { tree: 0, object } = self.node(node) {
            self.ghosts.forget(object);
        }
    }

    fn getattr(&self, _: &Context<'_>, node: NodeId) -> Result<(Attr, Lifetime), Errno> {
        match self.node(node) {
            Node::Object { tree, object } => match self.znode(tree, object) {
                Err(Errno::STALE) if tree == 0 => {
                    let ghost = self.ghosts.get(object).ok_or(Errno::STALE)?;
                    Ok((ghost, self.lifetime()))
                }
                znode => self.attr(tree, &*znode?),
            },
            control => Ok((
                self.control_entry(control)?.attr,
                self.control_lifetime(control),
            )),
        }
    }

    fn readlink(&self, _: &Context<'_>, node: NodeId, target: &mut Payload) -> Result<(), Errno> {
        let (tree, link) = self.object(node)?;
        let files = self.trees.get(tree)?;
        let path = files.read_link(&link).map_err(|error| self.errno(error))?;
        self.note_read(tree, &files, &link);
        if path.len() > LINK_LENGTH_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        target.push_copy(&path);
        Ok(())
    }

    fn open(
        &self,
        context: &Context<'_>,
        node: NodeId,
        flags: u32,
        kill_suid_gid: bool,
    ) -> Result<Opened, Errno> {
        if self.is_writable() {
            return self.open_writable(context, node, (flags, kill_suid_gid));
        }
        // O_RDONLY is 0 in the two lowest bits.
        if flags & 3 != 0 {
            return Err(Errno::ROFS);
        }
        self.object(node)?;
        Ok(to_be_read(flags))
    }

    fn read(
        &self,
        _: &Context<'_>,
        node: NodeId,
        handle: Handle,
        offset: u64,
        size: usize,
        data: &mut Payload,
    ) -> Result<(), Errno> {
        let Node::Object { tree, object } = self.node(node) else {
            return Err(Errno::ISDIR);
        };
        if tree == 0 {
            self.check_handle(object, handle)?;
        }
        let files = self.trees.get(tree)?;
        let file = files.znode(object).map_err(|error| self.errno(error))?;
        let access = access_by(handle);
        let segments = files.read_segments_as(&file, offset, size, access);
        for segment in segments.map_err(|error| self.errno(error))? {
            match segment.block {
                Some(block) => {
                    data.push_shared(block, segment.start..segment.start + segment.length);
                }
                None => data.push_zeros(segment.length),
            }
        }
        if offset == 0 {
            files.read_beside(&file);
        }
        self.note_read(tree, &files, &file);
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
        if !self.collect_stores(node, offset) {
            let (_, file) = self.object(node)?;
            return without_holes(file.attributes().size, offset, target);
        }
        let (tree, file) = self.object(node)?;
        let target = match target {
            SeekTarget::Data => cenote_posix::SeekTarget::Data,
            SeekTarget::Hole => cenote_posix::SeekTarget::Hole,
        };
        let files = self.trees.get(tree)?;
        files
            .seek(&file, offset, target)
            .map_err(|error| self.errno(error))
    }

    fn readdir(
        &self,
        _: &Context<'_>,
        node: NodeId,
        _: Handle,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        let node = self.node(node);
        let Node::Object { tree, object } = node else {
            return self.list_control(node, cookie, reply);
        };
        let directory = self.znode(tree, object)?;
        if cookie == 0 {
            self.note_read(tree, &self.trees.head(), &directory);
        }
        let mut cookie = cookie;
        if self.lists_control() && self.is_root(node) && cookie <= control::COOKIE {
            // `.` and `..` come first, then `.zfs`, which has the cookie that is free for it.
            if cookie < control::COOKIE {
                let dots = [(&b"."[..], object.0), (&b".."[..], object.0)];
                for ((name, ino), next) in dots.into_iter().zip(1_u64..) {
                    let kind = cenote_fuse::FileKind::Directory;
                    if next > cookie && !reply.add_name(name, ino, kind, next) {
                        return Ok(());
                    }
                }
                let entry = self.control_entry(Node::Control)?;
                let next = control::COOKIE + 1;
                let added = match reply.wants_attributes() {
                    true => reply.add_entry(control::CONTROL_NAME, &entry, next),
                    false => {
                        let (ino, kind) = (entry.attr.ino, entry.attr.kind);
                        reply.add_name(control::CONTROL_NAME, ino, kind, next)
                    }
                };
                if !added {
                    return Ok(());
                }
            }
            cookie = control::COOKIE + 1;
        }
        match reply.wants_attributes() {
            true => self.list_object_plus(tree, &directory, cookie, reply),
            false => self.list_object(tree, &directory, cookie, reply),
        }
    }

    fn statfs(&self, _: &Context<'_>, node: NodeId) -> Result<FileSystemStatus, Errno> {
        let (files, space) = (self.trees.head(), self.space()?);
        // In directories of a project with limits these are the limits shown.
        let stat = match self.node(node) {
            Node::Object { tree: 0, object } => match self.znode(0, object) {
                Err(Errno::STALE) => files.stat_file_system(space),
                place => {
                    let stat = files.stat_file_system_at(space, &*place?);
                    stat.map_err(|error| self.errno(error))?
                }
            },
            _ => files.stat_file_system(space),
        };
        Ok(status_of(&stat))
    }

    fn getxattr(
        &self,
        _: &Context<'_>,
        node: NodeId,
        name: &[u8],
        value: &mut Payload,
    ) -> Result<(), Errno> {
        let Ok((tree, znode)) = self.object(node) else {
            return Err(Errno::NODATA);
        };
        self.check_xattr_namespace(name)?;
        let files = self.trees.get(tree)?;
        match files
            .xattr(&znode, name)
            .map_err(|error| self.errno(error))?
        {
            Some(bytes) => {
                value.push_copy(&bytes);
                Ok(())
            }
            None => Err(Errno::NODATA),
        }
    }

    fn listxattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        names: &mut Payload,
    ) -> Result<(), Errno> {
        let Ok((tree, znode)) = self.object(node) else {
            return Ok(());
        };
        if !self.shows_xattr() {
            return Ok(());
        }
        let files = self.trees.get(tree)?;
        for name in files
            .xattr_names(&znode)
            .map_err(|error| self.errno(error))?
        {
            // Their names are for administrators only, as on other file systems.
            if context.uid != 0 && name.starts_with(b"trusted.") {
                continue;
            }
            names.push_copy(&name);
            names.push_static(b"\0");
        }
        Ok(())
    }

    fn release(&self, node: NodeId, handle: Handle) {
        if self.is_writable() {
            self.close(node, handle);
        }
    }

    fn setattr(
        &self,
        context: &Context<'_>,
        node: NodeId,
        _: Option<Handle>,
        changes: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        self.change_attributes(context, node, changes)
    }

    fn mknod(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
        device: DeviceNumber,
    ) -> Result<Entry, Errno> {
        self.make_node(context, parent, name, mode, device)
    }

    fn mkdir(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
    ) -> Result<Entry, Errno> {
        if self.is_snapshots(parent) {
            return self.make_snapshot(context.uid, name);
        }
        let new = changes::new_file(cenote_posix::FileKind::Directory, mode);
        self.make(context, parent, name, new)
    }

    fn symlink(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        target: &[u8],
    ) -> Result<Entry, Errno> {
        let mode = NewMode {
            mode: 0o777,
            umask: 0,
        };
        let mut new = changes::new_file(cenote_posix::FileKind::Symlink, mode);
        new.target = target.to_vec();
        self.make(context, parent, name, new)
    }

    fn link(
        &self,
        _: &Context<'_>,
        node: NodeId,
        parent: NodeId,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        self.add_name(node, parent, name)
    }

    fn unlink(&self, _: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.remove_name(parent, name, false)
    }

    fn rmdir(&self, context: &Context<'_>, parent: NodeId, name: &[u8]) -> Result<(), Errno> {
        if self.is_snapshots(parent) {
            return self.destroy_snapshot(context.uid, name);
        }
        self.remove_name(parent, name, true)
    }

    fn rename(
        &self,
        context: &Context<'_>,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        if self.is_snapshots(from.0) || self.is_snapshots(to.0) {
            return self.rename_snapshot(context.uid, from, to, flags);
        }
        self.move_name(from, to, flags)
    }

    fn create(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        self.make_and_open(context, parent, name, (mode, flags))
    }

    fn tmpfile(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        mode: NewMode,
        flags: u32,
    ) -> Result<(Entry, Opened), Errno> {
        self.make_unnamed(context, parent, (mode, flags))
    }

    fn write(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        data: &[u8],
        kill_suid_gid: bool,
    ) -> Result<(), Errno> {
        self.write_data(context, place, data, kill_suid_gid)
    }

    fn write_blocks(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        data: (&mut [BlockBuffer], usize),
        kill_suid_gid: bool,
    ) -> Result<Option<usize>, Errno> {
        self.write_owned(context, place, data, kill_suid_gid)
    }

    fn allocate(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        self.allocate_range(context, place, length, mode)
    }

    fn copy_range(
        &self,
        context: &Context<'_>,
        from: FilePlace,
        to: FilePlace,
        length: u64,
    ) -> Result<u64, Errno> {
        self.copy_data(context, from, to, length)
    }

    fn setxattr(
        &self,
        _: &Context<'_>,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        how: XattrChange,
    ) -> Result<(), Errno> {
        self.set_extended(node, name, value, how)
    }

    fn removexattr(&self, _: &Context<'_>, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.remove_extended(node, name)
    }

    fn file_flags(&self, _: &Context<'_>, node: NodeId) -> Result<FileFlags, Errno> {
        self.flags_of_file(node)
    }

    fn set_file_flags(
        &self,
        _: &Context<'_>,
        node: NodeId,
        flags: &FileFlags,
    ) -> Result<(), Errno> {
        self.change_flags(node, flags)
    }

    fn dos_attributes(&self, _: &Context<'_>, node: NodeId) -> Result<u64, Errno> {
        self.dos_attributes_of_file(node)
    }

    fn set_dos_attributes(
        &self,
        context: &Context<'_>,
        node: NodeId,
        attributes: u64,
    ) -> Result<(), Errno> {
        self.change_dos_attributes(context, node, attributes)
    }

    fn generation(&self, _: &Context<'_>, node: NodeId) -> Result<u64, Errno> {
        self.generation_of_file(node)
    }

    fn is_synchronous(&self, handle: Handle) -> bool {
        opens::is_synchronous(handle)
    }

    fn sync_if_due(&self, node: NodeId, is_wanted: bool) -> Result<(), Errno> {
        let synced = match self.node(node) {
            Node::Object { tree: 0, object } => self.trees.head().sync_if_due(object, is_wanted),
            // What is done there is done to the pool, and waits for that itself.
            Node::Object { .. } | Node::Control | Node::Snapshots => Ok(()),
        };
        synced.map_err(|error| self.errno(error))
    }

    fn fsync(&self, _: &Context<'_>, node: NodeId) -> Result<(), Errno> {
        self.sync_if_due(node, true)
    }

    fn destroy(&self) {
        if let Some(viewer) = self.viewer.get() {
            self.trees.head().remove_viewer(viewer);
        }
        // umount(8) does not wait for this, and its user expects the data to be safe soon after.
        if self.is_writable()
            && let Err(error) = self.trees.head().request_sync()
        {
            // The request has no reply; some access times are lost.
            (self.errors)(&error);
        }
    }
}
