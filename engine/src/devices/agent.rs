//! Automatic handling of failing devices. Devices with too many errors are faulted, and spares
//! replace them; with `autoreplace` a blank disk in the place of a lost one does. Devices in use
//! that lack data are resilvered, for any cause. Log devices that were faulted are used again when
//! they answer.
//!
//! The agent checks once a second. An action needs transaction groups and so is a job of its own,
//! one at a time. If it fails for a device, it is not repeated until the device was healthy in
//! between. A device that an administrator took offline is left alone.

use super::limits::{Limits, Record, Verdict};
use super::owner::is_nobodys;
use super::tree::{shared_tree, vdev_tree};
use crate::events::Events;
use crate::registry::imported::Imported;
use crate::registry::sitting::Sitting;
use cenote_base::rt::job::{Job, once};
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Guid, Txg};
use cenote_control::model::{SpareUse, Vdev, VdevKind, VdevState, VdevTree};
use cenote_device::{Opener, SystemOpener};
use cenote_dsl::Stored;
use cenote_pool::{Actor, Attachment, Companion, NewLeaf, Pool, Reach, Stranger, at_last_path};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a device is lost before another one takes its place: disks come up late, cables are
/// put back.
const GRACE: Duration = Duration::from_secs(5);

/// How long after a log device failed the agent tries it again: the first and the longest pause.
/// Each pause is twice as long as the last one, until the device has worked for the longest pause.
const LOG_PAUSE_MIN: Duration = Duration::from_secs(1);
const LOG_PAUSE_MAX: Duration = Duration::from_secs(64);

/// A step that the agent takes.
#[derive(Debug)]
enum Step {
    Judge(Guid, Verdict),
    Resilver(Range<Txg>),
    Spare { lost: Guid, spares: Vec<Guid> },
    Replace { lost: Guid, place: PathBuf },
}

#[derive(Debug, Default)]
struct Seen {
    records: HashMap<(u64, Guid), Record>,
    lost_since: HashMap<(u64, Guid), Duration>,
    /// Lost devices that were already handled, with or without success.
    tried: HashSet<(u64, Guid)>,
    /// What devices in use lack, since when, and whether a resilver was begun for just that.
    lacking: HashMap<u64, (Range<Txg>, Duration, bool)>,
    /// When the agent tries a log device next, and the pause before that.
    resting_logs: HashMap<(u64, Guid), (Duration, Duration)>,
    sitting: Sitting,
}

/// Looks after the devices of all pools.
#[derive(Debug, Default)]
pub(crate) struct Agent {
    seen: Mutex<Seen, ranks::DeviceAgent>,
    job: Job,
    /// Asks log devices, which may take as long as they need to fail.
    logs: Job,
}

/// Leaves, each with the vdev above it, and whether their top-level vdev works.
fn leaves(tree: &VdevTree) -> Vec<(&Vdev, &Vdev, bool)> {
    let mut found = Vec::new();
    for top in &tree.root.children {
        let works = matches!(top.state, VdevState::Online | VdevState::Degraded);
        let mut stack = vec![(top, &tree.root)];
        while let Some((vdev, above)) = stack.pop() {
            if vdev.children.is_empty() && vdev.kind.is_leaf() {
                found.push((vdev, above, works));
            }
            stack.extend(vdev.children.iter().map(|child| (child, vdev)));
        }
    }
    found
}

fn is_lost(leaf: &Vdev) -> bool {
    let states = [VdevState::CantOpen, VdevState::Removed, VdevState::Faulted];
    states.contains(&leaf.state)
}

impl Seen {
    /// What devices in use lack that no scan is bringing to them. For the same lack a resilver is
    /// begun once: what it could not bring, another one cannot.
    fn lacks_resilver(&mut self, imported: &Imported, now: Duration) -> Option<Range<Txg>> {
        let (pool, guid) = (&imported.pool, imported.load_guid);
        let scan = pool.scan_status().ok().flatten();
        let is_scanning = scan.is_some_and(|status| status.scan.is_running());
        let needed = pool.vdevs().is_resilver_needed();
        let Some(txgs) = needed.filter(|_| !is_scanning) else {
            if !is_scanning {
                self.lacking.remove(&guid);
            }
            return None;
        };
        match self.lacking.get_mut(&guid) {
            Some((known, since, begun)) if *known == txgs => {
                let is_due = !*begun && now.saturating_sub(*since) >= GRACE;
                *begun |= is_due;
                is_due.then_some(txgs)
            }
            _ => {
                self.lacking.insert(guid, (txgs, now, false));
                None
            }
        }
    }

    /// The log devices that it is time to ask whether they can be used again.
    fn due_logs(&mut self, imported: &Imported, now: Duration) -> Vec<Guid> {
        let (pool, load) = (&imported.pool, imported.load_guid);
        let resting = pool.vdevs().resting_logs();
        self.resting_logs.retain(|(of, leaf), (due, _)| {
            *of != load || resting.contains(leaf) || now.saturating_sub(*due) < LOG_PAUSE_MAX
        });
        let mut asked = Vec::new();
        for leaf in resting {
            match self.resting_logs.get_mut(&(load, leaf)) {
                None => {
                    let first = (now + LOG_PAUSE_MIN, LOG_PAUSE_MIN);
                    self.resting_logs.insert((load, leaf), first);
                }
                Some((due, pause)) if *due <= now => {
                    *pause = (*pause * 2).min(LOG_PAUSE_MAX);
                    *due = now + *pause;
                    asked.push(leaf);
                }
                Some(_) => {}
            }
        }
        asked
    }

    /// The due actions for one of the `pools`. Spares in `promised` are for other devices; if those
    /// do not use them, they are free at the next check.
    fn steps(
        &mut self,
        imported: &Imported,
        pools: &[Arc<Imported>],
        promised: &mut HashSet<Guid>,
        now: Duration,
    ) -> Vec<Step> {
        let pool = &imported.pool;
        let tree = shared_tree(pools, pool);
        let mut steps = Vec::new();
        let lacking = self.lacks_resilver(imported, now);
        steps.extend(lacking.map(Step::Resilver));
        for (leaf, above, works) in leaves(&tree) {
            let key = (imported.load_guid, Guid(leaf.guid));
            let counters = &leaf.counters;
            let errors = [
                counters.read_errors + counters.write_errors,
                counters.checksum_errors,
                counters.slow_ios,
            ];
            let record = self.records.entry(key).or_default();
            if record.add(now, errors) && leaf.state == VdevState::Online {
                let verdict = record.judge(now, &Limits::of(pool, key.1));
                steps.extend(verdict.map(|verdict| Step::Judge(key.1, verdict)));
            }
            let is_served = matches!(above.kind, VdevKind::Spare | VdevKind::Replacing);
            let is_bad = is_lost(leaf) || leaf.state == VdevState::Degraded;
            if !is_bad || !works || is_served {
                self.lost_since.remove(&key);
                self.tried.remove(&key);
                continue;
            }
            let since = *self.lost_since.entry(key).or_insert(now);
            if now.saturating_sub(since) < GRACE || self.tried.contains(&key) {
                continue;
            }
            if let Some(step) = step_for((imported, pools), &tree, leaf, promised) {
                self.tried.insert(key);
                if let Step::Spare { spares, .. } = &step {
                    promised.extend(spares);
                }
                steps.push(step);
            }
        }
        steps
    }
}

/// Whether a device has recorded errors.
fn has_errors(imported: &Imported, device: Guid) -> bool {
    let tree = vdev_tree(&imported.pool);
    let found = leaves(&tree)
        .into_iter()
        .find(|(leaf, ..)| leaf.guid == device.0);
    found.is_some_and(|(leaf, ..)| {
        let counters = &leaf.counters;
        let errors = counters.read_errors + counters.write_errors + counters.checksum_errors;
        errors + counters.slow_ios > 0
    })
}

/// What helps a lost device: a blank disk in its place, or a spare.
fn step_for(
    (imported, pools): (&Imported, &[Arc<Imported>]),
    tree: &VdevTree,
    leaf: &Vdev,
    promised: &HashSet<Guid>,
) -> Option<Step> {
    let (pool, lost) = (&imported.pool, Guid(leaf.guid));
    let properties = pool.dsl().pool_properties().unwrap_or_default();
    let replaces = properties.get("autoreplace") == Some(&Stored::Number(1));
    if replaces && leaf.state == VdevState::CantOpen {
        let tree = pool.vdev_tree();
        let mut configs = tree.leaves();
        let config = configs.find(|config| config.guid == lost)?;
        let is_unlabelled = at_last_path(config) == Some(Stranger::Unlabelled);
        // Only a blank disk may be overwritten: there is no administrator to confirm.
        let is_blank = |place: &PathBuf| is_unlabelled && is_nobodys(place);
        if let Some(place) = config.path.clone().filter(is_blank) {
            return Some(Step::Replace { lost, place });
        }
    }
    let is_free = |spare: &&Vdev| {
        spare.spare == Some(SpareUse::Available) && spare.state == VdevState::Online
    };
    let mut now = Vec::new();
    if !tree.spares.is_empty() && !tree.spares.iter().any(|spare| is_free(&spare)) {
        // One may have come up later than the pool.
        pool.find_auxiliary(Reach::Recorded);
        now = shared_tree(pools, pool).spares;
    }
    let free = tree.spares.iter().chain(&now).filter(is_free);
    let mut free: Vec<&Vdev> = free
        .filter(|spare| !promised.contains(&Guid(spare.guid)))
        .collect();
    // Distributed ones are the fastest; of the others prefer the smallest that fits.
    free.sort_by_key(|spare| (spare.kind != VdevKind::DraidSpare, spare.space.physical));
    let spares: Vec<Guid> = free.iter().map(|spare| Guid(spare.guid)).collect();
    (!spares.is_empty()).then_some(Step::Spare { lost, spares })
}

/// A device's path, by which people know it.
fn called(pool: &Pool, guid: Guid) -> String {
    let tree = pool.vdev_tree();
    let path = tree.leaves().find(|leaf| leaf.guid == guid);
    let path = path.and_then(|leaf| leaf.path.clone());
    path.map_or(guid.to_string(), |path| path.display().to_string())
}

fn take(imported: &Arc<Imported>, events: &Events, step: Step) {
    let (pool, name) = (&imported.pool, imported.name());
    let actor = Actor::default();
    let by = (&actor, "");
    let called = |guid: Guid| called(pool, guid);
    match step {
        Step::Resilver(txgs) => {
            if let Err(error) = pool.look_for_resilver() {
                log::warn!("pool '{name}': no resilver: {error}");
            }
            imported.resilver_tried.store(txgs.end.0, Ordering::Release);
        }
        Step::Judge(leaf, verdict) => {
            // `zpool clear` may have reset its errors meanwhile.
            let own = Arc::clone(imported);
            let is_due = move || has_errors(&own, leaf);
            match pool.blame(leaf, verdict == Verdict::Faulted, is_due) {
                Ok(true) => {
                    log::warn!(
                        "pool '{name}': device {} made too many errors",
                        called(leaf)
                    );
                }
                Ok(false) => {}
                Err(error) => log::warn!("pool '{name}': device {}: {error}", called(leaf)),
            }
        }
        Step::Spare { lost, spares } => {
            for spare in spares {
                match pool.attach_spare(lost, spare, false, by) {
                    Ok(()) => {
                        log::info!(
                            "pool '{name}': a spare stands in for device {}",
                            called(lost)
                        );
                        events.post("sysevent.fs.zfs.vdev_spare", pool);
                        return;
                    }
                    Err(error) => log::warn!("pool '{name}': spare {}: {error}", called(spare)),
                }
            }
        }
        Step::Replace { lost, place } => match replace(imported, lost, &place) {
            Ok(()) => events.post("sysevent.fs.zfs.vdev_autoreplace", pool),
            Err(error) => {
                log::warn!("pool '{name}': {}: {error}", place.display());
            }
        },
    }
}

/// Puts the device at `place` in the place of the lost leaf.
fn replace(imported: &Imported, lost: Guid, place: &Path) -> Result<(), String> {
    let device = SystemOpener::default().open_writable(place);
    let new = NewLeaf {
        path: place.to_owned(),
        device: device.map_err(|error| error.to_string())?,
        whole_disk: false,
    };
    let request = Attachment {
        old: lost,
        new,
        companion: Companion::Replacement,
        sequential: false,
        ashift: None,
    };
    let attached = imported.pool.attach(&request, (&Actor::default(), ""));
    attached.map_err(|error| error.to_string())
}

impl Agent {
    /// Asks these log devices whether they can be used again.
    fn ask_logs(&self, asked: Vec<(Arc<Imported>, Vec<Guid>)>) {
        let work = once(move || {
            for (imported, leaves) in asked {
                let name = imported.name();
                for leaf in leaves
                    .into_iter()
                    .filter(|leaf| imported.pool.try_log(*leaf))
                {
                    let device = called(&imported.pool, leaf);
                    log::info!("pool '{name}': log device {device} answers and is used again");
                }
            }
        });
        if let Err(error) = self.logs.start("log_devices", work) {
            log::warn!("log devices are not asked: {error}");
        }
    }

    /// Looks at the devices of these pools, and has done what is due.
    pub fn look(&self, events: &Arc<Events>, now: Duration, pools: &[Arc<Imported>]) {
        let mut seen = self.seen.lock();
        if !self.logs.is_at_work() {
            let writable = pools.iter().filter(|pool| pool.pool.is_writable());
            let asked = writable.map(|pool| (Arc::clone(pool), seen.due_logs(pool, now)));
            let asked = asked.filter(|(_, leaves)| !leaves.is_empty());
            let asked: Vec<(Arc<Imported>, Vec<Guid>)> = asked.collect();
            if !asked.is_empty() {
                self.ask_logs(asked);
            }
        }
        let is_there = |guid: u64| pools.iter().any(|pool| pool.load_guid == guid);
        seen.sitting.retain(is_there);
        pools.iter().for_each(|pool| seen.sitting.look(pool, now));
        if self.job.is_at_work() {
            return;
        }
        seen.records.retain(|key, _| is_there(key.0));
        seen.lost_since.retain(|key, _| is_there(key.0));
        seen.tried.retain(|key| is_there(key.0));
        seen.lacking.retain(|guid, _| is_there(*guid));
        seen.resting_logs.retain(|key, _| is_there(key.0));
        let mut work: Vec<(Arc<Imported>, Vec<Step>)> = Vec::new();
        // Several pools may share a spare, and a pool may have lost several devices.
        let mut promised = HashSet::new();
        for imported in pools {
            if imported.pool.is_writable() && imported.pool.suspended().is_none() {
                let steps = seen.steps(imported, pools, &mut promised, now);
                if !steps.is_empty() {
                    work.push((Arc::clone(imported), steps));
                }
            }
        }
        if work.is_empty() {
            return;
        }
        let events = Arc::clone(events);
        let work = once(move || {
            for (imported, steps) in work {
                steps
                    .into_iter()
                    .for_each(|step| take(&imported, &events, step));
            }
        });
        if let Err(error) = self.job.start("vdev_agent", work) {
            log::warn!("devices are not looked after: {error}");
        }
    }
}
