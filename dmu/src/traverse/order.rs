//! The order of bookmarks, and where a block stands in relation to the place to resume at.
//!
//! Within an object the first data block below a block gives the order, and then its height.
//! Objects go by their numbers; those of the accounting have the highest. A block of the
//! meta-dnode stands where the objects are whose dnodes are below it.

use super::visit::{Part, SPILL_BLOCK, Visit, span_of};
use cenote_base::{BlockId, Bookmark, Level, ObjectId};

/// Objects from here on stand in the object set block and not below the meta-dnode.
const SPECIAL_OBJECTS: u64 = u64::MAX - 2;

/// Objects in a block of dnodes of 16 KiB, the size that they have.
pub(crate) const DNODES_PER_BLOCK: u64 = 32;

/// Where something is in relation to the block at which a walk resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It and all below it come before in both orders.
    Before,
    /// The place is below it.
    Above,
    /// It is the place.
    Same,
    /// It is below the place.
    Below,
    /// It and all below it come after.
    After,
}

/// Where an object's dnode is in relation to `place`.
pub(crate) fn relation_of_object(object: ObjectId, place: Bookmark) -> Relation {
    let (object, placed) = (object.0, place.object.0);
    if object == placed {
        return Relation::Above;
    }
    if object == 0 && placed < SPECIAL_OBJECTS {
        // All objects but those are below it.
        return Relation::Above;
    }
    // Objects below a block of the meta-dnode that is the place are not gone to before it is met.
    match object < placed {
        true => Relation::Before,
        false => Relation::After,
    }
}

/// Where a block is in relation to `place`.
pub(crate) fn relation_of(visit: &Visit, place: Bookmark, dnodes_per_block: u64) -> Relation {
    let here = visit.bookmark;
    if visit.part == Part::Objset {
        return Relation::Above;
    }
    if here.object == place.object {
        return within_object(visit, place);
    }
    if here.object.0 != 0 {
        return relation_of_object(here.object, place);
    }
    if place.object.0 >= SPECIAL_OBJECTS {
        return Relation::Before;
    }
    let ((first, last), placed) = (visit.span(), place.object.0 / dnodes_per_block.max(1));
    match (last < placed, first <= placed) {
        (true, _) => Relation::Before,
        (false, true) => Relation::Above,
        (false, false) => Relation::After,
    }
}

fn within_object(visit: &Visit, place: Bookmark) -> Relation {
    let here = visit.bookmark;
    let is_placed_at_spill = place.level.0 == 0 && place.block == SPILL_BLOCK;
    match (visit.part == Part::Spill, is_placed_at_spill) {
        (true, true) => return Relation::Same,
        (true, false) => return Relation::After,
        (false, true) => return Relation::Before,
        (false, false) => {}
    }
    if (here.level, here.block) == (place.level, place.block) {
        return Relation::Same;
    }
    let (first, last) = visit.span();
    let (first_placed, last_placed) = span_of(place.level, place.block, visit.fanout_shift);
    if here.level > place.level && (first..=last).contains(&first_placed) {
        return Relation::Above;
    }
    if here.level < place.level && (first_placed..=last_placed).contains(&first) {
        return Relation::Below;
    }
    match first < first_placed {
        true => Relation::Before,
        false => Relation::After,
    }
}

/// The place to resume at for a post-order walk that has met nothing below a block: that of the
/// first block that there can be below it.
pub(crate) fn first_below(visit: &Visit) -> Bookmark {
    let here = visit.bookmark;
    if visit.part != Part::Tree || !visit.leads_on() {
        return here;
    }
    let (first, _) = visit.span();
    match here.object.0 {
        0 => of_object(here, first.saturating_mul(visit.dnodes_per_block())),
        _ => Bookmark {
            level: Level(0),
            block: BlockId(first),
            ..here
        },
    }
}

/// The place to resume at for a walk that has met nothing from this object on. There is no object 0
/// but the meta-dnode itself.
pub(crate) fn of_object(near: Bookmark, object: u64) -> Bookmark {
    Bookmark::data(near.objset, ObjectId(object.max(1)), BlockId(0))
}

/// What visits of one object set sort by in pre-order.
pub(crate) fn pre_order(visit: &Visit, dnodes_per_block: u64) -> (u64, bool, ObjectId, u64, u8) {
    let here = visit.bookmark;
    let (first, _) = visit.span();
    let height = u8::MAX - here.level.0;
    match here.object.0 {
        0 if visit.part == Part::Objset => (0, false, ObjectId(0), 0, 0),
        0 => (first, false, here.object, first, height),
        SPECIAL_OBJECTS.. => (u64::MAX, true, here.object, first, height),
        object => {
            let block = object / dnodes_per_block.max(1);
            (block, true, here.object, first, height)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::ObjsetId;
    use cenote_ondisk::BlockPointer;

    fn visit(object: u64, level: u8, block: u64) -> Visit {
        let is_spill = block == SPILL_BLOCK.0;
        Visit {
            pointer: BlockPointer::HOLE,
            bookmark: place(object, level, block),
            root: 0,
            part: if is_spill { Part::Spill } else { Part::Tree },
            fanout_shift: 10,
            data_size: 16384,
        }
    }

    fn place(object: u64, level: u8, block: u64) -> Bookmark {
        Bookmark {
            objset: ObjsetId(u64::MAX),
            object: ObjectId(object),
            level: Level(level),
            block: BlockId(block),
        }
    }

    #[test]
    fn blocks_stand_before_above_below_and_after() {
        use Relation::{Above, After, Before, Below, Same};
        let user = u64::MAX;
        let spill = SPILL_BLOCK.0;
        for (here, there, expected) in [
            // In one object.
            ((7, 0, 4), (7, 0, 5), Before),
            ((7, 0, 5), (7, 0, 5), Same),
            ((7, 0, 6), (7, 0, 5), After),
            ((7, 1, 0), (7, 0, 5), Above),
            ((7, 1, 1), (7, 0, 5), After),
            ((7, 1, 0), (7, 0, 1024), Before),
            ((7, 0, 1024), (7, 1, 1), Below),
            ((7, 0, 1023), (7, 1, 1), Before),
            ((7, 2, 0), (7, 1, 1), Above),
            ((7, 11, 0), (7, 0, spill), Before),
            ((7, 0, spill), (7, 0, 9), After),
            ((7, 0, spill), (7, 0, spill), Same),
            // Between objects.
            ((7, 0, spill), (8, 0, 0), Before),
            ((9, 3, 0), (8, 0, spill), After),
            ((7, 0, 0), (user, 0, 0), Before),
            ((user, 0, 0), (7, 0, 0), After),
            ((user - 1, 0, 0), (user, 0, 0), Before),
            // Blocks of dnodes and objects in them.
            ((0, 0, 0), (31, 0, 5), Above),
            ((0, 0, 0), (32, 0, 5), Before),
            ((0, 0, 2), (32, 0, 5), After),
            ((0, 1, 0), (32, 0, 5), Above),
            ((0, 1, 1), (32, 0, 5), After),
            ((0, 1, 1), (user - 2, 0, 5), Before),
            ((40, 0, 1), (0, 0, 0), After),
        ] {
            let visit = visit(here.0, here.1, here.2);
            let found = relation_of(&visit, place(there.0, there.1, there.2), 32);
            assert_eq!(found, expected, "{here:?} and {there:?}");
        }
    }

    #[test]
    fn absurd_places_are_somewhere() {
        for block in [0, 1, u64::MAX - 1, u64::MAX] {
            for level in [0, 1, 11, 200, 255] {
                for object in [0, 1, u64::MAX] {
                    let place = place(object, level, block);
                    relation_of(&visit(0, 1, u64::MAX - 1), place, 0);
                    relation_of(&visit(1, 11, u64::MAX - 1), place, u64::MAX);
                    first_below(&visit(object, 11, block));
                }
            }
        }
    }

    #[test]
    fn keys_are_in_the_order_of_a_walk() {
        let walk = [
            (0, 1, 0),
            (0, 0, 0),
            (1, 0, 0),
            (7, 2, 0),
            (7, 1, 0),
            (7, 0, 0),
            (7, 0, 1),
            (7, 1, 1),
            (7, 0, 1024),
            (7, 0, SPILL_BLOCK.0),
            (31, 0, 0),
            (0, 0, 1),
            (32, 0, 0),
            (0, 1, 1),
            (0, 0, 1024),
            (u64::MAX - 1, 0, 0),
            (u64::MAX, 0, 0),
        ];
        let keys = walk.map(|(object, level, block)| {
            pre_order(&visit(object, level, block), DNODES_PER_BLOCK)
        });
        assert!(keys.is_sorted(), "{keys:?}");
    }
}
