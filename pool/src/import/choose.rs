//! Choosing the devices of a pool among all that have its labels.
//!
//! Several devices may have the guid of one vdev, such as a backup next to an image. And mirror
//! sides may have been imported apart and written to, so that they are different pools now
//! ([`crate::import::lineage`]). The import opens one history, with one device for each guid: the
//! newest state on any device, and all devices that belong to it. If that is unreadable because
//! devices are missing, it tries the next state.
//!
//! Equal copies are distinguished by the path in the labels. A path that the user named takes
//! precedence over all of this.
//!
//! Whether a device that was away for long belongs to the others is known only when the pool is
//! open, from the pool's own records.

use crate::import::label_tree::{assemble_tree, config_of, is_readable, newest_config};
use crate::import::lineage::{Groups, Moment, Past, State, complete_from, groups_of, named_by};
use crate::import::outsider::{Outsider, Why};
use cenote_base::{Guid, Txg};
use cenote_vdev::Member;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// States that are tried until one has all devices that it needs.
const TRIES_MAX: usize = 8;
/// Top-level vdevs that get an uberblock with each group.
pub(crate) const TOPS_AT_ONCE: u64 = 3;
/// Groups that a device may lack and be up to date: a power cut while they were written.
const LACKING_MAX: usize = 1;

/// A device with what it takes to compare it with others.
pub(crate) struct Known {
    pub member: Arc<Member>,
    pub leaf: Guid,
    pub top: Option<Guid>,
    pub groups: Groups,
    /// States of the pool that its labels name.
    pub named: Groups,
    pub complete_from: Option<Txg>,
}

impl Known {
    /// `None` for a device whose labels name no vdev.
    pub fn of(member: &Arc<Member>) -> Option<Self> {
        let config = config_of(member)?;
        let groups = groups_of(&member.labels);
        Some(Self {
            leaf: config.guid?,
            top: config.top_guid,
            complete_from: complete_from(&member.labels, &groups),
            groups,
            named: named_by(&member.labels),
            member: Arc::clone(member),
        })
    }

    fn path(&self) -> PathBuf {
        self.member.candidate.path.clone()
    }

    /// Whether it is where its labels say.
    fn is_at_home(&self) -> bool {
        let config = config_of(&self.member);
        let tree = config.and_then(|config| config.vdev_tree.as_ref());
        let mut leaves = tree.into_iter().flat_map(|tree| tree.leaves());
        let leaf = leaves.find(|leaf| leaf.guid == self.leaf);
        leaf.is_some_and(|leaf| leaf.path.as_ref() == Some(&self.member.candidate.path))
    }

    /// Whether its labels say that it may not have all that the pool had: it was new, and its
    /// resilver did not end; or it was not there when other devices got groups that are older than
    /// its newest one, or when the block was born (in `lost`) that cannot be read.
    pub fn may_lack<'a>(
        &self,
        others: impl IntoIterator<Item = &'a Self>,
        lost: Option<Txg>,
    ) -> bool {
        let config = config_of(&self.member);
        let tree = config.and_then(|config| config.vdev_tree.as_ref());
        let mut leaves = tree.into_iter().flat_map(|tree| tree.leaves());
        let leaf = leaves.find(|leaf| leaf.guid == self.leaf);
        if leaf.is_some_and(|leaf| leaf.resilver_txg.is_some() || leaf.rebuild_txg.is_some()) {
            return true;
        }
        let Some((from, (last, _))) = self.complete_from.zip(self.groups.iter().next_back()) else {
            return false;
        };
        // With more of them a group is noted on some only.
        let tops = config.and_then(|config| config.vdev_children);
        let gets_all = tops.is_some_and(|tops| tops <= TOPS_AT_ONCE);
        let was_away = |txg| (from..*last).contains(&txg) && !self.groups.contains_key(&txg);
        if gets_all && lost.is_some_and(was_away) {
            return true;
        }
        // Devices of one top-level vdev get the same groups.
        let beside = others.into_iter().filter(|other| other.top == self.top);
        let lacking = beside.flat_map(|other| other.groups.range(from..*last));
        lacking
            .filter(|(txg, _)| !self.groups.contains_key(txg))
            .count()
            > LACKING_MAX
    }

    /// Whether the power went while it was about to get the uberblock of this group, in which one
    /// of the devices beside it joined the pool.
    ///
    /// That device has no older group, so none is on both. But the labels are written before the
    /// uberblocks, and those that name the newcomer were written in this group or after it.
    pub fn was_about_to_get(&self, (txg, state): (Txg, State), beside: &[Self]) -> bool {
        let has_joined = |other: &&Self| {
            let only = other.groups.iter().next();
            other.groups.len() == 1 && only == Some((&txg, &state)) && other.top == self.top
        };
        let newest = self.groups.keys().next_back();
        let Some(config) = config_of(&self.member).filter(|_| newest.is_some_and(|n| *n < txg))
        else {
            return false;
        };
        let tree = config.vdev_tree.as_ref();
        let names = |leaf: Guid| tree.is_some_and(|tree| tree.leaves().any(|l| l.guid == leaf));
        let mut newcomers = beside.iter().filter(has_joined);
        config.txg == Some(txg) && newcomers.any(|newcomer| names(newcomer.leaf))
    }

    pub fn outsider(&self, why: Why, ours: Option<Moment>) -> Outsider {
        Outsider {
            path: self.path(),
            leaf: self.leaf,
            why,
            theirs: Moment::last_of(&self.groups),
            host: config_of(&self.member).and_then(|config| config.hostname.clone()),
            ours,
        }
    }
}

/// What devices know together of a pool's past.
#[derive(Default)]
pub(crate) struct Common {
    pub groups: Groups,
    /// By top-level vdev.
    pub floors: HashMap<Guid, Txg>,
}

impl Common {
    pub fn of<'a>(all: impl IntoIterator<Item = &'a Known>) -> Self {
        let mut common = Self::default();
        all.into_iter().for_each(|known| common.add(known));
        common
    }

    fn add(&mut self, known: &Known) {
        for (txg, state) in known.groups.iter().chain(&known.named) {
            self.groups.entry(*txg).or_insert(*state);
        }
        if let (Some(top), Some(from)) = (known.top, known.complete_from) {
            let floor = self.floors.entry(top).or_insert(from);
            *floor = (*floor).min(from);
        }
    }
}

/// One consistent set of devices.
struct Set {
    chosen: Vec<usize>,
    outsiders: Vec<(usize, Why)>,
}

/// The set of the device `first` and all that go with it, in this order.
fn set_of(first: usize, all: &[Known]) -> Set {
    let newest = all[first].groups.keys().next_back().copied();
    let mut set = Set {
        chosen: vec![first],
        outsiders: Vec::new(),
    };
    let mut common = Common::of([&all[first]]);
    let mut bearers: HashMap<Guid, usize> = HashMap::from([(all[first].leaf, first)]);
    for (index, known) in all.iter().enumerate().filter(|(index, _)| *index != first) {
        let past = Past {
            groups: &common.groups,
            complete_from: known.top.and_then(|top| common.floors.get(&top).copied()),
            newest: newest.unwrap_or_default(),
            missed: None,
            joined: None,
            kept: None,
            gets_all: true,
        };
        let parted = past.last_common(&known.groups).err();
        match (parted, bearers.get(&known.leaf)) {
            (Some(parted), _) => set.outsiders.push((index, parted.into())),
            (None, Some(other)) => {
                let other = &all[*other];
                let why = match known.groups == other.groups {
                    true => Why::Copy { of: other.path() },
                    false => Why::Older { than: other.path() },
                };
                set.outsiders.push((index, why));
            }
            (None, None) => {
                bearers.insert(known.leaf, index);
                common.add(known);
                set.chosen.push(index);
            }
        }
    }
    set.chosen.sort_unstable();
    set
}

/// Whether the devices of a set are enough to read all of the pool.
fn is_complete(pool: Guid, set: &Set, all: &[Known]) -> bool {
    let members = set
        .chosen
        .iter()
        .map(|index| Arc::clone(&all[*index].member));
    let members: Vec<_> = members.collect();
    let config = newest_config(&members);
    let tree = config.and_then(|config| assemble_tree(pool, config, &members));
    let there: HashSet<Guid> = set.chosen.iter().map(|index| all[*index].leaf).collect();
    tree.is_some_and(|tree| {
        let mut tops = tree.children.iter();
        tops.all(|top| is_readable(top, |leaf| there.contains(&leaf)) || top.is_log)
    })
}

/// Excludes devices that were not named if another one with the same guid was.
fn keep_named(all: Vec<Known>) -> (Vec<Known>, Vec<Outsider>) {
    let named = all.iter().filter(|known| known.member.candidate.is_named);
    let named: BTreeMap<Guid, PathBuf> = named.map(|known| (known.leaf, known.path())).collect();
    let mut outsiders = Vec::new();
    let mut kept = Vec::new();
    for known in all {
        let other = named.get(&known.leaf);
        match other.filter(|_| !known.member.candidate.is_named) {
            Some(other) => {
                let but = other.clone();
                outsiders.push(known.outsider(Why::NotNamed { but }, None));
            }
            None => kept.push(known),
        }
    }
    (kept, outsiders)
}

/// The devices that are opened as the pool, in the order in which they were found, and the others.
pub(crate) fn choose(pool: Guid, members: Vec<Arc<Member>>) -> (Vec<Arc<Member>>, Vec<Outsider>) {
    let known = members.iter().filter_map(Known::of).collect();
    let (mut all, mut outsiders) = keep_named(known);
    // Of indistinguishable devices the first one found is used.
    all.sort_by_cached_key(|known| {
        let best = known.member.labels.best_uberblock(None);
        let rank = best.map(|best| best.uberblock.rank());
        // Of a torn copy and the device itself the latter.
        let whole = known.member.labels.whole_until(Txg(u64::MAX));
        std::cmp::Reverse((rank, whole, known.is_at_home()))
    });
    let mut tried: HashSet<usize> = HashSet::new();
    let mut best: Option<Set> = None;
    for _ in 0..TRIES_MAX {
        let Some(first) = (0..all.len()).find(|index| !tried.contains(index)) else {
            break;
        };
        let set = set_of(first, &all);
        tried.extend(&set.chosen);
        // Copies and older states are no better than what they are copies of.
        let same = set
            .outsiders
            .iter()
            .filter(|(_, why)| !matches!(why, Why::Parted(_)));
        tried.extend(same.map(|(index, _)| *index));
        let is_complete = is_complete(pool, &set, &all);
        if is_complete || best.is_none() {
            best = Some(set);
        }
        if is_complete {
            break;
        }
    }
    let Some(set) = best else {
        return (Vec::new(), outsiders);
    };
    let chosen: HashSet<PlaceOf> = set.chosen.iter().map(|i| place(&all[*i].member)).collect();
    let ours = set
        .chosen
        .iter()
        .filter_map(|i| Moment::last_of(&all[*i].groups));
    let ours = ours.max_by_key(|moment| moment.txg);
    let others = set.outsiders.into_iter();
    outsiders.extend(others.map(|(index, why)| all[index].outsider(why, ours)));
    let mut members = members;
    members.retain(|member| chosen.contains(&place(member)));
    (members, outsiders)
}

type PlaceOf = (PathBuf, Option<u64>, Option<Guid>);

fn place(member: &Member) -> PlaceOf {
    let candidate = &member.candidate;
    let start = candidate.partition.as_ref().map(|part| part.start);
    let leaf = config_of(member).and_then(|config| config.guid);
    (candidate.path.clone(), start, leaf)
}
