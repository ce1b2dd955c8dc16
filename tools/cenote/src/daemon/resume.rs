//! `cenote daemon resume`: what a daemon had is imported and mounted again.
//!
//! After a crash that is what the record of the daemon that died says: the same pools, opened in
//! the same way, and the same mounts. After a start of the machine, or of the daemon, it is what
//! the cache file says: the pools that were not exported, with the mounts that their properties
//! ask for. Keys are loaded where their location is a file; the others are named.

use std::path::Path;

use cenote_control::model::{
    ControlError, HttpAct, ImportOptions, ImportPick, MountOptions, NbdAct, PropertySelection,
    Request, Response, Search, shell_word,
};
use cenote_control::protocol::socket_of_process;
use cenote_control::record::RecordedPool;
use cenote_engine::cached_pools;

use super::disks::complain_of_left;
use crate::context::{Context, Outcome};
use crate::death::{self, Death};
use crate::places::Places;
use crate::texts::{cannot_import, with_context};

/// Where block devices are looked for, whose names change from start to start.
const PLACES: [&str; 2] = ["/dev/disk/by-id", "/dev"];

/// A pool to be imported.
struct Wanted {
    pool: RecordedPool,
    /// Its mounts are those of the record, and not those that its properties ask for.
    is_recorded: bool,
}

/// The pools to be imported, and what could not be found out.
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

/// `cenote daemon resume`.
pub fn run(context: &mut Context) -> Outcome {
    let socket = socket_of_process();
    let places = Places::of_socket(&socket);
    let death = death::of_socket(&socket).or_else(|| death::before_this(&socket));
    let (wanted, faults) = wanted(death.as_ref(), &places, &socket);
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
    // What could not be asked before the first import has been answered since.
    context.forget_death();
    Ok(code)
}

/// Whether a pool is imported, by name; if there is no daemon, none is.
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
        Ok(_) => vec![(pool.name.clone(), crate::context::mismatch())],
        Err(error) => {
            context.complain(&cannot_import(&pool.name, &error, &context.zone));
            return 1;
        }
    };
    for (name, error) in &failures {
        context.complain(&with_context(&format!("cannot import '{name}'"), error));
    }
    let (locked, key_code) = crate::zfs::load_keys_from_files(&pool.name, context);
    let (mut mounted, mut mount_code) = match wanted.is_recorded {
        true => mount_recorded(pool, &locked, context),
        false => mount_all(&pool.name, context),
    };
    if wanted.is_recorded && pool.mounts_changed {
        // The daemon died before it wrote down which mounts came last.
        let (more, code) = mount_all(&pool.name, context);
        (mounted, mount_code) = (mounted + more, mount_code.max(code));
    }
    let (served, serve_code) = match wanted.is_recorded {
        true => serve_recorded(pool, context),
        false => (0, 0),
    };
    // A server of files comes back after a start of the machine, too: nobody holds it open.
    let (sites, sites_code) = serve_sites(pool, context);
    let mut served = match served {
        0 => String::new(),
        1 => ", 1 volume served".to_owned(),
        count => format!(", {count} volumes served"),
    };
    served.push_str(&match sites {
        0 => String::new(),
        1 => ", 1 site served".to_owned(),
        count => format!(", {count} sites served"),
    });
    context.line(&format!(
        "{}: imported, {mounted} file systems mounted{served}",
        pool.name
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

/// Where to look for a pool's devices.
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
        // The import says that they are not there.
        paths.clone_from(&pool.devices);
    }
    Search {
        paths,
        offset: pool.offset,
        ..Search::default()
    }
}

/// Mounts what was mounted; how many are, and whether some should be and are not.
fn mount_recorded(pool: &RecordedPool, locked: &[String], context: &mut Context) -> (u64, u8) {
    let (mut done, mut code) = (0, 0);
    for mount in &pool.mounts {
        let request = Request::Mount {
            dataset: mount.dataset.clone(),
            at: (!mount.own_place).then(|| mount.place.clone()),
            options: mount.options.clone(),
        };
        match context.ask(request) {
            Ok(_) | Err(ControlError::AlreadyMounted { .. }) => done += 1,
            // It was destroyed in the last second before the crash, or is named already.
            Err(ControlError::NoSuchDataset { .. }) => {}
            Err(ControlError::KeyNotLoaded { .. }) if !locked.is_empty() => code = 1,
            Err(error) => {
                let what = format!("cannot mount '{}' at '{}'", mount.dataset, mount.place);
                context.complain(&with_context(&what, &error));
                code = 1;
            }
        }
    }
    (done, code)
}

/// Serves what commands served; how many are, and whether some should be and are not.
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
            // It was destroyed in the last second before the crash.
            Err(ControlError::NoSuchDataset { .. }) => {}
            Err(error) => {
                let what = format!("cannot serve '{}'", export.dataset);
                context.complain(&with_context(&what, &error));
                code = 1;
            }
        }
    }
    (done, code)
}

/// Serves the sites that commands served; how many are, and whether some should be and are not.
fn serve_sites(pool: &RecordedPool, context: &mut Context) -> (u64, u8) {
    let (mut done, mut code) = (0, 0);
    for recorded in &pool.sites {
        let act = HttpAct::Start {
            sites: vec![recorded.site.clone()],
            options: recorded.options.clone(),
        };
        match context.ask(Request::Http { act }) {
            Ok(_) => done += 1,
            // It was destroyed in the last second before the crash.
            Err(ControlError::NoSuchDataset { .. }) => {}
            Err(error) => {
                let what = format!("cannot serve '{}'", recorded.site.dataset);
                context.complain(&with_context(&what, &error));
                code = 1;
            }
        }
    }
    (done, code)
}

/// Mounts what its properties ask for.
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
