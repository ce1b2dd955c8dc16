//! `zpool history` and `zfs diff`.

use cenote_control::model::{
    ControlError, DiffChange, DiffRecord, HistoryBody, HistoryRecord, Part, RawName, Response,
};
use cenote_control::protocol::Reply;
use cenote_dsl::{DatasetType, NameKind};
use cenote_ondisk::{NvList, NvValue};
use cenote_posix::FileSystem;

use super::Engine;
use super::errors::{of_dsl, of_files, parse_name};

/// Records or differences sent at once.
const BATCH: usize = 512;

/// Names and values of a control request that are shown; lists within lists are named only.
const DETAILS_MAX: usize = 256;

impl Engine {
    pub(super) fn history(
        &self,
        pool: &str,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.pool(pool)?;
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

    pub(super) fn diff(
        &self,
        from: &str,
        to: Option<&str>,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        let from_name = parse_name(from)?;
        if from_name.kind() != NameKind::Snapshot {
            return Err(ControlError::WrongKind {
                dataset: from.to_owned(),
            });
        }
        let to_name = match to {
            Some(to) => parse_name(to)?,
            None => from_name.dataset(),
        };
        let (imported, older) = self.registry.dataset(&from_name)?;
        let (_, newer) = self.registry.dataset(&to_name)?;
        for (name, dataset) in [(&from_name, &older), (&to_name, &newer)] {
            if dataset.dataset_type().map_err(of_dsl)? != DatasetType::Filesystem {
                let dataset = name.as_str().to_owned();
                return Err(ControlError::WrongKind { dataset });
            }
        }
        if newer.written_since(&older).map_err(of_dsl)?.is_none() && newer.id() != older.id() {
            return Err(ControlError::NotEarlier {
                snapshot: from.to_owned(),
            });
        }
        let (before, after) = (imported.files(&older)?, imported.files(&newer)?);
        let mut batch = Vec::new();
        for record in FileSystem::diff(&before, &after, older.phys().creation_txg) {
            let record = record.map_err(|error| of_files(to_name.as_str(), &error))?;
            batch.push(difference(record));
            if batch.len() >= BATCH {
                if reply.cancelled() {
                    return Err(ControlError::Interrupted);
                }
                reply.part(Part::Diff(std::mem::take(&mut batch)))?;
            }
        }
        if !batch.is_empty() {
            reply.part(Part::Diff(batch))?;
        }
        Ok(Response::Done)
    }
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
        zone: record.zone.filter(|zone| zone != "linux"),
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

fn difference(record: cenote_posix::DiffRecord) -> DiffRecord {
    use cenote_posix::DiffChange as Change;
    let absolute = |path: Vec<u8>| {
        let mut full = vec![b'/'];
        full.extend_from_slice(path.strip_prefix(b"/").unwrap_or(&path));
        RawName(full)
    };
    let change = match record.change {
        Change::Added => DiffChange::Added,
        Change::Removed => DiffChange::Removed,
        Change::Modified { links } => DiffChange::Modified { links },
        Change::Renamed { to } => DiffChange::Renamed { to: absolute(to) },
    };
    let nanoseconds = record.changed.total_nanoseconds().max(0);
    let second = 1_000_000_000;
    DiffRecord {
        change,
        path: absolute(record.path),
        file_type: record.kind.letter(),
        changed: (
            u64::try_from(nanoseconds / second).unwrap_or(0),
            u32::try_from(nanoseconds % second).unwrap_or(0),
        ),
    }
}
