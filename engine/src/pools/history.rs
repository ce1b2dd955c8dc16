//! `zpool history`.

use crate::errors::of_dsl;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, HistoryBody, HistoryRecord, Part, Response};
use cenote_control::protocol::Reply;
use cenote_ondisk::{NvList, NvValue};

/// Records sent at once.
const BATCH: usize = 512;

/// Lines about a control request that are shown.
const DETAILS_MAX: usize = 256;
/// How deep lists within lists are shown.
const LEVELS_MAX: usize = 8;
/// Blanks before each level.
const INDENT: usize = 4;

pub(crate) fn history(
    registry: &Registry,
    pool: &str,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    let mut batch = Vec::new();
    let records = cenote_history::read(imported.dsl()).map_err(of_dsl)?;
    for record in records.into_iter().flatten() {
        batch.push(record_of(record.map_err(of_dsl)?));
        if batch.len() >= BATCH {
            reply.part(Part::History(std::mem::take(&mut batch)))?;
        }
    }
    if !batch.is_empty() {
        reply.part(Part::History(batch))?;
    }
    Ok(Response::Done)
}

fn record_of(record: cenote_history::HistoryRecord) -> HistoryRecord {
    use cenote_history::HistoryBody as Body;
    let body = match record.body {
        Body::Command(command) => HistoryBody::Command(command),
        Body::Internal {
            event,
            txg,
            dataset,
            detail,
        } => HistoryBody::Internal {
            event,
            txg,
            dataset,
            detail,
        },
        Body::Ioctl {
            name,
            input,
            output,
        } => {
            let mut details = Vec::new();
            for (title, list) in [("input", input), ("output", output)] {
                if let Some(list) = list {
                    details.push(format!("{title}:"));
                    print(&list, 1, &mut details);
                }
            }
            HistoryBody::Ioctl { name, details }
        }
        Body::Numbered { event, txg, detail } => HistoryBody::Numbered { event, txg, detail },
        Body::Unknown => HistoryBody::Command("unrecognized record".to_owned()),
    };
    HistoryRecord {
        time: record.time,
        body,
        user: record.user,
        host: record.host,
        zone: record.zone,
    }
}

/// The pairs of a list as lines, and lists in it indented below their names.
fn print(list: &NvList, level: usize, lines: &mut Vec<String>) {
    let indent = " ".repeat(INDENT * level);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (name, value) in list.iter() {
        if lines.len() >= DETAILS_MAX {
            return;
        }
        let name = text(name);
        let value = match value {
            NvValue::Boolean => {
                lines.push(format!("{indent}{name}"));
                continue;
            }
            NvValue::List(list) if level < LEVELS_MAX => {
                lines.push(format!("{indent}{name}:"));
                print(list, level + 1, lines);
                continue;
            }
            NvValue::List(list) => format!("({} entries)", list.len()),
            NvValue::String(bytes) => text(bytes),
            NvValue::Uint64(number) => number.to_string(),
            NvValue::Uint32(number) => number.to_string(),
            NvValue::Int64(number) => number.to_string(),
            NvValue::Int32(number) => number.to_string(),
            NvValue::BooleanValue(flag) => flag.to_string(),
            other => {
                let debug = format!("{other:?}");
                debug.chars().take(200).collect()
            }
        };
        lines.push(format!("{indent}{name}: {value}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_printed_below_their_names_within_bounds() {
        let mut deep = NvList::new();
        deep.set_u64("number", 7);
        for _ in 0..20 {
            let mut outer = NvList::new();
            outer.set("list", NvValue::List(deep));
            deep = outer;
        }
        let mut lines = Vec::new();
        print(&deep, 1, &mut lines);
        assert_eq!(lines.len(), LEVELS_MAX);
        assert_eq!(lines[..2], ["    list:", "        list:"]);
        assert!(lines[LEVELS_MAX - 1].ends_with("list: (1 entries)"));
        let mut wide = NvList::new();
        (0..1000).for_each(|number| wide.set(format!("tank@{number}"), NvValue::Boolean));
        lines.clear();
        print(&wide, 2, &mut lines);
        assert_eq!(
            (lines.len(), lines[3].as_str()),
            (DETAILS_MAX, "        tank@3")
        );
    }
}
