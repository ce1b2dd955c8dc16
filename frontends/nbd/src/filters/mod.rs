//! Filters: devices around another device, for tests and for strangers.
//!
//! A [`Filter`] sees each request before the device does and its end after; [`Filtered`] is the
//! device with that filter around it, and filters can be nested. [`Overlay`] is a device of its
//! own: it keeps what is written, and leaves the device below as it is.
//!
//! Requests that change nothing and read no data (extents, advice to cache) pass unseen.

mod overlay;
mod pace;
mod statistics;

pub use overlay::Overlay;
pub use pace::{Delay, Rate};
pub use statistics::Statistics;

use crate::device::{BlockDevice, BlockError, BlockSizes, Extent, ZeroMode};
use crate::read_data::ReadData;
use cenote_base::rt::Instant;
use cenote_device::BlockBuffer;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It makes durable.
    Flush,
    /// It says that contents no longer matter.
    Trim,
    /// It fills with zeros.
    Zero,
}

/// A request that a filter sees.
#[derive(Clone, Copy, Debug)]
pub struct FilteredRequest {
    /// What it does.
    pub kind: RequestKind,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it is about.
    pub length: u64,
    /// Whether it is a write that is durable when it is answered.
    pub is_durable: bool,
}

/// Something that requests pass through.
pub trait Filter: Send + Sync {
    /// Before the device has the request. It may wait, but not without end.
    fn before(&self, _request: &FilteredRequest) {}

    /// Called after the device has answered; `took` is the time that it took.
    fn after(&self, _request: &FilteredRequest, _took: Duration, _is_well: bool) {}
}

/// A device with a filter around it.
pub struct Filtered<F> {
    inner: Arc<dyn BlockDevice>,
    filter: Arc<F>,
}

impl<F: Filter> Filtered<F> {
    /// Puts `filter` around a device.
    pub fn new(inner: Arc<dyn BlockDevice>, filter: Arc<F>) -> Self {
        Self { inner, filter }
    }

    fn pass<T>(
        &self,
        request: FilteredRequest,
        act: impl FnOnce() -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        self.filter.before(&request);
        let begin = Instant::now();
        let result = act();
        self.filter.after(&request, begin.elapsed(), result.is_ok());
        result
    }
}

fn request(kind: RequestKind, range: &Range<u64>) -> FilteredRequest {
    FilteredRequest {
        kind,
        offset: range.start,
        length: range.end - range.start,
        is_durable: false,
    }
}

impl<F: Filter> BlockDevice for Filtered<F> {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn block_sizes(&self) -> BlockSizes {
        self.inner.block_sizes()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }

    fn can_trim(&self) -> bool {
        self.inner.can_trim()
    }

    fn knows_fast_zero(&self) -> bool {
        self.inner.knows_fast_zero()
    }

    fn can_share(&self) -> bool {
        self.inner.can_share()
    }

    fn description(&self) -> Option<String> {
        self.inner.description()
    }

    fn read(&self, offset: u64, length: usize, data: &mut ReadData) -> Result<(), BlockError> {
        let request = request(RequestKind::Read, &(offset..offset + length as u64));
        self.pass(request, || self.inner.read(offset, length, data))
    }

    fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<(), BlockError> {
        let mut request = request(RequestKind::Write, &(offset..offset + bytes.len() as u64));
        request.is_durable = is_durable;
        self.pass(request, || self.inner.write(offset, bytes, is_durable))
    }

    fn piece_size(&self) -> Option<usize> {
        self.inner.piece_size()
    }

    fn write_pieces(
        &self,
        offset: u64,
        pieces: &mut [BlockBuffer],
        is_durable: bool,
    ) -> Result<(), BlockError> {
        let length: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut request = request(RequestKind::Write, &(offset..offset + length));
        request.is_durable = is_durable;
        self.pass(request, || {
            self.inner.write_pieces(offset, pieces, is_durable)
        })
    }

    fn flush(&self) -> Result<(), BlockError> {
        self.pass(request(RequestKind::Flush, &(0..0)), || self.inner.flush())
    }

    fn trim(&self, range: Range<u64>) -> Result<(), BlockError> {
        let request = request(RequestKind::Trim, &range);
        self.pass(request, || self.inner.trim(range))
    }

    fn zero(&self, range: Range<u64>, mode: ZeroMode) -> Result<(), BlockError> {
        let request = request(RequestKind::Zero, &range);
        self.pass(request, || self.inner.zero(range, mode))
    }

    fn cache(&self, range: Range<u64>) -> Result<(), BlockError> {
        self.inner.cache(range)
    }

    fn contexts(&self) -> Vec<String> {
        self.inner.contexts()
    }

    fn bind_contexts(&self, names: &[&str]) {
        self.inner.bind_contexts(names);
    }

    fn extents(
        &self,
        context: &str,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<Extent>, BlockError> {
        self.inner.extents(context, range, most)
    }
}
