//! What the requests of ordinary users need (zfs-allow(8)).
//!
//! This is the table of permissions for each request. It is asked before the request is carried
//! out. What a request turns out to be about only on its way, such as the datasets of a stream, is
//! judged there.
//!
//! Only root and the daemon's user mount and unmount, as with OpenZFS on Linux: the way to a mount
//! point leads through directories of users, and they may exchange these at any moment. So ordinary
//! users change nothing that would be mounted elsewhere for it.

mod changes;

use crate::errors::parse_name;
use crate::mounts::table::Mounts;
use crate::rights::Rights;
use crate::table::Registry;
use cenote_control::model::{AccountKind, Change, ControlError, Request};
use cenote_dsl::DatasetName;

/// Judges the requests of one user.
pub struct Judge<'a> {
    /// The pools.
    pub registry: &'a Registry,
    /// What is mounted.
    pub mounts: &'a Mounts,
    /// What the user may do.
    pub rights: &'a Rights,
}

/// The answer to what is not allowed.
const DENIED: Result<(), ControlError> = Err(ControlError::PermissionDenied);

impl Judge<'_> {
    /// The request as it may be carried out.
    ///
    /// # Errors
    /// The user lacks a permission.
    pub fn judged(&self, mut request: Request) -> Result<Request, ControlError> {
        self.request(&request)?;
        match &mut request {
            // Nothing is mounted for an ordinary user.
            Request::Receive { receive, .. } => receive.unmounted = true,
            Request::Change {
                change: Change::RenameDataset { unmounted, .. },
                ..
            } => *unmounted = true,
            _ => {}
        }
        Ok(request)
    }

    fn request(&self, request: &Request) -> Result<(), ControlError> {
        match request {
            Request::Change { change, .. } => self.change(change),
            Request::Receive { receive, .. } => self.receive(&parse_name(&receive.target)?),
            Request::Redact { .. } => DENIED,
            // What is sent is judged when the names, or the token, have been looked up.
            Request::Send { .. } => Ok(()),
            Request::Diff { from, to } => {
                let names = [Some(from), to.as_ref()];
                let mut names = names.into_iter().flatten();
                names.try_for_each(|name| self.needs(name, &["diff"]))
            }
            Request::UserSpace { dataset, kind } => self.needs(dataset, permissions_of(*kind)),
            Request::Holds {
                snapshot,
                recursive,
            } => self.needs_one(snapshot, *recursive, &["hold", "release", "destroy"]),
            Request::SnapshotSpace { dataset, recursive } => {
                self.needs_one(dataset, *recursive, &["snapshot", "destroy"])
            }
            Request::ReclaimedBy { snapshots } => {
                let mut names = snapshots.iter();
                names.try_for_each(|name| self.needs(name, &["destroy"]))
            }
            Request::LoadKey { dataset, .. } | Request::UnloadKey { dataset } => {
                self.needs(dataset, &["load-key"])
            }
            Request::Noted { asked, .. } => match asked.as_ref() {
                Request::LoadKey { .. } | Request::UnloadKey { .. } => self.request(asked),
                _ => DENIED,
            },
            // What anyone may ask comes another way; all else is root's and the daemon's user's.
            _ => DENIED,
        }
    }

    /// Refuses if one of the permissions is missing on a dataset, or on that of a snapshot.
    pub(super) fn needs(&self, name: &str, permissions: &[&str]) -> Result<(), ControlError> {
        self.rights.check_in(self.registry, name, permissions)
    }

    /// The same of a dataset and all below it.
    pub(super) fn needs_below(
        &self,
        name: &str,
        recursive: bool,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let dataset = parse_name(name)?.dataset();
        let registry = self.registry;
        let names = registry.names_below(dataset.as_str(), recursive)?;
        let mut names = names.iter();
        names.try_for_each(|name| self.needs(name.as_str(), permissions))
    }

    /// Refuses if all of the permissions are missing.
    fn needs_one(
        &self,
        name: &str,
        recursive: bool,
        permissions: &[&str],
    ) -> Result<(), ControlError> {
        let mut answers = permissions
            .iter()
            .map(|permission| self.needs_below(name, recursive, &[permission]));
        answers.find(Result::is_ok).unwrap_or(DENIED)
    }

    /// Refuses a user that may receive nothing there. The stream says what it is about, and
    /// each part is judged when it comes.
    fn receive(&self, target: &DatasetName) -> Result<(), ControlError> {
        let imported = self.registry.pool(target.pool())?;
        let above = std::iter::successors(Some(target.dataset()), DatasetName::parent);
        for name in above {
            for permission in ["receive", "receive:append"] {
                let here = self.rights.check(&imported, &name, &[permission]);
                let below = || self.rights.check_below(&imported, &name, &[permission]);
                if here.or_else(|_| below()).is_ok() {
                    return Ok(());
                }
            }
            if imported.dsl().dataset(&name).is_ok() {
                break;
            }
        }
        DENIED
    }

    /// Refuses a new dataset, and those above it that are not there yet, if they may not be made.
    fn create(&self, name: &DatasetName) -> Result<(), ControlError> {
        let imported = self.registry.pool(name.pool())?;
        let above = std::iter::successors(name.parent(), DatasetName::parent);
        for parent in above {
            self.rights
                .check(&imported, &parent, &["create", "mount"])?;
            if imported.dsl().dataset(&parent).is_ok() {
                return Ok(());
            }
        }
        // Only a pool has no parent.
        DENIED
    }
}

/// The permissions to read the accounts of a kind: what is used, and the limits.
fn permissions_of(kind: AccountKind) -> &'static [&'static str] {
    match kind {
        AccountKind::User => &["userused", "userquota", "userobjused", "userobjquota"],
        AccountKind::Group => &["groupused", "groupquota", "groupobjused", "groupobjquota"],
        AccountKind::Project => &[
            "projectused",
            "projectquota",
            "projectobjused",
            "projectobjquota",
        ],
    }
}
