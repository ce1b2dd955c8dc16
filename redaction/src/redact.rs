//! `zfs redact`: a redaction bookmark, made or resumed.
//!
//! The caller carries out the tasks: first [`Redaction::begin`]'s, if there is one, then those of
//! [`Redaction::next`] until there is none. All snapshots must stay meanwhile.

use crate::error::RedactionError;
use crate::list::List;
use crate::search::Search;
use crate::span::Place;
use crate::task::{AppendToList, BeginList, GUIDS_IN_BONUS};
use cenote_base::{Guid, ObjectId};
use cenote_dsl::{Bookmark, Dataset, DatasetName, Dsl, DslError};
use cenote_ondisk::features;
use cenote_ondisk::redaction_list::RedactionListHeader;
use std::sync::Arc;

/// Runs of blocks that are stored with one transaction group: up to 512 KiB of records.
const RUNS_MAX: usize = 16 << 10;
/// Redaction snapshots, at most: what a receiver can note. A value of a ZAP has up to 8 KiB.
const SNAPSHOTS_MAX: usize = 1024;

/// A redaction that is to be made.
#[derive(Debug)]
pub struct Redaction {
    dsl: Arc<Dsl>,
    snapshot: DatasetName,
    bookmark: DatasetName,
    by: Vec<Guid>,
    is_new: bool,
    search: Search,
    runs_max: usize,
}

impl Redaction {
    /// The redaction of a snapshot with respect to others, by a bookmark that is not there, or that
    /// the same command left incomplete.
    ///
    /// # Errors
    /// If that is not possible.
    pub fn of(
        snapshot: &Dataset,
        bookmark: DatasetName,
        by: &[Dataset],
    ) -> Result<Self, RedactionError> {
        let dsl = snapshot.dsl();
        if dsl.features().get(features::REDACTION_BOOKMARKS).is_none() {
            return Err(RedactionError::FeatureDisabled);
        }
        let mut guids: Vec<Guid> = Vec::new();
        let mut sets = Vec::new();
        for one in by {
            if one.is_redacted()? || snapshot.is_redacted()? {
                return Err(RedactionError::Redacted);
            }
            if !one.is_snapshot() || !one.grew_out_of(snapshot)? {
                return Err(RedactionError::NotADescendant);
            }
            let guid = one.phys().guid;
            if !guids.contains(&guid) {
                guids.push(guid);
                sets.push(one.object_set()?);
            }
        }
        let has_spill = dsl.features().get(features::REDACTION_LIST_SPILL).is_some();
        let max = if has_spill {
            SNAPSHOTS_MAX
        } else {
            GUIDS_IN_BONUS
        };
        if guids.is_empty() || guids.len() > max {
            return Err(RedactionError::TooMany);
        }
        let redaction = Self {
            is_new: true,
            dsl: Arc::clone(dsl),
            snapshot: snapshot.name().clone(),
            bookmark,
            by: guids,
            search: Search {
                source: snapshot.object_set()?,
                since: snapshot.phys().creation_txg,
                by: sets,
            },
            runs_max: RUNS_MAX,
        };
        redaction.with_existing(snapshot.phys().guid)
    }

    /// The same with another size of pieces, for tests.
    #[must_use]
    pub fn in_pieces_of(self, runs_max: usize) -> Self {
        Self { runs_max, ..self }
    }

    /// Whether the bookmark is there is found out.
    fn with_existing(self, snapshot: Guid) -> Result<Self, RedactionError> {
        let bookmark = match self.dsl.bookmark(&self.bookmark) {
            Err(DslError::NoSuchDataset { .. }) => return Ok(self),
            bookmark => bookmark?,
        };
        let exists = || RedactionError::Exists {
            name: self.bookmark.clone(),
        };
        let list = bookmark.phys.redaction_list;
        let list = list.filter(|_| bookmark.phys.guid == snapshot);
        let header = self.dsl.redaction_header(list.ok_or_else(exists)?)?;
        if header.is_complete() {
            return Err(exists());
        }
        let mut sorted = (self.by.clone(), header.snapshots);
        sorted.0.sort_unstable();
        sorted.1.sort_unstable();
        match sorted.0 == sorted.1 {
            true => Ok(Self {
                is_new: false,
                ..self
            }),
            false => Err(RedactionError::Mismatch),
        }
    }

    /// What makes the bookmark, unless it is there.
    pub fn begin(&self) -> Option<BeginList> {
        self.is_new.then(|| BeginList {
            snapshot: self.snapshot.clone(),
            bookmark: self.bookmark.clone(),
            by: self.by.clone(),
        })
    }

    /// What appends the next piece; `None` if the list is complete.
    ///
    /// # Errors
    /// If a snapshot cannot be read, the bookmark was destroyed, or `is_cancelled`.
    pub fn next(
        &self,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<AppendToList>, RedactionError> {
        let (list, before) = self.state()?;
        if before.is_complete() {
            return Ok(None);
        }
        let last = Place {
            object: before.last.0,
            block: before.last.1.0,
        };
        let piece = self
            .search
            .piece(last.next(), self.runs_max, is_cancelled)?;
        Ok(Some(AppendToList {
            bookmark: self.bookmark.clone(),
            list,
            before,
            runs: piece.runs,
            end: piece.end,
        }))
    }

    fn state(&self) -> Result<(ObjectId, RedactionListHeader), RedactionError> {
        let bookmark: Bookmark = self.dsl.bookmark(&self.bookmark)?;
        let list = bookmark.phys.redaction_list;
        let list = list.ok_or(RedactionError::NoList)?;
        Ok((list, self.dsl.redaction_header(list)?))
    }

    /// The list, once it is complete.
    ///
    /// # Errors
    /// If it is not, or cannot be read.
    pub fn list(&self) -> Result<List, RedactionError> {
        List::of(&self.dsl, &self.dsl.bookmark(&self.bookmark)?)
    }
}
