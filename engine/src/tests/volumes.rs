//! Volumes that are open for writing while commands change them.

use super::ask;
use super::heads::{change, pool};
use crate::Engine;
use crate::registry::imported::Imported;
use cenote_control::model::{Change, ControlError, NewDataset, NewVolume, Request, Response};
use cenote_dataset::{DatasetError, SyncPolicy};
use cenote_dsl::{Dataset, DatasetName};
use cenote_volume::VolumeError;
use std::sync::Arc;

const NAME: &str = "heads/volume";
const MIB: u64 = 1 << 20;

fn volume(engine: &Engine) -> (Arc<Imported>, Dataset) {
    let new = NewDataset {
        name: NAME.to_owned(),
        volume: Some(NewVolume {
            size: 8 * MIB,
            block_size: None,
            sparse: true,
        }),
        ..NewDataset::default()
    };
    change(engine, Change::CreateDataset(Box::new(new)));
    let name = DatasetName::parse(NAME).expect("a name");
    engine.context.registry.dataset(&name).expect("it is there")
}

fn set(engine: &Engine, property: &str, value: &str) {
    let properties = Change::SetProperties {
        datasets: vec![NAME.to_owned()],
        properties: vec![(property.to_owned(), value.to_owned())],
        unmounted: false,
    };
    change(engine, properties);
}

/// A change of `volsize` closed the head although the volume was in use: the next write could not
/// be stored, and stopped the pool.
#[test]
fn a_volume_in_use_gets_another_size_and_stays_open() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (imported, dataset) = volume(&engine);
    let volume = imported.open_volume(&dataset).expect("opens");
    volume.write(7 * MIB, &[7; 4096]).expect("writes");
    set(&engine, "volsize", "4M");
    assert_eq!(volume.size(), 4 * MIB);
    let behind = volume.write(7 * MIB, &[7; 4096]);
    assert!(
        matches!(behind, Err(VolumeError::BeyondEnd { .. })),
        "{behind:?}"
    );
    volume.write(MIB, &[1; 4096]).expect("it is still open");
    volume.flush().expect("stored");
    set(&engine, "volsize", "8M");
    let mut bytes = [9; 4096];
    volume.read(7 * MIB, &mut bytes).expect("readable");
    assert_eq!(bytes, [0; 4096], "what was cut off does not come back");
    volume.write(7 * MIB, &[8; 4096]).expect("writes");
    assert!(imported.pool.suspended().is_none());
    let destroyed = ask(
        &engine,
        Request::Change {
            change: Change::DestroyDataset {
                dataset: NAME.to_owned(),
                recursive: false,
                clones: false,
                force: false,
                dry_run: false,
            },
            command: "a test".to_owned(),
        },
    );
    let Ok((Response::Failures { failures, done: 0 }, _)) = destroyed else {
        panic!("{destroyed:?}");
    };
    let busy = ControlError::DatasetBusy {
        dataset: NAME.to_owned(),
    };
    assert_eq!(failures, [(NAME.to_owned(), busy)]);
    drop(volume);
    imported.close_unmounted(&[dataset.id()]).expect("stored");
    assert!(
        imported.dsl().open_head(dataset.id()).is_none(),
        "it is closed"
    );
    let stored = imported.dsl().dataset_of(dataset.id()).expect("is there");
    let stored = cenote_volume::Volume::open(stored.object_set().expect("readable"));
    stored
        .expect("opens")
        .read(7 * MIB, &mut bytes)
        .expect("readable");
    assert_eq!(bytes, [8; 4096]);
}

#[test]
fn an_open_volume_goes_by_its_properties() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (imported, dataset) = volume(&engine);
    let volume = imported.open_volume(&dataset).expect("opens");
    let policy = || volume.dataset().expect("writable").sync_policy();
    assert_eq!(policy(), SyncPolicy::Standard);
    set(&engine, "sync", "always");
    assert_eq!(policy(), SyncPolicy::Always);
    let before = imported.pool.synced_txg();
    volume.write(0, b"durable").expect("writes");
    assert!(
        imported.pool.synced_txg() > before,
        "it waited for the disk"
    );
    let files = imported.open_head(&dataset);
    assert!(
        matches!(files, Err(ControlError::WrongKind { .. })),
        "{files:?}"
    );
}

/// A rollback would give the clients of a volume other contents under their feet, and their next
/// write would fail. An export with force disconnects them.
#[test]
fn a_volume_in_use_is_not_exchanged_but_can_be_cut_off() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let (imported, dataset) = volume(&engine);
    let volume = imported.open_volume(&dataset).expect("opens");
    let exchanged = imported.close_held_head(dataset.id());
    assert!(
        matches!(exchanged, Err(ControlError::DatasetBusy { .. })),
        "{exchanged:?}"
    );
    volume.write(0, b"it stayed open").expect("writes");
    imported.end_head(dataset.id(), true).expect("cut off");
    let late = volume.write(0, b"late");
    let is_closed = matches!(late, Err(VolumeError::Dataset(DatasetError::Closed)));
    assert!(is_closed, "{late:?}");
    imported.pool.sync().expect("the pool still works");
    assert!(imported.pool.suspended().is_none());
}
