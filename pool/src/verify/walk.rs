//! Walking every block tree of the pool, each block once, in disk order.
//!
//! Two work lists. Blocks that lead to others (indirect blocks, blocks of dnodes) are a stack
//! taken from in batches: a batch is claimed, sorted, read by all workers at once, and what it
//! points to is pushed. Data blocks only have to be checked, so they gather until there are many
//! and are then read in the order of their addresses. Both lists are bounded: the stack because
//! it goes depth first, the data because it is flushed.
//!
//! A snapshot shares blocks with the one before it. Each block is visited from the first
//! dataset or snapshot that holds it: the one whose previous snapshot is older than the block.

use super::claims::{Claim, Claims};
use super::leaves::{self, Checked};
use super::report::{DamagedBlock, VerifyOptions, VerifyProgress, VerifyReport, Watcher};
use super::visit::Visit;
use crate::pool::Pool;
use cenote_base::{Bookmark, MemoryBudget, ObjectId, ObjsetId, Txg};
use cenote_io::{ObjsetKeys, Pipeline, Workers};
use cenote_ondisk::dnode::{DNODE_SIZE, DNODE_SLOTS_MAX};
use cenote_ondisk::{BlockPointer, Dnode, ObjectType, Objset};
use std::sync::Arc;

/// An object set to walk.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    /// The dataset's or snapshot's name; empty for the pool's own metadata.
    pub(crate) name: String,
    pub(crate) objset: ObjsetId,
    pub(crate) pointer: BlockPointer,
    /// Blocks not born after this txg belong to an older snapshot.
    pub(crate) since: Txg,
    pub(crate) keys: Option<Arc<ObjsetKeys>>,
}

/// Blocks of the stack read at once. An indirect block has at most 1024 children, so one batch
/// adds at most 64 Ki visits.
const BATCH: usize = 64;
/// Data blocks that gather before they are read: at 128 KiB each, 4 GiB worth of disk.
pub(crate) const LEAVES_MAX: usize = 32 * 1024;

/// Everything a walk carries on with; what a state file holds.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) roots: Vec<Root>,
    /// Roots already begun.
    pub(crate) begun: usize,
    /// Leave out blocks of file and volume data.
    pub(crate) metadata_only: bool,
    pub(crate) stack: Vec<Visit>,
    pub(crate) leaves: Vec<Visit>,
    pub(crate) claims: Claims,
    pub(crate) report: VerifyReport,
    pub(crate) bytes_total: u64,
}

/// Why a walk paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Nothing is left.
    Finished,
    /// The watcher said stop.
    Cancelled,
    /// It is time to save.
    Checkpoint,
}

/// What reads and decodes.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) workers: Arc<Workers>,
    /// What the stored bytes of groups that are being checked may take.
    pub(crate) buffers: Arc<MemoryBudget>,
    pub(crate) options: VerifyOptions,
}

impl Engine {
    /// An engine over `pool`'s pipeline.
    pub(crate) fn new(pool: &Pool, options: VerifyOptions) -> Self {
        let pipeline = Arc::clone(pool.cache().pipeline());
        let buffers = Arc::clone(&pool.options().buffers.scans);
        Self {
            pipeline,
            workers: Arc::clone(pool.cache().workers()),
            buffers,
            options,
        }
    }
}

impl Walk {
    /// Goes on until all is done, the watcher cancels, or `until` says that a state is due.
    pub(crate) fn run(
        &mut self,
        engine: &Engine,
        watcher: &dyn Watcher,
        until: &dyn Fn() -> bool,
    ) -> Pause {
        loop {
            self.tell(watcher);
            if watcher.cancelled() {
                return Pause::Cancelled;
            }
            if until() {
                return Pause::Checkpoint;
            }
            if self.leaves.len() >= LEAVES_MAX {
                self.flush(engine, watcher);
            } else if !self.stack.is_empty() {
                self.step(engine);
            } else if self.begun < self.roots.len() {
                self.begin_root(engine);
            } else if !self.leaves.is_empty() {
                self.flush(engine, watcher);
            } else {
                return Pause::Finished;
            }
        }
    }

    fn tell(&self, watcher: &dyn Watcher) {
        let current = self.roots.get(self.begun.saturating_sub(1));
        watcher.progress(&VerifyProgress {
            bytes_done: self.report.bytes_allocated,
            bytes_total: self.bytes_total,
            blocks: self.report.blocks,
            dataset: current.map(|root| root.name.clone()).unwrap_or_default(),
            problems: self.report.problems,
        });
    }

    fn begin_root(&mut self, engine: &Engine) {
        let index = self.begun;
        self.begun += 1;
        let root = self.roots[index].clone();
        if root.pointer.is_hole() || root.pointer.accounting_birth() <= root.since {
            return;
        }
        let bookmark = Bookmark {
            objset: root.objset,
            ..Bookmark::default()
        };
        let (pointer, fanout_shift) = (root.pointer, 0);
        let visit = Visit {
            pointer,
            bookmark,
            root: index,
            fanout_shift,
            data_size: 0,
        };
        let Some(visit) = self.claim(engine, visit) else {
            return;
        };
        let checked = leaves::check(engine, &visit, root.keys.as_deref(), true);
        let Some(block) = self.judge(&visit, checked) else {
            return;
        };
        match Objset::decode(&block) {
            Ok(objset) => self.push_objset(&root, index, &objset),
            Err(error) => self.damaged(&visit, error.to_string()),
        }
    }

    fn push_objset(&mut self, root: &Root, index: usize, objset: &Objset) {
        let special = [&objset.user_used, &objset.group_used, &objset.project_used];
        let ids = [u64::MAX, u64::MAX - 1, u64::MAX - 2];
        for (dnode, id) in special.into_iter().zip(ids) {
            if let Some(dnode) = dnode {
                self.push_dnode(root.objset, ObjectId(id), index, dnode);
            }
        }
        self.push_dnode(root.objset, ObjectId(0), index, &objset.meta_dnode);
    }

    fn push_dnode(&mut self, objset: ObjsetId, object: ObjectId, root: usize, dnode: &Dnode) {
        for visit in Visit::of_dnode(objset, object, root, dnode) {
            self.push(visit);
        }
    }

    /// Files a block under the list that it belongs to, if it is this root's to visit.
    fn push(&mut self, visit: Visit) {
        let pointer = &visit.pointer;
        let old = pointer.accounting_birth() <= self.roots[visit.root].since;
        if pointer.is_hole() || pointer.is_redacted() || old {
            return;
        }
        let is_data = visit.bookmark.level.0 == 0 && !pointer.object_type().is_metadata();
        if self.metadata_only && is_data {
            return;
        }
        let leads_on = visit.bookmark.level.0 > 0 || visit.bookmark.object.0 == 0;
        if leads_on {
            self.stack.push(visit)
        } else {
            self.leaves.push(visit)
        }
    }

    fn step(&mut self, engine: &Engine) {
        let from = self.stack.len().saturating_sub(BATCH);
        let mut batch = self.stack.split_off(from);
        batch.sort_by_key(Visit::disk_order);
        let claimed: Vec<Visit> = batch
            .into_iter()
            .filter_map(|visit| self.claim(engine, visit))
            .collect();
        let keys: Vec<_> = claimed
            .iter()
            .map(|v| self.roots[v.root].keys.clone())
            .collect();
        let shared = engine.clone();
        let items: Vec<_> = claimed.into_iter().zip(keys).collect();
        let results = engine.workers.map(items, move |(visit, keys)| {
            let checked = leaves::check(&shared, &visit, keys.as_deref(), true);
            (visit, checked)
        });
        for (visit, checked) in results {
            let Some(block) = self.judge(&visit, checked) else {
                continue;
            };
            if visit.bookmark.level.0 > 0 {
                for child in visit.children(&block) {
                    self.push(child);
                }
            } else {
                self.push_dnodes(&visit, &block);
            }
        }
    }

    /// The objects in a block of the meta-dnode.
    fn push_dnodes(&mut self, visit: &Visit, block: &[u8]) {
        if visit.pointer.object_type() != ObjectType::DNODE {
            return self.damaged(visit, "the meta-dnode has a block of another type".into());
        }
        let per_block = (block.len() / DNODE_SIZE) as u64;
        let mut slot = 0;
        while slot < block.len() / DNODE_SIZE {
            let bytes = &block[slot * DNODE_SIZE..];
            let id = visit
                .bookmark
                .block
                .0
                .saturating_mul(per_block)
                .saturating_add(slot as u64);
            match Dnode::decode(bytes) {
                Ok(None) => slot += 1,
                Ok(Some(dnode)) => {
                    slot += dnode.slots();
                    let bookmark = visit.bookmark;
                    self.push_dnode(bookmark.objset, ObjectId(id), visit.root, &dnode);
                }
                Err(error) => {
                    self.damaged(visit, format!("object {id}: {error}"));
                    slot += (usize::from(bytes[12]) + 1).min(DNODE_SLOTS_MAX);
                }
            }
        }
    }

    /// Reads the gathered data blocks in disk order.
    fn flush(&mut self, engine: &Engine, watcher: &dyn Watcher) {
        let mut visits = std::mem::take(&mut self.leaves);
        visits.sort_by_key(Visit::disk_order);
        let mut claimed = Vec::with_capacity(visits.len());
        for visit in visits {
            claimed.extend(self.claim(engine, visit));
        }
        for round in leaves::rounds(claimed) {
            let with_keys = |group: Vec<Visit>| {
                let keys = group
                    .iter()
                    .map(|v| self.roots[v.root].keys.clone())
                    .collect();
                (group, keys)
            };
            let items: Vec<(Vec<Visit>, Vec<_>)> = round.into_iter().map(with_keys).collect();
            let shared = engine.clone();
            let results = engine.workers.map(items, move |(group, keys)| {
                let checked = leaves::check_group(&shared, &group, &keys);
                (group, checked)
            });
            for (group, checked) in results {
                for (visit, checked) in group.iter().zip(checked) {
                    self.judge(visit, checked);
                }
            }
            self.tell(watcher);
        }
    }

    /// Claims a block's space. `None` if there is nothing to read: embedded blocks are checked
    /// at once, shared ones were read before, and what overlaps is a problem.
    fn claim(&mut self, engine: &Engine, visit: Visit) -> Option<Visit> {
        if let Err(error) = visit.pointer.check() {
            self.damaged(&visit, error.to_string());
            return None;
        }
        if let Some(problem) = visit.misplaced() {
            self.damaged(&visit, problem.to_string());
            return None;
        }
        if visit.pointer.is_embedded() {
            return Some(visit);
        }
        if visit.pointer.is_gang() {
            return self.claim_gang(engine, visit);
        }
        let claim = self.claims.claim(&visit.pointer, None);
        self.settle(visit, claim)
    }

    /// A gang block's header and members have allocations of their own.
    fn claim_gang(&mut self, engine: &Engine, visit: Visit) -> Option<Visit> {
        let parts = match engine.pipeline.gang_parts(&visit.pointer, visit.bookmark) {
            Ok(parts) => parts,
            Err(error) => {
                self.damaged(&visit, error.to_string());
                return None;
            }
        };
        let vdevs = engine.pipeline.vdevs();
        // A header takes what any 512-byte block takes on its vdev (format/1d.6).
        let header_bytes = |pointer: &BlockPointer| vdevs.asize(pointer.dva(0).vdev(), 512, Txg(0));
        let mut claim = self
            .claims
            .claim(&visit.pointer, header_bytes(&visit.pointer));
        for part in &parts {
            let bytes = if part.is_gang() {
                header_bytes(part)
            } else {
                None
            };
            if claim == Claim::New {
                claim = self.claims.claim(part, bytes);
            }
        }
        self.settle(visit, claim)
    }

    fn settle(&mut self, visit: Visit, claim: Claim) -> Option<Visit> {
        match claim {
            Claim::New => Some(visit),
            Claim::Shared => {
                self.report.blocks_shared += 1;
                None
            }
            Claim::Overlap(dva) => {
                let place = self.place(&visit);
                self.report
                    .push_space(format!("{place}: {dva} is taken by another block"));
                None
            }
            Claim::Nowhere(dva) => {
                self.damaged(
                    &visit,
                    format!("{dva} is not on a vdev that can hold blocks"),
                );
                None
            }
        }
    }

    fn place(&self, visit: &Visit) -> String {
        match self.roots[visit.root].name.as_str() {
            "" => format!("block {} of the pool's metadata", visit.bookmark),
            name => format!("block {} of {name}", visit.bookmark),
        }
    }

    /// Books what checking a block found; returns its contents if it leads to others.
    fn judge(&mut self, visit: &Visit, checked: Checked) -> Option<Vec<u8>> {
        self.report.bytes_allocated += visit.pointer.allocated_size();
        self.report.bad_copies += checked.bad_copies;
        self.report.problems += u64::from(checked.bad_copies > 0);
        match checked.result {
            Ok(contents) => {
                self.report.blocks += 1;
                self.report.bytes_physical += visit.pointer.physical_size();
                self.report.bytes_logical += visit.pointer.logical_size();
                self.report.blocks_without_key += u64::from(checked.without_key);
                contents
            }
            Err(problem) => {
                self.damaged(visit, problem);
                None
            }
        }
    }

    fn damaged(&mut self, visit: &Visit, problem: String) {
        let Bookmark {
            objset,
            object,
            level,
            block,
        } = visit.bookmark;
        self.report.push_damaged(DamagedBlock {
            dataset: self.roots[visit.root].name.clone(),
            objset: objset.0,
            object: object.0,
            level: level.0,
            block: block.0,
            problem,
            path: None,
        });
    }
}
