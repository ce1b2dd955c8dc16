//! What the uploader does, one thing after the other.
//!
//! Checkpoints come first, or an endless stream of writes would keep them from ever being made;
//! then batches; compaction has what time is left, and a share where there is none.
//!
//! *Sleep*: when the two clocks disagree about how long the last step is ago, the machine was
//! suspended. Other machines may have waited for that in vain and taken the device over, so the
//! next commit's name is checked before anything else is done.

use crate::checkpoint::Size;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::pack::{Package, chunks, pack};
use crate::queue::{Batch, Limits};
use crate::upload::Says;
use crate::work::Work;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A larger jump between two clocks means that the machine slept, or that the time was set.
const JUMP: Duration = Duration::from_secs(60);
/// Parts of the map that became waste at an unknown time; beyond this, closing gets the time, too.
const TIMELESS_MAX: usize = 16;

impl Core {
    /// Does one thing that is due; says whether there was one.
    pub(crate) fn step(&self) -> std::result::Result<bool, Arc<CloudError>> {
        self.check()?;
        let mut work = self.work.lock();
        let done = self.step_with(&mut work);
        self.save_noted(&mut work);
        done.map_err(|error| self.fail(error))
    }

    /// Puts again what is known to be damaged, as far as this side has it.
    pub(crate) fn repair(&self) -> std::result::Result<(), Arc<CloudError>> {
        self.check()?;
        let mut work = self.work.lock();
        work.given_up.clear();
        let done = self.put_again(&mut work);
        self.save_noted(&mut work);
        done.map_err(|error| self.fail(error))
    }

    fn step_with(&self, work: &mut Work) -> Result<bool> {
        self.notice_sleep(work)?;
        if self.wants_repair.load(Ordering::Relaxed) {
            self.put_again(work)?;
            return Ok(true);
        }
        if let Some(size) = self.due_checkpoint(work) {
            self.checkpoint(work, size)?;
            if size == Size::Full {
                self.plan_compaction(work);
            }
            self.clean(work)?;
            return Ok(true);
        }
        if self.wants_compaction.load(Ordering::Relaxed) {
            self.begin_compaction(work)?;
            self.wants_compaction.store(false, Ordering::Relaxed);
            return Ok(true);
        }
        let is_its_turn = work.uploaded >= 2 * self.options.object_bytes;
        if !work.compaction.is_empty() && is_its_turn {
            self.compact(work)?;
            return Ok(true);
        }
        let limits = self.limits();
        let mut state = self.state();
        let batch = state.queue.cut(&limits, self.now());
        let wants_room = batch.is_none() && state.queue.take_room_wish();
        drop(state);
        // Flushes behind which nothing has changed are done without a commit.
        self.changed.notify_all();
        if let Some(batch) = batch {
            self.commit_batch(work, &batch, false)?;
            // What is in the batch still holds its place in the log.
            drop(batch);
            self.make_room()?;
            self.resume_upkeep(work)?;
            return Ok(true);
        }
        if wants_room {
            self.make_room()?;
            return Ok(true);
        }
        if !work.compaction.is_empty() {
            self.compact(work)?;
            return Ok(true);
        }
        if work.clean_at.is_some_and(|at| self.now() >= at) {
            self.clean(work)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Finds out what is hardly needed, as of now.
    fn begin_compaction(&self, work: &mut Work) -> Result<()> {
        if self.state().checkpoints.commits_since > 0 {
            self.checkpoint(work, Size::Full)?;
        }
        self.plan_compaction(work);
        self.clean(work)
    }

    /// When something is due by time, if nothing more comes.
    pub(crate) fn due_at(&self) -> Option<Duration> {
        let clean_at = self.work.lock().clean_at;
        let upload_at = self.state().queue.due_at(&self.limits());
        upload_at.into_iter().chain(clean_at).min()
    }

    fn notice_sleep(&self, work: &mut Work) -> Result<()> {
        let env = self.client.env();
        let now = (env.wall_clock(), env.monotonic());
        let before = work.clocks.replace(now);
        let Some(before) = before else {
            return Ok(());
        };
        let passed = (now.0.abs_diff(before.0), now.1.abs_diff(before.1));
        if passed.0.abs_diff(passed.1) > JUMP {
            // The store's clock is not where it was, seen from here.
            work.clock = None;
            self.look_for_others()?;
            self.check_failure()?;
        }
        Ok(())
    }

    fn commit_batch(&self, work: &mut Work, batch: &Batch, is_released: bool) -> Result<()> {
        self.ensure_predecessor(work)?;
        let start = self.now();
        let (chunks, holes) = chunks(batch.image.iter())?;
        let package = pack(&self.packing(), &chunks, holes);
        drop(chunks);
        let says = Says {
            is_released,
            ends_flush: batch.ends_flush,
            log: batch.end,
            mark: batch.mark,
        };
        let sent = self.commit(package, says, Some(batch))?;
        let commit = self.state().tip.number;
        self.order.lock().trim = (batch.end, commit);
        work.uploaded += sent;
        let took = self.now().saturating_sub(start).as_secs_f64().max(0.001);
        // A small batch measures the round trip, not the rate.
        if sent >= 1 << 20 {
            let rate = sent as f64 / took;
            self.upload_rate.store(rate as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Lets the log use what is in the store, and says that there may be room.
    fn make_room(&self) -> Result<()> {
        self.trim_log()?;
        self.state().rounds += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Frees the part of the log that is in the store and is not being read. Returns whether there
    /// was any. It sends no request to the store, so it works while the store is away.
    pub(crate) fn trim_log(&self) -> Result<bool> {
        let mut order = self.order.lock();
        let (point, commit) = order.trim;
        let Some(log) = &mut order.log else {
            return Ok(false);
        };
        if !log.trim(point, commit)? {
            return Ok(false);
        }
        let (device, tail) = (log.device(), log.tail());
        drop(order);
        device.flush()?;
        if let Some(log) = &mut self.order.lock().log {
            log.trimmed(tail);
        }
        Ok(true)
    }

    /// Uploads what is left and releases the device: any writer may continue from here. Nothing can
    /// be written any more.
    ///
    /// Three requests where little is left: a commit with all of it, and a checkpoint, so that the
    /// next opening need not read commits.
    pub(crate) fn release(&self) -> Result<()> {
        let mut work = self.work.lock();
        let order = self.order.lock();
        let mut state = self.state();
        state.is_ending = true;
        let last = state.queue.last();
        let point = order.log.as_ref().map(crate::log::Log::head);
        let point = point.unwrap_or(state.tip.log);
        drop((state, order));
        let limits = Limits {
            age: Duration::ZERO,
            ..self.limits()
        };
        loop {
            let mut state = self.state();
            state.queue.want(last);
            // Whatever came behind the last flush goes, too.
            state.queue.want_room();
            let batch = state.queue.cut(&limits, self.now());
            drop(state);
            let Some(batch) = batch else {
                let says = Says {
                    is_released: true,
                    ends_flush: true,
                    log: point,
                    mark: None,
                };
                self.ensure_predecessor(&mut work)?;
                self.commit(Package::default(), says, None)?;
                break;
            };
            let is_last = batch.last >= last;
            self.commit_batch(&mut work, &batch, is_last)?;
            if is_last {
                break;
            }
        }
        let state = self.state();
        let timeless = state.checkpoints.waste.iter();
        let timeless = timeless.filter(|waste| waste.since == 0).count();
        drop(state);
        if timeless > TIMELESS_MAX {
            self.learn_clock(&mut work)?;
        }
        let size = self.due_checkpoint(&work).unwrap_or(Size::Light);
        self.checkpoint(&mut work, size)?;
        self.save_noted(&mut work);
        Ok(())
    }
}
