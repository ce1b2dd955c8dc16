//! Verifying each block of the pool once, in disk order.
//!
//! The walk itself is `dmu`'s ([`DiskOrder`]); this module does the checks during it. A block's
//! space is claimed when it is visited, so that a block in two places is not followed twice. The
//! results of its reads are recorded.
//!
//! A snapshot shares blocks with the one before it. Each block is visited from the first
//! dataset or snapshot that holds it: the one whose previous snapshot is older than the block.

use super::claims::{Claim, Claims};
use super::leaves::{Checked, Engine};
use super::report::{DamagedBlock, VerifyProgress, VerifyReport, Watcher};
use cenote_base::{Bookmark, Txg};
use cenote_dmu::traverse::{self, DiskOrder, Visit, Visitor};
use cenote_dmu::{Block, DmuError};
use cenote_io::{IoContext, IoError};
use cenote_ondisk::BlockPointer;

/// Everything a verification carries on with; what a state file holds.
#[derive(Debug)]
pub(crate) struct Walk {
    /// What is left to visit.
    pub(crate) order: DiskOrder,
    pub(crate) books: Books,
}

/// What is known of the blocks visited so far.
#[derive(Debug)]
pub(crate) struct Books {
    /// The names of datasets and snapshots, by root; empty for the pool's own metadata.
    pub(crate) names: Vec<String>,
    /// Leave out blocks of file and volume data.
    pub(crate) metadata_only: bool,
    pub(crate) claims: Claims,
    pub(crate) report: VerifyReport,
    pub(crate) bytes_total: u64,
}

/// Why a verification paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing is left.
    Finished,
    /// The watcher said stop.
    Cancelled,
    /// It is time to save.
    Checkpoint,
}

impl Walk {
    /// Continues until all is done, the watcher cancels, or `until` says that a state is due.
    pub(crate) fn run(
        &mut self,
        engine: &Engine,
        watcher: &dyn Watcher,
        until: &dyn Fn() -> bool,
    ) -> Pause {
        let mut inspection = Inspection {
            engine,
            watcher,
            until,
            books: &mut self.books,
            pause: Pause::Finished,
        };
        match self.order.run(&mut inspection) {
            traverse::Pause::Finished => Pause::Finished,
            traverse::Pause::Stopped => inspection.pause,
        }
    }
}

/// What goes along with the walk.
struct Inspection<'a> {
    engine: &'a Engine,
    watcher: &'a dyn Watcher,
    until: &'a dyn Fn() -> bool,
    books: &'a mut Books,
    /// Why the walk was stopped.
    pause: Pause,
}

impl Visitor for Inspection<'_> {
    type Reader = Engine;

    fn reader(&self) -> Engine {
        self.engine.clone()
    }

    fn wants(&mut self, visit: &Visit) -> bool {
        !(self.books.metadata_only && visit.is_file_data())
    }

    /// Claims the block's space. There is nothing to read if it is shared and was read before, or
    /// overlaps another, which is a problem.
    fn admit(&mut self, visit: &Visit) -> bool {
        if visit.pointer.is_embedded() {
            return true;
        }
        if visit.pointer.is_gang() {
            return self.claim_gang(visit);
        }
        let claim = self.books.claims.claim(&visit.pointer, None);
        self.books.enter(visit, claim)
    }

    /// Books what checking a block found; returns its contents if it leads to others.
    fn found(&mut self, visit: &Visit, checked: Checked) -> Option<Block> {
        let report = &mut self.books.report;
        report.bytes_allocated += visit.pointer.allocated_size();
        report.bad_copies += checked.bad_copies;
        report.problems += u64::from(checked.bad_copies > 0);
        match checked.result {
            Ok(contents) => {
                report.blocks += 1;
                report.bytes_physical += visit.pointer.physical_size();
                report.bytes_logical += visit.pointer.logical_size();
                report.blocks_without_key += u64::from(checked.without_key);
                contents
            }
            Err(problem) => {
                self.books.push_damaged(visit, problem);
                None
            }
        }
    }

    fn damaged(&mut self, visit: &Visit, error: DmuError) {
        // The place is reported separately.
        let problem = match error {
            DmuError::BadTree { problem, .. } => problem.to_string(),
            DmuError::Io(IoError::BadPointer { source, .. }) => source.to_string(),
            DmuError::Decode { object, source, .. } if object.0 != 0 => {
                format!("object {object}: {source}")
            }
            DmuError::Decode { source, .. } => source.to_string(),
            error => error.to_string(),
        };
        self.books.push_damaged(visit, problem);
    }

    fn goes_on(&mut self, root: Option<usize>) -> bool {
        self.progressed(root);
        if self.watcher.cancelled() {
            self.pause = Pause::Cancelled;
            return false;
        }
        if (self.until)() {
            self.pause = Pause::Checkpoint;
            return false;
        }
        true
    }

    fn progressed(&mut self, root: Option<usize>) {
        let report = &self.books.report;
        let name = root.and_then(|root| self.books.names.get(root));
        self.watcher.progress(&VerifyProgress {
            bytes_done: report.bytes_allocated,
            bytes_total: self.books.bytes_total,
            blocks: report.blocks,
            dataset: name.cloned().unwrap_or_default(),
            problems: report.problems,
        });
    }
}

impl Inspection<'_> {
    /// A gang block's header and members have allocations of their own.
    fn claim_gang(&mut self, visit: &Visit) -> bool {
        let pipeline = self.engine.pipeline();
        let parts =
            match pipeline.gang_parts(&visit.pointer, visit.bookmark, &IoContext::VERIFICATION) {
                Ok(parts) => parts,
                Err(error) => {
                    self.books.push_damaged(visit, error.to_string());
                    return false;
                }
            };
        let vdevs = pipeline.vdevs();
        // A header takes what any 512-byte block takes on its vdev (format/1d.6).
        let header_bytes = |pointer: &BlockPointer| vdevs.asize(pointer.dva(0).vdev(), 512, Txg(0));
        let claims = &mut self.books.claims;
        let mut claim = claims.claim(&visit.pointer, header_bytes(&visit.pointer));
        for part in &parts {
            let bytes = if part.is_gang() {
                header_bytes(part)
            } else {
                None
            };
            if claim == Claim::New {
                claim = claims.claim(part, bytes);
            }
        }
        self.books.enter(visit, claim)
    }
}

impl Books {
    /// Books what claiming a block met; whether it is to be read.
    fn enter(&mut self, visit: &Visit, claim: Claim) -> bool {
        match claim {
            Claim::New => return true,
            Claim::Shared => self.report.blocks_shared += 1,
            Claim::Overlap(dva) => {
                let place = self.place(visit);
                let problem = format!("{place}: {dva} is taken by another block");
                self.report.push_space(problem);
            }
            Claim::Nowhere(dva) => {
                let problem = format!("{dva} is not on a vdev that can hold blocks");
                self.push_damaged(visit, problem);
            }
        }
        false
    }

    fn place(&self, visit: &Visit) -> String {
        match self.names[visit.root].as_str() {
            "" => format!("block {} of the pool's metadata", visit.bookmark),
            name => format!("block {} of {name}", visit.bookmark),
        }
    }

    fn push_damaged(&mut self, visit: &Visit, problem: String) {
        let Bookmark {
            objset,
            object,
            level,
            block,
        } = visit.bookmark;
        self.report.push_damaged(DamagedBlock {
            dataset: self.names[visit.root].clone(),
            objset: objset.0,
            object: object.0,
            level: level.0,
            block: block.0,
            problem,
            path: None,
        });
    }
}
