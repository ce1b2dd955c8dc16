//! Removing unneeded objects: dead data objects, replaced parts of the map, old commits.
//!
//! Most stores delete without conditions, so nothing here may be a mistake. Names are removed only
//! if a durable checkpoint says that they are dead and no later commit can bring them back. They
//! must also have been dead for [`crate::Options::keep`] by the store's own clock: for that long a
//! reader can open the device as of an older commit.
//!
//! *Commits* are removed once there are two newer checkpoints, except the first of each session. A
//! writer that slept while it was taken over runs into that one. Were it removed, the sleeper would
//! find its next name free and fork the chain.
//!
//! *Orphans*: what a writer put and did not commit before it ended has numbers that the chain never
//! reached. One listing finds it, after a take-over and once something else was written.
//!
//! A store that does not let us delete costs money and nothing else: what failed is tried again an
//! hour later.

use crate::chain::store_error;
use crate::core::Core;
use crate::error::Result;
use crate::format::checkpoint::{ObjectEntry, Waste};
use crate::format::{CommitNumber, ObjectNumber, WriterId, key};
use crate::work::Work;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Names that are removed at once.
const NAMES_MAX: usize = 1000;
/// When removing is tried again where it failed.
const AGAIN: Duration = Duration::from_secs(3600);

/// What is to be removed.
#[derive(Debug, Default)]
struct Doomed {
    objects: Vec<ObjectEntry>,
    waste: Vec<Waste>,
    commits: Vec<CommitNumber>,
    /// The first commit that is there afterwards.
    oldest: CommitNumber,
}

impl Core {
    /// Looks, once something was written, what the one before has left to be done.
    pub(crate) fn resume_upkeep(&self, work: &mut Work) -> Result<()> {
        if std::mem::replace(&mut work.has_begun, true) {
            return Ok(());
        }
        self.put_copy_of_identity()?;
        if let Some((writer, next)) = work.unfinished.take() {
            self.remove_orphans(writer, next)?;
        }
        self.plan_compaction(work);
        let wall = self.client.env().wall_clock().as_secs();
        let is_due = self
            .next_over(wall)
            .is_some_and(|left| left <= Duration::from_secs(1));
        work.clean_at = is_due.then(|| self.now());
        Ok(())
    }

    /// Makes sure that there are two objects that say which device this is.
    fn put_copy_of_identity(&self) -> Result<()> {
        let bytes = Arc::clone(&self.seen.identity);
        let put = self.client.put_in_place(key::DEVICE_COPY, &bytes);
        // If it cannot be replaced, verifications continue to report it.
        put.map(drop).map_err(|e| store_error(&self.client, e))
    }

    /// Removes what `writer`, which can commit no more, put under numbers from `next` on.
    fn remove_orphans(&self, writer: WriterId, next: ObjectNumber) -> Result<()> {
        let last = next.0.checked_sub(1).map(ObjectNumber);
        let after = last.map(|last| key::data(writer, last));
        let found = self.client.list(&key::data_of(writer), after, NAMES_MAX);
        let found = found.map_err(|e| store_error(&self.client, e))?;
        let keys = found.into_iter().map(|meta| meta.key);
        let gone = self.client.try_delete(keys.collect());
        let gone = gone.into_iter().filter(|is_gone| *is_gone).count();
        self.counters.deleted.add(gone as u64);
        Ok(())
    }

    /// Removes what may be removed, as of the checkpoint that was made last.
    pub(crate) fn clean(&self, work: &mut Work) -> Result<()> {
        self.learn_clock(work)?;
        let now = self.store_time(work).expect("learned just now");
        let failed = self.remove(self.doomed(now));
        let left = match failed {
            true => Some(AGAIN),
            false => self.next_over(now),
        };
        work.clean_at = left.map(|left| self.now().saturating_add(left));
        Ok(())
    }

    /// Removes names; says whether some could not be.
    fn remove(&self, doomed: Doomed) -> bool {
        let objects = doomed.objects.iter();
        let objects = objects.map(|object| key::data(object.writer, object.number));
        let waste = doomed.waste.iter().map(|waste| match waste.part {
            Some(part) => key::pages(waste.checkpoint, part),
            None => key::root(waste.checkpoint),
        });
        let commits = doomed.commits.iter().map(|number| key::commit(*number));
        let keys: Vec<String> = objects.chain(waste).chain(commits).collect();
        if keys.is_empty() {
            return false;
        }
        let count = keys.len();
        let mut gone = self.client.try_delete(keys).into_iter();
        let mut is_gone = |_: &usize| gone.next().unwrap_or(false);
        let objects: Vec<usize> = (0..doomed.objects.len()).filter(&mut is_gone).collect();
        let waste: Vec<usize> = (0..doomed.waste.len()).filter(&mut is_gone).collect();
        let commits = (0..doomed.commits.len()).filter(&mut is_gone).count();
        let removed = objects.len() + waste.len() + commits;
        self.counters.deleted.add(removed as u64);
        let numbers: Vec<ObjectNumber> = objects
            .into_iter()
            .map(|index| doomed.objects[index].number)
            .collect();
        let mut state = self.state();
        state.map.forget(&numbers);
        let waste: Vec<Waste> = waste.into_iter().map(|index| doomed.waste[index]).collect();
        state.checkpoints.waste.retain(|own| !waste.contains(own));
        if commits == doomed.commits.len() {
            state.checkpoints.oldest = state.checkpoints.oldest.max(doomed.oldest);
        }
        removed < count
    }

    /// After how long something is old enough that is not yet.
    fn next_over(&self, now: u64) -> Option<Duration> {
        let keep = self.options.keep.as_secs();
        let state = self.state();
        let newest = newest_root(&state.checkpoints.waste);
        let waste = state.checkpoints.waste.iter();
        let waste = waste.filter(|own| own.part.is_some() || Some(own.checkpoint) != newest);
        let waste = waste.map(|own| own.since);
        let objects = state.map.objects().map(|object| object.dead_since);
        let first = waste.chain(objects).filter(|since| *since > 0).min()?;
        let left = first.saturating_add(keep).saturating_sub(now);
        // The clock that is asked counts whole seconds.
        Some(Duration::from_secs(left.saturating_add(1)))
    }

    fn doomed(&self, now: u64) -> Doomed {
        let keep = self.options.keep.as_secs();
        let is_over = |since: u64| since > 0 && since.saturating_add(keep) <= now;
        let state = self.state();
        let dead = state.map.objects();
        let dead = dead.filter(|object| is_over(object.dead_since)).copied();
        let mut doomed = Doomed {
            objects: dead.take(NAMES_MAX).collect(),
            oldest: state.checkpoints.oldest,
            ..Doomed::default()
        };
        let newest = newest_root(&state.checkpoints.waste);
        let over = state.checkpoints.waste.iter();
        let over = over.filter(|own| is_over(own.since));
        let over = over.filter(|own| own.part.is_some() || Some(own.checkpoint) != newest);
        doomed.waste = over.copied().take(NAMES_MAX).collect();
        let roots = doomed.waste.iter().filter(|waste| waste.part.is_none());
        let Some(last) = roots.map(|waste| waste.checkpoint).max() else {
            return doomed;
        };
        let firsts: BTreeSet<CommitNumber> = state
            .map
            .sessions()
            .iter()
            .map(|session| session.first)
            .collect();
        let end = CommitNumber((last.0 + 1).min(doomed.oldest.0 + NAMES_MAX as u64));
        let numbers = (doomed.oldest.0.max(1)..end.0).map(CommitNumber);
        doomed.commits = numbers.filter(|number| !firsts.contains(number)).collect();
        doomed.oldest = doomed.oldest.max(end);
        doomed
    }
}

/// The newest of the roots, which is behind one checkpoint only.
fn newest_root(waste: &[Waste]) -> Option<CommitNumber> {
    let roots = waste.iter().filter(|waste| waste.part.is_none());
    roots.map(|waste| waste.checkpoint).max()
}
