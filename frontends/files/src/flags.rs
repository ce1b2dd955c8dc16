//! Flags and projects of files, as `chattr` knows them.

use super::DatasetFiles;
use super::node::Node;
use cenote_fuse::{Errno, FileFlags, NodeId};
use cenote_posix::write::SetAttributes;
use cenote_posix::{
    FLAG_APPEND_ONLY, FLAG_IMMUTABLE, FLAG_NO_DUMP, FLAG_PROJECT_INHERIT, FileKind, Znode,
};

/// The flags that `chattr` can change.
const CHANGEABLE: u64 = FLAG_APPEND_ONLY | FLAG_IMMUTABLE | FLAG_NO_DUMP | FLAG_PROJECT_INHERIT;

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
}
