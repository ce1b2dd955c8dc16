//! The workers of a session: threads that take requests and answer them.
//!
//! Each worker loops on its own descriptor: receive, dispatch, answer. Work is synchronous, so the
//! number of workers bounds the number of requests under way. A few of them always wait. When the
//! last waiting one gets a request it starts another, up to the maximum, because all the others may
//! be blocked on slow disks. They may also only wait for a processor, which looks the same. So
//! workers are started one at a time. After many requests in a row that found more than enough
//! workers waiting, one leaves. The kernel wakes waiting workers in turn; if they are few, their
//! data is still in the processor's caches.

use crate::dispatch::Worker;
use crate::follow::Binding;
use crate::lookout::Lookout;
use crate::protocol::opcode;
use crate::protocol::request::RequestHeader;
use crate::receive::Receiver;
use crate::session::Session;
use crate::transport::{Device, Received};
use crate::turns::Turn;
use cenote_base::rt::{self, Instant};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// After this many requests in a row with more than enough waiting workers, one worker leaves.
const SURPLUS_MAX: usize = 2000;

impl Session {
    /// Starts the workers that always run.
    pub fn start(self: &Arc<Self>) -> std::io::Result<()> {
        for _ in 0..self.config.threads_min {
            self.spawn_worker()?;
        }
        Ok(())
    }

    /// Starts one more worker, if there may be more.
    fn add_worker(self: &Arc<Self>) {
        match self.spawn_worker() {
            Ok(true) => return,
            Ok(false) => {}
            // The other workers continue; the next such request tries again.
            Err(_) => self.metrics.channel_errors.add(1),
        }
        self.starting.store(false, Ordering::Release);
    }

    /// Whether another worker was started; there are never more than there may be.
    fn spawn_worker(self: &Arc<Self>) -> std::io::Result<bool> {
        let Some(slot) = self.free_slots.lock().pop() else {
            return Ok(false);
        };
        let outcome = self.try_spawn(slot);
        if outcome.is_err() {
            self.free_slots.lock().push(slot);
        }
        outcome.map(|()| true)
    }

    fn try_spawn(self: &Arc<Self>, slot: usize) -> std::io::Result<()> {
        let device = Arc::new(self.device.another(&self.config.device_path)?);
        *self.slots[slot].device.lock() = Some(Arc::clone(&device));
        *self.running.lock() += 1;
        let session = Arc::clone(self);
        let body = move || {
            let leaving = Leaving { session, slot };
            leaving.session.work(&device, slot);
        };
        let started = rt::spawn(format!("fuse-{slot}"), body);
        match started {
            // The closure was dropped unrun, and with it no `Leaving` that would count down.
            Err(error) => {
                *self.running.lock() -= 1;
                Err(error)
            }
            // Detached: `Leaving` notes when it has ended.
            Ok(_) => Ok(()),
        }
    }

    fn work(self: &Arc<Self>, device: &Device, slot: usize) {
        let mut receiver = Receiver::new(self.config.wishes.write_size_max as usize);
        let mut worker = Worker::new(self, device, &self.slots[slot]);
        self.starting.store(false, Ordering::Release);
        let mut binding = Binding::default();
        let mut lookout = Lookout::new();
        loop {
            if self.turns.would_park(slot) {
                // A guard that stays awake does so on another processor than the caller's.
                binding.follow(&self.callers, true);
            }
            let is_spare = || self.workers() > self.config.threads_min;
            let turn = self.turns.take(slot, &mut lookout, &self.callers, is_spare);
            if turn == Turn::Leave {
                return;
            }
            let is_alone = turn == Turn::Alone && self.waiting.load(Ordering::Acquire) == 0;
            let looks = is_alone && self.turns.keeps_leader_awake() && lookout.pays();
            binding.follow(&self.callers, looks);
            let is_timed = is_alone && !looks && self.turns.keeps_leader_awake();
            let start = is_timed.then(Instant::now);
            self.waiting.fetch_add(1, Ordering::AcqRel);
            let received = receiver.receive(device, looks.then_some(&mut lookout));
            let waiting_before = self.waiting.fetch_sub(1, Ordering::AcqRel);
            let length = match received {
                Ok(Received::Request(length)) => length,
                Ok(Received::Ended) => return self.turns.end(),
                Err(_) => {
                    self.metrics.channel_errors.add(1);
                    return;
                }
            };
            if let Some(start) = start {
                lookout.slept(start.elapsed());
            }
            let request = receiver.request(length);
            let is_last = waiting_before == 1 && !is_forget(request.front());
            let is_guarded = turn == Turn::Alone && self.turns.is_guarded();
            if is_last && !is_guarded && !self.starting.swap(true, Ordering::AcqRel) {
                self.add_worker();
            }
            let at_work = (turn == Turn::Alone).then(|| self.turns.at_work());
            let under_way = self.callers.enter(request.front(), length);
            match (&under_way, self.callers.is_single()) {
                (None, _) => {}
                (Some(_), true) => self.turns.gather(),
                (Some(_), false) => self.turns.scatter(),
            }
            let block_size = worker.serve(request, under_way);
            drop(at_work);
            receiver.served(length, block_size);
            if self.is_cut() {
                return self.turns.end();
            }
            if self.is_surplus() {
                return;
            }
        }
    }

    /// Notes how many workers wait after a request; whether its worker is to leave.
    fn is_surplus(&self) -> bool {
        if self.waiting.load(Ordering::Acquire) <= self.config.threads_min {
            self.surplus.store(0, Ordering::Relaxed);
            return false;
        }
        // Exactly one worker sees the number that is too high.
        let before = self.surplus.fetch_add(1, Ordering::Relaxed);
        if before == SURPLUS_MAX {
            self.surplus.store(0, Ordering::Relaxed);
        }
        before == SURPLUS_MAX
    }
}

/// Counts a worker down when its thread ends, for any reason.
struct Leaving {
    session: Arc<Session>,
    slot: usize,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.session.turns.leave(self.slot);
        *self.session.slots[self.slot].device.lock() = None;
        self.session.free_slots.lock().push(self.slot);
        let mut running = self.session.running.lock();
        assert!(*running > 0, "a worker left that had not been counted");
        *running -= 1;
        if *running == 0 {
            self.session.tell_end();
            self.session.all_ended.notify_all();
        }
    }
}

/// Whether it is done with at once: it keeps no worker from the next request.
fn is_forget(request: &[u8]) -> bool {
    let code = RequestHeader::opcode_of(request);
    matches!(code, Some(opcode::FORGET | opcode::BATCH_FORGET))
}
