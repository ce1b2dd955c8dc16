//! `zpool history`.

use crate::errors::of_dsl;
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, HistoryBody, HistoryRecord, Part, Response};
use cenote_control::protocol::Reply;
use cenote_ondisk::{NvList, NvValue};

/// Records sent at once.
const BATCH: usize = 512;

/// Names and values of a control request that are shown; lists within lists are named only.
const DETAILS_MAX: usize = 256;

pub(crate) fn history(
    registry: &Registry,
    pool: &str,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let imported = registry.pool(pool)?;
    let mut batch = Vec::new();
    for record in imported
        .dsl()
        .history()
        .map_err(of_dsl)?
        .into_iter()
        .flatten()
    {
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

fn record_of(record: cenote_dsl::HistoryRecord) -> HistoryRecord {
    use cenote_dsl::HistoryBody as Body;
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
                    details.push((title.to_owned(), String::new()));
                    details.extend(printed(&list));
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

/// The pairs of a list as text.
fn printed(list: &NvList) -> Vec<(String, String)> {
    let pairs = list.iter().take(DETAILS_MAX);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let value = |value: &NvValue| match value {
        NvValue::Boolean => String::new(),
        NvValue::String(bytes) => text(bytes),
        NvValue::Uint64(number) => number.to_string(),
        NvValue::Uint32(number) => number.to_string(),
        NvValue::Int64(number) => number.to_string(),
        NvValue::Int32(number) => number.to_string(),
        NvValue::BooleanValue(flag) => flag.to_string(),
        NvValue::List(list) => format!("({} entries)", list.len()),
        other => {
            let debug = format!("{other:?}");
            debug.chars().take(200).collect()
        }
    };
    pairs
        .map(|(name, found)| (text(name), value(found)))
        .collect()
}
