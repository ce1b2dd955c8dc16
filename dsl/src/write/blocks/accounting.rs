//! Space accounting of directories (format/3a 5).
//!
//! A directory's used space is the sum of its parts, and a parent counts a child as the larger
//! of what the child uses and has reserved. All functions here depend on the sums before and
//! after alone, so the changes of a whole transaction group are applied at once: the result is
//! the same as block by block.

use crate::deadlist::SpaceTriple;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::NESTING_MAX;
use crate::write::context::SyncContext;
use cenote_base::ObjectId;
use cenote_ondisk::dsl_dir::{DslDir, FLAG_USED_BREAKDOWN, UsedBreakdown};
use cenote_ondisk::{BlockPointer, ObjectType};

/// A change of the three sums that are always counted together, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceChange {
    pub used: i64,
    pub compressed: i64,
    pub uncompressed: i64,
}

impl SpaceChange {
    pub fn plus(self, other: Self) -> Self {
        Self {
            used: self.used.saturating_add(other.used),
            compressed: self.compressed.saturating_add(other.compressed),
            uncompressed: self.uncompressed.saturating_add(other.uncompressed),
        }
    }

    pub fn negated(self) -> Self {
        Self {
            used: self.used.saturating_neg(),
            compressed: self.compressed.saturating_neg(),
            uncompressed: self.uncompressed.saturating_neg(),
        }
    }

    /// Only space, as between two parts of a directory.
    pub fn of_used(used: i64) -> Self {
        Self {
            used,
            ..Self::default()
        }
    }
}

impl From<SpaceTriple> for SpaceChange {
    fn from(triple: SpaceTriple) -> Self {
        Self {
            used: signed(triple.used),
            compressed: signed(triple.compressed),
            uncompressed: signed(triple.uncompressed),
        }
    }
}

/// Bytes as a signed number; no pool has 2^63.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// `value` changed by `change`. Pools whose sums are off must not get sums near 2^64.
pub(crate) fn changed(value: u64, change: i64) -> u64 {
    value.saturating_add_signed(change)
}

/// A part of a directory's used space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Head,
    Snapshots,
    Children,
    ChildReservations,
    Refreservation,
}

fn part(breakdown: &mut UsedBreakdown, part: Part) -> &mut u64 {
    match part {
        Part::Head => &mut breakdown.head,
        Part::Snapshots => &mut breakdown.snapshots,
        Part::Children => &mut breakdown.children,
        Part::ChildReservations => &mut breakdown.child_reservations,
        Part::Refreservation => &mut breakdown.refreservation,
    }
}

/// What the parent sees of a change of `delta` bytes.
fn seen_by_parent(directory: &DslDir, delta: i64) -> i64 {
    let before = directory.used_bytes.max(directory.reservation);
    let after = changed(directory.used_bytes, delta).max(directory.reservation);
    signed(after) - signed(before)
}

impl Dsl {
    /// What a block counts for (format/3a, "Space unit names"). Of an embedded block only the
    /// logical size counts, and of embedded metadata not even that.
    pub(crate) fn space_of_block(&self, pointer: &BlockPointer) -> SpaceTriple {
        if pointer.is_hole() || pointer.is_redacted() {
            return SpaceTriple::default();
        }
        let mut used = 0_u64;
        if !pointer.is_embedded() {
            for dva in pointer.dvas() {
                let ratio = self.deflate_ratio(dva.vdev().0);
                used = used.saturating_add((dva.asize() >> 9).saturating_mul(ratio));
            }
        }
        let metadata = pointer.level().0 > 0 || pointer.object_type().is_metadata();
        let compressed = match pointer.is_embedded() {
            true => 0,
            false => pointer.physical_size(),
        };
        let uncompressed = match metadata {
            true => compressed,
            false => pointer.logical_size(),
        };
        SpaceTriple {
            used,
            compressed,
            uncompressed,
        }
    }
}

impl SyncContext<'_> {
    /// A directory's structure as it is now.
    pub(crate) fn directory(&self, id: ObjectId) -> Result<DslDir, DslError> {
        Ok(self.dsl.read_directory(id)?.1)
    }

    /// Stores a directory's structure.
    pub(crate) fn store_directory(&self, id: ObjectId, phys: &DslDir) -> Result<(), DslError> {
        let object = self.mos().object(id)?;
        object.set_bonus(self.tx, ObjectType::DSL_DIR, phys.encode().to_vec())?;
        self.dsl.rooms().stage_directory(id, phys);
        Ok(())
    }

    /// Changes a directory's structure.
    pub(crate) fn change_directory(
        &self,
        id: ObjectId,
        change: impl FnOnce(&mut DslDir),
    ) -> Result<(), DslError> {
        let mut phys = self.directory(id)?;
        change(&mut phys);
        self.store_directory(id, &phys)
    }

    /// Adds to a part of a directory, and to all directories above.
    pub(crate) fn use_space(
        &self,
        id: ObjectId,
        of: Part,
        change: SpaceChange,
    ) -> Result<(), DslError> {
        let mut phys = self.directory(id)?;
        let seen = seen_by_parent(&phys, change.used);
        add(&mut phys, change.used, change);
        if phys.flags & FLAG_USED_BREAKDOWN != 0 {
            let part = part(&mut phys.breakdown, of);
            *part = changed(*part, change.used);
        }
        self.store_directory(id, &phys)?;
        let Some(parent) = phys.parent else {
            return Ok(());
        };
        let above = SpaceChange {
            used: seen,
            ..change
        };
        let (from, to) = (Part::ChildReservations, Part::Children);
        self.transfer_space(parent, above, change.used, from, to)
    }

    /// Grows a directory by `change`, of which `to_new` goes to one part and the difference
    /// comes out of another; then all directories above.
    pub(crate) fn transfer_space(
        &self,
        id: ObjectId,
        change: SpaceChange,
        to_new: i64,
        from: Part,
        to: Part,
    ) -> Result<(), DslError> {
        let (mut at, mut change, mut to_new) = (id, change, to_new);
        let (mut from, mut to) = (from, to);
        for _ in 0..=NESTING_MAX + 1 {
            let mut phys = self.directory(at)?;
            let seen = seen_by_parent(&phys, change.used);
            add(&mut phys, change.used, change);
            if phys.flags & FLAG_USED_BREAKDOWN != 0 {
                let old = part(&mut phys.breakdown, from);
                *old = changed(*old, change.used - to_new);
                let new = part(&mut phys.breakdown, to);
                *new = changed(*new, to_new);
            }
            self.store_directory(at, &phys)?;
            let Some(parent) = phys.parent else {
                return Ok(());
            };
            to_new = change.used;
            change.used = seen;
            (from, to) = (Part::ChildReservations, Part::Children);
            at = parent;
        }
        Err(DslError::structure(id, "its ancestors are nested too deep"))
    }

    /// Moves bytes between two parts of one directory.
    pub(crate) fn move_space(
        &self,
        id: ObjectId,
        bytes: i64,
        from: Part,
        to: Part,
    ) -> Result<(), DslError> {
        self.change_directory(id, |phys| {
            if phys.flags & FLAG_USED_BREAKDOWN != 0 {
                let old = part(&mut phys.breakdown, from);
                *old = changed(*old, -bytes);
                let new = part(&mut phys.breakdown, to);
                *new = changed(*new, bytes);
            }
        })
    }
}

fn add(phys: &mut DslDir, used: i64, change: SpaceChange) {
    phys.used_bytes = changed(phys.used_bytes, used);
    phys.compressed_bytes = changed(phys.compressed_bytes, change.compressed);
    phys.uncompressed_bytes = changed(phys.uncompressed_bytes, change.uncompressed);
}
