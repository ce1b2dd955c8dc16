//! Changes of a mounted head, in the file system's terms.
//!
//! Snapshots and the control directory never change: `EROFS`. The kernel has checked permissions.
//! It also invalidates what it cached when it makes a change itself, except for a mode that lost
//! setuid.

use super::DatasetFiles;
use super::node::Node;
use super::opens::{access_by, to_be_read};
use cenote_base::ObjectId;
use cenote_fuse::{
    Attr, AttrChanges, Context, DeviceNumber, Entry, Errno, FileKind, FilePlace, Handle, Lifetime,
    NewMode, NodeId, Opened, TimeChange, Timestamp, XattrChange,
};
use cenote_posix::write::{
    CopySource, FallocateMode, NewFile, OpenMode, RenameMode, SetAttributes, SetXattr, WriteOptions,
};
use cenote_posix::{BlockBuffer, Changer, POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT, PosixError, Znode};
use std::sync::Arc;

type PosixFiles = Arc<cenote_posix::FileSystem>;

/// `RENAME_*` of `linux/fs.h`.
mod rename_flag {
    pub const NO_REPLACE: u32 = 1 << 0;
    pub const EXCHANGE: u32 = 1 << 1;
    pub const WHITEOUT: u32 = 1 << 2;
}

/// `FALLOC_FL_*` of `linux/falloc.h`.
mod allocate_flag {
    pub const KEEP_SIZE: u32 = 0x01;
    pub const PUNCH_HOLE: u32 = 0x02;
    pub const ZERO_RANGE: u32 = 0x10;
}

/// `XATTR_*` of `linux/xattr.h`.
mod xattr_flag {
    pub const CREATE: u32 = 1;
    pub const REPLACE: u32 = 2;
}

const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
const ACCESS_MASK: u32 = 3;

impl DatasetFiles {
    pub(super) fn is_writable(&self) -> bool {
        self.trees.head().is_writable()
    }

    /// The head's object that a node stands for, if it may be changed.
    pub(super) fn target(&self, node: NodeId) -> Result<(PosixFiles, ObjectId), Errno> {
        match self.refuses_changes() {
            true => Err(Errno::ROFS),
            false => self.object_of_head(node),
        }
    }

    fn object_of_head(&self, node: NodeId) -> Result<(PosixFiles, ObjectId), Errno> {
        match self.node(node) {
            Node::Object { tree: 0, object } => Ok((self.trees.head(), object)),
            _ => Err(Errno::ROFS),
        }
    }

    fn new_entry(&self, znode: &cenote_posix::Znode) -> Result<Entry, Errno> {
        self.entry(0, znode)
    }

    /// What is answered to `open` of an object that is held, until [`Self::close`].
    fn opened(&self, object: ObjectId, flags: u32) -> Opened {
        let is_shared = self.trees.head().is_or_was_shared();
        let exchanges = self.exchanges.count();
        self.opens.begin(object, flags, (is_shared, exchanges))
    }

    /// Makes the kernel write back what was stored through mappings of a file from `offset` on.
    /// Returns whether the stored contents are up to date then.
    ///
    /// Not to be called for a request that changes the file's size: the kernel holds back what it
    /// would send until that is answered.
    pub(super) fn collect_stores(&self, node: NodeId, offset: u64) -> bool {
        let object = match self.node(node) {
            Node::Object { tree: 0, object } => object,
            _ => return true,
        };
        let kernel = self.kernel.get();
        !self.opens.may_hold_stores(object)
            || kernel.is_some_and(|kernel| kernel.collect_stores(node, offset).is_ok())
    }

    pub(super) fn change_attributes(
        &self,
        context: &Context<'_>,
        node: NodeId,
        changes: &AttrChanges,
    ) -> Result<(Attr, Lifetime), Errno> {
        // What was stored before the time is set must not set another one when it arrives. While a
        // file's size changes the kernel sends nothing off.
        if changes.modified.is_some() && changes.size.is_none() {
            self.collect_stores(node, 0);
        }
        let (files, object) = self.target(node)?;
        let now = files.now().map_err(|error| self.errno(error))?;
        let stored = |time: Timestamp| cenote_posix::Timestamp {
            seconds: time.seconds,
            nanoseconds: time.nanoseconds,
        };
        let time = |change: TimeChange| match change {
            TimeChange::Now => now,
            TimeChange::To(time) => stored(time),
        };
        let mut set = SetAttributes {
            mode: changes.mode.map(|mode| u64::from(mode & 0o7777)),
            uid: changes.uid.map(u64::from),
            gid: changes.gid.map(u64::from),
            size: changes.size,
            accessed: changes.accessed.map(time),
            modified: changes.modified.map(time),
            changed: changes.changed.map(stored),
            is_touch: [changes.accessed, changes.modified]
                .into_iter()
                .flatten()
                .all(|change| change == TimeChange::Now),
            ..SetAttributes::default()
        };
        // A new owner gets no rights of the old one; the kernel leaves that to us.
        let has_new_owner = set.uid.is_some() || set.gid.is_some();
        if (changes.kill_suid_gid || has_new_owner) && set.mode.is_none() {
            let file = self.znode(0, object)?;
            let changer = match has_new_owner && context.uid == 0 {
                // Setuid goes even if an administrator changes the owner.
                true => Changer::Member,
                false => changer(context, &file),
            };
            set.mode = mode_left_by(changer, &file);
        }
        let changed = files.set_attributes(object, &set);
        let znode = changed.map_err(|error| self.errno(error))?;
        self.attr(0, &znode)
    }

    /// Clears setuid and setgid before another user changes a program's contents.
    fn drop_privileges(&self, context: &Context<'_>, object: ObjectId) -> Result<(), Errno> {
        let file = self.znode(0, object)?;
        let mode = mode_left_by(changer(context, &file), &file);
        if mode.is_none() {
            return Ok(());
        }
        let set = SetAttributes {
            mode,
            ..SetAttributes::default()
        };
        let changed = self.trees.head().set_attributes(object, &set);
        changed.map_err(|error| self.errno(error))?;
        self.forget_mode(object);
        Ok(())
    }

    /// The same for requests that do not say whether that is due, but only name the user.
    fn drop_privileges_of_users(
        &self,
        context: &Context<'_>,
        object: ObjectId,
    ) -> Result<(), Errno> {
        match context.uid {
            0 => Ok(()),
            _ => self.drop_privileges(context, object),
        }
    }

    /// Makes the kernel fetch the mode again, before the caller gets its reply.
    ///
    /// The kernel starts a program with the mode that it cached, and replies to writes, allocations
    /// and copies cannot update it.
    fn forget_mode(&self, object: ObjectId) {
        if let Some(kernel) = self.kernel.get() {
            let node = Node::Object { tree: 0, object }.encode(self.root());
            // A kernel that does not know the file has nothing to forget.
            let _ = kernel.invalidate_attributes(node);
        }
    }

    /// Writes by `write`, which is told who writes.
    fn write_as<T>(
        &self,
        context: &Context<'_>,
        object: ObjectId,
        kill_privileges: bool,
        write: impl FnOnce(Changer) -> Result<T, PosixError>,
    ) -> Result<T, Errno> {
        let (mut changer, mut is_taken) = (Changer::Privileged, false);
        if kill_privileges {
            let file = self.znode(0, object)?;
            changer = self::changer(context, &file);
            is_taken = mode_left_by(changer, &file).is_some();
        }
        let written = write(changer);
        if is_taken {
            self.forget_mode(object);
        }
        written.map_err(|error| self.errno(error))
    }

    pub(super) fn make(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        new: NewFile,
    ) -> Result<Entry, Errno> {
        let (files, directory) = self.target(parent)?;
        let new = new.owned_by(u64::from(context.uid), u64::from(context.gid));
        let made = files.create(directory, name, &new);
        self.new_entry(&*made.map_err(|error| self.errno(error))?)
    }

    pub(super) fn make_node(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        mode: NewMode,
        device: DeviceNumber,
    ) -> Result<Entry, Errno> {
        let kind = FileKind::from_mode(mode.mode).unwrap_or(FileKind::Regular);
        let mut new = new_file(posix_kind(kind), mode);
        new.device = cenote_posix::DeviceNumber {
            major: device.major,
            minor: device.minor,
        };
        self.make(context, parent, name, new)
    }

    pub(super) fn make_and_open(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        name: &[u8],
        (mode, flags): (NewMode, u32),
    ) -> Result<(Entry, Opened), Errno> {
        let new = new_file(cenote_posix::FileKind::Regular, mode);
        let entry = self.make(context, parent, name, new)?;
        let (files, object) = self.target(entry.node)?;
        files.hold(object).map_err(|error| self.errno(error))?;
        Ok((entry, self.opened(object, flags)))
    }

    pub(super) fn make_unnamed(
        &self,
        context: &Context<'_>,
        parent: NodeId,
        (mode, flags): (NewMode, u32),
    ) -> Result<(Entry, Opened), Errno> {
        let (files, directory) = self.target(parent)?;
        let new = new_file(cenote_posix::FileKind::Regular, mode)
            .owned_by(u64::from(context.uid), u64::from(context.gid));
        // It is held already.
        let made = files.create_unnamed(directory, &new);
        let znode = made.map_err(|error| self.errno(error))?;
        let entry = self.new_entry(&znode)?;
        Ok((entry, self.opened(znode.id(), flags)))
    }

    /// `kill_privileges` says that the caller may not keep setuid and setgid bits of a file that
    /// `O_TRUNC` empties.
    pub(super) fn open_writable(
        &self,
        context: &Context<'_>,
        node: NodeId,
        (flags, kill_privileges): (u32, bool),
    ) -> Result<Opened, Errno> {
        if flags & (ACCESS_MASK | O_TRUNC) != 0 {
            self.target(node)?;
        }
        let (files, object) = match self.object_of_head(node) {
            Ok(target) => target,
            Err(errno) if flags & ACCESS_MASK != 0 => return Err(errno),
            Err(_) => return Ok(to_be_read(flags)),
        };
        let mode = OpenMode {
            writes: flags & ACCESS_MASK != 0,
            appends: flags & O_APPEND != 0,
            truncates: flags & O_TRUNC != 0,
        };
        let checked = files.check_open(object, mode);
        checked.map_err(|error| self.errno(error))?;
        files.hold(object).map_err(|error| self.errno(error))?;
        if mode.truncates
            && let Err(errno) = self.empty(context, object, kill_privileges)
        {
            self.release_object(object);
            return Err(errno);
        }
        Ok(self.opened(object, flags))
    }

    /// Empties a file that is opened with `O_TRUNC`.
    fn empty(
        &self,
        context: &Context<'_>,
        object: ObjectId,
        kill_privileges: bool,
    ) -> Result<(), Errno> {
        if kill_privileges {
            self.drop_privileges(context, object)?;
        }
        let files = self.trees.head();
        let emptied = files.truncate(object, 0);
        emptied
            .and_then(|()| files.sync_if_due(object, false))
            .map_err(|error| self.errno(error))
    }

    pub(super) fn close(&self, node: NodeId, handle: Handle) {
        if let Ok((_, object)) = self.object_of_head(node)
            && self.check_handle(object, handle).is_ok()
        {
            self.opens.end(object, handle);
            self.release_object(object);
        }
    }

    fn release_object(&self, object: ObjectId) {
        if let Err(error) = self.trees.head().release(object) {
            // The request has no reply; the file's space is freed at the next mount.
            (self.errors)(&error);
        }
    }

    pub(super) fn add_name(
        &self,
        node: NodeId,
        parent: NodeId,
        name: &[u8],
    ) -> Result<Entry, Errno> {
        let (files, object) = self.target(node)?;
        let (_, directory) = self.target(parent)?;
        let linked = files.link(object, directory, name);
        self.new_entry(&*linked.map_err(|error| self.errno(error))?)
    }

    pub(super) fn remove_name(
        &self,
        parent: NodeId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), Errno> {
        let (files, directory) = self.target(parent)?;
        let removed = match is_directory {
            true => files.rmdir(directory, name),
            false => files.unlink(directory, name),
        };
        self.note_removal(&*removed.map_err(|error| self.errno(error))?);
        Ok(())
    }

    /// Keeps what a file was that lost a name, if that was its last.
    fn note_removal(&self, before: &cenote_posix::Znode) {
        let is_directory = before.kind() == cenote_posix::FileKind::Directory;
        if is_directory || before.attributes().links <= 1 {
            let files = self.trees.head();
            let attr = self.attr_of_stat(&files, 0, &files.stat(before));
            self.ghosts.note(before.id(), attr);
        }
    }

    pub(super) fn move_name(
        &self,
        from: (NodeId, &[u8]),
        to: (NodeId, &[u8]),
        flags: u32,
    ) -> Result<(), Errno> {
        let mode = match flags {
            0 => RenameMode::Replace,
            rename_flag::NO_REPLACE => RenameMode::NoReplace,
            rename_flag::EXCHANGE => RenameMode::Exchange,
            rename_flag::WHITEOUT => RenameMode::Whiteout,
            _ => return Err(Errno::INVAL),
        };
        let (files, source) = self.target(from.0)?;
        let (_, target) = self.target(to.0)?;
        let moved = files.rename((source, from.1), (target, to.1), mode);
        if let Some(replaced) = moved.map_err(|error| self.errno(error))? {
            self.note_removal(&replaced);
        }
        Ok(())
    }

    pub(super) fn write_data(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        data: &[u8],
        kill_privileges: bool,
    ) -> Result<(), Errno> {
        let (files, object) = self.target(place.node)?;
        self.check_handle(object, place.handle)?;
        self.write_as(context, object, kill_privileges, |changer| {
            let options = write_options(place.handle, changer);
            files.write(object, place.offset, data, options).map(drop)
        })
    }

    pub(super) fn write_owned(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        (blocks, length): (&mut [BlockBuffer], usize),
        kill_privileges: bool,
    ) -> Result<Option<usize>, Errno> {
        let (files, object) = self.target(place.node)?;
        self.check_handle(object, place.handle)?;
        let block_size = self.write_as(context, object, kill_privileges, |changer| {
            let options = write_options(place.handle, changer);
            files.write_buffers(object, place.offset, blocks, length, options)
        })?;
        Ok(usize::try_from(block_size).ok())
    }

    pub(super) fn allocate_range(
        &self,
        context: &Context<'_>,
        place: FilePlace,
        length: u64,
        mode: u32,
    ) -> Result<(), Errno> {
        use allocate_flag::{KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE};
        let keep_size = mode & KEEP_SIZE != 0;
        let mode = match mode & !KEEP_SIZE {
            0 => FallocateMode::Allocate { keep_size },
            PUNCH_HOLE if keep_size => FallocateMode::PunchHole,
            ZERO_RANGE => FallocateMode::ZeroRange { keep_size },
            _ => return Err(Errno::OPNOTSUPP),
        };
        let (files, object) = self.target(place.node)?;
        self.check_handle(object, place.handle)?;
        self.drop_privileges_of_users(context, object)?;
        let done = files.fallocate(object, place.offset, length, mode);
        done.map_err(|error| self.errno(error))
    }

    /// Copies, by sharing blocks where that can be.
    pub(super) fn copy_data(
        &self,
        context: &Context<'_>,
        from: FilePlace,
        to: FilePlace,
        length: u64,
    ) -> Result<u64, Errno> {
        let (tree, source) = self.object(from.node)?;
        let source_files = self.trees.get(tree)?;
        let (files, target) = self.target(to.node)?;
        self.check_handle(target, to.handle)?;
        self.check_handle(source.id(), from.handle)?;
        self.drop_privileges_of_users(context, target)?;
        let place = CopySource {
            files: &source_files,
            id: source.id(),
            offset: from.offset,
        };
        let stop = || context.interrupt.is_raised();
        let copied = files.copy_range(place, target, to.offset, length, &stop);
        let copied = copied.map_err(|error| self.errno(error))?;
        self.note_read(tree, &source_files, &source);
        Ok(copied)
    }

    pub(super) fn set_extended(
        &self,
        node: NodeId,
        name: &[u8],
        value: &[u8],
        change: XattrChange,
    ) -> Result<(), Errno> {
        self.check_xattr_name(name)?;
        let how = match change.flags & (xattr_flag::CREATE | xattr_flag::REPLACE) {
            0 if change.clears_setgid => SetXattr::ByStranger,
            xattr_flag::CREATE => SetXattr::Create,
            xattr_flag::REPLACE => SetXattr::Replace,
            0 => SetXattr::Any,
            _ => return Err(Errno::INVAL),
        };
        let (files, object) = self.target(node)?;
        let set = files.set_xattr(object, name, value, how);
        set.map_err(|error| self.errno(error))
    }

    /// Whether an attribute of that name may be changed on this mount.
    ///
    /// The kernel checks the caller's rights for each namespace. Of `system.` only the access lists
    /// are allowed: any other such name could be set by every user with write permission.
    fn check_xattr_name(&self, name: &[u8]) -> Result<(), Errno> {
        let is_list = [POSIX_ACL_ACCESS, POSIX_ACL_DEFAULT].contains(&name);
        match is_list || !name.starts_with(b"system.") {
            true => self.check_xattr_namespace(name),
            false => Err(Errno::OPNOTSUPP),
        }
    }

    /// Whether an attribute of that name may exist on this mount.
    ///
    /// What other systems stored without a namespace is read as `user.`, and under no other name.
    pub(super) fn check_xattr_namespace(&self, name: &[u8]) -> Result<(), Errno> {
        let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];
        let space = spaces.into_iter().find(|space| name.starts_with(space));
        match space.filter(|_| self.shows_xattr()) {
            None => Err(Errno::OPNOTSUPP),
            // A namespace alone is no name.
            Some(space) if space == name => Err(Errno::INVAL),
            Some(_) => Ok(()),
        }
    }

    pub(super) fn remove_extended(&self, node: NodeId, name: &[u8]) -> Result<(), Errno> {
        self.check_xattr_name(name)?;
        let (files, object) = self.target(node)?;
        let removed = files.remove_xattr(object, name);
        removed.map_err(|error| self.errno(error))
    }
}

/// Who a caller without `CAP_FSETID` is to a file.
fn changer(context: &Context<'_>, file: &Znode) -> Changer {
    let attributes = file.attributes();
    // The caller's groups are only looked up where they decide something.
    let kept_by_member = Changer::Member.leaves(attributes.mode);
    let depends_on_group = kept_by_member != Changer::Outsider.leaves(attributes.mode);
    let group = u32::try_from(attributes.gid.0);
    match depends_on_group && group.is_ok_and(|group| context.is_in_group(group)) {
        true => Changer::Member,
        false => Changer::Outsider,
    }
}

/// The permissions of a file that somebody changed; `None` if they stay what they are.
fn mode_left_by(changer: Changer, file: &Znode) -> Option<u64> {
    use cenote_posix::FileKind as Kind;
    let mode = file.attributes().mode & 0o7777;
    let left = changer.leaves(mode);
    let keeps_all = matches!(file.kind(), Kind::Directory | Kind::Symlink);
    (!keeps_all && left != mode).then_some(left)
}

fn write_options(handle: Handle, changer: Changer) -> WriteOptions {
    WriteOptions {
        append: false,
        changer,
        access: access_by(handle),
    }
}

pub(super) fn new_file(kind: cenote_posix::FileKind, mode: NewMode) -> NewFile {
    let mut new = NewFile::new(kind, u64::from(mode.mode & 0o7777));
    new.umask = u64::from(mode.umask & 0o777);
    new
}

fn posix_kind(kind: FileKind) -> cenote_posix::FileKind {
    use cenote_posix::FileKind as Posix;
    match kind {
        FileKind::Regular => Posix::Regular,
        FileKind::Directory => Posix::Directory,
        FileKind::Symlink => Posix::Symlink,
        FileKind::CharDevice => Posix::CharDevice,
        FileKind::BlockDevice => Posix::BlockDevice,
        FileKind::Fifo => Posix::Fifo,
        FileKind::Socket => Posix::Socket,
    }
}
