//! The local log: what was written, until it is in the store.
//!
//! A ring of records on a device whose space is reserved. A position counts bytes since the log was
//! made and never goes back; a [`LogPoint`], of position and hash, identifies what lies before it
//! as exactly as the bytes themselves. Each commit carries the point up to which it has the writes.
//! So a log and a store can tell where one continues the other.
//!
//! *Trimming*: once a commit is in the store, the log's tail moves up to its point, but not past
//! bytes that are still being read. The space is used again only after the header that says so is
//! durable: opening the log must find a chain from the tail that the header names.
//!
//! *Order*: records are in the order of writes. After a crash the log has everything up to the last
//! flush, and some beginning of what came later.

mod payload;
mod record;

pub use payload::{MemoryUse, Payload, PayloadError};
pub use record::Event;

use crate::format::commit::LogPoint;
use crate::format::{CommitNumber, Hash, SECTOR, Uuid};
use cenote_device::{Device, DeviceError};
use payload::{Ring, RingPlace};
use record::{HEAD, HEADER, Head, Header};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where the second header is, and half of where the ring begins.
const HEADER_SLOT: u64 = 4096;
const RING: u64 = 2 * HEADER_SLOT;

/// Bytes that a payload may have at most.
pub const PAYLOAD_MAX: u64 = 1 << 20;

/// Bytes that a log must have: room for a few of the largest records.
pub const LOG_SIZE_MIN: u64 = RING + 4 * (PAYLOAD_MAX + HEAD);

/// A record in its order.
#[derive(Clone, Debug)]
pub struct Logged {
    /// What happened.
    pub event: Event,
    /// What was written.
    pub payload: Option<Arc<Payload>>,
    /// The point behind the record.
    pub end: LogPoint,
}

/// Why a record cannot be appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// There is no room until something is in the store.
    #[error("the log is full")]
    Full,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A log that is open for appending.
#[derive(Debug)]
pub struct Log {
    ring: Ring,
    header: Header,
    head: LogPoint,
    /// The tail of the durable header: what lies behind it is not overwritten.
    durable_tail: u64,
    /// Records that may still be read, in order.
    held: VecDeque<(LogPoint, Option<Arc<Payload>>)>,
    memory: MemoryUse,
}

/// A log as it was found.
#[derive(Debug)]
pub struct Found {
    /// The log, ready to be appended to.
    pub log: Log,
    /// The point where its records begin.
    pub tail: LogPoint,
    /// The newest commit that is known to go up to there at least.
    pub commit: CommitNumber,
    /// Its records.
    pub records: Vec<Logged>,
}

fn start(id: [u8; 16]) -> LogPoint {
    LogPoint {
        id,
        position: 0,
        hash: Hash::of(&id),
    }
}

fn ring(device: Arc<dyn Device>) -> Ring {
    let capacity = device.size().saturating_sub(RING);
    Ring {
        device,
        base: RING,
        capacity,
    }
}

impl Log {
    /// An empty log on a device of at least [`LOG_SIZE_MIN`] bytes; what was there is lost.
    ///
    /// # Errors
    /// The device fails.
    pub fn create(
        device: Arc<dyn Device>,
        uuid: Uuid,
        id: [u8; 16],
        memory: &MemoryUse,
    ) -> Result<Self, DeviceError> {
        assert!(device.size() >= LOG_SIZE_MIN, "checked with the options");
        let head = start(id);
        let header = Header {
            sequence: 1,
            id,
            uuid,
            tail: 0,
            tail_hash: head.hash,
            commit: CommitNumber(0),
        };
        let zeros = [0; HEADER];
        device.write_at(0, &zeros)?;
        device.write_at(HEADER_SLOT, &zeros)?;
        device.flush()?;
        let log = Self {
            ring: ring(device),
            header,
            head,
            durable_tail: 0,
            held: VecDeque::new(),
            memory: Arc::clone(memory),
        };
        log.write_header()?;
        log.ring.device.flush()?;
        Ok(log)
    }

    /// The log on `device` with all records that continue its chain; `None` if it is none of the
    /// device `uuid`. Everything in it is made durable.
    ///
    /// # Errors
    /// The device fails.
    pub fn open(
        device: Arc<dyn Device>,
        uuid: Uuid,
        memory: &MemoryUse,
    ) -> Result<Option<Found>, DeviceError> {
        if device.size() < LOG_SIZE_MIN {
            return Ok(None);
        }
        let mut headers = Vec::new();
        for slot in [0, HEADER_SLOT] {
            headers.extend(Header::decode(&device.read_vec(slot, HEADER)?));
        }
        // No log comes near 2^62 bytes; a header that says so is not ours.
        headers.retain(|header| header.uuid == uuid && header.tail < 1 << 62);
        let Some(header) = headers.into_iter().max_by_key(|header| header.sequence) else {
            return Ok(None);
        };
        device.flush()?;
        let tail = LogPoint {
            id: header.id,
            position: header.tail,
            hash: header.tail_hash,
        };
        let mut log = Self {
            ring: ring(device),
            header,
            head: tail,
            durable_tail: header.tail,
            held: VecDeque::new(),
            memory: Arc::clone(memory),
        };
        let mut records = Vec::new();
        while let Some(logged) = log.next_record()? {
            log.head = logged.end;
            let payload = logged.payload.clone();
            log.held.push_back((logged.end, payload));
            records.push(logged);
        }
        Ok(Some(Found {
            log,
            tail,
            commit: header.commit,
            records,
        }))
    }

    /// The record at the head, if it is one.
    fn next_record(&self) -> Result<Option<Logged>, DeviceError> {
        let position = self.head.position;
        let left = (self.header.tail + self.ring.capacity).saturating_sub(position);
        if left < HEAD {
            return Ok(None);
        }
        let mut bytes = [0; HEAD as usize];
        self.ring.read(position, &mut bytes)?;
        let Some(head) = Head::decode(&bytes, position, &self.head.hash) else {
            return Ok(None);
        };
        let is_write = matches!(head.event, Event::Write { .. });
        let wanted = match head.event {
            Event::Write { sectors, .. } => sectors.checked_mul(SECTOR),
            _ => Some(0),
        };
        let fits = head.length <= PAYLOAD_MAX.min(left - HEAD);
        if wanted != Some(head.length) || !fits {
            return Ok(None);
        }
        let place = RingPlace {
            ring: self.ring.clone(),
            position: position + HEAD,
        };
        let length = head.length as usize;
        let mut payload = None;
        if is_write {
            let found = Payload::new(length, head.digest, Some(place), None, &self.memory);
            match found.all() {
                Ok(_) => payload = Some(Arc::new(found)),
                Err(PayloadError::Changed(_)) => return Ok(None),
                Err(PayloadError::Device(error)) => return Err(error),
            }
        }
        Ok(Some(Logged {
            event: head.event,
            payload,
            end: LogPoint {
                id: self.header.id,
                position: position + HEAD + head.length,
                hash: head.chain,
            },
        }))
    }

    /// The point behind the last record.
    pub fn head(&self) -> LogPoint {
        self.head
    }

    /// The device under it, to be flushed while others append.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::clone(&self.ring.device)
    }

    /// Bytes between the tail and the head.
    pub fn used(&self) -> u64 {
        self.head.position - self.durable_tail
    }

    /// Bytes that all records together may have.
    pub fn capacity(&self) -> u64 {
        self.ring.capacity
    }

    /// Appends a record; it is durable once the device has been flushed.
    ///
    /// # Errors
    /// [`AppendError::Full`] leaves the log as it was, and so does a failing device.
    pub fn append(&mut self, event: Event, bytes: Option<&[u8]>) -> Result<Logged, AppendError> {
        let written = bytes.unwrap_or_default();
        let length = written.len() as u64;
        assert!(length <= PAYLOAD_MAX, "larger writes are several");
        let position = self.head.position;
        let end = position + HEAD + length;
        if end > self.durable_tail + self.ring.capacity {
            return Err(AppendError::Full);
        }
        let digest = Hash::of(written);
        let (head, chain) = Head::encode(event, position, length, digest, &self.head.hash);
        self.ring.write(position, &head)?;
        if length > 0 {
            self.ring.write(position + HEAD, written)?;
        }
        self.head = LogPoint {
            id: self.header.id,
            position: end,
            hash: chain,
        };
        let payload = bytes.map(|bytes| {
            let place = RingPlace {
                ring: self.ring.clone(),
                position: position + HEAD,
            };
            let copy = Some(bytes.to_vec());
            let length = bytes.len();
            Arc::new(Payload::new(
                length,
                digest,
                Some(place),
                copy,
                &self.memory,
            ))
        });
        self.held.push_back((self.head, payload.clone()));
        Ok(Logged {
            event,
            payload,
            end: self.head,
        })
    }

    /// Moves the tail up to `point`, which commit `commit` covers, except past bytes that are still
    /// being read. Returns whether it has moved. The space can be used after [`Self::trimmed`].
    ///
    /// # Errors
    /// The device fails.
    pub fn trim(&mut self, point: LogPoint, commit: CommitNumber) -> Result<bool, DeviceError> {
        let mut moved = false;
        while let Some((end, payload)) = self.held.front() {
            let is_read = payload
                .as_ref()
                .is_some_and(|payload| Arc::strong_count(payload) > 1);
            if end.position > point.position || is_read {
                break;
            }
            self.header.tail = end.position;
            self.header.tail_hash = end.hash;
            self.held.pop_front();
            moved = true;
        }
        self.header.commit = commit;
        if moved {
            self.header.sequence += 1;
            self.write_header()?;
        }
        Ok(moved)
    }

    fn write_header(&self) -> Result<(), DeviceError> {
        let slot = self.header.sequence % 2 * HEADER_SLOT;
        self.ring.device.write_at(slot, &self.header.encode())
    }

    /// Where the tail is by the header that was written last.
    pub fn tail(&self) -> u64 {
        self.header.tail
    }

    /// Says that the device was flushed after [`Self::tail`] said `tail`.
    pub fn trimmed(&mut self, tail: u64) {
        self.durable_tail = self.durable_tail.max(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Class, WriterId};
    use crate::simulation::{Random, VolatileDevice};

    const UUID: Uuid = Uuid([1; 16]);

    fn write(start: u64, bytes: &[u8]) -> Event {
        Event::Write {
            start,
            sectors: bytes.len() as u64 / SECTOR,
            class: Class::Metadata,
        }
    }

    fn open(device: &Arc<VolatileDevice>) -> Found {
        let found = Log::open(device.clone(), UUID, &MemoryUse::default());
        found.expect("the device works").expect("there is a log")
    }

    #[test]
    fn flushed_records_survive_and_others_come_in_order() {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let device = Arc::new(VolatileDevice::new("log", LOG_SIZE_MIN));
            let memory = MemoryUse::default();
            let mut log = Log::create(device.clone(), UUID, [2; 16], &memory).expect("works");
            let mut written: Vec<(Event, LogPoint)> = Vec::new();
            let (mut flushed, mut trimmed) = (0, 0);
            for step in 0..200 {
                let bytes = vec![step as u8; 512 * (1 + random.below(100) as usize)];
                match log.append(write(step, &bytes), Some(&bytes)) {
                    Ok(logged) => written.push((logged.event, logged.end)),
                    Err(AppendError::Full) => {
                        device.flush().expect("works");
                        flushed = written.len();
                        let upto = trimmed + random.below((flushed - trimmed) as u64) as usize;
                        let point = written[upto].1;
                        assert!(log.trim(point, CommitNumber(step)).expect("works"));
                        let tail = log.tail();
                        device.flush().expect("works");
                        log.trimmed(tail);
                        trimmed = upto + 1;
                    }
                    Err(error) => panic!("{error}"),
                }
                if random.permille(50) {
                    device.flush().expect("works");
                    flushed = written.len();
                }
            }
            device.cut_power(&mut random);
            let found = open(&device);
            let kept: Vec<(Event, LogPoint)> = found
                .records
                .iter()
                .map(|logged| (logged.event, logged.end))
                .collect();
            assert!(trimmed + kept.len() >= flushed, "seed {seed}");
            assert_eq!(kept, written[trimmed..trimmed + kept.len()], "seed {seed}");
        }
    }

    #[test]
    fn what_is_read_is_not_overwritten() {
        let device = Arc::new(VolatileDevice::new("log", LOG_SIZE_MIN));
        let memory = MemoryUse::default();
        let mut log = Log::create(device, UUID, [2; 16], &memory).expect("works");
        let bytes = vec![7; PAYLOAD_MAX as usize];
        let first = log.append(write(0, &bytes), Some(&bytes)).expect("room");
        let payload = first.payload.expect("a write has one");
        payload.drop_copy();
        assert!(!log.trim(first.end, CommitNumber(1)).expect("works"));
        assert_eq!(*payload.all().expect("still there"), bytes);
        drop(payload);
        assert!(log.trim(first.end, CommitNumber(1)).expect("works"));
        assert!(log.used() > 0, "until the header is durable");
        log.trimmed(log.tail());
        assert_eq!(log.used(), 0);
        assert_eq!(memory.load(std::sync::atomic::Ordering::Relaxed), 0);
    }

    /// Regression: a record behind a torn one became valid again when the torn one was rewritten
    /// with the same bytes. So writes that a power cut had taken came back, in front of newer ones.
    #[test]
    fn a_session_keeps_leftovers_from_coming_back() {
        let device = Arc::new(VolatileDevice::new("log", LOG_SIZE_MIN));
        let memory = MemoryUse::default();
        let mut log = Log::create(device.clone(), UUID, [2; 16], &memory).expect("works");
        log.append(Event::Session(WriterId(1)), None).expect("room");
        let torn = log
            .append(write(0, &[1; 512]), Some(&[1; 512]))
            .expect("room");
        log.append(write(1, &[2; 512]), Some(&[2; 512]))
            .expect("room");
        let spoiled = RING + torn.end.position - 1;
        device.write_at(spoiled, &[9]).expect("in range");
        let mut log = open(&device).log;
        log.append(Event::Session(WriterId(2)), None).expect("room");
        log.append(write(0, &[1; 512]), Some(&[1; 512]))
            .expect("room");
        let events = open(&device).records.len();
        assert_eq!(events, 3, "two sessions and the write");
    }
}
