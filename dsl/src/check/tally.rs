//! How many things use each feature.
//!
//! Sources: format/1b 3 and format/3a 1, 8, 9. `$ORIGIN` is not counted.

use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::DslError;
use cenote_ondisk::bookmark_phys::FLAG_HAS_FREED_BEFORE_NEXT;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::features;
use cenote_ondisk::features::FEATURES;
use std::collections::BTreeMap;

/// Uses found so far, by the feature's guid.
#[derive(Debug, Default)]
pub(super) struct Tally {
    uses: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn count(&mut self, guid: &'static str) {
        *self.uses.entry(guid).or_default() += 1;
    }

    pub(super) fn of(&self, guid: &str) -> u64 {
        self.uses.get(guid).copied().unwrap_or(0)
    }

    /// Counts what a directory uses.
    pub(super) fn add_directory(&mut self, directory: &Directory) -> Result<(), DslError> {
        if directory.is_extended() {
            self.count(features::EXTENSIBLE_DATASET);
        }
        if directory.livelist()?.is_some() {
            self.count(features::LIVELIST);
        }
        Ok(())
    }

    /// Counts what a head or snapshot uses.
    pub(super) fn add_dataset(&mut self, dataset: &Dataset) -> Result<(), DslError> {
        if dataset.directory().name().last_component() == "$ORIGIN" {
            return Ok(());
        }
        let Some(extension) = dataset.extension() else {
            return Ok(());
        };
        self.count(features::EXTENSIBLE_DATASET);
        for feature in FEATURES.iter().filter(|feature| feature.per_dataset) {
            if extension.lookup(feature.guid.as_bytes())?.is_some() {
                self.count(feature.guid);
            }
        }
        if dataset.extension_number(fields::BOOKMARKS)?.is_some() {
            self.count(features::BOOKMARKS);
            self.add_bookmarks(dataset)?;
        }
        Ok(())
    }

    fn add_bookmarks(&mut self, dataset: &Dataset) -> Result<(), DslError> {
        for bookmark in dataset.bookmarks()? {
            if bookmark.phys.flags & FLAG_HAS_FREED_BEFORE_NEXT != 0 {
                self.count(features::BOOKMARK_WRITTEN);
            }
            if let Some(list) = bookmark.phys.redaction_list {
                self.count(features::REDACTION_BOOKMARKS);
                if dataset.dsl().mos().object(list)?.spill()?.is_some() {
                    self.count(features::REDACTION_LIST_SPILL);
                }
            }
        }
        Ok(())
    }
}
