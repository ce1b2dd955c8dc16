//! What a server exports: a range of bytes with what the protocol asks of it.

use crate::read_data::ReadData;
use cenote_device::BlockBuffer;
use cenote_nbd_client::protocol::{BASE_ALLOCATION, ErrorCode, PAYLOAD_BYTES_MAX};
use std::fmt;
use std::ops::Range;

/// Why a device did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct BlockError {
    /// The error code for the client.
    pub code: ErrorCode,
    /// The message that clients show to people; sent to clients that support it.
    pub text: String,
    /// The byte that it is about, if it is about one.
    pub offset: Option<u64>,
}

impl BlockError {
    /// An error of no certain place.
    pub fn new(code: ErrorCode, text: impl fmt::Display) -> Self {
        Self {
            code,
            text: text.to_string(),
            offset: None,
        }
    }

    /// The same, about the byte at `offset`.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self {
            offset: Some(offset),
            ..self
        }
    }
}

impl From<std::io::Error> for BlockError {
    fn from(error: std::io::Error) -> Self {
        Self::new(ErrorCode::from_io(&error), error)
    }
}

impl From<cenote_device::DeviceError> for BlockError {
    fn from(error: cenote_device::DeviceError) -> Self {
        let code = error.io_error().map_or(ErrorCode::Io, ErrorCode::from_io);
        Self::new(code, error)
    }
}

/// Sizes in bytes that requests keep, or should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it: a power of two, at most 64 KiB.
    pub minimum: u32,
    /// Transfers of less than this are slow: a power of two, at least 512.
    pub preferred: u32,
    /// Data of one request at most.
    pub maximum: u32,
}

impl Default for BlockSizes {
    fn default() -> Self {
        Self {
            minimum: 1,
            preferred: 4096,
            maximum: PAYLOAD_BYTES_MAX,
        }
    }
}

/// How zeros are to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroMode {
    /// The range keeps its space, so that later writes find room.
    pub keeps_space: bool,
    /// Refuse ([`ErrorCode::NotSupported`]) rather than write zeros one by one.
    pub is_fast: bool,
}

/// Bytes of a range that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// In bytes.
    pub length: u64,
    /// What they mean depends on the context.
    pub flags: u32,
}

/// What is exported.
///
/// The server calls it from many threads at once, and only with ranges that lie within the size,
/// are not empty and keep the smallest block size. Calls may wait as long as they have to.
pub trait BlockDevice: Send + Sync {
    /// Bytes by now. Requests are checked against the size of this moment.
    fn size(&self) -> u64;

    /// Sizes that requests keep.
    fn block_sizes(&self) -> BlockSizes {
        BlockSizes::default()
    }

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether seeks are dear.
    fn is_rotational(&self) -> bool {
        false
    }

    /// Whether [`Self::trim`] has an effect.
    fn can_trim(&self) -> bool {
        true
    }

    /// Whether [`Self::zero`] can say that it would be slow.
    fn knows_fast_zero(&self) -> bool {
        false
    }

    /// Whether a flush covers what was written over other connections.
    fn can_share(&self) -> bool {
        true
    }

    /// Text for people.
    fn description(&self) -> Option<String> {
        None
    }

    /// Reads `length` bytes at `offset` into `data`: bytes, and zeros where there is nothing.
    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError>;

    /// Writes `bytes` at `offset`; durable before it returns if `is_durable`.
    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError>;

    /// Bytes of a block that the device keeps as it comes: the data of long writes is cut at
    /// multiples of this. `None` if it is to stay in one piece.
    fn piece_size(&self) -> Option<usize> {
        None
    }

    /// As [`Self::write`], of pieces that are one after the other; they may be taken away.
    fn write_pieces(
        &self,
        offset: u64,
        pieces: &mut [BlockBuffer],
        is_durable: bool,
    ) -> Result<(), BlockError> {
        if let [piece] = pieces {
            return self.write(offset, piece, is_durable);
        }
        let mut at = offset;
        for piece in pieces {
            self.write(at, piece, false)?;
            at += piece.len() as u64;
        }
        match is_durable {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Returns once everything written before is durable.
    fn flush(&self) -> Result<(), BlockError>;

    /// Contents of the range no longer matter.
    fn trim(&self, range: Range<u64>) -> Result<(), BlockError>;

    /// Fills the range with zeros.
    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError>;

    /// The range is read soon.
    fn cache(&self, _range: Range<u64>) -> Result<(), BlockError> {
        Ok(())
    }

    /// Metadata contexts that there are beside `base:allocation`.
    fn contexts(&self) -> Vec<String> {
        Vec::new()
    }

    /// A client has chosen these contexts: what they refer to now is what they mean from now on.
    /// Called once, before its first request.
    fn bind_contexts(&self, _names: &[&str]) {}

    /// Extents of the range from its start on, at most `most` of them, at least one.
    ///
    /// They need not reach its end. `context` is [`BASE_ALLOCATION`] or one of
    /// [`Self::contexts`].
    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError>;
}

/// The answer in `base:allocation` of a device that does not know: everything is data.
pub(crate) fn all_data(context: &str, range: Range<u64>) -> Result<Vec<Extent>, BlockError> {
    match context {
        BASE_ALLOCATION => Ok(vec![Extent {
            length: range.end - range.start,
            flags: 0,
        }]),
        other => Err(unknown_context(other)),
    }
}

/// The error of a context that a device does not have.
pub(crate) fn unknown_context(context: &str) -> BlockError {
    let text = format!("there is no metadata context '{context}'");
    BlockError::new(ErrorCode::Invalid, text)
}
