//! Checks that the tables of texts are complete.

use super::*;
use cenote_control::model::properties::{DATASET, POOL, PropertyInfo, VDEV};

/// The meanings of properties were missing; these tables must stay complete.
#[test]
fn every_property_is_explained_once() {
    let pairs: [(&[PropertyInfo], &[property_texts::Text]); 3] = [
        (DATASET, property_texts::DATASET),
        (POOL, property_texts::POOL),
        (VDEV, property_texts::VDEV),
    ];
    for (table, texts) in pairs {
        let known: Vec<&str> = table.iter().map(|info| info.name).collect();
        let told: Vec<&str> = texts.iter().map(|(name, _)| *name).collect();
        assert_eq!(known, told);
    }
}
