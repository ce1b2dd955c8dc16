//! Reports to clients about pools with missing devices or unreplayed logs.

use super::{ask, engine};
use crate::Engine;
use cenote_control::model::{
    AllocationClass, ControlError, Fault, ImportCandidate, ImportCondition, ImportOptions,
    ImportPick, PoolHealth, PoolStatus, Request, Response, Search, Vdev, VdevState,
};
use cenote_tests::golden::Golden;
use std::path::Path;

fn search_in(directory: &Path) -> Search {
    Search {
        paths: vec![directory.to_string_lossy().into_owned()],
        ..Search::default()
    }
}

/// The golden pool of a kind without some of its devices; `None` when it is not here.
fn without(kind: &str, lost: &[usize]) -> Option<(tempfile::TempDir, Golden)> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let directory = tempfile::tempdir().expect("a directory");
    golden
        .link_without(directory.path(), lost)
        .expect("images unpack");
    Some((directory, golden))
}

fn import(
    engine: &Engine,
    directory: &Path,
    options: ImportOptions,
) -> Result<Response, ControlError> {
    let golden_pool = candidate(engine, directory).name;
    let request = Request::Import {
        search: search_in(directory),
        pick: ImportPick::Name(golden_pool),
        options: ImportOptions {
            readonly: true,
            no_mount: true,
            ..options
        },
    };
    ask(engine, request).map(|(response, _)| response)
}

fn candidate(engine: &Engine, directory: &Path) -> ImportCandidate {
    let request = Request::ImportSearch {
        search: search_in(directory),
    };
    match ask(engine, request).expect("answered") {
        (Response::Candidates { mut candidates, .. }, _) => candidates.remove(0),
        other => panic!("{other:?}"),
    }
}

fn status(engine: &Engine) -> PoolStatus {
    let request = Request::PoolStatus {
        pools: Vec::new(),
        errors: true,
        dedup: false,
    };
    match ask(engine, request).expect("answered") {
        (Response::Statuses { mut pools, .. }, _) => pools.remove(0),
        other => panic!("{other:?}"),
    }
}

fn leaves(root: &Vdev) -> Vec<&Vdev> {
    let mut found = Vec::new();
    let mut stack = vec![root];
    while let Some(vdev) = stack.pop() {
        if vdev.children.is_empty() {
            found.push(vdev);
        }
        stack.extend(vdev.children.iter().rev());
    }
    found
}

/// The listing once showed the paths of the labels, which may be years old.
#[test]
fn listed_devices_have_the_paths_where_they_were_found() {
    let Some((directory, _)) = without("mirror2", &[0]) else {
        return;
    };
    let found = candidate(&engine(), directory.path());
    assert_eq!(found.health, PoolHealth::Degraded);
    let leaves = leaves(&found.vdevs.root);
    let here = directory.path().join("v1.img");
    assert_eq!(leaves[1].path.as_deref(), here.to_str());
    assert!(
        leaves[0]
            .path
            .as_deref()
            .is_some_and(|path| path.ends_with("v0.img"))
    );
    assert_eq!(leaves[0].state, VdevState::CantOpen);
    assert_eq!(found.diagnoses[0].fault, Fault::NotFound);
    assert_eq!(found.diagnoses[0].last_path, leaves[0].path);
}

#[test]
fn a_refusal_names_the_devices_that_are_missing() {
    for (kind, lost, place) in [
        ("raidz1-3", &[0, 2][..], "raidz1-0"),
        ("stripe-mixed-sizes", &[1], "top-level vdev 1"),
    ] {
        let Some((directory, _)) = without(kind, lost) else {
            return;
        };
        let error = import(&engine(), directory.path(), ImportOptions::default());
        let Err(ControlError::DevicesUnavailable { diagnoses, .. }) = error else {
            panic!("{kind}: {error:?}");
        };
        assert_eq!(diagnoses.len(), lost.len(), "{kind}: {diagnoses:?}");
        for (diagnosis, lost) in diagnoses.iter().zip(lost) {
            assert_eq!(diagnosis.vdev, place);
            let path = diagnosis.last_path.as_deref().expect("labels have it");
            assert!(path.ends_with(&format!("v{lost}.img")), "{path}");
        }
    }
}

/// The labels of other devices do not have a disk that is a top-level vdev, and a listing called it
/// "top-level vdev 1: not found". The pool's own configuration knows where it was.
#[test]
fn a_listing_names_a_missing_disk_by_its_last_path() {
    let Some((directory, _)) = without("stripe-mixed-sizes", &[1]) else {
        return;
    };
    let listed = candidate(&engine(), directory.path());
    assert_eq!(listed.health, PoolHealth::Unavail);
    let is_lost = |path: Option<&str>| path.is_some_and(|path| path.ends_with("v1.img"));
    let told = &listed.diagnoses[0];
    assert!(is_lost(told.last_path.as_deref()), "{told:?}");
    let mut tops = listed.vdevs.root.children.iter();
    let lost = tops.find(|top| top.state == VdevState::CantOpen);
    assert!(
        is_lost(lost.and_then(|lost| lost.path.as_deref())),
        "{lost:?}"
    );
}

#[test]
fn a_log_device_can_be_done_without_if_that_is_said() {
    let Some((directory, _)) = without("dirty-zil-slog", &[1]) else {
        return;
    };
    let engine = engine();
    // As OpenZFS lists it: degraded, with the log by its path.
    let listed = candidate(&engine, directory.path());
    assert_eq!(listed.health, PoolHealth::Degraded);
    assert_eq!(listed.condition, Some(ImportCondition::CorruptDevices));
    let log = listed.vdevs.of_class(AllocationClass::Log).next();
    let log = log.expect("the pool's own configuration tells of it");
    assert_eq!((log.state, log.not_present), (VdevState::CantOpen, false));
    assert_eq!(log.path.as_deref(), Some("/dev/vdc1"));
    let force = ImportOptions {
        force: true,
        ..ImportOptions::default()
    };
    let error = import(&engine, directory.path(), force.clone());
    let Err(ControlError::LogMissing { logs, .. }) = error else {
        panic!("{error:?}");
    };
    let [log] = logs.as_slice() else {
        panic!("{logs:?}");
    };
    assert_eq!((log.name.as_str(), log.devices.len()), ("vdc1", 0));
    let options = ImportOptions {
        missing_log: true,
        replay_in_memory: true,
        ..force
    };
    let imported = import(&engine, directory.path(), options);
    let Ok(Response::Imported {
        diagnoses,
        cut_short,
        ..
    }) = imported
    else {
        panic!("{imported:?}");
    };
    assert_eq!(diagnoses.len(), 1, "{diagnoses:?}");
    // The records were on the missing device, so no log is reported as replayed.
    assert!(
        cut_short
            .iter()
            .any(|log| log.dataset.ends_with("/data") && log.broken.is_some())
    );
    assert!(
        cut_short.iter().all(|log| log.applied.is_none()),
        "{cut_short:?}"
    );
    assert_eq!(status(&engine).health, PoolHealth::Degraded);
}

/// What a replay did used to be dropped where the dataset is opened.
#[test]
fn a_status_tells_how_the_replay_went() {
    let Some((directory, _)) = without("dirty-zil", &[]) else {
        return;
    };
    let engine = engine();
    let options = ImportOptions {
        force: true,
        replay_in_memory: true,
        ..ImportOptions::default()
    };
    let imported = import(&engine, directory.path(), options);
    let Ok(Response::Imported { cut_short, .. }) = imported else {
        panic!("{imported:?}");
    };
    assert!(cut_short.is_empty(), "{cut_short:?}");
    let logs = status(&engine).intent_logs;
    let of = |name: &str| logs.iter().find(|log| log.dataset.ends_with(name));
    let data = of("/data").expect("it has a log");
    assert!(
        data.records > 0 && data.applied == Some(data.records),
        "{data:?}"
    );
    let volume = of("/vol").expect("it has a log");
    assert_eq!(volume.applied, Some(volume.records));
    let locked = of("/enc").expect("it has a log");
    assert_eq!(locked.applied, None, "its key is not loaded");
}
