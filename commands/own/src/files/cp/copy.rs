//! Walking a tree and making each entry anew.

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

/// Directories of the target that stay open on the way down.
const OPEN_MAX: usize = 64;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Attributes too, not only contents.
    pub attributes: bool,
    /// Copy damaged files too; what cannot be read becomes zeros.
    pub keep_going: bool,
}

/// Why an entry was not copied.
#[derive(Debug)]
pub enum Trouble {
    /// The pool does not give it.
    Source(PosixError),
    /// The target does not take it.
    Target(&'static str, io::Error),
    /// A signal came.
    Stopped,
}

/// An error of the target at something.
pub fn target(action: &'static str) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::Target(action, error)
}

/// A directory on the way down.
#[derive(Debug)]
struct Frame {
    /// Its path from the start; empty for the start.
    path: Vec<u8>,
    znode: Arc<Znode>,
    /// Its copy, unless that was closed to save descriptors.
    directory: Option<TargetDirectory>,
}

/// A file with several names, of which the first was copied.
#[derive(Debug)]
struct FirstName {
    path: Vec<u8>,
    /// Names that are still to come.
    left: u64,
}

/// One source being copied.
pub struct Copier<'a> {
    pub(super) open: &'a OpenFileSystem,
    pub(super) settings: Settings,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a Stop,
    pub(super) report: &'a mut Report,
    /// The path of the target, for messages.
    shown: PathBuf,
    pub(super) journal: Option<Journal>,
    /// The number of the entry in hand.
    pub(super) entry: u64,
    /// Bytes of content behind us.
    pub(super) position: u64,
    /// The name of files that are not finished.
    pub(super) partial: Vec<u8>,
    frames: Vec<Frame>,
    names: HashMap<ObjectId, FirstName>,
}

impl<'a> Copier<'a> {
    /// A copier of files of `open`, which reports to `report`.
    pub fn new(
        open: &'a OpenFileSystem,
        settings: Settings,
        progress: &'a Progress,
        stop: &'a Stop,
        report: &'a mut Report,
        shown: PathBuf,
        journal: Option<Journal>,
    ) -> Self {
        // No file in the dataset is likely to be called by its guid.
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

    /// Copies what is in directory `start` into `top`.
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
                // A directory that cannot be read, or an entry of one.
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
        // Taking the journal away changes the time of the directory that it is in.
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

    /// The journal has done its work.
    fn end(&mut self) -> Result<(), Failure> {
        match &self.journal {
            Some(journal) => journal
                .remove()
                .map_err(Failure::file(&self.shown, "remove the journal from")),
            None => Ok(()),
        }
    }

    /// Saves the journal if it is time, and says whether to stop.
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

    /// The copy of the innermost directory.
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
        // The start stays open: all others can be opened from there.
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

    /// Ends the innermost directory: now that nothing is added any more it gets its times.
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

    /// Gives a copy its attributes.
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

    /// Makes anything but a directory, or another name of it if it has been made.
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
        // The innermost directory is in use, and may be the start.
        let opened = match self.frames[0].directory.as_ref() {
            Some(top) => top.open_path(above),
            None => directory.open_path(above),
        };
        let old_directory = opened.map_err(target(action))?;
        let made = directory.link(&old_directory, old, &self.partial);
        made.and_then(|()| directory.rename_link(&self.partial, name))
            .map_err(target(action))
    }

    /// Makes anything but a directory, under a name of its own until it is finished.
    fn make(
        &mut self,
        directory: &TargetDirectory,
        znode: &Znode,
        name: &[u8],
        path: &[u8],
    ) -> Result<(), Trouble> {
        let made = self.make_partial(directory, znode, name, path);
        if matches!(made, Err(Trouble::Source(_) | Trouble::Target(..))) {
            // The error that is told is the first one.
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

    /// Says what went wrong with one entry; an error if there is no point in going on.
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

/// Whether the next file would meet the same error.
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
