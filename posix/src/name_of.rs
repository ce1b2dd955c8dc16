//! From an object back to its name in a large directory.
//!
//! Directories map names to objects, so the reverse lookup is a scan. A caller that needs one path
//! of a directory often needs many (differences between snapshots, lists of damaged files). So the
//! names of the last large directory are kept, by object.

use crate::error::PosixError;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::name_index::Names;
use crate::znode::Znode;
use cenote_base::ObjectId;
use std::collections::HashMap;
use std::sync::Arc;

/// Smaller directories are scanned each time.
const INDEXED_SIZE_MIN: u64 = 64;
/// Larger ones as well: the index would take more than 128 MiB.
const INDEXED_SIZE_MAX: u64 = 1 << 20;
/// Bytes of an entry of the index with an average name.
const ENTRY_SIZE: u64 = 128;

impl FileSystem {
    /// A name of `object` in `directory`.
    pub(crate) fn name_in(
        &self,
        directory: &Arc<Znode>,
        object: ObjectId,
    ) -> Result<Option<Vec<u8>>, PosixError> {
        if directory.kind() != FileKind::Directory {
            return Ok(None);
        }
        if let Some(names) = self.indexed(directory)? {
            return Ok(names.by_object.get(&object).map(|name| name.to_vec()));
        }
        // `.` and `..` are the first two and not meant.
        for entry in self.read_directory(directory, 0)?.skip(2) {
            let entry = entry?;
            if entry.target.object == object {
                return Ok(Some(entry.name));
            }
        }
        Ok(None)
    }

    /// The index of a directory that is worth one, if there is memory for it.
    fn indexed(&self, directory: &Arc<Znode>) -> Result<Option<Arc<Names>>, PosixError> {
        if self.set().is_writable() {
            return Ok(None);
        }
        let size = directory.attributes().size;
        if !(INDEXED_SIZE_MIN..=INDEXED_SIZE_MAX).contains(&size) {
            return Ok(None);
        }
        let slot = || self.name_index().last();
        if let Some(names) = slot()
            .as_ref()
            .filter(|names| names.directory == directory.id())
        {
            return Ok(Some(Arc::clone(names)));
        }
        // What was kept before makes room first.
        *slot() = None;
        let memory = self.set().cache().pipeline().memory();
        let Ok(lease) = memory.lease(size * ENTRY_SIZE) else {
            return Ok(None);
        };
        let mut by_object = HashMap::new();
        for entry in self.read_directory(directory, 0)?.skip(2) {
            let entry = entry?;
            if by_object.len() as u64 >= size {
                // The size is wrong, and with it what was leased.
                return Ok(None);
            }
            by_object
                .entry(entry.target.object)
                .or_insert_with(|| entry.name.into_boxed_slice());
        }
        let names = Arc::new(Names {
            directory: directory.id(),
            by_object,
            _lease: lease,
        });
        *slot() = Some(Arc::clone(&names));
        Ok(Some(names))
    }
}
