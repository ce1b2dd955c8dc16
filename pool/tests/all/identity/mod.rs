//! A model of devices that are removed, written to apart, copied, and returned.
//!
//! Two sites import, change and export pools of mirrored disks. Disks are pulled out, carried from
//! one site to the other, copied, attached, replaced and split off, in any order. The model knows
//! of each disk the last change on it, and of each change the one before. Two things must hold:
//!
//! - A pool writes to a disk only if it has the last change on that disk, or if the contents of the
//!   disk were given up explicitly.
//! - A disk that comes back as it left, to a pool that has what the disk has, is taken.
//!
//! At the end each disk that had everything is opened by itself: its last change is there.

mod shelf;

use crate::common;
use cenote_base::{Guid, RealEnv};
use cenote_device::Opener;
use cenote_dsl::DatasetName;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{
    Actor, Attachment, Companion, ImportOptions, NewLeaf, NewVdev, Offline, Pool, PoolCandidate,
    SplitRequest, VdevShape, assemble,
};
use cenote_tests::random::Random;
use cenote_vdev::{AllocationClass, clear_labels, scan};
use shelf::{Disk, Place, Shelf};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: usize = 64 << 20;
const SITES: [&str; 2] = ["/here", "/there"];
/// Disks that a history has at most.
const DISKS_MAX: usize = 8;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// One change of a pool; its number is its place in the list.
#[derive(Clone, Default)]
struct Change {
    before: Option<usize>,
    /// The last change that each leaf had, as far as it had all.
    synced: BTreeMap<Guid, usize>,
}

/// What is on a disk.
#[derive(Clone, Default)]
struct Content {
    pool: Guid,
    leaf: Guid,
    last: Option<usize>,
    is_whole: bool,
    is_copy: bool,
}

#[derive(Default)]
struct Site {
    pool: Option<Pool>,
    last: usize,
    /// Leaves that have all.
    healthy: BTreeSet<Guid>,
}

struct Model {
    shelf: Arc<Shelf>,
    random: Random,
    changes: Vec<Change>,
    contents: Vec<Content>,
    sites: [Site; 2],
    names: u64,
    refused: u32,
    done: Vec<String>,
}

fn by() -> (Actor, &'static str) {
    (Actor::default(), "")
}

/// The last change that a pool has.
fn last_change(pool: &Pool) -> usize {
    let name = DatasetName::parse(pool.name()).expect("a name");
    let dataset = pool.dsl().dataset(&name).expect("readable");
    let values = (0..3).filter_map(|number| common::value_of(&dataset, number));
    values.max().unwrap_or(0) as usize
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            shelf: Arc::default(),
            random: Random::new(seed),
            changes: vec![Change::default()],
            contents: Vec::new(),
            sites: Default::default(),
            names: 0,
            refused: 0,
            done: Vec::new(),
        };
        let count = 1 + model.random.index(3);
        let leaves = (0..count).map(|_| model.new_leaf(0)).collect();
        let shape = match count {
            1 => VdevShape::Single,
            _ => VdevShape::Mirror,
        };
        let vdev = NewVdev {
            shape,
            class: AllocationClass::Normal,
            leaves,
        };
        let mut request = common::Bench::new("tank").request(vec![vdev]);
        // Few slots in the rings: they are used again within a history.
        request.ashift = Some(*model.random.choose(&[9, 13]));
        let options = model.options(0);
        let pool = cenote_pool::create(request, &options, Arc::new(RealEnv::new()));
        model.sites[0].pool = Some(pool.expect("created"));
        model.change(0, 1);
        model
    }

    /// A site has no way to the disks of the other.
    fn options(&self, site: usize) -> ImportOptions {
        let place = Place {
            shelf: Arc::clone(&self.shelf),
            path: SITES[site].into(),
        };
        ImportOptions {
            force: true,
            opener: Arc::new(place),
            ..common::options()
        }
    }

    fn new_path(&mut self, site: usize) -> PathBuf {
        self.names += 1;
        // The order of names must not decide anything.
        let letter = char::from(b'a' + self.random.below(26) as u8);
        format!("{}/{letter}{}", SITES[site], self.names).into()
    }

    fn new_leaf(&mut self, site: usize) -> NewLeaf {
        let disk = Shelf::blank(self.contents.len(), SIZE);
        self.contents.push(Content::default());
        let path = self.new_path(site);
        self.shelf.put(&path, disk);
        self.leaf_at(&path)
    }

    fn leaf_at(&self, path: &Path) -> NewLeaf {
        NewLeaf {
            path: path.into(),
            device: self.shelf.open_writable(path).expect("there"),
            whole_disk: false,
        }
    }

    fn has(&self, change: usize, older: usize) -> bool {
        let mut at = Some(change);
        while let Some(change) = at {
            if change == older {
                return true;
            }
            at = self.changes[change].before;
        }
        false
    }

    fn disk_at(&self, path: &Path) -> Option<Arc<Disk>> {
        let all = self.shelf.all().into_iter();
        all.filter(|(own, _)| own == path)
            .map(|(_, disk)| disk)
            .next()
    }

    /// Takes note of what was written since the last time.
    fn settle(&mut self) {
        for (site, place) in SITES.iter().enumerate() {
            if let Some(pool) = &self.sites[site].pool {
                pool.sync()
                    .unwrap_or_else(|error| panic!("{:?}: {error}", self.done));
            }
            for (path, disk) in self.shelf.at(place) {
                if !disk.take_written() {
                    continue;
                }
                let (content, last) = (&self.contents[disk.number], self.sites[site].last);
                let is_ours = content.last.is_none_or(|on_it| self.has(last, on_it));
                let done = &self.done;
                assert!(is_ours, "{path:?} was written over: {done:?}");
                let content = &mut self.contents[disk.number];
                (content.last, content.is_whole) = (Some(last), false);
            }
            self.note_healthy(site);
        }
    }

    fn note_healthy(&mut self, site: usize) {
        let Some(pool) = &self.sites[site].pool else {
            return;
        };
        let (shape, last) = (pool.vdevs(), self.sites[site].last);
        let silent = shape.silent_leaves();
        let (guid, tree) = (pool.guid(), pool.vdev_tree());
        let leaves = tree.leaves();
        // A disk that came back under another name is still where it was by the configuration.
        let found = pool.found_devices();
        let path_of = |leaf| found.get(&leaf).map(|found| found.path.clone());
        let leaves: Vec<_> = leaves.map(|leaf| (leaf.guid, path_of(leaf.guid))).collect();
        let mut healthy = BTreeSet::new();
        for (leaf, path) in leaves {
            let is_whole =
                shape.is_writable(leaf) && shape.dtl(leaf).is_empty() && !silent.contains(&leaf);
            let disk = path.and_then(|path| self.disk_at(&path));
            if let Some(disk) = disk.filter(|_| shape.is_open(leaf) && !silent.contains(&leaf)) {
                let content = &mut self.contents[disk.number];
                (content.pool, content.leaf) = (guid, leaf);
                content.is_whole = is_whole;
                if is_whole {
                    (content.last, content.is_copy) = (Some(last), false);
                    healthy.insert(leaf);
                    self.changes[last].synced.insert(leaf, last);
                }
            }
        }
        self.sites[site].healthy = healthy;
    }

    /// Whether a disk is as it left, and this change has what it has.
    fn must_be_taken(&self, disk: &Disk, pool: Guid, last: usize) -> bool {
        let content = &self.contents[disk.number];
        let known = self.changes[last].synced.get(&content.leaf).copied();
        let is_same = content.pool == pool && content.last.is_some() && known == content.last;
        is_same && content.is_whole && !content.is_copy
    }

    fn change(&mut self, site: usize, count: u64) {
        for _ in 0..count {
            let number = self.changes.len();
            let Site { pool, last, .. } = &mut self.sites[site];
            let Some(pool) = pool else { return };
            let mut change = self.changes[*last].clone();
            change.before = Some(*last);
            self.changes.push(change);
            *last = number;
            let changed = common::change(pool, number as u64);
            changed.unwrap_or_else(|error| panic!("{:?}: {error}", self.done));
        }
        self.settle();
    }

    fn leave(&mut self, site: usize, is_export: bool) {
        if let Some(pool) = self.sites[site].pool.take() {
            self.done.push(format!("{site} leave {is_export}"));
            let left = match is_export {
                true => pool.export(),
                false => pool.close(),
            };
            left.unwrap_or_else(|error| panic!("{:?}: {error}", self.done));
            drop(pool);
            self.settle();
        }
    }

    fn candidates(&self, place: &str) -> Vec<PoolCandidate> {
        assemble(scan(&[place.into()], self.shelf.as_ref()))
    }

    fn import(&mut self, site: usize) {
        let candidates = self.candidates(SITES[site]);
        if candidates.is_empty() || self.sites[site].pool.is_some() {
            return;
        }
        let candidate = &candidates[self.random.index(candidates.len())];
        self.done.push(format!("{site} import"));
        let opened = cenote_pool::import(candidate, &self.options(site), Arc::new(RealEnv::new()));
        let here = self.shelf.at(SITES[site]);
        let pool = match opened {
            Ok(pool) => pool,
            Err(error) => {
                // Of two with one guid only the newer one is tried: the other may be a backup.
                let is_same = |one: &Content, other: &Content| {
                    one.pool == other.pool && one.leaf == other.leaf
                };
                let is_whole = |disk: &Arc<Disk>| {
                    let content = &self.contents[disk.number];
                    let all = here.iter().map(|(_, other)| &self.contents[other.number]);
                    let bearers = all.filter(|other| is_same(content, other)).count();
                    content.pool == candidate.guid && content.is_whole && bearers == 1
                };
                let some = here.iter().any(|(_, disk)| is_whole(disk));
                assert!(!some, "{:?}: {error}", self.done);
                return;
            }
        };
        let last = last_change(&pool);
        self.done.push(format!("{site} has {last}"));
        for (path, disk) in &here {
            let leaf = self.contents[disk.number].leaf;
            let bearers = here.iter().filter(|(_, other)| {
                let content = &self.contents[other.number];
                content.leaf == leaf && content.pool == pool.guid()
            });
            let is_one = bearers.count() == 1;
            let tree = pool.vdev_tree();
            let is_leaf = tree.leaves().any(|own| own.guid == leaf);
            if is_one && is_leaf && self.must_be_taken(disk, pool.guid(), last) {
                let done = &self.done;
                let outsiders = pool.outsiders();
                // A device that was taken out of use is closed, and not refused.
                let is_refused = outsiders.iter().any(|outsider| outsider.leaf == leaf);
                let rests = pool.is_out_of_use(leaf) && !is_refused;
                assert!(
                    pool.vdevs().is_open(leaf) || rests,
                    "{path:?} is refused: {outsiders:?} {done:?}"
                );
            }
        }
        self.refused += pool.outsiders().len() as u32;
        (self.sites[site].pool, self.sites[site].last) = (Some(pool), last);
        self.change(site, 1);
    }

    fn offline(&mut self, site: usize) {
        let healthy: Vec<Guid> = self.sites[site].healthy.iter().copied().collect();
        let Some(pool) = self.sites[site].pool.as_ref().filter(|_| healthy.len() > 1) else {
            return;
        };
        let leaf = *self.random.choose(&healthy);
        self.done.push(format!("{site} offline {leaf}"));
        let (actor, command) = by();
        let how = Offline {
            is_temporary: self.random.below(2) == 0,
            is_fault: false,
        };
        // The pool knows when it needs the device.
        let _ = pool.offline(leaf, how, (&actor, command));
        self.settle();
    }

    fn online(&mut self, site: usize) {
        let Some(pool) = &self.sites[site].pool else {
            return;
        };
        let (shape, last) = (pool.vdevs(), self.sites[site].last);
        let tree = pool.vdev_tree();
        let leaves = tree.leaves();
        let out = leaves.filter(|leaf| !shape.is_writable(leaf.guid));
        let out: Vec<Guid> = out.map(|leaf| leaf.guid).collect();
        if out.is_empty() {
            return;
        }
        let leaf = *self.random.choose(&out);
        self.done.push(format!("{site} online {leaf}"));
        let mut looked = Default::default();
        if !shape.is_open(leaf) {
            looked = pool.look_for(vec![leaf]).expect("all can be opened");
        }
        let cenote_pool::LookedFor {
            mut devices,
            outsiders,
        } = looked;
        let found = devices.remove(&leaf);
        if found.is_none() {
            self.refused += outsiders.len() as u32;
            for outsider in outsiders {
                let disk = self.disk_at(&outsider.path).expect("there");
                let must = self.must_be_taken(&disk, pool.guid(), last);
                assert!(!must, "{outsider}: {:?}", self.done);
            }
            if !shape.is_open(leaf) {
                return;
            }
        }
        let (actor, command) = by();
        let done = pool.online(leaf, found, (&actor, command));
        done.unwrap_or_else(|error| panic!("{:?}: {error}", self.done));
        self.settle();
    }

    fn clear(&mut self, site: usize) {
        if let Some(pool) = &self.sites[site].pool {
            self.done.push(format!("{site} clear"));
            // What it refuses is not written to, which is what counts here.
            self.refused += u32::from(pool.clear(&[]).is_err());
            self.settle();
        }
    }

    /// Carries a disk to the same or the other site, under the same name or another.
    fn carry(&mut self) {
        let all = self.shelf.all();
        let (path, disk) = self.random.choose(&all).clone();
        let site = usize::from(!path.starts_with(SITES[0]));
        let content = &self.contents[disk.number];
        if let Some(pool) = &self.sites[site].pool {
            // One that is not whole may be all that a pool has.
            let (found, leaf) = (pool.found_devices(), content.leaf);
            let is_used = found.get(&leaf).is_some_and(|found| found.path == path);
            let mut others = self.sites[site].healthy.iter();
            if is_used && !others.any(|other| *other != leaf) {
                return;
            }
        }
        let healthy = &mut self.sites[site].healthy;
        if self.sites[site].pool.is_some() && healthy.contains(&content.leaf) {
            if healthy.len() < 2 {
                return;
            }
            healthy.remove(&content.leaf);
        }
        self.settle_before_pull();
        self.shelf.pull(&path);
        // A resilver may have written to it since.
        if disk.take_written() {
            let (content, last) = (&self.contents[disk.number], self.sites[site].last);
            let is_ours = content.last.is_none_or(|on_it| self.has(last, on_it));
            assert!(is_ours, "{path:?} was written over: {:?}", self.done);
            let content = &mut self.contents[disk.number];
            (content.last, content.is_whole) = (Some(last), false);
        }
        self.sites[site]
            .healthy
            .remove(&self.contents[disk.number].leaf);
        let to = self.random.index(2);
        let new = match to == site && self.random.below(2) == 0 {
            true => path.clone(),
            false => self.new_path(to),
        };
        self.done.push(format!("carry {path:?} {new:?}"));
        // Without it for a while.
        if self.random.below(2) == 0 {
            let count = 1 + self.random.below(3);
            self.change(site, count);
        }
        self.shelf.put(&new, disk);
        self.settle();
    }

    /// What was written by now counts for the site where the disk still is.
    fn settle_before_pull(&mut self) {
        self.settle();
    }

    fn copy(&mut self) {
        let all = self.shelf.all();
        if all.len() >= DISKS_MAX {
            // The oldest copy is thrown away.
            let is_copy = |disk: &Disk| self.contents[disk.number].is_copy;
            let old = all.iter().find(|(_, disk)| is_copy(disk));
            if let Some((path, _)) = old {
                self.shelf.pull(path);
            }
            return;
        }
        self.settle();
        let (path, disk) = self.random.choose(&all).clone();
        let copy = disk.copy(self.contents.len());
        let mut content = self.contents[disk.number].clone();
        content.is_copy = true;
        self.contents.push(content);
        let to = self.random.index(2);
        let new = self.new_path(to);
        self.done.push(format!("copy {path:?} {new:?}"));
        self.shelf.put(&new, copy);
    }

    /// Attaches a disk to a leaf, or replaces it: with a new disk, or one whose contents are given
    /// up.
    fn attach(&mut self, site: usize) {
        let Some(pool) = &self.sites[site].pool else {
            return;
        };
        let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        let (old, shape) = (*self.random.choose(&leaves), pool.vdevs());
        let open: Vec<Guid> = leaves
            .into_iter()
            .filter(|leaf| shape.is_open(*leaf))
            .collect();
        let here = self.shelf.at(SITES[site]);
        let given_up = here.into_iter().find(|(_, disk)| {
            let content = &self.contents[disk.number];
            content.leaf == old && !open.contains(&old)
        });
        let new = match given_up {
            Some((path, disk)) => {
                self.done.push(format!("{site} give up {path:?}"));
                let new = self.leaf_at(&path);
                clear_labels(new.device.as_ref()).expect("in range");
                self.contents[disk.number] = Content::default();
                disk.take_written();
                new
            }
            None if self.shelf.all().len() >= DISKS_MAX => return,
            None => self.new_leaf(site),
        };
        let companion = match self.random.below(2) {
            0 => Companion::Side,
            _ => Companion::Replacement,
        };
        self.done.push(format!("{site} attach {companion:?} {old}"));
        let request = Attachment {
            old,
            new,
            companion,
            sequential: false,
            ashift: None,
        };
        let (actor, command) = by();
        let pool = self.sites[site].pool.as_ref().expect("looked at above");
        let _ = pool.attach(&request, (&actor, command));
        self.settle();
        self.wait(site);
    }

    fn detach(&mut self, site: usize) {
        let Some(pool) = &self.sites[site].pool else {
            return;
        };
        let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        let leaf = *self.random.choose(&leaves);
        self.done.push(format!("{site} detach {leaf}"));
        let (actor, command) = by();
        let _ = pool.detach(leaf, (&actor, command));
        self.settle();
    }

    fn split(&mut self, site: usize) {
        let Some(pool) = &self.sites[site].pool else {
            return;
        };
        self.done.push(format!("{site} split"));
        let request = SplitRequest {
            name: format!("split{}", self.names),
            sides: Vec::new(),
        };
        let (actor, command) = by();
        if let Ok(new) = pool.split(&request, (&actor, command)) {
            let guid = new.guid();
            new.export().expect("written");
            drop(new);
            self.settle();
            // What went is whole by itself, and another pool's. Only the guid says which: an
            // earlier split without a new disk in between has the same name, and its older
            // state. Nothing was written to that disk now.
            let gone = self.candidates(SITES[site]);
            let gone = gone.iter().filter(|candidate| candidate.guid == guid);
            let last = self.sites[site].last;
            for (candidate, member) in gone.flat_map(|c| c.members.iter().map(move |m| (c, m))) {
                let disk = self.disk_at(&member.candidate.path).expect("there");
                let leaf = member.labels.newest_config().and_then(|label| label.guid());
                self.contents[disk.number] = Content {
                    pool: candidate.guid,
                    leaf: leaf.expect("labelled"),
                    last: Some(last),
                    is_whole: true,
                    is_copy: false,
                };
            }
        }
        self.settle();
    }

    /// Waits until nothing is brought to devices any more.
    fn wait(&mut self, site: usize) {
        let begun = Instant::now();
        while let Some(pool) = &self.sites[site].pool {
            let scan = pool.scan_status().expect("readable");
            if !scan.is_some_and(|status| status.scan.is_running()) {
                break;
            }
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{:?}",
                self.done
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        self.settle();
    }

    fn step(&mut self) {
        let site = self.random.index(2);
        match self.random.below(20) {
            0..=3 => {
                let count = *self.random.choose(&[1, 2, 3, 24]);
                self.done.push(format!("{site} change {count}"));
                self.change(site, count);
            }
            4 | 5 => {
                let is_export = self.random.below(3) > 0;
                self.leave(site, is_export);
            }
            6..=9 => self.import(site),
            10 => self.offline(site),
            11 | 12 => self.online(site),
            13 => self.clear(site),
            14..=16 => self.carry(),
            17 => self.copy(),
            18 => self.attach(site),
            _ => match self.random.below(3) {
                0 => self.detach(site),
                1 => self.split(site),
                _ => self.wait(site),
            },
        }
    }

    /// Each disk that had all has it still.
    fn check(&mut self) {
        for site in 0..SITES.len() {
            self.wait(site);
            if let Some(pool) = &self.sites[site].pool {
                let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
                assert!(report.damaged.is_empty(), "{report:?} {:?}", self.done);
            }
            self.leave(site, true);
        }
        for (path, disk) in self.shelf.all() {
            let content = self.contents[disk.number].clone();
            let Some(last) = content.last.filter(|_| content.is_whole) else {
                continue;
            };
            let found = self.candidates(path.to_str().expect("plain"));
            let candidate = found
                .iter()
                .find(|candidate| candidate.guid == content.pool);
            let done = &self.done;
            let candidate = candidate.unwrap_or_else(|| panic!("{path:?} is lost: {done:?}"));
            let options = ImportOptions {
                read_only: true,
                ..self.options(usize::from(!path.starts_with(SITES[0])))
            };
            let pool = cenote_pool::import(candidate, &options, Arc::new(RealEnv::new()));
            let pool = pool.unwrap_or_else(|error| panic!("{path:?}: {error}: {done:?}"));
            assert_eq!(last_change(&pool), last, "{path:?}: {done:?}");
        }
    }
}

/// One history; how often a device was refused in it.
fn history(seed: u64) -> u32 {
    eprintln!("seed {seed}");
    let mut model = Model::new(seed);
    for _ in 0..24 {
        model.step();
    }
    model.check();
    model.refused
}

/// A side that was written to apart was resilvered over, and a copy beside an image taken for it.
/// More histories: `cargo xtask identity SEED --count N`.
#[test]
fn devices_that_go_and_come_back() {
    let number = |name: &str| std::env::var(name).ok()?.parse().ok();
    let seed = number("CENOTE_IDENTITY_SEED").unwrap_or(1);
    let count = number("CENOTE_IDENTITY_COUNT").unwrap_or(50);
    let refused: u32 = (seed..seed + count).map(history).sum();
    eprintln!("{count} histories from seed {seed}: {refused} devices were refused");
    assert!(refused > 0 || count < 10, "no device was ever refused");
}
