//! A batch of blocks on its way to the devices.

use super::WriteState;
use crate::error::IoError;
use crate::pipeline::Pipeline;
use crate::suspension::Attempt;
use cenote_base::Bookmark;
use cenote_vdev::{PreparedWrite, VdevError, VdevWrite, VdevWriter, Vdevs, WritePlan};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Stored bytes of a flight that its own thread sends, as far as they go to one leaf.
const OWN_BYTES_MAX: usize = 64 << 10;

/// Counts down the chunks that are not sent yet.
#[derive(Debug)]
struct Countdown {
    left: Mutex<usize>,
    zero: Condvar,
}

impl Countdown {
    fn one_less(&self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left -= 1;
        if *left == 0 {
            self.zero.notify_all();
        }
    }

    fn wait(&self) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.zero.wait_while(left, |left| *left > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Writes with the devices, or on their way there.
#[derive(Debug)]
struct Sent {
    writer: VdevWriter,
    plan: Arc<WritePlan>,
    /// The block of each write in the plan.
    blocks: Vec<usize>,
    countdown: Arc<Countdown>,
}

/// A write that did not succeed: its number in the plan, its block, and why.
type Failed = (usize, usize, VdevError);

impl Sent {
    /// Sends off the writes, each of which belongs to a block by its number; with those that are
    /// refused before they leave.
    fn send(
        vdevs: &Vdevs,
        state: &WriteState,
        writes: Vec<(usize, VdevWrite)>,
        is_awaited: bool,
    ) -> (Self, Vec<(usize, VdevError)>) {
        let writer = vdevs.writer();
        let bytes: usize = writes.iter().map(|(_, write)| write.data.len()).sum();
        let (mut blocks, mut refused, mut prepared) = (Vec::new(), Vec::new(), Vec::new());
        for (block, result) in prepare(vdevs, state, &writer, writes) {
            match result {
                Ok(write) => {
                    blocks.push(block);
                    prepared.push(write);
                }
                Err(error) => refused.push((block, error)),
            }
        }
        let plan = Arc::new(writer.plan(prepared));
        let chunks = plan.chunks();
        let countdown = Arc::new(Countdown {
            left: Mutex::new(chunks),
            zero: Condvar::new(),
        });
        // Whoever sends a few KiB itself has them there before another thread would be awake.
        let is_small = bytes <= OWN_BYTES_MAX;
        let is_own =
            |chunk: &usize| is_awaited && (chunks == 1 || is_small && plan.same_leaf(*chunk, 0));
        let (own, others): (Vec<usize>, Vec<usize>) = (0..chunks).partition(is_own);
        for chunk in others {
            let (writer, plan) = (writer.clone(), Arc::clone(&plan));
            let countdown = Arc::clone(&countdown);
            state.writers().run(move || {
                writer.send(&plan, chunk);
                countdown.one_less();
            });
        }
        for chunk in own {
            writer.send(&plan, chunk);
            countdown.one_less();
        }
        let sent = Self {
            writer,
            plan,
            blocks,
            countdown,
        };
        (sent, refused)
    }

    /// Waits until all has arrived; returns what did not.
    fn land(&self) -> Vec<Failed> {
        self.countdown.wait();
        let results = self.writer.finish(&self.plan).into_iter().enumerate();
        results
            .filter_map(|(index, result)| Some((index, self.blocks[index], result.err()?)))
            .collect()
    }

    /// The writes that failed, to be sent again.
    fn again(&self, failed: &[Failed]) -> Vec<(usize, VdevWrite)> {
        let writes = failed.iter();
        writes
            .map(|(index, block, _)| (*block, self.plan.write(*index).clone()))
            .collect()
    }
}

/// A batch on its way.
#[derive(Debug)]
pub(super) struct Flight {
    vdevs: Arc<Vdevs>,
    state: Arc<WriteState>,
    attempt: Attempt,
    sent: Sent,
    /// Blocks that were refused before they left.
    refused: Vec<(usize, VdevError)>,
    bytes: usize,
    /// The number of the batch's first block, and the names of all.
    first: usize,
    bookmarks: Vec<Bookmark>,
}

impl Flight {
    /// Sends off the writes, each of which belongs to a block by its number. `is_awaited` if
    /// nothing else is done until they have landed.
    pub(super) fn start(
        pipeline: &Pipeline,
        writes: Vec<(usize, VdevWrite)>,
        first: usize,
        bookmarks: Vec<Bookmark>,
        is_awaited: bool,
    ) -> Self {
        let vdevs = Arc::clone(pipeline.vdevs());
        let state = Arc::clone(&pipeline.writing);
        let bytes = writes.iter().map(|(_, write)| write.data.len()).sum();
        let attempt = state.suspension.attempt();
        let (sent, refused) = Sent::send(&vdevs, &state, writes, is_awaited);
        Self {
            vdevs,
            state,
            attempt,
            sent,
            refused,
            bytes,
            first,
            bookmarks,
        }
    }

    /// Stored bytes under way, without parity.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until all has arrived, for lost devices too if the pool is to wait for them; returns
    /// the blocks that did not, with the reason.
    pub(super) fn land(mut self) -> Vec<(usize, IoError)> {
        let mut failed = self.sent.land();
        while let Some((_, _, cause)) = failed.first()
            && self.state.suspension.wait(self.attempt, cause)
        {
            self.attempt = self.state.suspension.attempt();
            let again = self.sent.again(&failed);
            let (sent, refused) = Sent::send(&self.vdevs, &self.state, again, true);
            self.sent = sent;
            self.refused.extend(refused);
            failed = self.sent.land();
        }
        let (first, bookmarks) = (self.first, self.bookmarks);
        let tell = |(block, source): (usize, VdevError)| {
            let bookmark = bookmarks[block - first];
            (block, IoError::Unwritable { bookmark, source })
        };
        let failed = failed.into_iter().map(|(_, block, error)| (block, error));
        self.refused.into_iter().chain(failed).map(tell).collect()
    }
}

/// Splits blocks into fragments, on all cores where there is parity to compute.
fn prepare(
    vdevs: &Vdevs,
    state: &WriteState,
    writer: &VdevWriter,
    writes: Vec<(usize, VdevWrite)>,
) -> Vec<(usize, Result<PreparedWrite, VdevError>)> {
    let has_parity = |(_, write): &(usize, VdevWrite)| vdevs.has_parity(write.dva.vdev());
    if writes.len() < 2 || !writes.iter().any(has_parity) {
        let writes = writes.into_iter();
        return writes
            .map(|(block, write)| (block, writer.prepare(write)))
            .collect();
    }
    let writer = writer.clone();
    let workers = state.encoders();
    workers.map(writes, move |(block, write)| (block, writer.prepare(write)))
}
