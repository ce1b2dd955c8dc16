//! Volumes as disks of this machine's kernel (ublk): `/dev/zvol/POOL/VOLUME`.
//!
//! [`seam`] is what speaks with the kernel: it gets a volume and makes a disk of it. [`ublk`] does
//! that by the kernel's driver, with a `gate` before the volume, and a journal of what was written
//! and not flushed (`unflushed`, in the files of `kept`). `disk` is one disk
//! and its life, `links` the names below `/dev/zvol`, `table` what there is. `follow` compares what
//! there should be, because of commands or of the property `cenote:ublk`, with what there is, and
//! makes and ends disks. `act` carries out requests.
//!
//! *A disk that nobody has open is in nobody's way.* It has its volume open. Whoever changes a
//! dataset as a whole lets its disks go first (`registry::freeing`), and `follow` makes them again
//! when the request is done, under the new name if there is one. A disk that is open (mounted, part
//! of another device, open in a program) makes its dataset busy.
//!
//! *A disk outlives its daemon.* When the process dies, the kernel keeps the disk, and requests
//! wait. A label that the kernel's side keeps says which volume of which pool it is; the
//! daemon that imports this pool next takes the disk over, whoever asked for it before.
//!
//! *Invariants.* At most one disk of a volume. A link is made only where nothing is, or where a
//! link of ours is that leads nowhere; only links of ours are removed.

pub(crate) mod act;
#[cfg(test)]
mod death_tests;
mod disk;
pub(crate) mod follow;
mod gate;
mod kept;
mod label;
mod links;
pub mod seam;
pub(crate) mod table;
pub mod ublk;
mod unflushed;
