//! Writing the history while a transaction group is written.

use crate::record::USER;
use cenote_base::ObjectId;
use cenote_dmu::{NewObject, Object, ObjectSet};
use cenote_dsl::write::SyncContext;
use cenote_dsl::{DatasetName, DslError, directory_keys as keys};
use cenote_ondisk::history::{HistoryHeader, LENGTH_SIZE, RECORD_SIZE_MAX};
use cenote_ondisk::{DecodeError, NvList, NvValue, ObjectType, wire};
use std::sync::Arc;

const BLOCK: u64 = 128 << 10;
const LOG_SIZE_MIN: u64 = 128 << 10;
const LOG_SIZE_MAX: u64 = 1 << 30;
/// The log may take a thousandth of the pool.
const LOG_SHARE: u64 = 1000;
/// A record that is longer is not written: half of the smallest log.
const RECORD_MAX: usize = 64 << 10;
const _: () = assert!(RECORD_MAX as u64 == LOG_SIZE_MIN / 2);

/// The user and system of an action, as in history records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// The user's id.
    pub user: u64,
    /// The system's name.
    pub host: String,
}

/// The history with room for `length` bytes more; nothing is written yet.
///
/// An unreadable history is replaced by a new one: a pool must not be lost for lack of its history.
fn open(context: &SyncContext<'_>, length: u64) -> Result<(Object, HistoryHeader), DslError> {
    let Some(id) = context.dsl.object_directory().object(keys::HISTORY)? else {
        return create(context);
    };
    let mos = context.mos();
    let old = mos.object(id);
    let usable = match &old {
        Ok(object) => with_room(object, length),
        Err(error) => Err(error.to_string()),
    };
    match (usable, old) {
        (Ok(header), Ok(object)) => Ok((object, header)),
        (_, old) => {
            // More than one block is found by reading what may be damaged, too.
            if old.is_ok_and(|old| old.dnode().levels == 1) {
                mos.free(context.tx, id)?;
            }
            create(context)
        }
    }
}

/// The header of a history once it has room for `length` bytes more; what writing them reads is
/// read.
fn with_room(object: &Object, length: u64) -> Result<HistoryHeader, String> {
    let header = HistoryHeader::decode(&object.dnode().bonus);
    let mut header = header.map_err(|error| error.to_string())?;
    let room = make_room(object, &mut header, length);
    room.map_err(|error| error.to_string())?;
    let end = header.end.saturating_add(length);
    let reach = HistoryHeader { end, ..header };
    let read = read(object, &reach, header.end, length);
    read.map_err(|error| error.to_string())?;
    Ok(header)
}

/// Why the history of a pool cannot be read and added to; `None` if it can.
pub fn history_fault(mos: &Arc<ObjectSet>, history: ObjectId) -> Option<String> {
    let object = match mos.object(history) {
        Ok(object) => object,
        Err(error) => return Some(error.to_string()),
    };
    with_room(&object, RECORD_MAX as u64).err()
}

fn create(context: &SyncContext<'_>) -> Result<(Object, HistoryHeader), DslError> {
    let size = context.dsl.space().normal / LOG_SHARE;
    let header = HistoryHeader {
        creation_end: 0,
        physical_end: size.clamp(LOG_SIZE_MIN, LOG_SIZE_MAX),
        begin: 0,
        end: 0,
        records_lost: 0,
    };
    let new = NewObject::new(ObjectType::HISTORY, BLOCK);
    let new = new.with_bonus(ObjectType::HISTORY_OFFSETS, header.encode().to_vec());
    let object = context.mos().allocate(context.tx, new)?;
    let ObjectId(id) = object.id();
    context.set_directory_number(keys::HISTORY, id)?;
    Ok((object, header))
}

/// Reads a logical range.
fn read(
    object: &Object,
    header: &HistoryHeader,
    at: u64,
    length: u64,
) -> Result<Vec<u8>, DslError> {
    let mut bytes = Vec::new();
    for piece in header.physical_pieces(at..at + length) {
        let mut part = vec![0; usize::try_from(piece.end - piece.start).unwrap_or(0)];
        object.read(piece.start, &mut part)?;
        bytes.extend(part);
    }
    Ok(bytes)
}

const NO_ROOM: DecodeError = DecodeError::Inconsistent {
    structure: "pool history",
    problem: "its ring is smaller than a record",
};

/// Drops the oldest records until there is room for `length` bytes.
fn make_room(object: &Object, header: &mut HistoryHeader, length: u64) -> Result<(), DslError> {
    let ring = header.physical_end - header.creation_end;
    while ring - (header.end - header.begin) <= length {
        if header.begin == header.end {
            // It is empty, and would be forever.
            return Err(object.malformed(NO_ROOM).into());
        }
        let bytes = read(object, header, header.begin, LENGTH_SIZE as u64)?;
        let record = wire::u64_le(&bytes, 0, "pool history");
        let record = record.map_err(|source| object.malformed(source))?;
        let next = header.begin + LENGTH_SIZE as u64 + record.min(RECORD_SIZE_MAX);
        header.begin = next.min(header.end);
        header.records_lost += 1;
    }
    Ok(())
}

/// Adds records; those that are too long are left out.
fn append(context: &SyncContext<'_>, lists: &[NvList]) -> Result<(), DslError> {
    let mut bytes = Vec::new();
    for list in lists {
        let packed = list.encode_native();
        let length = LENGTH_SIZE + packed.len();
        if length > RECORD_MAX {
            continue;
        }
        if bytes.len() + length > RECORD_MAX {
            append_bytes(context, &bytes, false)?;
            bytes.clear();
        }
        bytes.extend((packed.len() as u64).to_le_bytes());
        bytes.extend(packed);
    }
    let is_command = lists.iter().any(|list| list.contains("history command"));
    match bytes.is_empty() {
        true => Ok(()),
        false => append_bytes(context, &bytes, is_command),
    }
}

fn append_bytes(context: &SyncContext<'_>, bytes: &[u8], is_command: bool) -> Result<(), DslError> {
    let length = bytes.len() as u64;
    let (object, mut header) = open(context, length)?;
    let mut rest = bytes;
    let end = header.end + length;
    let reach = HistoryHeader { end, ..header };
    for piece in reach.physical_pieces(header.end..end) {
        let size = usize::try_from(piece.end - piece.start).unwrap_or(0);
        let (part, more) = rest.split_at(size.min(rest.len()));
        object.write(context.tx, piece.start, part)?;
        rest = more;
    }
    header.end = end;
    // The record of the pool's creation is never overwritten.
    if header.creation_end == 0 && is_command {
        header.creation_end = end;
        header.begin = end;
    }
    object.set_bonus(
        context.tx,
        ObjectType::HISTORY_OFFSETS,
        header.encode().to_vec(),
    )?;
    Ok(())
}

fn record(context: &SyncContext<'_>, actor: &Actor) -> NvList {
    let mut list = NvList::new();
    list.set_u64("history time", context.seconds());
    list.set_str("history hostname", &actor.host);
    list.set_str("history zone", "linux");
    list.set_u64(USER, actor.user);
    list
}

/// Notes a command.
///
/// # Errors
/// If the history cannot be read or written.
pub fn log_command(
    context: &SyncContext<'_>,
    actor: &Actor,
    command: &str,
) -> Result<(), DslError> {
    let mut list = record(context, actor);
    list.set_str("history command", command);
    append(context, &[list])
}

/// The record of an event of the system itself.
fn event_record(context: &SyncContext<'_>, actor: &Actor, event: &str, detail: &str) -> NvList {
    let mut list = record(context, actor);
    list.set_u64("history txg", context.txg().0);
    list.set_str("internal_name", event);
    list.set_str("history internal str", detail);
    list
}

/// Notes an event of the system itself.
///
/// # Errors
/// If the history cannot be read or written.
pub fn log_event(
    context: &SyncContext<'_>,
    actor: &Actor,
    event: &str,
    detail: &str,
) -> Result<(), DslError> {
    append(context, &[event_record(context, actor, event, detail)])
}

/// What happened to a dataset.
pub(crate) struct Happened<'a> {
    pub event: &'a str,
    pub dataset: &'a DatasetName,
    pub id: ObjectId,
    pub detail: &'a str,
}

/// Notes what happened to datasets, and the request for it.
pub(crate) fn log_changes(
    context: &SyncContext<'_>,
    actor: &Actor,
    happened: &[Happened<'_>],
    request: Option<(&str, NvList)>,
) -> Result<(), DslError> {
    let event = |one: &Happened<'_>| {
        let mut list = event_record(context, actor, one.event, one.detail);
        list.set_str("dsname", one.dataset.as_str());
        list.set_u64("dsid", one.id.0);
        list
    };
    let mut lists: Vec<NvList> = happened.iter().map(event).collect();
    if let Some((name, input)) = request {
        let mut list = record(context, actor);
        list.set_str("ioctl", name);
        list.set("in_nvl", NvValue::List(input));
        lists.push(list);
    }
    append(context, &lists)
}
