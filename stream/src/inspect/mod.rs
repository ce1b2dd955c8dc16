//! What a stream contains, and whether it is complete.
//!
//! Inspection reads a stream to its end, or to where it is damaged or cut. For a cut stream it
//! returns where to resume: the last record that a receiver would have applied. This is the one
//! before the last whose header arrived (see [`crate::Reader`]).

mod resume;

use crate::error::{Missing, Place, StreamError};
use crate::reader::{Checks, Item, Reader};
use cenote_ondisk::DecodeError;
use cenote_ondisk::stream::package::Package;
use cenote_ondisk::stream::{
    Begin, BeginPayload, ByteOrder, HeaderKind, RECORD_SIZE, Record, ResumeToken, flags, kind,
};
use resume::Progress;
use std::io::Read;

/// Streams that are listed; those after them are only counted. Each takes less than 1 KiB.
const STREAMS_MAX: usize = 1 << 16;
/// Bytes of packed lists that are kept, in streams and packages together.
const LISTS_MAX: usize = 64 << 20;

/// Records of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload: u64,
}

/// Records by the number of their kind.
pub type Counts = [Count; kind::COUNT];

/// What a stream brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    /// A snapshot as a whole.
    Full,
    /// What changed since another snapshot of the same dataset.
    Incremental,
    /// The changes since the snapshot of another dataset, as a clone of that.
    Clone,
}

/// A stream of one snapshot.
#[derive(Clone, Debug)]
pub struct StreamSummary {
    /// Its first record.
    pub begin: Begin,
    /// What came with that.
    pub payload: BeginPayload,
    /// Where it begins.
    pub place: Place,
    /// The stream's bytes up to its end or cut.
    pub bytes: u64,
    /// Its records.
    pub counts: Counts,
    /// Bytes of the blocks in it, expanded.
    pub logical_bytes: u64,
    /// Whether its END is there.
    pub is_whole: bool,
}

impl StreamSummary {
    /// What it brings.
    pub fn kind(&self) -> StreamKind {
        match self.begin.from_guid.0 {
            0 => StreamKind::Full,
            _ if self.begin.flags & flags::CLONE != 0 => StreamKind::Clone,
            _ => StreamKind::Incremental,
        }
    }
}

/// Where the input ended.
#[derive(Debug)]
pub enum Ending {
    /// Everything is there.
    Whole,
    /// It is cut off, or damaged, as the error says.
    Broken {
        /// Where, and how.
        error: StreamError,
        /// With what a receiver that had kept its state would ask for the rest.
        resume: Option<Box<ResumeToken>>,
    },
}

/// What is in the input.
#[derive(Debug)]
pub struct Summary {
    /// Bytes read.
    pub bytes: u64,
    /// The byte order of the last stream.
    pub byte_order: ByteOrder,
    /// All records.
    pub counts: Counts,
    /// How many packages there are.
    pub packages: u64,
    /// What the first of them holds.
    pub package: Option<(Begin, Package)>,
    /// The streams.
    pub streams: Vec<StreamSummary>,
    /// How many more there are.
    pub streams_left_out: u64,
    /// How the input ends.
    pub ending: Ending,
    /// Bytes of packed lists that were kept.
    lists: usize,
}

impl Summary {
    /// Whether everything is there and right.
    pub fn is_whole(&self) -> bool {
        matches!(self.ending, Ending::Whole)
    }
}

/// Reads the stream from `source` to its end and says what it is.
///
/// # Errors
/// Only if this is no stream, or cannot be read. A stream that is damaged or cut has a summary.
pub fn inspect(source: impl Read, checks: Checks) -> Result<Summary, StreamError> {
    let mut reader = Reader::with_checks(source, checks);
    let mut summary = Summary {
        bytes: 0,
        byte_order: ByteOrder::Little,
        counts: Counts::default(),
        packages: 0,
        package: None,
        streams: Vec::new(),
        streams_left_out: 0,
        ending: Ending::Whole,
        lists: 0,
    };
    let mut progress = Progress::default();
    let error = loop {
        match reader.next_item() {
            Ok(Some(item)) => {
                progress.pass(&item);
                if let Err(error) = summary.add(&item) {
                    break Some(error);
                }
            }
            Ok(None) => break None,
            Err(error @ (StreamError::NotAStream | StreamError::Read { .. })) => return Err(error),
            Err(error) => break Some(error),
        }
    };
    summary.bytes = reader.offset();
    summary.byte_order = reader.byte_order();
    if let Some(error) = error {
        let resume = match &error {
            StreamError::Cut { missing, .. } => progress.token(*missing),
            StreamError::Checksum { .. } => progress.token(Missing::Record),
            _ => None,
        };
        summary.ending = Ending::Broken {
            error,
            resume: resume.map(Box::new),
        };
    }
    Ok(summary)
}

impl Summary {
    fn add(&mut self, item: &Item) -> Result<(), StreamError> {
        let record = &item.header.record;
        let place = item.header.place;
        let wrong = |source| StreamError::Record { place, source };
        count(&mut self.counts, item);
        if let Record::Begin(begin) = record {
            self.begin(begin, item).map_err(wrong)?;
        }
        let Some(stream) = self.streams.last_mut() else {
            return Ok(());
        };
        if stream.is_whole || self.streams_left_out > 0 {
            return Ok(());
        }
        count(&mut stream.counts, item);
        stream.bytes += (RECORD_SIZE + item.payload.len()) as u64;
        stream.is_whole = matches!(record, Record::End(_));
        let bytes = match record {
            Record::Write(write) => write.logical_size,
            Record::WriteEmbedded(write) => u64::from(write.logical_size),
            Record::WriteByReference(write) => write.length,
            Record::Spill(spill) => spill.length,
            _ => 0,
        };
        stream.logical_bytes = stream.logical_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Begins a stream or package, unless too much is listed already.
    fn begin(&mut self, begin: &Begin, item: &Item) -> Result<(), DecodeError> {
        self.packages += u64::from(begin.header_kind == HeaderKind::Package);
        let lists = self.lists + item.payload.len();
        if self.streams.len() >= STREAMS_MAX || lists > LISTS_MAX {
            self.streams_left_out += u64::from(begin.header_kind == HeaderKind::Substream);
            return Ok(());
        }
        self.lists = lists;
        let list = Begin::list(item.payload)?;
        match begin.header_kind {
            HeaderKind::Package if self.package.is_some() => {}
            HeaderKind::Package => {
                self.package = Some((begin.clone(), Package::from_list(&list)?));
            }
            HeaderKind::Substream => self.streams.push(StreamSummary {
                begin: begin.clone(),
                payload: BeginPayload::from_list(&list)?,
                place: item.header.place,
                bytes: 0,
                counts: Counts::default(),
                logical_bytes: 0,
                is_whole: false,
            }),
        }
        Ok(())
    }
}

fn count(counts: &mut Counts, item: &Item) {
    let count = &mut counts[item.header.record.kind() as usize];
    count.records += 1;
    count.payload += item.payload.len() as u64;
}

#[cfg(test)]
mod tests;
