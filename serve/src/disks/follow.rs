//! Makes the disks that commands and the property ask for, and ends the others.
//!
//! This runs after each request that may have changed which disks are wanted: an import, a new
//! dataset or snapshot, a property, a key. It walks over all datasets if the property is on
//! anywhere, or commands asked for disks. A disk that is no longer wanted ends at once, or when it
//! is closed.
//!
//! No disk can be made while its dataset is being changed or its pool is suspended. It is made
//! after the request that ends this.

use super::disk::Disk;
use super::label::Label;
use super::seam::{KernelDisks, LeftDisk};
use super::table::Key;
use crate::context::Context;
use crate::volumes::offer::{Commanded, each_by_property, is_read_only};
use cenote_control::model::ControlError;
use cenote_dsl::Dataset;
use cenote_engine::properties::DISK;
use cenote_engine::{Grip, Imported, LetsGo, Opening, ServedVolume, User, check_volume};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// A disk that should be there.
struct Wanted {
    imported: Arc<Imported>,
    dataset: Dataset,
    is_read_only: bool,
    is_by_property: bool,
}

impl Wanted {
    fn label(&self) -> Label {
        Label::of(&self.imported, &self.dataset, self.is_read_only)
    }
}

/// Whether a disk that a command asked for can only be read.
pub(super) fn is_for_reading(one: &Commanded, imported: &Imported, dataset: &Dataset) -> bool {
    one.is_read_only || is_read_only(dataset) || !imported.can_change(dataset)
}

type AllWanted = BTreeMap<Key, Wanted>;
type Left = Vec<(Label, LeftDisk)>;
type Failures = BTreeMap<String, String>;

impl Context {
    /// Makes the disks that should be there, and ends the others.
    pub fn follow_disks(&self) {
        let left = self.disks.left();
        self.adopt(&left);
        let (wanted, is_on) = self.wanted_disks();
        let by_property = wanted.iter().filter(|(_, wanted)| wanted.is_by_property);
        let by_property = by_property.map(|(key, _)| *key).collect();
        self.disks.set_by_property(is_on, by_property);
        self.retire(&wanted);
        let mut failures = Failures::new();
        if wanted.is_empty() {
            self.disks.set_unavailable(None);
        } else {
            match self.disks.check() {
                Ok(kernel) => {
                    self.disks.set_unavailable(None);
                    self.start_all(kernel, &wanted, &left, &mut failures);
                }
                Err(fault) => {
                    if self.disks.set_unavailable(Some(fault.to_string())) {
                        log::warn!("volumes with {DISK}=on get no disk: {fault}");
                    }
                }
            }
        }
        for news in self.disks.set_failures(failures) {
            log::warn!("{news}");
        }
        self.disks.place.links.prune_dead();
    }

    /// Counts disks of earlier daemons as requested by a command, because they may be open. Their
    /// pool must be imported, and the property must not ask for them.
    fn adopt(&self, left: &Left) {
        let mut adopted = Vec::new();
        for imported in self.registry.all() {
            for (label, _) in left
                .iter()
                .filter(|(one, _)| one.pool == imported.pool.guid())
            {
                let Ok(dataset) = imported.dsl().dataset_of(label.object) else {
                    continue;
                };
                let key = (imported.load_guid, dataset.id());
                let is_known = self.disks.disk(key).is_some();
                let is_read_only = label.is_read_only;
                if !is_known && label.is_same(&Label::of(&imported, &dataset, is_read_only)) {
                    adopted.push(Commanded::new(&imported, &dataset, is_read_only));
                }
            }
        }
        if adopted.is_empty() {
            return;
        }
        let mut by_property = BTreeSet::new();
        each_by_property(&self.registry, DISK, |imported, dataset| {
            by_property.insert((imported.load_guid, dataset.id()));
        });
        adopted.retain(|one| !by_property.contains(&one.key()));
        let commanded = self.disks.commanded();
        adopted.retain(|one| commanded.iter().all(|other| other.key() != one.key()));
        self.disks.add(&adopted);
    }

    /// The wanted disks, and whether the property is on anywhere.
    fn wanted_disks(&self) -> (AllWanted, bool) {
        let mut all = AllWanted::new();
        let is_on = each_by_property(&self.registry, DISK, |imported, dataset| {
            let key = (imported.load_guid, dataset.id());
            let Ok(own) = imported.dsl().dataset_of(dataset.id()) else {
                return;
            };
            let wanted = Wanted {
                imported: Arc::clone(imported),
                dataset: own,
                is_read_only: is_read_only(dataset) || !imported.can_change(dataset),
                is_by_property: true,
            };
            all.insert(key, wanted);
        });
        for one in self.disks.commanded() {
            let Some((imported, dataset)) = one.find(&self.registry) else {
                // It was destroyed, or its pool is exported.
                self.disks.remove(one.key());
                continue;
            };
            let is_read_only = is_for_reading(&one, &imported, &dataset);
            let wanted = all.entry(one.key()).or_insert_with(|| Wanted {
                imported,
                dataset,
                is_read_only,
                is_by_property: false,
            });
            wanted.is_read_only = is_read_only;
        }
        (all, is_on)
    }

    /// Ends disks that nothing asks for, and disks that need another label.
    fn retire(&self, all: &AllWanted) {
        for disk in self.disks.all() {
            let wanted = all.get(&disk.key);
            if disk.is_gone() {
                self.disks.forget(&disk);
                continue;
            }
            if wanted.is_some_and(|wanted| wanted.label() == disk.label) {
                disk.set_leaving(false);
                continue;
            }
            match disk.let_go(Grip::UnusedNow) {
                Ok(()) => self.disks.forget(&disk),
                Err(_) => disk.set_leaving(wanted.is_none()),
            }
        }
    }

    fn start_all(
        &self,
        kernel: &dyn KernelDisks,
        all: &AllWanted,
        left: &Left,
        failures: &mut Failures,
    ) {
        for (key, wanted) in all {
            let name = wanted.dataset.name().to_string();
            if let Err(reason) = self.start_one(kernel, *key, wanted, left) {
                failures.insert(name, reason);
                continue;
            }
            let Some(disk) = self.disks.disk(*key) else {
                continue;
            };
            let is_ours = |number| left.iter().any(|(_, left)| left.number == number);
            if let Err(reason) = disk.link(&name, is_ours) {
                failures.insert(name, reason);
            }
        }
    }

    /// Starts a disk, or takes over the one that an earlier daemon left. Does nothing if the
    /// dataset has a disk already.
    fn start_one(
        &self,
        kernel: &dyn KernelDisks,
        key: Key,
        wanted: &Wanted,
        left: &Left,
    ) -> Result<(), String> {
        let label = wanted.label();
        let place = self.disks.place.clone();
        let disk = Disk::starting(key, label.clone(), place);
        if !self.disks.insert(&disk) {
            return Ok(());
        }
        let started = open(wanted, &disk).map_err(|error| error.to_string());
        let started = started.and_then(|volume| {
            let size = volume.volume().size();
            let earlier = left.iter().find(|(one, _)| one.is_same(&label));
            let kernel_disk = match earlier {
                Some((_, left)) => kernel.recover(volume, left),
                None => kernel.start(volume, &label.to_string()),
            };
            match kernel_disk {
                Ok(kernel_disk) => Ok((kernel_disk, size)),
                Err(fault) => Err(match earlier {
                    Some((_, left)) => format!(
                        "the disk ublkb{} of an earlier daemon cannot be taken over: {fault}. \
                         Unmount it, then run 'cenote ublk stop' for it",
                        left.number
                    ),
                    None => fault.to_string(),
                }),
            }
        });
        match started {
            Ok((kernel_disk, size)) => {
                disk.run(kernel_disk, size);
                Ok(())
            }
            Err(reason) => {
                disk.give_up();
                self.disks.forget(&disk);
                Err(reason)
            }
        }
    }
}

fn open(wanted: &Wanted, disk: &Arc<Disk>) -> Result<ServedVolume, ControlError> {
    let Wanted {
        imported, dataset, ..
    } = wanted;
    check_volume(dataset)?;
    if imported.pool.is_waiting() {
        // The kernel reads a new disk, so making it would wait for the devices.
        let pool = imported.name().to_owned();
        return Err(ControlError::Suspended { pool });
    }
    let user = Arc::clone(disk) as Arc<dyn LetsGo>;
    let user: Weak<dyn LetsGo> = Arc::downgrade(&user);
    let opening = Opening {
        is_read_only: wanted.is_read_only,
        is_by_property: wanted.is_by_property,
        user: User::Disk(user),
    };
    ServedVolume::open(imported, dataset, opening)
}
