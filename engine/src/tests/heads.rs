//! Heads that are still in use when the engine wants to close them.

use super::{ask, engine};
use crate::Engine;
use cenote_control::model::{
    Change, ControlError, NewDataset, NewPool, NewVdev, NewVdevKind, NewVdevRole, Request,
};
use cenote_dsl::DatasetName;
use cenote_posix::write::NewFile;
use cenote_posix::{FileKind, FileSystem, PosixError};

/// Makes a change. This engine cannot mount: mounts fail, and everything else succeeds.
pub(super) fn change(engine: &Engine, change: Change) {
    let command = "a test".to_owned();
    let done = ask(engine, Request::Change { change, command });
    done.expect("done");
}

pub(super) fn pool(directory: &std::path::Path) -> Engine {
    let engine = engine();
    pool_of(&engine, directory);
    engine
}

/// Makes the pool `heads` with the file system `heads/one`.
pub(super) fn pool_of(engine: &Engine, directory: &std::path::Path) {
    let device = directory.join("device");
    let file = std::fs::File::create(&device).expect("a file");
    file.set_len(128 << 20).expect("sparse");
    let pool = NewPool {
        name: "heads".to_owned(),
        vdevs: vec![NewVdev {
            role: NewVdevRole::Normal,
            kind: NewVdevKind::Disk,
            devices: vec![device.to_string_lossy().into_owned()],
        }],
        dataset_properties: vec![("mountpoint".to_owned(), "none".to_owned())],
        ..NewPool::default()
    };
    change(engine, Change::CreatePool(Box::new(pool)));
    let dataset = NewDataset {
        name: "heads/one".to_owned(),
        unmounted: true,
        ..NewDataset::default()
    };
    change(engine, Change::CreateDataset(Box::new(dataset)));
}

fn make(files: &FileSystem, name: &[u8]) -> Result<(), PosixError> {
    let new = NewFile::new(FileKind::Regular, 0o644);
    files.create(files.root(), name, &new).map(drop)
}

/// A head was closed although a session had it: the next change could not be written down, and
/// stopped the pool.
#[test]
fn a_head_in_use_stays_open_and_a_held_one_takes_no_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let engine = pool(directory.path());
    let name = DatasetName::parse("heads/one").expect("a name");
    let (imported, dataset) = engine.context.registry.dataset(&name).expect("it is there");
    let files = imported.open_head(&dataset).expect("open");
    make(&files, b"before").expect("made");
    let refused = imported.close_head(dataset.id());
    assert!(
        matches!(refused, Err(ControlError::DatasetBusy { .. })),
        "{refused:?}"
    );
    make(&files, b"meanwhile").expect("it stayed open");
    imported.close_held_head(dataset.id()).expect("written");
    let late = make(&files, b"late");
    assert!(matches!(late, Err(PosixError::Closed)), "{late:?}");
    files.sync().expect("all that was made is on disk");
    imported.pool.sync().expect("the pool still works");
    let again = imported.open_head(&dataset).expect("open");
    make(&again, b"after").expect("made");
    drop(again);
    imported.close_head(dataset.id()).expect("it is not in use");
    imported.pool.sync().expect("the pool still works");
    assert!(imported.pool.suspended().is_none());
}
