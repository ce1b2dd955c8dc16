//! Whether a device's data was written by this pool, or by another one with the same guids.
//!
//! A mirror side or a copy of a whole pool can be imported and written to elsewhere. From then on
//! there are two pools with the same guids, and both count transaction groups from the same number:
//! numbers prove nothing. The root of a group does: the block pointer in its uberblock has a
//! checksum over the whole state of the pool. Two devices with the same root for the same group
//! have the same history up to that group.
//!
//! So a device belongs to the pool if its newest root is one that the pool had. The pool's roots
//! are known from several sources, each of which reaches further back:
//!
//! - the labels of the other devices, whose rings hold the last 16 to 128 groups, and which name
//!   the state that the pool had before they were written;
//! - the list of all groups written since the import (`Chronicle`);
//! - the last groups of a missing device, which the pool keeps as long as the device is away
//!   (`away`).
//!
//! If OpenZFS wrote to the pool while the device was away, the third source is empty. Then the
//! device's dirty time log decides: the device cannot have a group that it missed. If another
//! import wrote to the device, its groups have numbers that this pool used, too, so the log
//! contains them. And a device that lacks a group which it has according to the log is an older
//! copy, unless it is one of those that do not get every group's uberblock
//! ([`crate::import::required`]).
//!
//! A device is refused without proof. Deliberately absent is a comparison of block trees: the other
//! devices may have overwritten blocks of the device's newest state, and no raidz device is
//! readable by itself.

use cenote_base::{Guid, Txg};
use cenote_ondisk::Uberblock;
use cenote_vdev::{DeviceLabels, TxgSet};
use std::collections::{BTreeMap, HashMap};

/// Groups that are remembered: of a busy pool, an hour of them.
const REMEMBERED_MAX: usize = 4096;
/// Groups that the pool keeps of a device that is away. Not every group leaves its uberblock on
/// every device: they take turns if there are many top-level vdevs.
const KEPT: usize = 16;
/// Groups that may be under way when a device comes in: it gets their uberblocks, and not all of
/// their blocks.
const UNDER_WAY: u64 = 3;
/// Bytes of all uberblocks of one label.
const RING_BYTES: u64 = 128 << 10;

/// What a pool was after one of its groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The checksum of the root block.
    pub root: [u64; 4],
    /// When, in seconds since the epoch.
    pub seconds: u64,
}

impl From<&Uberblock> for State {
    fn from(uberblock: &Uberblock) -> Self {
        Self {
            root: uberblock.root.checksum(),
            seconds: uberblock.timestamp,
        }
    }
}

/// States by group.
pub(crate) type Groups = BTreeMap<Txg, State>;

/// The groups whose uberblocks a device has; heartbeats are left out.
pub(crate) fn groups_of(labels: &DeviceLabels) -> Groups {
    let mut groups = Groups::new();
    for uberblock in labels.uberblocks.iter().map(|found| &found.uberblock) {
        let sequence = uberblock.multihost.as_ref().and_then(|m| m.sequence);
        if sequence.unwrap_or(0) == 0 && uberblock.txg.0 != 0 {
            groups
                .entry(uberblock.txg)
                .or_insert_with(|| uberblock.into());
        }
    }
    groups
}

/// The states that a device's labels name: the pool had them, and the device need not.
pub(crate) fn named_by(labels: &DeviceLabels) -> Groups {
    let configs = labels.labels.iter().filter(|label| label.is_valid());
    let previous = configs.filter_map(|label| label.config.as_ref()?.previous);
    let states = previous.map(|previous| {
        let (root, seconds) = (previous.root, previous.seconds);
        (previous.txg, State { root, seconds })
    });
    states.filter(|(txg, _)| txg.0 != 0).collect()
}

/// The first group from which on a device's labels have every group that it got: slots of older
/// ones were used again. `None` for a device without uberblocks.
pub(crate) fn complete_from(labels: &DeviceLabels, groups: &Groups) -> Option<Txg> {
    let slot = labels.uberblocks.first()?.slot_size.max(1);
    let (oldest, newest) = (groups.keys().next()?, groups.keys().next_back()?);
    let window = newest
        .0
        .saturating_sub((RING_BYTES / slot).saturating_sub(1));
    Some(Txg(window.max(oldest.0)))
}

/// A moment in a pool's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The group.
    pub txg: Txg,
    /// Seconds since the epoch.
    pub seconds: u64,
}

impl Moment {
    pub(crate) fn last_of(groups: &Groups) -> Option<Self> {
        let (txg, state) = groups.iter().next_back()?;
        let (txg, seconds) = (*txg, state.seconds);
        Some(Self { txg, seconds })
    }
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = i64::try_from(self.seconds).unwrap_or(i64::MAX);
        match jiff::Timestamp::from_second(seconds) {
            Ok(time) => write!(f, "txg {} of {time}", self.txg),
            Err(_) => write!(f, "txg {}", self.txg),
        }
    }
}

/// Why what is on a device is not this pool's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parted {
    /// It has a group that the pool never had.
    At(Moment),
    /// It has none of the last groups that the pool knows it had: a copy from an earlier time,
    /// which may have been written to elsewhere.
    Unknown,
}

/// What is known of a pool's past, to compare a device with.
#[derive(Debug)]
pub(crate) struct Past<'a> {
    /// States that the pool had.
    pub groups: &'a Groups,
    /// From this group on `groups` has all that the device can have, if that is known.
    pub complete_from: Option<Txg>,
    /// The last group.
    pub newest: Txg,
    /// The groups that the device missed by the pool's own log, once that has been read.
    pub missed: Option<&'a TxgSet>,
    /// When the device became one of the pool's, if it has not got everything since.
    pub joined: Option<Txg>,
    /// The last groups that the device had, if the pool kept them.
    pub kept: Option<&'a Groups>,
    /// Whether the device gets the uberblock of every group while it is there.
    pub gets_all: bool,
}

impl Past<'_> {
    /// The last group of the pool that is on a device: what was born later it does not have.
    ///
    /// # Errors
    /// If something else is on it, or that cannot be known.
    pub fn last_common(&self, theirs: &Groups) -> Result<Txg, Parted> {
        let is_ours = |(txg, state): &(&Txg, &State)| {
            let ours = self.groups.get(txg);
            ours.is_some_and(|ours| ours.root == state.root)
        };
        // What was kept proves it even where the rings of the other devices have gaps, because they
        // were away themselves when this device had its last groups.
        if let (Some(kept), Some((newest, state))) = (self.kept, theirs.iter().next_back())
            && kept.get(newest).is_some_and(|kept| kept.root == state.root)
        {
            return Ok(*newest);
        }
        let common = theirs.iter().rev().find(is_ours).map(|(txg, _)| *txg);
        let after = common.map_or(Txg(0), |common| Txg(common.0 + 1));
        let moment = |(txg, state): (&Txg, &State)| Moment {
            txg: *txg,
            seconds: state.seconds,
        };
        let rest = || theirs.range(after..);
        let cannot_be = |(txg, _): &(&Txg, &State)| {
            let is_gap = self.complete_from.is_some_and(|from| **txg >= from);
            self.groups.contains_key(txg) || **txg > self.newest || is_gap
        };
        if let Some(parted) = rest().find(cannot_be) {
            return Err(Parted::At(moment(parted)));
        }
        let Some((newest, _)) = rest().next_back() else {
            // Without uberblocks the device cannot be opened as a pool.
            return Ok(common.unwrap_or_default());
        };
        if self
            .kept
            .is_some_and(|kept| !self.was_back_since(kept, *newest))
        {
            return Err(Parted::Unknown);
        }
        let Some(missed) = self.missed else {
            return Ok(*newest);
        };
        if self.gets_all && self.was_there_after(*newest, missed) {
            return Err(Parted::Unknown);
        }
        let has_joined = |txg: Txg| {
            let joined = self.joined.map(|joined| joined.0);
            joined.is_some_and(|from| (from..=from.saturating_add(UNDER_WAY)).contains(&txg.0))
        };
        let was_missed = |(txg, _): &(&Txg, &State)| missed.contains(**txg) && !has_joined(**txg);
        match rest().find(was_missed) {
            Some(parted) => Err(Parted::At(moment(parted))),
            None => Ok(*newest),
        }
    }

    /// Whether the log says that the device got the next group after the newest one that is on it.
    /// Then this is not the device as the pool left it, but a copy from before.
    fn was_there_after(&self, newest: Txg, missed: &TxgSet) -> bool {
        let from = Txg(newest.0.saturating_add(1));
        self.groups.range(from..).next().is_some_and(|(next, _)| {
            let until = Txg(next.0.saturating_add(1));
            !missed.intersects(&TxgSet::from_ranges([from..until]))
        })
    }

    /// Whether what was kept is of an earlier absence. Other software that brings a device up to
    /// date leaves the entry as it is, and strikes off what the device missed.
    fn was_back_since(&self, kept: &Groups, newest: Txg) -> bool {
        let last = kept.keys().next_back().filter(|last| **last < newest);
        last.is_some_and(|last| {
            let since = [Txg(last.0 + 1)..Txg(newest.0.saturating_add(1))];
            let since = TxgSet::from_ranges(since);
            self.missed.is_none_or(|missed| !missed.intersects(&since))
        })
    }
}

/// The past of a pool that is open for writing.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    groups: Groups,
    /// From this group on all are here.
    complete_from: Txg,
    /// The same of what the labels of top-level vdevs held before.
    floors: HashMap<Guid, Txg>,
    /// The last groups of leaves that are away.
    away: BTreeMap<Guid, Groups>,
    /// The last group whose uberblock each leaf took since the pool was opened.
    taken: HashMap<Guid, Txg>,
    /// The group whose uberblock is being written: devices may have it already.
    begun: Groups,
}

impl Chronicle {
    /// Starts from the states found on the devices of a pool that was opened at `opened`.
    pub fn new(groups: Groups, opened: Txg, floors: HashMap<Guid, Txg>) -> Self {
        Self {
            groups,
            complete_from: Txg(opened.0 + 1),
            floors,
            away: BTreeMap::new(),
            taken: HashMap::new(),
            begun: Groups::new(),
        }
    }

    /// Notes a group whose uberblock devices get from now on.
    pub fn begin(&mut self, uberblock: &Uberblock) {
        self.begun = Groups::from([(uberblock.txg, uberblock.into())]);
    }

    /// Leaves out of what is on a device the group that is being written. It is written again.
    pub fn without_begun(&self, mut theirs: Groups) -> Groups {
        theirs.retain(|txg, state| self.begun.get(txg) != Some(state));
        theirs
    }

    /// Notes a group that is on disk, and the leaves that have its uberblock.
    pub fn add(&mut self, uberblock: &Uberblock, taken: Vec<Guid>) {
        let each = taken.into_iter().map(|leaf| (leaf, uberblock.txg));
        self.taken.extend(each);
        self.groups.insert(uberblock.txg, uberblock.into());
        self.begun.clear();
        while self.groups.len() > REMEMBERED_MAX {
            let Some((oldest, _)) = self.groups.pop_first() else {
                return;
            };
            self.complete_from = self.complete_from.max(Txg(oldest.0 + 1));
            for floor in self.floors.values_mut() {
                *floor = (*floor).max(Txg(oldest.0 + 1));
            }
        }
    }

    /// What was the last groups up to the newest.
    pub fn last(&self) -> Groups {
        let last = self.groups.iter().rev().take(KEPT);
        last.map(|(txg, state)| (*txg, *state)).collect()
    }

    pub fn moment(&self) -> Option<Moment> {
        Moment::last_of(&self.groups)
    }

    pub fn away(&self) -> &BTreeMap<Guid, Groups> {
        &self.away
    }

    pub fn away_mut(&mut self) -> &mut BTreeMap<Guid, Groups> {
        &mut self.away
    }

    /// Judges what is on the device of a leaf, which is below the top-level vdev `top`.
    pub fn last_common(
        &self,
        theirs: &Groups,
        (leaf, top): (Guid, Guid),
        missed: &TxgSet,
        joined: Option<Txg>,
    ) -> Result<Txg, Parted> {
        let floor = self.floors.get(&top).copied();
        let past = Past {
            groups: &self.groups,
            complete_from: Some(floor.map_or(self.complete_from, |f| f.min(self.complete_from))),
            newest: self.groups.keys().next_back().copied().unwrap_or_default(),
            missed: Some(missed),
            joined,
            kept: self.away.get(&leaf),
            // What this pool wrote since it was opened is remembered whole.
            gets_all: true,
        };
        past.last_common(theirs)
    }

    /// The last group whose uberblock a leaf took since the pool was opened; 0 if it took none.
    pub fn last_taken(&self, leaf: Guid) -> Txg {
        self.taken.get(&leaf).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(parts: &[(std::ops::Range<u64>, u64)]) -> Groups {
        let each = parts.iter().flat_map(|(txgs, root)| {
            txgs.clone().map(|txg| {
                let root = [*root, txg, 0, 0];
                (Txg(txg), State { root, seconds: txg })
            })
        });
        each.collect()
    }

    struct Known {
        ours: Groups,
        complete_from: Option<u64>,
        missed: TxgSet,
        joined: Option<Txg>,
        kept: Option<Groups>,
    }

    impl Known {
        fn of(ours: &[(std::ops::Range<u64>, u64)], missed: std::ops::Range<u64>) -> Self {
            Self {
                ours: groups(ours),
                complete_from: None,
                missed: TxgSet::from_ranges([Txg(missed.start)..Txg(missed.end)]),
                joined: None,
                kept: None,
            }
        }

        fn ask(&self, theirs: &[(std::ops::Range<u64>, u64)]) -> Result<u64, Option<u64>> {
            let past = Past {
                groups: &self.ours,
                complete_from: self.complete_from.map(Txg),
                newest: *self.ours.keys().next_back().expect("has some"),
                missed: Some(&self.missed),
                joined: self.joined,
                kept: self.kept.as_ref(),
                gets_all: true,
            };
            match past.last_common(&groups(theirs)) {
                Ok(txg) => Ok(txg.0),
                Err(Parted::At(moment)) => Err(Some(moment.txg.0)),
                Err(Parted::Unknown) => Err(None),
            }
        }
    }

    #[test]
    fn roots_decide_where_they_are_known() {
        let known = Known::of(&[(50..90, 0)], 60..90);
        assert_eq!(known.ask(&[(40..60, 0)]), Ok(59));
        assert_eq!(known.ask(&[(40..60, 0), (60..61, 7)]), Err(Some(60)));
        // A newer group than the pool's, with nothing wrong before.
        assert_eq!(known.ask(&[(60..90, 0), (90..91, 0)]), Err(Some(90)));
        assert_eq!(known.ask(&[]), Ok(0));
    }

    /// A pool that was idle had other numbers of groups than the one that parted from it.
    #[test]
    fn a_group_that_the_pool_never_had() {
        let mut known = Known::of(&[(50..60, 0), (70..72, 0)], 70..72);
        assert_eq!(known.ask(&[(40..60, 0), (62..65, 7)]), Ok(64));
        known.complete_from = Some(55);
        assert_eq!(known.ask(&[(40..60, 0), (62..65, 7)]), Err(Some(62)));
    }

    /// After a month no label knows the groups any more, and the numbers of the other pool are
    /// below those of this one.
    #[test]
    fn what_was_missed_cannot_be_there() {
        let mut known = Known::of(&[(5000..5030, 0)], 60..5030);
        assert_eq!(known.ask(&[(30..60, 0)]), Ok(59));
        assert_eq!(known.ask(&[(30..60, 0), (60..66, 7)]), Err(Some(60)));
        // A device that was just attached when it went away.
        known.missed = TxgSet::from_ranges([Txg(4)..Txg(5030)]);
        known.joined = Some(Txg(58));
        assert_eq!(known.ask(&[(58..61, 0)]), Ok(60));
        assert_eq!(known.ask(&[(58..70, 0)]), Err(Some(62)));
    }

    /// A side of a mirror was copied, and the copy was written to elsewhere. The other side was
    /// away for just those groups, so its ring knew none of them, and the copied side had missed
    /// nothing: the copy was taken for it and written over.
    #[test]
    fn a_copy_of_what_was_there_all_the_time() {
        let mut known = Known::of(&[(7..15, 0), (32..38, 0)], 0..0);
        assert_eq!(known.ask(&[(7..15, 0), (15..22, 7)]), Err(None));
        assert_eq!(known.ask(&[(7..15, 0)]), Ok(14));
        // It went away when it had those groups.
        known.missed = TxgSet::from_ranges([Txg(22)..Txg(38)]);
        assert_eq!(known.ask(&[(7..15, 0), (15..22, 0)]), Ok(21));
        known.missed = TxgSet::from_ranges([Txg(34)..Txg(38)]);
        assert_eq!(known.ask(&[(7..15, 0), (15..22, 7)]), Err(None));
    }

    #[test]
    fn what_was_kept_proves_it_for_ever() {
        let mut known = Known::of(&[(5000..5030, 0)], 59..5030);
        known.kept = Some(groups(&[(44..60, 0)]));
        // Its last group was half written, and so missed as well.
        assert_eq!(known.ask(&[(30..60, 0)]), Ok(59));
        // The devices that are here were away then, so their rings have a gap there.
        known.ours = groups(&[(40..55, 0), (65..80, 0)]);
        known.complete_from = Some(40);
        assert_eq!(known.ask(&[(30..60, 0)]), Ok(59));
        assert_eq!(known.ask(&[(30..56, 0), (56..60, 7)]), Err(Some(55)));
        known.ours = groups(&[(5000..5030, 0)]);
        known.complete_from = None;
        // A copy from before, as it was or written to elsewhere.
        assert_eq!(known.ask(&[(10..40, 0)]), Err(None));
        assert_eq!(known.ask(&[(10..40, 0), (40..45, 7)]), Err(None));
        // OpenZFS had it back meanwhile, and it went away again.
        assert_eq!(known.ask(&[(159..175, 0)]), Err(None));
        known.missed = TxgSet::from_ranges([Txg(175)..Txg(5030)]);
        assert_eq!(known.ask(&[(159..175, 0)]), Ok(174));
        assert_eq!(known.ask(&[(159..175, 0), (175..177, 7)]), Err(None));
    }
}
