//! Flags and projects of files, as `chattr` knows them, and DOS attributes.

use super::DatasetFiles;
use super::node::Node;
use cenote_fuse::{Context, Errno, FileFlags, NodeId};
use cenote_posix::write::SetAttributes;
use cenote_posix::{
    FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_DUMP, FLAG_NO_UNLINK, FLAG_PROJECT_INHERIT, FileKind,
    Znode,
};

/// The flags that `chattr` can change.
const CHANGEABLE: u64 = FLAG_APPEND_ONLY | FLAG_IMMUTABLE | FLAG_NO_DUMP | FLAG_PROJECT_INHERIT;

/// The DOS attributes: readonly, hidden, system, archive, immutable, nounlink, appendonly and
/// nodump; reparse, offline and sparse (format/3b 3).
const DOS: u64 = 0x38ff_0000_0000;

/// Says that a file is interpreted by a program, which must not be said of an ordinary file.
const REPARSE: u64 = 0x800_0000_0000;

/// DOS attributes that only root may change.
const FOR_ROOT: u64 = FLAG_IMMUTABLE | FLAG_NO_UNLINK | FLAG_APPEND_ONLY | REPARSE;

fn flags_of(znode: &Znode) -> FileFlags {
    let attributes = znode.attributes();
    let has = |flag| attributes.flags & flag != 0;
    FileFlags {
        immutable: has(FLAG_IMMUTABLE),
        append_only: has(FLAG_APPEND_ONLY),
        no_dump: has(FLAG_NO_DUMP),
        // Of a file it means nothing, and the kernel refuses to set it again.
        project_inherit: has(FLAG_PROJECT_INHERIT) && znode.kind() == FileKind::Directory,
        project: u32::try_from(attributes.project).ok(),
    }
}

fn stored(flags: &FileFlags) -> u64 {
    let pairs = [
        (flags.immutable, FLAG_IMMUTABLE),
        (flags.append_only, FLAG_APPEND_ONLY),
        (flags.no_dump, FLAG_NO_DUMP),
        (flags.project_inherit, FLAG_PROJECT_INHERIT),
    ];
    let set = pairs.iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, flag)| flag).sum()
}

impl DatasetFiles {
    pub(super) fn flags_of_file(&self, node: NodeId) -> Result<FileFlags, Errno> {
        match self.node(node) {
            Node::Object { tree, object } => Ok(flags_of(&*self.znode(tree, object)?)),
            Node::Control | Node::Snapshots => Err(Errno::NOTTY),
        }
    }

    pub(super) fn generation_of_file(&self, node: NodeId) -> Result<u64, Errno> {
        let (_, znode) = self.object(node)?;
        Ok(znode.attributes().generation)
    }

    pub(super) fn change_flags(&self, node: NodeId, flags: &FileFlags) -> Result<(), Errno> {
        let (files, object) = self.target(node)?;
        let znode = self.znode(0, object)?;
        let now = znode.attributes();
        if flags.project_inherit && znode.kind() != FileKind::Directory {
            return Err(Errno::INVAL);
        }
        let wanted = now.flags & !CHANGEABLE | stored(flags);
        let project = flags.project.map(u64::from);
        let set = SetAttributes {
            flags: (wanted != now.flags).then_some(wanted),
            project: project.filter(|project| *project != now.project),
            ..SetAttributes::default()
        };
        if set == SetAttributes::default() {
            return Ok(());
        }
        let changed = files.set_attributes(object, &set);
        changed.map(drop).map_err(|error| self.errno(error))
    }

    pub(super) fn dos_attributes_of_file(&self, node: NodeId) -> Result<u64, Errno> {
        let (_, znode) = self.object(node)?;
        Ok(znode.attributes().flags & DOS)
    }

    pub(super) fn change_dos_attributes(
        &self,
        context: &Context<'_>,
        node: NodeId,
        attributes: u64,
    ) -> Result<(), Errno> {
        if attributes & !DOS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let (files, object) = self.target(node)?;
        let znode = self.znode(0, object)?;
        let now = znode.attributes();
        let changed = (now.flags ^ attributes) & DOS;
        if context.uid != 0 && now.uid.0 != u64::from(context.uid) {
            return Err(Errno::ACCESS);
        }
        if context.uid != 0 && changed & FOR_ROOT != 0 || changed & REPARSE != 0 {
            return Err(Errno::PERM);
        }
        if changed == 0 {
            return Ok(());
        }
        let set = SetAttributes {
            flags: Some(now.flags ^ changed),
            ..SetAttributes::default()
        };
        let changed = files.set_attributes(object, &set);
        changed.map(drop).map_err(|error| self.errno(error))
    }
}
