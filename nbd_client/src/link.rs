//! One connection: sends requests, and receives replies on a thread of its own.

use crate::error::NbdError;
use crate::negotiate::Negotiated;
use crate::protocol::reply::{ReplyHeader, ReplyStyle, SIMPLE_SIZE, decode_error};
use crate::protocol::request::Request;
use crate::protocol::{ErrorCode, Fields, chunk, command, command_flag};
use crate::receiver::Receiver;
use crate::transport::{Transport, send_all_until};
use cenote_base::rt::{Instant, Mutex, ranks};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a chunk that is not data: an error with its text.
const CHUNK_BYTES_MAX: u64 = 8 << 10;

/// The sending side of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub transport: Arc<dyn Transport>,
    style: ReplyStyle,
    turn: Mutex<(), ranks::NbdLinkSend>,
}

impl Link {
    pub fn new(negotiated: &Negotiated) -> Self {
        Self::over(&negotiated.transport, negotiated.style)
    }

    pub fn over(transport: &Arc<dyn Transport>, style: ReplyStyle) -> Self {
        Self {
            transport: Arc::clone(transport),
            style,
            turn: Mutex::new(()),
        }
    }

    /// Sends a request with its data. It may take `limit` once it has its turn: those before it
    /// may take as long.
    pub fn send(&self, request: &Request, data: &[u8], limit: Duration) -> io::Result<()> {
        let is_extended = self.style == ReplyStyle::Extended;
        let mut request = *request;
        if is_extended && request.command == command::WRITE {
            request.flags |= command_flag::PAYLOAD_LEN;
        }
        let header = request.encode(is_extended);
        let _turn = self.turn.lock();
        let mut slices = [IoSlice::new(&header), IoSlice::new(data)];
        let deadline = Instant::now().checked_add(limit);
        send_all_until(&*self.transport, &mut slices, deadline)
    }
}

/// A part of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Bytes of the read's buffer that are there now, and how many they are.
    Filled(u64),
    /// The request failed.
    Failed(ErrorCode, String),
    /// Nothing.
    Nothing,
}

/// The header of a reply, as far as it concerns the reader of its payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub cookie: u64,
    /// Whether nothing of this reply comes after this.
    pub is_last: bool,
    header: ReplyHeader,
}

/// Receives the header of a reply; `None` at the end.
pub(crate) fn receive_head(
    receiver: &mut Receiver,
    style: ReplyStyle,
) -> Result<Option<Head>, NbdError> {
    let mut bytes = [0; 32];
    if !receiver.fill_or_end(&mut bytes[..SIMPLE_SIZE])? {
        return Ok(None);
    }
    let rest = ReplyHeader::rest_size(&bytes[..SIMPLE_SIZE], style)?;
    let whole = &mut bytes[..SIMPLE_SIZE + rest];
    receiver.fill(&mut whole[SIMPLE_SIZE..])?;
    let header = ReplyHeader::decode(whole)?;
    Ok(Some(match header {
        ReplyHeader::Simple { cookie, .. } => Head {
            cookie,
            is_last: true,
            header,
        },
        ReplyHeader::Chunk { cookie, flags, .. } => Head {
            cookie,
            is_last: flags & chunk::DONE != 0,
            header,
        },
    }))
}

/// Receives what follows a header, which belongs to `request`; what is read goes into `buffer`.
pub(crate) fn receive_part(
    receiver: &mut Receiver,
    head: &Head,
    request: &Request,
    style: ReplyStyle,
    buffer: &mut [u8],
) -> Result<Part, NbdError> {
    let (kind, length) = match head.header {
        ReplyHeader::Simple { error: 0, .. } if request.command == command::READ => {
            if style != ReplyStyle::Simple {
                return Err(NbdError::Broken("it answers a read without structure"));
            }
            receiver.fill(buffer)?;
            return Ok(Part::Filled(buffer.len() as u64));
        }
        ReplyHeader::Simple { error: 0, .. } => return Ok(Part::Nothing),
        ReplyHeader::Simple { error, .. } => {
            let code = ErrorCode::from_number(error);
            return Ok(Part::Failed(code, code.text().to_owned()));
        }
        ReplyHeader::Chunk { kind, length, .. } => (kind, length),
    };
    if kind == chunk::OFFSET_DATA && request.command == command::READ {
        let length = length.checked_sub(8);
        let length = length.ok_or(NbdError::Broken("a chunk of data has no offset"))?;
        let place = place(receiver, request, Some(length), buffer)?;
        receiver.fill(place)?;
        return Ok(Part::Filled(length));
    }
    if kind == chunk::OFFSET_HOLE && request.command == command::READ && length == 12 {
        let place = place(receiver, request, None, buffer)?;
        place.fill(0);
        return Ok(Part::Filled(place.len() as u64));
    }
    if length > CHUNK_BYTES_MAX {
        return Err(NbdError::Broken("a chunk is too large"));
    }
    let mut payload = vec![0; usize::try_from(length).expect("8 KiB at most")];
    receiver.fill(&mut payload)?;
    match kind {
        chunk::NONE if payload.is_empty() => Ok(Part::Nothing),
        kind if kind & (1 << 15) != 0 => {
            let (code, text) = decode_error(&payload, kind)?;
            let text = match text.is_empty() {
                true => code.text().to_owned(),
                false => text,
            };
            Ok(Part::Failed(code, text))
        }
        _ => Err(NbdError::Broken("it sends a chunk that was not asked for")),
    }
}

/// The part of the buffer that a chunk is about. The length of a hole follows its offset.
fn place<'a>(
    receiver: &mut Receiver,
    request: &Request,
    length: Option<u64>,
    buffer: &'a mut [u8],
) -> Result<&'a mut [u8], NbdError> {
    let mut bytes = [0; 12];
    let bytes = &mut bytes[..if length.is_some() { 8 } else { 12 }];
    receiver.fill(bytes)?;
    let mut fields = Fields::new("chunk of a read", bytes);
    let offset = fields.u64()?;
    let length = match length {
        Some(length) => length,
        None => fields.u32()?.into(),
    };
    let start = offset.checked_sub(request.offset);
    let range = start.and_then(|start| {
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        buffer.get_mut(start..end)
    });
    range.ok_or(NbdError::Broken("a chunk lies outside of what was read"))
}
