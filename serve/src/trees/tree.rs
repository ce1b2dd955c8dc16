//! A head or a snapshot that is open for servers.

use super::handles::Handles;
use super::names::Names;
use super::tag::Tags;
use cenote_base::ObjectId;
use cenote_base::metrics::Count;
use cenote_engine::{DamageLog, OpenTree};
use cenote_http::TreeError;
use cenote_posix::{FileSystem, PosixError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Counters of what clients read of a tree's files.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Reads of files' contents.
    pub reads: Count,
    /// Bytes that these reads returned.
    pub sent: Count,
    /// Bytes of blocks that were read from devices for them, or ahead of them.
    pub from_devices: Arc<Count>,
}

impl Counts {
    /// Counts a read of this many bytes.
    pub fn add(&self, bytes: u64) {
        if bytes > 0 {
            self.reads.add(1);
            self.sent.add(bytes);
        }
    }
}

/// How a tree is opened.
pub(crate) struct TreeParts {
    pub dataset: ObjectId,
    /// The dataset's name, for messages.
    pub name: String,
    pub files: Arc<FileSystem>,
    /// A random number.
    pub salt: u64,
    /// Where its bytes are counted.
    pub counts: Arc<Counts>,
    pub damage: Arc<DamageLog>,
    /// Says whether the pool waits for its devices.
    pub is_suspended: Box<dyn Fn() -> bool + Send + Sync>,
}

/// A tree of files.
pub(crate) struct FileTree {
    pub dataset: ObjectId,
    pub name: String,
    pub files: Arc<FileSystem>,
    pub handles: Handles,
    pub counts: Arc<Counts>,
    pub(super) tags: Tags,
    pub(super) names: Names,
    damage: Arc<DamageLog>,
    is_suspended: Box<dyn Fn() -> bool + Send + Sync>,
    /// A change of the dataset waits until its files are closed.
    pub is_closing: AtomicBool,
}

impl OpenTree for FileTree {
    fn dataset(&self) -> ObjectId {
        self.dataset
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn is_lasting(&self) -> bool {
        self.is_lasting()
    }

    fn open_files(&self) -> usize {
        self.handles.count()
    }

    fn set_closing(&self, is_closing: bool) {
        self.is_closing.store(is_closing, Ordering::Release);
    }
}

impl fmt::Debug for FileTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("FileTree");
        shown.field("name", &self.name).finish_non_exhaustive()
    }
}

impl FileTree {
    pub fn new(parts: TreeParts) -> Self {
        let memory = Arc::clone(parts.files.set().cache().pipeline().memory());
        Self {
            dataset: parts.dataset,
            name: parts.name,
            files: parts.files,
            handles: Handles::default(),
            counts: parts.counts,
            tags: Tags::new(parts.salt),
            names: Names::new(memory),
            damage: parts.damage,
            is_suspended: parts.is_suspended,
            is_closing: AtomicBool::new(false),
        }
    }

    /// Whether it cannot change while it is open.
    pub fn is_lasting(&self) -> bool {
        !self.files.is_writable()
    }

    /// Fails while the pool is suspended or the tree is being closed.
    pub fn check(&self) -> Result<(), TreeError> {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(TreeError::Unavailable(format!(
                "{} is being changed",
                self.name
            )));
        }
        self.check_devices()
    }

    /// Fails while the pool is suspended.
    pub fn check_devices(&self) -> Result<(), TreeError> {
        match (self.is_suspended)() {
            true => Err(TreeError::Unavailable(
                "the pool waits for its devices".to_owned(),
            )),
            false => Ok(()),
        }
    }

    /// The error to send to the client. Damage is also added to the pool's error log.
    pub fn fault(&self, error: &PosixError) -> TreeError {
        if error.is_damage() {
            log::error!("{}: {error}", self.name);
            self.damage.report(error);
        }
        match (self.is_suspended)() {
            true => TreeError::Unavailable(error.to_string()),
            false => TreeError::Storage(error.to_string()),
        }
    }
}
