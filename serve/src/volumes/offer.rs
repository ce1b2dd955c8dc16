//! What a server exports.
//!
//! A command names volumes and snapshots. The server identifies them by object number. So it does
//! not serve another dataset that gets the same name later, and serves a renamed one under its new
//! name. The daemon's own server also serves volumes whose property [`SERVED`] is `on`, unless
//! their `volmode` is `none`. It serves their snapshots read-only if `snapdev` is `visible`. Values
//! count only if they were set or approved on this machine (the engine's `approvals`).

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
    state: Mutex<State, ranks::ServedExports>,
}

#[derive(Default)]
struct State {
    commanded: Vec<Commanded>,
    /// How often something was to be served, by commands or the property.
    asked: u64,
}

/// Whether a property such as [`SERVED`] is `on` for a dataset, with an approved value.
pub(crate) fn has_property(pool: ApprovedIn<'_>, dataset: &Dataset, property: &str) -> bool {
    let found = pool.value(dataset, property);
    matches!(found, Ok(Some(value)) if value == "on")
}

/// Whether a head is a volume that the property `by` serves; with `snapshots`, whether it also
/// serves its snapshots.
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

/// Calls `each` with each volume and snapshot that a property serves. Returns whether the property
/// is on anywhere.
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
            state: Mutex::default(),
        })
    }

    /// Serves these, too. Without any, the property is on somewhere.
    pub fn add(&self, new: &[Commanded]) {
        let mut state = self.state.lock();
        state.asked += 1;
        state.commanded.retain(|old| {
            new.iter()
                .all(|new| (new.import, new.id) != (old.import, old.id))
        });
        state.commanded.extend(new);
    }

    /// How often something was added: a server ends only if nothing was since it had nothing.
    pub fn asked(&self) -> u64 {
        self.state.lock().asked
    }

    /// What commands named.
    pub fn commanded(&self) -> Vec<Commanded> {
        self.state.lock().commanded.clone()
    }

    /// Serves this no longer.
    pub fn remove(&self, gone: &Commanded) {
        let mut state = self.state.lock();
        state.commanded.retain(|one| one != gone);
    }

    /// Forgets volumes and snapshots that no longer exist.
    pub fn prune(&self) {
        for one in self.commanded() {
            if one.find(&self.registry).is_none() {
                self.remove(&one);
            }
        }
    }

    /// The exports, ordered by name.
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

    /// The names of the exports, without those that cannot be read.
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

    /// Whether a dataset is served. If so, returns whether it is read-only, and whether the
    /// property serves it.
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

    /// The name of the export that a client means. If there is only one export, the empty name
    /// stands for it.
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
        // The same error as for a dataset that is not served: clients must not learn what exists.
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
