//! That the tables of texts are whole.

use super::*;
use cenote_control::model::properties::{DATASET, POOL, PropertyInfo, VDEV};

/// What a property means stood nowhere in the program; the tables here must not fall behind.
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
