//! What can go wrong between an address and its bytes.

use crate::state::{VdevAux, VdevState};
use cenote_base::{Guid, VdevId};
use cenote_device::{DeviceError, Lead};
use cenote_ondisk::Dva;
use std::fmt;

/// Failures of single leaves that one error carries at most.
const FAILURES_MAX: usize = 16;

/// Why one leaf could not give its part of a block.
#[derive(Debug)]
pub enum LeafProblem {
    /// The leaf is not in use.
    NotOpen(VdevState, VdevAux),
    /// Its name does not lead to the open device any more.
    Strayed(Lead),
    /// The device failed.
    Device(DeviceError),
    /// Its bytes are not those that were written.
    WrongBytes,
    /// The device was away, and may have lost what it had not yet made durable.
    Unflushed,
    /// An earlier flush failed, and may have lost writes that were not durable yet.
    LostWrites,
    /// What it had made durable is not there.
    OlderCopy,
}

/// One leaf's part in a failed read.
#[derive(Debug)]
pub struct LeafFailure {
    /// The leaf.
    pub guid: Guid,
    /// Its last known path, or its type when it never had one.
    pub name: String,
    /// What happened.
    pub problem: LeafProblem,
}

impl fmt::Display for LeafFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            LeafProblem::NotOpen(state, aux) => {
                write!(f, "{} is {}", self.name, state.name(*aux))
            }
            LeafProblem::Strayed(lead) => {
                let what = match lead {
                    Lead::Deleted => "deleted",
                    _ => "replaced by another file or device",
                };
                write!(
                    f,
                    "{} was {what} while in use. Nothing is written to the old one. Put the right \
                     one in its place, then run 'zpool clear'",
                    self.name
                )
            }
            LeafProblem::Device(error) => error.fmt(f),
            LeafProblem::WrongBytes => write!(f, "{} holds other bytes", self.name),
            LeafProblem::Unflushed => {
                write!(f, "{} was away before it was flushed", self.name)
            }
            LeafProblem::LostWrites => {
                write!(f, "{} failed an earlier flush of these writes", self.name)
            }
            LeafProblem::OlderCopy => write!(
                f,
                "{} lacks what was flushed to it: it is another disk, or an older copy. Connect \
                 the right disk, then run 'zpool clear' again",
                self.name
            ),
        }
    }
}

/// What the leaves did in a failed read, the first few of them.
#[derive(Debug, Default)]
pub struct LeafFailures(Vec<LeafFailure>);

impl LeafFailures {
    /// Adds a failure unless there are enough already.
    pub(crate) fn push(&mut self, failure: LeafFailure) {
        let is_known = |known: &LeafFailure| {
            known.guid == failure.guid
                && std::mem::discriminant(&known.problem)
                    == std::mem::discriminant(&failure.problem)
        };
        if self.0.len() < FAILURES_MAX && !self.0.iter().any(is_known) {
            self.0.push(failure);
        }
    }

    /// The failures in the order in which they happened.
    pub fn iter(&self) -> impl Iterator<Item = &LeafFailure> {
        self.0.iter()
    }
}

impl fmt::Display for LeafFailures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, failure) in self.0.iter().enumerate() {
            write!(f, "{}{failure}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// Vdevs did not open, or an address could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VdevError {
    /// The configuration's top is not a root vdev.
    #[error("vdev {guid}: a pool's tree begins with a root vdev, not with type '{kind}'")]
    NoRoot {
        /// The vdev on top.
        guid: Guid,
        /// Its type.
        kind: String,
    },
    /// A vdev type that this software does not know.
    #[error("vdev {guid}: unknown type '{kind}'")]
    UnknownKind {
        /// The vdev.
        guid: Guid,
        /// The type's name.
        kind: String,
    },
    /// A vdev's configuration contradicts itself.
    #[error("vdev {guid} ({kind}): {problem}")]
    BadConfig {
        /// The vdev.
        guid: Guid,
        /// Its type.
        kind: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The address names a top-level vdev that the pool does not have.
    #[error("address {dva}: the pool has only {vdevs} top-level vdevs")]
    NoSuchVdev {
        /// The address.
        dva: Dva,
        /// Top-level vdevs, with holes.
        vdevs: usize,
    },
    /// The address names a hole, or a vdev of which no device was found.
    #[error("address {dva}: top-level vdev {} is {kind}", dva.vdev())]
    NoSpace {
        /// The address.
        dva: Dva,
        /// What the vdev is.
        kind: &'static str,
    },
    /// The size is 0 or larger than a block can be.
    #[error("address {dva}: a block cannot have {size} stored bytes")]
    BadSize {
        /// The address.
        dva: Dva,
        /// The size asked for.
        size: usize,
    },
    /// The address is not a multiple of the vdev's allocation unit.
    #[error("address {dva}: not a multiple of {unit} bytes")]
    Misaligned {
        /// The address.
        dva: Dva,
        /// The unit.
        unit: u64,
    },
    /// The block reaches beyond the end of the vdev.
    #[error("address {dva}: {size} bytes reach beyond the vdev's {asize:#x}")]
    OutOfRange {
        /// The address.
        dva: Dva,
        /// Stored bytes asked for.
        size: usize,
        /// The vdev's allocatable bytes.
        asize: u64,
    },
    /// The vdev was removed and its mapping does not cover the block.
    #[error("address {dva}: the removed vdev {vdev} has no mapping for byte {offset:#x}")]
    Unmapped {
        /// The address.
        dva: Dva,
        /// The removed vdev.
        vdev: VdevId,
        /// The first byte without mapping.
        offset: u64,
    },
    /// Mappings of removed vdevs lead to each other without end, or into too many pieces.
    #[error("address {dva}: mappings of removed vdevs do not end")]
    MappingLoop {
        /// The address.
        dva: Dva,
    },
    /// A mapping for a vdev that takes none, or one that is out of order.
    #[error("vdev {vdev}: {problem}")]
    BadMapping {
        /// The vdev.
        vdev: VdevId,
        /// What is wrong.
        problem: &'static str,
    },
    /// The vdevs were opened for reading only.
    #[error("the pool's devices were opened for reading only")]
    ReadOnly,
    /// Nothing can be written at the address.
    #[error("address {dva}: cannot be written: {problem}")]
    NotWritable {
        /// The address.
        dva: Dva,
        /// Why not.
        problem: &'static str,
    },
    /// Too few leaves took the block for it to be safe.
    #[error("address {dva}, {size} bytes: not written: {failures}")]
    Unwritten {
        /// The address.
        dva: Dva,
        /// Stored bytes.
        size: usize,
        /// What the leaves did.
        failures: LeafFailures,
    },
    /// So many leaves did not make their writes durable that blocks may be lost.
    #[error("not flushed: {failures}")]
    Unflushed {
        /// What the leaves did.
        failures: LeafFailures,
    },
    /// Too few leaves took their labels or the uberblock.
    #[error("{what} not written: {failures}")]
    UnwrittenLabels {
        /// Labels or uberblock.
        what: &'static str,
        /// What the leaves did.
        failures: LeafFailures,
    },
    /// A configuration is larger than a label.
    #[error("vdev {guid}: its configuration does not fit a label")]
    ConfigTooLarge {
        /// The leaf.
        guid: Guid,
    },
    /// Too few leaves could be read to put the block together.
    #[error("address {dva}, {size} bytes: unreadable: {failures}")]
    Unreadable {
        /// The address.
        dva: Dva,
        /// Stored bytes asked for.
        size: usize,
        /// What the leaves did.
        failures: LeafFailures,
    },
    /// Bytes were read, but no combination of them is what was written.
    #[error("address {dva}, {size} bytes: damaged beyond repair{}{failures}",
        if failures.0.is_empty() { "" } else { ": " })]
    Damaged {
        /// The address.
        dva: Dva,
        /// Stored bytes asked for.
        size: usize,
        /// What the leaves did.
        failures: LeafFailures,
    },
}
