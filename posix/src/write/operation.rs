//! Operations as records: what a change of the file system says to the dataset's log.
//!
//! Each public change creates its log record, from which a replay repeats it, in its own
//! transaction. It passes the record to the [`cenote_dataset::LogSink`] if there is one. A change
//! that no record describes in full says so (`log_nothing`): a sync then waits for its group. These
//! are attributes in a list in a pool without the feature `zilsaxattr`, empty ones there (a record
//! without a value removes one), ids of domains, quotas and the version, clones of blocks that no
//! group on disk has yet, the first name of an unnamed file (its contents would be further records,
//! and such a file must appear whole or not at all), and all that takes a number of an object that
//! no record names. Access times are stored from time to time, without any promise.

use super::SetAttributes;
use super::access_list::trivial;
use super::change::Change;
use super::create::{FLAG_ACL_TRIVIAL, NewFile, Placed};
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::Fuid;
use crate::kind::FileKind;
use crate::record::{extended_of, words_of as words};
use crate::time::Timestamp;
use crate::znode::Znode;
use cenote_base::{ObjectId, settings};
use cenote_dmu::{Object, StoredBlock};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::acl::{self, Ace, Who};
use cenote_ondisk::intent_log::record::{
    self, AclBody, Create, ExtendedAttributes, NewObject, Record, RecordBody, Whiteout, WriteData,
    record_type,
};

/// The most bytes of a hidden file's value that are in one record.
const PIECE_MAX: usize = 32 << 10;

/// The most blocks in one record of clones: half of what a log block can have.
const CLONES_MAX: usize = 512;

/// Bits of a setattr record's mask, as Linux numbers them.
const MASK_MODE: u64 = 1;
const MASK_UID: u64 = 2;
const MASK_GID: u64 = 4;
const MASK_ATIME: u64 = 16;
const MASK_MTIME: u64 = 32;
const MASK_EXTENDED: u64 = 1 << 31;

/// A new object, as records name it.
fn named(object: &Object) -> NewObject {
    let slots = object.dnode().slots();
    NewObject {
        object: object.id(),
        dnode_slots: u8::try_from(slots).expect("a dnode has at most 32 slots"),
    }
}

/// A list, as records have it.
fn body<'a>(aces: &[Ace], entries: &'a [u8]) -> AclBody<'a> {
    AclBody {
        count: aces.len() as u64,
        flags: 0,
        entries,
        ids: &[],
    }
}

/// Whether a stored id is of a domain, which records have to name.
fn has_domain(id: u64) -> bool {
    Fuid(id).domain_index() != 0
}

/// Whether a list has an entry for an id in a domain.
fn name_domains(aces: &[Ace]) -> bool {
    aces.iter().any(|ace| match ace.who {
        Who::User(id) | Who::Group(id) => has_domain(id),
        Who::Owner | Who::OwningGroup | Who::Everyone => false,
    })
}

impl FileSystem {
    /// Whether there is an intent log.
    fn is_logged(&self) -> bool {
        let sink = self.writer().and_then(|writer| writer.dataset.log_sink());
        sink.is_some()
    }

    /// Notes an operation of the transaction.
    pub(super) fn log(&self, tx: &Change<'_>, record_type: u64, body: RecordBody<'_>) {
        let record = Record {
            record_type,
            case_insensitive: false,
            txg: tx.txg(),
            sequence: 0,
            body,
        };
        tx.log(&record);
    }

    /// Notes that no record describes all that the transaction does.
    pub(super) fn log_nothing(&self, tx: &Change<'_>) {
        tx.log_nothing();
    }

    /// Whether changes of extended attributes can be logged.
    fn logs_xattrs(&self) -> bool {
        let writer = self.writer();
        writer.is_some_and(|writer| writer.dataset.logs_xattrs())
    }

    /// Notes a new file with a name.
    pub(super) fn log_creation(
        &self,
        tx: &Change<'_>,
        (directory, name): (ObjectId, &[u8]),
        new: &NewFile,
        (object, placed): (&Object, &Placed),
    ) {
        if !self.is_logged() {
            return;
        }
        let entries = acl::encode(&placed.list);
        let is_directory = new.kind == FileKind::Directory;
        let record_type = match (new.kind, placed.is_inherited) {
            (FileKind::Symlink, _) => record_type::SYMLINK,
            (_, true) if is_directory => record_type::MKDIR_ACL,
            (_, true) => record_type::CREATE_ACL,
            (_, false) if is_directory => record_type::MKDIR,
            (_, false) => record_type::CREATE,
        };
        let is_foreign = has_domain(new.uid) || has_domain(placed.gid);
        let made = match self.made_at(object) {
            Ok(made) if !is_foreign && !name_domains(&placed.list) => made,
            // No record is made that names domains.
            _ => return self.log_nothing(tx),
        };
        let create = Create {
            directory,
            new: named(object),
            mode: placed.mode,
            uid: new.uid,
            gid: placed.gid,
            generation: tx.txg().0,
            crtime: words(made),
            device: new.device.to_stored(),
            attributes: None,
            acl: placed.is_inherited.then(|| body(&placed.list, &entries)),
            domains: &[],
            name,
            target: (new.kind == FileKind::Symlink).then_some(&new.target),
        };
        self.log(tx, record_type, RecordBody::Create(create));
        self.log_posix_lists(tx, object.id(), placed);
    }

    /// Notes the lists of POSIX that a new object got with its attributes, behind the record that
    /// makes it.
    ///
    /// They are logged with the changes of names. So when a sync of another object, or of the
    /// directory, makes this one durable, its lists come along: it never appears with wider access.
    pub(super) fn log_posix_lists(&self, tx: &Change<'_>, object: ObjectId, placed: &Placed) {
        // Elsewhere they are files, and have no record.
        let in_attributes = self.tables().is_some();
        for (name, value) in placed.posix_lists().filter(|_| in_attributes) {
            if !self.logs_xattrs() {
                return self.log_nothing(tx);
            }
            let body = RecordBody::SetXattr {
                object,
                name,
                value: Some(value.as_slice()),
            };
            self.log(tx, record_type::SETSAXATTR, body);
        }
        tx.log_in_order(object);
    }

    /// Notes a new hidden directory, or a file in it.
    pub(super) fn log_hidden(
        &self,
        tx: &Change<'_>,
        of_type: u64,
        (directory, name): (ObjectId, &[u8]),
        object: &Object,
    ) -> Result<(), PosixError> {
        if !self.is_logged() {
            return Ok(());
        }
        let made = self.znode(object.id())?;
        let now = made.attributes();
        if has_domain(now.uid.0) || has_domain(now.gid.0) {
            self.log_nothing(tx);
            return Ok(());
        }
        let create = created((directory, name), (object, now));
        self.log(tx, of_type, RecordBody::Create(create));
        Ok(())
    }

    /// Logs the new contents of a file in a hidden directory. A sync of the visible file does not
    /// know that file, so this is logged with the changes of names.
    pub(super) fn log_hidden_value(&self, tx: &Change<'_>, object: ObjectId, value: &[u8]) {
        self.log_freed(tx, object, (0, 0));
        let mut offset = 0;
        for piece in value.chunks(PIECE_MAX) {
            self.log_write(tx, (object, offset), piece);
            offset += piece.len() as u64;
        }
        tx.log_in_order(object);
    }

    /// When an object was made, as it is stored.
    fn made_at(&self, object: &Object) -> Result<Timestamp, PosixError> {
        Ok(self.znode(object.id())?.attributes().created)
    }

    /// What a rename left at the old name, as its record has it.
    pub(super) fn whiteout_record(
        &self,
        tx: &Change<'_>,
        object: &Object,
        placed: &Placed,
    ) -> Result<Whiteout, PosixError> {
        Ok(Whiteout {
            new: named(object),
            mode: placed.mode,
            uid: 0,
            gid: placed.gid,
            generation: tx.txg().0,
            crtime: words(self.made_at(object)?),
            device: 0,
        })
    }

    /// Notes that bytes were written.
    pub(super) fn log_write(
        &self,
        tx: &Change<'_>,
        (object, offset): (ObjectId, u64),
        data: &[u8],
    ) {
        let length = data.len() as u64;
        if length > settings::ZIL_COPIED_MAX.get() {
            return self.log_long_write(tx, (object, offset), length);
        }
        let data = WriteData::Immediate(data);
        let body = RecordBody::Write {
            object,
            offset,
            length,
            data,
        };
        self.log(tx, record_type::WRITE, body);
    }

    /// Notes that bytes were written which the log reads for itself.
    pub(super) fn log_long_write(
        &self,
        tx: &Change<'_>,
        (object, offset): (ObjectId, u64),
        length: u64,
    ) {
        tx.log_write(object, offset, length);
    }

    /// Notes that blocks of `size` bytes that other files have are those of a range, too.
    pub(super) fn log_clones(
        &self,
        tx: &Change<'_>,
        (object, offset, length): (ObjectId, u64, u64),
        size: u64,
        blocks: &[StoredBlock],
    ) -> Result<(), PosixError> {
        if !self.is_logged() {
            return Ok(());
        }
        // A log ends before a record whose blocks are younger than the last group on disk.
        let synced = self.dataset()?.gate().synced_txg();
        let pointer_of = |block: &StoredBlock| match block {
            StoredBlock::Hole => Some(BlockPointer::HOLE),
            StoredBlock::Pointer(pointer) => {
                let is_on_disk = pointer.is_embedded() || pointer.physical_birth() <= synced;
                is_on_disk.then_some(**pointer)
            }
            StoredBlock::Dirty => None,
        };
        let pointers: Option<Vec<_>> = blocks.iter().map(pointer_of).collect();
        let Some(pointers) = pointers else {
            self.log_nothing(tx);
            return Ok(());
        };
        let (mut at, end) = (offset, offset + length);
        for pointers in pointers.chunks(CLONES_MAX) {
            let length = (pointers.len() as u64 * size).min(end - at);
            let pointers: Vec<u8> = pointers.iter().flat_map(BlockPointer::encode).collect();
            let body = RecordBody::CloneRange {
                object,
                offset: at,
                length,
                block_size: size,
                pointers: &pointers,
            };
            self.log(tx, record_type::CLONE_RANGE, body);
            at += length;
        }
        Ok(())
    }

    /// Notes that a range is free, or with length 0 that the file ends at the offset.
    pub(super) fn log_freed(
        &self,
        tx: &Change<'_>,
        object: ObjectId,
        (offset, length): (u64, u64),
    ) {
        let body = RecordBody::Truncate {
            object,
            offset,
            length,
        };
        self.log(tx, record_type::TRUNCATE, body);
    }

    /// Notes when the contents of a file changed last, which records of that do not say.
    pub(super) fn log_modified(&self, tx: &Change<'_>, object: ObjectId) -> Result<(), PosixError> {
        if !self.is_logged() {
            return Ok(());
        }
        let set = record::SetAttributes {
            mask: MASK_MTIME,
            mtime: words(self.znode(object)?.attributes().modified),
            ..unset(object)
        };
        self.log(tx, record_type::SETATTR, RecordBody::SetAttributes(set));
        Ok(())
    }

    /// Notes a new mode alone.
    pub(super) fn log_mode(&self, tx: &Change<'_>, object: ObjectId, mode: u64) {
        let set = record::SetAttributes {
            mask: MASK_MODE,
            mode,
            ..unset(object)
        };
        self.log(tx, record_type::SETATTR, RecordBody::SetAttributes(set));
    }

    /// Notes the mode that a new POSIX list stands for; a list of NFSv4 follows it.
    pub(super) fn log_posix_mode(&self, tx: &Change<'_>, file: &Znode, mode: u64) {
        if file.attributes().flags & FLAG_ACL_TRIVIAL == 0 {
            let is_directory = file.kind() == FileKind::Directory;
            self.log_access_list(tx, file.id(), &trivial(mode, is_directory));
        }
        self.log_mode(tx, file.id(), mode);
    }

    /// Notes new attributes of a file, its size not among them.
    pub(super) fn log_attributes(&self, tx: &Change<'_>, file: &Znode, set: &SetAttributes) {
        let ids = [set.uid, set.gid];
        if ids.into_iter().flatten().any(has_domain) {
            self.log_nothing(tx);
        }
        let before = file.attributes().flags;
        let flags = set.flags_of(before);
        let more = extended_of((before ^ flags, flags), set.project, set.created);
        let mut new = extended(unset(file.id()), more);
        for (value, bit, field) in [
            (set.mode, MASK_MODE, &mut new.mode),
            (set.uid, MASK_UID, &mut new.uid),
            (set.gid, MASK_GID, &mut new.gid),
        ] {
            if let Some(value) = value {
                *field = value;
                new.mask |= bit;
            }
        }
        for (time, bit, field) in [
            (set.accessed, MASK_ATIME, &mut new.atime),
            (set.modified, MASK_MTIME, &mut new.mtime),
        ] {
            if let Some(time) = time {
                *field = words(time);
                new.mask |= bit;
            }
        }
        self.log(tx, record_type::SETATTR, RecordBody::SetAttributes(new));
    }

    /// Notes a new access control list.
    pub(super) fn log_access_list(&self, tx: &Change<'_>, object: ObjectId, aces: &[Ace]) {
        if !self.is_logged() || name_domains(aces) {
            return self.log_nothing(tx);
        }
        let entries = acl::encode(aces);
        let body = RecordBody::Acl {
            object,
            acl: body(aces, &entries),
            is_old: false,
            domains: &[],
        };
        self.log(tx, record_type::ACL, body);
    }

    /// Notes the new value of an extended attribute in the list of a file.
    pub(super) fn log_xattr(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        (name, value): (&[u8], Option<&[u8]>),
    ) {
        if value.is_some_and(<[u8]>::is_empty) || !self.logs_xattrs() {
            // A record without a value removes the attribute.
            return self.log_nothing(tx);
        }
        let body = RecordBody::SetXattr {
            object: file.id(),
            name,
            value,
        };
        self.log(tx, record_type::SETSAXATTR, body);
    }
}

/// A record that makes an object as it is by now.
fn created<'a>(
    (directory, name): (ObjectId, &'a [u8]),
    (object, now): (&Object, &Attributes),
) -> Create<'a> {
    Create {
        directory,
        new: named(object),
        mode: now.mode,
        uid: now.uid.0,
        gid: now.gid.0,
        generation: now.generation,
        crtime: words(now.created),
        device: 0,
        attributes: None,
        acl: None,
        domains: &[],
        name,
        target: None,
    }
}

/// A setattr record that sets more, too.
fn extended(
    set: record::SetAttributes<'static>,
    attributes: Option<ExtendedAttributes>,
) -> record::SetAttributes<'static> {
    let mask = match attributes {
        Some(_) => set.mask | MASK_EXTENDED,
        None => set.mask,
    };
    record::SetAttributes {
        mask,
        attributes,
        ..set
    }
}

/// A setattr record that sets nothing.
fn unset(object: ObjectId) -> record::SetAttributes<'static> {
    record::SetAttributes {
        object,
        mask: 0,
        mode: 0,
        uid: 0,
        gid: 0,
        size: 0,
        atime: (0, 0),
        mtime: (0, 0),
        attributes: None,
        domains: &[],
    }
}
