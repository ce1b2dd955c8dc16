//! Making and destroying bookmarks (format/3a 9).
//!
//! A bookmark is made of a snapshot, or of another bookmark, that its dataset grew out of: one of
//! the dataset itself, or of what it was cloned from up to that moment.

use super::bookmark::StoredBookmark;
use crate::dataset::{CHAIN_LENGTH_MAX, Dataset};
use crate::deadlist::Deadlist;
use crate::error::DslError;
use crate::name::{DatasetName, NameKind};
use crate::write::context::{SyncContext, SyncTask};
use cenote_base::{Guid, ObjectId, Txg};
use cenote_ondisk::bookmark_phys::{
    BookmarkPhys, BookmarkSpace, FLAG_HAS_FREED_BEFORE_NEXT, FLAG_SNAPSHOT_EXISTS,
};
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::features;
use std::collections::HashSet;

/// Makes bookmarks, all in one transaction group or none.
#[derive(Debug)]
pub struct CreateBookmarks {
    /// What each is made of, a snapshot or a bookmark, and its name.
    pub bookmarks: Vec<(DatasetName, DatasetName)>,
}

impl SyncTask for CreateBookmarks {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        context.needs_feature(features::BOOKMARKS)?;
        let mut new = HashSet::new();
        for (source, name) in &self.bookmarks {
            let head = context.bookmark_head(name)?;
            let component = name.after_delimiter().unwrap_or_default();
            let exists = head.bookmark(component.as_bytes())?.is_some();
            if exists || !new.insert((head.id(), component)) {
                let name = name.clone();
                return Err(DslError::BookmarkExists { name });
            }
            let phys = context.bookmark_source(source)?;
            let ancestor = context.dsl.dataset(&source.dataset())?;
            if !context.grew_out_of(&head, &ancestor, phys.creation_txg)? {
                let name = name.clone();
                return Err(DslError::NotAnAncestor { name });
            }
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for (source, name) in &self.bookmarks {
            let head = context.bookmark_head(name)?;
            let component = name.after_delimiter().unwrap_or_default();
            let bookmark = StoredBookmark {
                name: component.as_bytes().to_vec(),
                phys: context.bookmark_source(source)?,
            };
            context.add_bookmark(head.id(), &bookmark)?;
        }
        Ok(())
    }
}

/// Destroys bookmarks.
#[derive(Debug)]
pub struct DestroyBookmarks {
    /// The bookmarks; those that there are not are passed over.
    pub names: Vec<DatasetName>,
}

impl SyncTask for DestroyBookmarks {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            match context.bookmark_head(name) {
                Ok(_) | Err(DslError::NoSuchDataset { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for name in &self.names {
            let head = match context.bookmark_head(name) {
                Err(DslError::NoSuchDataset { .. }) => continue,
                head => head?,
            };
            let component = name.after_delimiter().unwrap_or_default();
            let taken = context.take_bookmark(head.id(), component.as_bytes())?;
            if let Some(bookmark) = taken {
                context.destroy_redaction(&bookmark)?;
                context.forget_key_of_bookmark(&head, &bookmark)?;
            }
        }
        Ok(())
    }
}

impl SyncContext<'_> {
    /// Refuses what needs a feature that the pool lacks.
    ///
    /// # Errors
    /// If the feature is not enabled.
    pub fn needs_feature(&self, guid: &str) -> Result<(), DslError> {
        match self.dsl.features().get(guid) {
            Some(_) => Ok(()),
            None => Err(DslError::FeatureDisabled {
                feature: features::by_guid(guid)
                    .map_or(guid, |feature| feature.name)
                    .to_owned(),
            }),
        }
    }

    /// Whether a redaction bookmark can be made of a snapshot in its own dataset.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check_redaction_bookmark(
        &self,
        snapshot: &DatasetName,
        name: &DatasetName,
    ) -> Result<(), DslError> {
        let head = self.bookmark_head(name)?;
        let component = name.after_delimiter().unwrap_or_default();
        if head.bookmark(component.as_bytes())?.is_some() {
            let name = name.clone();
            return Err(DslError::BookmarkExists { name });
        }
        self.bookmark_source(snapshot).map(drop)
    }

    /// Makes a bookmark of a snapshot with a redaction list, whose feature is counted already.
    ///
    /// # Errors
    /// If the pool's metadata cannot be read.
    pub fn make_redaction_bookmark(
        &self,
        snapshot: &DatasetName,
        name: &DatasetName,
        list: ObjectId,
    ) -> Result<(), DslError> {
        let head = self.bookmark_head(name)?;
        let component = name.after_delimiter().unwrap_or_default();
        let bookmark = StoredBookmark {
            name: component.as_bytes().to_vec(),
            phys: BookmarkPhys {
                redaction_list: Some(list),
                ..self.bookmark_source(snapshot)?
            },
        };
        self.add_bookmark(head.id(), &bookmark)
    }

    /// The head that has, or is to have, the bookmark `name`.
    fn bookmark_head(&self, name: &DatasetName) -> Result<Dataset, DslError> {
        if name.kind() != NameKind::Bookmark {
            let name = name.clone();
            return Err(DslError::NotABookmark { name });
        }
        self.dsl.dataset(&name.dataset())
    }

    /// What a new bookmark says if it is made of `source`.
    fn bookmark_source(&self, source: &DatasetName) -> Result<BookmarkPhys, DslError> {
        if source.kind() == NameKind::Bookmark {
            let bookmark = self.dsl.bookmark(source)?;
            return Ok(BookmarkPhys {
                redaction_list: None,
                ..bookmark.phys
            });
        }
        let snapshot = self.dsl.dataset(source)?;
        let phys = snapshot.phys();
        let next = phys.next_snapshot.filter(|_| snapshot.is_snapshot());
        let next = next.ok_or_else(|| DslError::NotASnapshot {
            name: source.clone(),
        })?;
        let mut bookmark = BookmarkPhys {
            guid: phys.guid,
            creation_txg: phys.creation_txg,
            creation_time: phys.creation_time,
            ..BookmarkPhys::default()
        };
        let ivset = snapshot.extension_number(fields::IVSET_GUID)?;
        bookmark.ivset_guid = ivset.filter(|guid| *guid != 0).map(Guid);
        if self
            .dsl
            .features()
            .get(features::BOOKMARK_WRITTEN)
            .is_some()
        {
            let (_, next) = self.dsl.read_dataset(next)?;
            let freed = Deadlist::totals_of(self.dsl, next.deadlist)?;
            bookmark.flags = FLAG_HAS_FREED_BEFORE_NEXT | FLAG_SNAPSHOT_EXISTS;
            bookmark.space = BookmarkSpace {
                referenced: phys.referenced_bytes,
                compressed: phys.compressed_bytes,
                uncompressed: phys.uncompressed_bytes,
            };
            bookmark.freed_before_next = BookmarkSpace {
                referenced: freed.used,
                compressed: freed.compressed,
                uncompressed: freed.uncompressed,
            };
        }
        Ok(bookmark)
    }

    /// Whether a head grew out of what `ancestor` was at `txg`.
    fn grew_out_of(&self, head: &Dataset, ancestor: &Dataset, txg: Txg) -> Result<bool, DslError> {
        let target = ancestor.directory().id();
        let mut at = head.directory().id();
        for _ in 0..CHAIN_LENGTH_MAX {
            if at == target {
                return Ok(true);
            }
            let origin = self.directory(at)?.origin;
            let origin = origin.filter(|origin| Some(*origin) != self.dsl.origin_snapshot());
            let Some(origin) = origin else {
                return Ok(false);
            };
            let (_, origin) = self.dsl.read_dataset(origin)?;
            if origin.creation_txg < txg {
                return Ok(false);
            }
            at = origin.directory;
        }
        Err(DslError::structure(at, "it is a clone of itself"))
    }

    /// Removes the key of a destroyed bookmark from deadlists, unless a snapshot or another
    /// bookmark needs it.
    fn forget_key_of_bookmark(
        &self,
        head: &Dataset,
        bookmark: &StoredBookmark,
    ) -> Result<(), DslError> {
        let txg = bookmark.phys.creation_txg;
        let (_, phys) = self.dsl.read_dataset(head.id())?;
        if !bookmark.counts()
            || txg >= phys.previous_snapshot_txg
            || self.counts_since(head.id(), txg)?
            || self.has_snapshot_of(phys.previous_snapshot, txg)?
        {
            return Ok(());
        }
        let mut lists = self.open_deadlists()?;
        self.remove_deadlist_key(&mut lists, phys.deadlist, txg)?;
        self.forget_key_of_clones(&mut lists, head.directory().id(), txg)?;
        self.close_deadlists(lists)
    }

    /// Whether the chain of snapshots that ends with `last` has one of `txg`.
    fn has_snapshot_of(&self, last: Option<ObjectId>, txg: Txg) -> Result<bool, DslError> {
        let mut at = last;
        for _ in 0..CHAIN_LENGTH_MAX {
            let Some(id) = at else {
                return Ok(false);
            };
            let (_, phys) = self.dsl.read_dataset(id)?;
            if phys.creation_txg <= txg {
                return Ok(phys.creation_txg == txg);
            }
            at = phys.previous_snapshot;
        }
        let problem = "the chain of snapshots does not end";
        Err(DslError::structure(last.unwrap_or_default(), problem))
    }
}
