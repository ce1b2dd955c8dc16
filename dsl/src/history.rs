//! The pool's history: who did what to it, and what the system noted (format/1b 5).
//!
//! The log is read a piece at a time, so that a history of a gigabyte costs no more memory than
//! its longest record.

use crate::dsl::Dsl;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_dmu::Object;
use cenote_ondisk::history::{HistoryHeader, LENGTH_SIZE, RECORD_SIZE_MAX};
use cenote_ondisk::{DecodeError, NvList, wire};
use std::ops::Range;

/// The log is read in pieces of this many bytes.
const PIECE: u64 = 128 << 10;

const STRUCTURE: &str = "pool history";

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryBody {
    /// A command line.
    Command(String),
    /// An internal event.
    Internal {
        /// Its name.
        event: String,
        /// The transaction group.
        txg: u64,
        /// The dataset's name and object number, where it is about one.
        dataset: Option<(String, u64)>,
        /// The details.
        detail: String,
    },
    /// A control request.
    Ioctl {
        /// Its name.
        name: String,
        /// What it was given.
        input: Option<NvList>,
        /// What it gave back.
        output: Option<NvList>,
    },
    /// A record of the oldest pools.
    Numbered {
        /// The event's number.
        event: u64,
        /// The transaction group.
        txg: u64,
        /// The details.
        detail: String,
    },
    /// None of the kinds known here.
    Unknown,
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRecord {
    /// Seconds since the epoch.
    pub time: u64,
    /// The user id.
    pub user: Option<u64>,
    /// The host's name.
    pub host: Option<String>,
    /// The zone's name.
    pub zone: Option<String>,
    /// What it is about.
    pub body: HistoryBody,
}

impl HistoryRecord {
    /// Reads a record's list; nothing in it is required.
    pub fn from_list(list: &NvList) -> Self {
        let text = |key: &str| {
            let bytes = list.get_bytes(key)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let number = |key: &str| list.get_u64(key);
        let txg = || number("history txg").unwrap_or(0);
        let detail = || text("history internal str").unwrap_or_default();
        let body = if let Some(command) = text("history command") {
            HistoryBody::Command(command)
        } else if let Some(event) = text("internal_name") {
            HistoryBody::Internal {
                event,
                txg: txg(),
                dataset: text("dsname").zip(number("dsid")),
                detail: detail(),
            }
        } else if let Some(name) = text("ioctl") {
            HistoryBody::Ioctl {
                name,
                input: list.get_list("in_nvl").cloned(),
                output: list.get_list("out_nvl").cloned(),
            }
        } else if let Some(event) = number("history internal event") {
            HistoryBody::Numbered {
                event,
                txg: txg(),
                detail: detail(),
            }
        } else {
            HistoryBody::Unknown
        };
        Self {
            time: number("history time").unwrap_or(0),
            user: number("history who"),
            host: text("history hostname"),
            zone: text("history zone"),
            body,
        }
    }
}

/// Iterates over the records, oldest first; ends after the first error.
#[derive(Debug)]
pub struct History {
    object: Object,
    header: HistoryHeader,
    /// Logical ranges still to be read.
    ranges: std::vec::IntoIter<Range<u64>>,
    range: Range<u64>,
    /// Bytes read and not yet consumed.
    buffer: Vec<u8>,
    failed: bool,
}

impl Dsl {
    /// The pool's history; `None` if the pool keeps none.
    pub fn history(&self) -> Result<Option<History>, DslError> {
        let Some(id) = self.object_directory().object(keys::HISTORY)? else {
            return Ok(None);
        };
        let object = self.mos().object(id)?;
        let header = HistoryHeader::decode(&object.dnode().bonus);
        let header = header.map_err(|source| DslError::decode(id, source))?;
        Ok(Some(History {
            object,
            header,
            ranges: Vec::from(header.logical_ranges()).into_iter(),
            range: 0..0,
            buffer: Vec::new(),
            failed: false,
        }))
    }
}

impl History {
    /// Records that were overwritten.
    pub fn records_lost(&self) -> u64 {
        self.header.records_lost
    }

    /// Reads on; false at the end of a range.
    fn fill(&mut self) -> Result<bool, DslError> {
        let end = self.range.end.min(self.range.start.saturating_add(PIECE));
        if self.range.start >= end {
            return Ok(false);
        }
        for piece in self.header.physical_pieces(self.range.start..end) {
            let at = self.buffer.len();
            let length = usize::try_from(piece.end - piece.start).unwrap_or(0);
            self.buffer.resize(at + length, 0);
            self.object.read(piece.start, &mut self.buffer[at..])?;
        }
        self.range.start = end;
        Ok(true)
    }

    /// The list of the next record, if there is a whole one.
    fn advance(&mut self) -> Result<Option<NvList>, DslError> {
        loop {
            if let Some(end) = self.record_end()? {
                let list = NvList::decode(&self.buffer[LENGTH_SIZE..end]);
                self.buffer.drain(..end);
                return list.map(Some).map_err(|source| self.malformed(source));
            }
            if self.fill()? {
                continue;
            }
            if !self.buffer.is_empty() {
                let problem = "the last record is cut off";
                let structure = STRUCTURE;
                return Err(self.malformed(DecodeError::Inconsistent { structure, problem }));
            }
            match self.ranges.next() {
                Some(range) => self.range = range,
                None => return Ok(None),
            }
        }
    }

    /// Where the record at the start of the buffer ends, if it ends in the buffer.
    fn record_end(&self) -> Result<Option<usize>, DslError> {
        if self.buffer.len() < LENGTH_SIZE {
            return Ok(None);
        }
        let value = wire::u64_le(&self.buffer, 0, STRUCTURE);
        let value = value.map_err(|source| self.malformed(source))?;
        if value > RECORD_SIZE_MAX {
            let (structure, field) = (STRUCTURE, "length of a record");
            return Err(self.malformed(DecodeError::BadValue {
                structure,
                field,
                value,
            }));
        }
        let end = LENGTH_SIZE + usize::try_from(value).expect("at most 1 MiB");
        Ok((self.buffer.len() >= end).then_some(end))
    }

    fn malformed(&self, source: DecodeError) -> DslError {
        DslError::decode(self.object.id(), source)
    }
}

impl Iterator for History {
    type Item = Result<HistoryRecord, DslError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let record = self.advance();
        self.failed = record.is_err();
        let record = record.map(|list| list.as_ref().map(HistoryRecord::from_list));
        record.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn golden_histories_read_to_their_end() {
        for kind in ["single-default", "version28"] {
            let Some((dsl, golden)) = testing::open(kind) else {
                continue;
            };
            let history = dsl.history().expect("readable").expect("a pool has one");
            let records: Vec<_> = history.collect::<Result<_, _>>().expect("readable");
            let command = |record: &HistoryRecord| match &record.body {
                HistoryBody::Command(command) => Some(command.clone()),
                _ => None,
            };
            let first = records
                .iter()
                .find_map(command)
                .expect("a pool was made by a command");
            assert!(first.starts_with("zpool create") && first.contains(&golden.manifest.pool));
            let mut internal = records.iter().map(|record| &record.body);
            let snapshot = |body: &HistoryBody| match body {
                HistoryBody::Internal { event, .. } => event == "snapshot",
                _ => false,
            };
            assert!(internal.any(snapshot), "{kind}: {records:?}");
            assert!(records.windows(2).all(|pair| pair[0].time <= pair[1].time));
        }
    }

    #[test]
    fn records_of_the_oldest_pools_have_numbers() {
        let mut list = NvList::new();
        list.set_u64("history time", 7);
        list.set_u64("history internal event", 3);
        list.set_u64("history txg", 12);
        list.set_str("history internal str", "pool version 5");
        let record = HistoryRecord::from_list(&list);
        let detail = "pool version 5".to_owned();
        let (event, txg) = (3, 12);
        assert_eq!(record.body, HistoryBody::Numbered { event, txg, detail });
        assert_eq!(
            HistoryRecord::from_list(&NvList::new()).body,
            HistoryBody::Unknown
        );
    }
}
