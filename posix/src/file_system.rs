//! An open file system.

use crate::attributes::{AttributeTables, Attributes};
use crate::beside::Beside;
use crate::cache::ZnodeCache;
use crate::error::PosixError;
use crate::fuid::FuidTable;
use crate::kind::FileKind;
use crate::master::MasterNode;
use crate::name_index::NameIndex;
use crate::viewers::{Viewer, Viewers};
use crate::write::Writer;
use crate::znode::{Znode, ZnodeAbsent, bonus_attributes};
use cenote_base::ObjectId;
use cenote_base::rt::{RwLock, ranks};
use cenote_dmu::{DmuError, IoContext, ObjectSet};
use cenote_ondisk::Dnode;
use cenote_ondisk::objset::ObjsetKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A dataset's files, or a snapshot's.
#[derive(Debug)]
pub struct FileSystem {
    set: Arc<ObjectSet>,
    master: MasterNode,
    /// Numbers and layouts of attributes; a writer adds to them.
    tables: RwLock<Option<Arc<AttributeTables>>, ranks::AttributeTables>,
    /// The version, which an upgrade raises.
    version: AtomicU64,
    /// Where attributes' numbers and layouts are; an upgrade to version 5 makes it.
    attribute_master: OnceLock<ObjectId>,
    domains: FuidTable,
    znodes: ZnodeCache,
    name_index: NameIndex,
    writer: Option<Box<Writer>>,
    viewers: Viewers,
    /// Directories whose files are read one after the other.
    pub(crate) beside: Beside,
}

impl FileSystem {
    /// Opens the file system in `set`, without regard to its intent log.
    ///
    /// An encrypted one whose key is not loaded is refused.
    pub fn open(set: Arc<ObjectSet>) -> Result<Self, PosixError> {
        if set.header().kind != ObjsetKind::Zfs {
            return Err(PosixError::NotFileSystem { objset: set.id() });
        }
        if set.root().uses_crypt() && set.keys().is_none() {
            return Err(PosixError::KeyNotLoaded { objset: set.id() });
        }
        let master = MasterNode::read(&set)?;
        let tables = master
            .system_attributes
            .map(|id| AttributeTables::read(&set, id));
        let domains = master
            .fuid_table
            .map(|id| FuidTable::read(&set, id))
            .transpose()?;
        let znodes = ZnodeCache::new(Arc::clone(set.cache().pipeline().memory()));
        let file_system = Self {
            set,
            version: AtomicU64::new(master.version),
            attribute_master: master
                .system_attributes
                .map_or_else(OnceLock::new, Into::into),
            master,
            tables: RwLock::new(tables.transpose()?.map(Arc::new)),
            domains: domains.unwrap_or_default(),
            znodes,
            name_index: NameIndex::default(),
            writer: None,
            viewers: Viewers::default(),
            beside: Beside::default(),
        };
        let root = file_system.znode(file_system.master.root)?;
        if root.kind() != FileKind::Directory {
            return Err(PosixError::NotDirectory { object: root.id() });
        }
        Ok(file_system)
    }

    /// The same file system, read for something else from now on.
    #[must_use]
    pub fn for_io(mut self, io: &IoContext) -> Self {
        self.set = self.set.for_io(io);
        // Znodes that are in memory would read with the old context.
        self.znodes = ZnodeCache::new(Arc::clone(self.set.cache().pipeline().memory()));
        self
    }

    /// The object set below.
    pub fn set(&self) -> &Arc<ObjectSet> {
        &self.set
    }

    /// The file system's settings and special objects, as they were when it was opened.
    pub fn master(&self) -> &MasterNode {
        &self.master
    }

    /// The version: what an upgrade made it since the file system was opened.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Takes note of an upgrade, and of where attributes are from now on.
    pub(crate) fn set_upgraded(
        &self,
        version: u64,
        attributes: Option<(ObjectId, AttributeTables)>,
    ) {
        if let Some((master, tables)) = attributes {
            self.attribute_master.get_or_init(|| master);
            self.set_tables(tables);
        }
        self.version.store(version, Ordering::Release);
    }

    /// Where attributes' numbers and layouts are; nowhere before version 5.
    pub(crate) fn attribute_master(&self) -> Option<ObjectId> {
        self.attribute_master.get().copied()
    }

    /// The root directory's object.
    pub fn root(&self) -> ObjectId {
        self.master.root
    }

    /// The table by which FUIDs are shown.
    pub fn domains(&self) -> &FuidTable {
        &self.domains
    }

    /// The znode of object `id`. [`PosixError::NoSuchZnode`] if that is free or no file.
    pub fn znode(&self, id: ObjectId) -> Result<Arc<Znode>, PosixError> {
        if let Some(znode) = self.znodes.get(id) {
            return Ok(znode);
        }
        let stamp = self.znodes.stamp(id);
        let znode = Arc::new(match self.read_znode(id) {
            // A new layout may have been registered between the two reads of the object.
            Err(error) if error.is_damage() && self.is_writable() => self.read_znode(id)?,
            read => read?,
        });
        self.znodes.insert_read(&znode, stamp);
        Ok(znode)
    }

    /// The znode of object `id` if it is in memory. Each change of the object replaces it, and so
    /// does each change of the names in a directory. If a caller finds the same znode again,
    /// nothing has changed.
    pub fn znode_at_hand(&self, id: ObjectId) -> Option<Arc<Znode>> {
        self.znodes.get(id)
    }

    fn read_znode(&self, id: ObjectId) -> Result<Znode, PosixError> {
        let object = self.set.object(id);
        let object = object.map_err(|error| ZnodeAbsent::from(error).0)?;
        // After the object: what its attributes need is in the tables by then.
        Znode::read(object, self.tables().as_deref())
    }

    /// The znodes of several objects; what must be read for them is read in batches.
    pub fn znodes(&self, ids: &[ObjectId]) -> Vec<Result<Arc<Znode>, PosixError>> {
        if self.set.is_writable() {
            return ids.iter().map(|id| self.znode(*id)).collect();
        }
        let tables = self.tables();
        let cached: Vec<_> = ids.iter().map(|id| self.znodes.get(*id)).collect();
        let each = ids.iter().zip(&cached);
        let wanted = each.filter(|(_, cached)| cached.is_none());
        let wanted: Vec<ObjectId> = wanted.map(|(id, _)| *id).collect();
        let objects = self.set.objects_at(&wanted);
        self.set.fetch_spills(objects.iter().flatten());
        let mut objects = objects.into_iter();
        let each = ids.iter().zip(cached);
        each.map(|(id, cached)| match cached {
            Some(znode) => Ok(znode),
            None => {
                let object = objects.next().expect("one for each that was wanted");
                let object = object.map_err(|error| ZnodeAbsent::from(error).0)?;
                let znode = Arc::new(Znode::read(object, tables.as_deref())?);
                self.znodes.insert_read(&znode, self.znodes.stamp(*id));
                Ok(znode)
            }
        })
        .collect()
    }

    /// The attributes in a dnode's bonus buffer, which are all if it has no spill block.
    pub(crate) fn attributes_in(
        &self,
        id: ObjectId,
        dnode: &Dnode,
        tables: Option<&AttributeTables>,
    ) -> Result<Attributes, PosixError> {
        let attributes = bonus_attributes(id, dnode, tables)?;
        attributes.map_err(|source| {
            PosixError::Dmu(DmuError::Decode {
                objset: self.set.id(),
                object: id,
                source,
            })
        })
    }

    /// A symbolic link's target.
    pub fn read_link(&self, link: &Znode) -> Result<Vec<u8>, PosixError> {
        link.read_link()
    }

    /// The attributes' numbers and layouts; none before file system version 5.
    pub(crate) fn tables(&self) -> Option<Arc<AttributeTables>> {
        let tables = self.tables.read();
        tables.clone()
    }

    pub(crate) fn set_tables(&self, new: AttributeTables) {
        let mut tables = self.tables.write();
        *tables = Some(Arc::new(new));
    }

    /// Forgets the znode of an object that has changed.
    pub(crate) fn forget(&self, id: ObjectId) {
        self.znodes.remove(id);
    }

    pub(crate) fn name_index(&self) -> &NameIndex {
        &self.name_index
    }

    /// The same file system with what changing it takes.
    pub(crate) fn with_writer(mut self, writer: Writer) -> Self {
        self.writer = Some(Box::new(writer));
        self
    }

    /// Adds a viewer. The other viewers drop their caches, and from now on none may cache.
    pub fn add_viewer(&self, viewer: &Arc<dyn Viewer>) {
        self.viewers.add(viewer);
    }

    /// Removes a viewer.
    pub fn remove_viewer(&self, viewer: &Arc<dyn Viewer>) {
        self.viewers.remove(viewer);
    }

    /// Whether a viewer may have missed changes of contents, because it is or was not the only one.
    pub fn is_or_was_shared(&self) -> bool {
        self.viewers.is_or_was_shared()
    }

    /// Whether there are several viewers, so that each of them misses changes.
    pub fn has_several_viewers(&self) -> bool {
        self.viewers.are_several()
    }

    pub(crate) fn writer(&self) -> Option<&Writer> {
        self.writer.as_deref()
    }

    /// The same file system, not to be changed any more, with the domains that a log named.
    pub(crate) fn read_only(mut self, domains: FuidTable) -> Self {
        self.writer = None;
        self.domains = domains;
        self
    }
}
