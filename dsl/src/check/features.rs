//! Counts of features: how many things use each, against what the pool's tables say.
//!
//! Sources: format/1b 3 and format/3a 1, 8, 9. `$ORIGIN` is not counted.

use super::Checker;
use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::dsl::FEATURE_VERSION;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_ondisk::bookmark_phys::FLAG_HAS_FREED_BEFORE_NEXT;
use cenote_ondisk::dsl_dataset::fields;
use cenote_ondisk::features;
use cenote_ondisk::features::FEATURES;
use std::collections::BTreeMap;

/// The features whose uses the walk over all datasets counts in full.
///
/// Not among them: `bookmark_v2`, which OpenZFS counts again whenever a promotion moves a
/// bookmark; `filesystem_limits`, which counts the directories at which a limit was first set and
/// not those that keep counts since.
const COUNTED: [&str; 4] = [
    features::EXTENSIBLE_DATASET,
    features::BOOKMARKS,
    features::BOOKMARK_WRITTEN,
    features::REDACTION_BOOKMARKS,
];

/// Uses found so far, by the feature's guid.
#[derive(Debug, Default)]
pub(super) struct Tally {
    uses: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn count(&mut self, guid: &'static str) {
        *self.uses.entry(guid).or_default() += 1;
    }

    fn of(&self, guid: &str) -> u64 {
        self.uses.get(guid).copied().unwrap_or(0)
    }

    /// Counts what a directory uses.
    pub fn add_directory(&mut self, directory: &Directory) -> Result<(), DslError> {
        if directory.is_extended() {
            self.count(features::EXTENSIBLE_DATASET);
        }
        if directory.livelist()?.is_some() {
            self.count(features::LIVELIST);
        }
        Ok(())
    }

    /// Counts what a head or snapshot uses.
    pub fn add_dataset(&mut self, dataset: &Dataset) -> Result<(), DslError> {
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
            if bookmark.phys.redaction_list.is_some() {
                self.count(features::REDACTION_BOOKMARKS);
            }
        }
        Ok(())
    }
}

/// Compares the uses found with the tables.
pub(super) fn check(checker: &mut Checker<'_>) {
    let dsl = checker.dsl;
    if checker.incomplete || dsl.version() < FEATURE_VERSION {
        return;
    }
    let per_dataset = FEATURES.iter().filter(|feature| feature.per_dataset);
    let guids: Vec<_> = per_dataset
        .map(|feature| feature.guid)
        .chain(COUNTED)
        .collect();
    for guid in guids {
        let stored = dsl.features().get(guid).map_or(0, |feature| feature.count);
        let found = checker.tally.of(guid);
        checker.expect(guid, "the feature's count of uses", found, stored);
    }
    match queued_livelists(checker) {
        Ok(queued) => {
            let stored = dsl
                .features()
                .get(features::LIVELIST)
                .map_or(0, |feature| feature.count);
            let found = checker.tally.of(features::LIVELIST) + queued;
            checker.expect(
                features::LIVELIST,
                "the feature's count of uses",
                found,
                stored,
            );
        }
        Err(error) => checker.unreadable(keys::DELETED_CLONES, error),
    }
    let features = dsl.features();
    let noted = features
        .iter()
        .filter(|(_, feature)| feature.enabled_txg.is_some());
    let noted = noted.count() as u64;
    let stored = dsl
        .features()
        .get(features::ENABLED_TXG)
        .map_or(0, |feature| feature.count);
    checker.expect(
        features::ENABLED_TXG,
        "the feature's count of uses",
        noted,
        stored,
    );
}

/// Livelists of destroyed clones that wait to be freed.
fn queued_livelists(checker: &Checker<'_>) -> Result<u64, DslError> {
    let dsl = checker.dsl;
    match dsl.object_directory().object(keys::DELETED_CLONES)? {
        Some(object) => Ok(dsl.mos().zap(object)?.count()),
        None => Ok(0),
    }
}
