//! Commits: from what is to be put to a map and a queue that say so.
//!
//! Data objects are put at once, then the log is made durable (a commit must not be ahead of the
//! log whose point it carries), then the commit is put. Only one commit is under way at a time, so
//! the chain is one. Once it is there, the map and the queue change under one lock: a reader sees a
//! write in one or the other.

use crate::cache::Name;
use crate::chain::store_error;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::commit::{Commit, LogPoint, Tip};
use crate::format::{CommitNumber, Hash, ObjectNumber, key};
use crate::pack::{Package, Packing, cloned};
use crate::queue::Batch;
use crate::store::Put;
use std::sync::Arc;

/// What a commit says beside what it changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Says {
    pub(crate) is_released: bool,
    pub(crate) ends_flush: bool,
    pub(crate) log: LogPoint,
    pub(crate) mark: Option<(u64, bool)>,
}

impl Core {
    /// What a commit says that brings nothing new.
    pub(crate) fn unchanged(&self) -> Says {
        let state = self.state();
        Says {
            is_released: state.tip.is_released,
            ends_flush: state.tip.ends_flush,
            log: state.tip.log,
            mark: None,
        }
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
        if let Some(log) = self.order.lock().log.as_ref().map(crate::log::Log::device) {
            log.flush()?;
        }
        let commit = self.next_commit(&package, says);
        let bytes = Arc::new(commit.encode(self.identity.uuid));
        sent += bytes.len() as u64;
        self.put_commit(commit.tip.number, &bytes)?;
        self.counters.commits.add(1);
        for packed in &package.objects {
            let name = Name::Data(self.writer, packed.object.number);
            let class = packed.object.class;
            self.cache.insert(name, class, 0, &packed.bytes);
        }
        let mut state = self.state();
        state.hash = Hash::of(&bytes);
        state.kept.last = Some((commit.tip.number, bytes));
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

    /// Puts a commit, or finds out which writer was there first.
    fn put_commit(&self, number: CommitNumber, bytes: &Arc<Vec<u8>>) -> Result<()> {
        let key = key::commit(number);
        let puts = self.client.put_new(vec![(key, Arc::clone(bytes))]);
        let mut puts = puts.map_err(|e| store_error(&self.client, e))?;
        match puts.pop() {
            Some(Put::Taken(found)) => Err(self.fenced_by(number, &found)),
            _ => Ok(()),
        }
    }

    /// The failure of a device whose next commit another writer made.
    pub(crate) fn fenced_by(&self, commit: CommitNumber, found: &[u8]) -> CloudError {
        let host = match Commit::decode(self.identity.uuid, commit, found) {
            Ok(found) => found.tip.host,
            Err(_) => "unknown".into(),
        };
        CloudError::Fenced { host, commit }
    }
}
