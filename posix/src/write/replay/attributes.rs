//! Records that change attributes, and the attributes of objects that records make.

use super::LogReplay;
use crate::attributes::{Attributes, FLAG_PROJECT_ID, FLAG_PROJECT_INHERIT, FLAG_XATTR};
use crate::error::PosixError;
use crate::fuid::Fuid;
use crate::kind::FileKind;
use crate::record::{
    ACCESS_BITS, access_of, created_by, flags_after, is_of_linux, project_of, time_of,
};
use crate::time::Timestamp;
use crate::write;
use crate::write::access_list::trivial;
use crate::write::create::new_flags;
use crate::write::nfs4::list_flags;
use crate::write::store::Changes;
use crate::write::xattr::with_list;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::NvValue;
use cenote_ondisk::acl::{self, Ace};
use cenote_ondisk::intent_log::record::{AclBody, Create, ExtendedAttributes, SetAttributes};
use cenote_ondisk::system_attributes::Attribute;

const TYPE_BITS: u64 = 0o170_000;
const PERMISSION_BITS: u64 = 0o7777;

/// The attributes of an object that a record makes.
pub(super) struct NewAttributes<'a> {
    create: &'a Create<'a>,
    created: Timestamp,
    project: u64,
    pub(super) flags: u64,
    pub(super) target: Option<&'a [u8]>,
    pub(super) aces: Option<Vec<Ace>>,
}

impl<'a> NewAttributes<'a> {
    /// What follows from the record and the directory or file that the object belongs to.
    pub(super) fn of(create: &'a Create<'a>, parent: &Znode, projects: bool) -> Self {
        let is_directory = FileKind::from_mode(create.mode) == Some(FileKind::Directory);
        let above = parent.attributes();
        let mut flags = new_flags(create.mode, is_directory, projects) | above.flags & FLAG_XATTR;
        let inherits = projects && above.flags & (FLAG_PROJECT_INHERIT | FLAG_XATTR) != 0;
        flags |= match projects && is_directory {
            true => above.flags & FLAG_PROJECT_INHERIT,
            false => 0,
        };
        Self {
            create,
            created: time_of(create.crtime),
            project: if inherits { above.project } else { 0 },
            flags,
            target: None,
            aces: None,
        }
    }

    /// Counts for the project of the file whose hidden directory it is; projects are passed on to
    /// what has names.
    pub(super) fn belong_to(&mut self, file: &Znode) {
        self.project = file.attributes().project;
        self.flags &= !FLAG_PROJECT_INHERIT;
    }

    /// Takes an extended attribute block in.
    pub(super) fn extend(&mut self, extended: &ExtendedAttributes) {
        self.flags = flags_after(self.flags, extended);
        self.created = created_by(extended).unwrap_or(self.created);
        self.project = project_of(extended).unwrap_or(self.project);
    }

    /// All of them, in the order in which they are stored.
    pub(super) fn changes(&self) -> Changes {
        let create = self.create;
        let kind = FileKind::from_mode(create.mode);
        let is_directory = kind == Some(FileKind::Directory);
        let (mut mode, mut flags) = (create.mode, self.flags);
        let aces = match &self.aces {
            Some(aces) => {
                mode = mode & !ACCESS_BITS | self.access(aces);
                flags = list_flags(flags, aces, mode, is_directory);
                aces.clone()
            }
            None => trivial(mode, is_directory),
        };
        let size = match (is_directory, self.target) {
            (true, _) => 2,
            (false, Some(target)) => target.len() as u64,
            (false, None) => 0,
        };
        let now = time_of(create.crtime);
        let mut changes = Changes::new()
            .word(Attribute::Mode, mode)
            .word(Attribute::Size, size)
            .word(Attribute::Gen, create.generation)
            .word(Attribute::Uid, create.uid)
            .word(Attribute::Gid, create.gid)
            .word(Attribute::Parent, create.directory.0)
            .word(Attribute::Flags, flags)
            .time(Attribute::Atime, now)
            .time(Attribute::Mtime, now)
            .time(Attribute::Ctime, now)
            .time(Attribute::Crtime, self.created)
            .word(Attribute::Links, if is_directory { 2 } else { 1 });
        if flags & FLAG_PROJECT_ID != 0 {
            changes = changes.word(Attribute::ProjectId, self.project);
        }
        if matches!(kind, Some(FileKind::CharDevice | FileKind::BlockDevice)) {
            changes = changes.word(Attribute::Rdev, create.device);
        }
        changes = changes.access_list(&aces);
        match self.target {
            Some(target) => changes.bytes(Attribute::Symlink, target.to_vec()),
            None => changes,
        }
    }

    fn access(&self, aces: &[Ace]) -> u64 {
        let owners = Attributes {
            uid: Fuid(self.create.uid),
            gid: Fuid(self.create.gid),
            ..Attributes::default()
        };
        access_of(aces, &owners)
    }
}

/// The list in a create record.
pub(super) fn decode_acl(create: &Create<'_>, body: &AclBody<'_>) -> Result<Vec<Ace>, PosixError> {
    decode(create.new.object, body, false)
}

fn decode(object: ObjectId, body: &AclBody<'_>, is_old: bool) -> Result<Vec<Ace>, PosixError> {
    let count = usize::try_from(body.count).unwrap_or(usize::MAX);
    let decode = if is_old { acl::decode_old } else { acl::decode };
    let aces = decode(body.entries, count);
    aces.map_err(|source| PosixError::Malformed { object, source })
}

impl LogReplay<'_> {
    /// Learns the domains that a record names for ids that are not plain, to be shown with them.
    ///
    /// The record has one name for each such id, in the order user, group (format/2e 3).
    pub(super) fn learn_domains(&self, owners: [u64; 2], names: &[u8]) {
        let mut names = names.split(|byte| *byte == 0);
        let indexes = owners.map(|id| Fuid(id).domain_index());
        for index in indexes.into_iter().filter(|index| *index != 0) {
            let Some(name) = names.next().filter(|name| !name.is_empty()) else {
                return;
            };
            let name = String::from_utf8_lossy(name).into_owned();
            self.domains.borrow_mut().insert(index, name);
        }
    }

    /// Refuses ids of domains that the file system's table on disk does not have: it is not added
    /// to. In memory it does not matter what is there, and a domain without a name has a number.
    pub(super) fn check_domains(&self, owners: [u64; 2]) -> Result<(), PosixError> {
        let domains = self.files.domains();
        let is_known = |id: u64| match Fuid(id).domain_index() {
            0 => true,
            index => domains.has(index),
        };
        match self.is_in_memory() || owners.into_iter().all(is_known) {
            true => Ok(()),
            false => Err(PosixError::NotSupported),
        }
    }

    /// Type 11.
    pub(super) fn set_attributes(&self, set: &SetAttributes<'_>) -> Result<(), PosixError> {
        let mask = set.attribute_mask(is_of_linux(set.mask));
        let (uid, gid) = (
            if mask.uid { set.uid } else { 0 },
            if mask.gid { set.gid } else { 0 },
        );
        let files = self.files;
        files.znode(set.object)?;
        if mask.mtime && !mask.atime {
            // What follows a change of contents, to say when that was.
            self.clock.follow(time_of(set.mtime));
        }
        self.learn_domains([set.uid, set.gid], set.domains);
        self.check_domains([uid, gid])?;
        let tx = self.begin(self.edge_cost()?)?;
        if mask.size {
            self.resize(&tx, set.object, set.size)?;
        }
        // As truncation left it.
        let file = files.znode(set.object)?;
        let now = file.attributes();
        let (mut changes, mut flags) = (Changes::new(), now.flags);
        if mask.mode {
            let mode = now.mode & TYPE_BITS | set.mode & PERMISSION_BITS;
            (changes, flags) = files.mode_changes(changes, &file, mode, flags)?;
        }
        for (is_set, attribute, id) in [
            (mask.uid, Attribute::Uid, uid),
            (mask.gid, Attribute::Gid, gid),
        ] {
            if is_set {
                changes = changes.word(attribute, id);
            }
        }
        let mut created = None;
        if let Some(extended) = &set.attributes {
            flags = flags_after(flags, extended);
            created = created_by(extended);
            if let Some(project) = project_of(extended) {
                changes = changes.word(Attribute::ProjectId, project);
            }
        }
        for (attribute, time) in [
            (Attribute::Atime, mask.atime.then(|| time_of(set.atime))),
            (Attribute::Mtime, mask.mtime.then(|| time_of(set.mtime))),
            (Attribute::Crtime, created),
            (Attribute::Ctime, Some(files.now()?)),
        ] {
            if let Some(time) = time {
                changes = changes.time(attribute, time);
            }
        }
        if flags != now.flags {
            changes = changes.word(Attribute::Flags, flags);
        }
        files.change(&tx, set.object, &changes)?;
        let owners = write::SetAttributes {
            uid: mask.uid.then_some(uid),
            gid: mask.gid.then_some(gid),
            project: set.attributes.as_ref().and_then(project_of),
            ..write::SetAttributes::default()
        };
        let hidden = files.hidden_objects(&file, &owners)?;
        files.change_hidden_owners(&tx, &hidden, &owners)?;
        if mask.mode {
            files.change_hidden_list(&tx, &file, set.mode)?;
        }
        self.note(&tx)
    }

    /// Types 12 and 13: the list decides the mode as well.
    pub(super) fn set_acl(
        &self,
        object: ObjectId,
        body: &AclBody<'_>,
        is_old: bool,
    ) -> Result<(), PosixError> {
        let file = self.files.znode(object)?;
        let aces = decode(object, body, is_old)?;
        let tx = self.begin(0)?;
        self.files.apply_access_list(&tx, &file, &aces)?;
        self.note(&tx)
    }

    /// Type 21.
    pub(super) fn set_xattr(
        &self,
        object: ObjectId,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), PosixError> {
        let file = self.files.znode(object)?;
        let mut list = file.xattr_list()?.unwrap_or_default();
        list.remove(name);
        if let Some(value) = value {
            list.set(name, NvValue::ByteArray(value.to_vec()));
        }
        let changes = Changes::new().time(Attribute::Ctime, self.files.now()?);
        let tx = self.begin(0)?;
        let changes = with_list(changes, &list);
        self.files.change(&tx, object, &changes)?;
        self.note(&tx)
    }
}
