//! Writing a stream: records with checksums added.
//!
//! The counterpart of [`crate::Reader`]. The caller keeps records in order. The writer computes the
//! checksums, and handles the different ENDs of a package (format/4 5): the one of its header has
//! no checksum behind it, and the last one is empty.

use crate::error::StreamError;
use crate::reader::endian;
use cenote_codec::checksum::Fletcher4;
use cenote_ondisk::stream::{ByteOrder, CHECKSUM_OFFSET, End, HeaderKind, RECORD_SIZE, Record};
use std::io::Write;

/// What the next END is the end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// A package, or nothing.
    Package,
    PackageHeader,
    Stream,
}

/// Writes a stream to `W`.
pub struct Writer<W> {
    sink: W,
    order: ByteOrder,
    sum: Fletcher4,
    open: Open,
    offset: u64,
}

impl<W: Write> Writer<W> {
    /// A writer whose numbers are in `order`, which has to be that of the payloads.
    pub fn new(sink: W, order: ByteOrder) -> Self {
        Self {
            sink,
            order,
            sum: Fletcher4::new(),
            open: Open::Package,
            offset: 0,
        }
    }

    /// A writer that continues a stream, from the checksum and number of the bytes before.
    pub(crate) fn going_on(sink: W, order: ByteOrder, (sum, offset): (Fletcher4, u64)) -> Self {
        Self {
            sink,
            order,
            sum,
            open: Open::Stream,
            offset,
        }
    }

    /// Bytes written so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Writes a record. An END's checksums are computed, whatever it has.
    ///
    /// # Errors
    /// If the sink takes no more.
    ///
    /// # Panics
    /// If the payload is not as long as the record says.
    pub fn record(&mut self, record: &Record, payload: &[u8]) -> Result<(), StreamError> {
        let length = record.payload_length();
        assert_eq!(
            length,
            Ok(payload.len()),
            "the record tells of its payload: {record:?}"
        );
        let mut bytes = match record {
            Record::End(end) => Record::End(End {
                checksum: match self.open {
                    Open::Package => [0; 4],
                    Open::PackageHeader | Open::Stream => self.sum.words(),
                },
                ..*end
            })
            .encode(self.order),
            record => record.encode(self.order),
        };
        let is_end = matches!(record, Record::End(_));
        if let Record::Begin(begin) = record {
            self.sum = Fletcher4::new();
            self.open = match begin.header_kind {
                HeaderKind::Package => Open::PackageHeader,
                HeaderKind::Substream => Open::Stream,
            };
            self.sum.update(&bytes, endian(self.order));
        } else if self.open == Open::Stream {
            self.sum
                .update(&bytes[..CHECKSUM_OFFSET], endian(self.order));
            self.put_sum(&mut bytes);
            self.sum
                .update(&bytes[CHECKSUM_OFFSET..], endian(self.order));
        }
        if is_end {
            self.open = Open::Package;
        }
        self.sum.update(payload, endian(self.order));
        self.write(&bytes)?;
        self.write(payload)
    }

    /// Hands what is buffered on, and the sink back.
    ///
    /// # Errors
    /// If the sink does not take it.
    pub fn finish(mut self) -> Result<W, StreamError> {
        let offset = self.offset;
        let flushed = self.sink.flush();
        flushed.map_err(|source| StreamError::Write { offset, source })?;
        Ok(self.sink)
    }

    fn put_sum(&self, bytes: &mut [u8; RECORD_SIZE]) {
        let (chunks, _) = bytes[CHECKSUM_OFFSET..].as_chunks_mut::<8>();
        for (chunk, word) in chunks.iter_mut().zip(self.sum.words()) {
            *chunk = match self.order {
                ByteOrder::Little => word.to_le_bytes(),
                ByteOrder::Big => word.to_be_bytes(),
            };
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        let offset = self.offset;
        let written = self.sink.write_all(bytes);
        written.map_err(|source| StreamError::Write { offset, source })?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}
