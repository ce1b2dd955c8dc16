//! `zfs diff`: what became of files between a snapshot and a later state.

use crate::errors::{of_dsl, of_files, of_sync, parse_name};
use crate::registry::table::Registry;
use cenote_control::model::{ControlError, DiffChange, DiffRecord, Part, RawName, Response};
use cenote_control::protocol::Reply;
use cenote_dsl::{DatasetName, DatasetType, NameKind};
use cenote_posix::FileSystem;

/// Differences sent at once.
const BATCH: usize = 512;

pub(crate) fn diff(
    registry: &Registry,
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
    let told = compare(registry, (from, &from_name), &to_name, reply);
    let told = registry.unless_gone(&from_name, told);
    registry.unless_gone(&to_name, told)
}

fn compare(
    registry: &Registry,
    (from, from_name): (&str, &DatasetName),
    to_name: &DatasetName,
    reply: &mut dyn Reply,
) -> Result<Response, ControlError> {
    let (imported, older) = registry.dataset(from_name)?;
    let pool = &imported.pool;
    if to_name.kind() != NameKind::Snapshot && pool.is_writable() && pool.suspended().is_none() {
        // Changes of the last second are only in memory. OpenZFS compares with a snapshot of now.
        let synced = pool.sync();
        synced.map_err(|error| of_sync(imported.name(), error))?;
    }
    let (_, newer) = registry.dataset(to_name)?;
    for (name, dataset) in [(from_name, &older), (to_name, &newer)] {
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
