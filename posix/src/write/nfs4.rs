//! NFSv4 lists that say more than a mode (format/3b 8): what is made in a directory inherits
//! entries of its list, and a changed mode changes the list.
//!
//! The rules are those of zfsprops(7) for `aclinherit` and `aclmode`; what it leaves open was
//! found by having OpenZFS do it (`tests/all/access_lists.rs`).

use super::WriteSettings;
use super::access_list::{ALWAYS, mask, trivial};
use super::attributes::mode_flags;
use super::change::Change;
use super::create::{FLAG_ACL_AUTO_INHERIT, FLAG_ACL_TRIVIAL, FLAG_NO_EXECS_DENIED};
use super::store::Changes;
use crate::attributes::Attributes;
use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::fuid::Fuid;
use crate::kind::FileKind;
use crate::record::{ACCESS_BITS, access_of};
use crate::znode::Znode;
use cenote_base::ObjectId;
use cenote_ondisk::acl::{
    Ace, FLAG_DIRECTORY_INHERIT, FLAG_FILE_INHERIT, FLAG_INHERIT_ONLY, FLAG_INHERITED,
    FLAG_NO_PROPAGATE, TYPE_ALLOW, TYPE_DENY, Who,
};
use cenote_ondisk::system_attributes::Attribute;
use std::sync::Arc;

/// What is made in the directory may inherit entries.
pub(super) const FLAG_INHERIT_ACE: u64 = 0x2;

const EXECUTE: u32 = 0x20;
/// To change the list and the owner.
const TAKE_OVER: u32 = 0x4_0000 | 0x8_0000;
const INHERIT: u16 = FLAG_FILE_INHERIT | FLAG_DIRECTORY_INHERIT;
const INHERITANCE: u16 = INHERIT | FLAG_NO_PROPAGATE | FLAG_INHERIT_ONLY;

/// `aclinherit`: which entries of a directory's list go to what is made in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListInheritance {
    /// None.
    Discard,
    /// Those that deny.
    NoAllow,
    /// All, but none gives the right to change the list or the owner.
    #[default]
    Restricted,
    /// All as they are; they may decide the mode.
    Passthrough,
    /// The same, but a file that is created without execute permission cannot be executed.
    PassthroughX,
}

impl ListInheritance {
    /// The meaning of a stored value.
    pub fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Discard,
            1 => Self::NoAllow,
            3 => Self::Passthrough,
            5 => Self::PassthroughX,
            _ => Self::Restricted,
        }
    }

    fn passes_all(self) -> bool {
        matches!(self, Self::Passthrough | Self::PassthroughX)
    }
}

/// `aclmode`: what a changed mode leaves of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListMode {
    /// Nothing.
    #[default]
    Discard,
    /// Entries of users and groups, which allow no more than the group may.
    GroupMask,
    /// Entries of users and groups.
    Passthrough,
    /// The mode cannot be changed where there is such a list.
    Restricted,
}

impl ListMode {
    /// The meaning of a stored value.
    pub fn from_number(number: u64) -> Self {
        match number {
            2 => Self::GroupMask,
            3 => Self::Passthrough,
            4 => Self::Restricted,
            _ => Self::Discard,
        }
    }
}

/// Whether an entry is about owner@, group@ or everyone@.
fn is_of_class(ace: &Ace) -> bool {
    matches!(ace.who, Who::Owner | Who::OwningGroup | Who::Everyone)
}

/// Cuts what an entry allows to what the group may by `mode`.
fn trim(ace: &mut Ace, mode: u64, is_directory: bool) {
    if ace.ace_type == TYPE_ALLOW && ace.flags & FLAG_INHERIT_ONLY == 0 {
        ace.mask &= ALWAYS | mask(mode >> 3 & 7, is_directory);
    }
}

/// Puts the list that repeats `mode` around `kept`: what it denies first, what it allows last.
fn around(kept: impl Iterator<Item = Ace>, mode: u64, is_directory: bool) -> Vec<Ace> {
    const ALLOWING: usize = 3;
    let mut aces = trivial(mode, is_directory);
    let last = aces.split_off(aces.len() - ALLOWING);
    aces.extend(kept);
    aces.extend(last);
    aces
}

/// The entry that something made in the directory inherits.
fn inherited(ace: &Ace, is_directory: bool) -> Option<Ace> {
    let wanted = if is_directory {
        INHERIT
    } else {
        FLAG_FILE_INHERIT
    };
    if ace.flags & wanted == 0 {
        return None;
    }
    let mut flags = ace.flags & !INHERITANCE | FLAG_INHERITED;
    if is_directory {
        let is_for_directories = ace.flags & FLAG_DIRECTORY_INHERIT != 0;
        match (ace.flags & FLAG_NO_PROPAGATE != 0, is_for_directories) {
            (true, true) => {}
            (true, false) => return None,
            (false, true) => flags |= ace.flags & INHERIT,
            (false, false) => flags |= FLAG_FILE_INHERIT | FLAG_INHERIT_ONLY,
        }
    }
    Some(Ace { flags, ..*ace })
}

/// A list that something inherits when it is made.
#[derive(Debug)]
pub(super) struct InheritedList {
    pub aces: Vec<Ace>,
    /// The mode that the list stands for.
    pub mode: u64,
    is_directory: bool,
    /// Whether the requested mode is applied as well.
    follows_mode: bool,
}

impl InheritedList {
    /// The flags of the new object, given those that it would have without the list.
    pub fn flags_of(&self, flags: u64) -> u64 {
        let flags = match self.follows_mode {
            true => flags,
            false => flags & !FLAG_ACL_AUTO_INHERIT,
        };
        list_flags(flags, &self.aces, self.mode, self.is_directory)
    }
}

/// The list of something that is made with `mode` in a directory with the list `parent`, and
/// whether the mode has a part in it.
fn inherit_list(
    parent: &[Ace],
    kind: FileKind,
    mode: u64,
    settings: &WriteSettings,
) -> (Vec<Ace>, bool) {
    const ALL_EXECUTE: u64 = 0o111;
    let (inheritance, list_mode) = (settings.list_inheritance, settings.list_mode);
    let is_directory = kind == FileKind::Directory;
    let mut decides = false;
    let mut kept = Vec::new();
    for ace in parent {
        let Some(mut new) = inherited(ace, is_directory) else {
            continue;
        };
        let allows = new.ace_type == TYPE_ALLOW;
        match inheritance {
            ListInheritance::Discard => continue,
            ListInheritance::NoAllow if allows => continue,
            ListInheritance::Restricted if allows => new.mask &= !TAKE_OVER,
            ListInheritance::PassthroughX if allows && !is_directory && mode & ALL_EXECUTE == 0 => {
                new.mask &= !EXECUTE;
            }
            _ => {}
        }
        // A class that is spoken of needs no entry from the mode.
        let is_for_it = match kind {
            FileKind::Regular => true,
            FileKind::Directory => ace.flags & FLAG_DIRECTORY_INHERIT != 0,
            _ => false,
        };
        decides |= inheritance.passes_all() && is_of_class(&new) && is_for_it;
        kept.push(new);
    }
    if decides {
        return (kept, false);
    }
    if list_mode == ListMode::GroupMask && !inheritance.passes_all() {
        kept.iter_mut()
            .for_each(|ace| trim(ace, mode, is_directory));
    }
    (around(kept.into_iter(), mode, is_directory), true)
}

/// The list after the mode was changed.
fn change_list(old: &[Ace], mode: u64, is_directory: bool, list_mode: ListMode) -> Vec<Ace> {
    if list_mode == ListMode::Discard {
        return trivial(mode, is_directory);
    }
    let kept = old.iter().filter_map(|ace| {
        let mut ace = *ace;
        if is_of_class(&ace) {
            // What it says for the directory itself the mode says now.
            ace.flags |= FLAG_INHERIT_ONLY;
            return (is_directory && ace.flags & INHERIT != 0).then_some(ace);
        }
        if list_mode == ListMode::GroupMask {
            trim(&mut ace, mode, is_directory);
        }
        Some(ace)
    });
    around(kept, mode, is_directory)
}

/// Whether a list says no more than a mode could: it is about classes alone, passes nothing on,
/// and gives or denies nothing that a mode leaves alone.
fn is_trivial(aces: &[Ace]) -> bool {
    const DELETE: u32 = 0x1_0000;
    const DELETE_CHILD: u32 = 0x40;
    const WRITE_DATA: u32 = 0x2;
    /// To read attributes and the list.
    const LOOK: u32 = 0x80 | 0x2_0000;
    /// To change attributes, named attributes, the list or the owner.
    const OWNERS: u32 = 0x100 | 0x10 | TAKE_OVER;
    let is_plain = |ace: &Ace| {
        let is_odd = match ace.ace_type {
            TYPE_ALLOW => ace.who != Who::Owner && ace.mask & OWNERS != 0,
            _ => ace.mask & LOOK != 0,
        };
        let removes =
            ace.mask & DELETE != 0 || ace.mask & DELETE_CHILD != 0 && ace.mask & WRITE_DATA == 0;
        is_of_class(ace) && ace.flags & INHERITANCE == 0 && !is_odd && !removes
    };
    aces.iter().all(is_plain)
}

/// The flags of a file with this list and mode.
pub(super) fn list_flags(flags: u64, aces: &[Ace], mode: u64, is_directory: bool) -> u64 {
    let mut flags = mode_flags(flags, mode) & !FLAG_INHERIT_ACE;
    if is_trivial(aces) {
        return flags;
    }
    flags &= !FLAG_ACL_TRIVIAL;
    if is_directory && aces.iter().any(|ace| ace.flags & INHERIT != 0) {
        flags |= FLAG_INHERIT_ACE;
    }
    let denies_execute = |ace: &Ace| {
        let is_named_denial = ace.ace_type == TYPE_DENY && !is_of_class(ace);
        is_named_denial && ace.mask & EXECUTE != 0 && ace.flags & FLAG_INHERIT_ONLY == 0
    };
    if aces.iter().any(denies_execute) {
        flags &= !FLAG_NO_EXECS_DENIED;
    }
    flags
}

/// A list for a file whose mode and flags are given, and its flags then.
pub(super) fn list_changes(
    changes: Changes,
    file: &Znode,
    aces: &[Ace],
    (mode, flags): (u64, u64),
) -> (Changes, u64) {
    let is_directory = file.kind() == FileKind::Directory;
    let flags = list_flags(flags, aces, mode, is_directory);
    (changes.access_list(aces), flags)
}

impl FileSystem {
    /// Gives a file another NFSv4 list, which decides its mode as well.
    pub fn set_access_list(&self, id: ObjectId, aces: &[Ace]) -> Result<Arc<Znode>, PosixError> {
        let writer = self.require_writer()?;
        let held = writer.lock(&[id]);
        let file = self.znode(id)?;
        file.require_mutable()?;
        let tx = self.begin(0)?;
        self.apply_access_list(&tx, &file, aces)?;
        self.log_access_list(&tx, id, aces);
        let changed = self.znode(id)?;
        tx.keep();
        drop((tx, held));
        Ok(changed)
    }

    /// Gives a file a list, and the mode that it stands for.
    pub(super) fn apply_access_list(
        &self,
        tx: &Change<'_>,
        file: &Znode,
        aces: &[Ace],
    ) -> Result<(), PosixError> {
        let now = file.attributes();
        let mode = now.mode & !ACCESS_BITS | access_of(aces, now);
        let changes = Changes::new().time(Attribute::Ctime, self.require_writer()?.now());
        let (changes, flags) = list_changes(changes, file, aces, (mode, now.flags));
        let changes = changes
            .word(Attribute::Mode, mode)
            .word(Attribute::Flags, flags);
        self.change(tx, file.id(), &changes)
    }

    /// The list of a file whose mode becomes `mode`.
    ///
    /// # Errors
    /// [`PosixError::Forbidden`] if the property `aclmode` forbids that.
    pub(super) fn list_after(&self, file: &Znode, mode: u64) -> Result<Vec<Ace>, PosixError> {
        let is_directory = file.kind() == FileKind::Directory;
        let now = file.attributes();
        if now.flags & FLAG_ACL_TRIVIAL != 0 {
            return Ok(trivial(mode, is_directory));
        }
        let has_same_access = now.mode & ACCESS_BITS == mode & ACCESS_BITS;
        if has_same_access && mode & !now.mode == 0 {
            // Only set-id bits go, as with each write: no list speaks of them.
            return self.acl(file);
        }
        match self.write_settings()?.list_mode {
            ListMode::Restricted => Err(PosixError::Forbidden { object: file.id() }),
            list_mode => Ok(change_list(&self.acl(file)?, mode, is_directory, list_mode)),
        }
    }

    /// What something that is made with `mode` in a directory inherits; `None` if its list only
    /// repeats the mode.
    pub(super) fn inherited_list(
        &self,
        directory: &Znode,
        kind: FileKind,
        mode: u64,
        (uid, gid): (u64, u64),
    ) -> Result<Option<InheritedList>, PosixError> {
        let has_some = directory.attributes().flags & FLAG_INHERIT_ACE != 0;
        if !has_some || kind == FileKind::Symlink {
            return Ok(None);
        }
        let parent = self.acl(directory)?;
        let (aces, follows_mode) = inherit_list(&parent, kind, mode, &self.write_settings()?);
        let owners = Attributes {
            uid: Fuid(uid),
            gid: Fuid(gid),
            ..Attributes::default()
        };
        Ok(Some(InheritedList {
            mode: mode & !ACCESS_BITS | access_of(&aces, &owners),
            aces,
            is_directory: kind == FileKind::Directory,
            follows_mode,
        }))
    }
}
