//! Reading the history: a piece at a time, so that a history of a gigabyte costs no more memory
//! than its longest record.

use crate::record::HistoryRecord;
use cenote_dmu::Object;
use cenote_dsl::{Dsl, DslError, directory_keys as keys};
use cenote_ondisk::history::{HistoryHeader, LENGTH_SIZE, RECORD_SIZE_MAX};
use cenote_ondisk::{DecodeError, NvList, wire};
use std::ops::Range;

/// The log is read in pieces of this many bytes.
const PIECE: u64 = 128 << 10;

const STRUCTURE: &str = "pool history";

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

/// A pool's history; `None` if the pool keeps none.
///
/// # Errors
/// If it cannot be read.
pub fn read(dsl: &Dsl) -> Result<Option<History>, DslError> {
    let Some(id) = dsl.object_directory().object(keys::HISTORY)? else {
        return Ok(None);
    };
    let object = dsl.mos().object(id)?;
    let header = HistoryHeader::decode(&object.dnode().bonus);
    let header = header.map_err(|source| object.malformed(source))?;
    Ok(Some(History {
        object,
        header,
        ranges: Vec::from(header.logical_ranges()).into_iter(),
        range: 0..0,
        buffer: Vec::new(),
        failed: false,
    }))
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
        self.object.malformed(source).into()
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
