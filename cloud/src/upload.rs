//! Bringing the queue into the store.
//!
//! A step takes one batch: its data objects are put at once, then the log is made durable (a commit
//! must not be ahead of the log whose point it carries), then the commit is put. Only one commit is
//! under way at a time, so the chain is one. Once it is there, the map and the queue change under
//! one lock: a reader sees a write in one or the other.

use crate::chain::store_error;
use crate::core::{Core, lock};
use crate::error::{CloudError, Result};
use crate::format::commit::{Commit, LogPoint, Tip};
use crate::format::{Class, CommitNumber, Hash, ObjectNumber, key};
use crate::pack::{Package, Packing, chunks, cloned, pack};
use crate::queue::Batch;
use crate::store::Put;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What the uploader knows from step to step.
#[derive(Debug)]
pub(crate) struct Work {
    /// The point up to which the store has everything, and the commit that says so.
    trim: (LogPoint, CommitNumber),
}

impl Work {
    /// That of a device whose newest commit is `commit`.
    pub(crate) fn new(point: LogPoint, commit: CommitNumber) -> Self {
        Self {
            trim: (point, commit),
        }
    }
}

/// What a commit says beside what it changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says {
    pub(crate) is_released: bool,
    pub(crate) ends_flush: bool,
    pub(crate) log: LogPoint,
    pub(crate) mark: Option<(u64, bool)>,
}

impl Core {
    /// Does one thing that is due; says whether there was one.
    pub(crate) fn step(&self) -> std::result::Result<bool, Arc<CloudError>> {
        self.check()?;
        let mut work = lock(&self.work);
        self.step_with(&mut work).map_err(|error| self.fail(error))
    }

    fn step_with(&self, work: &mut Work) -> Result<bool> {
        let limits = self.limits();
        let mut state = self.state();
        state.is_work_new = false;
        let batch = state.queue.cut(&limits, self.now());
        let wants_room = batch.is_none() && state.queue.take_room_wish();
        drop(state);
        // Flushes behind which nothing has changed are done without a commit.
        self.changed.notify_all();
        if let Some(batch) = batch {
            self.commit_batch(work, &batch)?;
            self.make_room(work)?;
            return Ok(true);
        }
        if wants_room {
            self.make_room(work)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// When something is due by time, if nothing more comes.
    pub(crate) fn due_at(&self) -> Option<Duration> {
        self.state().queue.due_at(&self.limits())
    }

    fn commit_batch(&self, work: &mut Work, batch: &Batch) -> Result<()> {
        let start = self.now();
        let (chunks, holes) = chunks(batch.image.iter())?;
        let package = pack(&self.packing(), &chunks, holes);
        drop(chunks);
        let says = Says {
            is_released: false,
            ends_flush: batch.ends_flush,
            log: batch.end,
            mark: batch.mark,
        };
        let sent = self.commit(package, says, Some(batch))?;
        work.trim = (batch.end, self.state().tip.number);
        let took = self.now().saturating_sub(start).as_secs_f64().max(0.001);
        // A small batch measures the round trip, not the rate.
        if sent >= 1 << 20 {
            let rate = sent as f64 / took;
            self.upload_rate.store(rate as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    pub(crate) fn packing(&self) -> Packing {
        let state = self.state();
        Packing {
            uuid: self.identity.uuid,
            writer: self.writer,
            size: state.tip.size,
            next: state.tip.next_object,
            object_bytes: self.options.object_bytes,
            inline_bytes: self.options.inline_bytes,
        }
    }

    /// Puts objects and the commit that names them, and lets the map follow. Says how many bytes
    /// were sent.
    pub(crate) fn commit(
        &self,
        package: Package,
        says: Says,
        batch: Option<&Batch>,
    ) -> Result<u64> {
        let mut sent = 0;
        let objects: Vec<(String, Arc<Vec<u8>>)> = package
            .objects
            .iter()
            .map(|packed| (packed.key.clone(), Arc::clone(&packed.bytes)))
            .collect();
        let keys: Vec<String> = objects.iter().map(|(key, _)| key.clone()).collect();
        sent += objects.iter().map(|o| o.1.len() as u64).sum::<u64>();
        let puts = self.client.put_new(objects);
        let puts = puts.map_err(|e| store_error(&self.client, e))?;
        if let Some((key, _)) = keys.iter().zip(&puts).find(|(_, put)| **put != Put::Done) {
            return Err(cloned(key));
        }
        if let Some(log) = lock(&self.order).log.as_ref().map(crate::log::Log::device) {
            log.flush()?;
        }
        let commit = self.next_commit(&package, says);
        let bytes = Arc::new(commit.encode(self.identity.uuid));
        sent += bytes.len() as u64;
        self.put_commit(commit.tip.number, &bytes)?;
        self.counters.commits.add(1);
        for packed in &package.objects {
            if packed.object.class == Class::Metadata {
                let bytes = Arc::clone(&packed.bytes);
                self.cache.insert(packed.object.number, 0, bytes);
            }
        }
        let mut state = self.state();
        state.hash = Hash::of(&bytes);
        state.tip = commit.tip.clone();
        state.map.apply(commit);
        state.checkpoints.commits_since += 1;
        if let Some(batch) = batch {
            state.queue.commit(batch);
        }
        drop(state);
        self.changed.notify_all();
        Ok(sent)
    }

    fn next_commit(&self, package: &Package, says: Says) -> Commit {
        let state = self.state();
        let tip = &state.tip;
        let number = tip.number.next();
        let (txg, is_txg_complete) = says.mark.unwrap_or((tip.txg, tip.is_txg_complete));
        let next = tip.next_object.0 + package.objects.len() as u64;
        Commit {
            parent: state.hash,
            tip: Tip {
                number,
                writer: self.writer,
                session: tip.session,
                host: self.options.host.clone(),
                written: self.client.env().wall_clock().as_secs(),
                is_released: says.is_released,
                ends_flush: says.ends_flush,
                size: tip.size,
                log: says.log,
                txg,
                is_txg_complete,
                checkpoint: state.checkpoints.current.as_ref().map(|current| current.0),
                next_object: ObjectNumber(next),
            },
            objects: package.objects.iter().map(|packed| packed.object).collect(),
            extents: package.extents.clone(),
            inline: package.inline.clone(),
        }
    }

    /// Puts a commit, or finds out who was there first.
    fn put_commit(&self, number: CommitNumber, bytes: &Arc<Vec<u8>>) -> Result<()> {
        let key = key::commit(number);
        let puts = self.client.put_new(vec![(key, Arc::clone(bytes))]);
        let mut puts = puts.map_err(|e| store_error(&self.client, e))?;
        match puts.pop() {
            Some(Put::Taken(found)) => Err(self.fenced_by(number, &found)),
            _ => Ok(()),
        }
    }

    /// The failure of a device whose next commit is somebody else's.
    pub(crate) fn fenced_by(&self, commit: CommitNumber, found: &[u8]) -> CloudError {
        let host = match Commit::decode(self.identity.uuid, commit, found) {
            Ok(found) => found.tip.host,
            Err(_) => "unknown".into(),
        };
        CloudError::Fenced { host, commit }
    }

    /// Lets the log use what is in the store, and says that there may be room.
    fn make_room(&self, work: &Work) -> Result<()> {
        let (point, commit) = work.trim;
        let mut order = lock(&self.order);
        if let Some(log) = &mut order.log
            && log.trim(point, commit)?
        {
            let (device, tail) = (log.device(), log.tail());
            drop(order);
            device.flush()?;
            if let Some(log) = &mut lock(&self.order).log {
                log.trimmed(tail);
            }
        }
        self.state().rounds += 1;
        self.changed.notify_all();
        Ok(())
    }

    /// Says that the writer is done: anybody may go on from here. Not so if something was written
    /// that is not in the store.
    pub(crate) fn release(&self) -> Result<bool> {
        let work = lock(&self.work);
        let order = lock(&self.order);
        let state = self.state();
        if state.queue.oldest().is_some() {
            return Ok(false);
        }
        let point = match &order.log {
            Some(log) => log.head(),
            None => state.tip.log,
        };
        drop((state, order));
        let says = Says {
            is_released: true,
            ends_flush: true,
            log: point,
            mark: None,
        };
        self.commit(Package::default(), says, None)?;
        drop(work);
        Ok(true)
    }
}
