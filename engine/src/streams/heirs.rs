//! Which datasets of a raw package have their parents' keys (format/4 7.4).

use super::raw_keys::is_parent_of;
use super::session::Session;
use crate::errors::{of_dsl, of_sync};
use cenote_control::model::ControlError;
use cenote_dsl::write::InheritKey;
use cenote_dsl::{Dataset, DslError};
use cenote_ondisk::stream::package::{Package, PackageDataset};

impl Session<'_> {
    /// Makes encryption roots the heirs of their parents where the package says so. A stream does
    /// that for its own dataset. But below a root whose key changed, or where a stream came by
    /// itself before, it could not.
    pub fn inherit_keys(&self, package: &Package, sent: &str) -> Result<(), ControlError> {
        if !package.raw || self.asked.dry_run {
            return Ok(());
        }
        for (name, told) in self.copies_below(package, sent)? {
            if told.is_encryption_root {
                continue;
            }
            let imported = self.context.registry.writable_pool(name.pool())?;
            let head = imported.dsl().dataset(&name).map_err(of_dsl)?;
            if !is_to_inherit(&head, told).map_err(of_dsl)? {
                continue;
            }
            self.by.check(&imported, &name, &["change-key"])?;
            let inherited = imported
                .pool
                .run_command(InheritKey { name }, &self.by.actor, "");
            inherited.map_err(|error| of_sync(imported.name(), error))?;
        }
        Ok(())
    }
}

/// Whether a dataset has another encryption root than its parent, which is a copy of the sender's.
fn is_to_inherit(head: &Dataset, told: &PackageDataset) -> Result<bool, DslError> {
    let directory = head.directory();
    let (Some(parent), Some(key)) = (directory.parent(), directory.crypto_key()?) else {
        return Ok(false);
    };
    let above = parent.crypto_key()?.map(|above| above.root());
    if above.is_none_or(|root| root == key.root()) {
        return Ok(false);
    }
    match parent.head()? {
        Some(parent) => is_parent_of(&parent, told),
        None => Ok(false),
    }
}
