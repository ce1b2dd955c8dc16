//! Which groups a device must have, and what follows if it does not have them.
//!
//! A device that was away, or was put back from a copy, lacks the uberblocks of groups. How many
//! groups a device may lack although it was there all the time depends on its top-level vdev and
//! on the software that wrote the pool:
//!
//! | device | uberblocks that it gets |
//! | --- | --- |
//! | log devices | of every group, if the labels say so ([`PoolConfig::logs_have_groups`]) |
//! | log devices otherwise | of the groups that change the configuration |
//! | up to three other top-level vdevs | of every group |
//! | more of them | Cenote: three in turn, by the group's number. OpenZFS: any three |
//!
//! Rings hold the last 16 to 128 groups, so a log device whose labels do not change lacks every
//! group that the others still know. It is judged by its labels instead: all devices get new
//! labels together, so it has the ones that the pool wrote last. OpenZFS writes labels of some
//! devices only. There nothing speaks against a log device but a group that it cannot have, and the
//! ends of its chains count.
//!
//! A top-level vdev none of whose devices has a group that one of them must have is an older copy.
//! Nothing could give it what it lacks, so it is not used. The newest group is not required of data
//! devices, as a power cut may have stopped it halfway. Log devices have it first.
//!
//! Labels of one device that do not all have the newest group have two causes. A power cut between
//! the writes of its uberblock: all that the group wrote was made durable before. Or the device is
//! the copy of one that was in use. So the group is opened only if all that it wrote is there.
//!
//! A group that changes the configuration writes labels 1 and 3 when every device has its
//! uberblock. So if one device has the newest group in these labels, no power cut stopped it, and
//! all devices must have it. An export ends with such a group.

use crate::absence::away;
use crate::error::ImportError;
use crate::import::candidate::PoolCandidate;
use crate::import::choose::{Common, Known, TOPS_AT_ONCE};
use crate::import::label_tree::config_of;
use crate::import::lineage::{Groups, Moment, Past, State};
use crate::import::options::ImportOptions;
use crate::import::outsider::{Outsider, Why};
use cenote_base::{Guid, Txg};
use cenote_dmu::ObjectSet;
use cenote_ondisk::label::LABELS;
use cenote_ondisk::pool_config::PoolConfig;
use cenote_ondisk::{Uberblock, VdevConfig};
use cenote_vdev::{DeviceLabels, Label, Member, TxgSet};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Whether a top-level vdev has a group in some labels of its devices, and no device has it in all.
pub(crate) fn is_in_part(candidate: &PoolCandidate, tree: &VdevConfig, txg: Txg) -> bool {
    let known: Vec<Known> = candidate.members.iter().filter_map(Known::of).collect();
    let data = tree.children.iter().filter(|top| !top.is_log);
    data.into_iter().any(|top| {
        let is_below = |one: &&Known| top.leaves().any(|leaf| leaf.guid == one.leaf);
        let own = known.iter().filter(is_below);
        let mut having = own.filter(|one| one.groups.contains_key(&txg)).peekable();
        let is_whole = |one: &Known| one.member.labels.whole_until(txg) >= txg;
        having.peek().is_some() && !having.any(is_whole)
    })
}

/// What the labels and uberblocks of the other devices require of each device.
pub(crate) struct Required {
    /// The newest labels of devices that are no logs.
    labels: Option<PoolConfig>,
    /// The newest group of these devices.
    newest: Txg,
    /// Whether that group came as far as labels 1 and 3.
    is_newest_sealed: bool,
    /// The top-level vdevs that get uberblocks in turn.
    turns: Vec<Guid>,
}

/// What devices of a top-level vdev must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Must {
    /// This group, which no power cut stopped.
    Sealed(Txg),
    /// This group, or the labels of a later one that a power cut stopped.
    Group(Txg),
}

impl Must {
    fn txg(self) -> Txg {
        match self {
            Self::Sealed(txg) | Self::Group(txg) => txg,
        }
    }

    fn is_met_by(self, labels: &DeviceLabels, groups: &Groups) -> bool {
        match self {
            Self::Sealed(txg) => {
                // A device that failed to take the uberblock has the labels that came after it.
                let odd = sealed_labels(labels).filter(|label| label.txg() >= txg);
                labels.whole_until(Txg(u64::MAX)) >= txg || odd.count() == LABELS / 2
            }
            Self::Group(txg) => proven_until(labels, groups) >= txg,
        }
    }
}

/// The valid ones of the labels that are written after the uberblock.
fn sealed_labels(labels: &DeviceLabels) -> impl Iterator<Item = &Label> {
    let all = labels.labels.iter();
    all.filter(|label| label.index % 2 == 1 && label.is_valid())
}

fn is_log(tree: &VdevConfig, leaf: Guid) -> bool {
    let mut logs = tree.children.iter().filter(|top| top.is_log);
    logs.any(|top| top.leaves().any(|below| below.guid == leaf))
}

/// The newest valid label of a device up to `last`.
fn label_until(labels: &DeviceLabels, last: Txg) -> Option<&PoolConfig> {
    let valid = labels.labels.iter().filter(|label| label.is_valid());
    let valid = valid.filter(|label| label.txg() <= last);
    valid.max_by_key(|label| label.txg())?.config.as_ref()
}

impl Required {
    /// Of the pool whose tree this is, and that was found as `candidate`.
    pub fn of(candidate: &PoolCandidate, tree: &VdevConfig) -> Self {
        let data = candidate.members.iter().filter(|member| {
            let leaf = config_of(member).and_then(|config| config.guid);
            leaf.is_some_and(|leaf| !is_log(tree, leaf))
        });
        let data: Vec<&Arc<Member>> = data.collect();
        let known = data.iter().filter_map(|member| Known::of(member));
        let newest = known.filter_map(|one| one.groups.keys().next_back().copied());
        let newest = newest.max().unwrap_or_default();
        let labels = data
            .iter()
            .filter_map(|member| label_until(&member.labels, newest));
        let turns = tree.children.iter();
        let turns = turns.filter(|top| !top.is_log && top.kind.is_concrete());
        let mut sealed = data.iter().flat_map(|member| sealed_labels(&member.labels));
        Self {
            is_newest_sealed: sealed.any(|label| label.txg() == newest),
            labels: labels.max_by_key(|config| config.txg).cloned(),
            newest,
            turns: turns.map(|top| top.guid).collect(),
        }
    }

    /// Whether log devices get every group.
    fn logs_have_groups(&self) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|labels| labels.logs_have_groups)
    }

    /// Whether this software wrote the pool last.
    fn is_ours(&self) -> bool {
        let labels = self.labels.as_ref();
        labels.is_some_and(|labels| labels.previous.is_some())
    }

    /// Whether a log device has the labels that the pool wrote last, as far as they tell.
    fn is_labelled(&self, log: &DeviceLabels) -> bool {
        let Some(labels) = self.labels.as_ref().filter(|_| self.is_ours()) else {
            return true;
        };
        let own = label_until(log, self.newest);
        let is_same = own.is_some_and(|own| own.previous == labels.previous);
        is_same && Some(log.labelled_until(self.newest)) == labels.txg
    }

    /// Whether a device that is there gets the uberblock of every group.
    fn gets_all(&self, top: &VdevConfig, labels: &DeviceLabels) -> bool {
        match top.is_log {
            true => self.logs_have_groups() || !self.is_labelled(labels),
            false => self.turns.len() as u64 <= TOPS_AT_ONCE,
        }
    }

    /// Whether a log device is not as the pool left it. One that is away has its last groups kept
    /// by the pool.
    pub fn is_outdated(&self, log: &DeviceLabels) -> bool {
        match self.logs_have_groups() {
            true => log.whole_until(Txg(u64::MAX)) < self.newest,
            false => !self.is_labelled(log),
        }
    }

    /// The last group before a log device was given up, if labels of then say so.
    pub fn rested_after(&self, log: Guid) -> Option<Txg> {
        let labels = self.labels.as_ref()?;
        let mut rested = labels.rested_logs.iter();
        rested.find(|(leaf, _)| *leaf == log).map(|(_, txg)| *txg)
    }

    /// The last group that devices of a top-level vdev must have; `None` if none is.
    fn last_for(&self, top: &VdevConfig, groups: &Groups) -> Option<Must> {
        let labels = self.labels.as_ref().filter(|_| self.is_ours())?;
        let count = self.turns.len();
        let place = self.turns.iter().position(|turn| *turn == top.guid)?;
        if self.is_newest_sealed {
            return Some(Must::Sealed(self.newest));
        }
        let from = labels.txg.unwrap_or_default();
        let mut before = groups.range(from..).rev();
        let newest = before.next().map_or(Txg(0), |(txg, _)| *txg);
        let is_its = |txg: &Txg| {
            let first = usize::try_from(txg.0).unwrap_or(0) % count;
            let turn = (place + count - first) % count;
            *txg == from || turn < TOPS_AT_ONCE as usize
        };
        let mut its = before.map(|(txg, _)| *txg).filter(|txg| *txg < newest);
        its.find(is_its).map(Must::Group)
    }
}

/// Power cuts in a row, each while the first group after an import was written.
const CUTS_MAX: usize = 3;

/// The last group that is on a device for certain, by uberblocks; or by labels that it got for a
/// group that a power cut stopped before its uberblock, perhaps several times in a row.
fn proven_until(labels: &DeviceLabels, groups: &Groups) -> Txg {
    let last = Txg(u64::MAX);
    let whole = labels.whole_until(last);
    let labelled = labels.labelled_until(last).max(whole);
    let after = Txg(whole.0.saturating_add(1)).min(labelled);
    match groups.range(after..labelled).count() <= CUTS_MAX {
        true => labelled,
        false => whole,
    }
}

/// What is known of a pool's devices when it is open.
struct Facts<'a> {
    known: &'a [Known],
    tree: &'a VdevConfig,
    opened: &'a Uberblock,
    missed: &'a HashMap<Guid, TxgSet>,
    away: &'a BTreeMap<Guid, Groups>,
    required: &'a Required,
}

/// Refuses devices that have been away, and have something else than the pool had on them; and
/// older copies of devices that have no others to make up for them.
pub(crate) fn check_parted(
    (candidate, missed): (&PoolCandidate, &HashMap<Guid, TxgSet>),
    mos: &Arc<ObjectSet>,
    (tree, opened): (&VdevConfig, &Uberblock),
    options: &ImportOptions,
) -> Result<(), ImportError> {
    let known: Vec<Known> = candidate.members.iter().filter_map(Known::of).collect();
    // A read-only import does not need this table, so it may be damaged.
    let away = match (away::load(mos), options.read_only) {
        (Err(_), true) => BTreeMap::new(),
        (loaded, _) => loaded?,
    };
    let facts = Facts {
        known: &known,
        tree,
        opened,
        missed,
        away: &away,
        required: &Required::of(candidate, tree),
    };
    let mut outsiders = facts.parted();
    if outsiders.is_empty() && (!options.read_only || options.dry_run) {
        outsiders = facts.outdated();
    }
    match outsiders.is_empty() {
        true => Ok(()),
        false => Err(ImportError::Parted { outsiders }),
    }
}

impl Facts<'_> {
    fn ours(&self) -> Moment {
        Moment {
            txg: self.opened.txg,
            seconds: self.opened.timestamp,
        }
    }

    /// Devices with something else on them than the pool had.
    fn parted(&self) -> Vec<Outsider> {
        let (known, opened) = (self.known, self.opened);
        let newest = known.iter().filter_map(|k| k.groups.keys().next_back());
        let newest = newest.max().copied().unwrap_or(opened.txg);
        let state = State::from(opened);
        let mut outsiders = Vec::new();
        for (index, one) in known.iter().enumerate() {
            let tops = self.tree.children.iter();
            let place = tops.into_iter().find_map(|top| {
                let leaf = top.leaves().find(|leaf| leaf.guid == one.leaf)?;
                Some((leaf, top))
            });
            let has_opened = one.groups.get(&opened.txg) == Some(&state);
            let is_ours = has_opened || one.was_about_to_get((opened.txg, state), known);
            let Some((leaf, top)) = place.filter(|_| !is_ours) else {
                continue;
            };
            let others = known.iter().enumerate();
            let others = others.filter(|(other, _)| *other != index);
            let common = Common::of(others.map(|(_, other)| other));
            let past = Past {
                groups: &common.groups,
                complete_from: one.top.and_then(|top| common.floors.get(&top).copied()),
                newest,
                missed: self.missed.get(&one.leaf),
                joined: leaf.resilver_txg.or(leaf.rebuild_txg),
                kept: self.away.get(&one.leaf),
                gets_all: self.required.gets_all(top, &one.member.labels),
            };
            if let Err(parted) = past.last_common(&one.groups) {
                outsiders.push(one.outsider(parted.into(), Some(self.ours())));
            }
        }
        outsiders
    }

    /// All devices of top-level vdevs that lack a group that they must have: older copies, and
    /// torn ones.
    fn outdated(&self) -> Vec<Outsider> {
        let common = Common::of(self.known);
        let mut outsiders = Vec::new();
        for top in &self.tree.children {
            let Some(must) = self.required.last_for(top, &common.groups) else {
                continue;
            };
            let below = |one: &&Known| top.leaves().any(|leaf| leaf.guid == one.leaf);
            let own: Vec<&Known> = self.known.iter().filter(below).collect();
            let has_it = |one: &&Known| must.is_met_by(&one.member.labels, &common.groups);
            // What the pool knows to be behind is another matter.
            let is_known = |one: &&Known| {
                let missed = self.missed.get(&one.leaf);
                self.away.contains_key(&one.leaf)
                    || missed.is_some_and(|missed| missed.contains(must.txg()))
            };
            if own.iter().any(has_it) || own.iter().any(is_known) {
                continue;
            }
            outsiders.extend(own.into_iter().map(|one| {
                let until = one.member.labels.whole_until(Txg(u64::MAX));
                let is_torn = one
                    .groups
                    .keys()
                    .next_back()
                    .is_some_and(|txg| *txg > until);
                let why = if is_torn {
                    Why::Torn(until)
                } else {
                    Why::Unproven
                };
                one.outsider(why, Some(self.ours()))
            }));
        }
        outsiders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::nvlist::NvList;
    use cenote_ondisk::uberblock::{MAGIC, UBERBLOCK_WORDS};
    use cenote_vdev::{FoundUberblock, LabelHealth};

    /// Four labels, each with the group of its configuration and that of its newest uberblock.
    fn labels(each: [(u64, u64); LABELS]) -> DeviceLabels {
        let mut labels = DeviceLabels::default();
        for (index, (txg, newest)) in each.into_iter().enumerate() {
            let mut list = NvList::new();
            list.set_u64("state", 0);
            list.set_u64("txg", txg);
            labels.labels.push(Label {
                index,
                offset: 0,
                health: LabelHealth::Valid,
                config: Some(PoolConfig::decode(&list).expect("nothing else is needed")),
                list: None,
            });
            let mut words = [0; UBERBLOCK_WORDS];
            words[0] = MAGIC;
            words[2] = newest;
            labels.uberblocks.push(FoundUberblock {
                label: index,
                slot: 0,
                slot_size: 1024,
                uberblock: Uberblock::from_words(&words).expect("right magic"),
            });
        }
        labels
    }

    /// A disk without redundancy was replaced by an older one with labels 0 and 2 of now. After an
    /// export that was accepted: these labels were of the newest group, and earlier groups were not
    /// required.
    #[test]
    fn a_group_that_no_power_cut_stopped_is_required() {
        let state = State {
            root: [0; 4],
            seconds: 0,
        };
        let groups: Groups = (1..21).map(|txg| (Txg(txg), state)).collect();
        let is_met = |must: Must, each| must.is_met_by(&labels(each), &groups);
        let sealed = Must::Sealed(Txg(20));
        assert!(is_met(sealed, [(20, 20); 4]));
        assert!(!is_met(sealed, [(20, 20), (4, 9), (20, 20), (4, 9)]));
        // One that was torn later in the same life.
        assert!(!is_met(sealed, [(20, 20), (20, 20), (20, 20), (4, 19)]));
        // It failed to take the uberblock, and has the labels before and after it.
        assert!(is_met(sealed, [(20, 19); 4]));
        // The power went when the labels were written, twice in a row.
        let cut = [(20, 18), (4, 18), (20, 18), (4, 18)];
        assert!(is_met(Must::Group(Txg(19)), cut) && !is_met(sealed, cut));
    }
}
