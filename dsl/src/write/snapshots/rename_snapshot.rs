//! Giving snapshots other names (format/3a 7).

use crate::error::DslError;
use crate::name::{DatasetName, is_hidden_component};
use crate::write::context::{SyncContext, SyncTask};

/// Renames snapshots of one name of several datasets, all in one transaction group or none.
#[derive(Debug)]
pub struct RenameSnapshots {
    /// The datasets; with more than one, those without such a snapshot are passed over.
    pub datasets: Vec<DatasetName>,
    /// The old name, without the dataset and the `@`.
    pub from: String,
    /// The new one.
    pub to: String,
}

fn named(dataset: &DatasetName, component: &str) -> Result<DatasetName, DslError> {
    let named = dataset.snapshot(component.as_bytes());
    named.map_err(|source| DslError::BadName {
        text: format!("{dataset}@{component}"),
        source,
    })
}

impl SyncTask for RenameSnapshots {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let mut found = false;
        for dataset in &self.datasets {
            let head = context.dsl.dataset(dataset)?;
            if head.snapshot(self.from.as_bytes())?.is_none() {
                continue;
            }
            found = true;
            let to = named(dataset, &self.to)?;
            if let Some(there) = head.snapshot(self.to.as_bytes())?
                && there.name().after_delimiter() != Some(self.from.as_str())
            {
                return Err(DslError::DatasetExists { name: to });
            }
        }
        match (found, self.datasets.first()) {
            (false, Some(dataset)) => Err(DslError::NoSuchDataset {
                name: named(dataset, &self.from)?,
            }),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        for dataset in &self.datasets {
            let head = context.dsl.dataset(dataset)?;
            let Some(snapshot) = head.snapshot(self.from.as_bytes())? else {
                continue;
            };
            let names = head.phys().snapshot_names;
            let problem = "a head has no snapshot names";
            let names = names.ok_or(DslError::structure(head.id(), problem))?;
            let old = snapshot.name().after_delimiter().unwrap_or_default();
            context.remove_entry(names, old.as_bytes())?;
            context.set_number(names, self.to.as_bytes(), snapshot.id().0)?;
            let counted = |name: &str| i64::from(!is_hidden_component(name.as_bytes()));
            let change = counted(&self.to) - counted(old);
            let directory = head.directory().id();
            context.change_counts(Some(directory), 0, change)?;
            context.note_snapshots_changed(directory)?;
        }
        Ok(())
    }
}
