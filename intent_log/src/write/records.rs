//! Records in memory: the list of operations on names, and a list for each object.

use super::sizes::RECORD_SIZE_MAX;
use cenote_base::{ObjectId, Txg};
use cenote_ondisk::intent_log::record::{Record, RecordBody, WriteData};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Bytes of records that are kept at most. Beyond them commits wait for groups: so much was
/// written, and not committed, that a group is due anyway.
const BYTES_MAX: u64 = 64 << 20;
/// A longer write is read in pieces of so many bytes.
const LATER_MAX: u64 = 1 << 20;
/// What an entry costs beside its bytes.
const ENTRY_SIZE: u64 = 128;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Tells it from all others of its log.
    pub serial: u64,
    pub txg: Txg,
    pub body: Body,
}

/// What is to be written of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// A record, whose number is still to be set.
    Encoded(Vec<u8>),
    /// A write, which may be split over several records.
    Write {
        object: ObjectId,
        offset: u64,
        data: Data,
    },
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// Here.
    Copied(Vec<u8>),
    /// So many bytes, to be read at commit.
    Later(u64),
}

impl Item {
    /// Bytes that it takes in the log, about.
    pub fn load(&self) -> u64 {
        match &self.body {
            Body::Write {
                data: Data::Later(length),
                ..
            } => *length + ENTRY_SIZE,
            _ => self.bytes(),
        }
    }

    /// The object whose contents are still to be read for it.
    pub fn to_be_read(&self) -> Option<ObjectId> {
        match &self.body {
            Body::Write {
                object,
                data: Data::Later(_),
                ..
            } => Some(*object),
            _ => None,
        }
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> u64 {
        let bytes = match &self.body {
            Body::Encoded(bytes)
            | Body::Write {
                data: Data::Copied(bytes),
                ..
            } => bytes.len() as u64,
            Body::Write { .. } => 0,
        };
        bytes + ENTRY_SIZE
    }
}

/// The object of an operation whose place among the others does not matter (format/2e 3).
fn object_of(record: &Record<'_>) -> Option<ObjectId> {
    match &record.body {
        RecordBody::Write { object, .. }
        | RecordBody::Truncate { object, .. }
        | RecordBody::Acl { object, .. }
        | RecordBody::SetXattr { object, .. }
        | RecordBody::CloneRange { object, .. } => Some(*object),
        RecordBody::SetAttributes(set) => Some(set.object),
        RecordBody::Create(_)
        | RecordBody::Remove { .. }
        | RecordBody::Link { .. }
        | RecordBody::Rename { .. } => None,
    }
}

/// Bytes that are little.
#[derive(Clone, Copy, Debug)]
pub(super) struct SmallLimits {
    /// Of everything.
    pub all: u64,
    /// Of the list of an object.
    pub list: u64,
}

/// Data of a write that is still to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The operation's.
    pub serial: u64,
    pub object: ObjectId,
    pub offset: u64,
    pub length: u64,
}

impl Wanted {
    fn of(item: &Item) -> Option<Self> {
        match item.body {
            Body::Write {
                object,
                offset,
                data: Data::Later(length),
            } => Some(Self {
                serial: item.serial,
                object,
                offset,
                length,
            }),
            _ => None,
        }
    }
}

/// What a list takes in the log, unless that is more than `max`.
fn load_up_to(list: &VecDeque<Item>, max: u64) -> Option<u64> {
    let mut items = list.iter();
    items.try_fold(0, |sum, item| {
        Some(sum + item.load()).filter(|sum| *sum <= max)
    })
}

/// Operations that no commit has asked for.
#[derive(Debug, Default)]
pub(super) struct Lists {
    ordered: VecDeque<Item>,
    objects: BTreeMap<ObjectId, VecDeque<Item>>,
    bytes: u64,
    /// The last group of any operation that was noted.
    last_txg: Txg,
    last_serial: u64,
    /// Objects with writes among the ordered operations that are still to be read.
    late_in_order: BTreeMap<ObjectId, Late>,
}

/// Writes of one object that are still to be read.
#[derive(Clone, Debug)]
struct Late {
    /// The last group of any of them.
    txg: Txg,
    /// A range that covers them.
    range: Range<u64>,
}

/// The bytes that an operation changes in an object.
fn changed_by(record: &Record<'_>) -> Option<(ObjectId, Range<u64>)> {
    match record.body {
        RecordBody::Write {
            object,
            offset,
            length,
            ..
        }
        | RecordBody::CloneRange {
            object,
            offset,
            length,
            ..
        } => Some((object, offset..offset.saturating_add(length))),
        RecordBody::Truncate {
            object,
            offset,
            length,
        } => Some(match length {
            0 => (object, offset..u64::MAX),
            _ => (object, offset..offset.saturating_add(length)),
        }),
        _ => None,
    }
}

/// There is no room for an operation, or no record can hold it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unlogged {
    /// The last group of an operation that no commit can put into the log any more.
    pub upto: Txg,
}

impl Lists {
    /// Notes an operation.
    pub fn append(&mut self, record: &Record<'_>) -> Result<(), Unlogged> {
        let spoiled = match changed_by(record) {
            Some((object, range)) => self.spoil_late(object, &range),
            None => Ok(()),
        };
        spoiled.and(self.append_record(record))
    }

    fn append_record(&mut self, record: &Record<'_>) -> Result<(), Unlogged> {
        let body = match record.body {
            RecordBody::Write {
                object,
                offset,
                data: WriteData::Immediate(data),
                ..
            } => Body::Write {
                object,
                offset,
                data: Data::Copied(data.to_vec()),
            },
            _ => Body::Encoded(record.encode()),
        };
        if matches!(&body, Body::Encoded(bytes) if bytes.len() > RECORD_SIZE_MAX) {
            return Err(Unlogged { upto: record.txg });
        }
        let txg = record.txg;
        self.add(object_of(record), txg, body)
    }

    /// Notes a write whose data is read at commit.
    pub fn append_write(
        &mut self,
        txg: Txg,
        object: ObjectId,
        offset: u64,
        length: u64,
    ) -> Result<(), Unlogged> {
        let spoiled = self.spoil_late(object, &(offset..offset.saturating_add(length)));
        let mut done = 0;
        while done < length {
            let piece = (length - done).min(LATER_MAX);
            let body = Body::Write {
                object,
                offset: offset.saturating_add(done),
                data: Data::Later(piece),
            };
            self.add(Some(object), txg, body)?;
            done += piece;
        }
        spoiled
    }

    /// Notes that bytes of an object change. If they belong to a write that was put in order and
    /// is still to be read, what is read for it would be neither the old contents nor the new
    /// ones: the change itself waits for a commit of its object.
    pub fn spoil_late(&mut self, object: ObjectId, changed: &Range<u64>) -> Result<(), Unlogged> {
        let late = self.late_in_order.get(&object);
        let is_hit =
            |late: &&Late| late.range.start < changed.end && changed.start < late.range.end;
        match late.filter(is_hit) {
            Some(late) => Err(Unlogged { upto: late.txg }),
            None => Ok(()),
        }
    }

    fn add(&mut self, object: Option<ObjectId>, txg: Txg, body: Body) -> Result<(), Unlogged> {
        self.last_serial += 1;
        let serial = self.last_serial;
        let item = Item { serial, txg, body };
        let bytes = item.bytes();
        self.last_txg = self.last_txg.max(item.txg);
        if self.bytes + bytes > BYTES_MAX {
            // Two groups may be open, and operations of the later one are dropped, too.
            let upto = self.last_txg;
            *self = Self {
                last_serial: serial,
                ..Self::default()
            };
            return Err(Unlogged { upto });
        }
        self.bytes += bytes;
        match object {
            Some(object) => self.objects.entry(object).or_default().push_back(item),
            None => self.ordered.push_back(item),
        }
        Ok(())
    }

    /// Takes what a commit of `object` needs, or of everything.
    pub fn take(&mut self, object: Option<ObjectId>) -> Vec<Item> {
        let mut taken: Vec<Item> = self.ordered.drain(..).collect();
        self.late_in_order.clear();
        match object {
            Some(object) => taken.extend(self.objects.remove(&object).unwrap_or_default()),
            None => taken.extend(std::mem::take(&mut self.objects).into_values().flatten()),
        }
        self.bytes -= taken.iter().map(Item::bytes).sum::<u64>();
        self.assert_counted();
        taken
    }

    /// Asserts that what the lists take is counted: nothing, if they are empty.
    fn assert_counted(&self) {
        assert!(
            !self.is_empty() || self.bytes == 0,
            "{} bytes in no list",
            self.bytes
        );
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty() && self.objects.is_empty()
    }

    /// Whether an object has a list.
    #[cfg(test)]
    pub fn has(&self, object: ObjectId) -> bool {
        self.objects.contains_key(&object)
    }

    /// What has to be read before [`Self::take_small`] takes it.
    pub fn small_reads(&self, limits: SmallLimits, next: ObjectId) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let _ = self.small(limits, next, |item| {
            wanted.extend(Wanted::of(item));
            true
        });
        wanted
    }

    /// Takes little: operations on names from the first on, and once all of these are taken, lists
    /// of objects from `next` on, around to it; `next` becomes the object behind the last one.
    /// Writes whose data is neither here nor in `read` stay, and with them what has to follow them.
    pub fn take_small(
        &mut self,
        limits: SmallLimits,
        next: &mut ObjectId,
        read: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Vec<Item> {
        let has_data = |item: &Item| item.to_be_read().is_none() || read.contains_key(&item.serial);
        let (count, small) = self.small(limits, *next, has_data);
        let mut taken: Vec<Item> = self.ordered.drain(..count).collect();
        if self.ordered.is_empty() {
            self.late_in_order.clear();
        }
        if let Some(last) = small.last() {
            *next = ObjectId(last.0 + 1);
        }
        let lists = small
            .iter()
            .filter_map(|object| self.objects.remove(object));
        taken.extend(lists.flatten());
        self.bytes -= taken.iter().map(Item::bytes).sum::<u64>();
        self.assert_counted();
        for item in &mut taken {
            if let Body::Write { data, .. } = &mut item.body
                && let Some(bytes) = read.remove(&item.serial)
            {
                *data = Data::Copied(bytes);
            }
        }
        taken
    }

    /// How many operations on names are little, and objects whose lists are.
    fn small(
        &self,
        limits: SmallLimits,
        next: ObjectId,
        mut is_ready: impl FnMut(&Item) -> bool,
    ) -> (usize, Vec<ObjectId>) {
        let (mut left, mut count, mut small) = (limits.all, 0, Vec::new());
        for item in &self.ordered {
            if item.load() > left || !is_ready(item) {
                // What is done to an object before it has its name is skipped by a replay.
                return (count, small);
            }
            left -= item.load();
            count += 1;
        }
        let from = self.objects.range(next..);
        for (object, list) in from.chain(self.objects.range(..next)) {
            if left < ENTRY_SIZE {
                break;
            }
            let load = load_up_to(list, left.min(limits.list));
            if let Some(load) = load.filter(|_| list.iter().all(&mut is_ready)) {
                left -= load;
                small.push(*object);
            }
        }
        (count, small)
    }

    /// Drops what was done to an object that is gone.
    pub fn forget(&mut self, object: ObjectId) {
        let gone = self.objects.remove(&object).unwrap_or_default();
        self.bytes -= gone.iter().map(Item::bytes).sum::<u64>();
        self.assert_counted();
    }

    /// Puts what was done to an object before all operations on names that are still to come.
    pub fn put_in_order(&mut self, object: ObjectId) {
        let items = self.objects.remove(&object).unwrap_or_default();
        for item in &items {
            let Some(wanted) = Wanted::of(item) else {
                continue;
            };
            let (txg, end) = (item.txg, wanted.offset.saturating_add(wanted.length));
            let late = self.late_in_order.entry(object).or_insert(Late {
                txg,
                range: wanted.offset..end,
            });
            late.txg = late.txg.max(txg);
            late.range = late.range.start.min(wanted.offset)..late.range.end.max(end);
        }
        self.ordered.extend(items);
    }

    /// Drops the operations of groups that are on disk. Each list is in the order of groups, but
    /// for what was put in order: that stays until all before it is on disk, and a replay passes
    /// over it.
    pub fn drop_synced(&mut self, synced: Txg) {
        let mut dropped = 0;
        let mut drop_from = |list: &mut VecDeque<Item>| {
            while let Some(item) = list.pop_front_if(|item| item.txg <= synced) {
                dropped += item.bytes();
            }
        };
        drop_from(&mut self.ordered);
        self.late_in_order.retain(|_, late| late.txg > synced);
        self.objects.retain(|_, list| {
            drop_from(list);
            !list.is_empty()
        });
        self.bytes -= dropped;
        self.assert_counted();
    }
}
