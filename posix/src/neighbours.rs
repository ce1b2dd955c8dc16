//! Fetching small files beside those that are read: the reading part of the module `beside`.

use crate::beside::Plan;
use crate::file_system::FileSystem;
use crate::kind::FileKind;
use crate::znode::Znode;
use cenote_base::{ObjectId, settings};
use cenote_dmu::fetch_whole;
use std::sync::Arc;

/// Bytes of one batch, about.
const BATCH_BYTES: u64 = 4 << 20;
/// Larger files are read ahead by themselves.
const SIZE_MAX: u64 = 2 << 20;
/// The most entries of a directory that are considered.
const ENTRIES_MAX: usize = 100_000;
/// Fetched but unread data takes at most 1 / `CACHE_PART` of the cache,
const CACHE_PART: u64 = 8;
/// and never more than this.
const UNREAD_MAX: u64 = 32 << 20;

impl FileSystem {
    /// Takes note that a file is read from its beginning, and has those beside it fetched where
    /// that is worth while.
    pub fn read_beside(self: &Arc<Self>, file: &Znode) {
        let Some(object) = file.object() else { return };
        let is_off = settings::PREFETCH_DISABLE.is_on() || !object.is_read_ahead();
        if is_off || file.kind() != FileKind::Regular {
            return;
        }
        if !self.set().cache().pipeline().vdevs().is_in_store() {
            return;
        }
        let directory = file.attributes().parent;
        let jobs = self.beside.note(directory, file.id(), self.unread_max());
        self.begin_fetching(directory, jobs);
    }

    fn unread_max(&self) -> u64 {
        let limits = self.set().cache().limits();
        ((limits.stored + limits.decoded) / CACHE_PART).min(UNREAD_MAX)
    }

    fn begin_fetching(self: &Arc<Self>, directory: ObjectId, jobs: usize) {
        for _ in 0..jobs {
            let files = Arc::clone(self);
            let job = move || files.fetch_beside(directory);
            // A full queue means that enough is being read ahead already.
            if self.set().cache().workers().offer(job).is_err() {
                self.beside.take(directory, 0);
            }
        }
    }

    /// Fetches files of a directory until enough of them wait to be read.
    fn fetch_beside(self: &Arc<Self>, directory: ObjectId) {
        if let Some(first) = self.beside.first_of(directory) {
            let plan = Plan::new(self.files_of(directory), &first);
            let more = self.beside.begin(directory, plan);
            self.begin_fetching(directory, more);
        }
        while let Some(batch) = self.beside.take(directory, self.unread_max()) {
            let mut bytes = 0;
            let mut chosen = Vec::new();
            let mut rest = batch.len();
            for (place, (id, stat)) in batch.iter().zip(self.stats(&batch)).enumerate() {
                if bytes >= BATCH_BYTES {
                    rest = place;
                    break;
                }
                // An error is reported when the file itself is read.
                let Ok(stat) = stat else { continue };
                if stat.kind == FileKind::Regular && (1..=SIZE_MAX).contains(&stat.size) {
                    bytes += stat.size;
                    chosen.push((*id, stat.size));
                }
            }
            self.beside.fetching(directory, &chosen, &batch[rest..]);
            let objects = chosen
                .iter()
                .filter_map(|(id, _)| self.set().object(*id).ok());
            fetch_whole(&objects.collect::<Vec<_>>());
        }
    }

    fn files_of(&self, directory: ObjectId) -> Vec<(Vec<u8>, ObjectId)> {
        let Ok(znode) = self.znode(directory) else {
            return Vec::new();
        };
        let Ok(entries) = self.read_directory(&znode, 0) else {
            return Vec::new();
        };
        let entries = entries.take(ENTRIES_MAX).map_while(Result::ok);
        let is_file = |kind: &Option<FileKind>| kind.is_none_or(|kind| kind == FileKind::Regular);
        let files = entries.filter(|entry| is_file(&entry.target.kind));
        files
            .map(|entry| (entry.name, entry.target.object))
            .collect()
    }
}
