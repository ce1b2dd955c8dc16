//! The tree itself: nodes by number, directories with names, and what operations do to them.

use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// A file's number in the model; numbers are not given twice.
pub type NodeId = u64;

/// The root directory.
pub const ROOT: NodeId = 0;

/// What a node holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names and their nodes.
    Directory(BTreeMap<String, NodeId>),
    /// Contents.
    File(Vec<u8>),
    /// A symbolic link and its target.
    Link(String),
    /// A character device and its numbers; 0 is a whiteout.
    Device(u64),
}

/// An ACL with entries for one user; the owner's, the mask and the others' are the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acl {
    /// The user.
    pub user: u32,
    /// What that user may do.
    pub user_permissions: u16,
    /// What the owning group may do.
    pub group_permissions: u16,
}

impl Acl {
    /// As the attribute `system.posix_acl_access` holds it, for a file of this mode.
    pub fn encode(&self, mode: u32) -> Vec<u8> {
        const NOBODY: u32 = u32::MAX;
        let bits = |shift: u32| ((mode >> shift) & 7) as u16;
        let entries = [
            (0x01_u16, bits(6), NOBODY),
            (0x02, self.user_permissions, self.user),
            (0x04, self.group_permissions, NOBODY),
            (0x10, bits(3), NOBODY),
            (0x20, bits(0), NOBODY),
        ];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    /// The same, read; `None` of an ACL with other entries.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let entry =
            |index: usize| -> Option<&[u8; 8]> { bytes.get(4 + index * 8..)?.first_chunk() };
        let (user, group) = (entry(1)?, entry(2)?);
        Some(Self {
            user: u32::from_le_bytes([user[4], user[5], user[6], user[7]]),
            user_permissions: u16::from_le_bytes([user[2], user[3]]),
            group_permissions: u16::from_le_bytes([group[2], group[3]]),
        })
    }
}

/// A file, directory or symbolic link.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it holds.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Extended attributes of the user namespace, without `user.`.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Its ACL, if it has one.
    pub acl: Option<Acl>,
    /// Where a directory is; 0 of other nodes.
    pub parent: NodeId,
    /// How many names a file or symbolic link has.
    pub names: u64,
    /// How many handles keep it although it has no name.
    pub handles: u64,
    /// Seconds, once they were set and nothing changed the contents since.
    pub modified: Option<i64>,
}

/// All nodes.
#[derive(Clone, Debug)]
pub struct Model {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    /// Nodes that were changed since they were synced.
    touched: BTreeSet<NodeId>,
    /// Directories whose names were.
    touched_names: BTreeSet<NodeId>,
}

/// How `rename` treats what has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renaming {
    /// It goes away.
    Replace,
    /// It is an error.
    NoReplace,
    /// It gets the old name.
    Exchange,
    /// It goes away, and the old name is that of a whiteout.
    Whiteout,
}

impl Default for Model {
    fn default() -> Self {
        let mut model = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            touched: BTreeSet::new(),
            touched_names: BTreeSet::new(),
        };
        model.add(Kind::Directory(BTreeMap::new()), 0o755, ROOT);
        model
    }
}

impl Model {
    fn add(&mut self, kind: Kind, mode: u32, parent: NodeId) -> NodeId {
        let node = Node {
            kind,
            mode,
            xattrs: BTreeMap::new(),
            acl: None,
            parent,
            names: 0,
            handles: 0,
            modified: None,
        };
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.touched.insert(id);
        id
    }

    /// A node that is known to exist.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[&id]
    }

    /// The same, to change it.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.touched.insert(id);
        self.nodes.get_mut(&id).expect("ids come from the model")
    }

    /// The node is about to be changed.
    pub fn touch(&mut self, id: NodeId) {
        self.touched.insert(id);
    }

    /// Everything is on disk.
    pub fn synced(&mut self) {
        self.touched.clear();
        self.touched_names.clear();
    }

    /// A file was synced: ZFS puts all changes of names on disk with it.
    pub fn synced_file(&mut self, id: NodeId) {
        self.touched.remove(&id);
        self.touched_names.clear();
    }

    /// Whether a node is on disk as it is.
    pub fn is_synced(&self, id: NodeId) -> bool {
        !self.touched.contains(&id)
    }

    /// Whether a directory's names, and those of all above it, are on disk as they are.
    pub fn is_path_synced(&self, directory: NodeId) -> bool {
        let mut at = directory;
        loop {
            if self.touched_names.contains(&at) {
                return false;
            }
            if at == ROOT {
                return true;
            }
            at = self.node(at).parent;
        }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Never: there is a root.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All directories.
    pub fn directories(&self) -> Vec<NodeId> {
        let is_directory = |node: &Node| matches!(node.kind, Kind::Directory(_));
        let found = self.nodes.iter().filter(|(_, node)| is_directory(node));
        found.map(|(id, _)| *id).collect()
    }

    /// The names in a directory.
    pub fn names(&self, directory: NodeId) -> &BTreeMap<String, NodeId> {
        match &self.node(directory).kind {
            Kind::Directory(names) => names,
            _ => unreachable!("only directories are asked for names"),
        }
    }

    fn names_mut(&mut self, directory: NodeId) -> &mut BTreeMap<String, NodeId> {
        self.touched_names.insert(directory);
        match &mut self.node_mut(directory).kind {
            Kind::Directory(names) => names,
            _ => unreachable!("only directories are asked for names"),
        }
    }

    /// What has this name.
    pub fn lookup(&self, directory: NodeId, name: &str) -> Option<NodeId> {
        self.names(directory).get(name).copied()
    }

    /// The path of a directory from the root, with a slash at its end unless it is the root.
    pub fn path(&self, directory: NodeId) -> String {
        let mut path = String::new();
        let mut at = directory;
        while at != ROOT {
            let parent = self.node(at).parent;
            let entry = self.names(parent).iter().find(|(_, id)| **id == at);
            let (name, _) = entry.expect("a directory has a name in its parent");
            path = format!("{name}/{path}");
            at = parent;
        }
        path
    }

    /// What a file's contents are.
    pub fn contents_mut(&mut self, id: NodeId) -> &mut Vec<u8> {
        let node = self.node_mut(id);
        node.modified = None;
        match &mut node.kind {
            Kind::File(bytes) => bytes,
            _ => unreachable!("only files are written"),
        }
    }

    /// Makes a node with a name.
    pub fn create(
        &mut self,
        directory: NodeId,
        name: &str,
        kind: Kind,
        mode: u32,
    ) -> Result<NodeId, Errno> {
        if self.lookup(directory, name).is_some() {
            return Err(Errno::EXIST);
        }
        let id = self.add(kind, mode, directory);
        self.node_mut(id).names = 1;
        self.names_mut(directory).insert(name.into(), id);
        Ok(id)
    }

    /// Makes a file without a name, held by a handle.
    pub fn create_unnamed(&mut self, mode: u32) -> NodeId {
        let id = self.add(Kind::File(Vec::new()), mode, ROOT);
        self.node_mut(id).handles = 1;
        id
    }

    /// Gives a node one more name.
    pub fn link(&mut self, id: NodeId, directory: NodeId, name: &str) -> Result<(), Errno> {
        if self.lookup(directory, name).is_some() {
            return Err(Errno::EXIST);
        }
        if matches!(self.node(id).kind, Kind::Directory(_)) {
            return Err(Errno::PERM);
        }
        self.names_mut(directory).insert(name.into(), id);
        self.node_mut(id).names += 1;
        Ok(())
    }

    /// Removes a name, and the node with the last one.
    pub fn unlink(&mut self, directory: NodeId, name: &str) -> Result<(), Errno> {
        let id = self.lookup(directory, name).ok_or(Errno::NOENT)?;
        if matches!(self.node(id).kind, Kind::Directory(_)) {
            return Err(Errno::ISDIR);
        }
        self.names_mut(directory).remove(name);
        self.node_mut(id).names -= 1;
        self.forget(id);
        Ok(())
    }

    /// A handle was closed.
    pub fn close(&mut self, id: NodeId) {
        self.node_mut(id).handles -= 1;
        self.forget(id);
    }

    fn forget(&mut self, id: NodeId) {
        let node = self.node(id);
        if node.names == 0 && node.handles == 0 {
            self.nodes.remove(&id);
        }
    }

    /// Removes an empty directory.
    pub fn rmdir(&mut self, directory: NodeId, name: &str) -> Result<(), Errno> {
        let id = self.lookup(directory, name).ok_or(Errno::NOENT)?;
        match &self.node(id).kind {
            Kind::Directory(names) if names.is_empty() => {}
            Kind::Directory(_) => return Err(Errno::NOTEMPTY),
            _ => return Err(Errno::NOTDIR),
        }
        self.names_mut(directory).remove(name);
        self.nodes.remove(&id);
        Ok(())
    }

    fn is_below(&self, directory: NodeId, ancestor: NodeId) -> bool {
        let mut at = directory;
        while at != ancestor {
            if at == ROOT {
                return false;
            }
            at = self.node(at).parent;
        }
        true
    }

    /// Renames; the order of errors is the kernel's.
    pub fn rename(
        &mut self,
        (from, old): (NodeId, &str),
        (to, new): (NodeId, &str),
        renaming: Renaming,
    ) -> Result<(), Errno> {
        let id = self.lookup(from, old).ok_or(Errno::NOENT)?;
        let there = self.lookup(to, new);
        match (renaming, there) {
            (Renaming::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (Renaming::Exchange, None) => return Err(Errno::NOENT),
            _ => {}
        }
        let is_directory = |id: NodeId| matches!(self.node(id).kind, Kind::Directory(_));
        if is_directory(id) && self.is_below(to, id) {
            return Err(Errno::INVAL);
        }
        if let Some(other) = there {
            // The other one lies above: exchanging makes a ring, replacing finds it full.
            if is_directory(other) && self.is_below(from, other) {
                let ring = renaming == Renaming::Exchange;
                return Err(if ring { Errno::INVAL } else { Errno::NOTEMPTY });
            }
            if other == id {
                return Ok(());
            }
            if renaming != Renaming::Exchange {
                match (is_directory(id), is_directory(other)) {
                    (true, false) => return Err(Errno::NOTDIR),
                    (false, true) => return Err(Errno::ISDIR),
                    (true, true) if !self.names(other).is_empty() => return Err(Errno::NOTEMPTY),
                    _ => {}
                }
            }
        }
        self.names_mut(from).remove(old);
        self.names_mut(to).insert(new.into(), id);
        self.moved(id, to);
        match there {
            Some(other) if renaming == Renaming::Exchange => {
                self.names_mut(from).insert(old.into(), other);
                self.moved(other, from);
            }
            Some(other) => match self.node(other).kind {
                Kind::Directory(_) => drop(self.nodes.remove(&other)),
                _ => {
                    self.node_mut(other).names -= 1;
                    self.forget(other);
                }
            },
            None => {}
        }
        if renaming == Renaming::Whiteout {
            self.create(from, old, Kind::Device(0), 0)?;
        }
        Ok(())
    }

    fn moved(&mut self, id: NodeId, to: NodeId) {
        if matches!(self.node(id).kind, Kind::Directory(_)) {
            self.node_mut(id).parent = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> Kind {
        Kind::Directory(BTreeMap::new())
    }

    #[test]
    fn renames_by_the_rules() {
        let mut model = Model::default();
        let a = model.create(ROOT, "a", directory(), 0o755).expect("new");
        let b = model.create(a, "b", directory(), 0o755).expect("new");
        let file = model.create(ROOT, "f", Kind::File(Vec::new()), 0o644);
        let file = file.expect("new");
        let mut rename = |from, to, how| model.rename(from, to, how);
        let replace = Renaming::Replace;
        assert_eq!(rename((ROOT, "a"), (b, "x"), replace), Err(Errno::INVAL));
        assert_eq!(rename((ROOT, "f"), (ROOT, "a"), replace), Err(Errno::ISDIR));
        assert_eq!(rename((a, "b"), (ROOT, "f"), replace), Err(Errno::NOTDIR));
        assert_eq!(rename((ROOT, "f"), (a, "b"), Renaming::Exchange), Ok(()));
        assert_eq!(model.path(b), "f/");
        assert_eq!(model.lookup(a, "b"), Some(file));
    }

    #[test]
    fn what_is_held_stays() {
        let mut model = Model::default();
        let file = model.create_unnamed(0o600);
        assert_eq!(model.link(file, ROOT, "f"), Ok(()));
        model.close(file);
        assert_eq!(model.len(), 2);
        assert_eq!(model.unlink(ROOT, "f"), Ok(()));
        assert_eq!(model.len(), 1);
    }
}
