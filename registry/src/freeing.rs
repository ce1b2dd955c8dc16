//! Ends the uses of open datasets before a change of the datasets as a whole.

use super::imported::Imported;
use super::served::{DisksHeld, Grip, LetsGo};
use super::walk::is_within;
use cenote_base::ObjectId;
use cenote_control::model::{ControlError, Refusal, UblkRefusal};
use cenote_dsl::DatasetName;
use std::sync::Arc;

/// Turns the refusal of an open disk into the error of commands that change datasets.
fn of_disk(dataset: &str, error: ControlError) -> ControlError {
    match error {
        ControlError::Refused(Refusal::Ublk(UblkRefusal::InUse { .. })) => {
            let dataset = dataset.to_owned();
            ControlError::DatasetBusy { dataset }
        }
        other => other,
    }
}

impl Imported {
    /// Frees a dataset, its snapshots and all below it. Ends disks that are not open. Refuses if
    /// clients keep volumes open or disks are open; with `force` disconnects and ends them, too.
    /// Until the returned value is dropped, no disk of this pool is made.
    ///
    /// # Errors
    /// [`ControlError::DatasetBusy`] with the volume in use.
    pub fn free_below(
        &self,
        top: &DatasetName,
        force: bool,
    ) -> Result<DisksHeld<'_>, ControlError> {
        self.free_where(force, |name| is_within(&name.dataset(), top))
    }

    /// The same for the dataset and its snapshots alone.
    pub fn free_dataset(
        &self,
        dataset: &DatasetName,
        force: bool,
    ) -> Result<DisksHeld<'_>, ControlError> {
        self.free_where(force, |name| name.dataset() == *dataset)
    }

    /// The same for all volumes of the pool.
    pub fn free_all(&self, force: bool) -> Result<DisksHeld<'_>, ControlError> {
        self.free_where(force, |_| true)
    }

    /// The same for clients alone.
    pub fn free_of_clients(&self, force: bool) -> Result<(), ControlError> {
        self.free_clients_where(force, |_| true)
    }

    /// Ends the disks for which `is_meant` holds, unless they are open. No disk of this pool is
    /// made until the returned value is dropped.
    pub fn free_unused_disks(&self, is_meant: impl Fn(ObjectId) -> bool) -> DisksHeld<'_> {
        let held = self.served.hold();
        for (id, disk) in self.served.disks() {
            // A disk that is open stays as it is.
            if is_meant(id) && disk.let_go(Grip::Unused).is_ok() {
                self.served.await_disks(&[id]);
            }
        }
        held
    }

    pub(super) fn free_where(
        &self,
        force: bool,
        is_meant: impl Fn(&DatasetName) -> bool,
    ) -> Result<DisksHeld<'_>, ControlError> {
        let held = self.served.hold();
        let disks = self.served.disks().into_iter();
        let disks = disks.map(|(id, disk)| (self.name_if(id, &is_meant), id, disk));
        let disks: Vec<(String, ObjectId, Arc<dyn LetsGo>)> = disks
            .filter_map(|(name, id, disk)| Some((name?, id, disk)))
            .collect();
        let let_go = |grip: Grip| {
            let mut each = disks.iter();
            each.try_for_each(|(name, _, disk)| {
                disk.let_go(grip).map_err(|error| of_disk(name, error))
            })
        };
        if !force {
            // All of them or none.
            let_go(Grip::Look)?;
        }
        self.free_clients_where(force, is_meant)?;
        let_go(if force { Grip::Force } else { Grip::Unused })?;
        let ids: Vec<ObjectId> = disks.iter().map(|(_, id, _)| *id).collect();
        match disks.first() {
            Some((name, ..)) if !self.served.await_disks(&ids) => Err(ControlError::DatasetBusy {
                dataset: name.clone(),
            }),
            _ => Ok(held),
        }
    }

    /// The name of an open dataset, if it is meant.
    fn name_if(&self, id: ObjectId, is_meant: impl Fn(&DatasetName) -> bool) -> Option<String> {
        // A dataset whose name cannot be read counts as meant.
        let name = self.dsl().dataset_of(id).map(|found| found.name().clone());
        name.as_ref()
            .map_or(true, is_meant)
            .then(|| name.map_or_else(|_| self.name().to_owned(), |name| name.to_string()))
    }

    fn free_clients_where(
        &self,
        force: bool,
        is_meant: impl Fn(&DatasetName) -> bool,
    ) -> Result<(), ControlError> {
        let mut meant = Vec::new();
        for (id, _) in self.served.datasets() {
            meant.extend(self.name_if(id, &is_meant).map(|name| (id, name)));
        }
        let Some((_, dataset)) = meant.first().cloned() else {
            return Ok(());
        };
        let ids: Vec<ObjectId> = meant.iter().map(|(id, _)| *id).collect();
        let is_free = match force {
            true => self.served.hang_up(|id, _| ids.contains(&id)),
            false => self.served.await_leaving(&ids),
        };
        match is_free {
            true => Ok(()),
            false => Err(ControlError::DatasetBusy { dataset }),
        }
    }
}
