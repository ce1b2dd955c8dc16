//! Intent logs: the number of records, and the records.

use super::arguments::Arguments;
use super::node::{Members, Node};
use super::printer::Printer;
use crate::reading::datasets::DatasetWalk;
use crate::reading::failure::Failure;
use crate::reading::session::Session;
use cenote_dsl::Dataset;
use cenote_intent_log::{IntentLog, IntentLogError, LogSummary};
use cenote_ondisk::intent_log::record::RecordBody;
use cenote_words::format::number::counted;
use std::sync::Arc;

/// `inspect intent-log POOL|DATASET`.
pub fn intent_log(arguments: &Arguments, printer: &mut Printer) -> Result<(), Failure> {
    let spec = arguments.spec()?;
    let session = arguments.open(&spec)?;
    let first = session.dataset(&spec.dataset)?;
    let mut logs = 0;
    for head in DatasetWalk::below(Arc::clone(first.directory())) {
        let shown = head.and_then(|head| {
            session.unlock(&head)?;
            dataset(&session, &head, arguments, printer)
        });
        match shown {
            Ok(has_log) => logs += u64::from(has_log),
            Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            Err(failure) => printer.complain(&failure.to_string()),
        }
    }
    match logs {
        0 => printer.title("no dataset has an intent log"),
        _ => Ok(()),
    }
}

/// Shows the log of a dataset; false if it has none.
fn dataset(
    session: &Session,
    head: &Dataset,
    arguments: &Arguments,
    printer: &mut Printer,
) -> Result<bool, Failure> {
    let name = head.name().as_str().to_owned();
    let set = session.object_set(head)?;
    let bad = |error: IntentLogError| Failure::Absent {
        what: format!("{name}: intent log"),
        problem: error.to_string(),
    };
    let Some(log) = IntentLog::open(&set).map_err(bad)? else {
        return Ok(false);
    };
    let summary = log.summary(session.pool().txg()).map_err(bad)?;
    let text = summary_text(&name, &summary);
    printer.row(summary_node(&name, &summary), &text)?;
    if arguments.entries {
        records(&name, &log, session, printer)?;
    }
    Ok(true)
}

fn summary_node(name: &str, summary: &LogSummary) -> Members {
    let mut members = Members::new();
    members.put("dataset", name);
    members.put("blocks", summary.blocks);
    members.put("bytes", summary.bytes);
    members.put("record_bytes", summary.record_bytes);
    members.put("replayable", summary.replayable);
    members.put("claimed", summary.is_claimed);
    let mut kinds = Members::new();
    for (kind, count) in &summary.records {
        kinds.put(kind, *count);
    }
    members.put("records", kinds);
    if let Some((low, high)) = summary.sequences {
        members.put("sequences", vec![Node::Number(low), Node::Number(high)]);
    }
    if let Some((low, high)) = summary.txgs {
        members.put("txgs", vec![Node::Number(low.0), Node::Number(high.0)]);
    }
    members
}

fn summary_text(name: &str, summary: &LogSummary) -> String {
    let total: u64 = summary.records.values().sum();
    let kinds: Vec<String> = summary
        .records
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect();
    let kinds = match kinds.is_empty() {
        true => String::new(),
        false => format!(" ({})", kinds.join(", ")),
    };
    let claimed = if summary.is_claimed { ", claimed" } else { "" };
    format!(
        "{name}: {}, {}{kinds}, {} to be replayed{claimed}",
        counted(summary.blocks, "block"),
        counted(total, "record"),
        summary.replayable
    )
}

fn records(
    name: &str,
    log: &IntentLog,
    session: &Session,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let window = log.replay_window(session.pool().txg());
    for block in log.chain() {
        let block = match block {
            Ok(block) => block,
            Err(error) => {
                printer.complain(&format!("{name}: {error}"));
                return Ok(());
            }
        };
        printer.title(&format!("  block {}  {}", block.sequence(), block.pointer))?;
        let records = match block.records() {
            Ok(records) => records,
            Err(error) => {
                printer.complain(&format!("{name}: {error}"));
                return Ok(());
            }
        };
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    printer.complain(&format!("{name}: {}", block.bad_record(error)));
                    return Ok(());
                }
            };
            let counts = window.is_some_and(|window| window.contains(record.txg, record.sequence));
            let body = body_text(&record.body);
            let mut members = Members::new();
            members.put("dataset", name);
            members.put("sequence", record.sequence);
            members.put("txg", record.txg.0);
            members.put("type", record.record_type);
            members.put("replayable", counts);
            members.put("operation", body.as_str());
            let mark = if counts { '*' } else { ' ' };
            let text = format!(
                "   {mark}{:>6}  txg {:<8} {body}",
                record.sequence, record.txg
            );
            printer.row(members, &text)?;
        }
    }
    Ok(())
}

/// A record's operation in a few words.
fn body_text(body: &RecordBody<'_>) -> String {
    let name = |bytes: &[u8]| crate::reading::output::escaped(bytes);
    match body {
        RecordBody::Create(create) => {
            let (new, file) = (create.new.object, name(create.name));
            format!(
                "create {new} '{file}' in {}, mode {:o}",
                create.directory, create.mode
            )
        }
        RecordBody::Remove {
            directory,
            name: file,
        } => format!("remove '{}' from {directory}", name(file)),
        RecordBody::Link {
            directory,
            object,
            name: file,
        } => format!("link {object} as '{}' in {directory}", name(file)),
        RecordBody::Rename {
            source_directory,
            target_directory,
            source,
            target,
            ..
        } => format!(
            "rename '{}' in {source_directory} to '{}' in {target_directory}",
            name(source),
            name(target)
        ),
        RecordBody::Write {
            object,
            offset,
            length,
            ..
        } => format!("write {object}: {length} bytes at {offset}"),
        RecordBody::Truncate {
            object,
            offset,
            length,
        } => format!("free {object}: {length} bytes at {offset}"),
        RecordBody::Acl { object, acl, .. } => {
            format!("set the access list of {object}: {} entries", acl.count)
        }
        RecordBody::SetXattr {
            object,
            name: attribute,
            value,
        } => {
            let what = if value.is_some() { "set" } else { "remove" };
            format!(
                "{what} extended attribute '{}' of {object}",
                name(attribute)
            )
        }
        RecordBody::CloneRange {
            object,
            offset,
            length,
            ..
        } => format!("clone into {object}: {length} bytes at {offset}"),
        RecordBody::SetAttributes(set) => format!("set attributes of {}", set.object),
        #[allow(unreachable_patterns, reason = "kinds that are to come")]
        other => format!("{other:?}"),
    }
}
