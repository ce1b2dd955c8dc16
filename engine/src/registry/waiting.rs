//! Values of a pool that came from elsewhere and wait for the administrator's yes, as they were
//! when they were last looked for: after each request that may have changed them.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::WaitingValue;
use cenote_dsl::Dsl;
use std::sync::Arc;

/// A value, and the dataset that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub dataset: ObjectId,
    pub property: &'static str,
    pub value: String,
}

/// Those of a pool.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Mutex<Vec<Found>, ranks::WaitingValues>);

impl Waiting {
    /// Takes note of them; returns those that are new.
    pub fn set(&self, found: Vec<Found>) -> Vec<Found> {
        let before = std::mem::replace(&mut *self.0.lock(), found.clone());
        let is_new = |one: &Found| !before.contains(one);
        found.into_iter().filter(is_new).collect()
    }

    /// All of them, under the names that their datasets have now.
    pub fn list(&self, dsl: &Arc<Dsl>) -> Vec<WaitingValue> {
        let found = self.0.lock().clone();
        let named = found.into_iter().filter_map(|one| named(dsl, one));
        named.collect()
    }
}

/// A value with the name of its dataset; `None` if that is gone.
pub(crate) fn named(dsl: &Arc<Dsl>, found: Found) -> Option<WaitingValue> {
    let dataset = dsl.dataset_of(found.dataset).ok()?;
    Some(WaitingValue {
        dataset: dataset.name().as_str().to_owned(),
        property: found.property.to_owned(),
        value: found.value,
    })
}
