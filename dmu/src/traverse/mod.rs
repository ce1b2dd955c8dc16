//! Walks over block trees: each block of an object set, or of one object, once.
//!
//! Freeing, verification, comparison, scrubbing, sending and reports of space all have to meet
//! every block below some root, and all have the same troubles: what is older than a snapshot is
//! somebody else's, blocks may be unreadable, trees may be made by an enemy, and one read at a
//! time is slow. There are two walks, since there are two orders that matter.
//!
//! [`Ordered`] goes in ZFS's order of bookmarks. It is an iterator: whoever pulls it decides with
//! each [`Event`] whether to go below it or not ([`Ordered::pass_over`]), and stops by pulling no
//! more. The order is that of a depth-first walk in which the meta-dnode's blocks stand above
//! the objects whose dnodes are in them:
//!
//! ```text
//! object set block > meta-dnode's tree > block of dnodes > dnode > its tree, then its spill block
//!                  > the accounting objects: projects, groups, users
//! ```
//!
//! Before what is below a block comes the block itself ([`Order::Pre`]), or after it
//! ([`Order::Post`]). In both a [`Bookmark`] names a point between two events, at which another
//! walk can go on, after a crash too: blocks that lie before it are neither read nor told of.
//!
//! [`DiskOrder`] does not care for order, and is as fast as the devices. It has two lists. Blocks
//! that lead to others are a stack taken from in batches: a batch is sorted by address, read by
//! all workers at once, and what it points to is pushed. Data gathers until there is much of it
//! and is then read in the order of its addresses. Both lists are bounded: the stack because it
//! goes depth first, the data because it is flushed. The stack has what comes first in the order
//! of bookmarks on top, so that [`DiskOrder::resume_point`] can name a place before which all is
//! done: not all that is done lies before it.
//!
//! Both share what is in [`Visit`]: a pointer, its place, and what the object's dnode says about
//! blocks there. What does not fit its place is *refused*: nothing is read of it.
//!
//! # What bounds them
//!
//! A pointer's level must be one below its parent's, so a way down ends. Indirect blocks and
//! blocks of dnodes stand in one object set once: one that comes again, or is embedded into its
//! pointer, is refused, so a walk takes no longer than the devices have blocks, of which each has
//! at most 1024 pointers. (Blocks of files may come again: cloning and deduplication do that.)
//! Memory is a few blocks for each level in one walk, and two lists with a limit in the other.
//!
//! # Who uses them how
//!
//! *Freeing* ([`Order::Post`], since the previous snapshot): frees each block that it is told of;
//! when it has done enough, the bookmark of the next one goes on disk (format/3a 8). Damage has
//! the place where to go on when the device is well.
//!
//! *Verification and scrub* ([`DiskOrder`], one [`Root`] for each snapshot and dataset, each since
//! the one before it): [`Visitor::admit`] claims space or knows what was checked before,
//! [`Reader`] reads all copies. A scrub stops when [`Visitor::goes_on`] says so, has the gathered
//! data read ([`DiskOrder::drain`]) and stores [`DiskOrder::resume_point`]; the next one begins
//! with that root and [`DiskOrder::resume_at`].
//!
//! *Resilvering* is a scrub whose [`Visitor::wants`] takes data blocks only if their physical
//! birth is in the missing range, and whose roots are since the begin of that range. No upper
//! bound prunes what leads on: a young indirect block has old children. For what leads on,
//! [`Visitor::found`] knows whether to repair.
//!
//! *Sending* ([`Order::Pre`], [`Since::logical`], holes and free slots): an object's event gives
//! its record, holes and free slots give those for what is gone, blocks those for what is there;
//! data is read ahead by [`Walk::data_ahead`] and read with [`Ordered::read`]. To go on at an
//! object and offset, `resume` is the data block there: its object is told of again. Holes
//! without a birth are all told of; whether they count is the sender's to judge (format/4 4).
//!
//! *Reports of space* ([`DiskOrder`] with [`Cached`]): [`Visitor::wants`] counts a block and is
//! false for data, which is then never read.
//!
//! # What is not part of it
//!
//! The intent log's blocks hang on the object set block's header, not on a block tree, and no walk
//! meets them. They are freed with the header by who destroys a dataset, claimed and freed by
//! replay, and accounted by verification from the chains (`intent_log`); what their records point
//! to that is not in a tree yet is theirs, too. Space maps, lists of blocks to free and deadlists
//! are data to a walk: it reads the objects and does not follow what their contents name.
//!
//! What changes meanwhile is not seen either: a walk goes over one state that was on disk. The
//! blocks of a state that a later one replaced may be written over, so whoever walks the state of
//! a set that is written to keeps it alive, or tries again with the newest when it meets damage.
//!
//! Without keys the trees of an encrypted set are walked all the same: indirect blocks, and of
//! dnodes all but the bonus buffers, are not encrypted (format/2d). Reading its data fails.
//!
//! [`Bookmark`]: cenote_base::Bookmark

mod disk_order;
mod order;
mod ordered;
mod read_ahead;
mod seen;
mod visit;

pub use disk_order::{Cached, DiskOrder, Limits, Pause, Reader, Visitor};
pub use ordered::{Damage, DamageKind, Event, Order, Ordered, Walk};
pub use visit::{Birth, Part, Root, SPILL_BLOCK, Since, Start, VISIT_SIZE, Visit};
