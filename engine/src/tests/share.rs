//! What pools share in one daemon, and what it reports to other processes of its user.

use super::{ask, engine};
use crate::Engine;
use cenote_control::model::{
    ExportHow, ImportOptions, ImportPick, OpenedPool, PropertySelection, Request, Response, Search,
    Secret, Vdev,
};
use cenote_tests::golden::Golden;
use std::sync::Arc;

/// Imports a golden pool and returns its name; `None` when it is not here.
fn import(engine: &Engine, kind: &str, replay: bool) -> Option<String> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let devices = golden.devices().expect("images unpack");
    let request = Request::Import {
        search: Search {
            paths: vec![devices.to_string_lossy().into_owned()],
            ..Search::default()
        },
        pick: ImportPick::All,
        options: ImportOptions {
            readonly: true,
            no_mount: true,
            force: true,
            replay_in_memory: replay,
            ..ImportOptions::default()
        },
    };
    ask(engine, request).expect("it can be imported");
    Some(golden.manifest.pool)
}

fn opened(engine: &Engine, pool: &str) -> OpenedPool {
    let pool = pool.to_owned();
    match ask(engine, Request::PoolOpened { pool }).expect("it is here") {
        (Response::Opened { opened }, _) => *opened,
        other => panic!("{other:?}"),
    }
}

fn cache_limit(engine: &Engine, pool: &str) -> u64 {
    let imported = engine.context.registry.pool(pool).expect("it is here");
    let limits = imported.pool.cache().limits();
    limits.stored + limits.decoded
}

/// Each pool used to have the whole of `--memory` for itself.
#[test]
fn pools_share_one_budget() {
    let engine = engine();
    let Some(first) = import(&engine, "quotas", false) else {
        return;
    };
    let alone = cache_limit(&engine, &first);
    let Some(second) = import(&engine, "names-folding", false) else {
        return;
    };
    let (one, two) = (cache_limit(&engine, &first), cache_limit(&engine, &second));
    assert!(
        one > 0 && two > 0 && one + two <= alone,
        "{one} + {two} of {alone}"
    );
    let buffers = |name: &str| {
        let imported = engine.context.registry.pool(name).expect("it is here");
        Arc::clone(imported.pool.cache().pipeline().memory())
    };
    assert!(Arc::ptr_eq(&buffers(&first), &buffers(&second)));
    assert!(alone + buffers(&first).limit() <= engine.context.memory.limit());
    let export = Request::Export {
        pool: second,
        how: ExportHow::default(),
    };
    ask(&engine, export).expect("nothing uses it");
    assert_eq!(cache_limit(&engine, &first), alone, "all of it again");
}

/// Commands that read devices themselves used to know neither keys nor replays of the daemon.
#[test]
fn commands_learn_what_the_daemon_reads() {
    let engine = engine();
    if let Some(pool) = import(&engine, "dirty-zil", true) {
        let opened = opened(&engine, &pool);
        assert!(opened.replay && opened.keys.is_empty() && opened.devices.len() == 1);
        let imported = engine.context.registry.pool(&pool).expect("it is here");
        assert_eq!(
            (opened.guid, opened.txg),
            (imported.pool.guid().0, imported.pool.txg().0)
        );
    }
    let Some(pool) = import(&engine, "encryption", false) else {
        return;
    };
    let root = format!("{pool}/gcm");
    let load = Request::LoadKey {
        dataset: root.clone(),
        key: Secret::new(b"correct horse basil".to_vec()),
        dry_run: false,
    };
    ask(&engine, load).expect("the right key");
    let guid = opened(&engine, &pool).guid.to_string();
    let keys = opened(&engine, &guid).keys;
    let roots: Vec<&str> = keys.iter().map(|key| key.root.as_str()).collect();
    assert_eq!(roots, [root.as_str()]);
    assert_eq!(keys[0].wrapping_key.expose().len(), 32);
    ask(&engine, Request::UnloadKey { dataset: root }).expect("nothing uses it");
    assert!(opened(&engine, &pool).keys.is_empty());
}

#[test]
fn what_vdevs_did_is_counted_since_the_import() {
    let engine = engine();
    let Some(pool) = import(&engine, "raidz1-3", false) else {
        return;
    };
    let request = Request::PoolList {
        pools: vec![pool],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let Ok((Response::Pools { pools, .. }, _)) = ask(&engine, request) else {
        panic!("no answer");
    };
    let tree = pools[0].vdevs.as_ref().expect("asked for");
    assert!(tree.root.counters.age_ns > 0);
    let mut stack: Vec<&Vdev> = vec![&tree.root];
    while let Some(vdev) = stack.pop() {
        let counters = vdev.counters;
        assert!(
            counters.read_operations > 0 && counters.read_bytes > 0,
            "{vdev:?}"
        );
        stack.extend(&vdev.children);
    }
}
