//! Requests carried out on a device, and their replies as bytes.
//!
//! What a client asks is checked here, once, before the device is called: that it may, that the
//! range is there and not empty, that it keeps the block size, that its flags have a meaning.

use crate::contexts::Chosen;
use crate::device::{BlockDevice, BlockError, Extent, ZeroMode};
use crate::payload::Payload;
use crate::read_data::ReadData;
use cenote_nbd_client::protocol::reply::{ChunkOf, ReplyStyle, encode_simple};
use cenote_nbd_client::protocol::request::Request;
use cenote_nbd_client::protocol::{ErrorCode, Fields, command, command_flag};
use std::io::IoSlice;
use std::ops::Range;

/// Extents of one context that one reply may hold.
const EXTENTS_MAX: usize = 16 << 10;

/// What requests of a connection are carried out on.
pub(crate) struct Target<'a> {
    pub device: &'a dyn BlockDevice,
    pub style: ReplyStyle,
    pub contexts: &'a [Chosen],
    /// Data of one request at most, in bytes.
    pub payload_max: u32,
}

/// A reply as bytes, beside the data that was read.
pub(crate) enum Reply {
    /// All of it.
    Whole(Vec<u8>),
    /// This, and then the data.
    WithData(Vec<u8>),
    /// Chunks: the bytes up to each end are followed by a run of the data.
    Chunks(Vec<u8>, Vec<usize>),
}

impl Reply {
    /// The reply as it is sent; `data` is what was read.
    pub fn slices<'a>(&'a self, data: &'a ReadData) -> Vec<IoSlice<'a>> {
        match self {
            Self::Whole(bytes) => vec![IoSlice::new(bytes)],
            Self::WithData(head) => data.after(head),
            Self::Chunks(heads, ends) => {
                let mut slices = Vec::new();
                let mut start = 0;
                for (run, end) in data.runs().iter().zip(ends) {
                    slices.push(IoSlice::new(&heads[start..*end]));
                    slices.extend(run.slices.iter().map(|bytes| IoSlice::new(bytes)));
                    start = *end;
                }
                slices
            }
        }
    }
}

fn invalid(text: impl std::fmt::Display) -> BlockError {
    BlockError::new(ErrorCode::Invalid, text)
}

impl Target<'_> {
    fn chunk(&self, request: &Request) -> ChunkOf {
        ChunkOf {
            is_extended: self.style == ReplyStyle::Extended,
            cookie: request.cookie,
            offset: request.offset,
        }
    }

    /// Carries out a request with its payload, and says what is to be answered.
    pub fn carry_out(
        &self,
        request: &Request,
        payload: &mut Payload,
        data: &mut ReadData,
    ) -> Reply {
        let done = match request.command {
            command::READ => self.read(request, data),
            command::BLOCK_STATUS => self
                .block_status(request, payload.bytes())
                .map(Reply::Whole),
            _ => self.change(request, payload).map(|()| self.done(request)),
        };
        done.unwrap_or_else(|error| self.failed(request, &error))
    }

    fn done(&self, request: &Request) -> Reply {
        Reply::Whole(match self.style {
            ReplyStyle::Extended => self.chunk(request).done(),
            _ => encode_simple(None, request.cookie),
        })
    }

    /// The reply of a request that failed.
    pub fn failed(&self, request: &Request, error: &BlockError) -> Reply {
        Reply::Whole(match self.style {
            ReplyStyle::Simple => encode_simple(Some(error.code), request.cookie),
            _ => self
                .chunk(request)
                .error(error.code, &error.text, error.offset),
        })
    }

    /// The flags of a command that have a meaning here.
    fn allowed_flags(&self, command: u16) -> u16 {
        let payload = match self.style {
            ReplyStyle::Extended => command_flag::PAYLOAD_LEN,
            _ => 0,
        };
        match command {
            command::READ if self.style != ReplyStyle::Simple => command_flag::DF,
            command::WRITE => command_flag::FUA | payload,
            command::TRIM => command_flag::FUA,
            command::WRITE_ZEROES => {
                command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO
            }
            command::BLOCK_STATUS => command_flag::REQ_ONE | payload,
            _ => 0,
        }
    }

    /// The range of a request that covers `length` bytes.
    fn range(&self, request: &Request, length: u64) -> Result<Range<u64>, BlockError> {
        let unknown = request.flags & !self.allowed_flags(request.command);
        // FUA means nothing where nothing is written, and clients may send it everywhere.
        if unknown & !command_flag::FUA != 0 {
            return Err(invalid(format_args!("unknown flags {unknown:#x}")));
        }
        let size = self.device.size();
        let (offset, minimum) = (request.offset, self.device.block_sizes().minimum.max(1));
        if length == 0 {
            return Err(invalid("the range is empty"));
        }
        let end = offset.checked_add(length).filter(|end| *end <= size);
        let Some(end) = end else {
            let code = match request.command {
                command::WRITE | command::WRITE_ZEROES => ErrorCode::NoSpace,
                _ => ErrorCode::Invalid,
            };
            let text =
                format!("{length} bytes at {offset} are beyond the end: the size is {size} bytes");
            return Err(BlockError::new(code, text));
        };
        if !(offset | length).is_multiple_of(minimum.into()) {
            let text = format!("offset and length have to be multiples of {minimum} bytes");
            return Err(invalid(text));
        }
        Ok(offset..end)
    }

    fn read(&self, request: &Request, data: &mut ReadData) -> Result<Reply, BlockError> {
        let range = self.range(request, request.length)?;
        if request.length > self.payload_max.into() {
            let most = self.payload_max;
            return Err(invalid(format_args!("one read is of at most {most} bytes")));
        }
        let length = usize::try_from(request.length).expect("at most the largest payload");
        data.begin(length);
        self.device.read(range.start, length, data)?;
        if data.remaining() > 0 {
            let text = format!("the device gave {} bytes too few", data.remaining());
            return Err(BlockError::new(ErrorCode::Io, text));
        }
        if self.style == ReplyStyle::Simple {
            return Ok(Reply::WithData(encode_simple(None, request.cookie)));
        }
        let (chunk, mut heads) = (self.chunk(request), Vec::new());
        if request.has(command_flag::DF) {
            chunk.data(&mut heads, true, range.start, request.length);
            return Ok(Reply::WithData(heads));
        }
        let (runs, mut ends) = (data.runs(), Vec::new());
        let mut offset = range.start;
        for (index, run) in runs.iter().enumerate() {
            let is_last = index + 1 == runs.len();
            match run.is_zero {
                true => {
                    let length = u32::try_from(run.length).expect("at most the largest payload");
                    chunk.hole(&mut heads, is_last, offset, length);
                }
                false => chunk.data(&mut heads, is_last, offset, run.length as u64),
            }
            offset += run.length as u64;
            ends.push(heads.len());
        }
        Ok(Reply::Chunks(heads, ends))
    }

    /// Commands whose reply has no payload.
    fn change(&self, request: &Request, payload: &mut Payload) -> Result<(), BlockError> {
        if payload.len() > 0 && request.command != command::WRITE {
            return Err(invalid("this command has no payload"));
        }
        match request.command {
            command::FLUSH => {
                let flags = request.flags & !command_flag::FUA;
                if flags != 0 || request.offset != 0 || request.length != 0 {
                    return Err(invalid("a flush has no range"));
                }
                return self.device.flush();
            }
            command::CACHE => {
                let range = self.range(request, request.length)?;
                return self.device.cache(range);
            }
            command::WRITE | command::TRIM | command::WRITE_ZEROES => {}
            other => return Err(invalid(format_args!("there is no command {other}"))),
        }
        if self.device.is_read_only() {
            return Err(BlockError::new(
                ErrorCode::NotPermitted,
                "the export is read-only",
            ));
        }
        let range = self.range(request, request.length)?;
        let is_durable = request.has(command_flag::FUA);
        match request.command {
            command::WRITE if payload.pieces().is_empty() => {
                let bytes = payload.bytes();
                return self.device.write(range.start, bytes, is_durable);
            }
            command::WRITE => {
                let pieces = payload.pieces();
                return self.device.write_pieces(range.start, pieces, is_durable);
            }
            command::TRIM => self.device.trim(range)?,
            _ => {
                let mode = ZeroMode {
                    keeps_space: request.has(command_flag::NO_HOLE),
                    is_fast: request.has(command_flag::FAST_ZERO),
                };
                if mode.is_fast && !self.device.knows_fast_zero() {
                    let text = "this export does not know whether zeros are fast";
                    return Err(BlockError::new(ErrorCode::NotSupported, text));
                }
                self.device.zero(range, mode)?;
            }
        }
        match is_durable {
            true => self.device.flush(),
            false => Ok(()),
        }
    }

    /// The length and the contexts that a status is wanted for.
    fn status_wanted(
        &self,
        request: &Request,
        payload: &[u8],
    ) -> Result<(u64, Vec<&Chosen>), BlockError> {
        if !request.has(command_flag::PAYLOAD_LEN) {
            return Ok((request.length, self.contexts.iter().collect()));
        }
        let mut fields = Fields::new("payload of a block status", payload);
        let length = fields.u64().map_err(invalid)?;
        let mut wanted = Vec::new();
        while fields.left() > 0 {
            let id = fields.u32().map_err(invalid)?;
            let chosen = self.contexts.iter().find(|chosen| chosen.id == id);
            let chosen = chosen.ok_or_else(|| invalid(format_args!("there is no context {id}")))?;
            if wanted.len() >= self.contexts.len() {
                return Err(invalid("a context is named twice"));
            }
            wanted.push(chosen);
        }
        Ok((length, wanted))
    }

    fn block_status(&self, request: &Request, payload: &[u8]) -> Result<Vec<u8>, BlockError> {
        if self.style == ReplyStyle::Simple {
            return Err(invalid("a block status needs structured replies"));
        }
        let (length, wanted) = self.status_wanted(request, payload)?;
        let range = self.range(request, length)?;
        if wanted.is_empty() {
            return Err(invalid("no metadata context was chosen"));
        }
        let most = match request.has(command_flag::REQ_ONE) {
            true => 1,
            false => EXTENTS_MAX,
        };
        let (chunk, mut bytes) = (self.chunk(request), Vec::new());
        for (index, context) in wanted.iter().enumerate() {
            let extents = self.device.extents(&context.name, range.clone(), most)?;
            let extents = merged(&extents, range.end - range.start, most);
            if extents.is_empty() {
                let text = format!("the device knows nothing about '{}'", context.name);
                return Err(BlockError::new(ErrorCode::Io, text));
            }
            chunk.extents(&mut bytes, index + 1 == wanted.len(), context.id, &extents);
        }
        Ok(bytes)
    }
}

/// Extents without neighbours that are alike, cut where the range ends.
fn merged(extents: &[Extent], mut left: u64, most: usize) -> Vec<(u64, u32)> {
    let mut merged: Vec<(u64, u32)> = Vec::new();
    for extent in extents {
        let length = extent.length.min(left);
        left -= length;
        let is_full = merged.len() == most;
        match merged.last_mut() {
            _ if length == 0 => {}
            Some((last, flags)) if *flags == extent.flags => *last += length,
            _ if is_full => break,
            _ => merged.push((length, extent.flags)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_merged_and_cut() {
        let extent = |length, flags| Extent { length, flags };
        let extents = [extent(4, 1), extent(4, 1), extent(0, 0), extent(10, 0)];
        assert_eq!(merged(&extents, 12, 10), [(8, 1), (4, 0)]);
        assert_eq!(merged(&extents, 12, 1), [(8, 1)]);
        assert_eq!(merged(&extents, 3, 10), [(3, 1)]);
        assert_eq!(merged(&[], 3, 10), []);
    }
}
