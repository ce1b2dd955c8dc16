//! What an ordinary user may do: the permissions that were delegated (zfs-allow(8)).
//!
//! Root and the daemon's user have all rights. Everybody else has what the grants of a dataset and
//! of all above it say, as long as the pool's property `delegation` is on.

use crate::errors::{of_dsl, parse_name};
use crate::imported::Imported;
use crate::table::Registry;
use cenote_control::model::ControlError;
use cenote_control::protocol::Peer;
use cenote_delegation::{Grants, User};
use cenote_dsl::{DatasetName, Stored};

/// The property of a pool that turns delegated permissions off.
const DELEGATION: &str = "delegation";

/// An ordinary user.
#[derive(Clone, Debug)]
pub struct Rights {
    /// The user and all groups that are known.
    pub user: User,
    /// The group that new files get.
    pub group: u32,
}

impl Rights {
    /// Those of a process; `None` if it has all rights.
    pub fn of(peer: Peer) -> Option<Self> {
        peer.is_ordinary().then(|| Self {
            user: User {
                id: peer.uid.into(),
                groups: peer.groups().into_iter().map(u64::from).collect(),
            },
            group: peer.gid,
        })
    }

    /// Those of a user whose groups are not known; `None` if the user has all rights.
    pub fn of_user(uid: u32) -> Option<Self> {
        let is_ordinary = uid != 0 && uid != rustix::process::geteuid().as_raw();
        is_ordinary.then(|| Self {
            user: User {
                id: uid.into(),
                groups: Vec::new(),
            },
            group: 0,
        })
    }

    /// Refuses if one of these permissions is not delegated on a dataset, which may be one that is
    /// still to be made, a snapshot or a bookmark.
    ///
    /// # Errors
    /// A permission is missing, or the grants cannot be read.
    pub fn check(
        &self,
        imported: &Imported,
        name: &DatasetName,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let levels = self.levels(imported, name)?;
        self.check_levels(imported, &levels, permissions)
    }

    /// Refuses if one of these permissions is not delegated on what is below a dataset.
    ///
    /// # Errors
    /// A permission is missing, or the grants cannot be read.
    pub fn check_below(
        &self,
        imported: &Imported,
        name: &DatasetName,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let mut levels = self.levels(imported, name)?;
        levels.insert(0, Grants::default());
        self.check_levels(imported, &levels, permissions)
    }

    /// The same of a dataset of any pool.
    ///
    /// # Errors
    /// A permission or the pool is missing, or the grants cannot be read.
    pub fn check_in(
        &self,
        registry: &Registry,
        name: &str,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let name = parse_name(name)?;
        self.check(&*registry.pool(name.pool())?, &name, permissions)
    }

    fn check_levels(
        &self,
        imported: &Imported,
        levels: &[Grants],
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let set = imported.dsl().pool_properties().map_err(of_dsl)?;
        let is_off = matches!(set.get(DELEGATION), Some(Stored::Number(0)));
        let is_allowed = |permission: &&str| self.user.is_allowed(levels, permission);
        match !is_off && permissions.iter().all(is_allowed) {
            true => Ok(()),
            false => Err(ControlError::PermissionDenied),
        }
    }

    /// The grants of a dataset and of all above it. On those that are not made yet the user would
    /// have the create-time permissions.
    fn levels(&self, imported: &Imported, name: &DatasetName) -> Result<Vec<Grants>, ControlError> {
        let above = std::iter::successors(Some(name.dataset()), DatasetName::parent);
        for (missing, name) in above.enumerate() {
            let Some(directory) = imported.dsl().directory(&name).map_err(of_dsl)? else {
                continue;
            };
            let levels = directory.ancestry().map(|directory| directory.grants());
            let mut levels = levels.collect::<Result<Vec<_>, _>>().map_err(of_dsl)?;
            for _ in 0..missing {
                levels.insert(0, Grants::of_creator(&levels, self.user.id));
            }
            return Ok(levels);
        }
        let dataset = name.as_str().to_owned();
        Err(ControlError::NoSuchDataset { dataset })
    }
}
