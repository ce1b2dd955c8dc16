//! The read cache on disk: a file of fixed size, in segments that are filled one after the other.
//!
//! ```text
//! | segment 0                       | segment 1 ...
//! | header, a table | bytes ...     |
//!
//! header: magic 8 | uuid 16 | sequence u64 | class u8 | count u32, then for each entry:
//!   kind u8 | two u64 that name the object | offset u32 | length u32 | at u32 | check u64
//!   and behind them 32 bytes of BLAKE3 of all before
//! ```
//!
//! A segment holds one class. When one is needed and none is free, the oldest of contents goes;
//! metadata pushes out metadata only where there are no contents, and contents never push it out.
//!
//! *Harmless*: an entry is compared with its check whenever it is read, so it does not matter which
//! of the writes came through before a crash, or what happened to the file: whatever does not fit
//! is as if it were not there. Nothing is flushed. The tables are read when the device is opened:
//! a thousandth of the file.

use super::name::Name;
use crate::format::{Class, CommitNumber, Decoder, Encoder, Hash, ObjectNumber, Uuid, WriterId};
use cenote_base::rt::{Mutex, ranks};
use cenote_device::Device;
use std::collections::BTreeMap;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"cenoteRC";
/// Bytes of an entry at most, and in small segments a quarter of what they hold.
const PIECE: u64 = 128 << 10;
/// Segments that a cache has at best: what goes at once is a small part of it.
const SEGMENTS: u64 = 64;
const SEGMENT_MIN: u64 = 64 << 10;
const SEGMENT_MAX: u64 = 16 << 20;
/// Segments without which there is no cache: one for each class, and one to go.
const SEGMENTS_MIN: u64 = 3;
const HEADER_MIN: u64 = 4096;
/// Bytes of a header beside its entries, and of an entry.
const FIXED: u64 = 8 + 16 + 8 + 1 + 4 + 32;
const ENTRY: u64 = 1 + 8 + 8 + 4 + 4 + 4 + 8;

/// A piece of an object in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    name: Name,
    offset: u32,
    length: u32,
    /// Where in the segment.
    at: u32,
    check: u64,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    class: Option<Class>,
    /// When it was begun, in the order of all.
    sequence: u64,
    entries: Vec<Entry>,
    used: u64,
    /// Bytes of it when its header was written last.
    saved: u64,
}

#[derive(Debug, Default)]
struct Index {
    /// Segment and entry by object and first byte.
    entries: BTreeMap<(Name, u32), (usize, Entry)>,
    segments: Vec<Segment>,
    /// The segments that are filled, of metadata and contents.
    open: [Option<usize>; 2],
    sequence: u64,
}

/// A cache on a device.
#[derive(Debug)]
pub(super) struct Disk {
    device: Arc<dyn Device>,
    uuid: Uuid,
    segment: u64,
    header: u64,
    piece: u64,
    index: Mutex<Index, ranks::CloudCacheDisk>,
}

/// Entries with their first bytes, as they were read.
pub(super) type Pieces = Vec<(u64, Vec<u8>)>;

fn slot(class: Class) -> usize {
    match class {
        Class::Metadata => 0,
        Class::Contents => 1,
    }
}

impl Disk {
    /// What is on `device` for the device `uuid`; `None` if it is too small.
    pub(super) fn open(device: Arc<dyn Device>, uuid: Uuid) -> Option<Self> {
        let segment = (device.size() / SEGMENTS).clamp(SEGMENT_MIN, SEGMENT_MAX) / 4096 * 4096;
        let count = device.size() / segment;
        if count < SEGMENTS_MIN {
            return None;
        }
        let header = (segment / 1024).max(HEADER_MIN);
        let disk = Self {
            device,
            uuid,
            segment,
            header,
            piece: PIECE.min((segment - header) / 4),
            index: Mutex::default(),
        };
        let mut index = Index::default();
        for number in 0..count {
            let segment = disk.load(number).unwrap_or_default();
            index.sequence = index.sequence.max(segment.sequence);
            for entry in &segment.entries {
                let place = (index.segments.len(), *entry);
                index.entries.insert((entry.name, entry.offset), place);
            }
            index.segments.push(segment);
        }
        *disk.index.lock() = index;
        Some(disk)
    }

    fn load(&self, number: u64) -> Option<Segment> {
        let length = usize::try_from(self.header).ok()?;
        let bytes = self.device.read_vec(number * self.segment, length).ok()?;
        let mut segment = decode(self.uuid, &bytes)?;
        let fits = |entry: &Entry| {
            u64::from(entry.at) >= self.header
                && u64::from(entry.at) + u64::from(entry.length) <= self.segment
                && u64::from(entry.length) <= self.piece
        };
        if !segment.entries.iter().all(fits) {
            return None;
        }
        // It is not filled further.
        segment.used = self.segment;
        segment.saved = self.segment;
        Some(segment)
    }

    /// Fills `buffer` from an object's bytes from `offset` on, if all of them are here, and gives
    /// the entries that it took.
    pub(super) fn get(&self, name: Name, offset: u64, buffer: &mut [u8]) -> Option<Pieces> {
        let end = offset + buffer.len() as u64;
        let mut found = Vec::new();
        let mut at = offset;
        {
            let index = self.index.lock();
            while at < end {
                let key = (name, u32::try_from(at).ok()?);
                let (_, (segment, entry)) = index.entries.range((name, 0)..=key).next_back()?;
                let behind = u64::from(entry.offset) + u64::from(entry.length);
                if behind <= at {
                    return None;
                }
                found.push((*segment, *entry));
                at = behind;
            }
        }
        let mut pieces = Vec::new();
        for (segment, entry) in found {
            let position = segment as u64 * self.segment + u64::from(entry.at);
            let bytes = self.device.read_vec(position, entry.length as usize);
            let bytes = bytes
                .ok()
                .filter(|bytes| Hash::of(bytes).short() == entry.check);
            let Some(bytes) = bytes else {
                self.forget(segment, &entry);
                return None;
            };
            let start = u64::from(entry.offset);
            let from = start.max(offset);
            let to = end.min(start + u64::from(entry.length));
            let target = &mut buffer[(from - offset) as usize..(to - offset) as usize];
            target.copy_from_slice(&bytes[(from - start) as usize..(to - start) as usize]);
            pieces.push((start, bytes));
        }
        Some(pieces)
    }

    fn forget(&self, segment: usize, entry: &Entry) {
        let mut index = self.index.lock();
        let key = (entry.name, entry.offset);
        if index.entries.get(&key) == Some(&(segment, *entry)) {
            index.entries.remove(&key);
        }
    }

    /// Keeps a range of an object.
    pub(super) fn insert(&self, name: Name, class: Class, offset: u64, bytes: &[u8]) {
        let mut at = offset;
        for piece in bytes.chunks(self.piece as usize) {
            // What does not fit 32 bits is no object of ours.
            let Ok(start) = u32::try_from(at) else { return };
            self.insert_piece(name, class, start, piece);
            at += piece.len() as u64;
        }
    }

    fn insert_piece(&self, name: Name, class: Class, offset: u32, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).expect("a piece is bounded");
        let Some((segment, at)) = self.reserve(name, class, offset, length) else {
            return;
        };
        let entry = Entry {
            name,
            offset,
            length,
            at,
            check: Hash::of(bytes).short(),
        };
        let position = segment as u64 * self.segment + u64::from(at);
        // A device that fails is a cache that has nothing.
        if self.device.write_at(position, bytes).is_err() {
            return;
        }
        let mut index = self.index.lock();
        index.entries.insert((name, offset), (segment, entry));
        let own = &mut index.segments[segment];
        own.entries.push(entry);
        if own.used - own.saved.min(own.used) >= self.segment / 16 {
            self.write_header(&mut index, segment);
        }
    }

    /// A place for a piece that is not here yet.
    fn reserve(&self, name: Name, class: Class, offset: u32, length: u32) -> Option<(usize, u32)> {
        let mut index = self.index.lock();
        if let Some((_, entry)) = index.entries.get(&(name, offset))
            && entry.length >= length
        {
            return None;
        }
        let entries_max = (self.header - FIXED) / ENTRY;
        let has_room = |segment: &Segment| {
            let is_full = segment.entries.len() as u64 >= entries_max;
            segment.used + u64::from(length) <= self.segment && !is_full
        };
        let open = index.open[slot(class)];
        let number = match open.filter(|number| has_room(&index.segments[*number])) {
            Some(number) => number,
            None => {
                if let Some(full) = open {
                    self.write_header(&mut index, full);
                }
                index.open[slot(class)] = None;
                let number = index.recycle(class)?;
                index.segments[number].used = self.header;
                number
            }
        };
        let segment = &mut index.segments[number];
        let at = u32::try_from(segment.used).ok()?;
        segment.used += u64::from(length);
        Some((number, at))
    }

    fn write_header(&self, index: &mut Index, number: usize) {
        let segment = &mut index.segments[number];
        segment.saved = segment.used;
        let bytes = encode(self.uuid, segment);
        // Without its header a segment is lost at the next opening, which is no harm.
        let _ = self.device.write_at(number as u64 * self.segment, &bytes);
    }

    /// Writes the tables of segments that are being filled.
    pub(super) fn save(&self) {
        let mut index = self.index.lock();
        for number in index.open.into_iter().flatten() {
            self.write_header(&mut index, number);
        }
    }
}

impl Index {
    /// Makes a segment ready for a class; `None` if nothing may go for it.
    fn recycle(&mut self, class: Class) -> Option<usize> {
        let open = self.open;
        let oldest = |wanted: Option<Class>| {
            let own = self.segments.iter().enumerate();
            let own = own.filter(|(number, segment)| {
                segment.class == wanted && !open.contains(&Some(*number))
            });
            let oldest = own.min_by_key(|(_, segment)| segment.sequence);
            oldest.map(|(number, _)| number)
        };
        let mut number = oldest(None).or_else(|| oldest(Some(Class::Contents)));
        if class == Class::Metadata {
            number = number.or_else(|| oldest(Some(Class::Metadata)));
        }
        let number = number?;
        for entry in std::mem::take(&mut self.segments[number].entries) {
            let key = (entry.name, entry.offset);
            if self.entries.get(&key) == Some(&(number, entry)) {
                self.entries.remove(&key);
            }
        }
        self.sequence += 1;
        self.segments[number] = Segment {
            class: Some(class),
            sequence: self.sequence,
            ..Segment::default()
        };
        self.open[slot(class)] = Some(number);
        Some(number)
    }
}

fn encode(uuid: Uuid, segment: &Segment) -> Vec<u8> {
    let mut encoder = Encoder::new();
    encoder.raw(&MAGIC);
    encoder.raw(&uuid.0);
    encoder.u64(segment.sequence);
    encoder.u8(segment.class.map_or(0, |class| slot(class) as u8 + 1));
    encoder.raw(&(segment.entries.len() as u32).to_le_bytes());
    for entry in &segment.entries {
        let (kind, first, second) = match entry.name {
            Name::Data(writer, number) => (1, writer.0, number.0),
            Name::Pages(checkpoint, part) => (2, checkpoint.0, u64::from(part)),
        };
        encoder.u8(kind);
        encoder.u64(first);
        encoder.u64(second);
        for number in [entry.offset, entry.length, entry.at] {
            encoder.raw(&number.to_le_bytes());
        }
        encoder.u64(entry.check);
    }
    let mut bytes = encoder.finish();
    let hash = Hash::of(&bytes);
    bytes.extend_from_slice(&hash.0);
    bytes
}

/// The segment whose header is at the front of `bytes`, if it is one.
fn decode(uuid: Uuid, bytes: &[u8]) -> Option<Segment> {
    let mut decoder = Decoder::new(bytes);
    if decoder.array::<8>().ok()? != MAGIC || decoder.array::<16>().ok()? != uuid.0 {
        return None;
    }
    let sequence = decoder.u64().ok()?;
    let class = match decoder.u8().ok()? {
        1 => Class::Metadata,
        2 => Class::Contents,
        _ => return None,
    };
    let count = u32::from_le_bytes(decoder.array().ok()?);
    let length = FIXED + ENTRY * u64::from(count);
    let whole = bytes.get(..usize::try_from(length).ok()?)?;
    let (checked, hash) = whole.split_last_chunk::<32>()?;
    if Hash::of(checked).0 != *hash {
        return None;
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let kind = decoder.u8().ok()?;
        let (first, second) = (decoder.u64().ok()?, decoder.u64().ok()?);
        let name = match kind {
            1 => Name::Data(WriterId(first), ObjectNumber(second)),
            2 => Name::Pages(CommitNumber(first), u32::try_from(second).ok()?),
            _ => return None,
        };
        let mut number = || Some(u32::from_le_bytes(decoder.array().ok()?));
        let (offset, length, at) = (number()?, number()?, number()?);
        offset.checked_add(length)?;
        entries.push(Entry {
            name,
            offset,
            length,
            at,
            check: decoder.u64().ok()?,
        });
    }
    Some(Segment {
        class: Some(class),
        sequence,
        entries,
        ..Segment::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Random, VolatileDevice};

    const UUID: Uuid = Uuid([7; 16]);

    fn name(number: u64) -> Name {
        Name::Data(WriterId(1), ObjectNumber(number))
    }

    fn contents(number: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        Random::new(number).fill(&mut bytes);
        bytes
    }

    fn has(disk: &Disk, number: u64, length: usize) -> bool {
        let mut buffer = vec![0; length];
        let found = disk.get(name(number), 0, &mut buffer).is_some();
        assert!(!found || buffer == contents(number, length), "{number}");
        found
    }

    fn put(disk: &Disk, class: Class, number: u64, length: usize) {
        disk.insert(name(number), class, 0, &contents(number, length));
    }

    #[test]
    fn metadata_stays_whatever_contents_come_by() {
        let device = Arc::new(VolatileDevice::new("cache", 1 << 20));
        let disk = Disk::open(device, UUID).expect("large enough");
        for number in 0..10 {
            put(&disk, Class::Metadata, number, 20_000);
        }
        for number in 100..200 {
            put(&disk, Class::Contents, number, 30_000);
        }
        assert!((0..10).all(|number| has(&disk, number, 20_000)));
        assert!(has(&disk, 199, 30_000) && !has(&disk, 100, 30_000));
        // So much metadata leaves no room for anything else, and the newest of it stays.
        for number in 200..300 {
            put(&disk, Class::Metadata, number, 30_000);
        }
        assert!(has(&disk, 299, 30_000) && !has(&disk, 0, 20_000));
    }

    #[test]
    fn it_is_there_again_and_damage_is_no_harm() {
        for seed in 0..30 {
            let mut random = Random::new(seed);
            let device = Arc::new(VolatileDevice::new("cache", 1 << 20));
            let disk = Disk::open(device.clone(), UUID).expect("large enough");
            for number in 0..15 {
                put(
                    &disk,
                    Class::Metadata,
                    number,
                    10_000 + 2000 * number as usize,
                );
            }
            disk.save();
            let count = |disk: &Disk| {
                let lengths = (0..15).map(|number| (number, 10_000 + 2000 * number as usize));
                lengths
                    .filter(|(number, length)| has(disk, *number, *length))
                    .count()
            };
            drop(disk);
            let disk = Disk::open(device.clone(), UUID).expect("large enough");
            assert_eq!(count(&disk), 15);
            drop(disk);
            let other = Disk::open(device.clone(), Uuid([8; 16])).expect("large enough");
            assert_eq!(count(&other), 0, "that of another device");
            for _ in 0..=random.below(40) {
                let at = random.below((1 << 20) - 100);
                device
                    .write_at(at, &contents(random.word(), 100))
                    .expect("works");
            }
            device.cut_power(&mut random);
            let disk = Disk::open(device, UUID).expect("large enough");
            // Whatever is there is right: that is asserted on the way.
            count(&disk);
            put(&disk, Class::Contents, 99, 5000);
            assert!(has(&disk, 99, 5000));
        }
    }
}
