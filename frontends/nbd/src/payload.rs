//! What follows a request: bytes in one piece, or in pieces that a device can keep.
//!
//! The data of a large write comes from the socket, or from the kernel, straight into buffers
//! that are cut where the device's blocks begin. A device whose blocks are in memory takes them
//! as they are.

use cenote_device::BlockBuffer;
use cenote_nbd_client::receiver::Receiver;
use std::io::{self, IoSliceMut};

/// Smaller payloads are received into a permanent buffer: they are copied once more, but need no
/// lease.
const PIECES_FROM: usize = 32 << 10;

/// What follows a request.
#[derive(Debug, Default)]
pub struct Payload {
    /// What is short; longer than that from time to time.
    buffer: Vec<u8>,
    length: usize,
    /// What is long.
    pieces: Vec<BlockBuffer>,
}

impl Payload {
    /// Makes room for `length` bytes at `offset` of a device, cut at the multiples of `piece`.
    pub fn begin(&mut self, offset: u64, length: usize, piece: Option<usize>) {
        self.pieces.clear();
        self.length = length;
        if length <= PIECES_FROM {
            self.buffer.resize(self.buffer.len().max(length), 0);
            return;
        }
        let piece = piece.filter(|piece| *piece > 0).unwrap_or(usize::MAX);
        let within = usize::try_from(offset % piece as u64).expect("less than a piece");
        let (mut left, mut room) = (length, piece - within);
        while left > 0 {
            let next = left.min(room);
            self.pieces.push(BlockBuffer::take(next));
            (left, room) = (left - next, piece);
        }
    }

    /// Receives all of it.
    pub(crate) fn receive(&mut self, receiver: &mut Receiver) -> io::Result<()> {
        if self.pieces.is_empty() {
            return receiver.fill(&mut self.buffer[..self.length]);
        }
        receiver.fill_all(&mut self.slices())
    }

    /// Where the bytes go to, in order.
    pub fn slices(&mut self) -> Vec<IoSliceMut<'_>> {
        if self.pieces.is_empty() {
            return vec![IoSliceMut::new(&mut self.buffer[..self.length])];
        }
        let pieces = self.pieces.iter_mut();
        pieces.map(|piece| IoSliceMut::new(piece)).collect()
    }

    /// Gives back what is long.
    pub fn end(&mut self) {
        self.pieces.clear();
        self.length = 0;
    }

    /// Bytes that there are.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The pieces of what is long; none of what is short.
    pub fn pieces(&mut self) -> &mut [BlockBuffer] {
        &mut self.pieces
    }

    /// All bytes, if they are in one piece.
    pub fn bytes(&self) -> &[u8] {
        match &self.pieces[..] {
            [] => &self.buffer[..self.length],
            [piece, ..] => piece,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(offset: u64, length: usize, piece: Option<usize>) -> Vec<usize> {
        let mut payload = Payload::default();
        payload.begin(offset, length, piece);
        assert_eq!(payload.len(), length);
        payload.pieces().iter().map(|piece| piece.len()).collect()
    }

    #[test]
    fn pieces_end_where_blocks_do() {
        let (short, block) = (PIECES_FROM, Some(16 << 10));
        assert_eq!(lengths(5, short, block), []);
        assert_eq!(lengths(5, short + 1, None), [short + 1]);
        assert_eq!(lengths(0, 40 << 10, block), [16 << 10, 16 << 10, 8 << 10]);
        let middle = lengths((1 << 40) + 512, 40 << 10, block);
        assert_eq!(middle, [(16 << 10) - 512, 16 << 10, (8 << 10) + 512]);
    }
}
