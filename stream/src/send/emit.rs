//! Records on their way out: ranges that touch become one.
//!
//! FREE, FREEOBJECTS and REDACT wait for the next record: if that begins where they end, they
//! grow. Any other record lets them go first.

use crate::error::StreamError;
use crate::writer::Writer;
use cenote_ondisk::stream::{Free, FreeObjects, Record, Redact, TO_THE_END};
use std::io::Write;

/// Writes records, with at most one range held back.
pub(super) struct Emitter<'a, W> {
    writer: &'a mut Writer<W>,
    held: Option<Record>,
}

impl<'a, W: Write> Emitter<'a, W> {
    pub(super) fn new(writer: &'a mut Writer<W>) -> Self {
        Self { writer, held: None }
    }

    /// Writes a record with its payload.
    pub(super) fn record(&mut self, record: &Record, payload: &[u8]) -> Result<(), StreamError> {
        self.release()?;
        self.writer.record(record, payload)
    }

    /// Writes what is held back.
    pub(super) fn release(&mut self) -> Result<(), StreamError> {
        match self.held.take() {
            Some(record) => self.writer.record(&record, &[]),
            None => Ok(()),
        }
    }

    fn hold(&mut self, record: Record) -> Result<(), StreamError> {
        self.release()?;
        self.held = Some(record);
        Ok(())
    }

    pub(super) fn free(&mut self, free: Free) -> Result<(), StreamError> {
        if let Some(Record::Free(held)) = &mut self.held
            && held.object == free.object
            && let Some(length) = joined((held.offset, held.length), (free.offset, free.length))
        {
            held.length = length;
            return Ok(());
        }
        self.hold(Record::Free(free))
    }

    pub(super) fn redact(&mut self, redact: Redact) -> Result<(), StreamError> {
        if let Some(Record::Redact(held)) = &mut self.held
            && held.object == redact.object
            && let Some(length) = joined((held.offset, held.length), (redact.offset, redact.length))
        {
            held.length = length;
            return Ok(());
        }
        self.hold(Record::Redact(redact))
    }

    pub(super) fn free_objects(&mut self, range: FreeObjects) -> Result<(), StreamError> {
        if let Some(Record::FreeObjects(held)) = &mut self.held
            && held.first.0.checked_add(held.count) == Some(range.first.0)
            && let Some(count) = held.count.checked_add(range.count)
        {
            held.count = count;
            return Ok(());
        }
        self.hold(Record::FreeObjects(range))
    }
}

/// The length of two ranges, given by offset and length, of which the second begins where the
/// first ends.
fn joined(first: (u64, u64), second: (u64, u64)) -> Option<u64> {
    if first.1 == TO_THE_END || first.0.checked_add(first.1) != Some(second.0) {
        return None;
    }
    match second.1 {
        TO_THE_END => Some(TO_THE_END),
        length => first.1.checked_add(length),
    }
}
