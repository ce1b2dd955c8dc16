//! Devices that are opened by name: made, written, released, and opened where nothing of them lies.

use cenote_cloud::StoreOpener;
use cenote_device::{Device, DeviceError, Opener};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

const SIZE: u64 = 1 << 30;

fn kind(result: Result<Arc<dyn Device>, DeviceError>) -> Option<ErrorKind> {
    let error = result.err()?;
    Some(error.io_error().expect("of the opening").kind())
}

fn byte_at(device: &dyn Device, offset: u64) -> u8 {
    device.read_vec(offset, 1).expect("a byte")[0]
}

#[test]
fn a_device_is_known_by_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let url = format!("file://{}", at("store").display());
    let name = PathBuf::from(&url);
    let here = StoreOpener::new(false).with_state(&at("here"));
    let there = StoreOpener::new(false).with_state(&at("there"));

    assert_eq!(kind(here.open(&name)), Some(ErrorKind::NotFound));
    assert_eq!(kind(here.open_or_create(&name)), Some(ErrorKind::NotFound));
    assert!(!at("store").exists(), "looking makes no store");

    let to_make = PathBuf::from(format!("{url}?size=1G&log=16M"));
    let device = here.open_or_create(&to_make).expect("made");
    assert_eq!((device.size(), device.path()), (SIZE, name.as_path()));
    device.write_at(SIZE - 4096, &[7; 4096]).expect("room");
    device.flush().expect("in the log");
    let small = PathBuf::from(format!("{url}?log=16M"));
    let held = there.open_writable(&small);
    assert_eq!(kind(held), Some(ErrorKind::ResourceBusy));
    device.unlock();

    // The device is closed: what is written now is refused, and the next one may come.
    assert!(device.write_at(0, &[1]).is_err());
    let reader = there.open(&name).expect("released");
    assert_eq!(byte_at(&*reader, SIZE - 1), 7);
    assert!(reader.write_at(0, &[1]).is_err());
    let second = there.open_writable(&small).expect("released");
    assert_eq!(byte_at(&*second, SIZE - 1), 7);
    second.write_at(0, &[9; 512]).expect("room");
    second.flush().expect("in the log");
    drop(second);

    // It was not released. A machine with its log resumes; others need force, and lose the log.
    drop(device);
    let here_again = here.open_writable(&small);
    assert_eq!(kind(here_again), Some(ErrorKind::ResourceBusy));
    let second = there.open_writable(&small).expect("with its log");
    assert_eq!(byte_at(&*second, 0), 9);
    drop(second);
    let forced = StoreOpener::new(true).with_state(&at("here"));
    let taken = forced.open_writable(&small).expect("by force");
    assert_eq!(byte_at(&*taken, SIZE - 1), 7);
    let made_twice = here.open_or_create(&PathBuf::from(format!("{url}?size=2G")));
    assert!(made_twice.is_err(), "it is open");
}

/// Regression: a directory that could not be looked at was taken for one that is not there.
#[test]
fn a_directory_that_cannot_be_looked_at_may_have_a_device() {
    let home = tempfile::tempdir().expect("a directory");
    let circle = home.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).expect("made");
    let name = PathBuf::from(format!("file://{}", circle.display()));
    let opener = StoreOpener::new(false).with_state(&home.path().join("state"));
    let found = kind(opener.open(&name));
    assert!(
        found.is_some_and(|kind| kind != ErrorKind::NotFound),
        "{found:?}"
    );
}

/// The file that the local log is called, somewhere below a directory.
fn log_below(directory: &std::path::Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find_map(|path| match path.is_dir() {
        true => log_below(&path),
        false => path
            .file_name()
            .is_some_and(|name| name == "log")
            .then_some(path),
    })
}

/// The local log was deleted under a running daemon. What was flushed afterwards was in a file
/// without a name, and lost when the daemon was killed.
#[test]
fn what_is_flushed_without_a_local_log_is_in_the_store() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let url = format!("file://{}", at("store").display());
    let here = StoreOpener::new(false).with_state(&at("here"));
    let to_make = PathBuf::from(format!("{url}?size=1G&log=16M"));
    let device = here.open_or_create(&to_make).expect("made");
    device.write_at(0, &[1; 4096]).expect("room");
    device.flush().expect("in the log");
    std::fs::remove_file(log_below(&at("here")).expect("a log")).expect("removed");
    device.write_at(4096, &[2; 4096]).expect("room");
    device.flush().expect("in the store");
    // Killed: it does not release the device.
    drop(device);
    let small = PathBuf::from(format!("{url}?log=16M"));
    // With its log this machine lost the proof that the device is its own.
    let here = StoreOpener::new(true).with_state(&at("here"));
    let device = here.open_writable(&small).expect("taken over");
    assert_eq!((byte_at(&*device, 0), byte_at(&*device, 4096)), (1, 2));
}
