//! Structures of the pool as a whole.

use super::arguments::Arguments;
use super::devices::uberblock_node;
use super::node::{Members, Node};
use super::objects::{packed_list, zap_value};
use super::printer::{Printer, failed};
use crate::files::show::Clock;
use crate::reading::datasets::DatasetWalk;
use crate::reading::failure::Failure;
use crate::reading::output::escaped;
use crate::reading::session::Session;
use cenote_dsl::{Dataset, DatasetType, DslError, FeatureTable, directory_keys};
use cenote_history::HistoryBody;
use cenote_ondisk::features;
use cenote_words::format::number::nicebytes;
use std::sync::Arc;

fn opened(arguments: &Arguments) -> Result<Session, Failure> {
    arguments.open(&arguments.spec()?)
}

/// `inspect config POOL`: the pool's own configuration and the uberblock it was opened at.
pub fn config(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = opened(arguments)?;
    let pool = session.pool();
    let found = pool.dsl().object_directory().object(directory_keys::CONFIG);
    let object = found.map_err(failed("the object directory"))?;
    let mut members = Members::new();
    members.put(
        "uberblock",
        uberblock_node(&pool.uberblock(), &Clock::local()),
    );
    if let Some(object) = object {
        let list = packed_list(pool.mos(), object);
        let list = list.map_err(failed(format!("object {object}, the configuration")))?;
        members.put("config", Node::from(&list));
    }
    printer.node(members)
}

/// `inspect mos POOL`: the object directory.
pub fn object_directory(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = opened(arguments)?;
    let mut rows = Vec::new();
    for entry in session.pool().dsl().object_directory().zap().entries() {
        let entry = entry.map_err(failed("the object directory"))?;
        let name = entry.key.as_name().unwrap_or_default().to_vec();
        rows.push((name, zap_value(&entry.value)));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let mut members = Members::new();
    for (name, value) in rows {
        members.put(&String::from_utf8_lossy(&name), value);
    }
    printer.node(members)
}

/// `inspect features POOL`.
pub fn features(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = opened(arguments)?;
    for (guid, feature) in session.pool().dsl().features().iter() {
        let known = features::by_guid(guid);
        let table = match feature.table {
            FeatureTable::ForRead => "read",
            FeatureTable::ForWrite => "write",
        };
        let mut members = Members::new();
        members.put("guid", guid);
        members.put_some("name", known.map(|feature| feature.name));
        members.put("needed_for", table);
        members.put("references", feature.count);
        members.put_some("enabled_txg", feature.enabled_txg.map(|txg| txg.0));
        members.put_some("description", feature.description.clone());
        let state = if feature.is_active() {
            "active"
        } else {
            "enabled"
        };
        let name = known.map_or(guid, |feature| feature.name);
        let text = format!(
            "{name:<28} {state:<8} {:>8}  needed to {table}",
            feature.count
        );
        printer.row(members, &text)?;
    }
    Ok(())
}

/// `inspect history POOL`.
pub fn history(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = opened(arguments)?;
    let clock = Clock::local();
    let history = cenote_history::read(session.pool().dsl()).map_err(failed("the history"))?;
    let Some(history) = history else {
        return printer.title("the pool keeps no history");
    };
    for record in history {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                printer.complain(&format!("the history: {error}"));
                break;
            }
        };
        let mut members = Members::new();
        members.put("time", record.time);
        members.put_some("user", record.user);
        members.put_some("host", record.host.clone());
        let text = history_body(&record.body, &mut members);
        let text = format!(
            "{}  {}",
            clock.seconds(record.time),
            escaped(text.as_bytes())
        );
        printer.row(members, &text)?;
    }
    Ok(())
}

/// The contents of a record, as members and as one line.
fn history_body(body: &HistoryBody, members: &mut Members) -> String {
    match body {
        HistoryBody::Command(command) => {
            members.put("command", command.as_str());
            command.clone()
        }
        HistoryBody::Internal {
            event,
            txg,
            dataset,
            detail,
        } => {
            members.put("event", event.as_str());
            members.put("txg", *txg);
            members.put_some("dataset", dataset.as_ref().map(|(name, _)| name.as_str()));
            members.put_some("object", dataset.as_ref().map(|(_, id)| *id));
            members.put("detail", detail.as_str());
            let of = dataset.as_ref().map(|(name, id)| format!(" {name} ({id})"));
            format!("[txg {txg}] {event}{} {detail}", of.unwrap_or_default())
        }
        HistoryBody::Ioctl {
            name,
            input,
            output,
        } => {
            members.put("ioctl", name.as_str());
            members.put_some("input", input.as_ref().map(Node::from));
            members.put_some("output", output.as_ref().map(Node::from));
            format!("ioctl {name}")
        }
        HistoryBody::Numbered { event, txg, detail } => {
            members.put("event", *event);
            members.put("txg", *txg);
            members.put("detail", detail.as_str());
            format!("[txg {txg}] event {event} {detail}")
        }
        HistoryBody::Unknown => "of no known kind".to_owned(),
    }
}

/// `inspect dedup POOL`: deduplication tables and cloned blocks.
pub fn dedup(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let session = opened(arguments)?;
    let dsl = session.pool().dsl();
    let what = "the deduplication tables";
    let totals = cenote_dsl::dedup_totals(dsl).map_err(failed(what))?;
    let mut members = Members::new();
    members.put("blocks", totals.blocks);
    members.put("allocated", totals.allocated);
    members.put("referenced_blocks", totals.referenced_blocks);
    members.put("referenced_allocated", totals.referenced_allocated);
    members.put("ratio_percent", cenote_dsl::dedup_ratio(&totals));
    let mut tables = Vec::new();
    for (name, histogram) in cenote_dsl::dedup_histograms(dsl).map_err(failed(what))? {
        let mut table = Members::new();
        table.put("table", name);
        let used = histogram
            .iter()
            .enumerate()
            .filter(|(_, row)| row.blocks > 0);
        let rows = used.map(|(power, row)| {
            let mut members = Members::new();
            members.put(
                "references_from",
                1_u64.checked_shl(power as u32).unwrap_or(0),
            );
            members.put("blocks", row.blocks);
            members.put("logical", row.logical);
            members.put("physical", row.physical);
            members.put("allocated", row.allocated);
            Node::from(members)
        });
        table.put("histogram", rows.collect::<Vec<_>>());
        tables.push(table.into());
    }
    members.put("tables", tables);
    let clones = cenote_dsl::clone_totals(dsl).map_err(failed("the block cloning tables"))?;
    let mut cloned = Members::new();
    cloned.put("entries", clones.entries);
    cloned.put("used", clones.used);
    cloned.put("saved", clones.saved);
    members.put("clones", cloned);
    printer.node(members)
}

/// `inspect datasets POOL`: heads, snapshots and bookmarks with their numbers.
pub fn datasets(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let first = session.dataset(&spec.dataset)?;
    if first.is_snapshot() {
        return dataset(&first, printer);
    }
    for head in DatasetWalk::below(Arc::clone(first.directory())) {
        let head = match head {
            Ok(head) => head,
            Err(error) => {
                printer.complain(&error.to_string());
                continue;
            }
        };
        dataset(&head, printer)?;
        if let Err(error) = snapshots(&head, printer)? {
            printer.complain(&format!("{}: {error}", head.name().as_str()));
        }
    }
    Ok(())
}

/// The snapshots and bookmarks of a head. The inner error is of reading, the outer of printing.
fn snapshots(head: &Dataset, printer: &mut Printer) -> Result<Result<(), DslError>, Failure> {
    let read = || -> Result<_, DslError> {
        let entries = head.snapshots()?;
        let opened: Result<Vec<_>, _> = entries.iter().map(|e| head.open_snapshot(e)).collect();
        Ok((opened?, head.bookmarks()?))
    };
    let (snapshots, bookmarks) = match read() {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    for snapshot in &snapshots {
        dataset(snapshot, printer)?;
    }
    for bookmark in &bookmarks {
        let (name, phys) = (bookmark.name.as_str(), &bookmark.phys);
        let mut members = Members::new();
        members.put("name", name);
        members.put("type", "bookmark");
        members.put("guid", phys.guid.0);
        members.put("creation_txg", phys.creation_txg.0);
        let text = format!(
            "{name:<40} bookmark    txg {:<8} guid {}",
            phys.creation_txg, phys.guid
        );
        printer.row(members, &text)?;
    }
    Ok(Ok(()))
}

fn dataset(dataset: &Dataset, printer: &mut Printer) -> Result<(), Failure> {
    let name = dataset.name().as_str();
    let phys = dataset.phys();
    let kind = match dataset.dataset_type() {
        Ok(DatasetType::Filesystem) => "filesystem",
        Ok(DatasetType::Volume) => "volume",
        Err(error) => {
            printer.complain(&format!("{name}: {error}"));
            "unknown"
        }
    };
    let mut members = Members::new();
    members.put("name", name);
    members.put("type", kind);
    members.put("is_snapshot", dataset.is_snapshot());
    members.put("objset", dataset.objset_id().0);
    members.put("directory", phys.directory.0);
    members.put("guid", phys.guid.0);
    members.put("creation_txg", phys.creation_txg.0);
    members.put("creation_time", phys.creation_time);
    members.put_some("previous_snapshot", phys.previous_snapshot.map(|id| id.0));
    members.put_some("next_snapshot", phys.next_snapshot.map(|id| id.0));
    members.put("referenced", phys.referenced_bytes);
    members.put("compressed", phys.compressed_bytes);
    members.put("uncompressed", phys.uncompressed_bytes);
    members.put("unique", phys.unique_bytes);
    members.put("deadlist", phys.deadlist.0);
    members.put("flags", phys.flags);
    members.put("root", phys.block_pointer.to_string());
    let kind = if dataset.is_snapshot() {
        "snapshot"
    } else {
        kind
    };
    let text = format!(
        "{name:<40} {kind:<11} objset {:<6} txg {:<8} refer {:>7} unique {:>7} guid {}",
        dataset.objset_id(),
        phys.creation_txg,
        nicebytes(phys.referenced_bytes),
        nicebytes(phys.unique_bytes),
        phys.guid,
    );
    printer.row(members, &text)
}
