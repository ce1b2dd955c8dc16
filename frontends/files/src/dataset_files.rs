//! A dataset that is mounted: what it is made of, and what all requests ask of it.

use super::control;
use super::control::CONTROL_NAME;
use super::convert::{attr_of, kind_of};
use super::exchanges::Exchanges;
use super::gate::Gate;
use super::ghosts::Ghosts;
use super::name_changer::NameChanger;
use super::node::Node;
use super::opens::Opens;
use super::switches::{
    ACCESS_TIMES, DISABLED, DatasetOptions, DatasetSwitches, Live, REFUSES, VISIBLE, XATTR,
};
use super::trees::Trees;
use cenote_base::ObjectId;
use cenote_dsl::Dataset;
use cenote_fuse::{Attr, DirectoryReply, Entry, Errno, Lifetime, Lookup, NodeId, Notifier};
use cenote_posix::{
    DatasetSpace, DirectoryEntry, NAME_LENGTH_MAX, PosixError, Stat, Viewer, Znode,
};
use std::sync::{Arc, OnceLock};

/// Entries of a listing whose attributes are read at once.
const LISTING_BATCH: usize = 512;

/// Receives the errors that callers only see as an errno.
pub type ErrorSink = Box<dyn Fn(&PosixError) + Send + Sync>;

/// A dataset or snapshot, to be mounted.
pub struct DatasetFiles {
    pub(super) trees: Trees,
    pub(super) options: DatasetOptions,
    pub(super) live: Live,
    pub(super) errors: ErrorSink,
    pub(super) name_changer: NameChanger,
    pub(super) ghosts: Ghosts,
    pub(super) gate: Gate,
    pub(super) exchanges: Exchanges,
    pub(super) opens: Opens,
    pub(super) kernel: OnceLock<Notifier>,
    /// This mount among the head's viewers.
    pub(super) viewer: OnceLock<Arc<dyn Viewer>>,
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

    /// Ends access to snapshots that no longer exist, and to renamed ones under their old names.
    pub fn forget_snapshots(&self) {
        // Snapshots that could not be checked stay; reading damaged ones fails.
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

    pub(super) fn root(&self) -> ObjectId {
        self.trees.head().root()
    }

    pub(super) fn node(&self, id: NodeId) -> Node {
        Node::decode(id, self.root())
    }

    pub(super) fn is_root(&self, node: Node) -> bool {
        node == Node::Object {
            tree: 0,
            object: self.root(),
        }
    }

    /// The errno for a caller; the cause goes to the error sink.
    pub(super) fn errno(&self, error: PosixError) -> Errno {
        if error.is_damage() {
            (self.errors)(&error);
        }
        Errno::from_raw_os_error(error.errno())
    }

    /// The dataset's space: as it is now, if it can change.
    pub(super) fn space(&self) -> Result<DatasetSpace, Errno> {
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

    pub(super) fn znode(&self, tree: usize, object: ObjectId) -> Result<Arc<Znode>, Errno> {
        let files = self.trees.get(tree)?;
        files.znode(object).map_err(|error| self.errno(error))
    }

    /// The object that a node stands for; the control directories are none.
    pub(super) fn object(&self, id: NodeId) -> Result<(usize, Arc<Znode>), Errno> {
        match self.node(id) {
            Node::Object { tree, object } => Ok((tree, self.znode(tree, object)?)),
            Node::Control | Node::Snapshots => Err(Errno::ISDIR),
        }
    }

    pub(super) fn attr(&self, tree: usize, znode: &Znode) -> Result<(Attr, Lifetime), Errno> {
        let files = self.trees.get(tree)?;
        let stat = files.stat(znode);
        let lifetime = self.attr_lifetime(&stat);
        Ok((self.attr_of_stat(&files, tree, &stat), lifetime))
    }

    pub(super) fn attr_of_stat(
        &self,
        files: &cenote_posix::FileSystem,
        tree: usize,
        stat: &Stat,
    ) -> Attr {
        let mut attr = attr_of(stat);
        attr.ino = self.ino(files, tree, stat.object);
        if tree == 0 && stat.object == files.root() && self.lists_control() {
            // The control directory is one of its directories then.
            attr.nlink = attr.nlink.saturating_add(1);
        }
        attr
    }

    /// The inode number that programs see.
    fn ino(&self, files: &cenote_posix::FileSystem, tree: usize, object: ObjectId) -> u64 {
        let objset = files.set().id();
        match tree {
            0 if object == files.root() && self.trees.is_snapshot() => {
                control::snapshot_ino(objset)
            }
            0 => object.0,
            _ if object == files.root() => control::snapshot_ino(objset),
            _ => control::ino_in_snapshot(objset, tree, object),
        }
    }

    pub(super) fn entry(&self, tree: usize, znode: &Znode) -> Result<Entry, Errno> {
        let files = self.trees.get(tree)?;
        Ok(self.entry_of(&files, tree, &files.stat(znode)))
    }

    pub(super) fn entry_of(
        &self,
        files: &cenote_posix::FileSystem,
        tree: usize,
        stat: &Stat,
    ) -> Entry {
        let object = stat.object;
        Entry {
            node: Node::Object { tree, object }.encode(self.root()),
            generation: Self::generation_of(files, tree, stat),
            attr: self.attr_of_stat(files, tree, stat),
            entry_lifetime: self.name_lifetime(),
            attr_lifetime: self.attr_lifetime(stat),
        }
    }

    pub(super) fn name_length_max(&self) -> usize {
        let settings = self.trees.head().write_settings();
        let is_long = settings.map_or(self.options.space.long_names, |set| set.long_names);
        if is_long { NAME_LENGTH_MAX } else { 255 }
    }

    /// Notes that a file of the head was read.
    pub(super) fn note_read(&self, tree: usize, files: &cenote_posix::FileSystem, znode: &Znode) {
        if tree == 0 && self.notes_reads() {
            files.note_read(znode);
        }
    }

    /// How long the attributes of a control directory hold. The kernel is not told when snapshots
    /// are made or destroyed, which changes the time of the directory that lists them.
    pub(super) fn control_lifetime(&self, node: Node) -> Lifetime {
        match node {
            Node::Snapshots => Lifetime::NONE,
            _ => self.lifetime(),
        }
    }

    pub(super) fn control_entry(&self, node: Node) -> Result<Entry, Errno> {
        let root = self.znode(0, self.root())?;
        let mut attr = control::attr(node, &self.attr(0, &root)?.0);
        if node == Node::Snapshots {
            attr.modified = self.trees.snapshots_changed()?;
            attr.changed = attr.modified;
        }
        let (entry_lifetime, attr_lifetime) = (Lifetime::FOREVER, self.control_lifetime(node));
        let node = node.encode(self.root());
        Ok(Entry {
            node,
            generation: 0,
            attr,
            entry_lifetime,
            attr_lifetime,
        })
    }

    pub(super) fn lookup_object(
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
            // A name that is too long is an error; any other name is merely absent.
            return match name.len() > self.name_length_max() {
                true => Err(Errno::NAMETOOLONG),
                false => Ok(Lookup::Absent(self.name_lifetime())),
            };
        };
        let znode = self.znode(tree, target.object)?;
        Ok(Lookup::Found(self.entry(tree, &znode)?))
    }

    pub(super) fn lookup_snapshot(&self, name: &[u8]) -> Result<Lookup, Errno> {
        let Some(tree) = self.trees.open_snapshot(name)? else {
            return Ok(Lookup::Absent(Lifetime::NONE));
        };
        let root = self.trees.get(tree)?.root();
        let znode = self.znode(tree, root)?;
        Ok(Lookup::Found(self.entry(tree, &znode)?))
    }

    pub(super) fn list_object(
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
            if self.hides(&entry) {
                continue;
            }
            let kind = match entry.target.kind {
                Some(kind) => kind,
                None => self.znode(tree, entry.target.object)?.kind(),
            };
            let ino = self.ino(&files, tree, entry.target.object);
            if !reply.add_name(&entry.name, ino, kind_of(kind), entry.cookie) {
                break;
            }
        }
        Ok(())
    }

    /// Whether an entry cannot be shown: the kernel refuses a whole listing that has a name with a
    /// slash. It is reported to the sink of errors.
    fn hides(&self, entry: &DirectoryEntry) -> bool {
        if entry.has_usable_name() {
            return false;
        }
        let name = entry.name.clone();
        self.errno(PosixError::InvalidName { name });
        true
    }

    pub(super) fn list_object_plus(
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
                if self.hides(&entry) {
                    cookie = entry.cookie;
                    continue;
                }
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
                        let ino = self.ino(&files, tree, entry.target.object);
                        reply.add_name(&entry.name, ino, kind, entry.cookie)
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

    /// Changes what the mount shows and allows.
    pub fn change(&self, switches: DatasetSwitches) {
        let before = self.live.bits();
        self.live.set(switches);
        let control = VISIBLE | DISABLED;
        if (before ^ self.live.bits()) & control != 0
            && let Some(kernel) = self.kernel.get()
        {
            // What the kernel does not remember it need not forget; a mount that ended neither.
            let _ = kernel.invalidate_entry(NodeId::ROOT, CONTROL_NAME);
            let _ = kernel.invalidate_node(NodeId::ROOT);
        }
    }

    /// Whether the mount can serve changes at all.
    pub fn can_take_changes(&self) -> bool {
        self.is_writable()
    }

    pub(super) fn has_control(&self) -> bool {
        !self.trees.is_snapshot() && !self.live.has(DISABLED)
    }

    pub(super) fn lists_control(&self) -> bool {
        self.has_control() && self.live.has(VISIBLE)
    }

    pub(super) fn shows_xattr(&self) -> bool {
        self.live.has(XATTR)
    }

    pub(super) fn notes_reads(&self) -> bool {
        self.live.has(ACCESS_TIMES)
    }

    pub(super) fn refuses_changes(&self) -> bool {
        self.live.has(REFUSES)
    }
}
