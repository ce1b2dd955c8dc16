//! Values of a pool that came from elsewhere and wait for the administrator's yes, as they were
//! when they were last looked for: after each request that may have changed them.
//!
//! A command stores a value first, and then its approval. Between the two the value looks as if it
//! came from elsewhere to a request that looks at that moment. So commands say when they begin
//! ([`Waiting::begin`]), and a look that met such a command reports nothing new. It misses nothing:
//! each of these commands looks again at its own end.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::WaitingValue;
use cenote_dsl::Dsl;
use std::sync::Arc;

/// A value, and the dataset that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The dataset.
    pub dataset: ObjectId,
    /// The property.
    pub property: &'static str,
    /// The value, in words.
    pub value: String,
}

#[derive(Debug, Default)]
struct State {
    found: Vec<Found>,
    /// Commands that are storing values and their approvals.
    storing: usize,
    /// How many such commands there were.
    begun: u64,
}

/// Those of a pool.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<State, ranks::WaitingValues>);

/// A command that stores values and their approvals, until this is dropped.
pub struct Storing<'a>(&'a Waiting);

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.0.0.lock().storing -= 1;
    }
}

impl Waiting {
    /// A command begins to store values and their approvals.
    pub fn begin(&self) -> Storing<'_> {
        let mut state = self.0.lock();
        state.storing += 1;
        state.begun += 1;
        Storing(self)
    }

    /// The moment before a look at the values; none while a command stores some.
    pub fn moment(&self) -> Option<u64> {
        let state = self.0.lock();
        (state.storing == 0).then_some(state.begun)
    }

    /// Takes note of the values that were found since that moment; returns those that are new.
    pub fn set(&self, since: Option<u64>, mut found: Vec<Found>) -> Vec<Found> {
        let mut state = self.0.lock();
        if since != Some(state.begun) {
            found.retain(|one| state.found.contains(one));
        }
        let before = std::mem::replace(&mut state.found, found.clone());
        let is_new = |one: &Found| !before.contains(one);
        found.into_iter().filter(is_new).collect()
    }

    /// All of them, under the names that their datasets have now.
    pub fn list(&self, dsl: &Arc<Dsl>) -> Vec<WaitingValue> {
        let found = self.0.lock().found.clone();
        let named = found.into_iter().filter_map(|one| named(dsl, one));
        named.collect()
    }
}

/// A value with the name of its dataset; `None` if that is gone.
pub fn named(dsl: &Arc<Dsl>, found: Found) -> Option<WaitingValue> {
    let dataset = dsl.dataset_of(found.dataset).ok()?;
    Some(WaitingValue {
        dataset: dataset.name().as_str().to_owned(),
        property: found.property.to_owned(),
        value: found.value,
    })
}
