//! Bookmarks of a dataset (format/3a 9).

use crate::dataset::Dataset;
use crate::dsl::Dsl;
use crate::error::DslError;
use crate::name::{DatasetName, NameKind};
use cenote_base::{Guid, ObjectId};
use cenote_ondisk::bookmark_phys::BookmarkPhys;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::redaction_list::RedactionListHeader;
use std::sync::Arc;

/// A bookmark with its name.
#[derive(Clone, Debug)]
pub struct Bookmark {
    /// `pool/fs#name`.
    pub name: DatasetName,
    /// What it says.
    pub phys: BookmarkPhys,
}

impl Dataset {
    fn bookmark_map(&self) -> Result<Option<ObjectId>, DslError> {
        let object = self.extension_number(fields::BOOKMARKS)?;
        Ok(object.filter(|id| *id != 0).map(ObjectId))
    }

    /// The bookmarks in the order in which their snapshots were made.
    pub fn bookmarks(&self) -> Result<Vec<Bookmark>, DslError> {
        let Some(object) = self.bookmark_map()? else {
            return Ok(Vec::new());
        };
        let zap = self.dsl().mos().zap(object)?;
        let mut bookmarks = Vec::new();
        for entry in zap.entries() {
            let entry = entry?;
            let name = entry.key.as_name().unwrap_or_default();
            let words = entry.value.as_u64s().unwrap_or_default();
            bookmarks.push(self.bookmark_of(object, name, &words)?);
        }
        bookmarks
            .sort_by(|a, b| (a.phys.creation_txg, &a.name).cmp(&(b.phys.creation_txg, &b.name)));
        Ok(bookmarks)
    }

    /// The bookmark with this name.
    pub fn bookmark(&self, name: &[u8]) -> Result<Option<Bookmark>, DslError> {
        let Some(object) = self.bookmark_map()? else {
            return Ok(None);
        };
        let zap = self.dsl().mos().zap(object)?;
        let Some(value) = zap.lookup(name)? else {
            return Ok(None);
        };
        let words = value.as_u64s().unwrap_or_default();
        self.bookmark_of(object, name, &words).map(Some)
    }

    fn bookmark_of(&self, map: ObjectId, name: &[u8], words: &[u64]) -> Result<Bookmark, DslError> {
        let named = self.directory().name().bookmark(name);
        let name = named.map_err(|source| DslError::BadName {
            text: format!("{}#{}", self.name(), String::from_utf8_lossy(name)),
            source,
        })?;
        let phys = BookmarkPhys::from_words(words);
        let phys = phys.map_err(|source| DslError::decode(map, source))?;
        Ok(Bookmark { name, phys })
    }
}

impl Dsl {
    /// Finds a bookmark by its full name.
    pub fn bookmark(self: &Arc<Self>, name: &DatasetName) -> Result<Bookmark, DslError> {
        let missing = || DslError::NoSuchDataset { name: name.clone() };
        let after = name.after_delimiter();
        let (NameKind::Bookmark, Some(bookmark)) = (name.kind(), after) else {
            return Err(missing());
        };
        let head = self.dataset(&name.dataset())?;
        head.bookmark(bookmark.as_bytes())?.ok_or_else(missing)
    }

    /// The snapshots by which a redaction bookmark redacts.
    pub fn redaction_snapshots(&self, bookmark: &Bookmark) -> Result<Option<Vec<Guid>>, DslError> {
        let Some(id) = bookmark.phys.redaction_list else {
            return Ok(None);
        };
        self.redaction_header(id)
            .map(|header| Some(header.snapshots))
    }

    /// The header of a redaction list.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn redaction_header(&self, list: ObjectId) -> Result<RedactionListHeader, DslError> {
        let object = self.mos().object(list)?;
        let bonus = &object.dnode().bonus;
        let spill = object.spill()?;
        let bytes = spill
            .as_deref()
            .map_or(bonus.as_slice(), |spill| &spill[..]);
        RedactionListHeader::decode(bytes).map_err(|source| DslError::decode(list, source))
    }
}
