//! Opening datasets' files and volumes at their first use, and closing them.

use super::heads::{Contents, StaysOpen, settings_of};
use super::imported::Imported;
use crate::errors::{of_dsl, of_files, of_sync, of_volume};
use cenote_base::ObjectId;
use cenote_control::model::ControlError;
use cenote_dataset::Access;
use cenote_dmu::IoContext;
use cenote_dsl::{Dataset, DatasetType};
use cenote_pool::SyncError;
use cenote_posix::{FileSystem, PosixError, ReplayOptions, Timestamp};
use cenote_volume::Volume;
use std::sync::Arc;

fn wrong_kind(dataset: &Dataset) -> ControlError {
    ControlError::WrongKind {
        dataset: dataset.name().as_str().to_owned(),
    }
}

impl Imported {
    /// The files of a dataset, after its log's replay if that was requested.
    pub fn files(&self, dataset: &Dataset) -> Result<Arc<FileSystem>, ControlError> {
        if self.can_change(dataset) {
            return self.open_head(dataset);
        }
        let set = dataset.object_set().map_err(of_dsl)?;
        let name = dataset.name().as_str();
        let files = if self.replays_in_memory() && !dataset.is_snapshot() {
            let uberblock = self.pool.uberblock();
            let seconds = i64::try_from(uberblock.timestamp).unwrap_or(0);
            let options = ReplayOptions {
                last_synced: uberblock.txg,
                synced_at: Timestamp::from_stored((seconds, 0)),
                settings: settings_of(dataset)?.files,
                env: Arc::clone(self.pool.env()),
            };
            FileSystem::open_replayed(set, &options).map(|(files, report)| {
                self.replays.note(name, report.into());
                files
            })
        } else {
            FileSystem::open(set)
        };
        let files = files.map_err(|error| of_files(name, &error))?;
        Ok(Arc::new(files.for_io(&IoContext::USER)))
    }

    /// What opening the pool's datasets for changes takes.
    ///
    /// # Errors
    /// If the pool was imported for reading only.
    pub fn access(&self) -> Result<Access, SyncError> {
        Ok(Access {
            dsl: Arc::clone(self.dsl()),
            gate: Arc::clone(self.pool.gate()?),
            env: Arc::clone(self.pool.env()),
            blocks: Some(Arc::clone(self.pool.block_writer()?)),
            damage: Some(Arc::clone(&self.damage) as _),
        })
    }

    /// The files of a head, opened for writing after its log's replay.
    pub fn open_head(&self, dataset: &Dataset) -> Result<Arc<FileSystem>, ControlError> {
        match self.open_contents(dataset)? {
            Contents::Files(files) => Ok(files),
            Contents::Volume(_) => Err(wrong_kind(dataset)),
        }
    }

    /// The volume in a head, opened for writing after its log's replay. After dropping it, call
    /// [`Self::close_unmounted`].
    pub fn open_volume(&self, dataset: &Dataset) -> Result<Arc<Volume>, ControlError> {
        match self.open_contents(dataset)? {
            Contents::Volume(volume) => Ok(volume),
            Contents::Files(_) => Err(wrong_kind(dataset)),
        }
    }

    fn open_contents(&self, dataset: &Dataset) -> Result<Contents, ControlError> {
        let name = dataset.name().as_str();
        let access = self.access().map_err(|_| ControlError::PoolReadOnly {
            pool: self.name().to_owned(),
        })?;
        self.heads.open(dataset.id(), || {
            self.replay_in_turn(dataset, &access)?;
            let settings = settings_of(dataset)?;
            let kind = dataset.dataset_type().map_err(of_dsl)?;
            let open = Arc::new(access.open(dataset).map_err(of_dsl)?);
            settings.obey(&open);
            let contents = match kind {
                DatasetType::Filesystem => {
                    FileSystem::open_writable(Arc::clone(&open), settings.files)
                        .map(|files| Contents::Files(Arc::new(files)))
                        .map_err(|error| of_files(name, &error))
                }
                DatasetType::Volume => Volume::open_writable(Arc::clone(&open))
                    .map(|volume| Contents::Volume(Arc::new(volume)))
                    .map_err(of_volume),
            };
            // It is not open then, and can be destroyed.
            contents.inspect_err(|_| open.release())
        })
    }

    /// Frees what an earlier mount left in a head's delete queue, now that it may be changed, and
    /// begins to count what accounts are missing.
    pub(crate) fn drain(
        &self,
        dataset: &Dataset,
        files: &Arc<FileSystem>,
    ) -> Result<(), ControlError> {
        let drained = files.drain_delete_queue().map(drop);
        let drained = drained.and_then(|()| self.complete_accounts(dataset, files));
        drained.map_err(|error| of_files(dataset.name().as_str(), &error))
    }

    fn complete_accounts(
        &self,
        dataset: &Dataset,
        files: &Arc<FileSystem>,
    ) -> Result<(), PosixError> {
        let features = self.dsl().features();
        if files.complete_accounts(|guid| features.get(guid).is_some())? {
            let name = dataset.name();
            log::info!("{name}: counting the space and the files of each user in the background");
        }
        Ok(())
    }

    /// Starts the accounting of just enabled features in open file systems.
    pub fn complete_all_accounts(&self) {
        for id in self.heads.ids() {
            let turn = self.heads.turn(id);
            if let Some(Contents::Files(files)) = &turn.contents
                && let Ok(dataset) = self.dsl().dataset_of(id)
            {
                // What takes no changes any more is counted when it is opened next.
                let _ = self.complete_accounts(&dataset, files);
            }
        }
    }

    /// Lets open datasets go by the properties as they are now.
    pub fn refresh_settings(&self) {
        for id in self.heads.ids() {
            let turn = self.heads.turn(id);
            let Some(contents) = &turn.contents else {
                continue;
            };
            let dataset = self.dsl().dataset_of(id).map_err(of_dsl);
            if let Ok(settings) = dataset.and_then(|dataset| settings_of(&dataset)) {
                contents.set_settings(&settings);
            }
        }
    }

    /// Closes the unused heads of an encryption root, so that its key can be unloaded.
    pub fn close_idle_heads(&self, root: ObjectId) -> Result<(), ControlError> {
        let mut of_root = Vec::new();
        for id in self.heads.ids() {
            let dataset = self.dsl().dataset_of(id).map_err(of_dsl)?;
            let key = dataset.directory().crypto_key().map_err(of_dsl)?;
            if key.is_some_and(|key| key.root() == root) {
                of_root.push(id);
            }
        }
        self.close_unmounted(&of_root)
    }

    /// Ends what mounts of these heads that are gone left to be done: all changes are on disk then.
    pub fn close_unmounted(&self, ids: &[ObjectId]) -> Result<(), ControlError> {
        let closed = self.heads.close_idle(&self.pool, ids);
        closed.map_err(|error| of_sync(self.name(), error))
    }

    /// Closes all heads without users.
    ///
    /// # Errors
    /// If their changes cannot be written.
    pub fn close_unused_heads(&self) -> Result<(), ControlError> {
        self.close_unmounted(&self.heads.ids())
    }

    /// Closes all heads.
    ///
    /// # Errors
    /// If one of them is used. With `force` it is closed anyway, as [`Self::end_head`] does.
    pub fn close_all_heads(&self, force: bool) -> Result<(), ControlError> {
        for id in self.heads.ids() {
            self.end_head(id, force)?;
        }
        Ok(())
    }

    /// Closes a head whose mounts are gone. With `force` also one that is still in use: the session
    /// of a mount that was cut off keeps the files, but no request reaches them.
    pub fn end_head(&self, id: ObjectId, force: bool) -> Result<(), ControlError> {
        match self.close_head(id) {
            Err(ControlError::DatasetBusy { .. }) if force => {
                let closed = self.heads.cut_off(id);
                closed.map_err(|error| of_sync(self.name(), error))
            }
            closed => closed,
        }
    }

    /// Closes a head that is open for writing and not used any more, so that it can be destroyed.
    ///
    /// # Errors
    /// If it is used.
    pub fn close_head(&self, id: ObjectId) -> Result<(), ControlError> {
        let closed = self.heads.close(&self.pool, id);
        closed.map_err(|error| self.stays_open(id, error))
    }

    fn stays_open(&self, id: ObjectId, error: StaysOpen) -> ControlError {
        match error {
            StaysOpen::Sync(error) => of_sync(self.name(), error),
            StaysOpen::InUse => ControlError::DatasetBusy {
                dataset: self.dsl().dataset_of(id).map_or_else(
                    |_| self.name().to_owned(),
                    |dataset| dataset.name().as_str().to_owned(),
                ),
            },
        }
    }

    /// Closes a head whose mounts are held back, and will resume with another state of it.
    ///
    /// # Errors
    /// If it is a volume in use.
    pub fn close_held_head(&self, id: ObjectId) -> Result<(), ControlError> {
        let closed = self.heads.close_held(id);
        closed.map_err(|error| self.stays_open(id, error))
    }
}
