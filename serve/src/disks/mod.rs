//! Volumes as disks of this machine's kernel (ublk): `/dev/zvol/POOL/VOLUME`.
//!
//! [`seam`] is the interface to the kernel: it makes a disk of a volume. [`ublk`] implements it
//! with the kernel's ublk driver. It puts a [`Gate`](cenote_ublk::Gate) in front of the volume,
//! with a journal of unflushed writes. `disk` is one disk from its start to its end, `links`
//! the names below `/dev/zvol`, `table` the disks of this daemon. `follow` compares these with what
//! commands and the property `cenote:ublk` ask for, and makes and ends disks. `act` carries out
//! requests.
//!
//! *A disk that is not open blocks no change.* It does have its volume open. So a change of a
//! dataset as a whole first ends its disks (`registry::freeing`). After the request `follow` makes
//! them again, under the new name if there is one. A disk that is open (mounted, part of another
//! device, open in a program) makes its dataset busy.
//!
//! *A disk outlives its daemon.* When the process dies, the kernel keeps the disk, and requests
//! wait. A label, which is kept with the kernel's disk, says which volume of which pool it is. The
//! next daemon that imports this pool takes the disk over, even if nothing asks for it.
//!
//! *Invariants.* A volume has at most one disk. A link is made only where nothing is, or in place
//! of a link of ours whose disk is gone or ours. Only links of ours are removed.

pub(crate) mod act;
mod disk;
pub(crate) mod follow;
mod label;
mod links;
pub mod seam;
pub(crate) mod table;
pub mod ublk;
