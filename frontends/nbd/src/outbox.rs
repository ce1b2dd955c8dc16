//! Replies on their way to the client, several in one system call.
//!
//! The thread that receives answers small requests one after the other, as long as they are
//! there, and puts the replies in here. They are sent when it would have to wait for the client,
//! when they are many, or when any thread has a reply to send. A reply's memory is given back when
//! it is sent.

use crate::read_data::{Piece, ReadData, SharedBytes, zeros};
use crate::requests::Reply;
use cenote_base::MemoryLease;
use cenote_nbd_client::transport::{Transport, send_all};
use std::io::{self, IoSlice};
use std::ops::Range;

/// Replies that are sent together at most.
const REPLIES_MAX: usize = 64;
/// Bytes from which on replies are sent.
const BYTES_MAX: usize = 128 << 10;

/// Memory for a request's data: of its connection, and of all.
pub(crate) type Leases = Option<(MemoryLease, MemoryLease)>;

enum Part {
    /// Of the own bytes.
    Own(Range<usize>),
    Shared(SharedBytes, Range<usize>),
    Zeros(usize),
}

/// Replies that are not sent yet, in order.
#[derive(Default)]
pub(crate) struct Outbox {
    own: Vec<u8>,
    parts: Vec<Part>,
    leases: Vec<Leases>,
    replies: usize,
    bytes: usize,
}

impl Outbox {
    /// Whether it is time to send.
    pub fn is_full(&self) -> bool {
        self.replies >= REPLIES_MAX || self.bytes >= BYTES_MAX
    }

    /// Takes a reply and the data that was read for it. What the device wrote to the data's own
    /// buffer is copied.
    pub fn push(&mut self, reply: &Reply, data: &mut ReadData, leases: Leases) {
        match reply {
            Reply::Whole(bytes) => self.copy(bytes),
            Reply::WithData(head) => {
                self.copy(head);
                data.take_pieces(|piece, own| self.add(piece, own));
            }
            Reply::Chunks(heads, ends) => {
                let (mut start, mut ends) = (0, ends.iter());
                let mut run = None;
                data.take_pieces(|piece, own| {
                    let is_zero = matches!(piece, Piece::Zeros(_));
                    if run != Some(is_zero) {
                        let end = *ends.next().expect("each run has a head");
                        self.copy(&heads[start..end]);
                        (start, run) = (end, Some(is_zero));
                    }
                    // A hole has only a head, no data.
                    if !is_zero {
                        self.add(piece, own);
                    }
                });
            }
        }
        self.replies += 1;
        self.leases.extend(leases.map(Some));
    }

    fn copy(&mut self, bytes: &[u8]) {
        let start = self.own.len();
        self.own.extend_from_slice(bytes);
        self.bytes += bytes.len();
        match self.parts.last_mut() {
            Some(Part::Own(last)) => last.end = self.own.len(),
            _ => self.parts.push(Part::Own(start..self.own.len())),
        }
    }

    fn add(&mut self, piece: Piece, own: &[u8]) {
        match piece {
            Piece::Own(range) => self.copy(&own[range]),
            Piece::Shared(owner, range) => {
                self.bytes += range.len();
                self.parts.push(Part::Shared(owner, range));
            }
            Piece::Zeros(length) => {
                self.bytes += length;
                self.parts.push(Part::Zeros(length));
            }
        }
    }

    /// Sends all replies, and then `last`; nothing is left, whether that succeeds or not.
    ///
    /// # Errors
    /// If the socket has failed.
    pub fn send(
        &mut self,
        transport: &dyn Transport,
        last: Option<(&Reply, &ReadData)>,
    ) -> io::Result<()> {
        let mut slices = Vec::with_capacity(self.parts.len() + 2);
        for part in &self.parts {
            match part {
                Part::Own(range) => slices.push(IoSlice::new(&self.own[range.clone()])),
                Part::Shared(owner, range) => {
                    slices.push(IoSlice::new(&(**owner).as_ref()[range.clone()]));
                }
                Part::Zeros(length) => slices.extend(zeros(*length)),
            }
        }
        if let Some((reply, data)) = last {
            slices.extend(reply.slices(data));
        }
        let sent = match slices.is_empty() {
            true => Ok(()),
            false => send_all(transport, &mut slices),
        };
        drop(slices);
        self.parts.clear();
        self.leases.clear();
        self.own.clear();
        (self.replies, self.bytes) = (0, 0);
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::MemoryBudget;
    use cenote_base::rt::{Mutex, ranks};
    use std::net::Shutdown;
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Debug, Default)]
    struct Sent(Mutex<(Vec<u8>, usize), ranks::NbdTlsSend>);

    impl Transport for Sent {
        fn receive(&self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }

        fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let mut sent = self.0.lock();
            slices
                .iter()
                .for_each(|slice| sent.0.extend_from_slice(slice));
            sent.1 += 1;
            Ok(slices.iter().map(|slice| slice.len()).sum())
        }

        fn set_receive_timeout(&self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }

        fn set_send_timeout(&self, _: Option<Duration>) -> io::Result<()> {
            Ok(())
        }

        fn shutdown(&self, _: Shutdown) {}
    }

    fn read(own: u8) -> ReadData {
        let mut data = ReadData::default();
        data.begin(12);
        let filled = data.push_filled(4, |buffer| {
            buffer.fill(own);
            Ok::<(), ()>(())
        });
        filled.expect("it does not fail");
        data.push_zeros(4);
        data.push_shared(Arc::new(vec![own + 1; 8]), 2..6);
        data
    }

    /// What is sent together is what would have been sent one by one.
    #[test]
    fn replies_are_sent_in_order_and_give_their_memory_back() {
        let budget = MemoryBudget::new(100);
        let lease = || Some((budget.lease(10).ok()?, budget.lease(10).ok()?));
        let chunks = || Reply::Chunks(b"aabbcc".to_vec(), vec![2, 4, 6]);
        let (mut outbox, sent) = (Outbox::default(), Sent::default());
        outbox.push(&Reply::Whole(b"one".to_vec()), &mut read(1), lease());
        outbox.push(&Reply::WithData(b"two".to_vec()), &mut read(3), lease());
        outbox.push(&chunks(), &mut read(5), None);
        assert_eq!(budget.leased(), 40);
        let sending = outbox.send(&sent, Some((&chunks(), &read(7))));
        sending.expect("it does not fail");
        assert_eq!((outbox.replies, outbox.bytes), (0, 0));
        assert_eq!(budget.leased(), 0);
        let (bytes, calls) = sent.0.lock().clone();
        let second = [&b"two"[..], &[3; 4], &[0; 4], &[4; 4]].concat();
        let third = [&b"aa"[..], &[5; 4], b"bbcc", &[6; 4]].concat();
        let last = [&b"aa"[..], &[7; 4], b"bbcc", &[8; 4]].concat();
        assert_eq!(bytes, [&b"one"[..], &second, &third, &last].concat());
        assert_eq!(calls, 1);
        outbox.send(&sent, None).expect("nothing is to be sent");
        assert_eq!(sent.0.lock().1, 1);
    }
}
