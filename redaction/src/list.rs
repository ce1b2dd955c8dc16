//! Reading a redaction list.
//!
//! A bookmark can be destroyed while its list is read. Then the list's object may be free, or may
//! be another one. A freed object reads as zeros, which would be a list that leaves out nothing:
//! the stream would have what it must not have. So after each piece the bookmark is looked up
//! again, its list and header must be the same, and records must be in order.

use crate::error::RedactionError;
use crate::span::{Place, Span};
use cenote_base::ObjectId;
use cenote_dmu::Object;
use cenote_dsl::{Bookmark, DatasetName, Dsl, DslError};
use cenote_ondisk::redaction_list::{RECORD_SIZE, RedactionListHeader, RedactionRecord};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records that are read at once: 128 KiB.
const PIECE: u64 = 4096;

/// The complete list of a redaction bookmark.
#[derive(Clone, Debug)]
pub struct List {
    dsl: Arc<Dsl>,
    bookmark: DatasetName,
    object: Object,
    header: RedactionListHeader,
}

impl List {
    /// The list of a bookmark.
    ///
    /// # Errors
    /// If it has none, the list is not complete, or cannot be read.
    pub fn of(dsl: &Arc<Dsl>, bookmark: &Bookmark) -> Result<Self, RedactionError> {
        let id = bookmark.phys.redaction_list;
        let id = id.ok_or(RedactionError::NoList)?;
        let header = dsl.redaction_header(id)?;
        if !header.is_complete() {
            return Err(RedactionError::Incomplete);
        }
        Ok(Self {
            dsl: Arc::clone(dsl),
            bookmark: bookmark.name.clone(),
            object: dsl.mos().object(id)?,
            header,
        })
    }

    /// The guids of the redaction snapshots.
    pub fn snapshots(&self) -> Vec<u64> {
        self.header.snapshots.iter().map(|guid| guid.0).collect()
    }

    /// The runs of blocks from a place on.
    pub fn runs_from(&self, place: Place) -> Cursor {
        Cursor {
            list: self.clone(),
            from: place,
            next: 0,
            before: None,
            runs: VecDeque::new(),
        }
    }

    /// Fails if the bookmark is not the same any more.
    fn check_same(&self) -> Result<(), RedactionError> {
        let gone = || RedactionError::Gone {
            name: self.bookmark.clone(),
        };
        let bookmark = self
            .dsl
            .bookmark(&self.bookmark)
            .map_err(|error| match error {
                DslError::NoSuchDataset { .. } => gone(),
                error => error.into(),
            })?;
        if bookmark.phys.redaction_list != Some(self.object.id()) {
            return Err(gone());
        }
        match self.dsl.redaction_header(self.object.id())? == self.header {
            true => Ok(()),
            false => Err(gone()),
        }
    }

    /// Some records, from this number on.
    fn records(&self, first: u64) -> Result<Vec<RedactionRecord>, RedactionError> {
        let count = self.header.entries.saturating_sub(first).min(PIECE);
        let mut bytes = vec![0; count as usize * RECORD_SIZE];
        let Some(offset) = first.checked_mul(RECORD_SIZE as u64) else {
            return Err(self.damaged("it has too many records"));
        };
        self.object.read(offset, &mut bytes)?;
        self.check_same()?;
        let records = bytes.chunks_exact(RECORD_SIZE).map(RedactionRecord::decode);
        let records = records.collect::<Result<Vec<_>, _>>();
        records.map_err(|source| self.object.malformed(source).into())
    }

    fn damaged(&self, problem: &'static str) -> RedactionError {
        let object = self.object.id();
        RedactionError::Damaged { object, problem }
    }
}

/// A place in a list, which only goes forward.
#[derive(Debug)]
pub struct Cursor {
    list: List,
    from: Place,
    /// The number of the next record to read.
    next: u64,
    /// The last place of the last record that was read.
    before: Option<Place>,
    runs: VecDeque<Span>,
}

impl Cursor {
    /// Whether a block is listed. Places must be asked for in order.
    ///
    /// # Errors
    /// If the list cannot be read, is damaged, or was destroyed.
    pub fn has(&mut self, place: Place) -> Result<bool, RedactionError> {
        while let Some(run) = self.first()? {
            if run.end() >= place {
                return Ok(run.start() <= place);
            }
            self.runs.pop_front();
        }
        Ok(false)
    }

    /// Takes the next run that begins before a place, up to that place.
    ///
    /// # Errors
    /// If the list cannot be read, is damaged, or was destroyed.
    pub fn take_before(&mut self, place: Place) -> Result<Option<Span>, RedactionError> {
        let Some(run) = self.first()? else {
            return Ok(None);
        };
        let taken = run.within(Place::default(), Some(place));
        let Some(taken) = taken else {
            return Ok(None);
        };
        self.runs.pop_front();
        if taken.last < run.last {
            self.runs.push_front(Span {
                first: taken.last + 1,
                ..run
            });
        }
        Ok(Some(taken))
    }

    /// The first run that is left.
    fn first(&mut self) -> Result<Option<Span>, RedactionError> {
        while self.runs.is_empty() {
            let records = self.list.records(self.next)?;
            if records.is_empty() {
                return Ok(None);
            }
            self.next += records.len() as u64;
            for record in &records {
                let run = self.run_of(record)?;
                self.before = Some(run.end());
                self.runs.extend(run.within(self.from, None));
            }
        }
        Ok(self.runs.front().copied())
    }

    /// The run of a record, which stands behind all before it.
    fn run_of(&self, record: &RedactionRecord) -> Result<Span, RedactionError> {
        let first = record.block.0;
        let last = record.count.checked_sub(1);
        let last = last.and_then(|count| first.checked_add(count));
        let last = last.ok_or_else(|| self.list.damaged("a record has an impossible count"))?;
        let run = Span {
            object: record.object,
            first,
            last,
            block_size: record.block_size,
        };
        match run.object != ObjectId(0) && self.before.is_none_or(|before| before < run.start()) {
            true => Ok(run),
            false => Err(self.list.damaged("its records are not in order")),
        }
    }
}
