//! Datasets freed of the clients that have them open, before they are changed as a whole.

use super::imported::Imported;
use super::walk::is_within;
use cenote_base::ObjectId;
use cenote_control::model::ControlError;
use cenote_dsl::DatasetName;

impl Imported {
    /// Refuses to touch a dataset, its snapshots and all below it while clients have volumes there
    /// open; with `force` disconnects them.
    ///
    /// # Errors
    /// [`ControlError::DatasetBusy`] with the volume in use.
    pub fn free_below(&self, top: &DatasetName, force: bool) -> Result<(), ControlError> {
        self.free_where(force, |name| is_within(&name.dataset(), top))
    }

    /// The same for the dataset and its snapshots alone.
    pub fn free_dataset(&self, dataset: &DatasetName, force: bool) -> Result<(), ControlError> {
        self.free_where(force, |name| name.dataset() == *dataset)
    }

    /// The same for all volumes of the pool.
    pub fn free_all(&self, force: bool) -> Result<(), ControlError> {
        self.free_where(force, |_| true)
    }

    fn free_where(
        &self,
        force: bool,
        is_meant: impl Fn(&DatasetName) -> bool,
    ) -> Result<(), ControlError> {
        let mut meant = Vec::new();
        for (id, _) in self.served.datasets() {
            // Of what cannot be named any more nobody can say that it is not meant.
            let name = self.dsl().dataset_of(id).map(|found| found.name().clone());
            if name.as_ref().map_or(true, &is_meant) {
                let name = name.map_or_else(|_| self.name().to_owned(), |name| name.to_string());
                meant.push((id, name));
            }
        }
        let Some((_, dataset)) = meant.first().cloned() else {
            return Ok(());
        };
        let ids: Vec<ObjectId> = meant.iter().map(|(id, _)| *id).collect();
        match force && self.served.hang_up(|id, _| ids.contains(&id)) {
            true => Ok(()),
            false => Err(ControlError::DatasetBusy { dataset }),
        }
    }
}
