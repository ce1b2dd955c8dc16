//! `zpool split`: one side of each mirror becomes a pool of its own.
//!
//! `devices::split` explains how the sides leave the old pool without getting lost in between, and
//! `split` how they become another one.

use crate::create::{CreateError, random_guid};
use crate::devices::ChangeError;
use crate::error::ImportError;
use crate::import::candidate::assemble;
use crate::import::import;
use crate::import::options::{ImportOptions, Rewind};
use crate::import::split::SplitInto;
use crate::pool::Pool;
use crate::sync::{Actor, SyncError};
use cenote_base::Guid;
use std::path::PathBuf;
use std::sync::Arc;

/// A pool that is to be made of sides of mirrors.
#[derive(Clone, Debug)]
pub struct SplitRequest {
    /// What it is called.
    pub name: String,
    /// Sides that are to go; of the other mirrors the last one does.
    pub sides: Vec<Guid>,
}

/// Why a pool is not split.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SplitError {
    /// The devices cannot be spared.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The sides cannot be opened as a pool.
    #[error("the new pool cannot be opened: {0}")]
    Import(#[from] ImportError),
    /// No random number is available.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The new pool cannot be written.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The sides do not hold the pool.
    #[error("the devices split off are not found again")]
    NotFound,
}

impl Pool {
    /// The sides that a split would take.
    ///
    /// # Errors
    /// If the pool cannot be split so.
    pub fn sides_to_split(&self, named: &[Guid]) -> Result<Vec<Guid>, ChangeError> {
        self.check_split(named)
    }

    /// Makes a pool of one side of each mirror; returns it, open for writing. It holds what this
    /// one held.
    ///
    /// # Errors
    /// Why that cannot be; then the sides are where they were.
    pub fn split(&self, request: &SplitRequest, by: (&Actor, &str)) -> Result<Self, SplitError> {
        let guid = random_guid(self.env().as_ref())?;
        let sides = self.begin_split(&request.sides)?;
        let into = SplitInto {
            guid,
            origin: self.guid(),
            origin_name: self.name().to_owned(),
            sides: sides.clone(),
            actor: Actor {
                user: 0,
                host: self.options().hostname.clone(),
            },
        };
        let made = self.open_sides(&request.name, into);
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                self.take_back_split(&sides)?;
                return Err(error);
            }
        };
        let detail = format!("new pool {} from pool {}", request.name, self.name());
        self.finish_split(&sides, detail, by)?;
        Ok(made)
    }

    /// Opens the sides as a pool of their own.
    fn open_sides(&self, name: &str, into: SplitInto) -> Result<Self, SplitError> {
        let tree = self.vdev_tree();
        let leaves = tree.leaves();
        let sides = leaves.filter(|leaf| into.sides.contains(&leaf.guid));
        let paths: Vec<PathBuf> = sides.filter_map(|leaf| leaf.path.clone()).collect();
        let opener = Arc::clone(&self.options().opener);
        let found = assemble(cenote_vdev::scan(&paths, opener.as_ref()));
        let mut found = found.into_iter();
        let candidate = found.find(|candidate| candidate.guid == into.origin);
        let candidate = candidate.ok_or(SplitError::NotFound)?;
        let options = ImportOptions {
            // This very system has the pool.
            force: true,
            read_only: false,
            dry_run: false,
            rewind: Rewind::Never,
            txg: None,
            missing_logs: false,
            rewind_to_checkpoint: false,
            new_name: Some(name.to_owned()),
            temporary_name: false,
            altroot: None,
            scans: false,
            becomes: Some(Arc::new(into)),
            ..self.options().clone()
        };
        let made = import(&candidate, &options, Arc::clone(self.env()))?;
        // After its first group the labels name the new pool.
        made.sync()?;
        Ok(made)
    }
}
