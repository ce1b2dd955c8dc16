//! Walks over block trees: each block of an object set, or of one object, once.
//!
//! Freeing, verification, comparison, scrubbing, sending and reports of space all have to meet
//! every block below some root, and all have the same troubles. Blocks older than a snapshot belong
//! to that snapshot, blocks may be unreadable, trees may be made by an attacker, and one read at a
//! time is slow. There are two walks, since there are two orders that matter.
//!
//! [`Ordered`] follows ZFS's order of bookmarks. It is an iterator: with each [`Event`] the caller
//! decides whether to go below it or not ([`Ordered::pass_over`]), and it stops the walk by
//! dropping it. The order is that of a depth-first walk in which the meta-dnode's blocks stand
//! above the objects whose dnodes are in them:
//!
//! ```text
//! object set block > meta-dnode's tree > block of dnodes > dnode > its tree, then its spill block
//!                  > the accounting objects: projects, groups, users
//! ```
//!
//! A block comes before what is below it ([`Order::Pre`]), or after it ([`Order::Post`]). In both a
//! [`Bookmark`] names a point between two events, at which another walk can resume, after a crash
//! too: blocks that lie before it are neither read nor reported.
//!
//! [`DiskOrder`] ignores the order of bookmarks, and is as fast as the devices. It has two lists.
//! Blocks that lead to others are on a stack, which is taken from in batches: a batch is sorted by
//! address, all workers read it at once, and what it points to is pushed. Data gathers until there
//! is much of it and is then read in the order of its addresses. Both lists are bounded: the stack
//! because the walk goes depth first, the data because it is flushed. The stack has on top what
//! comes first in the order of bookmarks. So [`DiskOrder::resume_point`] can name a place before
//! which all is done, although some blocks behind it are done as well.
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
//! *Freeing* ([`Order::Post`], since the previous snapshot): frees each block that the walk
//! reports. When it has done enough, it stores the bookmark of the next one on disk (format/3a 8).
//! An event for damage has the place to resume at once the device is well.
//!
//! *Verification and scrub* ([`DiskOrder`], one [`Root`] for each snapshot and dataset, each since
//! the one before it): [`Visitor::admit`] claims space or knows what was checked before, [`Reader`]
//! reads all copies. A scrub stops when [`Visitor::goes_on`] returns false. It then reads the
//! gathered data ([`DiskOrder::drain`]) and stores [`DiskOrder::resume_point`]. The next one begins
//! with that root and [`DiskOrder::resume_at`].
//!
//! *Resilvering* is a scrub whose [`Visitor::wants`] takes data blocks only if their physical
//! birth is in the missing range, and whose roots are since the begin of that range. No upper
//! bound prunes what leads on: a young indirect block has old children. For what leads on,
//! [`Visitor::found`] knows whether to repair.
//!
//! *Sending* ([`Order::Pre`], [`Since::logical`], holes and free slots): an object's event gives
//! its record, holes and free slots give those for what is gone, blocks those for what is there;
//! data is read ahead by [`Walk::data_ahead`] and read with [`Ordered::read`]. To resume at an
//! object and offset, `resume` is the data block there: the walk reports its object again. Holes
//! without a birth are all reported; whether they count is up to the sender (format/4 4).
//!
//! *Reports of space* ([`DiskOrder`] with [`Cached`]): [`Visitor::wants`] counts a block and is
//! false for data, which is then never read.
//!
//! # What is not part of it
//!
//! The intent log's blocks hang on the object set block's header, not on a block tree, and no walk
//! meets them. Destroying a dataset frees them with the header; replay claims and frees them;
//! verification accounts them from the chains (`intent_log`). The same goes for blocks that only
//! their records point to. Space maps, lists of blocks to free and deadlists are data to a walk: it
//! reads the objects and does not follow what their contents name.
//!
//! Later changes are not seen either: a walk covers one state that was on disk. The blocks of a
//! state that a later one replaced may be overwritten. So a walk of a set that is in use keeps the
//! state alive, or starts again with the newest state when it meets damage.
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
