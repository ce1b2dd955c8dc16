//! `cenote daemon resume`: imports and mounts again what a daemon had.
//!
//! After a crash, the record of the dead daemon lists that: the same pools, opened in the same way,
//! and the same mounts. After a start of the machine or of the daemon, it is in the cache file: the
//! pools that were not exported, with the mounts according to their properties. After a signal
//! stopped the daemon, it is both: the earlier mounts, and those according to properties. Keys are
//! loaded if they are in files; the others are reported.
//!
//! What cannot be restored is reported with its name and reason, and the exit code is 1. A pool
//! that is not found is missing ([`cenote_words::missing`]) until it is imported or forgotten.

use std::path::Path;

use cenote_control::model::{
    ControlError, HttpAct, ImportOptions, ImportPick, MountOptions, NbdAct, PropertySelection,
    Request, Response, Search, shell_word,
};
use cenote_control::protocol::socket_of_process;
use cenote_control::record::{self, RecordedPool, beside_socket, boot_id};
use cenote_engine::{cached_pools, forget_cached};

use super::disks::complain_of_left;
use cenote_connect::death::{self, Death};
use cenote_connect::places::Places;
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::format::number::counted;
use cenote_words::texts::{cannot_import, with_context};

/// Where to search for block devices, whose names change between boots.
const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// A pool to import.
struct Wanted {
    pool: RecordedPool,
    /// Whether to restore the mounts of the record instead of those according to its properties.
    is_recorded: bool,
}

/// The pools to import, and errors about files.
fn wanted(death: Option<&Death>, places: &Places, socket: &Path) -> (Vec<Wanted>, Vec<String>) {
    let is_same_boot = death.is_some_and(Death::is_of_this_boot);
    let lost = death.into_iter().flat_map(|death| &death.loss.pools);
    let mut wanted: Vec<Wanted> = lost
        .filter(|pool| is_same_boot || pool.lasting)
        .map(|pool| Wanted {
            pool: pool.clone(),
            is_recorded: is_same_boot,
        })
        .collect();
    let record = death::record(socket).ok().flatten();
    let record = record.filter(|record| record.boot == boot_id());
    let stopped = record.map_or(Vec::new(), |record| record.stopped);
    let cached = places.cache_file.as_deref();
    let cached = cached.map_or(Ok(Vec::new()), |file| cached_pools(file, socket));
    let (cached, faults) = match cached {
        Ok(cached) => (cached, Vec::new()),
        Err(error) => (Vec::new(), vec![format!("the cache file: {error}")]),
    };
    for pool in cached {
        if wanted.iter().any(|other| other.pool.guid == pool.guid) {
            continue;
        }
        if let Some(stopped) = stopped.iter().find(|other| other.guid == pool.guid) {
            let mut pool = stopped.clone();
            // Mount according to properties, too, as after a start of the machine.
            pool.mounts_changed = true;
            wanted.push(Wanted {
                pool,
                is_recorded: true,
            });
            continue;
        }
        wanted.push(Wanted {
            pool: RecordedPool {
                name: pool.name,
                guid: pool.guid,
                devices: pool.devices,
                offset: 0,
                options: ImportOptions {
                    no_mount: true,
                    ..ImportOptions::default()
                },
                lasting: true,
                mounts: Vec::new(),
                mounts_changed: false,
                exports: Vec::new(),
                sites: Vec::new(),
            },
            is_recorded: false,
        });
    }
    (wanted, faults)
}

/// `cenote daemon resume [POOL...]`; pools by name or guid.
pub fn run(pools: &[&str], context: &mut Context) -> Outcome {
    let socket = socket_of_process();
    let places = Places::of_socket(&socket);
    let death = death::of_socket(&socket).or_else(|| death::before_this(&socket));
    let (mut wanted, faults) = wanted(death.as_ref(), &places, &socket);
    if !pools.is_empty() {
        let is_named =
            |pool: &RecordedPool, name: &str| pool.name == name || pool.guid.to_string() == name;
        for name in pools {
            if !wanted.iter().any(|wanted| is_named(&wanted.pool, name)) {
                return failed(format!(
                    "there is no pool '{name}' to resume; 'zpool import' looks for others"
                ));
            }
        }
        wanted.retain(|wanted| pools.iter().any(|name| is_named(&wanted.pool, name)));
    }
    let mut code = u8::from(!faults.is_empty());
    for fault in faults {
        context.complain(&format!("cenote daemon: {fault}"));
    }
    if let Some(death) = death.filter(|death| death.loss.pools.is_empty()) {
        context.complain(&death.text());
        code = code.max(1);
    }
    if wanted.is_empty() {
        context.line("there is nothing to resume");
        return Ok(code);
    }
    for wanted in &wanted {
        code = code.max(resume_one(wanted, context));
    }
    code = code.max(u8::from(complain_of_left(context)));
    // Requests that failed before the first import have succeeded since.
    context.forget_death();
    Ok(code)
}

/// Whether a pool is imported; without a daemon, none is.
fn is_imported(pool: &RecordedPool, context: &mut Context) -> bool {
    let request = Request::PoolList {
        pools: Vec::new(),
        properties: PropertySelection::Named(Vec::new()),
        vdevs: false,
    };
    match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => pools.iter().any(|row| row.guid == pool.guid),
        _ => false,
    }
}

fn resume_one(wanted: &Wanted, context: &mut Context) -> u8 {
    let pool = &wanted.pool;
    if is_imported(pool, context) {
        return 0;
    }
    let request = Request::Import {
        search: search(pool),
        pick: ImportPick::Guid(pool.guid),
        options: pool.options.clone(),
    };
    let failures = match context.ask_noted(request) {
        Ok(Response::Imported { failures, .. }) => failures,
        Ok(_) => vec![(pool.name.clone(), cenote_words::context::mismatch())],
        Err(error) => {
            context.complain(&cannot_import(&pool.name, &error, &context.zone));
            let is_away = |path: &&String| path.starts_with('/') && !Path::new(path).exists();
            for path in pool.devices.iter().filter(is_away) {
                context.complain(&format!("\tnot there: {path}"));
            }
            return 1;
        }
    };
    for (name, error) in &failures {
        context.complain(&with_context(&format!("cannot import '{name}'"), error));
    }
    let (locked, key_code) = cenote_zfs_commands::zfs::load_keys_from_files(&pool.name, context);
    let mut is_gone = false;
    let (mut mounted, mut mount_code) = match wanted.is_recorded {
        true => mount_recorded(pool, (&locked, &mut is_gone), context),
        false => mount_all(&pool.name, context),
    };
    // A missing dataset may have been renamed.
    if is_gone || wanted.is_recorded && pool.mounts_changed {
        // The latest mounts are not recorded.
        let (more, code) = mount_all(&pool.name, context);
        (mounted, mount_code) = (mounted + more, mount_code.max(code));
    }
    let (served, serve_code) = match wanted.is_recorded {
        true => serve_recorded(pool, context),
        false => (0, 0),
    };
    // Sites are also restored after a start of the machine, because no client holds them open.
    let (sites, sites_code) = serve_sites(pool, context);
    let served = [(served, "volume"), (sites, "site")].map(|(count, thing)| match count {
        0 => String::new(),
        count => format!(", {} served", counted(count, thing)),
    });
    context.line(&format!(
        "{}: imported, {} mounted{}",
        pool.name,
        counted(mounted, "file system"),
        served.concat()
    ));
    for root in &locked {
        context.complain(&format!(
            "{root}: its key is not in a file; run 'zfs load-key {}', then 'zfs mount -a'",
            shell_word(root)
        ));
    }
    let is_left = u8::from(!locked.is_empty() || !failures.is_empty());
    let serve_code = serve_code.max(sites_code);
    is_left.max(key_code).max(mount_code).max(serve_code)
}

/// Where to search for a pool's devices.
fn search(pool: &RecordedPool) -> Search {
    let mut paths: Vec<String> = pool
        .devices
        .iter()
        .filter(|path| !path.starts_with('/') || Path::new(path).exists())
        .cloned()
        .collect();
    if pool.devices.iter().any(|path| path.starts_with("/dev/")) {
        let usual = PLACES.iter().filter(|place| Path::new(place).exists());
        paths.extend(usual.map(|place| (*place).to_owned()));
    }
    if paths.is_empty() {
        // The import reports that they are missing.
        paths.clone_from(&pool.devices);
    }
    Search {
        paths,
        offset: pool.offset,
        ..Search::default()
    }
}

/// Restores the mounts of the record. Returns how many are mounted, and 1 if any failed. `is_gone`
/// becomes true if a dataset does not exist any more.
fn mount_recorded(
    pool: &RecordedPool,
    (locked, is_gone): (&[String], &mut bool),
    context: &mut Context,
) -> (u64, u8) {
    let (mut done, mut code) = (0, 0);
    for mount in &pool.mounts {
        let request = Request::Mount {
            dataset: mount.dataset.clone(),
            at: (!mount.own_place).then(|| mount.place.clone()),
            options: mount.options.clone(),
        };
        match context.ask(request) {
            Ok(_) | Err(ControlError::AlreadyMounted { .. }) => done += 1,
            Err(ControlError::KeyNotLoaded { .. }) if !locked.is_empty() => code = 1,
            Err(error) => {
                let what = format!("cannot mount '{}' at '{}'", mount.dataset, mount.place);
                context.complain(&with_context(&what, &error));
                code = 1;
                if matches!(error, ControlError::NoSuchDataset { .. }) {
                    *is_gone = true;
                    clear_place(&mount.place, context);
                }
            }
        }
    }
    (done, code)
}

/// Unmounts the dead mount of a dataset that does not exist any more, because no mount replaces it.
fn clear_place(place: &str, context: &mut Context) {
    let cleared = cenote_fuse::clear_stale_mounts(Path::new(place));
    let failed = cleared.map_or_else(
        |error| vec![(place.into(), error)],
        |cleared| cleared.failed,
    );
    for (place, error) in failed {
        context.complain(&format!(
            "a dead mount stays at {}: {error}",
            place.display()
        ));
    }
}

/// Serves the volumes that commands served. Returns how many are served, and 1 if any failed.
fn serve_recorded(pool: &RecordedPool, context: &mut Context) -> (u64, u8) {
    let (mut done, mut code) = (0, 0);
    for export in &pool.exports {
        let act = NbdAct::Serve {
            volumes: vec![export.dataset.clone()],
            read_only: export.read_only,
            listen: export.listen.clone(),
        };
        match context.ask(Request::Nbd { act }) {
            Ok(_) => done += 1,
            Err(error) => {
                let what = format!("cannot serve '{}'", export.dataset);
                context.complain(&with_context(&what, &error));
                code = 1;
            }
        }
    }
    (done, code)
}

/// Serves the sites that commands served. Returns how many are served, and 1 if any failed.
fn serve_sites(pool: &RecordedPool, context: &mut Context) -> (u64, u8) {
    let (mut done, mut code) = (0, 0);
    for recorded in &pool.sites {
        let act = HttpAct::Start {
            sites: vec![recorded.site.clone()],
            options: recorded.options.clone(),
        };
        match context.ask(Request::Http { act }) {
            Ok(_) => done += 1,
            Err(error) => {
                let what = format!("cannot serve '{}'", recorded.site.dataset);
                context.complain(&with_context(&what, &error));
                code = 1;
            }
        }
    }
    (done, code)
}

/// `cenote daemon forget POOL...`: missing pools are no longer expected.
pub fn forget(pools: &[&str], socket: &Path, context: &mut Context) -> Outcome {
    let names = pools.iter().map(|&name| name.to_owned()).collect();
    match context.ask(Request::DaemonForgetPools { pools: names }) {
        Ok(_) => Ok(0),
        // No daemon runs. One that starts now reads the record only after it has the socket's lock.
        Err(ControlError::Unreachable { .. }) => forget_in_files(pools, socket),
        Err(ControlError::NoSuchPool { pool }) => failed(format!(
            "'{pool}' is not a missing pool; 'zpool export' lets go of one that is imported"
        )),
        Err(error) => failed(error.to_string()),
    }
}

fn forget_in_files(pools: &[&str], socket: &Path) -> Outcome {
    let places = Places::of_socket(socket);
    let death = death::of_socket(socket);
    let lost = death.iter().flat_map(|death| &death.loss.pools);
    let lost = lost.map(|pool| (pool.name.clone(), pool.guid));
    let mut known: Vec<(String, u64)> = lost.collect();
    if let Some(file) = places.cache_file.as_deref() {
        let cached = cached_pools(file, socket).map_err(|error| Stop::Failed(error.to_string()))?;
        known.extend(cached.into_iter().map(|pool| (pool.name, pool.guid)));
    }
    let mut guids = Vec::new();
    for name in pools {
        let mut found = known.iter();
        match found.find(|(known, guid)| known == name || guid.to_string() == *name) {
            Some((_, guid)) => guids.push(*guid),
            None => return failed(format!("'{name}' is not a missing pool")),
        }
    }
    let is_kept = |guid: &u64| !guids.contains(guid);
    let record = death::record(socket).map_err(|error| Stop::Failed(error.to_string()))?;
    if let Some(mut record) = record {
        record.pools.retain(|pool| is_kept(&pool.guid));
        record.stopped.retain(|pool| is_kept(&pool.guid));
        record.failed.retain(|failed| is_kept(&failed.guid));
        if let Some(lost) = &mut record.lost {
            lost.pools.retain(|pool| is_kept(&pool.guid));
        }
        record.lost = record.lost.filter(|lost| !lost.is_empty());
        record.revision += 1;
        let file = places.record.unwrap_or_else(|| beside_socket(socket));
        let stored = match record.is_empty() {
            true => record::remove(&file),
            false => record.store(&file),
        };
        stored.map_err(|error| Stop::Failed(format!("{}: {error}", file.display())))?;
    }
    if let Some(file) = places.cache_file.as_deref() {
        let forgotten = forget_cached(file, socket, &guids);
        forgotten.map_err(|error| Stop::Failed(error.to_string()))?;
    }
    Ok(0)
}

/// Mounts file systems according to their properties.
fn mount_all(pool: &str, context: &mut Context) -> (u64, u8) {
    let request = Request::MountAll {
        below: Some(pool.to_owned()),
        options: MountOptions::default(),
    };
    match context.ask(request) {
        Ok(Response::Failures { failures, done }) => {
            for (name, error) in &failures {
                context.complain(&with_context(&format!("cannot mount '{name}'"), error));
            }
            (done, u8::from(!failures.is_empty()))
        }
        Ok(_) => (0, 1),
        Err(error) => {
            context.complain(&with_context(&format!("cannot mount '{pool}'"), &error));
            (0, 1)
        }
    }
}
