//! How long the kernel may cache names and attributes.

use super::DatasetFiles;
use cenote_fuse::Lifetime;
use cenote_posix::{CaseSensitivity, FileKind, Stat};
use std::time::Duration;

/// How long the space of a directory may be that of before its changes were synced.
const CHANGING_DIRECTORY: Lifetime = Lifetime::bounded(Duration::from_secs(1));

impl DatasetFiles {
    /// How long attributes hold.
    ///
    /// The space of a changed file is known only after it was synced. The kernel needs the
    /// attributes of directories for each path through them, so theirs may be a little older.
    pub(super) fn attr_lifetime(&self, stat: &Stat) -> Lifetime {
        match (stat.has_final_space, stat.kind) {
            (true, _) => self.lifetime(),
            (false, FileKind::Directory) => self.lifetime().min(CHANGING_DIRECTORY),
            (false, _) => Lifetime::NONE,
        }
    }

    /// How long the kernel may cache replies.
    pub(super) fn lifetime(&self) -> Lifetime {
        match self.trees.head().has_several_viewers() && self.is_writable() {
            true => Lifetime::NONE,
            false => Lifetime::FOREVER,
        }
    }

    /// How long a name may be taken to mean a file, or nothing.
    ///
    /// Where several spellings are one name, the kernel takes each for a name of its own: what it
    /// remembers of one is wrong once the file was made or removed by another.
    pub(super) fn name_lifetime(&self) -> Lifetime {
        let rules = self.trees.head().master().names;
        let is_exact = rules.case == CaseSensitivity::Sensitive && rules.normalization == 0;
        match is_exact || !self.is_writable() {
            true => self.lifetime(),
            false => Lifetime::NONE,
        }
    }
}
