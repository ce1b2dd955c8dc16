//! Renaming (format/3b 4).
//!
//! Up to four objects change: two directories, what moves, and what stood at its new place. All are
//! locked together. Which they are is known only after a lookup, so the entries are looked up,
//! locked, and looked up again. A directory must not be moved into itself: moves between
//! directories take turns, so that the path up from the new place does not change after it was
//! checked.

use super::change::Change;
use super::create::{Placed, exists};
use super::names::Found;
use super::store::Changes;
use crate::directory::Target;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::intent_log::record::{RecordBody, Whiteout, record_type};
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// What becomes of the two places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// An existing target is removed.
    #[default]
    Replace,
    /// The new place must be free.
    NoReplace,
    /// Both change places.
    Exchange,
    /// A whiteout stays at the old place: a character device 0:0.
    Whiteout,
}

/// Directories lie less deep than this; a longer way up is a loop.
const DEPTH_MAX: usize = 1 << 16;

/// Everything that takes part, as it is under the locks: two directories, what moves with its
/// spelling, and the existing target.
pub(super) struct Move {
    pub(super) from: Arc<Znode>,
    pub(super) to: Arc<Znode>,
    pub(super) source: (Vec<u8>, Arc<Znode>),
    pub(super) target: Option<(Vec<u8>, Arc<Znode>)>,
}

impl Move {
    /// Whether the new place is the old one, perhaps in another spelling.
    pub(super) fn is_same_entry(&self) -> bool {
        let is_source = |target: &(Vec<u8>, _)| target.0 == self.source.0;
        self.from.id() == self.to.id() && self.target.as_ref().is_some_and(is_source)
    }

    /// What loses its name by the move.
    fn lost(&self) -> Option<&(Vec<u8>, Arc<Znode>)> {
        self.target.as_ref().filter(|_| !self.is_same_entry())
    }

    /// The record of it.
    fn record<'a>(&'a self, target: &'a [u8], whiteout: Option<Whiteout>) -> RecordBody<'a> {
        RecordBody::Rename {
            source_directory: self.from.id(),
            target_directory: self.to.id(),
            source: &self.source.0,
            target,
            whiteout,
        }
    }
}

/// How much a directory counts among the links of the one above.
fn as_subdirectory(znode: &Znode) -> i64 {
    i64::from(znode.kind() == FileKind::Directory)
}

/// Makes the contents of a file durable before its new name. If a program replaces a file by a
/// rename without a sync, the old or the new contents are there after a crash.
fn log_sources(tx: &Change<'_>, moved: &Move) {
    tx.log_in_order(moved.source.1.id());
    if let Some((_, target)) = &moved.target {
        tx.log_in_order(target.id());
    }
}

impl FileSystem {
    /// Moves the entry `from_name` of `from` to `to_name` of `to`. Returns what had that name
    /// before and lost it, as it was.
    pub fn rename(
        &self,
        (from, from_name): (ObjectId, &[u8]),
        (to, to_name): (ObjectId, &[u8]),
        mode: RenameMode,
    ) -> Result<Option<Arc<Znode>>, PosixError> {
        let writer = self.require_writer()?;
        self.check_new_name(to_name)?;
        let _moves = (from != to).then(|| writer.moves.lock());
        loop {
            let before = self.look_up_both((from, from_name), (to, to_name))?;
            let source = before.0.1.object;
            let target = before.1.as_ref().map_or(source, |found| found.1.object);
            let held = writer.lock(&[from, to, source, target]);
            let now = self.look_up_both((from, from_name), (to, to_name))?;
            if now != before {
                continue;
            }
            let moved = self.assemble(from, to, now)?;
            let gone = self.rename_locked(&moved, to_name, mode)?;
            drop(held);
            if let Some(gone) = gone {
                self.reap_soon(gone);
            }
            let replaced = moved.target.filter(|_| mode != RenameMode::Exchange);
            return Ok(replaced
                .map(|(_, znode)| znode)
                .filter(|_| source != target));
        }
    }

    fn look_up_both(
        &self,
        (from, from_name): (ObjectId, &[u8]),
        (to, to_name): (ObjectId, &[u8]),
    ) -> Result<(Found, Option<Found>), PosixError> {
        let from = self.live_directory(from)?;
        let source = self.find_entry(&from, from_name)?;
        let to = self.live_directory(to)?;
        Ok((source, self.lookup_spelling(&to, to_name)?))
    }

    fn assemble(
        &self,
        from: ObjectId,
        to: ObjectId,
        (source, target): (Found, Option<Found>),
    ) -> Result<Move, PosixError> {
        let open = |(spelling, target): (Vec<u8>, Target)| {
            Ok::<_, PosixError>((spelling, self.znode(target.object)?))
        };
        Ok(Move {
            from: self.live_directory(from)?,
            to: self.live_directory(to)?,
            source: open(source)?,
            target: target.map(open).transpose()?,
        })
    }

    /// Renames; returns an object that is to be reaped.
    fn rename_locked(
        &self,
        moved: &Move,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<Option<ObjectId>, PosixError> {
        self.check_rename(moved, to_name, mode)?;
        if let Some((spelling, target)) = &moved.target
            && target.id() == moved.source.1.id()
        {
            // Two names of one file: nothing happens. One name: perhaps its spelling changes.
            let is_respelled = moved.is_same_entry() && spelling != to_name;
            if mode == RenameMode::Exchange || !is_respelled {
                return Ok(None);
            }
        }
        if mode == RenameMode::Exchange {
            let tx = self.begin(0)?;
            self.apply_exchange(&tx, moved)?;
            log_sources(&tx, moved);
            let body = moved.record(to_name, None);
            self.log(&tx, record_type::RENAME_EXCHANGE, body);
            tx.keep();
            return Ok(None);
        }
        let tx = match &moved.target {
            Some(_) => self.begin_freeing(0)?,
            None => self.begin(0)?,
        };
        let is_whiteout = mode == RenameMode::Whiteout;
        let gone = self.apply_move(&tx, moved, to_name, is_whiteout)?;
        log_sources(&tx, moved);
        let kind = match is_whiteout {
            true => record_type::RENAME_WHITEOUT,
            false => record_type::RENAME,
        };
        let made = match is_whiteout {
            true => Some(self.add_whiteout(&tx, &moved.from, &moved.source.0)?),
            false => None,
        };
        let whiteout = made.as_ref().map(|(whiteout, _)| *whiteout);
        self.log(&tx, kind, moved.record(to_name, whiteout));
        if let Some((whiteout, placed)) = &made {
            self.log_posix_lists(&tx, whiteout.new.object, placed);
        }
        if let Some(gone) = gone {
            self.enqueue(&tx, gone)?;
        }
        tx.keep();
        Ok(gone)
    }

    /// Moves an entry to `to_name`; an existing target is removed. With `has_whiteout` the caller
    /// creates one at the old place. Returns an object that the caller puts into the delete queue,
    /// as the last step, and reaps.
    pub(super) fn apply_move(
        &self,
        tx: &Change<'_>,
        moved: &Move,
        to_name: &[u8],
        has_whiteout: bool,
    ) -> Result<Option<ObjectId>, PosixError> {
        let mut gone = None;
        if let Some((spelling, target)) = moved.lost() {
            self.remove_entry(tx, &moved.to, spelling)?;
            gone = self.drop_name(tx, target)?.then_some(target.id());
        }
        let (spelling, source) = &moved.source;
        self.remove_entry(tx, &moved.from, spelling)?;
        self.add_entry(tx, &moved.to, to_name, source.id(), source.kind())?;
        self.set_parent(tx, source, &moved.to)?;
        self.count_move(tx, moved, has_whiteout)?;
        Ok(gone)
    }

    /// Lets two entries change places.
    pub(super) fn apply_exchange(&self, tx: &Change<'_>, moved: &Move) -> Result<(), PosixError> {
        let (Some((to_spelling, target)), (from_spelling, source)) = (&moved.target, &moved.source)
        else {
            return Ok(());
        };
        self.remove_entry(tx, &moved.from, from_spelling)?;
        self.remove_entry(tx, &moved.to, to_spelling)?;
        self.add_entry(tx, &moved.to, to_spelling, source.id(), source.kind())?;
        self.add_entry(tx, &moved.from, from_spelling, target.id(), target.kind())?;
        self.set_parent(tx, source, &moved.to)?;
        self.set_parent(tx, target, &moved.from)?;
        let change = as_subdirectory(source) - as_subdirectory(target);
        if moved.from.id() == moved.to.id() {
            return self.change_directory(tx, &moved.to, 0, 0);
        }
        self.change_directory(tx, &moved.from, 0, -change)?;
        self.change_directory(tx, &moved.to, 0, change)
    }

    fn check_rename(
        &self,
        moved: &Move,
        to_name: &[u8],
        mode: RenameMode,
    ) -> Result<(), PosixError> {
        let source = &moved.source.1;
        moved.from.require_shrinkable()?;
        moved.to.require_mutable()?;
        source.require_removable()?;
        self.check_project(&moved.to, source)?;
        let is_directory = source.kind() == FileKind::Directory;
        match (&moved.target, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(exists(&moved.to, to_name)),
            (None, RenameMode::Exchange) => {
                return Err(PosixError::NotFound {
                    directory: moved.to.id(),
                    name: to_name.to_vec(),
                });
            }
            (Some((_, target)), RenameMode::Exchange) => {
                target.require_removable()?;
                self.check_project(&moved.from, target)?;
                self.check_no_loop(target, &moved.from)?;
            }
            (Some((_, target)), _) if target.id() != source.id() => {
                // A directory takes the place of an empty directory, a file that of a file.
                self.check_removal(&moved.to, target, is_directory)?;
            }
            _ => {}
        }
        self.check_no_loop(source, &moved.to)
    }

    /// Refuses to put `moved` into `directory` if that lies in it.
    fn check_no_loop(&self, moved: &Znode, directory: &Znode) -> Result<(), PosixError> {
        if moved.kind() != FileKind::Directory || moved.attributes().parent == directory.id() {
            return Ok(());
        }
        let mut at = directory.id();
        for _ in 0..DEPTH_MAX {
            if at == moved.id() {
                return Err(PosixError::IntoItself { object: moved.id() });
            }
            if at == self.root() {
                return Ok(());
            }
            at = self.znode(at)?.attributes().parent;
        }
        Err(PosixError::NoPath {
            object: directory.id(),
        })
    }

    fn set_parent(&self, tx: &Change<'_>, znode: &Znode, parent: &Znode) -> Result<(), PosixError> {
        let changes = Changes::new()
            .word(Attribute::Parent, parent.id().0)
            .time(Attribute::Ctime, self.require_writer()?.now());
        self.change(tx, znode.id(), &changes)
    }

    /// Brings the counts of both directories up to date.
    fn count_move(
        &self,
        tx: &Change<'_>,
        moved: &Move,
        has_whiteout: bool,
    ) -> Result<(), PosixError> {
        let source = as_subdirectory(&moved.source.1);
        let (lost, lost_directory) = match moved.lost() {
            Some((_, target)) => (1, as_subdirectory(target)),
            None => (0, 0),
        };
        let whiteout = i64::from(has_whiteout);
        if moved.from.id() == moved.to.id() {
            return self.change_directory(tx, &moved.to, whiteout - lost, -lost_directory);
        }
        self.change_directory(tx, &moved.from, whiteout - 1, -source)?;
        self.change_directory(tx, &moved.to, 1 - lost, source - lost_directory)
    }

    fn add_whiteout(
        &self,
        tx: &Change<'_>,
        directory: &Znode,
        name: &[u8],
    ) -> Result<(Whiteout, Placed), PosixError> {
        let new = super::NewFile::new(FileKind::CharDevice, 0);
        let (object, placed) = self.make_in(tx, directory, &new)?;
        self.add_entry(tx, directory, name, object.id(), FileKind::CharDevice)?;
        Ok((self.whiteout_record(tx, &object, &placed)?, placed))
    }
}
