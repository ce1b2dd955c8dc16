//! What a read gives: pieces of memory and runs of zeros, in order.
//!
//! A device whose blocks are in a cache lends them, and they go to the socket without a copy.
//! Zeros are no memory at all: clients that take structured replies get holes.

use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that live as long as there are references to them.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// Zeros to send where a client takes no holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A buffer that grew beyond this is given back after the request.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// A part of what a read gives.
#[derive(Clone)]
pub(crate) enum Piece {
    /// Of the own buffer.
    Own(Range<usize>),
    Shared(SharedBytes, Range<usize>),
    Zeros(usize),
}

/// So many zeros, ready to be sent.
pub(crate) fn zeros<'a>(length: usize) -> impl Iterator<Item = IoSlice<'a>> {
    let whole = std::iter::repeat_n(IoSlice::new(&ZEROS), length / ZEROS.len());
    whole.chain([IoSlice::new(&ZEROS[..length % ZEROS.len()])])
}

/// What a read gives.
#[derive(Default)]
pub struct ReadData {
    pieces: Vec<Piece>,
    length: usize,
    wanted: usize,
    buffer: Vec<u8>,
    used: usize,
}

/// Neighbours that are all zeros, or all bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run<'a> {
    pub is_zero: bool,
    pub length: usize,
    /// The bytes, unless they are zeros.
    pub slices: Vec<&'a [u8]>,
}

impl ReadData {
    /// Begins a read of `wanted` bytes; what a read before this one gave is gone.
    pub fn begin(&mut self, wanted: usize) {
        self.pieces.clear();
        (self.length, self.wanted, self.used) = (0, wanted, 0);
        if self.buffer.len() > KEPT_BYTES_MAX {
            self.buffer = Vec::new();
        }
    }

    /// Bytes that are still to come.
    pub fn remaining(&self) -> usize {
        self.wanted - self.length
    }

    fn admit(&mut self, length: usize) {
        // If a device returned more than requested, the excess would be taken for the next reply.
        assert!(length <= self.remaining(), "a read gives what was asked");
        self.length += length;
    }

    /// Appends `length` bytes that `fill` writes in place. What was there before is arbitrary.
    ///
    /// # Errors
    /// As `fill`.
    ///
    /// # Panics
    /// If these are more bytes than the read asks for.
    pub fn push_filled<E>(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.admit(length);
        let place = self.used..self.used + length;
        if self.buffer.len() < place.end {
            self.buffer.resize(place.end.max(self.wanted), 0);
        }
        self.used = place.end;
        fill(&mut self.buffer[place.clone()])?;
        match self.pieces.last_mut() {
            Some(Piece::Own(last)) => last.end = place.end,
            _ => self.pieces.push(Piece::Own(place)),
        }
        Ok(())
    }

    /// Appends `range` of `owner`'s bytes without copying them.
    ///
    /// # Panics
    /// If these are more bytes than the read asks for, or `owner` has.
    pub fn push_shared(&mut self, owner: SharedBytes, range: Range<usize>) {
        assert!(range.start <= range.end && range.end <= (*owner).as_ref().len());
        self.admit(range.len());
        if !range.is_empty() {
            self.pieces.push(Piece::Shared(owner, range));
        }
    }

    /// Appends zeros.
    ///
    /// # Panics
    /// If these are more bytes than the read asks for.
    pub fn push_zeros(&mut self, length: usize) {
        self.admit(length);
        match self.pieces.last_mut() {
            _ if length == 0 => {}
            Some(Piece::Zeros(last)) => *last += length,
            _ => self.pieces.push(Piece::Zeros(length)),
        }
    }

    /// Gives all pieces away, in order, each with the own buffer.
    pub(crate) fn take_pieces(&mut self, mut each: impl FnMut(Piece, &[u8])) {
        for piece in self.pieces.drain(..) {
            each(piece, &self.buffer);
        }
    }

    /// All bytes that there are, one after the other.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length);
        for run in self.runs() {
            match run.is_zero {
                true => bytes.resize(bytes.len() + run.length, 0),
                false => run.slices.iter().for_each(|s| bytes.extend_from_slice(s)),
            }
        }
        bytes
    }

    /// Runs of zeros and of bytes, in order.
    pub(crate) fn runs(&self) -> Vec<Run<'_>> {
        let mut runs: Vec<Run<'_>> = Vec::new();
        for piece in &self.pieces {
            let bytes = match piece {
                Piece::Own(range) => Some(&self.buffer[range.clone()]),
                Piece::Shared(owner, range) => Some(&(**owner).as_ref()[range.clone()]),
                Piece::Zeros(_) => None,
            };
            let length = match piece {
                Piece::Own(range) | Piece::Shared(_, range) => range.len(),
                Piece::Zeros(length) => *length,
            };
            let is_zero = bytes.is_none();
            if runs.last().is_none_or(|last| last.is_zero != is_zero) {
                runs.push(Run {
                    is_zero,
                    length: 0,
                    slices: Vec::new(),
                });
            }
            let run = runs.last_mut().expect("there is one now");
            run.length += length;
            run.slices.extend(bytes);
        }
        runs
    }

    /// The bytes of `head`, then all data, zeros written out, ready to be sent.
    pub(crate) fn after<'a>(&'a self, head: &'a [u8]) -> Vec<IoSlice<'a>> {
        let mut slices = vec![IoSlice::new(head)];
        self.append_slices(&mut slices);
        slices
    }

    /// All data, zeros written out, in order.
    pub fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = Vec::new();
        self.append_slices(&mut slices);
        slices
    }

    fn append_slices<'a>(&'a self, slices: &mut Vec<IoSlice<'a>>) {
        for run in self.runs() {
            slices.extend(run.slices.iter().map(|bytes| IoSlice::new(bytes)));
            if run.is_zero {
                slices.extend(zeros(run.length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(data: &mut ReadData, length: usize, byte: u8) {
        let filled = data.push_filled(length, |buffer| {
            buffer.fill(byte);
            Ok::<(), ()>(())
        });
        filled.expect("it does not fail");
    }

    #[test]
    fn neighbours_are_one_run() {
        let mut data = ReadData::default();
        data.begin(100_000);
        fill(&mut data, 10, 1);
        fill(&mut data, 10, 2);
        data.push_shared(Arc::new(vec![3; 20]), 5..15);
        data.push_zeros(5);
        data.push_zeros(69_965);
        fill(&mut data, 30_000, 4);
        assert_eq!(data.remaining(), 0);
        let runs = data.runs();
        let lengths: Vec<_> = runs.iter().map(|run| (run.is_zero, run.length)).collect();
        assert_eq!(lengths, [(false, 30), (true, 69_970), (false, 30_000)]);
        let slices = data.after(&[]);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes.len(), 100_000);
        let head = [vec![1; 10], vec![2; 10], vec![3; 10], vec![0; 69_970]].concat();
        assert_eq!(bytes[..70_000], head);
        data.begin(1);
        assert_eq!(data.runs(), []);
    }

    #[test]
    #[should_panic(expected = "what was asked")]
    fn more_than_was_asked_for_is_a_mistake() {
        let mut data = ReadData::default();
        data.begin(10);
        data.push_zeros(11);
    }
}
