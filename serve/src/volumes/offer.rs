//! What a server exports.
//!
//! A command names volumes and snapshots. They are known by their number in the pool, so another
//! dataset that gets the same name later is not served, and one that is renamed is served under
//! its new name. The daemon's own server also serves what the property [`SERVED`] says: volumes
//! for which it is `on`, unless their `volmode` is `none`, and their snapshots, read-only, where
//! `snapdev` is `visible`. Values that nobody on this machine said yes to do not count
//! (the engine's `approvals`).

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::{ControlError, NbdExport};
use cenote_dsl::{Dataset, DatasetType, Property};
use cenote_engine::errors::parse_name;
use cenote_engine::properties::SERVED;
use cenote_engine::properties::{HIDDEN, SNAPSHOTS, VISIBLE, VOLUME_MODE};
use cenote_engine::{
    ApprovedIn, HangUp, Imported, Opening, Registry, ServedVolume, User, check_volume, walk_heads,
};
use cenote_volume::Volume;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A volume or snapshot that a command named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commanded {
    /// Names the import of the pool.
    import: u64,
    id: ObjectId,
    pub is_read_only: bool,
}

impl Commanded {
    pub fn new(imported: &Imported, dataset: &Dataset, is_read_only: bool) -> Self {
        Self {
            import: imported.load_guid,
            id: dataset.id(),
            is_read_only,
        }
    }

    /// The import of its pool, and its number there.
    pub fn key(&self) -> (u64, ObjectId) {
        (self.import, self.id)
    }

    /// Whether it is in this pool.
    pub fn is_of(&self, imported: &Imported) -> bool {
        self.import == imported.load_guid
    }

    fn is(&self, imported: &Imported, dataset: &Dataset) -> bool {
        (self.import, self.id) == (imported.load_guid, dataset.id())
    }

    /// The dataset, if it is still there.
    pub fn find(&self, registry: &Registry) -> Option<(Arc<Imported>, Dataset)> {
        let pools = registry.all();
        let imported = pools
            .into_iter()
            .find(|pool| pool.load_guid == self.import)?;
        let dataset = imported.dsl().dataset_of(self.id).ok()?;
        Some((imported, dataset))
    }
}

/// The exports of a server.
pub(crate) struct Offer {
    registry: Arc<Registry>,
    /// Whether the property counts.
    is_default: bool,
    commanded: Mutex<Vec<Commanded>, ranks::ServedExports>,
}

/// Whether a property ([`SERVED`] or the like) may and does say that a dataset, or what is below
/// it, is served.
pub(crate) fn has_property(pool: ApprovedIn<'_>, dataset: &Dataset, property: &str) -> bool {
    let found = pool.value(dataset, property);
    matches!(found, Ok(Some(value)) if value == "on")
}

/// Whether the properties of a head serve it; of a volume, with `snapshots` its snapshots.
fn is_served_head(pool: ApprovedIn<'_>, head: &Dataset, by: &str, snapshots: bool) -> bool {
    let is = |property, wanted| {
        let found = pool.value(head, property);
        found.map(|value| value.as_deref() == Some(wanted))
    };
    has_property(pool, head, by)
        && matches!(head.dataset_type(), Ok(DatasetType::Volume))
        && matches!(is(VOLUME_MODE, HIDDEN), Ok(false))
        && (!snapshots || matches!(is(SNAPSHOTS, VISIBLE), Ok(true)))
}

/// Whether a volume or snapshot is served because of a property.
pub(crate) fn is_by_property(pool: ApprovedIn<'_>, dataset: &Dataset, by: &str) -> bool {
    if !dataset.is_snapshot() {
        return is_served_head(pool, dataset, by, false);
    }
    let head = dataset.directory().head().ok().flatten();
    head.is_some_and(|head| is_served_head(pool, &head, by, true))
}

/// Whether the property `readonly` keeps a volume from being written to.
pub(crate) fn is_read_only(dataset: &Dataset) -> bool {
    dataset.is_snapshot()
        || dataset
            .stored_number(Property::ReadOnly)
            .map_or(true, |on| on != 0)
}

/// Calls `each` with what a property serves; whether the property is on anywhere.
pub(crate) fn each_by_property(
    registry: &Registry,
    by: &str,
    mut each: impl FnMut(&Arc<Imported>, &Dataset),
) -> bool {
    let mut is_on = false;
    for imported in registry.all() {
        let pool = registry.approved_in(&imported);
        walk_heads(imported.dsl(), |head| {
            is_on |= has_property(pool, head, by);
            if !is_served_head(pool, head, by, false) {
                return;
            }
            each(&imported, head);
            if !is_served_head(pool, head, by, true) {
                return;
            }
            for entry in head.listed_snapshots().unwrap_or_default() {
                if let Ok(snapshot) = head.open_snapshot(&entry) {
                    each(&imported, &snapshot);
                }
            }
        });
    }
    is_on
}

impl Offer {
    pub fn new(registry: &Arc<Registry>, is_default: bool) -> Arc<Self> {
        Arc::new(Self {
            registry: Arc::clone(registry),
            is_default,
            commanded: Mutex::default(),
        })
    }

    /// Serves these, too.
    pub fn add(&self, new: &[Commanded]) {
        let mut commanded = self.commanded.lock();
        commanded.retain(|old| {
            new.iter()
                .all(|new| (new.import, new.id) != (old.import, old.id))
        });
        commanded.extend(new);
    }

    /// What commands named.
    pub fn commanded(&self) -> Vec<Commanded> {
        self.commanded.lock().clone()
    }

    /// Serves this no longer.
    pub fn remove(&self, gone: &Commanded) {
        let mut commanded = self.commanded.lock();
        commanded.retain(|one| one != gone);
    }

    /// Forgets what commands named and is gone.
    pub fn prune(&self) {
        for one in self.commanded() {
            if one.find(&self.registry).is_none() {
                self.remove(&one);
            }
        }
    }

    /// What is served, in order of name.
    pub fn exports(&self) -> Vec<NbdExport> {
        let mut exports = BTreeMap::new();
        let mut note = |dataset: &Dataset, is_read_only: bool, is_by_property: bool| {
            let set = dataset.object_set().ok();
            let volume = set.and_then(|set| Volume::open(set).ok());
            let name = dataset.name().as_str().to_owned();
            let export = NbdExport {
                name: name.clone(),
                size: volume.map(|volume| volume.size()),
                is_read_only,
                is_by_property,
            };
            exports.insert(name, export);
        };
        if self.is_default {
            each_by_property(&self.registry, SERVED, |imported, dataset| {
                note(
                    dataset,
                    is_read_only(dataset) || !imported.can_change(dataset),
                    true,
                );
            });
        }
        for one in self.commanded() {
            if let Some((imported, dataset)) = one.find(&self.registry) {
                let is_for_reading = one.is_read_only || is_read_only(&dataset);
                note(
                    &dataset,
                    is_for_reading || !imported.can_change(&dataset),
                    false,
                );
            }
        }
        exports.into_values().collect()
    }

    /// The names of what is served; what cannot be read is left out.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        if self.is_default {
            each_by_property(&self.registry, SERVED, |_, dataset| {
                names.push(dataset.name().as_str().to_owned());
            });
        }
        let commanded = self.commanded().into_iter();
        let found = commanded.filter_map(|one| one.find(&self.registry));
        names.extend(found.map(|(_, dataset)| dataset.name().as_str().to_owned()));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether a dataset is served: read-only or not, and whether because of the property.
    pub fn serves(&self, imported: &Imported, dataset: &Dataset) -> Option<(bool, bool)> {
        let commanded = self.commanded();
        let found = commanded.iter().find(|one| one.is(imported, dataset));
        match found {
            Some(one) => Some((one.is_read_only || is_read_only(dataset), false)),
            None if self.is_default => {
                let pool = self.registry.approved_in(imported);
                let is_served = is_by_property(pool, dataset, SERVED);
                is_served.then(|| (is_read_only(dataset), true))
            }
            None => None,
        }
    }

    /// The name of what a client means. The empty name stands for the only export, if there is
    /// only one.
    pub fn resolved(&self, name: &str) -> String {
        match (name.is_empty(), self.names().as_slice()) {
            (true, [only]) => only.clone(),
            _ => name.to_owned(),
        }
    }

    /// Opens a volume by its name for a client that `hang_up` disconnects.
    ///
    /// # Errors
    /// [`ControlError::NoSuchDataset`] if nothing of that name is served, or why it cannot be
    /// opened.
    pub fn open(&self, name: &str, hang_up: HangUp) -> Result<ServedVolume, ControlError> {
        let missing = || ControlError::NoSuchDataset {
            dataset: name.to_owned(),
        };
        let name = parse_name(name).map_err(|_| missing())?;
        // Whoever may not have it does not learn whether it is there.
        let (imported, dataset) = self.registry.dataset(&name).map_err(|_| missing())?;
        let serves = self.serves(&imported, &dataset);
        let (is_read_only, is_by_property) = serves.ok_or_else(missing)?;
        let opening = Opening {
            is_read_only,
            is_by_property,
            user: User::Client(hang_up),
        };
        ServedVolume::open(&imported, &dataset, opening)
    }
}

/// What a command names, if it can be served.
pub(crate) fn commanded(
    registry: &Registry,
    names: &[String],
    is_read_only: bool,
) -> Result<Vec<Commanded>, ControlError> {
    let each = names.iter().map(|name| {
        let (imported, dataset) = registry.dataset(&parse_name(name)?)?;
        check_volume(&dataset)?;
        let is_read_only = is_read_only || dataset.is_snapshot();
        Ok(Commanded::new(&imported, &dataset, is_read_only))
    });
    each.collect()
}
