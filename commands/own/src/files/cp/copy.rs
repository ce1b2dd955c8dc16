//! Walks a tree and copies each entry.

use super::attributes;
use super::journal::Journal;
use super::report::Report;
use super::target::TargetDirectory;
use crate::reading::failure::{Failure, posix_words};
use crate::reading::place::Place;
use crate::reading::session::OpenFileSystem;
use crate::reading::stop::Stop;
use cenote_base::ObjectId;
use cenote_posix::{FileKind, PosixError, WalkEntry, Znode};
use cenote_words::progress::Progress;
use rustix::fs::FileType;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The maximum number of the target's directories that stay open.
const OPEN_MAX: usize = 64;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Copy attributes, too.
    pub attributes: bool,
    /// Copy damaged files, too; unreadable blocks become zeros.
    pub keep_going: bool,
}

/// Why an entry was not copied.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot be read from the pool.
    Source(PosixError),
    /// It cannot be written to the target.
    Target(&'static str, io::Error),
    /// A signal arrived.
    Stopped,
}

/// An error in the target during `action`.
pub fn target(action: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Target(action, error)
}

/// A directory on the current path.
#[derive(Debug)]
struct Frame {
    /// Its path from the start; empty for the start itself.
    path: Vec<u8>,
    znode: Arc<Znode>,
    /// Its copy, unless it was closed to save descriptors.
    directory: Option<TargetDirectory>,
}

/// The first name of a file with several names, already copied.
#[derive(Debug)]
struct FirstName {
    path: Vec<u8>,
    /// How many further names are expected.
    left: u64,
}

/// One source being copied.
pub struct Copier<'a> {
    pub(super) open: &'a OpenFileSystem,
    pub(super) settings: Settings,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a Stop,
    pub(super) report: &'a mut Report,
    /// The target's path, for messages.
    shown: PathBuf,
    pub(super) journal: Option<Journal>,
    /// The number of the current entry.
    pub(super) entry: u64,
    /// Bytes of content already copied.
    pub(super) position: u64,
    /// The name of unfinished files.
    pub(super) partial: Vec<u8>,
    frames: Vec<Frame>,
    names: HashMap<ObjectId, FirstName>,
}

impl<'a> Copier<'a> {
    /// A copier of the files in `open`.
    pub fn new(
        open: &'a OpenFileSystem,
        settings: Settings,
        progress: &'a Progress,
        stop: &'a Stop,
        report: &'a mut Report,
        shown: PathBuf,
        journal: Option<Journal>,
    ) -> Self {
        // Contains the dataset's guid, so no file in the dataset is likely to have this name.
        let partial = format!(".cenote-partial-{:016x}", open.dataset.phys().guid.0);
        Self {
            open,
            settings,
            progress,
            stop,
            report,
            shown,
            journal,
            entry: 0,
            position: 0,
            partial: partial.into_bytes(),
            frames: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// Copies the contents of directory `start` into `top`.
    pub fn tree(&mut self, top: TargetDirectory, start: &Arc<Znode>) -> Result<(), Failure> {
        let walk = self.open.files.walk(start.id());
        let walk = walk.map_err(|source| self.open.failure(b"", source))?;
        self.frames.push(Frame {
            path: Vec::new(),
            znode: Arc::clone(start),
            directory: Some(top),
        });
        for item in walk {
            match item {
                Ok(item) if item.path.is_empty() => continue,
                Ok(item) => self.item(&item)?,
                // A directory, or an entry in one, cannot be read.
                Err(error) => {
                    let problem = format!("{}: {}", self.open.name, posix_words(&error));
                    self.report.problem(self.progress, problem);
                }
            }
            if self.is_stopped()? {
                return Ok(());
            }
        }
        while self.frames.len() > 1 {
            self.leave()?;
        }
        // Removing the journal changes the modification time of its directory, so that is set
        // afterwards.
        self.end()?;
        self.leave()
    }

    /// Copies one file as `name` in `parent`.
    pub fn single(
        &mut self,
        parent: TargetDirectory,
        znode: &Arc<Znode>,
        name: &[u8],
    ) -> Result<(), Failure> {
        match self.make(&parent, znode, name, name) {
            Ok(()) => self.report.entries += 1,
            Err(trouble) => self.troubled(trouble, name)?,
        }
        if self.is_stopped()? {
            return Ok(());
        }
        self.end()
    }

    /// Removes the journal; the copy is complete.
    fn end(&mut self) -> Result<(), Failure> {
        match &self.journal {
            Some(journal) => journal
                .remove()
                .map_err(Failure::file(&self.shown, "remove the journal from")),
            None => Ok(()),
        }
    }

    /// Saves the journal if it is due. Returns whether to stop.
    fn is_stopped(&mut self) -> Result<bool, Failure> {
        let stopped = self.stop.is_set();
        if stopped {
            self.report.interrupted();
        }
        if let Some(journal) = &mut self.journal
            && (stopped && !self.report.saved_partial() || journal.is_due())
        {
            let saved = journal.save(self.entry, None);
            saved.map_err(Failure::file(&self.shown, "save the journal in"))?;
        }
        Ok(stopped)
    }

    fn item(&mut self, item: &WalkEntry) -> Result<(), Failure> {
        while let Some(frame) = self.frames.last() {
            let below = item.path.strip_prefix(frame.path.as_slice());
            if frame.path.is_empty() || below.is_some_and(|rest| rest.starts_with(b"/")) {
                break;
            }
            self.leave()?;
        }
        match self.enter_and_make(item) {
            Ok(()) => {}
            Err(trouble) => self.troubled(trouble, &item.path)?,
        }
        if !self.stop.is_set() {
            self.entry += 1;
        }
        Ok(())
    }

    fn enter_and_make(&mut self, item: &WalkEntry) -> Result<(), Trouble> {
        let name = item
            .path
            .rsplit(|byte| *byte == b'/')
            .next()
            .unwrap_or_default()
            .to_vec();
        let directory = self.take_top()?;
        let outcome = match item.znode.kind() {
            FileKind::Directory => self.directory(&directory, item, &name),
            _ => self.make_once(&directory, item, &name).map(|()| None),
        };
        let top = self
            .frames
            .last_mut()
            .expect("an entry lies in a directory");
        top.directory = Some(directory);
        if let Some(frame) = outcome? {
            self.push(frame);
        }
        Ok(())
    }

    /// Takes the copy of the innermost directory; opens it if it was closed.
    fn take_top(&mut self) -> Result<TargetDirectory, Trouble> {
        let top = self
            .frames
            .last_mut()
            .expect("an entry lies in a directory");
        if let Some(directory) = top.directory.take() {
            return Ok(directory);
        }
        let path = top.path.clone();
        self.open_below(&path)
    }

    /// Opens a directory of the copy by its path from the start.
    fn open_below(&self, path: &[u8]) -> Result<TargetDirectory, Trouble> {
        let top = self.frames[0].directory.as_ref();
        match top {
            Some(top) => top.open_path(path).map_err(target("open the directory of")),
            None => unreachable!("the start stays open"),
        }
    }

    fn push(&mut self, frame: Frame) {
        // The start stays open, because the others can be opened from there.
        if let Some(above) = self.frames.len().checked_sub(OPEN_MAX).filter(|i| *i > 0) {
            self.frames[above].directory = None;
        }
        self.frames.push(frame);
    }

    fn directory(
        &mut self,
        parent: &TargetDirectory,
        item: &WalkEntry,
        name: &[u8],
    ) -> Result<Option<Frame>, Trouble> {
        let made = parent.make(name, self.settings.attributes);
        let directory = made.map_err(target("make the directory"))?;
        Ok(Some(Frame {
            path: item.path.clone(),
            znode: Arc::clone(&item.znode),
            directory: Some(directory),
        }))
    }

    /// Leaves the innermost directory. It is complete now, so its times can be set.
    fn leave(&mut self) -> Result<(), Failure> {
        let directory = match self.take_top() {
            Ok(directory) => directory,
            Err(trouble) => {
                let frame = self.frames.pop().expect("there is an innermost one");
                return self.troubled(trouble, &frame.path);
            }
        };
        let frame = self.frames.pop().expect("there is an innermost one");
        self.report.entries += 1;
        if !self.settings.attributes {
            return Ok(());
        }
        match self.attributes(&directory, &frame.znode, b".", &frame.path) {
            Ok(()) => Ok(()),
            Err(trouble) => self.troubled(trouble, &frame.path),
        }
    }

    /// Sets the attributes of a copy.
    pub(super) fn attributes(
        &mut self,
        directory: &TargetDirectory,
        znode: &Znode,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), Trouble> {
        if !self.settings.attributes {
            return Ok(());
        }
        let losses = attributes::apply(self.open, znode, directory, name);
        let losses = losses.map_err(target("set the attributes of"))?;
        let place = Place::new(&self.open.name, path);
        self.report.losses(self.progress, &place, losses);
        Ok(())
    }

    /// Copies anything but a directory, or links to it if another name of it was copied.
    fn make_once(
        &mut self,
        directory: &TargetDirectory,
        item: &WalkEntry,
        name: &[u8],
    ) -> Result<(), Trouble> {
        let id = item.znode.id();
        if let Some(first) = self.names.get_mut(&id) {
            first.left = first.left.saturating_sub(1);
            let path = first.path.clone();
            if first.left == 0 {
                self.names.remove(&id);
            }
            self.link(directory, &path, name)?;
            self.report.entries += 1;
            return Ok(());
        }
        match self.is_there(directory, &item.znode, name)? {
            true => {
                self.report.entries_before += 1;
                self.position += item.znode.attributes().size;
            }
            false => {
                self.make(directory, &item.znode, name, &item.path)?;
                self.report.entries += 1;
            }
        }
        let links = item.znode.attributes().links;
        if links > 1 {
            let path = item.path.clone();
            let left = links - 1;
            self.names.insert(id, FirstName { path, left });
        }
        Ok(())
    }

    /// Whether an earlier run copied this.
    fn is_there(
        &self,
        directory: &TargetDirectory,
        znode: &Znode,
        name: &[u8],
    ) -> Result<bool, Trouble> {
        let was_done = |journal: &Journal| journal.was_done(self.entry);
        if !self.journal.as_ref().is_some_and(was_done) {
            return Ok(false);
        }
        let standing = directory.look(name).map_err(target("look at"))?;
        let Some(standing) = standing.filter(|standing| standing.kind == file_type(znode.kind()))
        else {
            return Ok(false);
        };
        let attributes = znode.attributes();
        let modified = attributes.modified;
        let same_size = znode.kind() != FileKind::Regular || standing.size == attributes.size;
        let same_time = standing.modified == (modified.seconds, modified.nanoseconds.into());
        Ok(same_size && (same_time || !self.settings.attributes))
    }

    fn link(&self, directory: &TargetDirectory, first: &[u8], name: &[u8]) -> Result<(), Trouble> {
        let at = first.iter().rposition(|byte| *byte == b'/');
        let (above, old) = match at {
            Some(at) => (&first[..at], &first[at + 1..]),
            None => (b"".as_slice(), first),
        };
        let action = "link to its first name";
        // The innermost directory is currently taken out of its frame, and may be the start.
        let opened = match self.frames[0].directory.as_ref() {
            Some(top) => top.open_path(above),
            None => directory.open_path(above),
        };
        let old_directory = opened.map_err(target(action))?;
        let made = directory.link(&old_directory, old, &self.partial);
        made.and_then(|()| directory.rename_link(&self.partial, name))
            .map_err(target(action))
    }

    /// Copies anything but a directory, under a temporary name until it is complete.
    fn make(
        &mut self,
        directory: &TargetDirectory,
        znode: &Znode,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), Trouble> {
        let made = self.make_partial(directory, znode, name, path);
        if matches!(made, Err(Trouble::Source(_) | Trouble::Target(..))) {
            // Report the first error, not one of the cleanup.
            let _ = directory.remove(&self.partial);
        }
        made
    }

    fn make_partial(
        &mut self,
        directory: &TargetDirectory,
        znode: &Znode,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), Trouble> {
        let partial = self.partial.clone();
        match znode.kind() {
            FileKind::Regular => self.file(directory, znode, path)?,
            FileKind::Symlink => {
                let link = self.open.files.read_link(znode).map_err(Trouble::Source)?;
                directory
                    .symlink(&link, &partial)
                    .map_err(target("make the link"))?;
            }
            kind => {
                let device = znode.attributes().device;
                let made = directory.node(&partial, file_type(kind), (device.major, device.minor));
                made.map_err(target("make the device node, pipe or socket"))?;
            }
        }
        self.attributes(directory, znode, &partial, path)?;
        directory.rename(&partial, name).map_err(target("rename"))
    }

    /// Reports a problem with one entry. An error if all further entries would fail, too.
    fn troubled(&mut self, trouble: Trouble, path: &[u8]) -> Result<(), Failure> {
        match trouble {
            Trouble::Stopped => Ok(()),
            Trouble::Source(error) => {
                let place = Place::new(&self.open.name, path);
                let problem = format!("{place}: {}; not copied", posix_words(&error));
                self.report.problem(self.progress, problem);
                Ok(())
            }
            Trouble::Target(action, error) => {
                let whole = self.shown.join(OsStr::from_bytes(path));
                let failure = Failure::file(whole, action)(error);
                if ends_all(&failure) {
                    return Err(failure);
                }
                self.report.problem(self.progress, failure.to_string());
                Ok(())
            }
        }
    }
}

/// Whether the next file would fail in the same way.
fn ends_all(failure: &Failure) -> bool {
    let Failure::File { source, .. } = failure else {
        return false;
    };
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(
        source.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem
    )
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharDevice => FileType::CharacterDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::Fifo,
        FileKind::Socket => FileType::Socket,
    }
}
