//! Importing pools.

use super::diagnosis::diagnoses_in;
use super::refusal::refusal;
use super::search::{find, take, without_overwritten};
use super::set::{obey_properties, set_at_import};
use super::settings::check_at_import;
use super::trial::rewound;
use crate::clouds::opener::AllOpener;
use crate::clouds::rules::{check_names, wants_writethrough};
use crate::clouds::table::{Held, How};
use crate::context::Context;
use crate::errors::name_fault;
use crate::host::hostid;
use crate::mounts::make::mount_below;
use crate::mounts::options::check_options;
use crate::mounts::table::Mounts;
use crate::registry::arriving::Claim;
use crate::registry::imported::Imported;
use crate::streams::abort::destroy_leftovers;
use cenote_base::Txg;
use cenote_base::hostname;
use cenote_base::rt;
use cenote_control::model::{
    ControlError, Diagnosis, ImportOptions, ImportPick, MountOptions, Response, Rewind, Rewound,
    Search, StoreRefusal,
};
use cenote_drills::Passage;
use cenote_pool::PoolCandidate;
use std::path::PathBuf;
use std::sync::Arc;

/// Pools that are opened at once.
const IMPORTS_AT_ONCE: usize = 8;

pub(crate) fn import(
    context: &Context,
    mounts: &Mounts,
    search: &Search,
    pick: &ImportPick,
    options: &ImportOptions,
) -> Result<Response, ControlError> {
    let found = find(context, search)?;
    let (mut candidates, opener) = (found.candidates, found.opener);
    candidates.retain(|candidate| !context.registry.has_guid(candidate.guid.0));
    let picked: Vec<PoolCandidate> = match pick {
        ImportPick::All => without_overwritten(candidates, &found.sharers, &context.env),
        ImportPick::Name(name) => {
            candidates.retain(|candidate| candidate.name() == name);
            if candidates.len() > 1 {
                candidates = without_overwritten(candidates, &found.sharers, &context.env);
            }
            let picked = pick_by_name(context, candidates, name);
            vec![picked.map_err(|error| or_store_failure(error, found.store_failure.clone()))?]
        }
        ImportPick::Guid(guid) => {
            let picked = candidates.into_iter().find(|found| found.guid.0 == *guid);
            let pool = guid.to_string();
            let picked = picked.ok_or(ControlError::NoSuchCandidate { pool });
            vec![picked.map_err(|error| or_store_failure(error, found.store_failure.clone()))?]
        }
    };
    let mut pools = Vec::new();
    let mut failures = Vec::new();
    let mut rewound = None;
    let mut diagnosed = Vec::new();
    let mut cut_short = Vec::new();
    let mut unread = Vec::new();
    let single = !matches!(pick, ImportPick::All);
    for (name, outcome) in import_each(context, picked, search, &opener, options) {
        match outcome {
            Ok(outcome) => {
                rewound = rewound.or(outcome.rewound);
                diagnosed.extend(outcome.diagnoses);
                if let Some(imported) = outcome.imported {
                    imported.intent_logs();
                    failures.extend(imported.replay_volumes());
                    failures.extend(mount_after_import(mounts, &imported, options));
                    cut_short.extend(imported.logs_cut_short());
                    cut_short.extend(imported.discarded_logs());
                    let tables = imported.pool.unread().iter();
                    unread.extend(tables.map(|table| (name.clone(), table.to_string())));
                    unread.extend(unreadable_heads(&imported).map(|text| (name.clone(), text)));
                    // It may be one of the devices that the pool lacks.
                    let store = found.store_failure.clone();
                    unread.extend(store.map(|failure| (name.clone(), failure)));
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
        diagnoses: diagnosed,
        cut_short,
        unread,
    })
}

/// The unreadable datasets that a writable import skips.
fn unreadable_heads(imported: &Imported) -> impl Iterator<Item = String> {
    let heads = imported.pool.unreadable_heads().iter();
    heads.map(|(head, reason)| {
        let name = match imported.dsl().dataset_of(*head) {
            Ok(dataset) => dataset.name().as_str().to_owned(),
            Err(_) => format!("object {head}"),
        };
        format!(
            "the object set of '{name}' cannot be read: {reason}; destroy the dataset and restore \
             it from a backup"
        )
    })
}

/// A pool that was not found where a store does not answer may be there.
fn or_store_failure(error: ControlError, failure: Option<String>) -> ControlError {
    match (error, failure) {
        (ControlError::NoSuchCandidate { .. }, Some(reason)) => {
            StoreRefusal::Unreachable { reason }.into()
        }
        (error, _) => error,
    }
}

/// An imported pool is not among the candidates, so only its name shows that it is imported.
fn pick_by_name(
    context: &Context,
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
        (None, _) if context.registry.pool(name).is_ok() => {
            Err(ControlError::PoolNameTaken { pool })
        }
        (None, _) => Err(ControlError::NoSuchCandidate { pool }),
    }
}

/// Refuses what cannot be, before anything is opened. No other pool gets the name meanwhile.
fn check_asked<'a>(
    context: &'a Context,
    candidate: &PoolCandidate,
    options: &ImportOptions,
) -> Result<Claim<'a>, ControlError> {
    let name = options.new_name.as_deref().unwrap_or(candidate.name());
    let claim = context.arriving.claim(&context.registry, name);
    let claim = claim.ok_or_else(|| ControlError::PoolNameTaken {
        pool: name.to_owned(),
    })?;
    check_name(options.new_name.as_deref())?;
    check_altroot(options.altroot.as_deref())?;
    check_options(&options.mount_options)?;
    for (name, value) in &options.properties {
        check_at_import(name, value)?;
    }
    Ok(claim)
}

/// Imports pools, several at once: opening one waits for its devices most of the time.
fn import_each(
    context: &Context,
    picked: Vec<PoolCandidate>,
    search: &Search,
    opener: &AllOpener,
    options: &ImportOptions,
) -> Vec<(String, Result<Outcome, ControlError>)> {
    let import = |candidate: PoolCandidate| {
        let name = candidate.name().to_owned();
        (
            name,
            import_one(context, candidate, search, opener, options),
        )
    };
    let mut outcomes = Vec::new();
    let mut rest = picked.into_iter();
    loop {
        let mut batch: Vec<PoolCandidate> = rest.by_ref().take(IMPORTS_AT_ONCE).collect();
        let Some(last) = batch.pop() else {
            return outcomes;
        };
        rt::scope(|scope| {
            let threads: Vec<_> = batch
                .into_iter()
                .map(|candidate| scope.spawn(move || import(candidate)))
                .collect();
            let of_last = import(last);
            for thread in threads {
                outcomes.push(thread.join().expect("imports do not panic"));
            }
            outcomes.push(of_last);
        });
    }
}

fn import_one(
    context: &Context,
    candidate: PoolCandidate,
    search: &Search,
    opener: &AllOpener,
    options: &ImportOptions,
) -> Result<Outcome, ControlError> {
    let _claim = check_asked(context, &candidate, options)?;
    let (env, injections) = (context.env.as_ref(), &context.injections);
    let _held_up = injections.hold_up(env, candidate.name(), Passage::Import);
    check_names(&search.paths, &candidate.tree)?;
    let opener = Arc::new(opener.taking(How {
        is_forced: options.force,
        is_writethrough: wants_writethrough(&candidate.tree),
    }));
    let mut pool_options = pool_options(options);
    // Released unless the import succeeds.
    let mut held = Held::default();
    let candidate = match pool_options.read_only {
        true => candidate,
        false => {
            let taken = take(candidate, &opener);
            held = opener.take_held();
            taken?
        }
    };
    let candidate = &candidate;
    pool_options.opener = opener;
    (pool_options.cache_bytes, pool_options.buffers) =
        context.memory.admit(&context.registry.all());
    let env = Arc::clone(&context.env);
    let opened = cenote_pool::import(candidate, &pool_options, env);
    let pool = opened.map_err(|error| {
        context.divide_memory();
        refusal(&context.env, candidate, &pool_options, error)
    })?;
    let asked = options.rewind != Rewind::Never;
    let rewound = asked.then(|| rewound(candidate, &pool)).flatten();
    let diagnoses = diagnoses_in(candidate, &pool.vdev_tree(), &pool.outsiders());
    if options.rewind_dry_run {
        context.divide_memory();
        return Ok(Outcome {
            imported: None,
            rewound,
            diagnoses,
        });
    }
    held.keep();
    let altroot = options.altroot.as_ref().map(PathBuf::from);
    let mut imported = Imported::new(pool, altroot, context.random());
    imported.offset = search.offset;
    imported.mount_options = options.mount_options.clone();
    imported.set_cache_file(cache_file_of(options));
    let imported = context.registry.insert(imported)?;
    context.divide_memory();
    context.registry.note_in_cache_file(&imported);
    set_at_import(context, &imported, &options.properties)?;
    obey_properties(context, &imported);
    destroy_leftovers(&imported);
    context
        .events
        .post("sysevent.fs.zfs.pool_import", &imported.pool);
    Ok(Outcome {
        imported: Some(imported),
        rewound,
        diagnoses,
    })
}

/// The cache file that an import names.
fn cache_file_of(options: &ImportOptions) -> Option<String> {
    let mut given = options.properties.iter();
    let cache_file = given.find(|(name, _)| name == "cachefile");
    let cache_file = cache_file.map(|(_, value)| value.clone());
    // A pool with a temporary name or root must not be imported automatically.
    let is_temporary = options.altroot.is_some() || options.temporary_name;
    let default = is_temporary.then(|| "none".to_owned());
    // An empty name stands for the default file.
    cache_file.or(default).filter(|file| !file.is_empty())
}

fn pool_options(options: &ImportOptions) -> cenote_pool::ImportOptions {
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
    mounts: &Mounts,
    imported: &Arc<Imported>,
    options: &ImportOptions,
) -> Vec<(String, ControlError)> {
    if options.no_mount {
        return Vec::new();
    }
    let (failures, _) = mount_below(mounts, imported, None, &MountOptions::default());
    failures
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

/// Refuses a relative path: it would mean different directories for the client and the daemon.
fn check_altroot(root: Option<&str>) -> Result<(), ControlError> {
    match root.filter(|root| !root.starts_with('/')) {
        None => Ok(()),
        Some(root) => Err(ControlError::BadValue {
            name: "altroot".to_owned(),
            reason: format!("bad alternate root '{root}'"),
        }),
    }
}
