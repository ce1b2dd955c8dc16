//! All copies of a block: reading the first that is right, verifying each, repairing.
//!
//! A copy is an address on one top-level vdev, with what redundancy that vdev has. A read takes the
//! first copy that gives the right bytes ([`Copies`] says which those are), and leaves the repair
//! of bad copies that it met to [healing](crate::heal). A scrub reads everything and repairs it at
//! once: [`Pipeline::mend`].

use crate::checksum;
use crate::error::IoError;
use crate::faults::BlockFault;
use crate::gang;
use crate::heal::{Cure, Wound, block_fault, faults_in};
use crate::pipeline::Pipeline;
use crate::repair_space::{HeldPlaces, SpaceStamp};
use cenote_base::{Bookmark, Guid, Txg};
use cenote_ondisk::{BlockPointer, ChecksumKind, Dva, ObjectType};
use cenote_vdev::{CopyHealth, CopyReport, FaultKind, IoContext, LeafFault, Shape, VdevError};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How often a block is read again because its space may have been given to another.
const TRIES_MAX: u32 = 4;

/// The copies of a block or gang header.
pub(crate) struct Copies<'a> {
    /// Their addresses, each with the bytes to read there.
    pub places: Vec<(Dva, usize)>,
    /// Physical birth.
    pub birth: Txg,
    pub bookmark: Bookmark,
    /// The type of its object.
    pub kind: ObjectType,
    /// How many of the bytes that were read are right, from the first on; `None` if they are not.
    pub right: &'a dyn Fn(&[u8]) -> Option<usize>,
    /// Whether `right` can tell at all.
    pub is_verified: bool,
    /// Whether it is a block of an intent log, which a power cut leaves on some leaves only.
    pub is_log: bool,
    /// What they are read for.
    pub io: &'a IoContext,
}

impl Copies<'_> {
    fn fault(&self, dva: Dva, size: usize) -> BlockFault {
        block_fault(dva, size, self.birth, self.bookmark)
    }

    /// Notes that leaves still lack their parts of a copy.
    fn note_unrepaired<'f>(
        &self,
        vdevs: &Shape,
        dva: Dva,
        faults: impl IntoIterator<Item = &'f LeafFault>,
    ) {
        let place = self.places.iter().find(|(place, _)| *place == dva);
        let size = place.map_or(0, |(_, size)| *size);
        for fault in faults {
            vdevs.note_unrepaired_block(fault.leaf, dva, size, self.birth);
        }
    }
}

/// Which leaves are looked after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MendScope {
    /// All: every copy and all parity is read and judged.
    All,
    /// Those that missed the block's group; others are read as far as is needed.
    Stale,
}

/// What was found of a block's copies, and done.
#[derive(Debug, Default)]
pub struct Mended {
    /// The stored bytes, unless no copy is left; of a gang block nothing.
    pub data: Option<Vec<u8>>,
    /// Leaves whose part was wrong, unreadable or missed, each copy by itself.
    pub faults: Vec<LeafFault>,
    /// Leaves that still lack a part after a repair: they did not take it.
    pub unrepaired: Vec<Guid>,
    /// Parts that were written again.
    pub repairs: u64,
    /// Copies, headers and gang members of which nothing is left.
    pub lost: u64,
}

impl Mended {
    fn add(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.unrepaired.extend(other.unrepaired);
        self.repairs += other.repairs;
        self.lost += other.lost;
    }
}

/// What is wrong with the leaves that hold a copy, the worst of each.
fn faults_of(report: &CopyReport) -> Vec<LeafFault> {
    let mut faults: BTreeMap<Guid, FaultKind> = BTreeMap::new();
    for verdict in &report.verdicts {
        let kind = match verdict.health {
            CopyHealth::Wrong => FaultKind::Wrong,
            CopyHealth::Unreadable => FaultKind::Unreadable,
            CopyHealth::Stale => FaultKind::Stale,
            CopyHealth::Good | CopyHealth::Undecided | CopyHealth::Closed => continue,
        };
        let worst = faults.entry(verdict.leaf).or_insert(kind);
        *worst = kind.max(*worst);
    }
    let faults = faults.into_iter();
    faults
        .map(|(leaf, kind)| LeafFault { leaf, kind })
        .collect()
}

/// All leaves of a copy of which no part is known to be right.
fn whole_copy(vdevs: &Shape, dva: Dva, size: usize, birth: Txg) -> Vec<LeafFault> {
    let leaves = vdevs.leaves_of(dva, size, birth).unwrap_or_default();
    let fault = |leaf| LeafFault {
        leaf,
        kind: FaultKind::Wrong,
    };
    leaves.into_iter().map(fault).collect()
}

/// Whether a block has a checksum. Without, no bytes are known to be right.
pub(crate) fn is_verified(pointer: &BlockPointer) -> bool {
    pointer.checksum_kind() != Some(ChecksumKind::Off)
}

/// Whether a copy's bytes are lost, rather than its address being none.
fn is_lost(error: &VdevError) -> bool {
    matches!(
        error,
        VdevError::Damaged { .. } | VdevError::Unreadable { .. }
    )
}

impl Pipeline {
    /// The first copy that is right, as many bytes as were asked of it. Faults found on the way are
    /// reported and healed. An error is the last copy's; `None` without any copy.
    pub(crate) fn read_any(&self, copies: &Copies<'_>) -> Result<Vec<u8>, Option<VdevError>> {
        let stamp = self.healing.stamp().filter(|_| copies.is_verified);
        let vdevs = self.vdevs();
        let is_right = |bytes: &[u8]| (copies.right)(bytes).is_some();
        let (mut wounds, mut failure) = (Vec::new(), None);
        for (copy, (dva, size)) in copies.places.iter().copied().enumerate() {
            let io = self.drilled(copies, copy);
            match vdevs.read(dva, size, copies.birth, &is_right, &io) {
                Ok(outcome) => {
                    if !outcome.wrong.is_empty() {
                        let fault = copies.fault(dva, size);
                        self.healing.tell(&fault, &outcome.wrong);
                        let leaves = outcome.wrong;
                        wounds.push(Wound { dva, leaves });
                    }
                    self.heal(copies, &outcome.bytes, stamp, wounds);
                    return Ok(outcome.bytes);
                }
                Err(error) => {
                    let fault = copies.fault(dva, size);
                    self.healing.tell(&fault, &faults_in(&error));
                    if is_lost(&error) {
                        let leaves = whole_copy(&vdevs, dva, size, copies.birth);
                        wounds.push(Wound { dva, leaves });
                    }
                    failure = Some(error);
                }
            }
        }
        Err(failure)
    }

    /// What a copy is read for, with the faults that are made on purpose. Bits are wrong only
    /// where that is noticed.
    fn drilled<'c>(&self, copies: &Copies<'c>, copy: usize) -> Cow<'c, IoContext> {
        let drill = self.faults.of_copy(copies.bookmark, copies.kind, copy);
        match drill.filter(|_| copies.is_verified) {
            Some(drill) => Cow::Owned(copies.io.drilled(drill)),
            None => Cow::Borrowed(copies.io),
        }
    }

    fn heal(
        &self,
        copies: &Copies<'_>,
        bytes: &[u8],
        stamp: Option<SpaceStamp>,
        wounds: Vec<Wound>,
    ) {
        let (Some(stamp), Some(length)) = (stamp, (copies.right)(bytes)) else {
            return;
        };
        if !wounds.is_empty() {
            self.healing.hand_over(Cure {
                bytes: bytes[..length].to_vec(),
                birth: copies.birth,
                stamp,
                wounds,
                io: copies.io.without_windows(),
            });
        }
    }

    /// Looks at all parts of the first copy of a block that is not a gang, because one of them
    /// was met that is wrong; has it healed and returns the bytes.
    pub(crate) fn examine(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        io: &IoContext,
    ) -> Option<Vec<u8>> {
        let stamp = self.healing.stamp().filter(|_| is_verified(pointer));
        let size = usize::try_from(pointer.physical_size()).ok()?;
        let salt = self.salt.get();
        let verify = |data: &[u8]| checksum::verify(pointer, data, salt) == Ok(true);
        let (dva, birth) = (pointer.dva(0), pointer.physical_birth());
        let vdevs = self.vdevs();
        let report = vdevs.check_copies(dva, size, birth, &verify, io).ok()?;
        let faults = faults_of(&report);
        let fault = block_fault(dva, size, birth, bookmark);
        self.healing.tell(&fault, &faults);
        let bytes = report.data?;
        if let Some(stamp) = stamp.filter(|_| !faults.is_empty()) {
            self.healing.hand_over(Cure {
                bytes: bytes.clone(),
                birth,
                stamp,
                wounds: vec![Wound {
                    dva,
                    leaves: faults,
                }],
                io: io.without_windows(),
            });
        }
        Some(bytes)
    }

    /// Verifies the copies of a block, those of a gang's headers and members included, and rewrites
    /// wrong or missing parts before it returns. Faults are reported; leaves that still
    /// lack something have it noted ([`Shape::note_unrepaired_block`]).
    ///
    /// Repairs are of the class of `io`. Where repairs are not made
    /// (the pool is only read, or takes no more writes) it only looks.
    ///
    /// # Errors
    /// If the pointer is none, or a gang's header cannot be read. That no copy of a block is left
    /// is no error: see [`Mended::lost`].
    pub fn mend(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        scope: MendScope,
        io: &IoContext,
    ) -> Result<Mended, IoError> {
        let checked = pointer.check();
        checked.map_err(|source| IoError::BadPointer { bookmark, source })?;
        if pointer.is_hole() || pointer.is_embedded() || pointer.is_redacted() {
            return Ok(Mended::default());
        }
        if self.verify_needs_salt(pointer) {
            return Err(IoError::NoSalt { bookmark });
        }
        self.writing
            .pending
            .wait_for(pointer.physical_birth(), self);
        if !pointer.is_gang() {
            return Ok(self.mend_plain(pointer, bookmark, scope, io));
        }
        let mut mended = Mended::default();
        for part in gang::parts(self, pointer, bookmark, io)?
            .iter()
            .chain([pointer])
        {
            mended.add(match part.is_gang() {
                true => gang::with_header_copies(self, pointer, part, (bookmark, io), |copies| {
                    self.mend_copies(copies, scope)
                }),
                false => self.mend_plain(part, bookmark, scope, io),
            });
        }
        Ok(mended)
    }

    fn mend_plain(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        scope: MendScope,
        io: &IoContext,
    ) -> Mended {
        let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
        let salt = self.salt.get();
        let right = |data: &[u8]| {
            let is_right = checksum::verify(pointer, data, salt) == Ok(true);
            is_right.then_some(data.len())
        };
        self.mend_copies(
            &Copies {
                places: pointer.dvas().map(|dva| (dva, size)).collect(),
                birth: pointer.physical_birth(),
                bookmark,
                kind: pointer.object_type(),
                right: &right,
                is_verified: is_verified(pointer),
                is_log: false,
                io,
            },
            scope,
        )
    }

    /// As [`Self::mend`], for a block of an intent log, which carries its own checksum: `is_valid`
    /// checks it. All copies are verified, since no dirty time log covers such a block. No leaf is
    /// charged for lacking it, for the reason given at [`Self::read_log_block`].
    ///
    /// # Errors
    /// If the pointer is none.
    pub fn mend_log_block(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        is_valid: &dyn Fn(&[u8]) -> bool,
        io: &IoContext,
    ) -> Result<Mended, IoError> {
        let checked = pointer.check();
        checked.map_err(|source| IoError::BadPointer { bookmark, source })?;
        let size = usize::try_from(pointer.physical_size()).expect("at most 32 MiB");
        let copies = Copies {
            places: pointer.dvas().map(|dva| (dva, size)).collect(),
            birth: pointer.physical_birth(),
            bookmark,
            kind: pointer.object_type(),
            right: &|data| is_valid(data).then_some(data.len()),
            is_verified: true,
            is_log: true,
            io,
        };
        Ok(self.mend_copies(&copies, MendScope::All))
    }

    fn mend_copies(&self, copies: &Copies<'_>, scope: MendScope) -> Mended {
        let mut mended = Mended::default();
        for attempt in 1..=TRIES_MAX {
            let stamp = self.healing.stamp();
            let vdevs = self.vdevs();
            let (data, wounds) = self.look(&vdevs, copies, scope, &mut mended);
            if scope == MendScope::Stale && wounds.is_empty() {
                return mended;
            }
            let length = data.as_deref().and_then(copies.right);
            let (Some(data), Some(length)) = (data, length) else {
                // Damage on all copies cannot be resilvered. But leaves that missed the group may
                // get the block from a device that is away now.
                for wound in &wounds {
                    let stale = wound.leaves.iter();
                    let stale = stale.filter(|fault| fault.kind == FaultKind::Stale);
                    copies.note_unrepaired(&vdevs, wound.dva, stale);
                }
                mended.lost = 1;
                return mended;
            };
            let mut is_refused = false;
            mended.unrepaired.clear();
            let mut unrepaired = Vec::new();
            for wound in wounds {
                let bytes = &data[..length];
                let written = stamp.and_then(|stamp| {
                    self.repair_now(&vdevs, copies.birth, &wound, bytes, stamp, copies.io)
                });
                is_refused |= stamp.is_some() && written.is_none();
                let failed = written.unwrap_or_else(|| wound.leaves.clone());
                mended.repairs += (wound.leaves.len() - failed.len()) as u64;
                mended
                    .unrepaired
                    .extend(failed.iter().map(|fault| fault.leaf));
                unrepaired.push((wound.dva, failed));
            }
            if is_refused && self.is_freed(&vdevs, copies) {
                mended.unrepaired.clear();
                mended.data = Some(data);
                break;
            }
            if !is_refused || attempt == TRIES_MAX {
                for (dva, failed) in &unrepaired {
                    copies.note_unrepaired(&vdevs, *dva, failed);
                }
                mended.data = Some(data);
                break;
            }
        }
        mended
    }

    /// Whether a block was freed since its pointer was found: it needs no repair.
    fn is_freed(&self, vdevs: &Shape, copies: &Copies<'_>) -> bool {
        let Some(space) = self.healing.space() else {
            return false;
        };
        copies.places.iter().any(|(dva, size)| {
            let places = vdevs.places(*dva, *size, copies.birth);
            places.is_ok_and(|places| space.is_freed(&places))
        })
    }

    /// Looks at all copies: the right bytes if there are any, and what is to be written again.
    fn look(
        &self,
        vdevs: &Shape,
        copies: &Copies<'_>,
        scope: MendScope,
        mended: &mut Mended,
    ) -> (Option<Vec<u8>>, Vec<Wound>) {
        let (mut data, mut wounds) = (None, Vec::new());
        mended.faults.clear();
        for (copy, (dva, size)) in copies.places.iter().copied().enumerate() {
            let io = self.drilled(copies, copy);
            let (bytes, faults) = match scope {
                MendScope::All => self.judge(vdevs, copies, (dva, size), &io),
                MendScope::Stale => {
                    // An address that is none is refused by the next line, too.
                    let _ = vdevs.note_spares_out_of_reach(dva, size, copies.birth);
                    let stale = vdevs.stale_leaves(dva, size, copies.birth);
                    match stale.unwrap_or_default() {
                        stale if stale.is_empty() => continue,
                        stale => self.fetch(vdevs, copies, (dva, size), (stale, &io)),
                    }
                }
            };
            mended.faults.extend(&faults);
            data = data.or(bytes);
            if !faults.is_empty() {
                let leaves = faults;
                wounds.push(Wound { dva, leaves });
            }
        }
        if data.is_none() && !wounds.is_empty() {
            let is_right = |bytes: &[u8]| (copies.right)(bytes).is_some();
            let mut places = copies.places.iter().enumerate();
            data = places.find_map(|(copy, (dva, size))| {
                let io = self.drilled(copies, copy);
                let read = vdevs.read(*dva, *size, copies.birth, &is_right, &io);
                read.ok().map(|outcome| outcome.bytes)
            });
        }
        (data, wounds)
    }

    /// Judges everything of a copy.
    fn judge(
        &self,
        vdevs: &Shape,
        copies: &Copies<'_>,
        (dva, size): (Dva, usize),
        io: &IoContext,
    ) -> (Option<Vec<u8>>, Vec<LeafFault>) {
        let is_right = |bytes: &[u8]| (copies.right)(bytes).is_some();
        let report = match copies.is_log {
            true => vdevs.check_log_copies(dva, size, copies.birth, &is_right, io),
            false => vdevs.check_copies(dva, size, copies.birth, &is_right, io),
        };
        let Ok(report) = report else {
            return (None, Vec::new());
        };
        let faults = faults_of(&report);
        if !copies.is_log {
            self.healing.tell(&copies.fault(dva, size), &faults);
        }
        match report.data {
            Some(bytes) => (Some(bytes), faults),
            None => (None, whole_copy(vdevs, dva, size, copies.birth)),
        }
    }

    /// Reads a copy for leaves that missed it.
    fn fetch(
        &self,
        vdevs: &Shape,
        copies: &Copies<'_>,
        (dva, size): (Dva, usize),
        (stale, io): (Vec<Guid>, &IoContext),
    ) -> (Option<Vec<u8>>, Vec<LeafFault>) {
        let is_right = |bytes: &[u8]| (copies.right)(bytes).is_some();
        match vdevs.read(dva, size, copies.birth, &is_right, io) {
            Ok(outcome) => {
                let mut faults = outcome.wrong;
                self.healing.tell(&copies.fault(dva, size), &faults);
                for leaf in stale {
                    if !faults.iter().any(|fault| fault.leaf == leaf) {
                        let kind = FaultKind::Stale;
                        faults.push(LeafFault { leaf, kind });
                    }
                }
                (Some(outcome.bytes), faults)
            }
            Err(error) => {
                let fault = copies.fault(dva, size);
                self.healing.tell(&fault, &faults_in(&error));
                (None, whole_copy(vdevs, dva, size, copies.birth))
            }
        }
    }

    /// Rewrites a block of which no copy is left, from stored bytes that the caller got elsewhere.
    /// Returns false if these are not the block's bytes, or if that cannot be checked: gangs are in
    /// pieces, and a block without a checksum cannot be verified.
    ///
    /// # Errors
    /// If the pointer is none, or the devices do not take it.
    pub fn restore(
        &self,
        pointer: &BlockPointer,
        bookmark: Bookmark,
        stored: &[u8],
        io: &IoContext,
    ) -> Result<bool, IoError> {
        let checked = pointer.check();
        checked.map_err(|source| IoError::BadPointer { bookmark, source })?;
        let has_places = !pointer.is_hole() && !pointer.is_embedded() && !pointer.is_redacted();
        let is_plain = has_places && !pointer.is_gang() && is_verified(pointer);
        if !is_plain || stored.len() as u64 != pointer.physical_size() {
            return Ok(false);
        }
        if checksum::verify(pointer, stored, self.salt.get()) != Ok(true) {
            return Ok(false);
        }
        let (vdevs, birth) = (self.vdevs(), pointer.physical_birth());
        let stamp = self.healing.stamp();
        let mut is_restored = false;
        for dva in pointer.dvas() {
            let leaves = whole_copy(&vdevs, dva, stored.len(), birth);
            let (count, wound) = (leaves.len(), Wound { dva, leaves });
            let failed = stamp
                .and_then(|stamp| self.repair_now(&vdevs, birth, &wound, stored, stamp, io))
                .unwrap_or_else(|| wound.leaves.clone());
            is_restored |= failed.len() < count;
        }
        match is_restored {
            true => Ok(true),
            false => Err(IoError::NotRestored { bookmark }),
        }
    }

    /// Writes a copy again; returns the leaves that did not take it, or `None` if its space may
    /// be another's by now.
    fn repair_now(
        &self,
        vdevs: &Shape,
        birth: Txg,
        wound: &Wound,
        bytes: &[u8],
        stamp: SpaceStamp,
        io: &IoContext,
    ) -> Option<Vec<LeafFault>> {
        let space = self.healing.space()?;
        let places = vdevs.places(wound.dva, bytes.len(), birth).ok()?;
        let _held = HeldPlaces::hold(space, places, birth, stamp)?;
        let failed = wound.leaves.iter().filter(|fault| {
            let leaf = std::slice::from_ref(&fault.leaf);
            vdevs.repair(wound.dva, bytes, birth, leaf, io).is_err()
        });
        Some(failed.copied().collect())
    }
}
