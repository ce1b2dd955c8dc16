//! Properties of vdevs (format/3c 7), and what some of them do.
//!
//! They are entries of the ZAP of a vdev: the root's, a top-level vdev's, a leaf's. A path is in
//! the configuration instead, and *allocating* in both.

use crate::pool::Pool;
use crate::sync::{Actor, SyncError, Syncer, log_event};
use cenote_base::{Guid, ObjectId, VdevId};
use cenote_dsl::write::{SyncContext, SyncTask};
use cenote_dsl::{DslError, Stored};
use cenote_ondisk::{VdevConfig, VdevKind};
use cenote_vdev::AllocationClass;
use std::path::PathBuf;
use std::sync::Arc;

const ALLOCATING: &str = "allocating";
const PATH: &str = "path";

/// A property of a vdev with its value.
#[derive(Clone, Debug, PartialEq)]
pub enum VdevSetting {
    /// One that is only stored; `None` takes it away.
    Stored(String, Option<Stored>),
    /// Whether new blocks are put on a top-level vdev.
    Allocating(bool),
    /// Where a device is looked for first.
    Path(PathBuf),
    /// Whether a device of raidz or dRAID sits out reads, until it is exported.
    SitsOut(bool),
}

/// Why a property is not set.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VdevSettingError {
    /// The vdev has no such property, or the pool keeps none for it.
    #[error("operation not supported on this type of vdev")]
    NotForThis,
    /// There is no such vdev, or the others could not do without it.
    #[error("invalid argument for this pool operation")]
    Impossible,
    /// The pool takes no changes.
    #[error(transparent)]
    Sync(#[from] SyncError),
}

impl VdevSetting {
    /// Name and value as in the pool's history.
    fn describe(&self) -> String {
        match self {
            Self::Stored(name, None) => format!("{name}="),
            Self::Stored(name, Some(Stored::Text(text))) => format!("{name}={text}"),
            // As a signed number, so that "none" is -1.
            Self::Stored(name, Some(Stored::Number(number))) => {
                format!("{name}={}", number.cast_signed())
            }
            Self::Allocating(is_on) => format!("{ALLOCATING}={}", u8::from(*is_on)),
            Self::Path(path) => format!("{PATH}={}", path.display()),
            Self::SitsOut(is_on) => format!("sit_out={}", u8::from(*is_on)),
        }
    }
}

/// The vdev with this guid, and whether it is a top-level one.
fn find(root: &VdevConfig, guid: Guid) -> Option<(&VdevConfig, bool)> {
    let is_top = root.children.iter().any(|top| top.guid == guid);
    let found = root.walk().find(|vdev| vdev.guid == guid)?;
    Some((found, is_top))
}

/// The table that a vdev has for its properties.
fn table(vdev: &VdevConfig) -> Option<ObjectId> {
    match vdev.kind {
        VdevKind::Root => vdev.root_zap,
        _ => vdev.top_zap.or(vdev.leaf_zap),
    }
}

struct SetVdevProperty {
    syncer: Arc<Syncer>,
    guid: Guid,
    setting: VdevSetting,
    actor: Actor,
    refusal: Option<VdevSettingError>,
}

impl SetVdevProperty {
    /// Whether new blocks would find no vdev if this one took none.
    fn is_last(&self, id: VdevId) -> bool {
        let class = |id| self.syncer.vdevs.shape().class(id).unwrap_or_default();
        let takes_blocks = |top: &VdevConfig| {
            let id = top.id.unwrap_or_default();
            top.kind.is_concrete()
                && !top.non_allocating
                && !top.removing
                && class(id) == AllocationClass::Normal
        };
        let config = self.syncer.config();
        let tops = config
            .config
            .vdev_tree
            .iter()
            .flat_map(|root| &root.children);
        let mut others = tops.filter(|top| top.id != Some(id));
        class(id) == AllocationClass::Normal && !others.any(takes_blocks)
    }

    fn change_config(&self, change: impl FnOnce(&mut VdevConfig)) {
        let mut config = self.syncer.config();
        if let Some(vdev) = config.vdev_mut(self.guid) {
            change(vdev);
            config.touch();
        }
    }

    fn set(&self, context: &SyncContext<'_>) -> Result<Option<VdevSettingError>, DslError> {
        let root = self.syncer.config().config.vdev_tree.clone();
        let found = root.as_ref().and_then(|root| find(root, self.guid));
        let Some((vdev, is_top)) = found else {
            return Ok(Some(VdevSettingError::Impossible));
        };
        let Some(table) = table(vdev) else {
            return Ok(Some(VdevSettingError::NotForThis));
        };
        match &self.setting {
            VdevSetting::Stored(name, value) => {
                context.set_property(table, name, value.as_ref())?;
            }
            VdevSetting::Allocating(is_on) => {
                let id = vdev.id.unwrap_or_default();
                if !is_top || vdev.is_log || !vdev.kind.is_concrete() {
                    return Ok(Some(VdevSettingError::NotForThis));
                }
                if !is_on && self.is_last(id) {
                    return Ok(Some(VdevSettingError::Impossible));
                }
                let value = Stored::Number(u64::from(*is_on));
                context.set_property(table, ALLOCATING, Some(&value))?;
                self.change_config(|vdev| vdev.non_allocating = !is_on);
                if let Some(top) = self.syncer.space.top(id) {
                    let mut top = top.lock();
                    top.is_closed = !is_on || vdev.removing;
                }
            }
            VdevSetting::SitsOut(is_on) => {
                let vdevs = self.syncer.vdevs.shape();
                if !vdevs.set_sits_out(self.guid, *is_on) {
                    return Ok(Some(VdevSettingError::NotForThis));
                }
            }
            VdevSetting::Path(_) if vdev.path.is_none() => {
                return Ok(Some(VdevSettingError::NotForThis));
            }
            VdevSetting::Path(path) => {
                self.change_config(|vdev| vdev.path = Some(path.clone()));
                let root = self.syncer.config().config.vdev_tree.clone();
                if let Some(root) = root {
                    let changed = self.syncer.vdevs.change(&root, &[].into());
                    changed.map_err(|error| DslError::Format {
                        reason: error.to_string(),
                    })?;
                }
            }
        }
        let detail = format!("vdev_guid={}: {}", self.guid.0, self.setting.describe());
        log_event(context, &self.actor, "vdev set", &detail)?;
        Ok(None)
    }
}

impl SyncTask for SetVdevProperty {
    fn sync(&mut self, context: &SyncContext<'_>) -> Result<(), DslError> {
        self.refusal = self.set(context)?;
        Ok(())
    }
}

impl Pool {
    /// Sets a property of a vdev; the history records it as OpenZFS does.
    ///
    /// # Errors
    /// Why it is not set.
    pub fn set_vdev_property(
        &self,
        guid: Guid,
        setting: VdevSetting,
        actor: &Actor,
    ) -> Result<(), VdevSettingError> {
        let task = SetVdevProperty {
            syncer: Arc::clone(self.writer()?),
            guid,
            setting,
            actor: actor.clone(),
            refusal: None,
        };
        let done = self.run_task(task)?;
        self.renew_config();
        done.refusal.map_or(Ok(()), Err)
    }
}
