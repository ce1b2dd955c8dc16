//! `zdb -d`: datasets, each in a line, and what is in them.
//!
//! What stands below a dataset comes before it: first its children, then its snapshots.

use crate::intent_log;
use crate::line::Asked;
use crate::objects::{self, Selection};
use crate::pointer;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use crate::session::Target;
use crate::tree::Detail;
use cenote_base::ObjectId;
use cenote_dmu::{DmuError, ObjectSet};
use cenote_dsl::{Dataset, Directory, DslError, SnapshotEntry};
use cenote_ondisk::objset::ObjsetKind;
use cenote_ondisk::uberblock::TXG_INITIAL;
use cenote_own_commands::reading::session::Session;
use std::collections::HashMap;
use std::sync::Arc;

/// The most directories of a walk: more than any pool has. It ends the walk of a damaged tree.
const DIRECTORIES_MAX: usize = 1 << 20;

/// The line about a dataset.
struct Line<'a> {
    name: &'a str,
    kind: &'a str,
    id: u64,
    creation_txg: u64,
    bytes: u64,
    is_inconsistent: bool,
}

impl Line<'_> {
    fn print(&self, set: &ObjectSet, level: usize, printer: &mut Printer) -> Result<(), Problem> {
        let root = set.root();
        let mut text = format!(
            "Dataset {} [{}], ID {}, cr_txg {}, {}, {} objects",
            self.name,
            self.kind,
            self.id,
            self.creation_txg,
            printer.number(self.bytes),
            root.fill()
        );
        if level >= 4 {
            text.push_str(&format!(", rootbp {}", pointer::full(&root)));
        }
        if self.is_inconsistent {
            text.push_str(" (inconsistent)");
        }
        printer.line(&text)
    }
}

fn kind_name(kind: ObjsetKind) -> &'static str {
    match kind {
        ObjsetKind::Meta => "META",
        ObjsetKind::Zfs => "ZPL",
        ObjsetKind::Volume => "ZVOL",
        _ => "OTHER",
    }
}

/// The pool's own objects.
fn mos_line(session: &Session, level: usize, printer: &mut Printer) -> Result<(), Problem> {
    let pool = session.pool();
    let used = || -> Result<u64, DslError> {
        let own = pool.dsl().root()?.child(b"$MOS")?;
        Ok(own.map_or(0, |own| own.phys().used_bytes))
    };
    let used = used().map_err(failed("the space of the pool's own objects"));
    let bytes = match used {
        Ok(bytes) => bytes,
        Err(problem) => {
            printer.survive(Err(problem))?;
            0
        }
    };
    let line = Line {
        name: "mos",
        kind: "META",
        id: 0,
        creation_txg: TXG_INITIAL.0,
        bytes,
        is_inconsistent: false,
    };
    line.print(pool.mos(), level, printer)
}

/// Objects of the pool itself.
pub fn mos_objects(asked: &Asked, target: &Target, printer: &mut Printer) -> Result<(), Problem> {
    let selection = Selection::parse(&asked.operands[1..])?;
    let level = asked.count("d");
    mos_line(&target.session, level, printer)?;
    let set = target.session.pool().mos();
    objects::print(set, None, &selection, Detail::of(level), printer)
}

/// One dataset.
pub fn one(asked: &Asked, target: &Target, printer: &mut Printer) -> Result<(), Problem> {
    let dataset = target.dataset(asked.operand(0, "a dataset")?)?;
    let selection = Selection::parse(&asked.operands[1..])?;
    if !selection.is_everything() && !asked.has("d") {
        return Err(Problem::Usage("objects go with -d".to_owned()));
    }
    let level = asked.count("d").max(usize::from(!asked.has("i")));
    let whole_pointers = match asked.count("b") {
        0 => false,
        6.. => true,
        _ => {
            let problem =
                "-b counts the blocks of a pool; of a dataset, -bbbbbb prints whole pointers";
            return Err(Problem::Usage(problem.to_owned()));
        }
    };
    let detail = Detail {
        level,
        whole_pointers,
    };
    print(&dataset, (detail, asked.count("i")), &selection, printer)
}

/// All datasets of the pool, and its own objects.
pub fn all(asked: &Asked, target: &Target, printer: &mut Printer) -> Result<(), Problem> {
    let session = &target.session;
    let level = asked.level("d");
    let levels = (Detail::of(level), asked.level("i"));
    mos_line(session, level, printer)?;
    if level >= 2 {
        objects::print(
            session.pool().mos(),
            None,
            &Selection::default(),
            levels.0,
            printer,
        )?;
    }
    let root = session.pool().dsl().root();
    let root = root.map_err(failed("the root directory"))?;
    let mut walk = vec![(root, false)];
    let mut left = DIRECTORIES_MAX;
    while let Some((directory, has_children_done)) = walk.pop() {
        if has_children_done {
            let printed = directory_heads(&directory, levels, printer);
            printer.survive(printed)?;
            continue;
        }
        let Some(fewer) = left.checked_sub(1) else {
            return Err(Problem::Failed(
                "the tree of datasets does not end".to_owned(),
            ));
        };
        left = fewer;
        walk.push((Arc::clone(&directory), true));
        match children(&directory) {
            Ok(children) => walk.extend(children.into_iter().rev().map(|child| (child, false))),
            Err(problem) => printer.survive(Err(problem))?,
        }
    }
    Ok(())
}

/// The names in a table, in its own order: by the hashes of the names.
fn stored_order(set: &Arc<ObjectSet>, table: ObjectId) -> Result<Vec<Vec<u8>>, DmuError> {
    let mut names = Vec::new();
    for entry in set.zap(table)?.entries() {
        names.extend(entry?.key.as_name().map(<[u8]>::to_vec));
    }
    Ok(names)
}

/// In the order of the table that names them, without the pool's own.
fn children(directory: &Arc<Directory>) -> Result<Vec<Arc<Directory>>, Problem> {
    let name = directory.name().as_str();
    let mut children = directory.listed_children().map_err(failed(name))?;
    let order = stored_order(directory.dsl().mos(), directory.phys().child_map);
    let order = order.map_err(failed(name))?;
    let places: HashMap<&[u8], usize> = places(&order);
    children.sort_by_key(|child| places.get(child.component.as_slice()));
    let opened = children.iter().map(|child| directory.open_child(child));
    opened.map(|child| child.map_err(failed(name))).collect()
}

fn places(order: &[Vec<u8>]) -> HashMap<&[u8], usize> {
    let numbered = order.iter().enumerate();
    numbered
        .map(|(place, name)| (name.as_slice(), place))
        .collect()
}

/// The snapshots of a head, in the order of the table that names them.
fn snapshots(head: &Dataset) -> Result<Vec<SnapshotEntry>, Problem> {
    let name = head.name().as_str();
    let mut snapshots = head.snapshots().map_err(failed(name))?;
    if let Some(table) = head.phys().snapshot_names {
        let order = stored_order(head.dsl().mos(), table).map_err(failed(name))?;
        let places = places(&order);
        snapshots.sort_by_key(|entry| places.get(entry.name.as_slice()));
    }
    Ok(snapshots)
}

/// The snapshots of a directory's head, and the head.
fn directory_heads(
    directory: &Arc<Directory>,
    levels: (Detail, usize),
    printer: &mut Printer,
) -> Result<(), Problem> {
    let name = directory.name().as_str().to_owned();
    let Some(head) = directory.head().map_err(failed(name.as_str()))? else {
        return Ok(());
    };
    match snapshots(&head) {
        Ok(snapshots) => {
            for entry in &snapshots {
                let opened = head.open_snapshot(entry).map_err(failed(name.as_str()));
                let printed = opened
                    .and_then(|snapshot| print(&snapshot, levels, &Selection::default(), printer));
                printer.survive(printed)?;
            }
        }
        Err(problem) => printer.survive(Err(problem))?,
    }
    print(&head, levels, &Selection::default(), printer)
}

fn print(
    dataset: &Dataset,
    (detail, log_level): (Detail, usize),
    selection: &Selection,
    printer: &mut Printer,
) -> Result<(), Problem> {
    let (name, level) = (dataset.name().as_str(), detail.level);
    let set = dataset.object_set().map_err(failed(name))?;
    let phys = dataset.phys();
    let line = Line {
        name,
        kind: kind_name(set.header().kind),
        id: dataset.objset_id().0,
        creation_txg: phys.creation_txg.0,
        bytes: phys.referenced_bytes,
        is_inconsistent: dataset.is_inconsistent(),
    };
    line.print(&set, level, printer)?;
    if !selection.is_everything() {
        return objects::print(&set, Some(dataset), selection, detail, printer);
    }
    if (log_level > 0 || level >= 2) && !dataset.is_snapshot() {
        let txg = dataset.dsl().mos().root().logical_birth();
        let printed = intent_log::print(dataset, &set, txg, log_level.max(level), printer);
        printer.survive(printed)?;
    }
    if level >= 2 {
        objects::print(&set, Some(dataset), selection, detail, printer)?;
    }
    Ok(())
}
