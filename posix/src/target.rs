//! What a name leads to (format/3b 4).

use crate::kind::FileKind;
use cenote_base::ObjectId;
use cenote_ondisk::dir_entry::DirEntry;

/// What a name in a directory leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The object.
    pub object: ObjectId,
    /// Its kind; file systems of version 1 do not store it.
    pub kind: Option<FileKind>,
}

impl Target {
    /// From an entry's first integer.
    pub(crate) fn from_stored(stored: u64) -> Self {
        let entry = DirEntry::decode(stored);
        Self {
            object: entry.object,
            kind: FileKind::from_file_type(entry.file_type),
        }
    }

    /// A directory.
    pub(crate) fn directory(object: ObjectId) -> Self {
        Self {
            object,
            kind: Some(FileKind::Directory),
        }
    }
}
