//! A pool as a program sees it.

use cenote_base::{Guid, ObjectId};
use cenote_dsl::write::SyncContext;
use cenote_dsl::{Dataset, DatasetName, DslError, NameKind};
use cenote_program::Refused;
use cenote_registry::errors::parse_name;
use cenote_registry::imported::Imported;
use cenote_registry::mounts::table::Mounts;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;

/// What a program changed that others have to follow.
#[derive(Debug, Default)]
pub struct Followers {
    /// Properties that are inherited again.
    pub inherited: Vec<(DatasetName, String)>,
    /// Guids of destroyed heads.
    pub destroyed: Vec<Guid>,
    /// Whether names of snapshots changed.
    pub has_snapshots: bool,
    /// What the program wants to be recorded.
    pub messages: Vec<String>,
}

/// A pool, in a group or beside it.
pub struct View<'a> {
    pub imported: &'a Imported,
    pub mounts: Option<&'a Mounts>,
    pub context: Option<&'a SyncContext<'a>>,
    pub unreplayed: &'a HashSet<ObjectId>,
    pub is_cancelled: &'a AtomicBool,
    pub followers: &'a mut Followers,
    /// Why the group cannot be written.
    pub fatal: Option<DslError>,
}

pub fn refused(error: &DslError) -> Refused {
    Refused::Error(error.to_string())
}

impl View<'_> {
    pub fn name(&self, text: &str) -> Result<DatasetName, Refused> {
        name_in(self.imported, text).map_err(Refused::Error)
    }

    /// A dataset of a kind that has what is asked for.
    pub fn of_kind(&self, text: &str, is_snapshot: bool) -> Result<Dataset, Refused> {
        let name = self.name(text)?;
        let kind = match is_snapshot {
            true => "snapshot",
            false => "filesystem or volume",
        };
        let wanted = match is_snapshot {
            true => NameKind::Snapshot,
            false => NameKind::Head,
        };
        if name.kind() != wanted {
            return Err(Refused::Error(format!("'{text}' is not a {kind}")));
        }
        let found = self.imported.dsl().dataset(&name);
        found.map_err(|error| refused(&error))
    }

    /// Whether a mount, a stream, a site or a disk uses a snapshot or head.
    pub fn is_used(&self, dataset: &Dataset) -> bool {
        let name = dataset.name().as_str();
        let has_mount = |mounts: &Mounts| {
            !mounts
                .newest_first(|entry| entry.dataset == name)
                .is_empty()
        };
        self.mounts.is_none_or(has_mount) || self.imported.has_users(dataset.id())
    }

    /// A dataset or snapshot.
    pub fn any(&self, text: &str) -> Result<Dataset, Refused> {
        let name = self.name(text)?;
        let found = self.imported.dsl().dataset(&name);
        found.map_err(|error| refused(&error))
    }
}

/// The pool's dataset of this name, or what is wrong with it.
fn name_in(imported: &Imported, text: &str) -> Result<DatasetName, String> {
    let name =
        parse_name(text).map_err(|error| format!("invalid dataset name '{text}': {error}"))?;
    match name.pool() == imported.name() {
        true => Ok(name),
        false => Err(format!(
            "dataset '{text}' is not in the target pool '{}'",
            imported.name()
        )),
    }
}
