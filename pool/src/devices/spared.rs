//! Whether the pool can do without a device.
//!
//! The pool knows the state of its devices from its last use of them. A device that was pulled out
//! of an idle pool still counts as present. So before a device is taken away, all others are
//! probed: the answers decide whether enough redundancy is left.

use super::edit::top;
use super::error::ChangeError;
use crate::pool::Pool;
use cenote_base::Guid;
use cenote_ondisk::VdevConfig;
use cenote_vdev::Shape;

/// Leaves that did not answer.
pub(super) struct Silent(Vec<Guid>);

impl Silent {
    pub fn has(&self, leaf: Guid) -> bool {
        self.0.contains(&leaf)
    }

    /// Whether the others have all that a leaf has, and answer.
    ///
    /// # Errors
    /// If not; devices that do not answer are named.
    pub fn check(&self, root: &VdevConfig, shape: &Shape, leaf: Guid) -> Result<(), ChangeError> {
        if shape.is_required(leaf) {
            return Err(ChangeError::NoReplicas);
        }
        if !shape.is_required_without(leaf, &self.0) {
            return Ok(());
        }
        let others = top(root, leaf).into_iter().flat_map(VdevConfig::leaves);
        let silent = others.filter(|other| other.guid != leaf && self.has(other.guid));
        let name = |leaf: &VdevConfig| match &leaf.path {
            Some(path) => path.display().to_string(),
            None => leaf.guid.to_string(),
        };
        Err(ChangeError::Silent {
            devices: silent.map(name).collect(),
        })
    }
}

impl Pool {
    /// Asks all devices whether they answer.
    pub(super) fn ask_all(&self) -> Silent {
        Silent(self.vdevs().silent_leaves())
    }
}
