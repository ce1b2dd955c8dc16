//! Records that change names: create, remove, link, rename.

use super::LogReplay;
use super::attributes::{NewAttributes, decode_acl};
use crate::attributes::FLAG_XATTR;
use crate::error::PosixError;
use crate::kind::FileKind;
use crate::record::{create_of, is_made_by, time_of};
use crate::write::change::Change;
use crate::write::names::Found;
use crate::write::rename::Move;
use crate::write::store::Changes;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_dmu::zap::normalize::{FLAG_TOUPPER, normalize};
use cenote_ondisk::intent_log::record::{Create, Record, RecordBody, Whiteout, record_type};
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// The mode of a directory of extended attributes (format/3b 7).
const XATTR_DIRECTORY_MODE: u64 = 0o041_777;

fn is_directory(znode: &Znode) -> bool {
    znode.kind() == FileKind::Directory
}

impl LogReplay<'_> {
    fn directory(&self, id: ObjectId) -> Result<Arc<Znode>, PosixError> {
        let directory = self.files.znode(id)?;
        directory.require_directory()?;
        Ok(directory)
    }

    /// What a name leads to, with its stored spelling.
    fn find(
        &self,
        directory: &Arc<Znode>,
        name: &[u8],
        folds: bool,
    ) -> Result<Option<Found>, PosixError> {
        let found = self.files.lookup_spelling(directory, name)?;
        if found.is_some() || !folds {
            return Ok(found);
        }
        // The record's caller did not look at the case, although local callers do.
        let flags = self.files.name_flags() | FLAG_TOUPPER;
        let wanted = normalize(name, flags);
        for entry in self.files.read_directory(directory, 0)?.skip(2) {
            let entry = entry?;
            if normalize(&entry.name, flags) == wanted {
                return Ok(Some((entry.name, entry.target)));
            }
        }
        Ok(None)
    }

    fn require(
        &self,
        directory: &Arc<Znode>,
        name: &[u8],
        folds: bool,
    ) -> Result<Found, PosixError> {
        let found = self.find(directory, name, folds)?;
        found.ok_or_else(|| PosixError::NotFound {
            directory: directory.id(),
            name: name.to_vec(),
        })
    }

    /// Types 1 to 4 and 14 to 19.
    pub(super) fn create(
        &self,
        record: &Record<'_>,
        create: &Create<'_>,
    ) -> Result<(), PosixError> {
        self.clock.advance(time_of(create.crtime));
        let owners = [create.uid, create.gid];
        self.learn_domains(owners, create.domains);
        self.check_domains(owners)?;
        self.make_room(create.new.object)?;
        if record.record_type == record_type::MKXATTR {
            return self.make_xattr_directory(create);
        }
        let directory = self.directory(create.directory)?;
        let found = self.find(&directory, create.name, record.case_insensitive)?;
        if found.is_some() {
            // The group that made it was synced after all.
            return self.note(&self.begin(0)?);
        }
        let kind = FileKind::from_mode(create.mode);
        let kind = kind.filter(|kind| is_made_by(record.record_type, *kind));
        let kind = kind.ok_or_else(|| self.bad("an object of another kind than its mode says"))?;
        let aces = create.acl.as_ref().map(|acl| decode_acl(create, acl));
        let mut new = NewAttributes::of(create, &directory, self.files.has_projects());
        new.target = create.target;
        new.aces = aces.transpose()?;
        if new.aces.is_none() {
            // As it was when it was made first, and as OpenZFS repeats it.
            let owners = (create.uid, create.gid);
            let list = self
                .files
                .inherited_list(&directory, kind, create.mode, owners)?;
            if let Some(list) = list {
                new.flags = list.flags_of(new.flags);
                new.aces = Some(list.aces);
            }
        }
        if let Some(extended) = &create.attributes {
            new.extend(extended);
        }
        let tx = self.begin(0)?;
        let number = Some((create.new.object, usize::from(create.new.dnode_slots)));
        let object = self.files.allocate(&tx, kind, &new.changes(), number)?;
        self.files
            .add_entry(&tx, &directory, create.name, object.id(), kind)?;
        let subdirectories = i64::from(kind == FileKind::Directory);
        self.files
            .change_directory(&tx, &directory, 1, subdirectories)?;
        self.note(&tx)
    }

    /// Frees an object without a name whose number a record takes. On disk that was done before
    /// the first record.
    fn make_room(&self, number: ObjectId) -> Result<(), PosixError> {
        match self.is_in_memory() && self.files.is_in_delete_queue(number)? {
            true => self.files.drain_one(number),
            false => Ok(()),
        }
    }

    /// Type 3: `directory` is the file that gets a directory of attributes.
    fn make_xattr_directory(&self, create: &Create<'_>) -> Result<(), PosixError> {
        let file = self.files.znode(create.directory)?;
        let mut create = create.clone();
        if FileKind::from_mode(create.mode) != Some(FileKind::Directory) {
            create.mode = XATTR_DIRECTORY_MODE;
        }
        let mut new = NewAttributes::of(&create, &file, self.files.has_projects());
        new.flags |= FLAG_XATTR;
        new.belong_to(&file);
        let tx = self.begin(0)?;
        let number = Some((create.new.object, usize::from(create.new.dnode_slots)));
        let kind = FileKind::Directory;
        let object = self.files.allocate(&tx, kind, &new.changes(), number)?;
        let changes = Changes::new()
            .word(Attribute::Xattr, object.id().0)
            .time(Attribute::Ctime, self.files.now()?);
        self.files.change(&tx, file.id(), &changes)?;
        self.note(&tx)
    }

    /// Types 5 and 6.
    pub(super) fn remove(
        &self,
        directory: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<(), PosixError> {
        let directory = self.directory(directory)?;
        let (spelling, target) = self.require(&directory, name, folds)?;
        let file = self.files.znode(target.object)?;
        self.check_empty(&file)?;
        let tx = self.begin(0)?;
        let is_gone = self
            .files
            .apply_removal(&tx, &directory, &spelling, &file)?;
        self.note(&tx)?;
        drop(tx);
        match is_gone {
            true => self.files.reap(file.id()),
            false => Ok(()),
        }
    }

    /// Refuses to lose a directory with entries.
    fn check_empty(&self, file: &Znode) -> Result<(), PosixError> {
        if is_directory(file) && self.files.set().zap(file.id())?.count() > 0 {
            return Err(self.bad("a directory that is not empty is removed"));
        }
        Ok(())
    }

    /// Type 7.
    pub(super) fn link(
        &self,
        directory: ObjectId,
        object: ObjectId,
        name: &[u8],
        folds: bool,
    ) -> Result<(), PosixError> {
        let directory = self.directory(directory)?;
        let file = self.files.znode(object)?;
        if is_directory(&file) {
            return Err(self.bad("a directory gets a second name"));
        }
        if self.find(&directory, name, folds)?.is_some() {
            return Err(self.bad("a link gets a name that is taken"));
        }
        let tx = self.begin(0)?;
        self.files.apply_link(&tx, &directory, &file, name)?;
        self.note(&tx)
    }

    /// Types 8, 22 and 23.
    pub(super) fn rename(&self, record: &Record<'_>) -> Result<(), PosixError> {
        let RecordBody::Rename {
            source_directory,
            target_directory,
            source,
            target,
            whiteout,
        } = record.body
        else {
            unreachable!("the caller looked at the kind");
        };
        let folds = record.case_insensitive;
        let from = self.directory(source_directory)?;
        let to = self.directory(target_directory)?;
        let open = |(spelling, found): Found| {
            Ok::<_, PosixError>((spelling, self.files.znode(found.object)?))
        };
        let moved = Move {
            source: open(self.require(&from, source, folds)?)?,
            target: self.find(&to, target, folds)?.map(open).transpose()?,
            from,
            to,
        };
        if record.record_type == record_type::RENAME_EXCHANGE {
            return self.exchange(&moved, target);
        }
        let gone = self.replace(&moved, target, whiteout.as_ref())?;
        gone.map_or(Ok(()), |gone| self.files.reap(gone))
    }

    /// Moves an entry; returns an object that is to be reaped.
    fn replace(
        &self,
        moved: &Move,
        name: &[u8],
        whiteout: Option<&Whiteout>,
    ) -> Result<Option<ObjectId>, PosixError> {
        let (spelling, source) = &moved.source;
        if let Some((_, target)) = &moved.target
            && !moved.is_same_entry()
        {
            if target.id() == source.id() {
                // Two names of one file: nothing happens.
                self.note(&self.begin(0)?)?;
                return Ok(None);
            }
            self.check_empty(target)?;
        }
        let tx = self.begin(0)?;
        let has_whiteout = whiteout.is_some();
        let gone = self.files.apply_move(&tx, moved, name, has_whiteout)?;
        if let Some(whiteout) = whiteout {
            self.leave_whiteout(&tx, &moved.from, spelling, whiteout)?;
        }
        if let Some(gone) = gone {
            self.files.enqueue(&tx, gone)?;
        }
        self.note(&tx)?;
        Ok(gone)
    }

    fn exchange(&self, moved: &Move, name: &[u8]) -> Result<(), PosixError> {
        let Some((_, target)) = &moved.target else {
            return Err(PosixError::NotFound {
                directory: moved.to.id(),
                name: name.to_vec(),
            });
        };
        let tx = self.begin(0)?;
        if target.id() != moved.source.1.id() {
            self.files.apply_exchange(&tx, moved)?;
        }
        self.note(&tx)
    }

    fn leave_whiteout(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        name: &[u8],
        whiteout: &Whiteout,
    ) -> Result<(), PosixError> {
        self.clock.advance(time_of(whiteout.crtime));
        let create = create_of(whiteout, directory.id(), name);
        let kind = FileKind::CharDevice;
        if FileKind::from_mode(create.mode) != Some(kind) {
            return Err(self.bad("a whiteout that is no character device"));
        }
        let new = NewAttributes::of(&create, directory, self.files.has_projects());
        let number = Some((create.new.object, usize::from(create.new.dnode_slots)));
        let object = self.files.allocate(tx, kind, &new.changes(), number)?;
        self.files.add_entry(tx, directory, name, object.id(), kind)
    }
}
