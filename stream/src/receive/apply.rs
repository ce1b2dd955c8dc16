//! One record after another.
//!
//! What all kinds of records share: transactions, room, and the object that the last records were
//! about.

use super::target::Target;
use crate::error::{Place, Problem, StreamError};
use crate::reader::Item;
use cenote_base::ObjectId;
use cenote_dataset::DatasetError;
use cenote_dmu::{DmuError, Object, ObjectSet, Transaction};
use cenote_dsl::write::ResumePoint;
use cenote_ondisk::stream::{Begin, ByteOrder, Feature, Record, flags, kind_name};
use std::sync::Arc;

/// Bytes of memory that a change takes beside its data.
const CHANGE_BYTES: u64 = 2048;

/// Objects freed before it is looked which come next.
const FREE_BATCH: usize = 512;

/// Applies the records of one stream.
pub(super) struct Applier<'a> {
    pub(super) target: &'a Target<'a>,
    /// Whether flags say which objects have spill blocks.
    pub(super) has_spill_flags: bool,
    /// Whether blocks are stored as the sender stores them.
    pub(super) is_raw: bool,
    /// The record at hand.
    pub(super) place: Place,
    pub(super) record: &'static str,
    pub(super) order: ByteOrder,
    /// The object of the last records.
    current: Option<Object>,
    /// The highest object of the stream.
    highest: ObjectId,
    /// Bytes of the stream up to the end of the record at hand, without BEGIN.
    at: u64,
}

impl<'a> Applier<'a> {
    pub(super) fn new(target: &'a Target<'a>, begin: &Begin) -> Self {
        Self {
            target,
            has_spill_flags: begin.flags & flags::SPILL_BLOCKS != 0,
            is_raw: begin.features.has(Feature::Raw),
            place: Place::default(),
            record: "",
            order: ByteOrder::Little,
            current: None,
            highest: ObjectId(0),
            at: 0,
        }
    }

    pub(super) fn set(&self) -> &Arc<ObjectSet> {
        self.target.dataset.set()
    }

    /// Applies a record that ends `at` bytes behind BEGIN.
    pub(super) fn apply(&mut self, item: &Item<'_>, at: u64) -> Result<(), StreamError> {
        let record = &item.header.record;
        (self.place, self.record) = (item.header.place, kind_name(record.kind()));
        (self.order, self.at) = (item.order, at);
        match record {
            Record::Object(object) => self.object(object, item.payload),
            Record::FreeObjects(range) => {
                let end = range.first.0.saturating_add(range.count);
                self.free_objects(range.first, ObjectId(end))
            }
            Record::Write(write) => self.write(write, item.payload),
            Record::WriteEmbedded(write) => self.write_embedded(write, item.payload),
            Record::Free(free) => self.free(free.object, free.offset, free.length),
            Record::Redact(redact) => self.free(redact.object, redact.offset, redact.length),
            Record::Spill(spill) => self.spill(spill, item.payload),
            Record::ObjectRange(range) => self.range(range),
            Record::WriteByReference(_) | Record::Begin(_) | Record::End(_) => {
                Err(self.wrong(Problem::OutOfPlace))
            }
        }
    }

    /// What is to be done where the stream ends well.
    pub(super) fn finish(&mut self, place: Place) -> Result<(), StreamError> {
        (self.place, self.record) = (place, "END");
        match self.target.replaces {
            true => self.free_objects(ObjectId(self.highest.0 + 1), ObjectId(u64::MAX)),
            false => Ok(()),
        }
    }

    pub(super) fn wrong(&self, problem: Problem) -> StreamError {
        StreamError::Grammar {
            place: self.place,
            record: self.record,
            problem,
        }
    }

    pub(super) fn field(&self, field: &'static str, value: u64) -> StreamError {
        self.wrong(Problem::Field { field, value })
    }

    pub(super) fn failed(&self, source: DmuError) -> StreamError {
        StreamError::Apply {
            place: self.place,
            record: self.record,
            source: Box::new(source),
        }
    }

    /// Why the dataset took no change.
    fn not_begun(&self, error: DatasetError) -> StreamError {
        let place = self.place;
        match error {
            DatasetError::Dmu(source) => self.failed(source),
            DatasetError::Space(refusal) => StreamError::Full { place, refusal },
            DatasetError::Closed => StreamError::Closed { place },
        }
    }

    /// Makes a change that brings `bytes` of data, in a transaction of its own.
    pub(super) fn change<T>(
        &self,
        bytes: u64,
        change: impl FnOnce(&Transaction) -> Result<T, DmuError>,
    ) -> Result<T, StreamError> {
        let begun = self.target.dataset.begin(bytes, bytes + CHANGE_BYTES);
        let tx = begun.map_err(|error| self.not_begun(error))?;
        change(&tx).map_err(|source| self.failed(source))
    }

    /// The same; the stream can be resumed with what comes behind `offset` of `object`.
    pub(super) fn advance<T>(
        &self,
        bytes: u64,
        (object, offset): (ObjectId, u64),
        change: impl FnOnce(&Transaction) -> Result<T, DmuError>,
    ) -> Result<T, StreamError> {
        self.change(bytes, |tx| {
            let done = change(tx)?;
            if !self.target.is_resumable {
                return Ok(done);
            }
            let point = ResumePoint {
                object,
                offset,
                bytes: self.target.resumed.bytes.saturating_add(self.at),
            };
            if let Some(head) = self.target.dataset.head() {
                head.note_resume(tx.txg(), point);
            }
            Ok(done)
        })
    }

    /// Object `id`, which an OBJECT has to have made.
    pub(super) fn existing(&mut self, id: ObjectId) -> Result<Object, StreamError> {
        if let Some(object) = self.current.as_ref().filter(|object| object.id() == id) {
            return Ok(object.clone());
        }
        let found = self.find(id)?;
        let found = found.ok_or_else(|| self.wrong(Problem::NoObject(id.0)))?;
        self.keep(&found);
        Ok(found)
    }

    /// Remembers the object that the next records are likely to be about.
    pub(super) fn keep(&mut self, object: &Object) {
        self.highest = self.highest.max(object.id());
        self.current = Some(object.clone());
    }

    /// Object `id`, if it is there.
    pub(super) fn find(&self, id: ObjectId) -> Result<Option<Object>, StreamError> {
        match self.set().object(id) {
            Ok(object) => Ok(Some(object)),
            Err(DmuError::NoSuchObject { .. }) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Frees the objects from `first` on that are there, up to `end`.
    pub(super) fn free_objects(
        &mut self,
        first: ObjectId,
        end: ObjectId,
    ) -> Result<(), StreamError> {
        self.current = None;
        let mut from = first;
        loop {
            let found = self.set().objects(from).take(FREE_BATCH);
            let ids = found.map(|found| found.map(|(id, _)| id));
            let ids: Result<Vec<ObjectId>, DmuError> = ids.collect();
            let mut ids = ids.map_err(|source| self.failed(source))?;
            let is_last = ids.len() < FREE_BATCH;
            ids.retain(|id| *id < end);
            let Some(last) = ids.last().copied() else {
                return Ok(());
            };
            for id in ids {
                self.free_object(id)?;
            }
            if is_last {
                return Ok(());
            }
            from = ObjectId(last.0 + 1);
        }
    }

    /// Frees an object, its contents first.
    pub(super) fn free_object(&mut self, id: ObjectId) -> Result<(), StreamError> {
        self.current = None;
        let Some(object) = self.find(id)? else {
            return Ok(());
        };
        while self.change(0, |tx| object.free_some(tx))? {}
        drop(object);
        self.change(0, |tx| self.set().free(tx, id))
    }
}
