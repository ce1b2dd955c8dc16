//! The client's decoders with the bytes of a server that is none, for fuzzing.

use crate::link::{Part, receive_head, receive_part};
use crate::negotiate::agree_over;
use crate::protocol::command;
use crate::protocol::request::Request;
use crate::transport::Transport;
use cenote_base::rt::{Mutex, ranks};
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that one side says, whatever the other says.
#[derive(Debug)]
pub struct Monologue {
    /// What was not received yet.
    rest: Mutex<Vec<u8>, ranks::NbdTlsReceive>,
}

impl Monologue {
    /// A side that says `bytes`, and then closes.
    pub fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self {
            rest: Mutex::new(bytes.to_vec()),
        })
    }
}

impl Transport for Monologue {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut rest = self.rest.lock();
        let count = buffer.len().min(rest.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        rest.drain(..count);
        Ok(count)
    }

    fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(slices.iter().map(|slice| slice.len()).sum())
    }

    fn set_receive_timeout(&self, _limit: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn set_send_timeout(&self, _limit: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    fn shutdown(&self, _how: Shutdown) {
        self.rest.lock().clear();
    }
}

/// Goes through all that a server says: the handshake, and replies to a read of 64 KiB at 0.
///
/// # Panics
/// If a reply fills more than the read asked for in one part.
pub fn check_server(bytes: &[u8]) {
    let Ok(mut server) = agree_over(Monologue::new(bytes)) else {
        return;
    };
    let mut buffer = vec![0; 64 << 10];
    let request = Request {
        flags: 0,
        command: command::READ,
        cookie: 0,
        offset: 0,
        length: buffer.len() as u64,
    };
    while let Ok(Some(head)) = receive_head(&mut server.receiver, server.style) {
        let receiver = &mut server.receiver;
        match receive_part(receiver, &head, &request, server.style, &mut buffer) {
            Ok(Part::Filled(count)) => assert!(count <= buffer.len() as u64),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::handshake::{Info, encode_answer, encode_greeting};
    use crate::protocol::reply::ChunkOf;
    use crate::protocol::{answer, option};

    /// What a server says to a client that wants an export of 64 KiB.
    fn server() -> Vec<u8> {
        let fact = Info::Export {
            size: 65536,
            flags: 1,
        };
        let chunk = ChunkOf {
            is_extended: true,
            cookie: 7,
            offset: 0,
        };
        let mut bytes = encode_greeting(3);
        bytes.extend(encode_answer(option::EXTENDED_HEADERS, answer::ACK, &[]));
        bytes.extend(encode_answer(option::GO, answer::INFO, &fact.encode()));
        bytes.extend(encode_answer(option::GO, answer::ACK, &[]));
        chunk.hole(&mut bytes, false, 0, 32768);
        chunk.data(&mut bytes, true, 32768, 32768);
        bytes.extend([1; 32768]);
        bytes
    }

    #[test]
    fn a_whole_conversation_and_all_its_beginnings() {
        let whole = server();
        for length in 0..400.min(whole.len()) {
            check_server(&whole[..length]);
            for change in [0x01, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[length] ^= change;
                check_server(&changed);
            }
        }
        let mut client = agree_over(Monologue::new(&whole)).expect("they agree");
        assert_eq!(client.export.size, 65536);
        let request = Request {
            flags: 0,
            command: command::READ,
            cookie: 7,
            offset: 0,
            length: 65536,
        };
        let mut buffer = vec![9; 65536];
        for is_last in [false, true] {
            let receiver = &mut client.receiver;
            let head = receive_head(receiver, client.style).expect("a reply");
            let head = head.expect("not the end");
            assert_eq!((head.cookie, head.is_last), (7, is_last));
            let part = receive_part(receiver, &head, &request, client.style, &mut buffer);
            assert_eq!(part.expect("a part"), Part::Filled(32768));
        }
        assert!(buffer[..32768].iter().all(|byte| *byte == 0));
        assert!(buffer[32768..].iter().all(|byte| *byte == 1));
        // Bytes that lie outside of the read are no part of it.
        let short = Request {
            length: 100,
            ..request
        };
        let mut client = agree_over(Monologue::new(&whole)).expect("they agree");
        let head = receive_head(&mut client.receiver, client.style).expect("a reply");
        let head = head.expect("not the end");
        let mut buffer = vec![0; 100];
        let part = receive_part(
            &mut client.receiver,
            &head,
            &short,
            client.style,
            &mut buffer,
        );
        assert!(part.is_err());
    }
}
