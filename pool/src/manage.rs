//! Changes of a pool as a whole that are no changes of datasets: its configuration's fields and
//! its features.

use crate::create::random_guid;
use crate::pool::Pool;
use crate::sync::{Actor, SyncError, Syncer};
use cenote_base::Guid;
use cenote_dsl::DslError;
use cenote_dsl::write::{EnableFeatures, SyncContext, SyncTask};
use cenote_ondisk::PoolConfig;
use cenote_ondisk::features::{Feature, by_guid};
use cenote_ondisk::uberblock::VERSION_FEATURES;
use std::sync::Arc;

/// Changes the configuration. That is for the syncing thread alone: the copy in the metadata, the
/// labels and the sum of guids in the uberblock of one group must not be of different states.
struct ChangeConfig<F> {
    syncer: Arc<Syncer>,
    change: F,
}

impl<F: FnMut(&mut PoolConfig) + Send> SyncTask for ChangeConfig<F> {
    fn sync(&mut self, _: &SyncContext<'_>) -> Result<(), DslError> {
        let mut config = self.syncer.config();
        (self.change)(&mut config.config);
        config.touch();
        Ok(())
    }
}

/// Leaves the old pool versions. The tables, the uberblock and the labels change with one group.
struct BeginFeatures {
    syncer: Arc<Syncer>,
    enable: EnableFeatures,
}

impl SyncTask for BeginFeatures {
    fn check(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.enable.check(context)
    }

    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        let salt = context.begin_features()?;
        context.mos().cache().pipeline().learn_salt(salt);
        self.enable.sync(context)?;
        let mut config = self.syncer.config();
        config.config.version = VERSION_FEATURES;
        config.config.features_for_read.get_or_insert_default();
        config.touch();
        Ok(())
    }
}

/// A feature with all that it builds on, each after those that it builds on itself.
fn with_dependencies(feature: &'static Feature) -> Vec<&'static Feature> {
    let mut wanted = vec![feature];
    let mut next = 0;
    while let Some(feature) = wanted.get(next).copied() {
        next += 1;
        let more = feature.dependencies.iter().filter_map(|guid| by_guid(guid));
        for dependency in more {
            if !wanted.iter().any(|other| other.guid == dependency.guid) {
                wanted.push(dependency);
            }
        }
    }
    // Whatever all that it builds on is placed of comes next; dependencies have no circles.
    let mut order: Vec<&'static Feature> = Vec::with_capacity(wanted.len());
    while let Some(index) = wanted.iter().position(|feature| {
        let is_placed = |guid: &&str| order.iter().any(|placed| placed.guid == *guid);
        feature.dependencies.iter().all(is_placed)
    }) {
        order.push(wanted.remove(index));
    }
    assert!(wanted.is_empty(), "the table of features has no circles");
    order
}

impl Pool {
    /// Changes the configuration, notes the command, and waits until both are on disk.
    fn change_config(
        &self,
        actor: &Actor,
        command: &str,
        change: impl FnMut(&mut PoolConfig) + Send + 'static,
    ) -> Result<(), SyncError> {
        let syncer = Arc::clone(self.writer()?);
        let task = ChangeConfig { syncer, change };
        self.run_command(task, actor, command)?;
        self.renew_config();
        Ok(())
    }

    /// Gives the pool another guid: `guid`, or a random one. Returns it.
    ///
    /// # Errors
    /// If the pool has a checkpoint, which knows the old one, or takes no changes.
    pub fn reguid(
        &self,
        guid: Option<Guid>,
        actor: &Actor,
        command: &str,
    ) -> Result<Guid, SyncError> {
        if self.dsl().checkpoint()?.is_some() {
            return Err(DslError::CheckpointExists.into());
        }
        let random = || {
            random_guid(self.env().as_ref()).map_err(|error| SyncError::Stopped {
                cause: error.to_string(),
            })
        };
        let guid = guid.map_or_else(random, Ok)?;
        self.change_config(actor, command, move |config| {
            config.pool_guid = Some(guid);
            if let Some(root) = &mut config.vdev_tree {
                root.guid = guid;
            }
        })?;
        Ok(guid)
    }

    /// Changes the comment in the configuration; empty for none.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn set_comment(
        &self,
        comment: &str,
        actor: &Actor,
        command: &str,
    ) -> Result<(), SyncError> {
        let comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
        self.change_config(actor, command, move |config| {
            config.comment.clone_from(&comment);
        })
    }

    /// Changes the `compatibility` property; `off` for none.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn set_compatibility(
        &self,
        value: &str,
        actor: &Actor,
        command: &str,
    ) -> Result<(), SyncError> {
        let value = Some(value.to_owned()).filter(|value| !value.is_empty() && value != "off");
        self.change_config(actor, command, move |config| {
            config.compatibility.clone_from(&value);
        })
    }

    /// Enables a feature, and those that it builds on.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn enable_feature(
        &self,
        feature: &'static Feature,
        actor: &Actor,
        command: &str,
    ) -> Result<(), SyncError> {
        self.enable_features(&[feature], actor, command)
    }

    /// Enables features, and those that they build on. A pool with a version number becomes one
    /// with features, also if none is given.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn enable_features(
        &self,
        features: &[&'static Feature],
        actor: &Actor,
        command: &str,
    ) -> Result<(), SyncError> {
        let enable = EnableFeatures {
            features: self.lacking(features),
        };
        if self.dsl().version() >= VERSION_FEATURES {
            return self.run_command(enable, actor, command).map(|_| ());
        }
        let syncer = Arc::clone(self.writer()?);
        self.run_command(BeginFeatures { syncer, enable }, actor, command)?;
        self.renew_config();
        Ok(())
    }

    /// Those of `features` that are not enabled and what they build on, in the order to enable
    /// them.
    fn lacking(&self, features: &[&'static Feature]) -> Vec<&'static Feature> {
        let enabled = self.dsl().features();
        let mut wanted: Vec<&'static Feature> = Vec::new();
        for feature in features.iter().flat_map(|one| with_dependencies(one)) {
            let is_known = wanted.iter().any(|other| other.guid == feature.guid);
            if !is_known && enabled.get(feature.guid).is_none() {
                wanted.push(feature);
            }
        }
        wanted
    }

    /// The comment and the `compatibility` property as they are now.
    pub fn remarks(&self) -> (Option<String>, Option<String>) {
        match self.syncer() {
            Some(syncer) => {
                let config = syncer.config();
                let config = &config.config;
                (config.comment.clone(), config.compatibility.clone())
            }
            None => {
                let config = self.config();
                (config.comment.clone(), config.compatibility.clone())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_ondisk::features::{FEATURES, by_name};

    #[test]
    fn features_come_after_what_they_build_on() {
        for feature in FEATURES {
            let order = with_dependencies(feature);
            assert_eq!(order.last().map(|last| last.guid), Some(feature.guid));
            for (index, one) in order.iter().enumerate() {
                let before = |guid: &str| order[..index].iter().any(|o| o.guid == guid);
                assert!(
                    one.dependencies.iter().all(|guid| before(guid)),
                    "{}",
                    one.name
                );
            }
        }
        let bookmarks = by_name("bookmark_v2").expect("known");
        assert!(with_dependencies(bookmarks).len() >= 3);
    }
}
