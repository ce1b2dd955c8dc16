//! The engine over golden pools, asked as a client asks it.

mod encryption;
mod heads;
mod import;
mod properties;
mod share;
mod volumes;

use crate::{Engine, EngineSettings, NoMounter};
use cenote_base::RealEnv;
use cenote_control::model::{
    AccountKind, AccountOwner, Condition, ControlError, DatasetKind, Depth, ExportHow, HistoryBody,
    ImportOptions, ImportPick, KindSet, Part, PoolHealth, Property, PropertySelection, Request,
    Response, Search, Secret, Source, SpaceAccount, Value,
};
use cenote_control::protocol::{Peer, Reply, Service};
use cenote_tests::golden::{Golden, kinds};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Keeps the parts of an answer.
#[derive(Default)]
struct Collected(Vec<Part>);

impl Reply for Collected {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        self.0.push(part);
        Ok(())
    }

    fn cancelled(&self) -> bool {
        false
    }

    fn take_descriptor(&mut self, _index: usize) -> Option<OwnedFd> {
        None
    }
}

fn engine() -> Engine {
    let env = Arc::new(RealEnv::new());
    Engine::new(Box::new(NoMounter), EngineSettings::default(), env)
}

fn ask(engine: &Engine, request: Request) -> Result<(Response, Vec<Part>), ControlError> {
    let mut reply = Collected::default();
    let peer = Peer {
        uid: 0,
        gid: 0,
        pid: 1,
    };
    let response = engine.handle(request, peer, &mut reply)?;
    Ok((response, reply.0))
}

fn search_of(golden: &Golden) -> Search {
    let devices = golden.devices().expect("images unpack");
    Search {
        paths: vec![devices.to_string_lossy().into_owned()],
        ..Search::default()
    }
}

fn import_request(golden: &Golden) -> Request {
    Request::Import {
        search: search_of(golden),
        pick: ImportPick::All,
        options: ImportOptions {
            readonly: true,
            no_mount: true,
            ..ImportOptions::default()
        },
    }
}

/// An engine with this golden pool; `None` with a notice when the pool is not here.
fn with_pool(kind: &str) -> Option<(Engine, Golden)> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let engine = engine();
    let (response, _) = ask(&engine, import_request(&golden)).expect("it can be asked");
    let Response::Imported {
        pools, failures, ..
    } = response
    else {
        panic!("{response:?}");
    };
    let expected = std::slice::from_ref(&golden.manifest.pool);
    assert_eq!(pools, expected, "{kind}: {failures:?}");
    Some((engine, golden))
}

/// Value and source of each name, as printed with `-p` below a heading of `zfs-get.txt`.
fn printed(golden: &Golden, heading: &str) -> BTreeMap<(String, String), (String, String)> {
    let text = std::fs::read(golden.directory.join("zfs-get.txt")).expect("it is there");
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut rows = BTreeMap::new();
    let mut within = false;
    for line in text.lines() {
        if line.starts_with("# ") {
            within = line.starts_with(heading);
        } else if let (true, [name, property, value, source]) =
            (within, &line.split('\t').collect::<Vec<_>>()[..])
        {
            let key = ((*name).to_owned(), (*property).to_owned());
            rows.insert(key, ((*value).to_owned(), (*source).to_owned()));
        }
    }
    rows
}

fn as_printed(property: &Property) -> (String, String) {
    let ratio = property.name.ends_with("ratio");
    let value = match &property.value {
        Value::None => "-".to_owned(),
        Value::Number(number) if ratio => format!("{}.{:02}", number / 100, number % 100),
        Value::Number(u64::MAX) if property.name == "dedup_table_quota" => "auto".to_owned(),
        Value::Number(0) if matches!(property.name.as_str(), "expandsize" | "checkpoint") => {
            "-".to_owned()
        }
        Value::Number(u64::MAX) if property.name == "fragmentation" => "-".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text.clone(),
    };
    let source = match &property.source {
        Source::None => "-".to_owned(),
        Source::Default => "default".to_owned(),
        Source::Local => "local".to_owned(),
        Source::Temporary => "temporary".to_owned(),
        Source::Received => "received".to_owned(),
        Source::Inherited(from) => format!("inherited from {from}"),
    };
    (value, source)
}

/// Whether two figures of fragmentation differ by no more than a few transaction groups make.
fn is_near(name: &str, ours: &str, theirs: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    let distance = number(ours).zip(number(theirs)).map(|(a, b)| a.abs_diff(b));
    name == "fragmentation" && distance.is_some_and(|distance| distance <= 3)
}

/// What belongs to that import, or changed with the last transaction groups before the export.
const MOVING: [&str; 12] = [
    "checkpoint",
    "dedup_table_size",
    "load_guid",
    "cachefile",
    "altroot",
    "readonly",
    "free",
    "allocated",
    "capacity",
    "health",
    "freeing",
    "last_scrubbed_txg",
];

#[test]
fn pool_properties_are_those_that_openzfs_printed() {
    let mut problems = Vec::new();
    for kind in kinds() {
        let Some((engine, golden)) = with_pool(&kind) else {
            continue;
        };
        let request = Request::PoolList {
            pools: Vec::new(),
            properties: PropertySelection::All,
            vdevs: true,
        };
        let (response, _) = ask(&engine, request).expect("answered");
        let Response::Pools { pools, failures } = response else {
            panic!("{response:?}");
        };
        assert!(failures.is_empty(), "{failures:?}");
        let printed = printed(&golden, "# zpool get");
        for property in &pools[0].properties {
            let key = (pools[0].name.clone(), property.name.clone());
            let theirs = printed.get(&key);
            let ours = as_printed(property);
            let excused = kind.starts_with("dirty-")
                || theirs.is_some_and(|theirs| is_near(&property.name, &ours.0, &theirs.0));
            if !excused && !MOVING.contains(&property.name.as_str()) && theirs != Some(&ours) {
                problems.push(format!(
                    "{kind} {}: {ours:?}, printed {theirs:?}",
                    property.name
                ));
            }
        }
        for (_, name) in printed.keys() {
            if pools[0].property(name).is_none() {
                problems.push(format!("{kind}: {name} is missing"));
            }
        }
    }
    assert!(
        problems.is_empty(),
        "{} differences:\n{}",
        problems.len(),
        problems.join("\n")
    );
}

fn list(engine: &Engine, roots: &[&str], kinds: KindSet) -> Vec<cenote_control::model::Dataset> {
    let request = Request::DatasetList {
        roots: roots.iter().map(|root| (*root).to_owned()).collect(),
        depth: Depth::All,
        kinds,
        properties: PropertySelection::All,
    };
    let (response, parts) = ask(engine, request).expect("answered");
    let Response::Failures { failures, done } = response else {
        panic!("{response:?}");
    };
    assert!(failures.is_empty(), "{failures:?}");
    let rows: Vec<_> = parts
        .into_iter()
        .flat_map(|part| match part {
            Part::Datasets(rows) => rows,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(rows.len() as u64, done);
    rows
}

#[test]
fn every_dataset_of_every_pool_is_listed() {
    for kind in kinds() {
        let Some((engine, golden)) = with_pool(&kind) else {
            continue;
        };
        let rows = list(&engine, &[], KindSet::ALL);
        let found: BTreeMap<_, _> = rows.iter().map(|row| (row.name.as_str(), row)).collect();
        assert_eq!(found.len(), rows.len(), "{kind}: no name twice");
        for (name, dataset) in &golden.manifest.datasets {
            let row = found.get(name.as_str());
            let row = row.unwrap_or_else(|| panic!("{kind}: {name} is missing"));
            assert_eq!(row.kind.word(), dataset.kind, "{name}");
            let guid = row.property("guid").and_then(|guid| guid.value.number());
            // After a crash the manifest was made from what was left, without guids.
            let expected = dataset.guid.as_ref().and_then(|guid| guid.parse().ok());
            assert!(expected.is_none() || guid == expected, "{name}");
        }
        let printed = printed(&golden, "# zfs get");
        let root = found[golden.manifest.pool.as_str()];
        let sum = |of: &dyn Fn(&str) -> u64| of("used") + of("available");
        let ours = sum(&|name: &str| {
            let property = root.property(name).expect("a root has it");
            property.value.number().expect("a number")
        });
        let theirs = sum(&|name: &str| {
            let key = (root.name.clone(), name.to_owned());
            printed[&key].0.parse().expect("a number")
        });
        // Classes other than the normal one count by what is allocated in them, and so do the
        // checkpoint and what is deduplicated: these move.
        let moving = [
            "special-vdev",
            "checkpoint",
            "dedup",
            "dedup-legacy",
            "device-removal",
        ];
        if !kind.starts_with("dirty-") && !moving.contains(&kind.as_str()) {
            // Frees that were deferred when the text was written are done since.
            let deferred = ours.abs_diff(theirs);
            assert!(
                deferred < 64 << 10,
                "{kind}: {ours} usable, printed {theirs}"
            );
        }
    }
}

#[test]
fn roots_may_overlap_and_be_of_any_kind() {
    let Some((engine, golden)) = with_pool("snapshots-clones") else {
        return;
    };
    let pool = &golden.manifest.pool;
    let kept = format!("{pool}/kept");
    let rows = list(&engine, &[&kept, pool, &kept], KindSet::HEADS);
    let of_kept = rows.iter().filter(|row| row.name == kept).count();
    assert_eq!(of_kept, 1);
    let bookmark = format!("{pool}/promoted#b1");
    let rows = list(&engine, &[&bookmark], KindSet::of(DatasetKind::Bookmark));
    assert_eq!(rows[0].kind, DatasetKind::Bookmark);
    let request = Request::DatasetList {
        roots: vec![
            format!("{pool}/nowhere"),
            "other/x".into(),
            "bad//name".into(),
        ],
        depth: Depth::Roots,
        kinds: KindSet::ALL,
        properties: PropertySelection::Named(Vec::new()),
    };
    let (response, parts) = ask(&engine, request).expect("answered");
    assert!(parts.is_empty());
    let Response::Failures { failures, .. } = response else {
        panic!("{response:?}");
    };
    assert!(matches!(failures[0].1, ControlError::NoSuchDataset { .. }));
    assert!(matches!(failures[1].1, ControlError::NoSuchDataset { .. }));
    assert!(matches!(failures[2].1, ControlError::BadName { .. }));
}

fn named(engine: &Engine, dataset: &str, names: &[&str]) -> Vec<Property> {
    let request = Request::DatasetList {
        roots: vec![dataset.to_owned()],
        depth: Depth::Roots,
        kinds: KindSet::ALL,
        properties: PropertySelection::Named(names.iter().map(|n| (*n).to_owned()).collect()),
    };
    let (_, parts) = ask(engine, request).expect("answered");
    match &parts[..] {
        [Part::Datasets(rows)] => rows[0].properties.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn properties_by_name() {
    let Some((engine, golden)) = with_pool("snapshots-clones") else {
        return;
    };
    let kept = format!("{}/kept", golden.manifest.pool);
    let names = [
        "written@1",
        "written@nowhere",
        "prevsnap",
        "recordsize",
        "a:b",
        "mounted",
    ];
    let found = named(&engine, &kept, &names);
    let found: Vec<&str> = found
        .iter()
        .map(|property| property.name.as_str())
        .collect();
    assert_eq!(found, ["written@1", "prevsnap", "recordsize", "mounted"]);
    let written = |name: &str| {
        let found = named(
            &engine,
            &format!("{}/promoted", golden.manifest.pool),
            &[name],
        );
        found[0].value.number().expect("a number")
    };
    assert_eq!(
        written("written#b1"),
        written("written@s1"),
        "the bookmark is of the snapshot"
    );
}

#[test]
fn states_of_degraded_pools() {
    let status = |engine: &Engine| {
        let request = Request::PoolStatus {
            pools: Vec::new(),
            errors: true,
            dedup: true,
        };
        match ask(engine, request).expect("answered") {
            (Response::Statuses { mut pools, .. }, _) => pools.remove(0),
            other => panic!("{other:?}"),
        }
    };
    if let Some((engine, _)) = with_pool("mirror-offline") {
        let status = status(&engine);
        assert_eq!(status.health, PoolHealth::Degraded);
        assert_eq!(status.condition, Some(Condition::OfflineDevice));
        assert_eq!(status.vdevs.spares.len(), 1);
    }
    if let Some((engine, _)) = with_pool("version28") {
        assert_eq!(status(&engine).condition, Some(Condition::LegacyVersion));
    }
    if let Some((engine, _)) = with_pool("legacy-features-off") {
        assert_eq!(status(&engine).condition, Some(Condition::FeaturesDisabled));
    }
    if let Some((engine, _)) = with_pool("legacy-grub2") {
        assert_eq!(status(&engine).condition, None);
    }
    if let Some((engine, _)) = with_pool("device-removal") {
        let removal = status(&engine).removal.expect("one vdev was removed");
        assert_eq!((removal.vdev_id, removal.mapping_memory), (1, 24));
    }
    if let Some((engine, _)) = with_pool("raidz-expanded") {
        let expand = status(&engine).expand.expect("it was expanded");
        assert_eq!(expand.vdev, "raidz1-0");
    }
    if let Some((engine, _)) = with_pool("dirty-zil") {
        let logs = status(&engine).intent_logs;
        assert!(logs.iter().any(|log| log.records > 0), "{logs:?}");
    }
    if let Some((engine, golden)) = with_pool("single-default") {
        let status = status(&engine);
        assert_eq!((status.condition, status.error_count), (None, 0));
        assert!(status.intent_logs.is_empty());
        assert_eq!(status.name, golden.manifest.pool);
    }
}

#[test]
fn keys_holds_history_and_accounts() {
    if let Some((engine, golden)) = with_pool("encryption") {
        let root = format!("{}/gcm", golden.manifest.pool);
        let load = |key: &[u8]| Request::LoadKey {
            dataset: root.clone(),
            key: Secret::new(key.to_vec()),
            dry_run: false,
        };
        let wrong = ask(&engine, load(b"wrong passphrase"));
        assert!(matches!(wrong, Err(ControlError::KeyIncorrect { .. })));
        ask(&engine, load(b"correct horse basil")).expect("the right one");
        let status = named(&engine, &root, &["keystatus"]);
        assert_eq!(status[0].value, Value::from("available"));
        let request = Request::UnloadKey { dataset: root };
        ask(&engine, request).expect("nothing uses it");
    }
    if let Some((engine, golden)) = with_pool("snapshots-clones") {
        let lines = golden.manifest.document["holds"]
            .as_array()
            .expect("a list");
        assert!(!lines.is_empty());
        for line in lines.iter().filter_map(|line| line.as_str()) {
            let mut words = line.split('\t');
            let (snapshot, tag) = (words.next().expect("a name"), words.next().expect("a tag"));
            let request = Request::Holds {
                snapshot: snapshot.to_owned(),
                recursive: false,
            };
            let (Response::Holds { holds }, _) = ask(&engine, request).expect("answered") else {
                panic!("not holds");
            };
            assert!(
                holds.iter().any(|hold| hold.tag == tag),
                "{line}: {holds:?}"
            );
        }
        let pool = golden.manifest.pool.clone();
        let (_, parts) = ask(&engine, Request::History { pool }).expect("answered");
        let Part::History(records) = &parts[0] else {
            panic!("{parts:?}");
        };
        let commands = records.iter().filter_map(|record| match &record.body {
            HistoryBody::Command(command) => Some(command),
            _ => None,
        });
        let first = commands
            .into_iter()
            .next()
            .expect("a pool was made by a command");
        assert!(first.starts_with("zpool create") && first.contains(&golden.manifest.pool));
        let is_snapshot = |body: &HistoryBody| match body {
            HistoryBody::Internal { event, .. } => event == "snapshot",
            _ => false,
        };
        assert!(records.iter().any(|record| is_snapshot(&record.body)));
        assert!(records.windows(2).all(|pair| pair[0].time <= pair[1].time));
    }
}

#[test]
fn accounts_are_those_of_the_manifest() {
    let Some((engine, golden)) = with_pool("quotas") else {
        return;
    };
    let request = Request::UserSpace {
        dataset: format!("{}/users", golden.manifest.pool),
        kind: AccountKind::User,
    };
    let (_, parts) = ask(&engine, request).expect("answered");
    let [Part::Accounts(accounts)] = &parts[..] else {
        panic!("{parts:?}");
    };
    let lines = golden.manifest.document["userspace"]
        .as_array()
        .expect("a list");
    assert_eq!(accounts.len(), lines.len());
    for line in lines.iter().filter_map(|line| line.as_str()) {
        let words: Vec<u64> = line
            .split('\t')
            .filter_map(|word| word.parse().ok())
            .collect();
        let [id, used, quota, objects_used, objects_quota] = words[..] else {
            panic!("{line}");
        };
        let owner = AccountOwner::Id(id);
        let expected = SpaceAccount {
            owner,
            used,
            quota,
            objects_used: Some(objects_used),
            objects_quota,
        };
        assert!(accounts.contains(&expected), "{line}: {accounts:?}");
    }
    let users = format!("{}/users", golden.manifest.pool);
    let quota = named(&engine, &users, &["userquota@1000"]);
    assert_eq!(quota[0].value, Value::Number(10_485_760));
}

#[test]
fn pools_come_and_go() {
    let Some((engine, golden)) = with_pool("single-default") else {
        return;
    };
    let pool = golden.manifest.pool.clone();
    assert!(!engine.idle());
    let search = search_of(&golden);
    let (response, _) = ask(&engine, Request::ImportSearch { search }).expect("answered");
    assert_eq!(
        response,
        Response::Candidates {
            candidates: Vec::new(),
            unreadable: Vec::new(),
        },
        "it is here already"
    );
    let events = Request::Events {
        pool: None,
        follow: false,
    };
    let (_, parts) = ask(&engine, events).expect("answered");
    assert!(matches!(&parts[0], Part::Events(events) if events.len() == 1));
    let export = || Request::Export {
        pool: pool.clone(),
        how: ExportHow::default(),
    };
    ask(&engine, export()).expect("nothing uses it");
    assert!(engine.idle());
    assert!(matches!(
        ask(&engine, export()),
        Err(ControlError::NoSuchPool { .. })
    ));
    let search = search_of(&golden);
    let (response, _) = ask(&engine, Request::ImportSearch { search }).expect("answered");
    let Response::Candidates { candidates, .. } = response else {
        panic!("{response:?}");
    };
    assert_eq!(
        (candidates.len(), candidates[0].name.as_str()),
        (1, pool.as_str())
    );
    assert_eq!(candidates[0].health, PoolHealth::Online);
}
