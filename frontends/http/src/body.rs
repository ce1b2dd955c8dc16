//! The bodies of answers: pieces of files as they lie in memory, texts, listings.
//!
//! The connection requests a body's next piece when it has room for one, so the data that a client
//! has not received yet is bounded: what the connection holds, the pieces of one read, and one read
//! ahead. Reads grow from [`FIRST_READ`] to [`READ_MAX`], and are smaller on connections with many
//! answers at once, so that all of a connection's reads take about as much as one.
//!
//! What memory has is taken from there at once. What it has not is read by a thread that may wait,
//! and while the client takes it the next read is already under way.
//!
//! *Invariant: what was sent under an entity tag is that of one version of the file.* A file that
//! changes while it is sent ends its connection before the body is complete, so that the client
//! knows, and asks again.

use crate::flight::Flight;
use crate::listing::Listing;
use crate::options::Rules;
use crate::tree::{File, Purpose, TreeError};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

/// Bytes of the first read of a file.
pub(crate) const FIRST_READ: usize = 256 << 10;
/// Bytes of a read of a file that is being sent for a while.
const READ_MAX: usize = 1 << 20;
/// Bytes of a read on a connection with very many answers at once.
const READ_MIN: usize = 64 << 10;
/// Bytes that are sent at once where there is a rate to keep.
const PACED_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=64 << 10;

/// Why a body ends before it is complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the file cannot be read: {0}")]
    Unreadable(TreeError),
    #[error("the file changed while it was sent")]
    Changed,
    #[error("the storage did not answer in time")]
    TooSlow,
}

impl From<TreeError> for Broken {
    fn from(error: TreeError) -> Self {
        match error {
            TreeError::Changed => Self::Changed,
            error => Self::Unreadable(error),
        }
    }
}

/// A part of a body that is made of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// The heading of one part of a multipart body.
    Text(Bytes),
    /// These bytes of the file; not empty.
    Range {
        /// The first.
        begin: u64,
        /// The one after the last.
        end: u64,
    },
}

impl Segment {
    /// Its bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Range { begin, end } => end - begin,
        }
    }
}

/// What a body has to send of a file.
pub(crate) struct FileParts {
    pub file: Arc<dyn File>,
    pub tag: String,
    pub segments: VecDeque<Segment>,
    pub purpose: Purpose,
    /// What was read of the first range already.
    pub first: Vec<Bytes>,
}

type Reading = oneshot::Receiver<Result<Vec<Bytes>, TreeError>>;

struct Parts {
    file: Arc<dyn File>,
    tag: String,
    segments: VecDeque<Segment>,
    purpose: Purpose,
    read_bytes: usize,
    /// A read on a thread that may wait, and how much it is of.
    reading: Option<(Reading, usize)>,
    deadline: Option<Pin<Box<Sleep>>>,
}

enum Source {
    Nothing,
    Parts(Box<Parts>),
    Listing(Box<Listing>),
}

/// The body of an answer.
pub(crate) struct Payload {
    source: Source,
    /// What can be sent.
    ready: VecDeque<Bytes>,
    /// Bytes that are still to be sent, if that is known.
    rest: Option<u64>,
    /// The first of `ready` was accounted for.
    is_paid: bool,
    sleep: Option<Pin<Box<Sleep>>>,
    rules: Arc<Rules>,
    flight: Flight,
}

impl Payload {
    pub fn whole(bytes: Bytes, rules: Arc<Rules>, flight: Flight) -> Self {
        let rest = Some(bytes.len() as u64);
        let ready = (!bytes.is_empty()).then_some(bytes).into_iter().collect();
        Self {
            source: Source::Nothing,
            ready,
            rest,
            is_paid: false,
            sleep: None,
            rules,
            flight,
        }
    }

    pub fn listing(listing: Box<Listing>, rules: Arc<Rules>, flight: Flight) -> Self {
        Self {
            source: Source::Listing(listing),
            rest: None,
            ..Self::whole(Bytes::new(), rules, flight)
        }
    }

    pub fn file(parts: FileParts, rules: Arc<Rules>, flight: Flight) -> Self {
        let mut payload = Self {
            rest: Some(parts.segments.iter().map(Segment::length).sum()),
            ..Self::whole(Bytes::new(), rules, flight)
        };
        let mut source = Parts {
            file: parts.file,
            tag: parts.tag,
            segments: parts.segments,
            purpose: parts.purpose,
            read_bytes: FIRST_READ,
            reading: None,
            deadline: None,
        };
        if let Some(Segment::Text(text)) = source.segments.front().cloned() {
            source.segments.pop_front();
            payload.ready.push_back(text);
        }
        source.advance(parts.first, &mut payload.ready);
        payload.source = match source.segments.is_empty() {
            true => Source::Nothing,
            false => Source::Parts(Box::new(source)),
        };
        payload
    }

    /// Takes what may be sent of the first piece now; else waits for its turn.
    fn pay(&mut self) -> Option<Bytes> {
        let piece = self.ready.front_mut()?;
        let limits = self.rules.limits();
        let rates = [limits.bytes_per_second, limits.bytes_per_second_total];
        if self.is_paid || rates == [None, None] {
            self.is_paid = false;
            return self.ready.pop_front();
        }
        let slowest = rates.iter().flatten().min().copied().unwrap_or(u64::MAX);
        let quantum = (slowest / 8).clamp(*PACED_BYTES.start(), *PACED_BYTES.end());
        // At most 64 KiB.
        let quantum = quantum as usize;
        if piece.len() > quantum {
            let first = piece.split_to(quantum);
            self.ready.push_front(first);
        }
        let amount = self.ready.front().map_or(0, |piece| piece.len() as u64);
        let shared = &self.flight.shared;
        let now = shared.clock.nanoseconds();
        let mut delay = Duration::ZERO;
        if let (Some(rate), Some(address)) = (rates[0], &self.flight.link.address) {
            delay = delay.max(address.0.byte_pace.take(now, amount, rate));
        }
        if let Some(rate) = rates[1] {
            delay = delay.max(shared.byte_pace.take(now, amount, rate));
        }
        if delay.is_zero() {
            return self.ready.pop_front();
        }
        self.is_paid = true;
        self.sleep = Some(Box::pin(tokio::time::sleep(delay)));
        None
    }

    /// Fills `ready` if it is empty; `None` at the end.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<(), Broken>>> {
        match &mut self.source {
            Source::Nothing => Poll::Ready(None),
            Source::Listing(listing) => match listing.next_piece() {
                Some(piece) => {
                    self.ready.push_back(piece);
                    Poll::Ready(Some(Ok(())))
                }
                None => Poll::Ready(None),
            },
            Source::Parts(parts) => parts
                .as_mut()
                .poll_fill(context, &mut self.ready, &mut self.flight, &self.rules)
                .map(|result| (!matches!(result, Ok(false))).then(|| result.map(|_| ()))),
        }
    }
}

impl Parts {
    /// Takes bytes that were read of the first range.
    fn advance(&mut self, pieces: Vec<Bytes>, ready: &mut VecDeque<Bytes>) {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        ready.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
        self.skip(length as u64);
    }

    /// Counts bytes of the first range as read.
    fn skip(&mut self, length: u64) {
        if let Some(Segment::Range { begin, end }) = self.segments.front_mut() {
            *begin += length;
            if begin >= end {
                self.segments.pop_front();
            }
        }
    }

    /// Where the next read begins, and how many bytes it has.
    fn next_read(&self, flight: &Flight) -> Option<(u64, usize)> {
        let Some(Segment::Range { begin, end }) = self.segments.front() else {
            return None;
        };
        let share = READ_MAX / flight.link.busy().max(1) as usize;
        let bytes = self.read_bytes.min(share.max(READ_MIN));
        Some((
            *begin,
            bytes.min(usize::try_from(end - begin).unwrap_or(bytes)),
        ))
    }

    /// Begins a read on a thread that may wait.
    fn begin_read(&mut self, flight: &mut Flight, rules: &Rules) -> Result<(), Broken> {
        let Some((begin, length)) = self.next_read(flight) else {
            return Ok(());
        };
        flight.is_at_once = false;
        let (file, purpose) = (Arc::clone(&self.file), self.purpose);
        let work = move || file.read(begin, length, purpose);
        let reading = flight.shared.waiting.begin(work);
        let reading = reading.map_err(|_| Broken::TooSlow)?;
        self.reading = Some((reading, length));
        let deadline = Instant::now() + rules.limits().storage_time;
        match &mut self.deadline {
            Some(sleep) => sleep.as_mut().reset(deadline),
            None => self.deadline = Some(Box::pin(tokio::time::sleep_until(deadline))),
        }
        self.skip(length as u64);
        self.read_bytes = (2 * self.read_bytes).min(READ_MAX);
        Ok(())
    }

    /// Fills `ready`; false at the end.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        ready: &mut VecDeque<Bytes>,
        flight: &mut Flight,
        rules: &Rules,
    ) -> Poll<Result<bool, Broken>> {
        if self.reading.is_none() {
            match self.segments.front() {
                None => return Poll::Ready(Ok(false)),
                Some(Segment::Text(text)) => {
                    ready.push_back(text.clone());
                    self.segments.pop_front();
                    return Poll::Ready(Ok(true));
                }
                Some(Segment::Range { .. }) => {}
            }
            if let Some((begin, length)) = self.next_read(flight) {
                let pieces = self.file.read_cached(begin, length);
                if pieces.iter().any(|piece| !piece.is_empty()) {
                    self.check(&pieces, length)?;
                    self.advance(pieces, ready);
                    return Poll::Ready(Ok(true));
                }
            }
            self.begin_read(flight, rules)?;
        }
        let Some((reading, length)) = &mut self.reading else {
            return Poll::Ready(Ok(false));
        };
        let length = *length;
        let result = match Pin::new(reading).poll(context) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                flight.set_waiting(true);
                let deadline = self.deadline.as_mut();
                let is_over = deadline.is_some_and(|d| d.as_mut().poll(context).is_ready());
                return match is_over {
                    true => Poll::Ready(Err(Broken::TooSlow)),
                    false => Poll::Pending,
                };
            }
        };
        flight.set_waiting(false);
        self.reading = None;
        let pieces = result.map_err(|_| Broken::TooSlow)??;
        self.check(&pieces, length)?;
        if pieces.iter().map(Bytes::len).sum::<usize>() != length {
            return Poll::Ready(Err(Broken::Changed));
        }
        ready.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
        if let Some(Segment::Range { .. }) = self.segments.front() {
            self.begin_read(flight, rules)?;
        }
        Poll::Ready(Ok(true))
    }

    /// Whether what was read is of the file as it was when its answer began.
    fn check(&self, pieces: &[Bytes], length: usize) -> Result<(), Broken> {
        let read: usize = pieces.iter().map(Bytes::len).sum();
        match read <= length && self.file.entity_tag() == self.tag {
            true => Ok(()),
            false => Err(Broken::Changed),
        }
    }
}

impl Body for Payload {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let this = &mut *self;
        loop {
            if let Some(sleep) = &mut this.sleep {
                this.flight.set_waiting(true);
                ready!(sleep.as_mut().poll(context));
                this.flight.set_waiting(false);
                this.sleep = None;
            }
            if let Some(piece) = this.pay() {
                this.flight.bytes += piece.len() as u64;
                if let Some(rest) = &mut this.rest {
                    *rest = rest.saturating_sub(piece.len() as u64);
                }
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.sleep.is_some() {
                continue;
            }
            match ready!(this.poll_fill(context)) {
                None => return Poll::Ready(None),
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    this.source = Source::Nothing;
                    log::info!("HTTP: a download was ended before it was complete: {error}");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            Some(rest) => SizeHint::with_exact(rest),
            None => SizeHint::default(),
        }
    }
}
