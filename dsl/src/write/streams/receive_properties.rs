//! Properties that come with a stream (format/3a 11, format/4 7.3).
//!
//! A received value is stored next to the local one, which has precedence. Values that were
//! received earlier and are not in the stream any more are removed.

use super::postponed::Postponed;
use crate::error::DslError;
use crate::name::DatasetName;
use crate::object_sets::is_of_caching;
use crate::write::context::{SyncContext, SyncTask};
use crate::write::properties::Setting;

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
            return context.receive_snapshot_settings(&dataset, &self.settings);
        }
        let all = Postponed {
            received: self.settings.clone(),
            is_complete: true,
            own: Vec::new(),
        };
        context.apply_received(&dataset, &all)?;
        let mut settings = self.settings.iter();
        if settings.any(|setting| is_of_caching(&setting.name)) {
            context.dsl.refresh_caching();
        }
        context.dsl.refresh_policies()
    }
}
