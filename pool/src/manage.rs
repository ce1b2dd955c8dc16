//! Changes of a pool as a whole that are no changes of datasets.

use crate::create::random_guid;
use crate::pool::Pool;
use crate::sync::SyncError;
use cenote_base::Guid;
use cenote_dsl::write::EnableFeatures;
use cenote_ondisk::features::Feature;

impl Pool {
    /// Gives the pool another guid: `guid`, or a random one. Returns it.
    ///
    /// # Errors
    /// If the pool has a checkpoint, which knows the old one, or takes no changes.
    pub fn reguid(&self, guid: Option<Guid>) -> Result<Guid, SyncError> {
        let syncer = self.writer()?;
        if self.dsl().checkpoint()?.is_some() {
            let cause = "it has a checkpoint".to_owned();
            return Err(SyncError::Stopped { cause });
        }
        let guid = match guid {
            Some(guid) => guid,
            None => random_guid(self.env().as_ref()).map_err(|error| SyncError::Stopped {
                cause: error.to_string(),
            })?,
        };
        {
            let mut config = syncer.config();
            config.config.pool_guid = Some(guid);
            if let Some(root) = &mut config.config.vdev_tree {
                root.guid = guid;
            }
            config.touch();
        }
        self.sync()?;
        Ok(guid)
    }

    /// Changes the remark that stands in the configuration; empty for none.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn set_comment(&self, comment: &str) -> Result<(), SyncError> {
        let comment = Some(comment.to_owned()).filter(|comment| !comment.is_empty());
        {
            let mut config = self.writer()?.config();
            config.config.comment = comment;
            config.touch();
        }
        self.sync()
    }

    /// Changes the `compatibility` property; `off` for none.
    ///
    /// # Errors
    /// If the pool takes no changes.
    pub fn set_compatibility(&self, value: &str) -> Result<(), SyncError> {
        let value = Some(value.to_owned()).filter(|value| !value.is_empty() && value != "off");
        {
            let mut config = self.writer()?.config();
            config.config.compatibility = value;
            config.touch();
        }
        self.sync()
    }

    /// Enables features that are not, each after those that it builds on.
    ///
    /// # Errors
    /// If one builds on a feature that is disabled, or the pool takes no changes.
    pub fn enable_features(&self, features: Vec<&'static Feature>) -> Result<(), SyncError> {
        self.run_task(EnableFeatures { features }).map(|_| ())
    }
}
