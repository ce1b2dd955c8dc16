//! A directory as a store: for tests, and for file servers.
//!
//! An object is a file of its name below the directory. It is written under a temporary name, made
//! durable, and then linked to its own: the link fails if the name is taken, so one of two
//! concurrent puts wins, on network file systems too. Replacing a version is a rename under a lock
//! on the directory. A version is the digest of its bytes.
//!
//! *The file system below it may go.* Of a directory that is not there no name is free, and an
//! empty one that stands in its place, such as a mount point, is not it: it is known by its number,
//! or by the device's object in it.

use super::{Answer, Condition, Meta, OBJECT_MAX, Request, Store, StoreError, Tag};
use crate::format::{Hash, key};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, FileType};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

/// Temporary files' names begin with this, which no object's does.
const TEMPORARY: &str = ".new-";
/// Parts of a name, at most: links may go round in a circle. Names of objects have up to three.
const DEPTH_MAX: usize = 8;

/// A store in a directory.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    next: AtomicU64,
    /// File system and number of the directory.
    identity: (u64, u64),
    sent: AtomicU64,
}

impl DirectoryStore {
    /// The store in `root`, which is made if it is not there; what it lies in has to be. A path
    /// that was mistyped, or whose file system is not mounted, is not to become a store.
    ///
    /// # Errors
    /// The system's, when it cannot be made.
    pub fn new(root: &Path) -> std::io::Result<Self> {
        match std::fs::create_dir(root) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = std::fs::metadata(root)?;
        Ok(Self {
            root: root.into(),
            next: AtomicU64::new(0),
            identity: (found.dev(), found.ino()),
            sent: AtomicU64::new(0),
        })
    }

    fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        let is_name = |part: &str| !part.is_empty() && !part.starts_with('.');
        match key.split('/').all(is_name) {
            true => Ok(self.root.join(key)),
            false => Err(StoreError::Other(format!("'{key}' is no name"))),
        }
    }

    /// Makes a directory below the store's own, which is never made here.
    fn make_below(&self, directory: &Path) -> Result<(), StoreError> {
        match std::fs::create_dir(directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound && directory != self.root => {
                self.make_below(directory.parent().unwrap_or(&self.root))?;
                std::fs::create_dir(directory).or_else(|error| match error.kind() {
                    ErrorKind::AlreadyExists => Ok(()),
                    _ => Err(io(error)),
                })
            }
            result => result.map_err(io),
        }
    }

    fn put(&self, key: &str, body: &[u8], condition: &Condition) -> Result<Answer, StoreError> {
        let path = self.path(key)?;
        let parent = path.parent().unwrap_or(&self.root);
        self.make_below(parent)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let temporary = parent.join(format!("{TEMPORARY}{}-{number}", std::process::id()));
        let result = put_file(&self.root, &temporary, &path, body, condition);
        // After a rename it is gone already.
        let _ = std::fs::remove_file(&temporary);
        result?;
        let directory = File::open(parent).map_err(io)?;
        directory.sync_all().map_err(io)?;
        self.sent.fetch_add(body.len() as u64, Ordering::Relaxed);
        Ok(Answer::Put(Some(tag(body))))
    }

    fn get(&self, key: &str, range: Option<&Range<u64>>) -> Result<Answer, StoreError> {
        let (file, length) = self.open(key)?;
        let wanted = range.cloned().unwrap_or(0..length);
        let count = wanted.end.checked_sub(wanted.start);
        let count = count.filter(|count| *count <= OBJECT_MAX && wanted.end <= length);
        let count = count.and_then(|count| usize::try_from(count).ok());
        let count = count.ok_or_else(|| StoreError::of_length(key, length))?;
        let mut bytes = vec![0; count];
        let read = file.read_exact_at(&mut bytes, wanted.start);
        read.map_err(|error| reading(key, error))?;
        let tag = range.is_none().then(|| tag(&bytes));
        Ok(Answer::Get(Arc::new(bytes), tag))
    }

    fn open(&self, key: &str) -> Result<(File, u64), StoreError> {
        open_file(&self.path(key)?, key)
    }

    fn head(&self, key: &str) -> Result<Meta, StoreError> {
        let metadata = std::fs::metadata(self.path(key)?);
        let metadata = metadata.map_err(|error| reading(key, error))?;
        if !metadata.is_file() {
            return Err(StoreError::damaged(key, "what is in its place is no file"));
        }
        let modified = metadata.modified().ok();
        let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Meta {
            key: key.into(),
            length: metadata.len(),
            tag: None,
            modified: modified.map_or(0, |time| time.as_secs()),
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Answer, StoreError> {
        let mut keys = Vec::new();
        let mut pending = vec![self.root.clone()];
        while let Some(directory) = pending.pop() {
            for entry in std::fs::read_dir(&directory).map_err(io)? {
                let entry = entry.map_err(io)?;
                let path = entry.path();
                let key = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
                let Some(key) = key else { continue };
                let mut kind = entry.file_type().map_err(io)?;
                if kind.is_symlink() {
                    // A part of the store may lie elsewhere.
                    match behind_link(key, &path)? {
                        Some(found) => kind = found,
                        None => continue,
                    }
                }
                let is_near = key.split('/').count() < DEPTH_MAX;
                let is_on_the_way = prefix.starts_with(key) || key.starts_with(prefix);
                if kind.is_dir() && is_near && is_on_the_way {
                    pending.push(path);
                } else if kind.is_file() && is_wanted(key, prefix, after) {
                    keys.push(key.to_owned());
                }
            }
        }
        keys.sort_unstable();
        keys.truncate(limit);
        let mut found = Vec::with_capacity(keys.len());
        for key in &keys {
            match self.head(key) {
                Ok(meta) => found.push(meta),
                // What vanishes while it is listed is not there.
                Err(StoreError::NotFound | StoreError::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Answer::List(found))
    }

    /// Refuses what is asked while the directory is not there.
    fn check(&self) -> Result<(), StoreError> {
        let is_it = std::fs::metadata(&self.root).is_ok_and(|found| {
            let is_same = (found.dev(), found.ino()) == self.identity;
            let is_device = |key: &str| self.root.join(key).is_file();
            let is_ours = is_same || is_device(key::DEVICE) || is_device(key::DEVICE_COPY);
            found.is_dir() && is_ours
        });
        match is_it {
            true => Ok(()),
            false => {
                let root = self.root.display();
                Err(StoreError::Transient(format!("{root} is not there")))
            }
        }
    }

    fn answer(&self, request: &Request) -> Result<Answer, StoreError> {
        self.check()?;
        let answer = match request {
            Request::Put {
                key,
                body,
                condition,
            } => self.put(key, body, condition),
            Request::Get { key, range } => self.get(key, range.as_ref()),
            Request::Head { key } => self.head(key).map(Answer::Head),
            Request::List {
                prefix,
                after,
                limit,
            } => self.list(prefix, after.as_deref(), *limit),
            Request::Delete { key } => self.delete(key),
        };
        match answer {
            // It may have gone meanwhile.
            Err(StoreError::NotFound) => self.check().and(Err(StoreError::NotFound)),
            answer => answer,
        }
    }

    fn delete(&self, key: &str) -> Result<Answer, StoreError> {
        match std::fs::remove_file(self.path(key)?) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(io(error)),
            _ => Ok(Answer::Delete),
        }
    }
}

/// What a link leads to; `None` if it leads nowhere.
fn behind_link(key: &str, path: &Path) -> Result<Option<FileType>, StoreError> {
    match std::fs::metadata(path).map_err(|error| reading(key, error)) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(StoreError::NotFound | StoreError::Damaged { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_wanted(key: &str, prefix: &str, after: Option<&str>) -> bool {
    let is_temporary = key
        .rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with('.'));
    key.starts_with(prefix) && !is_temporary && after.is_none_or(|after| key > after)
}

/// An object's file, which is nothing but a file, and its length.
fn open_file(path: &Path, key: &str) -> Result<(File, u64), StoreError> {
    // With a pipe, this does not wait for the other end.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| reading(key, error))?;
    let metadata = file.metadata().map_err(|error| reading(key, error))?;
    match metadata.is_file() {
        true => Ok((file, metadata.len())),
        false => Err(StoreError::damaged(key, "what is in its place is no file")),
    }
}

/// Whether an object is the version `wanted`. What is no file or too large is none of ours.
fn is_version(path: &Path, wanted: &Tag) -> Result<bool, StoreError> {
    let (file, length) = match open_file(path, &path.display().to_string()) {
        Err(StoreError::Damaged { .. }) => return Ok(false),
        opened => opened?,
    };
    if length > OBJECT_MAX {
        return Ok(false);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).map_err(io)?;
    Ok(tag(&bytes) == *wanted)
}

fn put_file(
    root: &Path,
    temporary: &Path,
    path: &Path,
    body: &[u8],
    condition: &Condition,
) -> Result<(), StoreError> {
    let mut file = File::create(temporary).map_err(io)?;
    file.write_all(body).map_err(io)?;
    file.sync_all().map_err(io)?;
    if *condition == Condition::Absent {
        return match std::fs::hard_link(temporary, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(StoreError::Precondition),
            result => result.map_err(io),
        };
    }
    let directory = File::open(root).map_err(io)?;
    let locked = rustix::fs::flock(&directory, FlockOperation::LockExclusive);
    locked.map_err(|errno| io(errno.into()))?;
    if let Condition::Matches(wanted) = condition
        && !is_version(path, wanted)?
    {
        return Err(StoreError::Precondition);
    }
    std::fs::rename(temporary, path).map_err(|error| putting(path, error))
}

fn tag(bytes: &[u8]) -> Tag {
    Tag(format!("{:016x}", Hash::of(bytes).short()))
}

/// A failure of reading an object: what is no file is damage.
fn reading(key: &str, error: std::io::Error) -> StoreError {
    let is_wrong = matches!(
        error.kind(),
        ErrorKind::IsADirectory | ErrorKind::UnexpectedEof
    );
    // What `open` says of links that go round in a circle, and of sockets.
    let no_files = [Errno::LOOP, Errno::NXIO].map(Errno::raw_os_error);
    let number = error.raw_os_error();
    match is_wrong || number.is_some_and(|number| no_files.contains(&number)) {
        true => StoreError::damaged(key, error),
        false => io(error),
    }
}

/// A failure of putting an object: a directory in its place is not replaced.
fn putting(path: &Path, error: std::io::Error) -> StoreError {
    match path.is_dir() {
        true => StoreError::damaged(&path.display().to_string(), error),
        false => io(error),
    }
}

fn io(error: std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => StoreError::NotFound,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            StoreError::Denied(error.to_string())
        }
        ErrorKind::Interrupted | ErrorKind::TimedOut | ErrorKind::StaleNetworkFileHandle => {
            StoreError::Transient(error.to_string())
        }
        _ => StoreError::Other(error.to_string()),
    }
}

impl Store for DirectoryStore {
    fn run(&self, requests: &[Request]) -> Vec<Result<Answer, StoreError>> {
        let answers = requests.iter().map(|request| self.answer(request));
        answers.collect()
    }

    fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    fn name(&self) -> String {
        format!("file://{}", self.root.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(store: &DirectoryStore, condition: Condition) -> Result<Answer, StoreError> {
        let body = Arc::new(b"new".to_vec());
        let key = "current".to_owned();
        let request = Request::Put {
            key,
            body,
            condition,
        };
        store.run(&[request]).pop().expect("one answer")
    }

    /// Regression: to compare a version, whatever was in its place was read. A read of a pipe
    /// waited for ever, and with it the checkpoint, the export and commands that asked the daemon
    /// about the pool.
    #[test]
    fn what_is_no_file_is_another_version_and_is_replaced() {
        let home = tempfile::tempdir().expect("a directory");
        let root = home.path().join("store");
        let store = DirectoryStore::new(&root).expect("made");
        let path = root.join("current");
        let old = || Condition::Matches(tag(b"old"));
        let pipe = |path: &Path| {
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.expect("mkfifo").success());
        };
        let circle = |path: &Path| symlink("current", path).expect("made");
        let made: [&dyn Fn(&Path); 2] = [&pipe, &circle];
        for make in made {
            make(&path);
            let refused = put(&store, old());
            assert!(
                matches!(refused, Err(StoreError::Precondition)),
                "{refused:?}"
            );
            put(&store, Condition::None).expect("replaced");
            assert_eq!(std::fs::read(&path).expect("a file"), b"new");
            std::fs::remove_file(&path).expect("removable");
        }
        std::fs::create_dir(&path).expect("made");
        let refused = put(&store, Condition::None);
        assert!(
            matches!(refused, Err(StoreError::Damaged { .. })),
            "{refused:?}"
        );
    }
}
