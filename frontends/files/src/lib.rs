//! A dataset's files as a mount shows them: what joins `posix` to the FUSE crate's trait.
//!
//! Node ids are object numbers, so nothing is remembered per name; `forget` only counts for what
//! was removed. The control directory `.zfs` is made up here: it can always be entered from the
//! root and is listed there when `snapdir=visible`; below `.zfs/snapshot` each snapshot is opened
//! when it is first looked into. All changes pass through the mount, so the kernel may keep all it
//! learns.
//!
//! Deliberately absent: how a mount is made, which is the FUSE crate's, and which dataset is
//! mounted where, which is the engine's.

#![forbid(unsafe_code)]

mod changes;
mod control;
mod convert;
mod exchange;
mod exchanges;
mod flags;
mod gate;
mod ghosts;
mod handles;
mod kernel_view;
mod lifetimes;
mod name_changer;
mod node;
mod opens;
mod snapshot_directory;
mod switches;
mod trees;

use cenote_base::ObjectId;
use cenote_dsl::Dataset;
use cenote_fuse::{
    Attr, AttrChanges, Context, DeviceNumber, DirectoryReply, Entry, Errno, Features, FileFlags,
    FilePlace, FileSystem, FileSystemStatus, Handle, Lifetime, Lookup, NewMode, NodeId, Notifier,
    Opened, Payload, SeekTarget, XattrChange,
};
use cenote_posix::{BlockBuffer, DatasetSpace, NAME_LENGTH_MAX, PosixError, Stat, Viewer, Znode};
use convert::{attr_of, kind_of};
use exchanges::Exchanges;
use gate::Gate;
use ghosts::Ghosts;
use kernel_view::KernelView;
pub use name_changer::{NameChange, NameChanger};
use node::Node;
use opens::{Opens, access_by, to_be_read, without_holes};
use std::sync::{Arc, OnceLock};
use switches::Live;
pub use switches::{ControlDirectory, DatasetOptions, DatasetSwitches};
use trees::Trees;

/// The longest path that a symbolic link may hold (`PATH_MAX` less the NUL).
const LINK_LENGTH_MAX: usize = 4095;
/// Entries of a listing whose attributes are read at once.
const LISTING_BATCH: usize = 512;

/// Who wants to know of errors that callers only see as an errno.
pub type ErrorSink = Box<dyn Fn(&PosixError) + Send + Sync>;

/// A dataset or snapshot, to be mounted.
pub struct DatasetFiles {
    trees: Trees,
    options: DatasetOptions,
    live: Live,
    errors: ErrorSink,
    name_changer: NameChanger,
    ghosts: Ghosts,
    gate: Gate,
    exchanges: Exchanges,
    opens: Opens,
    kernel: OnceLock<Notifier>,
    /// This mount among the head's viewers.
    viewer: OnceLock<Arc<dyn Viewer>>,
}

impl std::fmt::Debug for DatasetFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatasetFiles")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl DatasetFiles {
    /// The files of `dataset`, which `files` has opened; its snapshots are changed by
    /// `name_changer`.
    pub fn new(
        dataset: Dataset,
        files: Arc<cenote_posix::FileSystem>,
        options: DatasetOptions,
        errors: ErrorSink,
        name_changer: NameChanger,
    ) -> Self {
        Self {
            trees: Trees::new(&dataset, files),
            live: Live::new(options.switches),
            options,
            errors,
            name_changer,
            ghosts: Ghosts::default(),
            gate: Gate::default(),
            exchanges: Exchanges::default(),
            opens: Opens::default(),
            kernel: OnceLock::new(),
            viewer: OnceLock::new(),
        }
    }

    /// Has nobody look into snapshots any more that are gone, nor find those that have another
    /// name under their old one.
    pub fn forget_snapshots(&self) {
        // What is not known to be gone stays; who reads it hears of damage.
        let Ok(changed) = self.trees.forget_gone() else {
            return;
        };
        let Some(kernel) = self.kernel.get() else {
            return;
        };
        let snapshots = Node::Snapshots.encode(self.root());
        for name in changed {
            // A kernel that does not know the name has nothing to forget.
            let _ = kernel.invalidate_entry(snapshots, &name);
        }
    }

    fn root(&self) -> ObjectId {
        self.trees.head().root()
    }

    fn node(&self, id: NodeId) -> Node {
        Node::decode(id, self.root())
    }

    fn is_root(&self, node: Node) -> bool {
        node == Node::Object {
            tree: 0,
            object: self.root(),
        }
    }

    /// The errno for a caller; the cause goes to the error sink.
    fn errno(&self, error: PosixError) -> Errno {
        if error.is_damage() {
            (self.errors)(&error);
        }
        Errno::from_raw_os_error(error.errno())
    }

    /// The dataset's space: as it is now, if it can change.
    fn space(&self) -> Result<DatasetSpace, Errno> {
        let options = self.options.space;
        if !self.is_writable() {
            return Ok(options);
        }
        let dataset = self.trees.dataset();
        let now = dataset
            .dsl()
            .dataset_of(dataset.id())
            .map_err(|_| Errno::IO)?;
        Ok(DatasetSpace {
            referenced: now.phys().referenced_bytes,
            available: now.available().map_err(|_| Errno::IO)?,
            ..options
        })
    }

    fn znode(&self, tree: usize, object: ObjectId) -> Result<Arc<Znode>, Errno> {
        let files = self.trees.get(tree)?;
        files.znode(object).map_err(|error| self.errno(error))
    }

    /// The object that a node stands for; the control directories are none.
    fn object(&self, id: NodeId) -> Result<(usize, Arc<Znode>), Errno> {
        match self.node(id) {
            Node::Object { tree, object } => Ok((tree, self.znode(tree, object)?)),
            Node::Control | Node::Snapshots => Err(Errno::ISDIR),
        }
    }

    fn attr(&self, tree: usize, znode: &Znode) -> Result<(Attr, Lifetime), Errno> {
        let files = self.trees.get(tree)?;
        let stat = files.stat(znode);
        let lifetime = self.attr_lifetime(&stat);
        Ok((self.attr_of_stat(&files, tree, &stat), lifetime))
    }

    fn attr_of_stat(&self, files: &cenote_posix::FileSystem, tree: usize, stat: &Stat) -> Attr {
        let mut attr = attr_of(stat);
        let is_snapshot = tree > 0 || self.trees.is_snapshot();
        if is_snapshot && stat.object == files.root() {
            attr.ino = control::snapshot_ino(files.set().id());
        }
        attr
    }

    fn entry(&self, tree: usize, znode: &Znode) -> Result<Entry, Errno> {
        let files = self.trees.get(tree)?;
        Ok(self.entry_of(&files, tree, &files.stat(znode)))
    }

    fn entry_of(&self, files: &cenote_posix::FileSystem, tree: usize, stat: &Stat) -> Entry {
        let object = stat.object;
        Entry {
            node: Node::Object { tree, object }.encode(self.root()),
            generation: Self::generation_of(files, tree, stat),
            attr: self.attr_of_stat(files, tree, stat),
            entry_lifetime: self.name_lifetime(),
            attr_lifetime: self.attr_lifetime(stat),
        }
    }

    fn name_length_max(&self) -> usize {
        let settings = self.trees.head().write_settings();
        let is_long = settings.map_or(self.options.space.long_names, |set| set.long_names);
        if is_long { NAME_LENGTH_MAX } else { 255 }
    }

    /// Notes that a file of the head was read.
    fn note_read(&self, tree: usize, files: &cenote_posix::FileSystem, znode: &Znode) {
        if tree == 0 && self.notes_reads() {
            files.note_read(znode);
        }
    }

    fn control_entry(&self, node: Node) -> Result<Entry, Errno> {
        let root = self.znode(0, self.root())?;
        let attr = control::attr(node, &self.attr(0, &root)?.0);
        let (entry_lifetime, attr_lifetime) = (Lifetime::FOREVER, Lifetime::FOREVER);
        let node = node.encode(self.root());
        Ok(Entry {
            node,
            generation: 0,
            attr,
            entry_lifetime,
            attr_lifetime,
        })
    }

    fn lookup_object(
        &self,
        tree: usize,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Lookup, Errno> {
        let files = self.trees.get(tree)?;
        let directory = self.znode(tree, directory)?;
        let found = files
            .lookup(&directory, name)
            .map_err(|error| self.errno(error))?;
        let Some(target) = found else {
            // What can have no such name is told apart from what merely has none.
            return match name.len() > self.name_length_max() {
                true => Err(Errno::NAMETOOLONG),
                false => Ok(Lookup::Absent(self.name_lifetime())),
            };
        };
        let znode = self.znode(tree, target.object)?;
        Ok(Lookup::Found(self.entry(tree, &znode)?))
    }

    fn lookup_snapshot(&self, name: &[u8]) -> Result<Lookup, Errno> {
        let Some(tree) = self.trees.open_snapshot(name)? else {
            return Ok(Lookup::Absent(Lifetime::NONE));
        };
        let root = self.trees.get(tree)?.root();
        let znode = self.znode(tree, root)?;
        Ok(Lookup::Found(self.entry(tree, &znode)?))
    }

    fn list_object(
        &self,
        tree: usize,
        directory: &Arc<Znode>,
        cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        let files = self.trees.get(tree)?;
        let reader = files
            .read_directory(directory, cookie)
            .map_err(|e| self.errno(e))?;
        for entry in reader {
            let entry = entry.map_err(|error| self.errno(error))?;
            let kind = match entry.target.kind {
                Some(kind) => kind,
                None => self.znode(tree, entry.target.object)?.kind(),
            };
            let ino = entry.target.object.0;
            if !reply.add_name(&entry.name, ino, kind_of(kind), entry.cookie) {
                break;
            }
        }
        Ok(())
    }

    fn list_object_plus(
        &self,
        tree: usize,
        directory: &Arc<Znode>,
        mut cookie: u64,
        reply: &mut DirectoryReply<'_>,
    ) -> Result<(), Errno> {
        let files = Arc::clone(&self.trees.get(tree)?);
        loop {
            let count = reply.capacity_hint(16).clamp(1, LISTING_BATCH);
            let batch = files.read_directory_plus(directory, cookie, count);
            let batch = batch.map_err(|error| self.errno(error))?;
            let is_last = batch.len() < count;
            for (entry, stat) in batch {
                let is_dots = entry.name == b"." || entry.name == b"..";
                let added = match stat {
                    Ok(stat) if !is_dots => {
                        let found = self.entry_of(&files, tree, &stat);
                        reply.add_entry(&entry.name, &found, entry.cookie)
                    }
                    // A file that cannot be read is listed; looking at it says why.
                    stat => {
                        let stored = entry.target.kind.map(kind_of);
                        let kind = stored.or_else(|| stat.ok().map(|stat| kind_of(stat.kind)));
                        let kind = kind.unwrap_or(cenote_fuse::FileKind::Regular);
                        reply.add_name(&entry.name, entry.target.object.0, kind, entry.cookie)
                    }
                };
                if !added {
                    return Ok(());
                }
                cookie = entry.cookie;
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

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
            control => Ok((self.control_entry(control)?.attr, self.lifetime())),
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

    fn open(&self, _: &Context<'_>, node: NodeId, flags: u32) -> Result<Opened, Errno> {
        if self.is_writable() {
            return self.open_writable(node, flags);
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
        Ok(convert::status_of(&stat))
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
        if !self.shows_xattr() {
            return Err(Errno::OPNOTSUPP);
        }
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

    fn listxattr(&self, _: &Context<'_>, node: NodeId, names: &mut Payload) -> Result<(), Errno> {
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
        _: &Context<'_>,
        node: NodeId,
        _: Option<Handle>,
        changes: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        self.change_attributes(node, changes)
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
        _: &Context<'_>,
        place: FilePlace,
        data: &[u8],
        kill_suid_gid: bool,
    ) -> Result<(), Errno> {
        self.write_data(place, data, kill_suid_gid)
    }

    fn write_blocks(
        &self,
        _: &Context<'_>,
        place: FilePlace,
        data: (&mut [BlockBuffer], usize),
        kill_suid_gid: bool,
    ) -> Result<Option<usize>, Errno> {
        self.write_owned(place, data, kill_suid_gid)
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

    fn generation(&self, _: &Context<'_>, node: NodeId) -> Result<u64, Errno> {
        self.generation_of_file(node)
    }

    fn is_synchronous(&self, handle: Handle) -> bool {
        opens::is_synchronous(handle)
    }

    fn sync_if_due(&self, is_wanted: bool) -> Result<(), Errno> {
        let synced = self.trees.head().sync_if_due(is_wanted);
        synced.map_err(|error| self.errno(error))
    }

    fn fsync(&self, _: &Context<'_>, _: NodeId) -> Result<(), Errno> {
        self.sync_if_due(true)
    }

    fn destroy(&self) {
        if let Some(viewer) = self.viewer.get() {
            self.trees.head().remove_viewer(viewer);
        }
        // Who called umount(8) does not wait for this, and takes all for safe soon after.
        if self.is_writable()
            && let Err(error) = self.trees.head().request_sync()
        {
            // Nobody waits for an answer; the times of some reads are lost.
            (self.errors)(&error);
        }
    }
}
