//! The block tree of an object, and which parts of it have data.

use crate::pointer;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_base::ObjectId;
use cenote_dmu::Object;
use cenote_dmu::traverse::{Event, Ordered, Part, Root, Since, Visit, Walk};
use cenote_ondisk::BlockPointer;
use cenote_ondisk::dnode::DNODE_SIZE;
use std::sync::Arc;

/// How much is printed of objects.
#[derive(Clone, Copy, Debug)]
pub struct Detail {
    /// How often `-d` was given.
    pub level: usize,
    /// Block pointers of trees are printed in full.
    pub whole_pointers: bool,
}

impl Detail {
    /// That many `-d`.
    pub fn of(level: usize) -> Self {
        Self {
            level,
            whole_pointers: false,
        }
    }

    /// A pointer in a tree.
    pub fn pointer(self, pointer: &BlockPointer) -> String {
        match (self.whole_pointers, self.level) {
            (true, _) => pointer::full(pointer),
            (false, 6..) => pointer::short(pointer, 3),
            (false, _) => pointer::short(pointer, 1),
        }
    }
}

/// Prints the tree, and the segments with data.
pub fn print(object: &Object, detail: Detail, printer: &mut Printer) -> Result<(), Problem> {
    printer.line("Indirect blocks:")?;
    let walk = Walk {
        holes: true,
        ..Walk::default()
    };
    let cache = Arc::clone(object.set().cache());
    let mut events = Ordered::new(cache, Root::of_object(object, Since::EVER), walk);
    while let Some(event) = events.next() {
        match event {
            Event::Object(id, _) if id == object.id() => {}
            // Below the meta-dnode are all other objects.
            Event::Object(..) => events.pass_over(),
            Event::Block(visit) => block(&visit, object, detail, printer)?,
            Event::Hole(visit) if visit.pointer.logical_birth().0 != 0 => {
                block(&visit, object, detail, printer)?;
            }
            Event::Hole(_) | Event::FreeSlots { .. } => {}
            Event::Damage(damage) => {
                let place = damage.visit.bookmark;
                printer.complain(&format!("{place}: {}", damage.error))?;
            }
        }
    }
    printer.line("")?;
    match object.id() {
        ObjectId(0) => dnode_segments(object, printer),
        _ => segments(object, printer),
    }
}

/// One line: where the block begins in the object, its level, and its pointer.
fn block(
    visit: &Visit,
    object: &Object,
    detail: Detail,
    printer: &mut Printer,
) -> Result<(), Problem> {
    if visit.part != Part::Tree || visit.bookmark.object != object.id() {
        return Ok(());
    }
    let (first, _) = visit.span();
    let offset = first.saturating_mul(object.dnode().data_block_size);
    let mut text = format!("{offset:16x} ");
    let own = visit.bookmark.level.0;
    for position in (0..object.dnode().levels).rev() {
        match position == own {
            true => text.push_str(&format!("L{own}")),
            false => text.push(' '),
        }
    }
    let pointer = detail.pointer(&visit.pointer);
    printer.line(&format!("{text} {pointer}"))
}

fn segment(start: u64, end: u64, printer: &mut Printer) -> Result<(), Problem> {
    let size = printer.number(end.saturating_sub(start));
    printer.line(&format!(
        "\t\tsegment [{start:016x}, {end:016x}) size {size:>5}"
    ))
}

fn segments(object: &Object, printer: &mut Printer) -> Result<(), Problem> {
    let what = || format!("object {}", object.id().0.cast_signed());
    let mut at = 0;
    while let Some(start) = object.next_data(at).map_err(failed(what()))? {
        let end = object.next_hole(start).map_err(failed(what()))?;
        segment(start, end, printer)?;
        if end <= start {
            break;
        }
        at = end;
    }
    Ok(())
}

/// Of the meta-dnode: runs of dnodes.
fn dnode_segments(meta: &Object, printer: &mut Printer) -> Result<(), Problem> {
    let mut run: Option<(u64, u64)> = None;
    for found in meta.set().objects(ObjectId(1)) {
        // Damage was reported by the walk.
        let Ok((id, dnode)) = found else { continue };
        let start = id.0 * DNODE_SIZE as u64;
        let end = start + (dnode.slots() * DNODE_SIZE) as u64;
        run = match run {
            Some((first, last)) if last == start => Some((first, end)),
            Some((first, last)) => {
                segment(first, last, printer)?;
                Some((start, end))
            }
            None => Some((start, end)),
        };
    }
    match run {
        Some((first, last)) => segment(first, last, printer),
        None => Ok(()),
    }
}
