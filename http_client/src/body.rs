//! What a request sends.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes that are given to the kernel at a time.
const PIECE: usize = 64 << 10;

/// A body that is sent in pieces, and says when one was taken.
#[derive(Default)]
pub struct Payload {
    rest: Bytes,
    taken: Option<Box<dyn Fn(usize) + Send>>,
}

impl Payload {
    /// A body of these bytes.
    pub fn new(bytes: Bytes) -> Self {
        Self {
            rest: bytes,
            taken: None,
        }
    }

    /// A body of these bytes that calls `taken` with the length of each piece that goes out.
    pub fn watched(bytes: Bytes, taken: impl Fn(usize) + Send + 'static) -> Self {
        Self {
            rest: bytes,
            taken: Some(Box::new(taken)),
        }
    }

    /// Bytes that are still to be sent.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl fmt::Debug for Payload {
    /// Without the bytes.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Payload");
        shown.field("length", &self.rest.len()).finish()
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let length = self.rest.len().min(PIECE);
        if let Some(taken) = &self.taken {
            taken(length);
        }
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
