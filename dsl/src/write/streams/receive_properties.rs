//! Properties that come with a stream (format/3a 11, format/4 7.3).
//!
//! A received value stands beside the local one, which wins. What a dataset had received before and
//! the stream does not have any more is taken away.

use crate::dataset::Dataset;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::object_sets::is_of_caching;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::properties::{RECEIVED, Setting, stored_value};

const HAS_RECEIVED: &str = "$hasrecvd";

/// Stores what came with a stream.
#[derive(Debug)]
pub struct SetReceived {
    /// The dataset or snapshot.
    pub name: DatasetName,
    /// The values; those that cannot be are left out, and are in `refused` then.
    pub settings: Vec<Setting>,
    /// What was left out, and why.
    pub refused: Vec<(String, DslError)>,
}

impl SetReceived {
    /// The settings that change what is in effect.
    fn effective(&self, dataset: &Dataset) -> Result<Vec<Setting>, DslError> {
        let own = dataset.directory().properties()?;
        let is_open = |setting: &&Setting| own.get(&setting.name).is_none();
        Ok(self.settings.iter().filter(is_open).cloned().collect())
    }
}

impl SyncTask for SetReceived {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        let mut kept = Vec::new();
        for setting in std::mem::take(&mut self.settings) {
            match context.check_setting(&dataset, &setting) {
                Ok(()) => kept.push(setting),
                Err(error) => self.refused.push((setting.name, error)),
            }
        }
        self.settings = kept;
        Ok(())
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let dataset = context.dsl.dataset(&self.name)?;
        if dataset.is_snapshot() {
            return context.apply_snapshot_settings(&dataset, &self.settings);
        }
        for setting in self.effective(&dataset)? {
            context.account_setting(&dataset, &setting)?;
        }
        let table = context.directory(dataset.directory().id())?.properties;
        context.set_number(table, HAS_RECEIVED.as_bytes(), 0)?;
        let before = dataset.directory().properties()?;
        for (name, _) in before.all_received() {
            if !self.settings.iter().any(|setting| setting.name == name) {
                context.remove_entry(table, format!("{name}{RECEIVED}").as_bytes())?;
            }
        }
        for setting in &self.settings {
            if let Some(value) = &setting.value {
                let key = format!("{}{RECEIVED}", setting.name);
                let zap = context.mos().zap(table)?;
                zap.update(context.tx, key.as_bytes(), &stored_value(value))?;
            }
        }
        if self
            .settings
            .iter()
            .any(|setting| is_of_caching(&setting.name))
        {
            context.dsl.refresh_caching();
        }
        context.dsl.refresh_policies()
    }
}
