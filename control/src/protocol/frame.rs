//! Frames on a stream socket, with descriptors beside them.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::model::secret::{self, SECRET_SIZE_MAX};
use crate::model::{ControlError, Part, Request, Response, Secret};

/// The version of the protocol; a daemon refuses requests of another one.
pub const PROTOCOL_VERSION: u32 = 1;

/// The longest frame: 16 MiB. Longer answers are sent in parts.
pub const FRAME_SIZE_MAX: usize = 16 << 20;

/// The most descriptors beside one frame.
pub const DESCRIPTORS_MAX: usize = 4;

/// The most secrets beside one frame.
const SECRETS_MAX: usize = 4096;

/// A frame could not be sent or received.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The other side closed the connection between frames.
    #[error("the connection was closed")]
    Closed,
    /// The other side left without having read what we sent: it cannot have acted on it.
    #[error("the connection was closed before anything was read from it")]
    Unread,
    /// The socket failed, or was closed within a frame.
    #[error("socket: {0}")]
    Io(#[from] std::io::Error),
    /// The length exceeds the limit.
    #[error("a frame of {0} bytes exceeds the limit of {FRAME_SIZE_MAX}")]
    TooLong(usize),
    /// The content is not what it should be.
    #[error("malformed frame: {0}")]
    Malformed(#[from] serde_json::Error),
    /// What is beside the text is not what it should be.
    #[error("malformed frame: the secrets beside it are cut off, too long or too many")]
    Secrets,
}

/// What a client sends.
#[derive(Serialize, Deserialize)]
pub(super) struct Envelope {
    /// [`PROTOCOL_VERSION`].
    pub protocol: u32,
    /// The request.
    pub body: Request,
}

/// What the daemon sends.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Frame {
    /// A share of the answer.
    Part(Part),
    /// The answer.
    Done(Box<Response>),
    /// The refusal.
    Refused(ControlError),
}

/// The text of a frame and what is beside it: a zero byte, which no JSON has, and the secrets, each
/// behind its length.
fn with_secrets(text: Vec<u8>, secrets: &[Secret]) -> Zeroizing<Vec<u8>> {
    let mut body = Zeroizing::new(text);
    if secrets.is_empty() {
        return body;
    }
    let sizes = secrets.iter().map(|secret| 4 + secret.expose().len());
    // At once: what a vector leaves behind when it grows is not wiped.
    body.reserve_exact(1 + sizes.sum::<usize>());
    body.push(0);
    for secret in secrets {
        let secret = secret.expose();
        let length = u32::try_from(secret.len()).expect("a key");
        body.extend(length.to_le_bytes());
        body.extend(secret);
    }
    body
}

/// Splits what [`with_secrets`] put together.
fn text_and_secrets(body: &[u8]) -> Option<(&[u8], Vec<Secret>)> {
    let mut secrets = Vec::new();
    let Some(end) = body.iter().position(|byte| *byte == 0) else {
        return Some((body, secrets));
    };
    let (text, mut rest) = (&body[..end], &body[end + 1..]);
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (secret, behind) = behind.split_at_checked(length)?;
        if length > SECRET_SIZE_MAX || secrets.len() == SECRETS_MAX {
            return None;
        }
        secrets.push(Secret::new(secret.to_vec()));
        rest = behind;
    }
    rest.is_empty().then_some((text, secrets))
}

/// Sends one frame with `descriptors` beside its length.
///
/// The buffer is wiped after sending: a request may carry a key.
pub(super) fn send<T: Serialize>(
    mut stream: &UnixStream,
    content: &T,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), FrameError> {
    assert!(descriptors.len() <= DESCRIPTORS_MAX, "callers pass a few");
    let (text, secrets) = secret::set_aside(|| serde_json::to_vec(content));
    let body = with_secrets(text?, &secrets);
    if body.len() > FRAME_SIZE_MAX {
        return Err(FrameError::TooLong(body.len()));
    }
    let length = u32::try_from(body.len()).expect("FRAME_SIZE_MAX fits in 32 bits");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(std::io::Error::from(rustix::io::Errno::NOBUFS).into());
    }
    let header = length.to_le_bytes();
    let slices = [IoSlice::new(&header), IoSlice::new(&body)];
    let sent = loop {
        let flags = SendFlags::NOSIGNAL;
        match rustix::net::sendmsg(stream, &slices, &mut control, flags) {
            Err(rustix::io::Errno::INTR) => continue,
            result => break result.map_err(|errno| unread_or_failed(errno.into()))?,
        }
    };
    let header_rest = header.get(sent..).unwrap_or_default();
    stream.write_all(header_rest).map_err(unread_or_failed)?;
    let body_rest = body.get(sent.saturating_sub(header.len())..);
    let rest = body_rest.unwrap_or_default();
    stream.write_all(rest).map_err(unread_or_failed)
}

/// A local socket is reset, instead of closed, when something in it was not read.
fn unread_or_failed(error: std::io::Error) -> FrameError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    match error.kind() {
        BrokenPipe | ConnectionReset => FrameError::Unread,
        _ => FrameError::Io(error),
    }
}

/// Receives one frame and the descriptors beside it.
pub(super) fn receive<T: DeserializeOwned>(
    stream: &UnixStream,
) -> Result<(T, Vec<OwnedFd>), FrameError> {
    receive_up_to(stream, FRAME_SIZE_MAX)
}

/// The same of a frame of at most `size_max` bytes.
pub(super) fn receive_up_to<T: DeserializeOwned>(
    stream: &UnixStream,
    size_max: usize,
) -> Result<(T, Vec<OwnedFd>), FrameError> {
    let mut header = [0u8; 4];
    let (mut filled, descriptors) = receive_first(stream, &mut header)?;
    if filled == 0 {
        return Err(FrameError::Closed);
    }
    let mut reader = stream;
    while filled < header.len() {
        match reader.read(&mut header[filled..]) {
            Ok(0) => return Err(closed_within().into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let length = usize::try_from(u32::from_le_bytes(header)).unwrap_or(usize::MAX);
    if length > size_max {
        return Err(FrameError::TooLong(length));
    }
    // Grown by what arrives, so that a length alone cannot make us allocate.
    let mut body = Zeroizing::new(Vec::with_capacity(length.min(1 << 16)));
    let limit = u64::try_from(length).expect("a usize of at most 16 MiB");
    let received = reader.take(limit).read_to_end(&mut body)?;
    if received < length {
        return Err(closed_within().into());
    }
    let (text, secrets) = text_and_secrets(&body).ok_or(FrameError::Secrets)?;
    let content = secret::beside(secrets, || serde_json::from_slice(text));
    Ok((content?, descriptors))
}

fn closed_within() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::UnexpectedEof)
}

/// The first bytes of a frame: the only ones that descriptors come with.
fn receive_first(
    stream: &UnixStream,
    header: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), FrameError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut slices = [IoSliceMut::new(header)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(stream, &mut slices, &mut control, flags) {
            Err(rustix::io::Errno::INTR) => continue,
            result => break result.map_err(|errno| unread_or_failed(errno.into()))?,
        }
    };
    let mut descriptors = Vec::new();
    for item in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = item {
            descriptors.extend(rights);
        }
    }
    Ok((message.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_request_arrives_with_its_descriptors() {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"beside").expect("a write");
        let sent = Request::Export {
            pool: "tank".to_owned(),
            how: crate::model::ExportHow {
                force: true,
                ..crate::model::ExportHow::default()
            },
        };
        send(&left, &sent, &[file.as_fd()]).expect("a send");
        let (got, descriptors): (Request, _) = receive(&right).expect("a receive");
        assert_eq!(got, sent);
        assert_eq!(descriptors.len(), 1);
        let size = rustix::fs::fstat(&descriptors[0]).expect("a stat").st_size;
        assert_eq!(size, 6);
    }

    #[test]
    fn long_frames_cross_while_both_sides_work() {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        let text = "x".repeat(3 << 20);
        let copy = text.clone();
        let sender = std::thread::spawn(move || send(&left, &copy, &[]));
        let (got, _): (String, _) = receive(&right).expect("a receive");
        assert!(got == text);
        sender.join().expect("no panic").expect("a send");
        let ended = receive::<String>(&right);
        assert!(matches!(ended, Err(FrameError::Closed)));
    }

    #[test]
    fn a_request_that_nobody_read_is_told_from_one_without_an_answer() {
        let (left, right) = UnixStream::pair().expect("a socket pair");
        send(&left, &"unread", &[]).expect("a send");
        drop(right);
        let ended = receive::<String>(&left);
        assert!(matches!(ended, Err(FrameError::Unread)), "{ended:?}");
        let ended = send(&left, &"too late", &[]);
        assert!(matches!(ended, Err(FrameError::Unread)), "{ended:?}");

        let (left, right) = UnixStream::pair().expect("a socket pair");
        send(&left, &"read", &[]).expect("a send");
        receive::<String>(&right).expect("a receive");
        drop(right);
        let ended = receive::<String>(&left);
        assert!(matches!(ended, Err(FrameError::Closed)), "{ended:?}");
    }

    #[test]
    fn absurd_and_broken_frames_are_refused() {
        let (mut left, right) = UnixStream::pair().expect("a socket pair");
        left.write_all(&u32::MAX.to_le_bytes()).expect("a write");
        let refused = receive::<String>(&right);
        assert!(matches!(refused, Err(FrameError::TooLong(_))));

        let (mut left, right) = UnixStream::pair().expect("a socket pair");
        left.write_all(&[9, 0, 0, 0, b'"']).expect("a write");
        drop(left);
        let refused = receive::<String>(&right);
        assert!(matches!(refused, Err(FrameError::Io(_))));

        let (mut left, right) = UnixStream::pair().expect("a socket pair");
        left.write_all(&[1, 0, 0, 0, b'?']).expect("a write");
        let refused = receive::<String>(&right);
        assert!(matches!(refused, Err(FrameError::Malformed(_))));
    }
}
