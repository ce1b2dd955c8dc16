//! Checking that the data of a device is as new as its labels.
//!
//! Labels can be newer than the rest of a device: if an older copy replaced a device in use, the
//! pool wrote its newest labels on it. So an import reads blocks of the newest groups on every
//! device that should have them. The pool's metadata is small, every group writes some of it, and
//! it has up to three copies.
//!
//! A device with wrong data in several such places is not what its labels say, and the age of the
//! rest is unknown. So it is resilvered in full. One wrong place among right ones is ordinary
//! damage, which a scrub repairs.
//!
//! Deliberately absent: more than a sample. A device may differ only where no recent block is. Each
//! block is verified when it is read.

use cenote_base::{Bookmark, Guid, Txg};
use cenote_dmu::ObjectSet;
use cenote_dmu::traverse::{Event, Ordered, Root, Since, Walk};
use cenote_io::Pipeline;
use cenote_ondisk::{BlockPointer, Uberblock};
use cenote_vdev::{CopyHealth, IoContext, TxgSet};
use std::collections::HashMap;
use std::sync::Arc;

/// How many blocks are read: on hard disks they take a fraction of a second.
const BLOCKS_MAX: usize = 32;
/// They are of so many groups.
const GROUPS: u64 = 8;
/// Wrong places that are no chance.
const WRONG_MIN: usize = 2;

/// What was found on a device.
#[derive(Clone, Copy, Debug, Default)]
struct Places {
    right: usize,
    wrong: usize,
}

/// The devices that lack what their labels say, and what they have to get.
pub(crate) fn lacking(mos: &Arc<ObjectSet>, opened: &Uberblock) -> Vec<(Guid, TxgSet)> {
    let since = Since::accounting(Txg(opened.txg.0.saturating_sub(GROUPS)));
    let walk = Ordered::new(
        Arc::clone(mos.cache()),
        Root::of_set(mos, since),
        Walk::default(),
    );
    let blocks = walk.filter_map(|event| match event {
        Event::Block(visit) => Some(visit.pointer),
        _ => None,
    });
    let mut found: HashMap<Guid, Places> = HashMap::new();
    for pointer in blocks.take(BLOCKS_MAX) {
        look_at(mos.cache().pipeline(), &pointer, &mut found);
    }
    let wrong = found
        .into_iter()
        .filter(|(_, places)| places.wrong >= WRONG_MIN || places.wrong > 0 && places.right == 0);
    let all = || TxgSet::from_ranges([Txg(0)..Txg(opened.txg.0 + 1)]);
    wrong.map(|(leaf, _)| (leaf, all())).collect()
}

/// Judges every copy of a block that has a right one.
fn look_at(pipeline: &Pipeline, pointer: &BlockPointer, found: &mut HashMap<Guid, Places>) {
    let shape = pipeline.vdevs();
    let size = usize::try_from(pointer.physical_size()).unwrap_or(0);
    if pointer.is_hole() || pointer.is_embedded() || pointer.is_gang() || size == 0 {
        return;
    }
    let is_right = |bytes: &[u8]| {
        let verified = pipeline.verify(pointer, bytes, Bookmark::default());
        verified.is_ok_and(|is_right| is_right)
    };
    let birth = pointer.physical_birth();
    for dva in pointer.dvas() {
        let checked = shape.check_log_copies(dva, size, birth, &is_right, &IoContext::COMMAND);
        let Ok(report) = checked.map(|report| report.verdicts) else {
            continue;
        };
        for verdict in report {
            let places = found.entry(verdict.leaf).or_default();
            match verdict.health {
                CopyHealth::Good => places.right += 1,
                CopyHealth::Wrong => places.wrong += 1,
                _ => {}
            }
        }
    }
}
