//! `zdb -b` and `-c`: all blocks of a pool by type, and whether they can be read.
//!
//! Each block is visited once, from the first dataset or snapshot that has it, and the sum is
//! compared with the space maps. Metadata is read on the way. Data is read with `-cc` only.

mod figures;
mod table;

use crate::line::Asked;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_dmu::traverse::{DiskOrder, Limits, Reader, Root, Visit, Visitor};
use cenote_dmu::{Block, BlockCache, DmuError, Retention};
use cenote_io::ReadContext;
use cenote_ondisk::VdevKind;
use cenote_ondisk::object_directory::keys;
use cenote_own_commands::reading::session::Session;
use cenote_pool::Pool;
use cenote_pool::verify::{clones, deferred, log_blocks, roots};
use cenote_vdev::AllocationClass;
use figures::Figures;
use std::sync::Arc;

/// The exit code if blocks are damaged or do not match the space maps.
const DAMAGED: u8 = 3;
/// Damaged blocks that are reported one by one.
const REPORTED_MAX: u64 = 1000;

/// Reads blocks: those that lead to others, and as far as wanted the rest.
#[derive(Clone)]
struct Checks {
    cache: Arc<BlockCache>,
    /// How often `-c` was given.
    level: usize,
}

impl Checks {
    fn read_one(&self, visit: &Visit, root: &Root) -> Result<Option<Block>, DmuError> {
        let context = ReadContext {
            bookmark: visit.bookmark,
            keys: root.keys.as_deref(),
        };
        // Without its key a block is judged by its checksum.
        if visit.pointer.has_crypt_parameters() && root.keys.is_none() && !visit.leads_on() {
            self.cache.read_stored(&visit.pointer, visit.bookmark)?;
            return Ok(None);
        }
        let contents = self
            .cache
            .read_as(&visit.pointer, context, Retention::Pass)?;
        Ok(visit.leads_on().then_some(contents))
    }
}

impl Reader for Checks {
    type Found = Result<Option<Block>, DmuError>;

    fn read(&self, visit: &Visit, root: &Root) -> Self::Found {
        self.read_one(visit, root)
    }

    fn read_group(&self, group: &[Visit], roots: &[Root]) -> Vec<Self::Found> {
        let read = |visit: &Visit| {
            let wanted = match self.level {
                0 => false,
                1 => !visit.is_file_data(),
                _ => true,
            };
            match wanted {
                true => self.read_one(visit, &roots[visit.root]),
                false => Ok(None),
            }
        };
        group.iter().map(read).collect()
    }
}

/// Counts the blocks, and collects what is wrong with them.
struct Count {
    checks: Checks,
    figures: Figures,
    damaged: u64,
    problems: Vec<String>,
}

impl Count {
    fn note(&mut self, visit: &Visit, error: &DmuError) {
        self.damaged += 1;
        if self.damaged <= REPORTED_MAX {
            let pointer = crate::pointer::full(&visit.pointer);
            self.problems
                .push(format!("{}: {error}: {pointer}", visit.bookmark));
        }
    }
}

impl Visitor for Count {
    type Reader = Checks;

    fn reader(&self) -> Checks {
        self.checks.clone()
    }

    fn wants(&mut self, _: &Visit) -> bool {
        true
    }

    fn admit(&mut self, visit: &Visit) -> bool {
        self.figures.add(&visit.pointer);
        true
    }

    fn found(&mut self, visit: &Visit, found: Result<Option<Block>, DmuError>) -> Option<Block> {
        match found {
            Ok(contents) => contents,
            Err(error) => {
                self.note(visit, &error);
                None
            }
        }
    }

    fn damaged(&mut self, visit: &Visit, error: DmuError) {
        self.note(visit, &error);
    }

    fn goes_on(&mut self, _: Option<usize>) -> bool {
        true
    }

    fn progressed(&mut self, _: Option<usize>) {}
}

/// Counts all blocks, and prints what was found.
pub fn print(asked: &Asked, session: &Session, printer: &mut Printer) -> Result<(), Problem> {
    let pool = session.pool();
    let checks = asked.count("c");
    let compares = !asked.has("L");
    printer.line(&format!(
        "\nTraversing all blocks {}...\n",
        purpose(checks, compares)
    ))?;
    printer.flush()?;
    let count = walk(pool, checks)?;
    for problem in &count.problems {
        printer.complain(problem)?;
    }
    if count.damaged > REPORTED_MAX {
        let more = count.damaged - REPORTED_MAX;
        printer.complain(&format!("{more} more blocks are damaged"))?;
    }
    if count.damaged > 0 {
        printer.code = DAMAGED;
    }
    if compares {
        compare(pool, &count, printer)?;
    }
    let level = asked.level("b");
    printer.text(&table::summary(&count.figures, &classes(pool), level))?;
    if level >= 2 {
        printer.text(&table::by_type(&count.figures, level, printer))?;
        printer.text(&table::by_size(&count.figures, printer))?;
    }
    Ok(())
}

fn purpose(checks: usize, compares: bool) -> String {
    let words = match checks {
        0 => "",
        1 => "metadata checksums ",
        _ => "checksums ",
    };
    match (words, compares) {
        ("", false) => String::new(),
        ("", true) => "to verify nothing leaked ".to_owned(),
        (words, false) => format!("to verify {words}"),
        (words, true) => format!("to verify {words}and verify nothing leaked "),
    }
}

/// Whether all that is allocated is found by walks, lists of blocks to free and intent logs.
fn can_compare(pool: &Pool) -> Result<bool, Problem> {
    let has_removed = |kind: &VdevKind| *kind == VdevKind::Indirect;
    let tree = pool.vdev_tree();
    let removed = tree.children.iter().any(|top| has_removed(&top.kind));
    let directory = pool.dsl().object_directory();
    for key in [keys::BPTREE, keys::DELETED_CLONES] {
        if directory
            .object(key)
            .map_err(failed("the object directory"))?
            .is_some()
        {
            return Ok(false);
        }
    }
    Ok(!removed)
}

fn walk(pool: &Pool, level: usize) -> Result<Count, Problem> {
    let what = || pool.name().to_owned();
    let cache = Arc::clone(pool.cache());
    let workers = Arc::clone(cache.workers());
    let mut count = Count {
        checks: Checks { cache, level },
        figures: Figures::new(clones(pool).map_err(failed(what()))?.into_keys().collect()),
        damaged: 0,
        problems: Vec::new(),
    };
    let roots = roots(pool).map_err(failed(what()))?;
    let roots = roots.into_iter().map(|(_, root)| root).collect();
    DiskOrder::new(roots, workers, Limits::default()).run(&mut count);
    let logs = log_blocks(pool, &mut |pointer| count.figures.add(pointer));
    logs.map_err(failed("intent logs"))?;
    let freed = deferred(pool, &mut |pointer| count.figures.add_deferred(pointer));
    freed.map_err(failed("lists of blocks to free"))?;
    Ok(count)
}

/// Compares the sum of the blocks with what the space maps have.
fn compare(pool: &Pool, count: &Count, printer: &mut Printer) -> Result<(), Problem> {
    let space = pool.space();
    let allocated: u64 = space.values().map(|space| space.allocated).sum();
    let checkpoint: u64 = space.values().map(|space| space.checkpoint).sum();
    let found = count.figures.stored().saturating_add(checkpoint);
    if found == allocated {
        return printer.text("\n\tNo leaks (block sum matches space maps exactly)\n");
    }
    if count.damaged > 0 {
        return printer.text("\n\tleaks are not looked for: blocks cannot be read\n");
    }
    if !can_compare(pool)? {
        let words = "the sum of all blocks is not what is allocated, which may be right: a device \
                     was removed, or datasets are being destroyed. 'cenote verify' compares";
        return printer.text(&format!("\n\t{words}\n"));
    }
    let (word, bytes) = match allocated > found {
        true => ("leaked", allocated - found),
        false => ("unreachable", found - allocated),
    };
    printer.text(&format!(
        "\nblock traversal size {found} != alloc {allocated} ({word} {bytes})\n"
    ))?;
    let problem = format!(
        "{bytes} bytes are {word}: 'cenote verify {}' says where",
        pool.name()
    );
    printer.complain(&problem)?;
    printer.code = DAMAGED;
    Ok(())
}

/// What is allocated of each class of devices, and how much it has.
fn classes(pool: &Pool) -> Vec<(&'static str, u64, u64)> {
    let names = [
        ("Normal class:", AllocationClass::Normal),
        ("Special class", AllocationClass::Special),
        ("Dedup class", AllocationClass::Dedup),
        ("Log class", AllocationClass::Log),
    ];
    let (shape, space) = (pool.vdevs(), pool.space());
    let sums = names.iter().map(|(name, class)| {
        let of_class = space
            .iter()
            .filter(|(vdev, _)| shape.class(**vdev) == Some(*class));
        let sum = |(allocated, size), (_, space): (_, &cenote_pool::VdevSpace)| {
            (allocated + space.allocated, size + space.size)
        };
        let (allocated, size) = of_class.fold((0, 0), sum);
        (*name, allocated, size)
    });
    sums.filter(|(_, _, size)| *size > 0).collect()
}
