//! Whether the export that a server gives after an interruption is the disk that it was.
//!
//! NBD names an export and does not identify it: a server that was started again with the wrong
//! file, or with an older copy, gives another disk under the same name. So the client keeps the
//! last write that a flush has covered, and reads it back on the new connection before it sends
//! anything. Other bytes there mean that this is another disk, or that the server lost what it
//! had promised to keep. Either way nothing is written to it.

use crate::error::NbdError;
use crate::link::{Link, Part, receive_head, receive_part};
use crate::negotiate::Negotiated;
use crate::protocol::command;
use crate::protocol::request::Request;
use cenote_base::rt::Instant;
use std::sync::Arc;
use std::time::Duration;

/// The number of the only request that is under way.
const COOKIE: u64 = 1;

/// Checks that bytes which were flushed are still there.
pub(crate) fn check_same(
    connection: &mut Negotiated,
    (offset, bytes): &(u64, Arc<[u8]>),
    patience: Duration,
) -> Result<(), NbdError> {
    let length = bytes.len().min(connection.export.maximum as usize);
    let request = Request {
        flags: 0,
        command: command::READ,
        cookie: COOKIE,
        offset: *offset,
        length: length as u64,
    };
    let receiver = &mut connection.receiver;
    receiver.set_deadline(Some(Instant::now() + patience))?;
    Link::over(&connection.transport, connection.style).send(&request, &[], patience)?;
    let (mut buffer, mut filled) = (vec![0; length], 0);
    loop {
        let head = receive_head(receiver, connection.style)?;
        let head = head.ok_or(NbdError::Broken("it closed the connection"))?;
        if head.cookie != COOKIE {
            return Err(NbdError::Broken("it answers what was not asked"));
        }
        match receive_part(receiver, &head, &request, connection.style, &mut buffer)? {
            Part::Filled(count) => filled += count,
            Part::Failed(_, text) => return Err(NbdError::Refused(text)),
            Part::Nothing => {}
        }
        if head.is_last {
            break;
        }
    }
    receiver.set_deadline(None)?;
    match filled == length as u64 && buffer == bytes[..length] {
        true => Ok(()),
        false => Err(NbdError::Changed(format!(
            "what was written and flushed at byte {offset} is not there: it is another disk, or an \
             older copy of it"
        ))),
    }
}
