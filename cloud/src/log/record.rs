//! Records of the log, and its header.
//!
//! ```text
//! header, twice, at 0 and 4096, the one with the higher sequence is valid:
//!   magic 8 | version u32, 0 | sequence u64 | id 16 | uuid 16 | tail u64 | tail hash 32 |
//!   commit u64 | checksum 32
//!
//! record:
//!   magic 4 | kind u8, class u8, 0, 0 | position u64 | start u64 | sectors u64 | length u64 |
//!   number u64 | digest of the payload 32 | chain 32 | payload ...
//! ```
//!
//! `chain` is the hash of the chain before it and of all of the record's head before it. Its first
//! link is the hash of the log's id. A record is valid if it continues the chain: one that an
//! earlier lap around the ring left, or one behind a torn record, does not.

use crate::format::{Class, CommitNumber, Decoder, Encoder, Hash, Uuid, WriterId};

/// Bytes of a record without its payload.
pub(super) const HEAD: u64 = 112;
const RECORD_MAGIC: [u8; 4] = *b"cnLR";
const HEADER_MAGIC: [u8; 8] = *b"cenoteLG";
const VERSION: u64 = 1;
/// Bytes of a header.
pub(super) const HEADER: usize = 512;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The payload was written.
    Write {
        /// From which sector on.
        start: u64,
        /// How many.
        sectors: u64,
        /// What it is.
        class: Class,
    },
    /// A range no longer matters.
    Discard {
        /// From which sector on.
        start: u64,
        /// How many.
        sectors: u64,
    },
    /// What comes later must not be seen without what came before.
    Flush,
    /// The pool's transaction group.
    Mark {
        /// Its number.
        txg: u64,
        /// Whether all of it has been written.
        is_complete: bool,
    },
    /// A writer began. Makes what follows differ from what an earlier one may have left here.
    Session(WriterId),
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) event: Event,
    pub(super) length: u64,
    pub(super) digest: Hash,
    pub(super) chain: Hash,
}

/// The chain's link behind a record whose head without it is `head`.
fn link(before: &Hash, head: &[u8]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.0);
    hasher.update(head);
    Hash(*hasher.finalize().as_bytes())
}

impl Head {
    /// The bytes of a record's head, and the chain's next link.
    pub(super) fn encode(
        event: Event,
        position: u64,
        length: u64,
        digest: Hash,
        before: &Hash,
    ) -> (Vec<u8>, Hash) {
        let (kind, class, start, sectors, number) = match event {
            Event::Write {
                start,
                sectors,
                class,
            } => (1, class_byte(class), start, sectors, 0),
            Event::Discard { start, sectors } => (2, 0, start, sectors, 0),
            Event::Flush => (3, 0, 0, 0, 0),
            Event::Mark { txg, is_complete } => (4, u8::from(is_complete), 0, 0, txg),
            Event::Session(writer) => (5, 0, 0, 0, writer.0),
        };
        let mut encoder = Encoder::new();
        encoder.raw(&RECORD_MAGIC);
        encoder.raw(&[kind, class, 0, 0]);
        for word in [position, start, sectors, length, number] {
            encoder.u64(word);
        }
        encoder.raw(&digest.0);
        let mut bytes = encoder.finish();
        let chain = link(before, &bytes);
        bytes.extend_from_slice(&chain.0);
        assert_eq!(bytes.len() as u64, HEAD);
        (bytes, chain)
    }

    /// The record's head at `position`, if `bytes` are one that continues the chain.
    pub(super) fn decode(bytes: &[u8], position: u64, before: &Hash) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let magic: [u8; 4] = decoder.array().ok()?;
        let [kind, class, ..] = decoder.array::<4>().ok()?;
        let own = decoder.u64().ok()?;
        let start = decoder.u64().ok()?;
        let sectors = decoder.u64().ok()?;
        let length = decoder.u64().ok()?;
        let number = decoder.u64().ok()?;
        let digest = Hash(decoder.array().ok()?);
        let checked = bytes.len() - decoder.left();
        let chain = Hash(decoder.array().ok()?);
        let is_next = link(before, &bytes[..checked]) == chain;
        if magic != RECORD_MAGIC || own != position || !is_next {
            return None;
        }
        let event = match kind {
            1 => Event::Write {
                start,
                sectors,
                class: byte_class(class)?,
            },
            2 => Event::Discard { start, sectors },
            3 => Event::Flush,
            4 => Event::Mark {
                txg: number,
                is_complete: class != 0,
            },
            5 => Event::Session(WriterId(number)),
            _ => return None,
        };
        Some(Self {
            event,
            length,
            digest,
            chain,
        })
    }
}

fn class_byte(class: Class) -> u8 {
    match class {
        Class::Metadata => 1,
        Class::Contents => 2,
    }
}

fn byte_class(byte: u8) -> Option<Class> {
    match byte {
        1 => Some(Class::Metadata),
        2 => Some(Class::Contents),
        _ => None,
    }
}

/// What a log says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    pub(super) id: [u8; 16],
    pub(super) uuid: Uuid,
    pub(super) tail: u64,
    pub(super) tail_hash: Hash,
    /// The newest commit that is known to have what lies before the tail.
    pub(super) commit: CommitNumber,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(&HEADER_MAGIC);
        encoder.u64(VERSION);
        encoder.u64(self.sequence);
        encoder.raw(&self.id);
        encoder.raw(&self.uuid.0);
        encoder.u64(self.tail);
        encoder.raw(&self.tail_hash.0);
        encoder.u64(self.commit.0);
        let mut bytes = encoder.finish();
        let checksum = Hash::of(&bytes);
        bytes.extend_from_slice(&checksum.0);
        bytes.resize(HEADER, 0);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = Decoder::new(bytes);
        let magic: [u8; 8] = decoder.array().ok()?;
        let version = decoder.u64().ok()?;
        let header = Self {
            sequence: decoder.u64().ok()?,
            id: decoder.array().ok()?,
            uuid: Uuid(decoder.array().ok()?),
            tail: decoder.u64().ok()?,
            tail_hash: Hash(decoder.array().ok()?),
            commit: CommitNumber(decoder.u64().ok()?),
        };
        let checked = bytes.len() - decoder.left();
        let checksum = Hash(decoder.array().ok()?);
        let is_valid =
            magic == HEADER_MAGIC && version == VERSION && Hash::of(&bytes[..checked]) == checksum;
        is_valid.then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_where_they_belong() {
        let events = [
            Event::Write {
                start: 8,
                sectors: 16,
                class: Class::Contents,
            },
            Event::Discard {
                start: 1,
                sectors: 1 << 50,
            },
            Event::Flush,
            Event::Mark {
                txg: 7,
                is_complete: true,
            },
            Event::Session(WriterId(9)),
        ];
        let before = Hash([1; 32]);
        for event in events {
            let (bytes, chain) = Head::encode(event, 77, 8192, Hash([2; 32]), &before);
            let head = Head::decode(&bytes, 77, &before).expect("what we wrote");
            assert_eq!((head.event, head.chain), (event, chain));
            assert_eq!(Head::decode(&bytes, 78, &before), None);
            assert_eq!(Head::decode(&bytes, 77, &chain), None);
            for at in 0..bytes.len() {
                let mut spoiled = bytes.clone();
                spoiled[at] ^= 4;
                assert_eq!(Head::decode(&spoiled, 77, &before), None, "byte {at}");
            }
        }
    }

    #[test]
    fn headers_come_back() {
        let header = Header {
            sequence: 3,
            id: [1; 16],
            uuid: Uuid([2; 16]),
            tail: 1 << 40,
            tail_hash: Hash([3; 32]),
            commit: CommitNumber(5),
        };
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        bytes[30] ^= 1;
        assert_eq!(Header::decode(&bytes), None);
        assert_eq!(Header::decode(&[0; HEADER]), None);
    }
}
