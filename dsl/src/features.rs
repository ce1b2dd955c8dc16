//! The pool's feature tables: what is enabled, what is in use, since when.
//!
//! Source: format/1b 2. A feature absent from both tables is disabled, one with count 0 enabled,
//! one with a higher count active. Unknown features are kept, too: the import decides whether the
//! pool may be opened, and a writer must preserve them.

use crate::error::DslError;
use crate::object_directory::{ObjectDirectory, keys};
use cenote_base::Txg;
use cenote_dmu::{ObjectSet, Zap};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Features of one pool that are read: OpenZFS has fewer than 60.
const FEATURES_MAX: usize = 4096;

/// Which table a feature is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureTable {
    /// It must be known to read the pool.
    ForRead,
    /// It must be known to write the pool.
    ForWrite,
}

/// One enabled feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnabledFeature {
    /// The table that it is in.
    pub table: FeatureTable,
    /// How many things use it; 0 when it is only enabled.
    pub count: u64,
    /// The pool's own words about it.
    pub description: Option<String>,
    /// When it was enabled, where that is noted.
    pub enabled_txg: Option<Txg>,
}

impl EnabledFeature {
    /// Whether something uses it.
    pub fn is_active(&self) -> bool {
        self.count > 0
    }
}

/// The enabled features of a pool, by guid.
#[derive(Clone, Debug, Default)]
pub struct Features {
    enabled: BTreeMap<String, EnabledFeature>,
}

impl Features {
    /// Reads the tables; a pool before version 5000 has none.
    pub(crate) fn load(
        mos: &Arc<ObjectSet>,
        directory: &ObjectDirectory,
    ) -> Result<Self, DslError> {
        Self::load_with(mos, directory, &mut |_, error| Err(error))
    }

    /// Like [`Self::load`], but calls `unread` for each table that is unreadable, with its name and
    /// the error. `unread` returns `Ok` to continue without the table.
    pub(crate) fn load_with(
        mos: &Arc<ObjectSet>,
        directory: &ObjectDirectory,
        unread: Unread<'_>,
    ) -> Result<Self, DslError> {
        let mut features = Self::default();
        let mut read = |key| match entries(mos, directory, key) {
            Ok(entries) => Ok(entries),
            Err(error) => unread(key, error).map(|()| Entries::new()),
        };
        let tables = [
            (keys::FEATURES_FOR_READ, FeatureTable::ForRead),
            (keys::FEATURES_FOR_WRITE, FeatureTable::ForWrite),
        ];
        for (key, table) in tables {
            for (guid, value) in read(key)? {
                if let Some(count) = value.as_u64() {
                    let feature = EnabledFeature {
                        table,
                        count,
                        description: None,
                        enabled_txg: None,
                    };
                    features.enabled.insert(guid, feature);
                }
            }
        }
        for (guid, value) in read(keys::FEATURE_DESCRIPTIONS)? {
            if let Some(feature) = features.enabled.get_mut(&guid) {
                feature.description = value.as_str().map(str::to_owned);
            }
        }
        for (guid, value) in read(keys::FEATURE_ENABLED_TXG)? {
            if let Some(feature) = features.enabled.get_mut(&guid) {
                feature.enabled_txg = value.as_u64().map(Txg);
            }
        }
        Ok(features)
    }

    /// The feature with this guid, if it is enabled.
    pub fn get(&self, guid: &str) -> Option<&EnabledFeature> {
        self.enabled.get(guid)
    }

    /// Whether something uses the feature.
    pub fn is_active(&self, guid: &str) -> bool {
        self.get(guid).is_some_and(EnabledFeature::is_active)
    }

    /// Notes a new count of uses.
    pub(crate) fn set_count(&mut self, guid: &str, count: u64) {
        if let Some(feature) = self.enabled.get_mut(guid) {
            feature.count = count;
        }
    }

    /// All enabled features in order of guid.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &EnabledFeature)> {
        let pairs = self.enabled.iter();
        pairs.map(|(guid, feature)| (guid.as_str(), feature))
    }
}

/// Told which table cannot be read, and why; says whether to do without it.
pub(crate) type Unread<'a> = &'a mut dyn FnMut(&'static str, DslError) -> Result<(), DslError>;

type Entries = Vec<(String, cenote_dmu::zap::ZapValue)>;

fn entries(
    mos: &Arc<ObjectSet>,
    directory: &ObjectDirectory,
    key: &'static str,
) -> Result<Entries, DslError> {
    let Some(object) = directory.object(key)? else {
        return Ok(Vec::new());
    };
    let zap = Zap::open(mos.object(object)?)?;
    let mut entries = Vec::new();
    for entry in zap.entries().take(FEATURES_MAX) {
        let entry = entry?;
        if let Some(guid) = entry.key.as_str() {
            entries.push((guid.to_owned(), entry.value));
        }
    }
    Ok(entries)
}
