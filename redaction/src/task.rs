//! Storing a redaction list: a bookmark with an empty list first, then one piece after another.
//!
//! Each piece is stored with how far it reaches, in one transaction group. After a crash the list
//! is complete up to there. Complete as a whole is a list that reaches the end, [`u64::MAX`] twice.

use crate::span::{Place, Span};
use cenote_base::{BlockId, Guid, ObjectId};
use cenote_dmu::{NewObject, TreeShape};
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DatasetName, DslError};
use cenote_history::{DatasetEvent, Events};
use cenote_ondisk::redaction_list::{RECORD_SIZE, RedactionListHeader};
use cenote_ondisk::{ObjectType, features};

/// Bytes of a block of the list.
const BLOCK_SIZE: u64 = 128 << 10;
/// Bytes of a bonus buffer in a dnode of one slot, at most.
const BONUS_MAX: usize = 320;
/// The header without guids.
const HEADER_SIZE: usize = 32;
/// Guids that the bonus buffer has room for: (320 - 32) / 8 = 36. More need a spill block.
pub(crate) const GUIDS_IN_BONUS: usize = (BONUS_MAX - HEADER_SIZE) / 8;

/// Makes a redaction bookmark with an empty list, which is not complete.
#[derive(Debug)]
pub struct BeginList {
    pub(crate) snapshot: DatasetName,
    pub(crate) bookmark: DatasetName,
    pub(crate) by: Vec<Guid>,
}

impl SyncTask for BeginList {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        context.needs_feature(features::REDACTION_BOOKMARKS)?;
        if self.by.len() > GUIDS_IN_BONUS {
            context.needs_feature(features::REDACTION_LIST_SPILL)?;
        }
        context.check_redaction_bookmark(&self.snapshot, &self.bookmark)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let header = RedactionListHeader {
            last: (ObjectId(0), BlockId(0)),
            entries: 0,
            snapshots: self.by.clone(),
        };
        let header = header.encode();
        let has_spill = self.by.len() > GUIDS_IN_BONUS;
        let list_type = ObjectType::UINT64_METADATA;
        let new = NewObject::new(list_type, BLOCK_SIZE);
        let list = match has_spill {
            // The spill block's pointer needs the room of the others.
            true => NewObject {
                shape: Some(TreeShape {
                    pointers: 1,
                    levels: 1,
                    block_id_max: BlockId(0),
                }),
                ..new.with_bonus(list_type, Vec::new())
            },
            false => new.with_bonus(list_type, header.clone()),
        };
        let list = context.mos().allocate(context.tx, list)?;
        if has_spill {
            list.set_spill(context.tx, Some(header))?;
            context.feature_changed(features::REDACTION_LIST_SPILL, 1)?;
        }
        context.feature_changed(features::REDACTION_BOOKMARKS, 1)?;
        context.make_redaction_bookmark(&self.snapshot, &self.bookmark, list.id())
    }
}

impl Events for BeginList {
    fn events(&self) -> Vec<DatasetEvent> {
        let short = self.bookmark.after_delimiter().unwrap_or_default();
        let (event, dataset) = ("redact", self.bookmark.dataset());
        vec![DatasetEvent {
            event,
            dataset,
            detail: format!("name={short} source={}", self.snapshot),
            is_before: false,
        }]
    }
}

/// Appends a piece to a list.
#[derive(Debug)]
pub struct AppendToList {
    pub(crate) bookmark: DatasetName,
    pub(crate) list: ObjectId,
    /// The list as it was when the piece was searched.
    pub(crate) before: RedactionListHeader,
    pub(crate) runs: Vec<Span>,
    /// Where the next piece begins; `None` behind the last.
    pub(crate) end: Option<Place>,
}

impl SyncTask for AppendToList {
    /// The bookmark may be destroyed meanwhile, or another command may have resumed the list, too.
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let bookmark = context.dsl.bookmark(&self.bookmark)?;
        let is_same = bookmark.phys.redaction_list == Some(self.list)
            && context.dsl.redaction_header(self.list)? == self.before;
        match is_same {
            true => Ok(()),
            false => Err(DslError::Busy {
                name: self.bookmark.clone(),
            }),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let records = self.runs.iter().flat_map(|run| run.records());
        let bytes: Vec<u8> = records.flat_map(|record| record.encode()).collect();
        let list = context.mos().object(self.list)?;
        let before = &self.before;
        if !bytes.is_empty() {
            let offset = before.entries.checked_mul(RECORD_SIZE as u64);
            let offset = offset.ok_or(DslError::BadStructure {
                object: self.list,
                problem: "a redaction list has too many records",
            })?;
            list.write(context.tx, offset, &bytes)?;
        }
        let last = self.end.map(Place::previous);
        let header = RedactionListHeader {
            last: last.map_or(RedactionListHeader::COMPLETE, |last| {
                (last.object, BlockId(last.block))
            }),
            entries: before
                .entries
                .saturating_add((bytes.len() / RECORD_SIZE) as u64),
            snapshots: before.snapshots.clone(),
        };
        match list.dnode().spill.is_some() {
            true => list.set_spill(context.tx, Some(header.encode()))?,
            false => list.set_bonus(context.tx, list.dnode().bonus_type, header.encode())?,
        }
        Ok(())
    }
}

impl Events for AppendToList {}
