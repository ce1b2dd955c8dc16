//! Reading damaged blocks again: `zpool scrub -e`.
//!
//! There are few of them, so this needs no turns: they are read and repaired one after the other.
//! Blocks that are good again or do not exist any more are removed from the list.

use super::model::ScanError;
use crate::pool::Pool;
use crate::sync::Actor;
use crate::view::Hold;
use cenote_base::{BlockId, Bookmark, Level, ObjsetId};
use cenote_dmu::ObjectSet;
use cenote_dmu::zap::ZapValue;
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{Dataset, DslError, ErrorEntry, pointer_in};
use cenote_io::{IoClass, IoContext, MendScope, ReadFrom};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::object_directory::{OBJECT_DIRECTORY, keys};
use cenote_ondisk::scan::{ErrorScrub, ScanFunction, ScanState};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The words of an error scrub that has ended.
const ERROR_SCRUB: u64 = 3;
const FINISHED: u64 = 2;

/// Stores the result.
struct Note {
    scrub: ErrorScrub,
    whole: BTreeSet<ErrorEntry>,
}

impl SyncTask for Note {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        context.remove_errors(&self.whole)?;
        self.scrub.end_time = context.seconds();
        let value = ZapValue::from_u64s(&self.scrub.to_words());
        let directory = context.mos().zap(OBJECT_DIRECTORY)?;
        Ok(directory.update(context.tx, keys::ERROR_SCRUB.as_bytes(), &value)?)
    }
}

impl Pool {
    /// Reads the known damaged blocks again, and repairs them if possible. The command is recorded
    /// in the pool's history.
    ///
    /// # Errors
    /// If a scan is under way, or the list cannot be read.
    pub fn scrub_errors(&self, (actor, command): (&Actor, &str)) -> Result<(), ScanError> {
        let syncer = Arc::clone(self.writer()?);
        let scan = self.dsl().scan().ok().flatten();
        let scan = scan.filter(|scan| scan.state == ScanState::Scanning);
        match scan.map(|scan| scan.function) {
            None => {}
            Some(ScanFunction::Resilver) => return Err(ScanError::Resilvering),
            Some(_) => return Err(ScanError::Scrubbing),
        }
        // What was noted just now is to be in it.
        self.sync()?;
        let start_time = self.env().wall_clock().as_secs();
        let log = self.error_log().map_err(ScanError::Log)?;
        let hold = Hold::new(&syncer.space);
        let io = IoContext::COMMAND.with_class(IoClass::Scrub);
        let is_whole = |entry: &&ErrorEntry| self.is_whole(entry, &io);
        let whole: BTreeSet<ErrorEntry> = log.iter().filter(is_whole).copied().collect();
        drop(hold);
        let count = log.len() as u64;
        let scrub = ErrorScrub {
            function: ERROR_SCRUB,
            state: FINISHED,
            cursor: 0,
            start_time,
            end_time: 0,
            to_examine: count,
            examined: count,
            errors: count - whole.len() as u64,
            paused_time: 0,
        };
        self.notes().forget();
        self.run_command(Note { scrub, whole }, actor, command)?;
        Ok(())
    }

    /// Whether a block on record is whole wherever it stands.
    fn is_whole(&self, entry: &ErrorEntry, io: &IoContext) -> bool {
        let pointers: Vec<(ObjsetId, BlockPointer)> = match entry.objset == ObjsetId::MOS {
            true => {
                let pointer = self.metadata_pointer(entry, io);
                pointer
                    .map(|pointer| (ObjsetId::MOS, pointer))
                    .into_iter()
                    .collect()
            }
            false => {
                let pointer = |dataset: &Dataset| {
                    let pointer = pointer_in(dataset, entry)?;
                    Some((ObjsetId(dataset.id().0), pointer))
                };
                let datasets = self.dsl().for_io(io).datasets_with(entry);
                datasets.iter().filter_map(pointer).collect()
            }
        };
        pointers
            .iter()
            .all(|(objset, pointer)| self.is_mended(*objset, pointer, entry, io))
    }

    fn metadata_pointer(&self, entry: &ErrorEntry, io: &IoContext) -> Option<BlockPointer> {
        let cache = self.cache().for_io(io);
        let root = self.uberblock().root;
        let mos = ObjectSet::open(cache, ObjsetId::MOS, root, None).ok()?;
        let object = mos.object(entry.object).ok()?;
        let level = u8::try_from(entry.level).ok()?;
        object.block_pointer(level, BlockId(entry.block)).ok()
    }

    fn is_mended(
        &self,
        objset: ObjsetId,
        pointer: &BlockPointer,
        entry: &ErrorEntry,
        io: &IoContext,
    ) -> bool {
        let Ok(level) = u8::try_from(entry.level) else {
            return false;
        };
        let bookmark = Bookmark {
            objset,
            object: entry.object,
            level: Level(level),
            block: BlockId(entry.block),
        };
        let io = io.read_from(ReadFrom::Medium);
        let mended = self
            .cache()
            .pipeline()
            .mend(pointer, bookmark, MendScope::All, &io);
        mended.is_ok_and(|mended| mended.lost == 0)
    }
}
