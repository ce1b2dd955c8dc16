//! Values that make a machine do something, in pools that more than one machine has imported.
//!
//! Regression: volumes of a pool from another machine were served, writable, as soon as the pool
//! was imported.

use super::local_disks::Machine;
use super::pools::ask;
use cenote_control::model::{Change, Request, Response, RollBack, SnapshotChange, WaitingValue};
use cenote_control::protocol::DisksAtEnd;
use std::fs;
use std::sync::atomic::Ordering;

const DISK: &str = "cenote:ublk";
const VOLUME: &str = "heads/vol";
const NONE: [&str; 0] = [];

fn value(dataset: &str, property: &str, value: &str) -> WaitingValue {
    WaitingValue {
        dataset: dataset.to_owned(),
        property: property.to_owned(),
        value: value.to_owned(),
    }
}

pub(super) fn waiting(machine: &Machine) -> Vec<WaitingValue> {
    let request = Request::PoolStatus {
        pools: Vec::new(),
        errors: false,
        dedup: false,
    };
    let (response, _) = ask(&machine.engine, request).expect("answered");
    let Response::Statuses { pools, .. } = response else {
        panic!("{response:?}");
    };
    pools.into_iter().flat_map(|pool| pool.waiting).collect()
}

fn approve(machine: &Machine, dataset: &str, recursive: bool) -> Vec<WaitingValue> {
    let change = Change::ApproveValues {
        datasets: vec![dataset.to_owned()],
        recursive,
    };
    let command = "a test".to_owned();
    let (response, _) = ask(&machine.engine, Request::Change { change, command }).expect("done");
    let Response::Approved { values, failures } = response else {
        panic!("{response:?}");
    };
    assert!(failures.is_empty(), "{failures:?}");
    values
}

fn inherit(machine: &Machine, dataset: &str, property: &str) {
    machine.change(Change::InheritProperty {
        datasets: vec![dataset.to_owned()],
        property: property.to_owned(),
        recursive: false,
        received: false,
    });
}

fn again(machine: &Machine) {
    machine.export(false).expect("they are not in use");
    machine.import();
}

#[test]
fn values_of_a_pool_from_elsewhere_wait_for_a_yes_that_stays() {
    let one = Machine::new();
    one.volume(VOLUME, &[(DISK, "on")]);
    assert_eq!(one.names(), [VOLUME], "setting is a yes");
    again(&one);
    assert_eq!(one.names(), [VOLUME]);
    one.export(false).expect("exported");

    let mut two = one.elsewhere();
    two.import();
    assert_eq!(two.names(), NONE);
    assert_eq!(waiting(&two), [value(VOLUME, DISK, "on")]);
    assert!(approve(&two, "heads", false).is_empty(), "that has nothing");
    assert_eq!(two.names(), NONE);
    let approved = approve(&two, "heads", true);
    assert_eq!(approved, [value(VOLUME, DISK, "on")]);
    assert_eq!(two.names(), [VOLUME]);
    assert!(waiting(&two).is_empty());
    again(&two);
    two.restart(DisksAtEnd::Go);
    two.import();
    assert_eq!(two.names(), [VOLUME]);

    // Values that it sets wait for approval on the first one; values that it removes do not.
    two.set("heads", DISK, "on");
    inherit(&two, VOLUME, DISK);
    assert_eq!(
        two.names(),
        [VOLUME],
        "as below a dataset that was set here"
    );
    two.export(false).expect("exported");
    one.import();
    assert_eq!(one.names(), NONE);
    assert_eq!(waiting(&one), [value("heads", DISK, "on")]);
    one.set("heads", DISK, "on");
    assert_eq!(one.names(), [VOLUME], "the same value set again");
    assert!(waiting(&one).is_empty());
    one.volume("heads/one/new", &[]);
    assert_eq!(one.names(), ["heads/one/new", VOLUME]);
}

/// Other properties hide volumes, or show their snapshots.
#[test]
fn what_hides_less_waits_and_what_hides_more_does_not() {
    let one = Machine::new();
    one.set("heads", DISK, "on");
    one.set("heads", "volmode", "none");
    one.volume(VOLUME, &[]);
    one.snapshot("heads/vol@s");
    assert_eq!(one.names(), NONE);
    one.export(false).expect("exported");
    let two = one.elsewhere();
    two.import();
    two.set(VOLUME, "volmode", "full");
    two.set(VOLUME, "snapdev", "visible");
    two.export(false).expect("exported");

    one.import();
    assert_eq!(one.names(), NONE, "its mode is still none");
    let mut found = waiting(&one);
    found.sort_by(|a, b| a.property.cmp(&b.property));
    let both = [
        value(VOLUME, "snapdev", "visible"),
        value(VOLUME, "volmode", "full"),
    ];
    assert_eq!(found, both);
    one.set(VOLUME, "volmode", "full");
    assert_eq!(one.names(), [VOLUME], "without its snapshot");
    assert_eq!(approve(&one, VOLUME, false).len(), 1);
    assert_eq!(one.names(), [VOLUME, "heads/vol@s"]);
    one.export(false).expect("exported");
    two.import();
    two.set(VOLUME, "volmode", "none");
    two.export(false).expect("exported");
    one.import();
    assert_eq!(one.names(), NONE);
    assert!(waiting(&one).is_empty());
}

#[test]
fn a_yes_goes_with_its_dataset_and_ends_with_it() {
    let one = Machine::new();
    one.volume(VOLUME, &[(DISK, "on")]);
    one.snapshot("heads/vol@s");
    one.change(Change::ReguidPool {
        pool: "heads".to_owned(),
        guid: None,
    });
    one.rename(VOLUME, "heads/one/moved").expect("renamed");
    one.change(Change::RollBack(RollBack {
        snapshot: "heads/one/moved@s".to_owned(),
        newer: Vec::new(),
        clones: Vec::new(),
        force: false,
    }));
    again(&one);
    assert_eq!(one.names(), ["heads/one/moved"]);
    one.change(Change::Snapshots(SnapshotChange::Clone {
        origin: "heads/one/moved@s".to_owned(),
        name: "heads/clone".to_owned(),
        properties: vec![(DISK.to_owned(), "on".to_owned())],
        parents: false,
        unmounted: true,
    }));
    one.change(Change::Snapshots(SnapshotChange::Promote {
        dataset: "heads/clone".to_owned(),
    }));
    again(&one);
    assert_eq!(one.names(), ["heads/clone", "heads/one/moved"]);
    let record = one.directory.path().join("state/approvals.json");
    let count = || {
        fs::read_to_string(&record)
            .expect("a record")
            .matches(DISK)
            .count()
    };
    let before = count();
    one.set("heads/clone", DISK, "off");
    assert_eq!(one.names(), ["heads/one/moved"]);
    assert_eq!(count(), before - 1);
}

/// A pool with `failmode=panic` ends the daemon, and with it all that other pools serve.
#[test]
fn a_pool_from_elsewhere_does_not_end_the_daemon() {
    let panics = |machine: &Machine| {
        let pool = machine.engine.registry().pool("heads").expect("imported");
        pool.panics.load(Ordering::Relaxed)
    };
    let one = Machine::new();
    one.change(Change::SetPoolProperty {
        pool: "heads".to_owned(),
        property: "failmode".to_owned(),
        value: "panic".to_owned(),
    });
    assert!(panics(&one));
    again(&one);
    assert!(panics(&one));
    one.export(false).expect("exported");
    let two = one.elsewhere();
    two.import();
    assert!(!panics(&two));
    assert_eq!(waiting(&two), [value("heads", "failmode", "panic")]);
    approve(&two, "heads", false);
    assert!(panics(&two));
    again(&two);
    assert!(panics(&two) && waiting(&two).is_empty());
}

/// A record that cannot be read approves nothing, and neither does a missing one.
#[test]
fn without_its_record_a_machine_approves_nothing() {
    let mut one = Machine::new();
    one.volume(VOLUME, &[(DISK, "on")]);
    let record = one.directory.path().join("state/approvals.json");
    one.restart(DisksAtEnd::Go);
    fs::write(&record, "{\"values\": [").expect("written");
    for _ in 0..2 {
        one.restart(DisksAtEnd::Go);
        one.import();
        assert_eq!(one.names(), NONE);
    }
    one.set(VOLUME, DISK, "on");
    assert_eq!(one.names(), [VOLUME]);
    one.restart(DisksAtEnd::Go);
    one.import();
    assert_eq!(one.names(), [VOLUME]);
}
