//! What `stat` and `statfs` show (format/3b 5, 10).

use crate::attributes::{Attributes, FLAG_PROJECT_INHERIT};
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::Fuid;
use crate::kind::{DeviceNumber, FileKind};
use crate::master::AccountKind;
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::Dnode;

/// Longest name in bytes without the feature `longname`.
const NAME_LENGTH: u32 = 255;
const NAME_LENGTH_LONG: u32 = 1023;
/// Object numbers have 48 bits, of which OpenZFS reports as many free as are not in use.
const OBJECTS_MAX: u64 = 1 << 48;
/// A new object takes at least a dnode.
const OBJECT_SIZE: u64 = 512;

/// The attributes of an object as `stat(2)` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// `st_ino`: the object's number.
    pub object: ObjectId,
    /// Distinguishes objects that had the same number at different times.
    pub generation: u64,
    /// The type.
    pub kind: FileKind,
    /// The lower twelve bits of the mode.
    pub mode: u16,
    /// Number of names.
    pub links: u64,
    /// Owner.
    pub uid: Fuid,
    /// Group.
    pub gid: Fuid,
    /// Bytes; for directories the number of entries with `.` and `..`.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Whether `blocks` counts all contents: what is not on disk yet takes no space there.
    pub has_final_space: bool,
    /// Bytes of a block.
    pub block_size: u64,
    /// The number of a device node.
    pub device: DeviceNumber,
    /// Last read.
    pub accessed: Timestamp,
    /// Last change of the content.
    pub modified: Timestamp,
    /// Last change of content or attributes.
    pub changed: Timestamp,
    /// Creation.
    pub created: Timestamp,
}

impl Stat {
    /// Of an object's attributes, and its dnode if it is on disk.
    fn new(id: ObjectId, kind: FileKind, attributes: &Attributes, dnode: Option<&Dnode>) -> Self {
        let (used, slots, block_size) = match dnode {
            Some(dnode) => (
                dnode.used_bytes(),
                dnode.slots() as u64,
                dnode.data_block_size,
            ),
            // It has no space of its own.
            None => (0, 1, OBJECT_SIZE),
        };
        Self {
            object: id,
            generation: attributes.generation,
            kind,
            mode: attributes.permissions(),
            links: attributes.links,
            uid: attributes.uid,
            gid: attributes.gid,
            size: attributes.size,
            blocks: used.saturating_add(256) / 512 + slots,
            has_final_space: true,
            block_size,
            device: attributes.device,
            accessed: attributes.accessed,
            modified: attributes.modified,
            changed: attributes.changed,
            created: attributes.created,
        }
    }
}

/// What the dataset layer knows about space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatasetSpace {
    /// Bytes that the dataset refers to.
    pub referenced: u64,
    /// Bytes that could still be written.
    pub available: u64,
    /// The property `recordsize` in bytes, a power of two.
    pub record_size: u64,
    /// Whether the feature and property `longname` are on.
    pub long_names: bool,
}

/// Space and object counts as `statvfs(3)` has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemStat {
    /// Bytes of a block; all block counts are in this unit.
    pub block_size: u64,
    /// Blocks, used and free.
    pub blocks: u64,
    /// Free blocks, for all users.
    pub blocks_free: u64,
    /// Objects, used and free.
    pub files: u64,
    /// Objects that could still be made.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_length_max: u32,
}

impl FileSystem {
    /// What `stat` shows of `znode`.
    pub fn stat(&self, znode: &Znode) -> Stat {
        // Read before the znode: if a sync happens in between, the size is only read once more than
        // needed.
        let has_final_space = !self.set().moves_space(znode.id());
        let newest = match self.set().is_writable() {
            // Space changes with each sync, attributes do not.
            true => self.set().object(znode.id()).ok(),
            false => None,
        };
        let object = newest.as_ref().or(znode.object());
        let dnode = object.map(|object| object.dnode());
        let mut stat = Stat::new(znode.id(), znode.kind(), znode.attributes(), dnode);
        stat.accessed = self.last_read(znode);
        stat.has_final_space = has_final_space;
        stat
    }

    /// What `stat` shows of several objects; what must be read for them is read in batches.
    pub fn stats(&self, ids: &[ObjectId]) -> Vec<Result<Stat, PosixError>> {
        let alone = |id: &ObjectId| Ok(self.stat(&*self.znode(*id)?));
        let final_spaces = ids.iter().map(|id| !self.set().moves_space(*id));
        let final_spaces: Vec<bool> = final_spaces.collect();
        let dnodes = self.set().dnodes_at(ids);
        // After the dnodes: what their attributes need is in the tables by then.
        let tables = self.tables();
        let stat_of = |id: ObjectId, dnode: &Dnode, has_final_space| {
            let attributes = self.attributes_in(id, dnode, tables.as_deref())?;
            let kind = attributes.kind(id)?;
            let mut stat = Stat::new(id, kind, &attributes, Some(dnode));
            stat.accessed = self.last_read_of(id, &attributes);
            stat.has_final_space = has_final_space;
            Ok(stat)
        };
        let each = ids.iter().zip(dnodes).zip(final_spaces);
        each.map(|((id, dnode), has_final_space)| match dnode {
            // Otherwise attributes may be in the spill block.
            Ok(dnode) if dnode.spill.is_none() => stat_of(*id, &dnode, has_final_space),
            _ => alone(id),
        })
        .collect()
    }

    /// What `statfs` shows, from what the dataset layer knows.
    pub fn stat_file_system(&self, space: DatasetSpace) -> FileSystemStat {
        let block_size = space.record_size.max(1);
        let rounded = space
            .referenced
            .div_ceil(block_size)
            .saturating_mul(block_size);
        let objects_used = self.set().root().fill();
        let objects_free = OBJECTS_MAX.saturating_sub(objects_used);
        let files_free = objects_free.min(space.available / OBJECT_SIZE);
        FileSystemStat {
            block_size,
            blocks: rounded.saturating_add(space.available) / block_size,
            blocks_free: space.available / block_size,
            files: files_free.saturating_add(objects_used),
            files_free,
            name_length_max: if space.long_names {
                NAME_LENGTH_LONG
            } else {
                NAME_LENGTH
            },
        }
    }

    /// As [`Self::stat_file_system`], asked at `place`: within a directory whose files inherit
    /// its project, that project's limits bound what there is (format/3b 10).
    pub fn stat_file_system_at(
        &self,
        space: DatasetSpace,
        place: &Znode,
    ) -> Result<FileSystemStat, PosixError> {
        let mut stat = self.stat_file_system(space);
        if place.attributes().flags & FLAG_PROJECT_INHERIT == 0 {
            return Ok(stat);
        }
        let project = Fuid(place.attributes().project);
        let account = self.account(AccountKind::Project, project)?;
        if account.quota != 0 {
            stat.blocks = account.quota / stat.block_size;
            stat.blocks_free = account.quota.saturating_sub(account.used) / stat.block_size;
        }
        if account.objects_quota != 0 {
            stat.files = account.objects_quota;
            stat.files_free = account.objects_quota.saturating_sub(account.objects_used);
        }
        Ok(stat)
    }
}
