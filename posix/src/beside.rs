//! Small files that are read one after the other: those beside them are fetched ahead.
//!
//! In an object store each request takes long, but many at once take no longer. A program that
//! reads the files of a directory one by one waits for each of them. Reading ahead within a file is
//! no help if it ends after a block. So after a few files of a directory were read from their
//! beginning, the others are fetched in the background, in large batches. Files that were written
//! together lie together, so neighbours become one request.
//!
//! *Order*: programs read in the order of the listing or of the names. The first files show which;
//! if they fit both or neither, the order of the listing is used. After the last file, fetching
//! continues with those before the first.
//!
//! *Bounds*: fetched but unread data takes at most a share of the cache, for each of a few
//! directories. If the program stops reading, fetching stops. Large files are left to read-ahead
//! within the file.
//!
//! Pools on disks are excluded: other readers would have to wait for useless read-ahead.
//!
//! This module keeps the state; `neighbours` does the reading.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::HashMap;

/// Files of a directory that are read before others are fetched.
const FIRST: usize = 3;
/// Files of one batch.
const BATCH: usize = 128;
/// Directories that are followed at once.
const WALKS_MAX: usize = 8;
/// Batches under way for one directory: while one is read, the next is requested.
const JOBS_MAX: usize = 3;
/// Steps between two files that still are one after the other: some are left out.
const STEP_MAX: usize = 8;

/// A directory whose files are read.
#[derive(Debug)]
struct Walk {
    directory: ObjectId,
    /// The first files that were read.
    first: Vec<ObjectId>,
    jobs: usize,
    plan: Option<Plan>,
}

/// What is fetched of a directory.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Files that are still to be fetched, the next one last.
    left: Vec<ObjectId>,
    /// Files that were fetched and not read yet, with their bytes.
    unread: HashMap<ObjectId, u64>,
    unread_bytes: u64,
}

impl Plan {
    /// The files of a directory in the order in which they are likely to be read.
    pub(crate) fn new(mut listed: Vec<(Vec<u8>, ObjectId)>, first: &[ObjectId]) -> Self {
        if !goes_forward(&listed, first) {
            let mut sorted = listed.clone();
            sorted.sort_unstable();
            if goes_forward(&sorted, first) {
                listed = sorted;
            }
        }
        let last = first.last();
        let place = listed.iter().position(|entry| Some(&entry.1) == last);
        listed.rotate_left(place.map_or(0, |place| place + 1));
        let files = listed.into_iter().map(|entry| entry.1);
        let mut left: Vec<ObjectId> = files.filter(|file| !first.contains(file)).collect();
        left.reverse();
        Self {
            left,
            ..Self::default()
        }
    }
}

/// Whether files come one shortly after the other in a list.
fn goes_forward(listed: &[(Vec<u8>, ObjectId)], files: &[ObjectId]) -> bool {
    let place = |file: &ObjectId| listed.iter().position(|entry| entry.1 == *file);
    let places: Vec<Option<usize>> = files.iter().map(place).collect();
    places.windows(2).all(|pair| match pair {
        [Some(one), Some(next)] => next > one && next - one <= STEP_MAX,
        _ => false,
    })
}

/// The directories whose files are read, most lately seen last.
#[derive(Debug, Default)]
pub(crate) struct Beside(Mutex<Vec<Walk>, ranks::DirectoryWalks>);

impl Beside {
    fn walks(&self) -> MutexGuard<'_, Vec<Walk>> {
        self.0.lock()
    }

    /// Notes that a file is read from its beginning; says how many jobs are to be begun.
    pub(crate) fn note(&self, directory: ObjectId, file: ObjectId, unread_max: u64) -> usize {
        let mut walks = self.walks();
        let Some(place) = walks.iter().position(|walk| walk.directory == directory) else {
            let surplus = (walks.len() + 1).saturating_sub(WALKS_MAX);
            walks.drain(..surplus);
            walks.push(Walk {
                directory,
                first: vec![file],
                jobs: 0,
                plan: None,
            });
            return 0;
        };
        let mut walk = walks.remove(place);
        let begun = walk.jobs;
        match &mut walk.plan {
            None => {
                if !walk.first.contains(&file) && walk.jobs == 0 {
                    walk.first.push(file);
                }
                if walk.first.len() >= FIRST && walk.jobs == 0 {
                    walk.jobs = 1;
                }
            }
            Some(plan) => {
                let bytes = plan.unread.remove(&file);
                plan.unread_bytes -= bytes.unwrap_or(0);
                if plan.left.is_empty() && plan.unread.is_empty() && walk.jobs == 0 {
                    // All of it was read: the next reader starts again.
                    return 0;
                }
                if !plan.left.is_empty() && plan.unread_bytes < unread_max / 2 {
                    walk.jobs = JOBS_MAX;
                }
            }
        }
        let new = walk.jobs.saturating_sub(begun);
        walks.push(walk);
        new
    }

    /// The files after which a directory is to be listed; none if that was done.
    pub(crate) fn first_of(&self, directory: ObjectId) -> Option<Vec<ObjectId>> {
        let walks = self.walks();
        let walk = walks.iter().find(|walk| walk.directory == directory)?;
        walk.plan.is_none().then(|| walk.first.clone())
    }

    /// Takes a directory's files over; says how many jobs more are to be begun.
    pub(crate) fn begin(&self, directory: ObjectId, plan: Plan) -> usize {
        let mut walks = self.walks();
        let Some(walk) = walks.iter_mut().find(|walk| walk.directory == directory) else {
            return 0;
        };
        walk.plan = Some(plan);
        let new = JOBS_MAX.saturating_sub(walk.jobs);
        walk.jobs += new;
        new
    }

    /// The next files to fetch; none ends the job.
    pub(crate) fn take(&self, directory: ObjectId, unread_max: u64) -> Option<Vec<ObjectId>> {
        let mut walks = self.walks();
        let walk = walks.iter_mut().find(|walk| walk.directory == directory)?;
        let plan = walk
            .plan
            .as_mut()
            .filter(|plan| plan.unread_bytes < unread_max);
        let batch = plan.map_or_else(Vec::new, |plan| {
            let rest = plan.left.len().saturating_sub(BATCH);
            plan.left.split_off(rest)
        });
        if batch.is_empty() {
            walk.jobs = walk.jobs.saturating_sub(1);
            return None;
        }
        Some(batch.into_iter().rev().collect())
    }

    /// Says which files of a batch are fetched, with their bytes; those left over come again.
    pub(crate) fn fetching(
        &self,
        directory: ObjectId,
        files: &[(ObjectId, u64)],
        rest: &[ObjectId],
    ) {
        let mut walks = self.walks();
        let walk = walks.iter_mut().find(|walk| walk.directory == directory);
        let Some(plan) = walk.and_then(|walk| walk.plan.as_mut()) else {
            return;
        };
        for (file, bytes) in files {
            plan.unread_bytes += bytes;
            plan.unread.insert(*file, *bytes);
        }
        plan.left.extend(rest.iter().rev());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: ObjectId = ObjectId(1);
    const MOST: u64 = 1000;

    fn listed(count: u64) -> Vec<(Vec<u8>, ObjectId)> {
        // Names are not in the order of the listing.
        let name = |number: u64| format!("{:03}", number * 37 % count).into_bytes();
        (0..count)
            .map(|number| (name(number), ObjectId(10 + number)))
            .collect()
    }

    fn begun(beside: &Beside, first: &[u64]) -> Plan {
        let jobs = first
            .iter()
            .map(|id| beside.note(DIRECTORY, ObjectId(*id), MOST));
        assert_eq!(jobs.sum::<usize>(), 1, "one job lists the directory");
        Plan::new(
            listed(101),
            &beside.first_of(DIRECTORY).expect("not listed yet"),
        )
    }

    #[test]
    fn the_order_is_that_of_the_reader() {
        let plan = begun(&Beside::default(), &[50, 51, 53]);
        let next: Vec<u64> = plan.left.iter().rev().take(2).map(|id| id.0).collect();
        assert_eq!(next, [54, 55]);
        assert_eq!(plan.left.len(), 98, "also what lies before");
        let mut by_name = listed(101);
        by_name.sort_unstable();
        let first: Vec<u64> = by_name[7..10].iter().map(|entry| entry.1.0).collect();
        let plan = begun(&Beside::default(), &first);
        assert_eq!(plan.left.last(), Some(&by_name[10].1));
    }

    /// When the program stops reading, fetching stops at the limit of unread bytes.
    #[test]
    fn what_is_not_read_ends_the_fetching() {
        let beside = Beside::default();
        let plan = begun(&beside, &[10, 11, 12]);
        assert_eq!(beside.begin(DIRECTORY, plan), JOBS_MAX - 1);
        let batch = beside.take(DIRECTORY, MOST).expect("something is left");
        assert_eq!(batch[0], ObjectId(13));
        let (chosen, rest) = batch.split_at(5);
        let sized: Vec<(ObjectId, u64)> = chosen.iter().map(|id| (*id, 200)).collect();
        beside.fetching(DIRECTORY, &sized, rest);
        for _ in 0..JOBS_MAX {
            assert_eq!(beside.take(DIRECTORY, MOST), None, "enough");
        }
        for id in 13..15 {
            assert_eq!(beside.note(DIRECTORY, ObjectId(id), MOST), 0);
        }
        let jobs = beside.note(DIRECTORY, ObjectId(15), MOST);
        assert_eq!(jobs, JOBS_MAX, "there is room again");
        let next = beside.take(DIRECTORY, MOST).expect("something is left");
        assert_eq!(next[0], ObjectId(18), "what was left over comes first");
    }

    #[test]
    fn single_files_of_many_directories_begin_nothing() {
        let beside = Beside::default();
        for directory in 0..100 {
            for file in 0..2 {
                let id = ObjectId(1000 + directory * 2 + file);
                assert_eq!(beside.note(ObjectId(directory), id, MOST), 0);
            }
        }
        assert!(beside.walks().len() <= WALKS_MAX);
    }
}
