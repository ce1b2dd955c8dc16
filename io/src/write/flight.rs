//! A batch of blocks on its way to the devices.

use super::WriteState;
use crate::error::IoError;
use crate::pipeline::Pipeline;
use crate::suspension::Attempt;
use cenote_base::Bookmark;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_ondisk::BlockPointer;
use cenote_vdev::{PreparedWrite, Shape, VdevError, VdevWrite, WritePlan};
use std::sync::Arc;

/// Stored bytes of a flight that its own thread sends, as far as they go to one leaf.
const OWN_BYTES_MAX: usize = 64 << 10;

/// Counts down the chunks that are not sent yet.
#[derive(Debug)]
struct Countdown {
    left: Mutex<usize, ranks::WriteCountdown>,
    zero: Condvar,
}

impl Countdown {
    fn one_less(&self) {
        let mut left = self.left.lock();
        *left -= 1;
        if *left == 0 {
            self.zero.notify_all();
        }
    }

    /// One of them, which is over when the answer is dropped: also if its thread panics.
    fn part(self: &Arc<Self>) -> Part {
        Part(Arc::clone(self))
    }

    fn wait(&self) {
        let left = self.left.lock();
        let waited = self.zero.wait_while(left, |left| *left > 0);
        drop(waited);
    }
}

/// A part of what is counted down.
struct Part(Arc<Countdown>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.one_less();
    }
}

/// Writes with the devices, or on their way there.
#[derive(Debug)]
struct Sent {
    /// The vdevs as they were when this was sent.
    vdevs: Arc<Shape>,
    plan: Arc<WritePlan>,
    /// The block of each write in the plan.
    blocks: Vec<usize>,
    countdown: Arc<Countdown>,
}

impl Sent {
    /// Sends off the writes, each of which belongs to a block by its number; with those that are
    /// refused before they leave.
    fn send(
        vdevs: Arc<Shape>,
        state: &WriteState,
        writes: Vec<(usize, VdevWrite)>,
        is_awaited: bool,
    ) -> (Self, Vec<(usize, VdevError)>) {
        let bytes: usize = writes.iter().map(|(_, write)| write.data.len()).sum();
        let (mut blocks, mut refused, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
        for (block, result) in prepare(&vdevs, state, writes) {
            match result {
                Ok(write) => {
                    blocks.push(block);
                    prepared.push(write);
                }
                Err(error) => refused.push((block, error)),
            }
        }
        let plan = Arc::new(vdevs.plan_writes(prepared));
        let chunks = plan.chunks();
        let countdown = Arc::new(Countdown {
            left: Mutex::new(chunks),
            zero: Condvar::new(),
        });
        // Writing a few KiB here is faster than waking another thread.
        let is_small = bytes <= OWN_BYTES_MAX;
        let is_own =
            |chunk: &usize| is_awaited && (chunks == 1 || is_small && plan.same_leaf(*chunk, 0));
        let (own, others): (Vec<usize>, Vec<usize>) = (0..chunks).partition(is_own);
        for chunk in others {
            let (vdevs, plan) = (Arc::clone(&vdevs), Arc::clone(&plan));
            let part = countdown.part();
            state.writers().run(move || {
                let _part = part;
                vdevs.write_chunk(&plan, chunk);
            });
        }
        for chunk in own {
            let _part = countdown.part();
            vdevs.write_chunk(&plan, chunk);
        }
        let sent = Self {
            vdevs,
            plan,
            blocks,
            countdown,
        };
        (sent, refused)
    }

    /// Returns what did not arrive, once all are through.
    fn land(&self) -> Vec<(usize, VdevError)> {
        let results = self.blocks.iter().zip(self.vdevs.finish_writes(&self.plan));
        results
            .filter_map(|(block, result)| Some((*block, result.err()?)))
            .collect()
    }

    /// All the writes, to be sent again.
    fn again(&self) -> Vec<(usize, VdevWrite)> {
        let blocks = self.blocks.iter().enumerate();
        blocks
            .map(|(index, block)| (*block, self.plan.write(index).clone()))
            .collect()
    }
}

/// Sends writes once and waits until they have landed, without retries: a commit of an intent log
/// can use its group instead. Returns those that did not arrive.
pub(super) fn send_now(
    pipeline: &Pipeline,
    writes: Vec<(usize, VdevWrite)>,
) -> Vec<(usize, VdevError)> {
    let (sent, refused) = Sent::send(pipeline.vdevs(), &pipeline.writing, writes, true);
    sent.countdown.wait();
    let mut failed = sent.land();
    failed.extend(refused);
    failed
}

/// A block that a flight carries, unless it is nowhere or elsewhere.
pub(super) type Carried = (Bookmark, Option<BlockPointer>);

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Flight {
    attempt: Attempt,
    /// How often devices had been exchanged before it was sent.
    exchanges: u64,
    sent: Sent,
    /// Blocks that were refused before they left.
    refused: Vec<(usize, VdevError)>,
    bytes: usize,
    /// The number of the batch's first block, and all of them.
    first: usize,
    carried: Vec<Carried>,
}

impl Flight {
    /// Sends off the writes, each of which belongs to a block by its number. `is_awaited` if
    /// nothing else is done until they have landed.
    pub(super) fn start(
        pipeline: &Pipeline,
        writes: Vec<(usize, VdevWrite)>,
        first: usize,
        carried: Vec<Carried>,
        is_awaited: bool,
    ) -> Self {
        let state = &pipeline.writing;
        let bytes = writes.iter().map(|(_, write)| write.data.len()).sum();
        let attempt = state.suspension.attempt();
        let places = writes.iter().map(|(_, write)| write.dva);
        let exchanges = state.unflushed.begin(places);
        let (sent, refused) = Sent::send(pipeline.vdevs(), state, writes, is_awaited);
        Self {
            attempt,
            exchanges,
            sent,
            refused,
            bytes,
            first,
            carried,
        }
    }

    /// Stored bytes under way, without parity.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until all has arrived, for lost devices too if the pool is to wait for them; returns
    /// the blocks that did not, with the reason.
    pub(super) fn land(mut self, pipeline: &Pipeline) -> Vec<(usize, IoError)> {
        let failed = self.arrive(pipeline);
        let all = self.refused.into_iter().chain(failed);
        all.map(|(block, source)| {
            let (bookmark, _) = self.carried[block - self.first];
            (block, IoError::Unwritable { bookmark, source })
        })
        .collect()
    }

    /// The same with what the vdevs said.
    pub(super) fn land_again(mut self, pipeline: &Pipeline) -> Result<(), VdevError> {
        let failed = self.arrive(pipeline).into_iter().chain(self.refused);
        failed.map(|(_, error)| Err(error)).next().unwrap_or(Ok(()))
    }

    /// Waits until all has arrived; returns what did not.
    fn arrive(&mut self, pipeline: &Pipeline) -> Vec<(usize, VdevError)> {
        let state = &pipeline.writing;
        let suspension = &state.suspension;
        loop {
            self.sent.countdown.wait();
            // What was met before the devices came back says nothing any more.
            if self.attempt == suspension.attempt() {
                let failed = self.sent.land();
                let again = match failed.first() {
                    Some((_, cause)) => {
                        let again = suspension.wait(self.attempt, cause);
                        // A device that was away may have lost what it took before.
                        state.unflushed.doubt();
                        again
                    }
                    // Devices that were exchanged meanwhile do not have what the others took.
                    None => {
                        let writes = self.sent.again().into_iter().map(|(_, write)| write);
                        !state.unflushed.add(self.exchanges, writes, self.arrived())
                    }
                };
                if !again {
                    return failed;
                }
            }
            self.attempt = suspension.attempt();
            let writes = self.sent.again();
            let places = writes.iter().map(|(_, write)| write.dva);
            self.exchanges = state.unflushed.begin(places);
            let (sent, refused) = Sent::send(pipeline.vdevs(), state, writes, true);
            self.sent = sent;
            self.refused.extend(refused);
        }
    }

    /// The blocks that were sent, but for those that were refused.
    fn arrived(&self) -> impl Iterator<Item = (Bookmark, BlockPointer)> {
        somewhere(&self.carried).filter(|(bookmark, _)| {
            let mut refused = self.refused.iter();
            !refused.any(|(block, _)| self.carried[block - self.first].0 == *bookmark)
        })
    }
}

/// Those blocks that are carried anywhere.
fn somewhere(carried: &[Carried]) -> impl Iterator<Item = (Bookmark, BlockPointer)> {
    let blocks = carried.iter();
    blocks.filter_map(|(bookmark, pointer)| Some((*bookmark, (*pointer)?)))
}

/// Splits blocks into fragments, on all cores where there is parity to compute.
fn prepare(
    vdevs: &Arc<Shape>,
    state: &WriteState,
    writes: Vec<(usize, VdevWrite)>,
) -> Vec<(usize, Result<PreparedWrite, VdevError>)> {
    let has_parity = |(_, write): &(usize, VdevWrite)| vdevs.has_parity(write.dva.vdev());
    if writes.len() < 2 || !writes.iter().any(has_parity) {
        let writes = writes.into_iter();
        return writes
            .map(|(block, write)| (block, vdevs.prepare_write(write)))
            .collect();
    }
    let vdevs = Arc::clone(vdevs);
    let workers = state.encoders();
    workers.map(writes, move |(block, write)| {
        (block, vdevs.prepare_write(write))
    })
}
