//! Counts of features: how many things use each, against what the pool's tables say.
//!
//! Sources: format/1b 3 and format/3a 1, 8, 9. `$ORIGIN` is not counted.

use super::checker::Checker;
use crate::error::DslError;
use crate::object_directory::keys;
use cenote_ondisk::features;
use cenote_ondisk::features::FEATURE_VERSION;
use cenote_ondisk::features::FEATURES;

/// The features whose uses the walk over all datasets counts in full.
///
/// Not among them: `bookmark_v2`, which OpenZFS counts again whenever a promotion moves a
/// bookmark; `filesystem_limits`, which counts the directories at which a limit was first set and
/// not those that keep counts since.
const COUNTED: [&str; 5] = [
    features::EXTENSIBLE_DATASET,
    features::BOOKMARKS,
    features::BOOKMARK_WRITTEN,
    features::REDACTION_BOOKMARKS,
    features::REDACTION_LIST_SPILL,
];

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
