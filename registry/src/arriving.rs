//! Names of pools that are being imported or created.
//!
//! A pool is in the registry only once it is open, which may take minutes. Meanwhile another
//! request could open a second pool for the same name, write to it, and only then be refused.

use crate::table::Registry;
use cenote_base::rt::{Mutex, ranks};
use std::collections::BTreeSet;

/// The names that are claimed.
#[derive(Debug, Default)]
pub struct Arriving {
    names: Mutex<BTreeSet<String>, ranks::ArrivingPools>,
}

/// A name that no other pool gets, until this is dropped.
#[derive(Debug)]
pub struct Claim<'a> {
    arriving: &'a Arriving,
    name: String,
}

impl Arriving {
    /// Claims a name; `None` if a pool has it, or is to have it.
    pub fn claim(&self, registry: &Registry, name: &str) -> Option<Claim<'_>> {
        let mut names = self.names.lock();
        let is_free = registry.pool(name).is_err() && names.insert(name.to_owned());
        is_free.then(|| Claim {
            arriving: self,
            name: name.to_owned(),
        })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.arriving.names.lock().remove(&self.name);
    }
}
