//! Importing and exporting pools.

use cenote_base::Txg;
use cenote_control::model::{
    ControlError, Diagnosis, ImportOptions, ImportPick, MountOptions, Response, Rewind, Rewound,
    Search,
};
use cenote_pool::{Pool, PoolCandidate, import};
use std::path::PathBuf;
use std::sync::Arc;

use super::Engine;
use super::candidates::{diagnoses_in, find, hostid, hostname};
use super::changes::{By, check_at_import, note};
use super::errors::name_fault;
use super::mount_options::check_options;
use super::registry::Imported;

impl Engine {
    pub(super) fn import(
        &self,
        search: &Search,
        pick: &ImportPick,
        options: &ImportOptions,
    ) -> Result<Response, ControlError> {
        let mut candidates = find(search)?.candidates;
        candidates.retain(|candidate| !self.registry.has_guid(candidate.guid.0));
        let picked: Vec<PoolCandidate> = match pick {
            ImportPick::All => candidates,
            ImportPick::Name(name) => vec![self.pick_by_name(candidates, name)?],
            ImportPick::Guid(guid) => {
                let found = candidates.into_iter().find(|found| found.guid.0 == *guid);
                let pool = guid.to_string();
                vec![found.ok_or(ControlError::NoSuchCandidate { pool })?]
            }
        };
        let mut pools = Vec::new();
        let mut failures = Vec::new();
        let mut rewound = None;
        let mut found = Vec::new();
        let mut cut_short = Vec::new();
        let single = !matches!(pick, ImportPick::All);
        for candidate in picked {
            let name = candidate.name().to_owned();
            match self.import_one(&candidate, search.offset, options) {
                Ok(outcome) => {
                    rewound = rewound.or(outcome.rewound);
                    found.extend(outcome.diagnoses);
                    if let Some(imported) = outcome.imported {
                        imported.intent_logs();
                        failures.extend(imported.replay_volumes());
                        failures.extend(self.mount_after_import(&imported, options));
                        cut_short.extend(imported.logs_cut_short());
                        cut_short.extend(imported.discarded_logs());
                        pools.push(imported.name().to_owned());
                    }
                }
                Err(error) if single => return Err(error),
                Err(error) => failures.push((name, error)),
            }
        }
        Ok(Response::Imported {
            pools,
            failures,
            rewound,
            diagnoses: found,
            cut_short,
        })
    }

    /// A pool that is already here cannot be told from one that is nowhere, unless by its name.
    fn pick_by_name(
        &self,
        candidates: Vec<PoolCandidate>,
        name: &str,
    ) -> Result<PoolCandidate, ControlError> {
        let pool = name.to_owned();
        let mut named: Vec<_> = candidates
            .into_iter()
            .filter(|candidate| candidate.name() == name)
            .collect();
        match (named.pop(), named.is_empty()) {
            (Some(candidate), true) => Ok(candidate),
            (Some(_), false) => Err(ControlError::AmbiguousPool { pool }),
            (None, _) if self.registry.pool(name).is_ok() => {
                Err(ControlError::PoolNameTaken { pool })
            }
            (None, _) => Err(ControlError::NoSuchCandidate { pool }),
        }
    }

    fn import_one(
        &self,
        candidate: &PoolCandidate,
        offset: u64,
        options: &ImportOptions,
    ) -> Result<Outcome, ControlError> {
        let name = options.new_name.as_deref().unwrap_or(candidate.name());
        if self.registry.pool(name).is_ok() {
            return Err(ControlError::PoolNameTaken {
                pool: name.to_owned(),
            });
        }
        check_name(options.new_name.as_deref())?;
        check_altroot(options.altroot.as_deref())?;
        check_options(&options.mount_options)?;
        for (name, value) in &options.properties {
            check_at_import(name, value)?;
        }
        let mut engine_options = self.engine_options(options);
        (engine_options.cache_bytes, engine_options.buffers) =
            self.memory.admit(&self.registry.all());
        let opened = import(candidate, &engine_options, Arc::clone(&self.env));
        let pool = opened.map_err(|error| {
            self.memory.divide(&self.registry.all());
            self.refusal(candidate, &engine_options, error)
        })?;
        let asked = options.rewind != Rewind::Never;
        let rewound = asked.then(|| rewound(candidate, &pool)).flatten();
        let diagnoses = diagnoses_in(candidate, pool.vdev_tree());
        if options.rewind_dry_run {
            self.memory.divide(&self.registry.all());
            return Ok(Outcome {
                imported: None,
                rewound,
                diagnoses,
            });
        }
        let altroot = options.altroot.as_ref().map(PathBuf::from);
        let mut imported = Imported::new(pool, altroot, self.random());
        imported.offset = offset;
        imported.mount_options = options.mount_options.clone();
        let mut given = options.properties.iter();
        let cache_file = given.find(|(name, _)| name == "cachefile");
        let cache_file = cache_file.map(|(_, value)| value.clone());
        // What is somewhere else for a while is not to be found by itself.
        let is_temporary = options.altroot.is_some() || options.temporary_name;
        let default = is_temporary.then(|| "none".to_owned());
        imported.set_cache_file(cache_file.or(default));
        let imported = self.registry.insert(imported)?;
        self.memory.divide(&self.registry.all());
        self.note_in_cache_file(&imported);
        self.set_at_import(&imported, &options.properties)?;
        self.obey_properties(&imported);
        self.events.post("sysevent.fs.zfs.pool_import", &imported);
        Ok(Outcome {
            imported: Some(imported),
            rewound,
            diagnoses,
        })
    }

    fn engine_options(&self, options: &ImportOptions) -> cenote_pool::ImportOptions {
        cenote_pool::ImportOptions {
            force: options.force,
            // Nothing is written to find out whether an import would work.
            read_only: options.readonly || options.rewind_dry_run,
            dry_run: options.rewind_dry_run && !options.readonly,
            rewind: match options.rewind {
                Rewind::Never => cenote_pool::Rewind::Never,
                Rewind::Recent => cenote_pool::Rewind::Recent,
                Rewind::Extreme | Rewind::Txg(_) => cenote_pool::Rewind::Extreme,
            },
            txg: match options.rewind {
                Rewind::Txg(txg) => Some(Txg(txg)),
                _ => None,
            },
            missing_logs: options.missing_log,
            rewind_to_checkpoint: options.checkpoint_rewind,
            new_name: options.new_name.clone(),
            temporary_name: options.temporary_name,
            altroot: options.altroot.as_ref().map(PathBuf::from),
            replay_in_memory: options.replay_in_memory,
            hostid: hostid(),
            hostname: hostname(),
            ..cenote_pool::ImportOptions::default()
        }
    }

    fn mount_after_import(
        &self,
        imported: &Arc<Imported>,
        options: &ImportOptions,
    ) -> Vec<(String, ControlError)> {
        if options.no_mount {
            return Vec::new();
        }
        let (failures, _) = self.mount_below(imported, None, &MountOptions::default());
        failures
    }

    pub(super) fn export(
        &self,
        pool: &str,
        force: bool,
        by: Option<&By<'_>>,
    ) -> Result<Response, ControlError> {
        let imported = self.registry.pool(pool)?;
        let is_suspended = imported.pool.suspended().is_some();
        if is_suspended && !force {
            let pool = pool.to_owned();
            return Err(ControlError::Suspended { pool });
        }
        if is_suspended {
            // Whoever waits for devices would wait for ever.
            imported.pool.give_up();
        }
        self.unmount_pool(&imported, force)?;
        if is_suspended {
            // It takes no more changes, those of its open file systems included.
            let _ = imported.close_all_heads();
            imported.pool.abandon();
        } else {
            imported.close_all_heads()?;
            if let Some(by) = by {
                note(&imported, by);
            }
            let exported = imported.pool.export();
            exported.map_err(|error| super::changes::of_sync(pool, error))?;
        }
        self.registry.remove(pool);
        self.memory.divide(&self.registry.all());
        self.note_in_cache_file(&imported);
        self.events.post("sysevent.fs.zfs.pool_export", &imported);
        Ok(Response::Done)
    }
}

struct Outcome {
    imported: Option<Arc<Imported>>,
    rewound: Option<Rewound>,
    diagnoses: Vec<Diagnosis>,
}

/// Refuses a new name that a pool cannot have.
fn check_name(name: Option<&str>) -> Result<(), ControlError> {
    let checked = name.map_or(Ok(()), cenote_dsl::check_pool_name);
    checked.map_err(|error| ControlError::BadName {
        name: name.unwrap_or_default().to_owned(),
        fault: name_fault(error),
    })
}

/// Refuses a directory that means another one to the daemon than to whoever named it.
fn check_altroot(root: Option<&str>) -> Result<(), ControlError> {
    match root.filter(|root| !root.starts_with('/')) {
        None => Ok(()),
        Some(root) => Err(ControlError::BadValue {
            name: "altroot".to_owned(),
            reason: format!("bad alternate root '{root}'"),
        }),
    }
}

/// The state gone back to and the seconds that this discards.
pub(super) fn rewound(candidate: &PoolCandidate, pool: &Pool) -> Option<Rewound> {
    let newest = candidate.uberblocks().into_iter().next()?;
    let opened = pool.opened_at();
    let lost = newest.timestamp.saturating_sub(opened.timestamp);
    (opened.txg < newest.txg).then_some(Rewound {
        txg: opened.txg.0,
        time: opened.timestamp,
        lost_seconds: lost,
    })
}
