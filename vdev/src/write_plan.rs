//! Many blocks on their way to the devices: neighbours joined, failures gathered.
//!
//! The fragments of all blocks are sorted by leaf and place and joined into *chunks* of about a
//! megabyte, because a request costs a device as much as some tens of KiB. Chunks are independent
//! of each other, so a caller with several threads sends several at once. The results are computed
//! when all chunks were sent. A plan has repairs only, or none.

use crate::error::{LeafFailures, LeafProblem, VdevError};
use crate::leaf::Place;
use crate::leaf_write::Urgency;
use crate::queue::IoClass;
use crate::shape::Shape;
use crate::write::{Bytes, Fragment, PreparedWrite, VdevWrite};
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Txg, settings};
use cenote_device::Purpose;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes on their way.
#[derive(Debug)]
pub struct WritePlan {
    writes: Vec<PreparedWrite>,
    /// Each write's first cell in `holds`.
    first_cells: Vec<usize>,
    /// The fragments of all writes by leaf and place, each with its write's number.
    fragments: Vec<(usize, Fragment)>,
    chunks: Vec<Range<usize>>,
    /// Whether a cell was written.
    holds: Vec<AtomicBool>,
    /// Chunks that failed, and why.
    failed: Mutex<Vec<(usize, LeafProblem)>, ranks::WriteFailures>,
    /// The writes name their leaves.
    is_repair: bool,
}

impl WritePlan {
    /// How many chunks there are to send.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// What one of the writes was asked for.
    pub fn write(&self, index: usize) -> &VdevWrite {
        &self.writes[index].write
    }

    /// Whether two chunks go to the same leaf, which takes them one after the other.
    pub fn same_leaf(&self, one: usize, other: usize) -> bool {
        let leaf = |chunk: usize| self.chunk(chunk)[0].1.leaf;
        leaf(one) == leaf(other)
    }

    /// Whether a write is on enough leaves: a repair on all that it names.
    fn is_safe(&self, index: usize) -> bool {
        if self.is_repair {
            let failed = self.failed.lock();
            let mut failed = failed.iter().flat_map(|(chunk, _)| self.chunk(*chunk));
            return self.writes[index].absent.is_empty() && !failed.any(|(of, _)| *of == index);
        }
        let first = self.first_cells[index];
        self.writes[index].is_safe(|cell| self.holds[first + cell].load(Ordering::Acquire))
    }

    fn chunk(&self, chunk: usize) -> &[(usize, Fragment)] {
        &self.fragments[self.chunks[chunk].clone()]
    }
}

fn end_of(fragment: &Fragment) -> u64 {
    fragment.place.offset + fragment.length as u64
}

/// The fragments of the first chunk in a sorted list, of which `are_alike` says which writes may
/// go together to which leaf.
fn chunk_length(
    fragments: &[(usize, Fragment)],
    are_alike: &dyn Fn(usize, [usize; 2]) -> bool,
) -> usize {
    let (first_write, first) = fragments[0];
    let chunk_max = settings::AGGREGATION_LIMIT.get();
    let mut end = end_of(&first);
    let mut count = 1;
    for (write, fragment) in &fragments[1..] {
        let joins = fragment.leaf == first.leaf
            && fragment.place.in_scratch == first.place.in_scratch
            && fragment.place.offset == end
            && are_alike(first.leaf, [first_write, *write])
            && end_of(fragment) - first.place.offset <= chunk_max;
        if !joins {
            break;
        }
        end = end_of(fragment);
        count += 1;
    }
    count
}

/// Cuts a sorted list into chunks; filler is kept only between other fragments.
fn cut(
    fragments: &[(usize, Fragment)],
    are_alike: &dyn Fn(usize, [usize; 2]) -> bool,
) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < fragments.len() {
        let end = at + chunk_length(&fragments[at..], are_alike);
        let is_needed = |(_, fragment): &(usize, Fragment)| fragment.bytes != Bytes::Filler;
        let first = fragments[at..end].iter().position(is_needed);
        let last = fragments[at..end].iter().rposition(is_needed);
        if let (Some(first), Some(last)) = (first, last) {
            chunks.push(at + first..at + last + 1);
        }
        at = end;
    }
    chunks
}

/// A chunk that did not arrive until it is said that it has. A thread that panics on the way says
/// nothing, and a leaf that misses something must be known to.
struct Unsent<'a> {
    plan: &'a WritePlan,
    chunk: usize,
    problem: Option<LeafProblem>,
}

impl Drop for Unsent<'_> {
    fn drop(&mut self) {
        if let Some(problem) = self.problem.take() {
            self.plan.failed.lock().push((self.chunk, problem));
        }
    }
}

impl Shape {
    /// Joins the fragments of all these writes, and notes what absent leaves miss: the results may
    /// be asked for when their group has recorded that already.
    pub fn plan_writes(&self, writes: Vec<PreparedWrite>) -> WritePlan {
        let mut first_cells = Vec::with_capacity(writes.len());
        let mut fragments = Vec::with_capacity(writes.len());
        let mut cells = 0;
        let is_repair = writes.first().is_some_and(|first| first.write.is_repair());
        for (index, write) in writes.iter().enumerate() {
            assert_eq!(
                write.write.is_repair(),
                is_repair,
                "repairs go by themselves"
            );
            for leaf in write.absent.iter().filter(|_| !is_repair) {
                self.tree.leaves[*leaf].missed.note(write.write.txg);
            }
            first_cells.push(cells);
            cells += write.cells();
            fragments.extend(write.fragments.iter().map(|fragment| (index, *fragment)));
        }
        fragments.sort_unstable_by_key(|(_, fragment)| {
            let place = fragment.place;
            (fragment.leaf, place.in_scratch, place.offset)
        });
        // Where metadata is kept apart from contents, no request has both.
        let are_alike = |leaf: usize, [one, other]: [usize; 2]| {
            let [one, other] = [one, other].map(|write| &writes[write].write);
            let goes_with = one.purpose == other.purpose || !self.tree.leaves[leaf].is_in_store();
            goes_with && one.class == other.class
        };
        let chunks = cut(&fragments, &are_alike);
        let mut holds = Vec::new();
        holds.resize_with(cells, || AtomicBool::new(false));
        WritePlan {
            writes,
            first_cells,
            fragments,
            chunks,
            holds,
            failed: Mutex::default(),
            is_repair,
        }
    }

    /// Sends one chunk to its leaf. Each chunk must be sent once.
    pub fn write_chunk(&self, plan: &WritePlan, chunk: usize) {
        let mut unsent = Unsent {
            plan,
            chunk,
            problem: Some(LeafProblem::LostWrites),
        };
        let fragments = plan.chunk(chunk);
        let (first_write, first) = &fragments[0];
        let mut slices = Vec::with_capacity(fragments.len());
        for (write, fragment) in fragments {
            plan.writes[*write].slices(fragment, &mut slices);
        }
        let &VdevWrite {
            txg,
            purpose,
            class,
            ..
        } = plan.write(*first_write);
        let written = match plan.is_repair {
            true => self.tree.leaves[first.leaf].repair(first.place, &slices, class, purpose),
            false => {
                let load = match class {
                    IoClass::AsyncWrite => self.load.percent(),
                    _ => 0,
                };
                let urgency = Urgency {
                    class,
                    load,
                    is_joined: fragments.len() > 1,
                };
                self.write_leaf(first.leaf, first.place, &slices, txg, (urgency, purpose))
            }
        };
        unsent.problem = written.err();
        if unsent.problem.is_some() {
            return;
        }
        for (write, fragment) in fragments {
            let is_data = matches!(fragment.bytes, Bytes::Data(_) | Bytes::Parity(_));
            if is_data {
                let cell = plan.first_cells[*write] + fragment.cell;
                plan.holds[cell].store(true, Ordering::Release);
            }
        }
    }

    /// Writes to a leaf, once more if it fails; gives the leaf up if it always fails.
    fn write_leaf(
        &self,
        leaf: usize,
        place: Place,
        slices: &[IoSlice<'_>],
        txg: Txg,
        (urgency, purpose): (Urgency, Purpose),
    ) -> Result<(), LeafProblem> {
        let leaf_written = &self.tree.leaves[leaf];
        let result = leaf_written
            .write(place, slices, txg, urgency, purpose)
            .or_else(|_| leaf_written.write(place, slices, txg, urgency, purpose));
        if result.is_err() && leaf_written.written.is_hopeless() {
            self.give_up(leaf);
        }
        result
    }

    /// Says which writes are on enough leaves to be safe, in the order of the plan. Only of those
    /// did a leaf that failed miss its part: the others are nowhere yet.
    pub fn finish_writes(&self, plan: &WritePlan) -> Vec<Result<(), VdevError>> {
        let safe: Vec<bool> = (0..plan.writes.len())
            .map(|index| plan.is_safe(index))
            .collect();
        self.note_missed(plan, &safe);
        let mut results = Vec::with_capacity(plan.writes.len());
        for (index, write) in plan.writes.iter().enumerate() {
            // A leaf that took no repair counts that itself: the vdevs above it lack nothing.
            if safe[index] || !plan.is_repair {
                self.count_write(write, safe[index]);
            }
            results.push(match safe[index] {
                true => Ok(()),
                false => Err(self.unwritten(write, self.failures_of(plan, index))),
            });
        }
        results
    }

    /// Notes what failed chunks of writes that are safe should have brought.
    fn note_missed(&self, plan: &WritePlan, safe: &[bool]) {
        if plan.is_repair {
            return;
        }
        let failed = plan.failed.lock();
        for (chunk, _) in failed.iter() {
            for (write, fragment) in plan.chunk(*chunk) {
                if safe[*write] {
                    let txg = plan.write(*write).txg;
                    self.tree.leaves[fragment.leaf].missed.note(txg);
                }
            }
        }
    }

    /// The failures of the leaves in a write's chunks; each problem is reported once.
    fn failures_of(&self, plan: &WritePlan, write: usize) -> LeafFailures {
        let mut failures = LeafFailures::default();
        let mut failed = plan.failed.lock();
        let mut index = 0;
        while index < failed.len() {
            let chunk = plan.chunk(failed[index].0);
            if chunk.iter().any(|(of, _)| *of == write) {
                let leaf = chunk[0].1.leaf;
                let (_, problem) = failed.swap_remove(index);
                self.note(&mut failures, leaf, problem);
            } else {
                index += 1;
            }
        }
        failures
    }

    fn count_write(&self, write: &PreparedWrite, is_safe: bool) {
        let top = self.top(write.write.dva.vdev()).map(|top| top.node);
        for node in top.into_iter().chain([0]) {
            let Some(counters) = &self.tree.nodes[node].counters else {
                continue;
            };
            counters.write_operations.add(1);
            match is_safe {
                true => counters.write_bytes.add(write.write.data.len() as u64),
                false => counters.write_errors.add(1),
            }
        }
    }
}
