//! Reading a stream: each record is checked before the reader returns it.
//!
//! A record's checksum covers everything from BEGIN to its own header. The next record's checksum
//! covers its payload. So a record is known to be valid only after the next one was read. A caller
//! that acts on it for good must wait until then; END is the last check.
//!
//! A source may contain several streams, one after another. It may end between two streams.
//!
//! At most one header and one payload are in memory. A payload's memory grows with the bytes that
//! were actually read.

use crate::error::{Missing, Place, Problem, StreamError};
use crate::grammar::Grammar;
use cenote_codec::Endian;
use cenote_codec::checksum::Fletcher4;
use cenote_ondisk::stream::{
    Begin, ByteOrder, CHECKSUM_OFFSET, Checksum, End, HeaderKind, RECORD_SIZE, Record, kind,
    kind_name,
};
use std::io::{BufReader, Read};

const BUFFER_SIZE: usize = 256 << 10;

/// What a reader checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// That nothing was changed on the way.
    pub checksums: bool,
    /// That a receiver would take it. The order of BEGIN and END is always checked.
    pub contents: bool,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            checksums: true,
            contents: true,
        }
    }
}

/// A record's header.
#[derive(Clone, Debug)]
pub struct Header {
    /// What it says.
    pub record: Record,
    /// Its checksum as stored; zeros in BEGIN.
    pub checksum: Checksum,
    /// Where it stands.
    pub place: Place,
    /// Bytes of its payload.
    pub payload_length: usize,
}

/// A record.
#[derive(Debug)]
pub struct Item<'a> {
    /// Its header.
    pub header: &'a Header,
    /// Its payload.
    pub payload: &'a [u8],
    /// The byte order of both.
    pub order: ByteOrder,
}

/// Where a reader stands between the records that frame streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a stream.
    Outside,
    /// Between a package's BEGIN and the END of its header.
    PackageHeader,
    /// Between the streams of a package.
    Package,
    /// Within a stream, of a package or not.
    Stream { packaged: bool },
}

/// Reads a stream from `R`.
pub struct Reader<R> {
    source: BufReader<R>,
    checks: Checks,
    order: ByteOrder,
    state: State,
    grammar: Grammar,
    sum: Fletcher4,
    place: Place,
    header: Option<Header>,
    payload: Vec<u8>,
    /// Whether the payload of `header` is still to be read.
    is_payload_due: bool,
}

impl<R: Read> Reader<R> {
    /// A reader that checks everything.
    pub fn new(source: R) -> Self {
        Self::with_checks(source, Checks::default())
    }

    /// A reader with a choice of checks.
    pub fn with_checks(source: R, checks: Checks) -> Self {
        Self {
            source: BufReader::with_capacity(BUFFER_SIZE, source),
            checks,
            order: ByteOrder::Little,
            state: State::Outside,
            grammar: Grammar::default(),
            sum: Fletcher4::new(),
            place: Place::default(),
            header: None,
            payload: Vec::new(),
            is_payload_due: false,
        }
    }

    /// The byte order of the stream at hand.
    pub fn byte_order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.place.offset
    }

    /// The checksum of all that was read of the stream at hand.
    pub(crate) fn sum(&self) -> Fletcher4 {
        self.sum
    }

    /// Whether the stream at hand is part of a package.
    pub fn is_packaged(&self) -> bool {
        matches!(
            self.state,
            State::Package | State::PackageHeader | State::Stream { packaged: true }
        )
    }

    /// The next record; `None` where the source ends and no stream is under way.
    ///
    /// # Errors
    /// Everything that [`StreamError`] can say of reading. After an error nothing more comes that
    /// could be relied on.
    pub fn next_item(&mut self) -> Result<Option<Item<'_>>, StreamError> {
        if self.next_header()?.is_none() {
            return Ok(None);
        }
        self.read_payload()?;
        let (payload, order) = (&self.payload[..], self.order);
        Ok(self.header.as_ref().map(|header| Item {
            header,
            payload,
            order,
        }))
    }

    /// The next record's header, as [`Self::next_item`]; its payload is [`Self::read_payload`]'s.
    ///
    /// # Errors
    /// As [`Self::next_item`].
    pub fn next_header(&mut self) -> Result<Option<&Header>, StreamError> {
        if self.is_payload_due {
            self.read_payload()?;
        }
        let Some(bytes) = self.header_bytes()? else {
            return Ok(None);
        };
        let place = self.place;
        self.place.offset += RECORD_SIZE as u64;
        let is_begin = bytes[..4] == [0; 4];
        if is_begin {
            self.order = match Begin::byte_order(&bytes) {
                Ok(order) => order,
                Err(_) if place.record == 0 => return Err(StreamError::NotAStream),
                Err(source) => return Err(StreamError::Record { place, source }),
            };
            self.sum = Fletcher4::new();
            self.feed(&bytes);
        } else if self.state == State::Outside {
            return Err(match place.record {
                0 => StreamError::NotAStream,
                _ => out_of_place(place, Record::kind_of(&bytes, self.order)),
            });
        } else {
            self.check_sum(&bytes, place)?;
        }
        self.place.record += 1;
        let wrong = |source| StreamError::Record { place, source };
        let (record, checksum) = Record::decode(&bytes, self.order).map_err(wrong)?;
        let payload_length = record.payload_length().map_err(wrong)?;
        self.step(&record, place)?;
        self.is_payload_due = true;
        self.payload.clear();
        let header = Header {
            record,
            checksum,
            place,
            payload_length,
        };
        Ok(Some(self.header.insert(header)))
    }

    /// The payload of the last header.
    ///
    /// # Errors
    /// If it is not all there.
    pub fn read_payload(&mut self) -> Result<&[u8], StreamError> {
        let length = match &self.header {
            Some(header) if self.is_payload_due => header.payload_length,
            _ => return Ok(&self.payload),
        };
        let place = self
            .header
            .as_ref()
            .map_or(self.place, |header| header.place);
        let mut source = Read::take(&mut self.source, length as u64);
        let read = source.read_to_end(&mut self.payload);
        let read = read.map_err(|source| StreamError::Read { place, source })?;
        if read < length {
            let missing = Missing::Payload((length - read) as u64);
            return Err(StreamError::Cut { place, missing });
        }
        self.is_payload_due = false;
        self.place.offset += length as u64;
        self.sum.update(&self.payload, endian(self.order));
        Ok(&self.payload)
    }

    /// The bytes of the next header; `None` at an end that may be.
    fn header_bytes(&mut self) -> Result<Option<[u8; RECORD_SIZE]>, StreamError> {
        let place = self.place;
        let mut bytes = [0; RECORD_SIZE];
        let mut filled = 0;
        while filled < RECORD_SIZE {
            match self.source.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(StreamError::Read { place, source }),
            }
        }
        let missing = match filled {
            RECORD_SIZE => return Ok(Some(bytes)),
            0 if self.state == State::Outside && place.record > 0 => return Ok(None),
            _ if place.record == 0 => return Err(StreamError::NotAStream),
            0 => Missing::Record,
            _ => Missing::Header((RECORD_SIZE - filled) as u64),
        };
        Err(StreamError::Cut { place, missing })
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.sum.update(bytes, endian(self.order));
    }

    /// Runs the checksum over a header other than BEGIN's, and compares (format/4 1.1).
    fn check_sum(&mut self, bytes: &[u8; RECORD_SIZE], place: Place) -> Result<(), StreamError> {
        let before = self.sum.words();
        let (covered, stored) = bytes.split_at(CHECKSUM_OFFSET);
        self.feed(covered);
        let computed = self.sum.words();
        self.feed(stored);
        if !self.checks.checksums {
            return Ok(());
        }
        let stored = words(stored, self.order);
        if stored != [0; 4] && stored != computed {
            return Err(StreamError::Checksum {
                place,
                stored,
                computed,
            });
        }
        let is_end = Record::kind_of(bytes, self.order) == kind::END;
        // The last END of a package has nothing in it.
        let stored = words(&bytes[8..40], self.order);
        if is_end && self.state != State::Package && stored != before {
            return Err(StreamError::Checksum {
                place,
                stored,
                computed: before,
            });
        }
        Ok(())
    }

    /// Moves on over a record, if it may come here.
    fn step(&mut self, record: &Record, place: Place) -> Result<(), StreamError> {
        let wrong = |problem| StreamError::Grammar {
            place,
            record: kind_name(record.kind()),
            problem,
        };
        let before = self.state;
        self.state = match (before, record) {
            (State::Outside, Record::Begin(begin)) => match begin.header_kind {
                HeaderKind::Package => State::PackageHeader,
                HeaderKind::Substream => State::Stream { packaged: false },
            },
            (State::Package, Record::Begin(begin)) => match begin.header_kind {
                HeaderKind::Package => return Err(wrong(Problem::OutOfPlace)),
                HeaderKind::Substream => State::Stream { packaged: true },
            },
            (State::PackageHeader, Record::End(_)) => State::Package,
            (State::Package, Record::End(end)) if *end == End::default() => State::Outside,
            (State::Stream { packaged: true }, Record::End(_)) => State::Package,
            (State::Stream { packaged: false }, Record::End(_)) => State::Outside,
            (State::Stream { .. }, Record::Begin(_)) => return Err(wrong(Problem::OutOfPlace)),
            (state @ State::Stream { .. }, _) => state,
            _ => return Err(wrong(Problem::OutOfPlace)),
        };
        let is_inside = [before, self.state]
            .iter()
            .any(|state| matches!(state, State::Stream { .. }));
        if self.checks.contents && is_inside {
            self.grammar.check(record).map_err(wrong)?;
        }
        Ok(())
    }
}

fn out_of_place(place: Place, kind: u32) -> StreamError {
    StreamError::Grammar {
        place,
        record: kind_name(kind),
        problem: Problem::OutOfPlace,
    }
}

pub(crate) fn endian(order: ByteOrder) -> Endian {
    match order {
        ByteOrder::Little => Endian::Little,
        ByteOrder::Big => Endian::Big,
    }
}

/// The first words of `bytes`, which must have them.
fn words<const N: usize>(bytes: &[u8], order: ByteOrder) -> [u64; N] {
    let (chunks, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|index| match order {
        ByteOrder::Little => u64::from_le_bytes(chunks[index]),
        ByteOrder::Big => u64::from_be_bytes(chunks[index]),
    })
}

#[cfg(test)]
mod tests;
