//! Room: how much the datasets that are open for writing may still grow.
//!
//! What counts is the space on disk and in flight *below the limited directory*. The ledger has
//! both. For each open head and all directories above it, it has the figures of the last group on
//! disk. To these it adds the worst-case sizes of transactions in later groups. A transaction is
//! admitted while the sum is below each limit on its way to the pool. Its own size is not added, so
//! a limit can be used up to the last byte, and is exceeded by one transaction at most.
//!
//! The figures and the space in flight change together. While a group is written, its changes of
//! directories and datasets are staged here. When the group is on disk, all of them apply at once,
//! and the space in flight for that group is removed ([`Rooms::commit`]). So a reader never sees
//! too little use, or half of a change.
//!
//! A transaction that does not fit may fit later: compressed data takes less than was assumed, and
//! an overwrite frees the old blocks. Then the answer is [`Answer::Wait`]. The transaction is
//! refused only if the figures on disk alone are at the limit, and if everything that was in flight
//! at the first request is on disk.
//!
//! Two kinds of reservations let a transaction pass a limit above. A head has room that it reserved
//! for itself (`refreservation`), and a directory has room for all below it (`reservation`). Both
//! already count as used in the directories above, so filling them changes nothing there.
//!
//! *Invariants*, which [`Ledger::assert_balanced`] and `slot` assert: what a group has in flight is
//! counted until that group is on disk, for its head and for all heads together. If nothing is in
//! flight, no directory is expected to grow.
//!
//! One lock protects everything. It is held for a few lookups and never during a read. The gate
//! takes such a lock for each transaction, too.
//!
//! Deliberately absent: users, groups and projects, which only the contents of a file system know,
//! and sync tasks, which look at the figures of the group that they run in.

#![forbid(unsafe_code)]

use cenote_base::rt::{Mutex, MutexGuard, ranks};
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::dsl_dataset::DslDataset;
use cenote_ondisk::dsl_dir::DslDir;
use std::collections::BTreeMap;

/// Groups that can be in flight at once: the open one and the one that is being written.
const GROUPS: usize = 2;

/// What was freed is usable after so many groups, if those free little themselves.
const DRAINED_AFTER: u64 = 8;

/// What a transaction asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Bytes of space that it may take at worst.
    pub bytes: u64,
    /// They are stored already: they count for quotas, and take nothing from the pool.
    pub is_shared: bool,
    /// All of them must fit. Otherwise it is enough if the limit is not reached yet.
    pub is_whole: bool,
}

/// Which limit refuses a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The pool is full, or what is left is reserved.
    Pool,
    /// A quota is reached.
    Quota,
}

/// What a transaction gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is room, and it is taken.
    Fits,
    /// It may fit after the next group.
    Wait,
    /// It does not fit.
    Refused(Limit),
}

/// What the pool as a whole has, in accounted bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolRoom {
    /// All datasets together may use so much now.
    pub usable: u64,
    /// They may use so much when all that was freed can be used again.
    pub usable_later: u64,
    /// With what is freed and not usable yet, they may fill the devices up to here.
    pub physical: u64,
    /// Bytes that were freed and are not usable yet.
    pub deferred: u64,
    /// Bytes of destroyed datasets that are being freed.
    pub freeing: u64,
}

/// What one group has in flight.
#[derive(Clone, Copy, Debug, Default)]
struct InFlight {
    txg: Txg,
    own: u64,
    shared: u64,
}

#[derive(Debug, Default)]
struct HeadRoom {
    directory: ObjectId,
    unique: u64,
    referenced: u64,
    refquota: u64,
    refreservation: u64,
    /// The quota that counts for it in place of the one of the directory above its own: it is
    /// received for a dataset whose quota rises with that.
    raised_quota: Option<u64>,
    /// The contents never take more than this; `None` if they have no such bound.
    most: Option<u64>,
    in_flight: [InFlight; GROUPS],
}

impl HeadRoom {
    fn in_flight(&self) -> u64 {
        let all = self.in_flight.iter();
        all.fold(0_u64, |sum, one| {
            sum.saturating_add(one.own).saturating_add(one.shared)
        })
    }

    /// Whether all that it can ever hold is reserved.
    fn is_covered(&self) -> bool {
        self.most.is_some_and(|most| self.refreservation >= most)
    }

    fn set(&mut self, phys: &DslDataset) {
        self.directory = phys.directory;
        self.unique = phys.unique_bytes;
        self.referenced = phys.referenced_bytes;
    }
}

#[derive(Debug, Default)]
struct DirectoryRoom {
    parent: Option<ObjectId>,
    used: u64,
    quota: u64,
    reservation: u64,
    /// How much larger `used` may be once all is on disk that is in flight.
    growth: u64,
    /// The last group in which anything below was changed.
    changed: Txg,
}

impl DirectoryRoom {
    /// What may be used once all is on disk that is in flight.
    fn expected(&self) -> u64 {
        self.used.saturating_add(self.growth)
    }

    fn set(&mut self, phys: &DslDir) {
        self.parent = phys.parent;
        self.used = phys.used_bytes;
        self.quota = phys.quota;
        self.reservation = phys.reservation;
    }
}

/// What the group that is being written changed.
#[derive(Debug, Default)]
struct Staged {
    directories: BTreeMap<ObjectId, DslDir>,
    heads: BTreeMap<ObjectId, DslDataset>,
    /// `refquota` and `refreservation`.
    limits: BTreeMap<ObjectId, (u64, u64)>,
}

#[derive(Debug, Default)]
struct Ledger {
    /// The last group on disk.
    synced: Txg,
    pool: PoolRoom,
    directories: BTreeMap<ObjectId, DirectoryRoom>,
    heads: BTreeMap<ObjectId, HeadRoom>,
    /// The directory that has no other one above it.
    root: Option<ObjectId>,
    /// Directories may be here that no head is below.
    has_unused: bool,
    staged: Staged,
    /// Of all heads, covered by reservations or not.
    in_flight: [InFlight; GROUPS],
}

/// The room of a pool's datasets.
#[derive(Debug, Default)]
pub struct Rooms {
    ledger: Mutex<Ledger, ranks::Room>,
}

/// A head that is opened, with its limits.
pub struct OpenedHead<'a> {
    /// Its dataset object.
    pub id: ObjectId,
    /// The dataset as it is on disk.
    pub phys: &'a DslDataset,
    /// Bytes that it may refer to; 0 for no limit.
    pub refquota: u64,
    /// Bytes that are reserved for it.
    pub refreservation: u64,
    /// A quota that a group in flight raised, in bytes.
    pub raised_quota: Option<u64>,
}

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// The last group whose figures are in force.
    pub fn synced(&self) -> Txg {
        self.lock().synced
    }

    /// Whether no head is open, so that space need not be reserved.
    pub fn is_unused(&self) -> bool {
        self.lock().heads.is_empty()
    }

    /// What the root directory uses, if a head is open.
    pub fn root_used(&self) -> Option<u64> {
        let ledger = self.lock();
        ledger.root().map(DirectoryRoom::expected)
    }

    /// Enters a head with its directories, from its own to the root, as they were read while
    /// `synced` was the last group on disk. `false` if that changed meanwhile: they are to be read
    /// again. What is known already stays as it is.
    pub fn open(
        &self,
        head: &OpenedHead<'_>,
        chain: &[(ObjectId, DslDir)],
        synced: Txg,
        (open, pool): (Txg, Option<PoolRoom>),
    ) -> bool {
        let mut ledger = self.lock();
        if ledger.synced != synced {
            return false;
        }
        if let (true, Some(pool)) = (ledger.heads.is_empty(), pool) {
            ledger.pool = pool;
        }
        ledger.enter(chain, open);
        let room = ledger.heads.entry(head.id).or_default();
        room.set(head.phys);
        room.refquota = head.refquota;
        room.refreservation = head.refreservation;
        room.raised_quota = head.raised_quota;
        true
    }

    /// Forgets a head whose changes are on disk, and with the next group the directories that no
    /// other one is below.
    pub fn close(&self, head: ObjectId) {
        let mut ledger = self.lock();
        if let Some(room) = ledger.heads.remove(&head) {
            let synced = ledger.synced;
            let is_synced = |one: &InFlight| one.txg <= synced;
            debug_assert!(
                room.in_flight.iter().all(is_synced),
                "{head:?} is closed, and its changes are not on disk: {:?}",
                room.in_flight
            );
        }
        ledger.has_unused = true;
    }

    /// Says how much the contents of a head can take at most.
    pub fn set_most(&self, head: ObjectId, bytes: u64) {
        if let Some(head) = self.lock().heads.get_mut(&head) {
            head.most = Some(bytes);
        }
    }

    /// Takes room for a transaction of the group `txg`, if there is any. `first` is the group that
    /// was open when the caller asked for the first time.
    pub fn reserve(&self, head: ObjectId, txg: Txg, request: Request, first: Txg) -> Answer {
        let mut ledger = self.lock();
        let answer = ledger.answer(head, request, first);
        if answer == Answer::Fits {
            ledger.take(head, txg, request);
        }
        answer
    }

    /// Whether a request would fit, of which nothing is taken.
    pub fn ask(&self, head: ObjectId, request: Request, first: Txg) -> Answer {
        self.lock().answer(head, request, first)
    }

    /// Notes a transaction that takes no room, and may give some back.
    pub fn note(&self, head: ObjectId, txg: Txg) {
        self.lock().note(head, txg);
    }

    /// Whether anything of a head's directory is in flight.
    pub fn is_changing(&self, head: ObjectId) -> bool {
        let ledger = self.lock();
        let directory = ledger.heads.get(&head).map(|head| head.directory);
        let directory = directory.and_then(|id| ledger.directories.get(&id));
        directory.is_some_and(|directory| directory.changed > ledger.synced)
    }

    /// Notes a directory as the group that is being written has it.
    pub fn stage_directory(&self, id: ObjectId, phys: &DslDir) {
        self.lock().staged.directories.insert(id, phys.clone());
    }

    /// The same of a dataset; of snapshots nothing is noted.
    pub fn stage_dataset(&self, id: ObjectId, phys: &DslDataset) {
        let mut ledger = self.lock();
        if ledger.heads.contains_key(&id) {
            ledger.staged.heads.insert(id, phys.clone());
        }
    }

    /// The same of a head's `refquota` and `refreservation`.
    pub fn stage_limits(&self, id: ObjectId, limits: (u64, u64)) {
        self.lock().staged.limits.insert(id, limits);
    }

    /// The directories that open heads moved below, and that are not in the ledger yet.
    pub fn missing(&self) -> Vec<ObjectId> {
        let ledger = self.lock();
        let staged = ledger.staged.directories.iter();
        let known = staged.filter(|(id, _)| ledger.directories.contains_key(id));
        let parents = known.filter_map(|(_, phys)| phys.parent);
        let is_missing = |id: &ObjectId| !ledger.directories.contains_key(id);
        parents.filter(is_missing).collect()
    }

    /// Brings the figures of the group `txg` into force, which is on disk. `above` are the
    /// directories that were [missing](Self::missing), each with those above it.
    pub fn commit(&self, txg: Txg, pool: Option<PoolRoom>, above: &[Vec<(ObjectId, DslDir)>]) {
        let mut ledger = self.lock();
        assert!(
            txg > ledger.synced,
            "{txg:?} is on disk after {:?}",
            ledger.synced
        );
        ledger.synced = txg;
        ledger.pool = pool.unwrap_or(ledger.pool);
        for chain in above {
            ledger.enter(chain, Txg(0));
        }
        let staged = std::mem::take(&mut ledger.staged);
        for (id, phys) in &staged.directories {
            let Some(room) = ledger.directories.get_mut(id) else {
                continue;
            };
            let has_moved = room.parent != phys.parent;
            room.set(phys);
            ledger.has_unused |= has_moved;
        }
        for (id, phys) in &staged.heads {
            if let Some(room) = ledger.heads.get_mut(id) {
                room.set(phys);
            }
        }
        for (id, (refquota, refreservation)) in staged.limits {
            if let Some(room) = ledger.heads.get_mut(&id) {
                (room.refquota, room.refreservation) = (refquota, refreservation);
            }
        }
        ledger.recount();
        ledger.assert_balanced();
        if std::mem::take(&mut ledger.has_unused) {
            ledger.forget_unused();
        }
    }
}

impl Ledger {
    fn root(&self) -> Option<&DirectoryRoom> {
        self.directories.get(&self.root?)
    }

    fn enter(&mut self, chain: &[(ObjectId, DslDir)], changed: Txg) {
        for (id, phys) in chain {
            let room = self.directories.entry(*id).or_insert_with(|| {
                let mut room = DirectoryRoom::default();
                room.set(phys);
                room
            });
            room.changed = room.changed.max(changed);
            if room.parent.is_none() {
                self.root = Some(*id);
            }
        }
    }

    fn forget_unused(&mut self) {
        let mut used = std::collections::BTreeSet::new();
        for head in self.heads.values() {
            let mut at = Some(head.directory);
            while let Some(id) = at.filter(|id| used.insert(*id)) {
                at = self.directories.get(&id).and_then(|room| room.parent);
            }
        }
        self.directories.retain(|id, _| used.contains(id));
    }

    /// Sums up what is in flight again, after a transaction group was synced.
    fn recount(&mut self) {
        let synced = self.synced;
        let gone = |one: &InFlight| one.txg <= synced;
        for room in self.directories.values_mut() {
            room.growth = 0;
        }
        for one in self.in_flight.iter_mut().filter(|one| gone(one)) {
            *one = InFlight::default();
        }
        let has_any = |head: &HeadRoom| head.in_flight.iter().any(|one| one.txg.0 > 0);
        let heads = self.heads.iter().filter(|(_, head)| has_any(head));
        let ids: Vec<ObjectId> = heads.map(|(id, _)| *id).collect();
        for id in ids {
            let head = self.heads.get_mut(&id).expect("it was listed");
            let all = std::mem::take(&mut head.in_flight);
            for one in all.into_iter().filter(|one| !gone(one)) {
                self.grow(id, one.own, false);
                self.grow(id, one.shared, true);
                let head = self.heads.get_mut(&id).expect("it was listed");
                *slot(&mut head.in_flight, one.txg, synced) = one;
            }
        }
    }

    /// Asserts after a count that it lacks nothing: all heads together have at least as much in
    /// flight as those that are open, and without that no directory grows.
    fn assert_balanced(&self) {
        for (slot, all) in self.in_flight.iter().enumerate() {
            let heads = self.heads.values().map(|head| head.in_flight[slot]);
            let (mut own, mut shared) = (0_u64, 0_u64);
            for one in heads.filter(|one| one.txg.0 > 0) {
                assert_eq!(one.txg, all.txg, "a head's group, and that of all together");
                own = own.saturating_add(one.own);
                shared = shared.saturating_add(one.shared);
            }
            assert!(
                own <= all.own && shared <= all.shared,
                "heads have {own} and {shared} bytes in flight, and all together {all:?}"
            );
        }
        let is_at_rest = self.heads.values().all(|head| head.in_flight() == 0);
        let grows = self.directories.values().any(|room| room.growth > 0);
        assert!(!is_at_rest || !grows, "nothing is in flight that may grow");
    }

    fn note(&mut self, head: ObjectId, txg: Txg) {
        let mut at = self.heads.get(&head).map(|head| head.directory);
        while let Some(room) = at.and_then(|id| self.directories.get_mut(&id)) {
            if room.changed >= txg {
                return;
            }
            room.changed = txg;
            at = room.parent;
        }
    }

    fn take(&mut self, id: ObjectId, txg: Txg, request: Request) {
        self.note(id, txg);
        self.grow(id, request.bytes, request.is_shared);
        let Some(head) = self.heads.get_mut(&id) else {
            return;
        };
        let (own, shared) = match request.is_shared {
            false => (request.bytes, 0),
            true => (0, request.bytes),
        };
        for slots in [&mut head.in_flight, &mut self.in_flight] {
            let one = slot(slots, txg, self.synced);
            one.own = one.own.saturating_add(own);
            one.shared = one.shared.saturating_add(shared);
        }
    }

    /// Adds bytes of a head to what its directories may grow by. They are not counted for the head
    /// yet.
    fn grow(&mut self, id: ObjectId, bytes: u64, is_shared: bool) {
        let Some(head) = self.heads.get(&id).filter(|head| !head.is_covered()) else {
            return;
        };
        let before = head.unique.saturating_add(head.in_flight());
        let after = before.saturating_add(bytes).max(head.refreservation);
        let mut growth = after - before.max(head.refreservation);
        let mut at = Some(head.directory);
        while let Some(room) = at.and_then(|id| self.directories.get_mut(&id)) {
            // What is shared takes nothing from the pool.
            if growth == 0 || is_shared && room.parent.is_none() {
                return;
            }
            let before = room.expected().max(room.reservation);
            room.growth = room.growth.saturating_add(growth);
            growth = room.expected().max(room.reservation) - before;
            at = room.parent;
        }
    }

    fn answer(&self, id: ObjectId, request: Request, first: Txg) -> Answer {
        let Some(head) = self.heads.get(&id).filter(|_| request.bytes > 0) else {
            return Answer::Fits;
        };
        let in_flight = head.in_flight();
        let expected = head.referenced.saturating_add(in_flight);
        if head.refquota != 0 && request.exceeds(expected, head.refquota) {
            let is_full = request.exceeds(head.referenced, head.refquota);
            let is_final = is_full && self.is_still(head.directory, first);
            return refused_or_later(is_final, Limit::Quota);
        }
        // What is reserved for this head and not used: now, and by the figures on disk alone.
        let of_head = |used: u64| head.refreservation.saturating_sub(used);
        let mut spare = of_head(head.unique.saturating_add(in_flight));
        let mut spare_on_disk = of_head(head.unique);
        let mut is_covered = head.is_covered();
        let mut at = Some(head.directory);
        while let Some((id, room)) = at.and_then(|id| Some((id, self.directories.get(&id)?))) {
            let expected = room.expected().saturating_sub(spare);
            let on_disk = room.used.saturating_sub(spare_on_disk);
            let is_still = self.is_still(id, first);
            let quota = self.quota_for(head, id);
            if quota != 0 && request.exceeds(expected, quota) {
                let is_full = request.exceeds(on_disk, quota);
                return refused_or_later(is_full && is_still, Limit::Quota);
            }
            let is_of_pool = room.parent.is_none() && !request.is_shared && !is_covered;
            if is_of_pool && request.exceeds(expected, self.pool.usable) {
                let on_disk = on_disk.saturating_sub(self.pool.freeing);
                let is_full = request.exceeds(on_disk, self.pool.usable_later);
                return refused_or_later(is_full && is_still, Limit::Pool);
            }
            let unused = |used: u64| room.reservation.saturating_sub(used);
            spare = spare.saturating_add(unused(room.expected()));
            spare_on_disk = spare_on_disk.saturating_add(unused(room.used));
            is_covered |= request.bytes <= spare;
            at = room.parent.filter(|_| !is_covered);
        }
        match request.is_shared {
            true => Answer::Fits,
            false => self.on_devices(request, first),
        }
    }

    /// The quota of a directory as it counts for a head; 0 for none.
    fn quota_for(&self, head: &HeadRoom, id: ObjectId) -> u64 {
        let quota = self.directories.get(&id).map_or(0, |room| room.quota);
        let own = self.directories.get(&head.directory);
        let is_above = own.is_some_and(|own| own.parent == Some(id));
        head.raised_quota.filter(|_| is_above).unwrap_or(quota)
    }

    /// Whether nothing below a directory can give room back any more of what was in flight in the
    /// group `first` or before.
    fn is_still(&self, directory: ObjectId, first: Txg) -> bool {
        let room = self.directories.get(&directory);
        self.synced >= first || room.is_none_or(|room| room.changed <= self.synced)
    }

    /// Whether the devices have room beside all that is in flight, reserved or not. What is written
    /// again where all is reserved needs new space, and gives back the old some groups later.
    fn on_devices(&self, request: Request, first: Txg) -> Answer {
        let used = self.root().map_or(0, |root| root.used);
        let in_flight = self.in_flight.iter().map(|one| one.own);
        let in_flight = in_flight.fold(0, u64::saturating_add);
        let waiting = in_flight.saturating_add(self.pool.deferred);
        if !request.exceeds(used.saturating_add(waiting), self.pool.physical) {
            return Answer::Fits;
        }
        let is_full = request.exceeds(used, self.pool.physical);
        // Without writers groups are so small that all freed space is usable by now.
        let is_drained = in_flight == 0 && self.synced.0 >= first.0.saturating_add(DRAINED_AFTER);
        refused_or_later(is_full || is_drained, Limit::Pool)
    }
}

impl Request {
    /// Whether it does not fit under a limit of which so much is used.
    fn exceeds(&self, used: u64, limit: u64) -> bool {
        // Without one byte the limit is reached.
        let least = if self.is_whole { self.bytes } else { 1 };
        used.saturating_add(least) > limit
    }
}

fn refused_or_later(is_final: bool, limit: Limit) -> Answer {
    match is_final {
        true => Answer::Refused(limit),
        false => Answer::Wait,
    }
}

/// The place of a group among those that are in flight. An older group may leave it only when it is
/// `synced`.
fn slot(slots: &mut [InFlight; GROUPS], txg: Txg, synced: Txg) -> &mut InFlight {
    let one = &mut slots[usize::from(txg.0 & 1 == 1)];
    if one.txg != txg {
        assert!(
            one.txg <= synced,
            "{txg:?} takes room, {synced:?} is on disk, and {one:?} is in flight"
        );
        let (own, shared) = (0, 0);
        *one = InFlight { txg, own, shared };
    }
    one
}

#[cfg(test)]
mod tests;
