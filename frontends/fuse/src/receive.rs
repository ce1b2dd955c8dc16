//! Receiving requests: where their bytes go.
//!
//! Most requests are a few hundred bytes long, and one buffer takes them. A WRITE brings up to a
//! megabyte of data that is to stay: the file's blocks will hold it until it is on disk, and in
//! the cache after that. Received into the common buffer it would be copied from there at once.
//! So as long as large writes come, a request is received in two parts: its first 80 bytes, which
//! are all that a WRITE has before its data, into the buffer, and the rest into the memory of
//! blocks as large as the file's. What fills a block becomes the file's as it is; what does not is
//! copied by the file system, and so is the rest of any other request, back into the buffer.
//!
//! The blocks are given up again when no large writes come any more: an idle worker holds no more
//! than the pages that short requests have touched.

use crate::lookout::Lookout;
use crate::protocol::modification::WRITE_ARGUMENTS;
use crate::protocol::opcode;
use crate::protocol::request::{HEADER_SIZE, RequestHeader};
use crate::transport::{Device, Received};
use cenote_device::BlockBuffer;
use rustix::io::Errno;
use std::io::IoSliceMut;

/// Room for the fixed part of any request before its data.
const REQUEST_HEAD_MAX: usize = 4096;
/// The smallest buffer the kernel accepts for a request (`FUSE_MIN_READ_BUFFER`).
pub(crate) const RECEIVE_SIZE_MIN: usize = 8192;
/// Bytes of a WRITE before its data: the header and `struct fuse_write_in`.
const WRITE_HEAD: usize = HEADER_SIZE + WRITE_ARGUMENTS;
/// Writes from this size on are received into blocks: less is copied as quickly.
const LARGE_WRITE: usize = 64 << 10;
/// Requests without a large write among them after which the blocks are given up.
const PATIENCE: u32 = 64;
/// Smaller blocks do not lie on pages of their own.
const BLOCK_SIZE_MIN: usize = 16 << 10;
/// The size of blocks that is taken for likely at first.
const BLOCK_SIZE_LIKELY: usize = 128 << 10;

/// A request as it was received.
#[derive(Debug)]
pub(crate) enum Request<'a> {
    /// All of its bytes.
    Whole(&'a [u8]),
    /// A WRITE whose data is in blocks.
    Write {
        /// Header and arguments.
        head: &'a [u8],
        /// The first `length` bytes of these, taken one after the other, are the data. The consumer
        /// of one leaves an empty buffer in its place.
        blocks: &'a mut [BlockBuffer],
        /// Bytes of data.
        length: usize,
    },
}

impl<'a> Request<'a> {
    /// The request's first bytes: all but the data of a WRITE.
    pub fn front(&self) -> &'a [u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Write { head, .. } => head,
        }
    }

    /// All bytes of the request.
    pub fn length(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Write { head, length, .. } => head.len() + length,
        }
    }
}

/// Where one worker receives requests.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// A request, or its first bytes when there are blocks for the rest.
    buffer: Vec<u8>,
    /// Memory for the data of a write; none while no large ones come.
    blocks: Vec<BlockBuffer>,
    /// Bytes of data that a request may have.
    data_max: usize,
    /// The size of the blocks that files were seen to have.
    block_size: usize,
    /// Requests since the last large write.
    quiet: u32,
}

impl Receiver {
    /// A receiver of requests with up to `data_max` bytes of data.
    pub fn new(data_max: usize) -> Self {
        let size = (data_max + REQUEST_HEAD_MAX).max(RECEIVE_SIZE_MIN);
        Self {
            // The memory is touched only when used.
            buffer: vec![0; size],
            blocks: Vec::new(),
            data_max,
            block_size: BLOCK_SIZE_LIKELY,
            quiet: 0,
        }
    }

    /// Waits for the next request; looks out for it at first if there is a `lookout`.
    pub fn receive(
        &mut self,
        device: &Device,
        lookout: Option<&mut Lookout>,
    ) -> Result<Received, Errno> {
        if self.blocks.is_empty() {
            return device.receive(&mut [IoSliceMut::new(&mut self.buffer)], lookout);
        }
        for block in &mut self.blocks {
            if block.is_empty() {
                *block = BlockBuffer::take(self.block_size);
            }
        }
        let mut pieces = Vec::with_capacity(self.blocks.len() + 1);
        pieces.push(IoSliceMut::new(&mut self.buffer[..WRITE_HEAD]));
        pieces.extend(self.blocks.iter_mut().map(|block| IoSliceMut::new(block)));
        device.receive(&mut pieces, lookout)
    }

    /// The request of `length` bytes that was just received.
    pub fn request(&mut self, length: usize) -> Request<'_> {
        if self.blocks.is_empty() || length <= WRITE_HEAD {
            return Request::Whole(&self.buffer[..length]);
        }
        if RequestHeader::opcode_of(&self.buffer) == Some(opcode::WRITE) {
            return Request::Write {
                head: &self.buffer[..WRITE_HEAD],
                blocks: &mut self.blocks,
                length: length - WRITE_HEAD,
            };
        }
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let mut rest = &mut self.buffer[WRITE_HEAD..length];
        for block in &self.blocks {
            let (piece, behind) = rest.split_at_mut(rest.len().min(block.len()));
            piece.copy_from_slice(&block[..piece.len()]);
            rest = behind;
        }
        assert!(rest.is_empty(), "no more was received than there was room");
        Request::Whole(&self.buffer[..length])
    }

    /// Takes note of the request of `length` bytes that was served, and of the size of the
    /// file's blocks if it was a write: the next one is received accordingly.
    pub fn served(&mut self, length: usize, block_size: Option<usize>) {
        let is_write = RequestHeader::opcode_of(&self.buffer) == Some(opcode::WRITE);
        if !is_write || length < LARGE_WRITE + WRITE_HEAD {
            self.quiet += 1;
            if self.quiet >= PATIENCE && !self.blocks.is_empty() {
                self.blocks = Vec::new();
            }
            return;
        }
        self.quiet = 0;
        let data_max = self.data_max;
        // The block of a small file has any size; that of the next file is as likely as before.
        let known = block_size.filter(|size| size.is_power_of_two());
        let wanted = known.unwrap_or(self.block_size);
        let wanted = wanted.clamp(BLOCK_SIZE_MIN, data_max.max(BLOCK_SIZE_MIN));
        if self.blocks.is_empty() || wanted != self.block_size {
            self.block_size = wanted;
            self.blocks = Vec::new();
            let count = data_max.div_ceil(wanted);
            self.blocks.resize_with(count, BlockBuffer::default);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    const DATA_MAX: usize = 128 << 10;

    fn request(operation: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (HEADER_SIZE + arguments.len()) as u32;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(operation.to_le_bytes());
        bytes.extend([0; 32]);
        bytes.extend(arguments);
        bytes
    }

    fn write(data: usize) -> Vec<u8> {
        let bytes: Vec<u8> = (0..WRITE_ARGUMENTS + data)
            .map(|i| (i % 251) as u8)
            .collect();
        request(opcode::WRITE, &bytes)
    }

    /// A receiver and its sender: each datagram is a request, as from the kernel.
    struct Pair {
        kernel: UnixDatagram,
        device: Device,
        receiver: Receiver,
    }

    impl Pair {
        fn new() -> Self {
            let (kernel, ours) = UnixDatagram::pair().expect("a pair of sockets");
            Self {
                kernel,
                device: Device::from_descriptor(ours.into()),
                receiver: Receiver::new(DATA_MAX),
            }
        }

        fn send(&mut self, request: &[u8]) -> Request<'_> {
            self.kernel.send(request).expect("room for one");
            let received = self.receiver.receive(&self.device, None);
            assert_eq!(received, Ok(Received::Request(request.len())));
            self.receiver.request(request.len())
        }
    }

    #[test]
    fn large_writes_go_to_blocks_that_may_be_taken() {
        let mut pair = Pair::new();
        let sent = write(DATA_MAX);
        assert!(matches!(pair.send(&sent), Request::Whole(bytes) if bytes == sent));
        pair.receiver.served(sent.len(), Some(32 << 10));
        for _ in 0..2 {
            let received = pair.send(&sent);
            assert_eq!(received.length(), sent.len());
            let Request::Write {
                head,
                blocks,
                length,
            } = received
            else {
                panic!("a large write was expected");
            };
            assert_eq!((head, length), (&sent[..WRITE_HEAD], DATA_MAX));
            assert_eq!(blocks.len(), 4);
            let received = blocks.iter().flat_map(|block| block.iter());
            assert!(received.eq(&sent[WRITE_HEAD..]));
            let taken = std::mem::take(&mut blocks[2]);
            assert_eq!(taken.as_ptr().align_offset(4096), 0);
            pair.receiver.served(sent.len(), Some(32 << 10));
        }
    }

    #[test]
    fn other_requests_are_whole_wherever_their_bytes_went() {
        let mut pair = Pair::new();
        let sent = write(DATA_MAX);
        pair.send(&sent);
        pair.receiver.served(sent.len(), Some(16 << 10));
        let short = request(opcode::LOOKUP, b"name\0");
        let value: Vec<u8> = (0..70_000).map(|i| (i % 241) as u8).collect();
        let long = request(opcode::SETXATTR, &value);
        for other in [&short, &long] {
            assert!(matches!(pair.send(other), Request::Whole(bytes) if bytes == *other));
            pair.receiver.served(other.len(), None);
        }
        let small = write(100);
        let received = pair.send(&small);
        assert!(matches!(received, Request::Write { length: 100, .. }));
    }

    #[test]
    fn the_blocks_are_given_up_when_no_large_writes_come() {
        let mut pair = Pair::new();
        let (large, short) = (write(DATA_MAX), request(opcode::LOOKUP, b"name\0"));
        pair.send(&large);
        pair.receiver.served(large.len(), None);
        assert!(!pair.receiver.blocks.is_empty());
        for _ in 0..PATIENCE {
            pair.send(&short);
            pair.receiver.served(short.len(), None);
        }
        assert!(pair.receiver.blocks.is_empty());
    }
}
