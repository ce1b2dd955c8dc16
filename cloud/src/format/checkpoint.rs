//! A checkpoint: the map as of a commit, so that opening need not read all commits.
//!
//! The map is a tree of two levels, pages ([`super::page`]) below a directory of them, and on top
//! of it the *tail*: what commits have changed since the pages were written. A *full* checkpoint
//! merges the tail into pages and writes the directory; a *light* one only writes the tail, and
//! names the full one that it builds on.
//!
//! ```text
//! hash      of the commit, 32 bytes
//! tip       as in the commit
//! base      u8: 0 full, 1 light; light: the full one's number and the hash of its root
//! parts     count, then checkpoint, part, length of each object with pages     (full only)
//! pages     count, then for each: first sector and end, as the way from the last end;
//!           index of its part, offset and length in it                         (full only)
//! sessions  count, then writer u64 and first commit                (light: new ones)
//! objects   count, then number, session's index, length, class,
//!           live sectors, dead since               (light: new ones, and those of the
//!           full one that were removed since, with length 0)
//! oldest    the first commit that was not removed
//! waste     count, then kind u8 (0 a root, 1 pages), checkpoint, part (pages only), since
//! extents   the tail
//! inline    bytes that the tail's inline extents point to
//! ```
//!
//! *Waste* is what no newer checkpoint needs. It is kept for a while for readers that use an older
//! commit, and is listed here so that a later writer removes it. Times are those of the store's
//! clock; 0 means that the time is not known yet.
//!
//! Why the directory is no tree itself: it has 16 bytes for a page of 64 KiB. The map of 10 TB in
//! extents of 16 KiB has 170,000 pages, so its directory is 3 MB, and is written after an eighth of
//! the map has changed.

use super::commit::{Tip, check_targets};
use super::{
    Class, CommitNumber, Decoder, Encoder, Extent, FormatError, Hash, Kind, ObjectNumber, Uuid,
    WriterId, extents, open, seal,
};

/// An object with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The checkpoint that it was new in.
    pub checkpoint: CommitNumber,
    /// Which of that checkpoint's.
    pub part: u32,
    /// Its length in bytes.
    pub length: u64,
}

/// Where a page of the map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    /// The first sector of the device that it covers.
    pub first: u64,
    /// The sector behind its last extent.
    pub end: u64,
    /// The object that it is in.
    pub part: Part,
    /// Where in that object, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// A data object as the map knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectEntry {
    /// Which one.
    pub number: ObjectNumber,
    /// The writer.
    pub writer: WriterId,
    /// Bytes of all of it.
    pub length: u64,
    /// What it holds.
    pub class: Class,
    /// Sectors of it that pages point to; the tail's are not counted.
    pub live: u64,
    /// When nothing pointed to it any more, in seconds since 1970; 0 while something does.
    pub dead_since: u64,
}

impl ObjectEntry {
    /// How a light checkpoint says that an object was removed.
    pub fn removed(number: ObjectNumber) -> Self {
        Self {
            number,
            writer: WriterId(0),
            length: 0,
            class: Class::Metadata,
            live: 0,
            dead_since: 0,
        }
    }
}

/// A writer's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The writer.
    pub writer: WriterId,
    /// Its first commit.
    pub first: CommitNumber,
}

/// An object of the map that is not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waste {
    /// The checkpoint that it was new in.
    pub checkpoint: CommitNumber,
    /// Which object with pages; the root if there is none.
    pub part: Option<u32>,
    /// Since when, in seconds since 1970 by the store's clock; 0 if that is not known.
    pub since: u64,
}

/// What the tail lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// These pages, in order.
    Pages(Vec<PageRef>),
    /// Those of an earlier checkpoint.
    Earlier {
        /// Which.
        number: CommitNumber,
        /// The hash of its root.
        root: Hash,
    },
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The hash of the commit that it is of.
    pub hash: Hash,
    /// The state as of that commit.
    pub tip: Tip,
    /// What the tail lies on.
    pub base: Base,
    /// Writers, in the order of their sessions.
    pub sessions: Vec<Session>,
    /// Data objects, in the order of their numbers.
    pub objects: Vec<ObjectEntry>,
    /// The first commit that may still be there, apart from the first ones of sessions.
    pub oldest: CommitNumber,
    /// What can be removed after a while, in the order in which it came to that.
    pub waste: Vec<Waste>,
    /// What has changed since the pages.
    pub extents: Vec<Extent>,
    /// Bytes that the tail's inline extents point to.
    pub inline: Vec<u8>,
}

/// Bytes that an object with pages may have.
pub const PART_MAX: u64 = 64 << 20;

impl Checkpoint {
    /// The object with the root.
    pub fn encode(&self, uuid: Uuid) -> Vec<u8> {
        let mut encoder = Encoder::new();
        encoder.raw(&self.hash.0);
        self.tip.encode(&mut encoder);
        match &self.base {
            Base::Pages(pages) => {
                encoder.u8(0);
                encode_pages(pages, &mut encoder);
            }
            Base::Earlier { number, root } => {
                encoder.u8(1);
                encoder.varint(number.0);
                encoder.raw(&root.0);
            }
        }
        encoder.varint(self.sessions.len() as u64);
        for session in &self.sessions {
            encoder.u64(session.writer.0);
            encoder.varint(session.first.0);
        }
        self.encode_objects(&mut encoder);
        encoder.varint(self.oldest.0);
        encode_waste(&self.waste, &mut encoder);
        extents::encode(&self.extents, &mut encoder);
        encoder.bytes(&self.inline);
        let number = self.tip.number.0;
        seal(Kind::Checkpoint, uuid, number, &encoder.finish())
    }

    fn encode_objects(&self, encoder: &mut Encoder) {
        encoder.varint(self.objects.len() as u64);
        let mut last = 0;
        for object in &self.objects {
            encoder.varint(object.number.0 - last);
            encoder.u64(object.writer.0);
            encoder.varint(object.length);
            encoder.u8(object.class.to_byte());
            encoder.varint(object.live);
            encoder.varint(object.dead_since);
            last = object.number.0;
        }
    }

    /// What the object says.
    ///
    /// # Errors
    /// Whatever this version cannot have written as checkpoint `number` of the device `uuid`.
    pub fn decode(uuid: Uuid, number: CommitNumber, bytes: &[u8]) -> Result<Self, FormatError> {
        let body = open(Kind::Checkpoint, uuid, number.0, bytes)?;
        let mut decoder = Decoder::new(&body);
        let hash = Hash(decoder.array()?);
        let tip = Tip::decode(number, &mut decoder)?;
        let base = match decoder.u8()? {
            0 => Base::Pages(decode_pages(number, &mut decoder)?),
            1 => Base::Earlier {
                number: CommitNumber(decoder.varint()?),
                root: Hash(decoder.array()?),
            },
            _ => return Err(FormatError::Invalid("base")),
        };
        if matches!(base, Base::Earlier { number: base, .. } if base >= number) {
            return Err(FormatError::Invalid("base"));
        }
        let count = decoder.count()?;
        let mut sessions = Vec::new();
        for _ in 0..count {
            sessions.push(Session {
                writer: WriterId(decoder.u64()?),
                first: CommitNumber(decoder.varint()?),
            });
        }
        let objects = decode_objects(tip.next_object, &mut decoder)?;
        let oldest = CommitNumber(decoder.varint()?);
        let waste = decode_waste(number, &mut decoder)?;
        if oldest > number {
            return Err(FormatError::Invalid("oldest commit"));
        }
        let extents = extents::decode(&mut decoder)?;
        let inline = decoder.bytes()?.to_vec();
        decoder.finish()?;
        check_targets(&extents, inline.len(), tip.next_object)?;
        Ok(Self {
            hash,
            tip,
            base,
            sessions,
            objects,
            oldest,
            waste,
            extents,
            inline,
        })
    }
}

fn encode_pages(pages: &[PageRef], encoder: &mut Encoder) {
    let mut parts: Vec<Part> = pages.iter().map(|page| page.part).collect();
    parts.sort_unstable();
    parts.dedup();
    encoder.varint(parts.len() as u64);
    for part in &parts {
        encoder.varint(part.checkpoint.0);
        encoder.varint(u64::from(part.part));
        encoder.varint(part.length);
    }
    encoder.varint(pages.len() as u64);
    let mut end = 0;
    for page in pages {
        encoder.varint(page.first - end);
        encoder.varint(page.end - page.first);
        end = page.end;
        let index = parts.binary_search(&page.part).expect("all are there");
        encoder.varint(index as u64);
        encoder.varint(page.offset);
        encoder.varint(page.length);
    }
}

fn decode_pages(
    number: CommitNumber,
    decoder: &mut Decoder<'_>,
) -> Result<Vec<PageRef>, FormatError> {
    let count = decoder.count()?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let part = Part {
            checkpoint: CommitNumber(decoder.varint()?),
            part: decoder.varint_u32()?,
            length: decoder.varint()?,
        };
        if part.checkpoint > number || part.length > PART_MAX {
            return Err(FormatError::Invalid("part"));
        }
        parts.push(part);
    }
    let count = decoder.count()?;
    let mut pages = Vec::new();
    let mut end = 0_u64;
    for _ in 0..count {
        let first = end.checked_add(decoder.varint()?);
        let covered = decoder.varint()?;
        let next = first.and_then(|first| first.checked_add(covered));
        let part = usize::try_from(decoder.varint()?).ok();
        let part = part.and_then(|index| parts.get(index));
        let (Some(first), Some(next), Some(part)) = (first, next, part) else {
            return Err(FormatError::Invalid("page"));
        };
        let page = PageRef {
            first,
            end: next,
            part: *part,
            offset: decoder.varint()?,
            length: decoder.varint()?,
        };
        let behind = page.offset.checked_add(page.length);
        if covered == 0 || behind.is_none_or(|behind| behind > part.length) {
            return Err(FormatError::Invalid("page"));
        }
        end = next;
        pages.push(page);
    }
    Ok(pages)
}

fn decode_objects(
    next: ObjectNumber,
    decoder: &mut Decoder<'_>,
) -> Result<Vec<ObjectEntry>, FormatError> {
    let count = decoder.count()?;
    let mut objects: Vec<ObjectEntry> = Vec::new();
    for _ in 0..count {
        let last = objects.last().map_or(0, |object| object.number.0);
        let number = last.checked_add(decoder.varint()?);
        let number = number.filter(|number| *number < next.0);
        let number = ObjectNumber(number.ok_or(FormatError::Invalid("object"))?);
        let writer = WriterId(decoder.u64()?);
        let length = decoder.varint()?;
        let class = Class::from_byte(decoder.u8()?)?;
        let entry = ObjectEntry {
            number,
            writer,
            length,
            class: class.ok_or(FormatError::Invalid("class"))?,
            live: decoder.varint()?,
            dead_since: decoder.varint()?,
        };
        if objects.last().is_some_and(|last| last.number >= number) {
            return Err(FormatError::Invalid("object"));
        }
        objects.push(entry);
    }
    Ok(objects)
}

fn encode_waste(waste: &[Waste], encoder: &mut Encoder) {
    encoder.varint(waste.len() as u64);
    for waste in waste {
        encoder.u8(u8::from(waste.part.is_some()));
        encoder.varint(waste.checkpoint.0);
        if let Some(part) = waste.part {
            encoder.varint(u64::from(part));
        }
        encoder.varint(waste.since);
    }
}

fn decode_waste(
    number: CommitNumber,
    decoder: &mut Decoder<'_>,
) -> Result<Vec<Waste>, FormatError> {
    let count = decoder.count()?;
    let mut waste = Vec::new();
    for _ in 0..count {
        let has_part = match decoder.u8()? {
            0 => false,
            1 => true,
            _ => return Err(FormatError::Invalid("waste")),
        };
        let checkpoint = CommitNumber(decoder.varint()?);
        let part = match has_part {
            true => Some(decoder.varint_u32()?),
            false => None,
        };
        if checkpoint >= number {
            return Err(FormatError::Invalid("waste"));
        }
        waste.push(Waste {
            checkpoint,
            part,
            since: decoder.varint()?,
        });
    }
    Ok(waste)
}

#[cfg(test)]
mod tests {
    use super::super::commit::sample_tip;
    use super::*;

    const UUID: Uuid = Uuid([9; 16]);

    fn sample() -> Checkpoint {
        let part = |checkpoint, part| Part {
            checkpoint: CommitNumber(checkpoint),
            part,
            length: 200_000,
        };
        let page = |first, end, part| PageRef {
            first,
            end,
            part,
            offset: 100,
            length: 60_000,
        };
        let object = |number| ObjectEntry {
            number: ObjectNumber(number),
            writer: WriterId(4),
            length: 16 << 20,
            class: Class::Contents,
            live: 333,
            dead_since: 0,
        };
        Checkpoint {
            hash: Hash([2; 32]),
            tip: sample_tip(),
            base: Base::Pages(vec![
                page(0, 80, part(300, 0)),
                page(80, 90, part(7, 3)),
                page(1 << 40, 1 << 41, part(300, 0)),
            ]),
            sessions: vec![Session {
                writer: WriterId(4),
                first: CommitNumber(1),
            }],
            objects: vec![object(0), object(5), object(9)],
            oldest: CommitNumber(17),
            waste: [None, Some(3)]
                .map(|part| Waste {
                    checkpoint: CommitNumber(12),
                    part,
                    since: 1_700_000_000,
                })
                .into(),
            extents: extents::samples(),
            inline: vec![0; 6 * 512],
        }
    }

    #[test]
    fn checkpoints_come_back() {
        let mut checkpoint = sample();
        let number = checkpoint.tip.number;
        let bytes = checkpoint.encode(UUID);
        let decoded = Checkpoint::decode(UUID, number, &bytes);
        assert_eq!(decoded.as_ref(), Ok(&checkpoint));
        checkpoint.base = Base::Earlier {
            number: CommitNumber(299),
            root: Hash([5; 32]),
        };
        let bytes = checkpoint.encode(UUID);
        let decoded = Checkpoint::decode(UUID, number, &bytes);
        assert_eq!(decoded, Ok(checkpoint));
    }

    #[test]
    fn impossible_ones_are_refused() {
        let refused = |change: fn(&mut Checkpoint)| {
            let mut checkpoint = sample();
            change(&mut checkpoint);
            let bytes = checkpoint.encode(UUID);
            Checkpoint::decode(UUID, checkpoint.tip.number, &bytes).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|checkpoint| checkpoint.objects[2].number.0 = 10));
        assert!(refused(|checkpoint| checkpoint.inline.clear()));
        assert!(refused(|checkpoint| checkpoint.oldest.0 = 301));
        assert!(refused(|checkpoint| checkpoint.waste[0].checkpoint.0 = 300));
        assert!(refused(|checkpoint| {
            checkpoint.base = Base::Earlier {
                number: checkpoint.tip.number,
                root: Hash::default(),
            };
        }));
        assert!(refused(|checkpoint| {
            if let Base::Pages(pages) = &mut checkpoint.base {
                pages[1].length = 199_901;
            }
        }));
    }
}
