//! How blocks are cached, as the properties of their dataset say.

use crate::common::Bench;
use crate::tree::named;
use cenote_base::ObjsetId;
use cenote_dmu::{CacheScope, Caching, DirectIo};
use cenote_dsl::Stored;
use cenote_dsl::write::{
    CreateDataset, CreateSnapshots, DestroyDataset, DestroySnapshots, Encryption, SetProperties,
    Setting,
};
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::VdevShape;
use cenote_vdev::AllocationClass::Normal;

/// What `primarycache`, `prefetch` and `direct` say holds for what is open already, and for what is
/// opened later.
#[test]
fn caching_follows_the_properties() {
    let mut bench = Bench::new("caching");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    let name = pool.dsl().pool_name().clone();
    let root = || pool.dsl().dataset(&name).expect("there");
    let set = |property: &str, value: Option<u64>| {
        let setting = Setting {
            name: property.to_owned(),
            value: value.map(Stored::Number),
        };
        let task = SetProperties {
            name: name.clone(),
            settings: vec![setting],
        };
        pool.run_task(task).expect("set");
    };
    let reader = root().object_set().expect("opens");
    assert_eq!(reader.caching(), Caching::default());
    set("primarycache", Some(1));
    set("direct", Some(2));
    let mut expected = Caching {
        primary: CacheScope::Metadata,
        prefetch: CacheScope::All,
        direct: DirectIo::Always,
    };
    assert_eq!(reader.caching(), expected);
    let gate = pool.gate().expect("open for writing");
    let head = pool.dsl().open_for_writing(&root(), gate).expect("a head");
    assert_eq!(head.set().caching(), expected);
    set("prefetch", Some(0));
    set("primarycache", None);
    expected.prefetch = CacheScope::None;
    expected.primary = CacheScope::All;
    assert_eq!(head.set().caching(), expected);
    pool.dsl().close_head(head.id());
    assert_eq!(root().object_set().expect("opens").caching(), expected);
    drop(head);
    pool.close().expect("written");
    bench.check();
}

/// Object numbers are used again. What the readers of a destroyed dataset or snapshot did was
/// counted for the next one that had its number.
#[test]
fn a_new_dataset_has_none_of_the_figures_of_a_destroyed_one() {
    let mut bench = Bench::new("counted");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    let create = || {
        let task = CreateDataset {
            name: named("counted/a"),
            kind: ObjsetKind::Other,
            properties: Vec::new(),
            encryption: Encryption::Inherit,
            format: None,
            created: None,
        };
        pool.run_task(task).expect("created");
        let task = CreateSnapshots {
            names: vec![named("counted/a@1")],
            properties: Vec::new(),
        };
        pool.run_task(task).expect("made");
    };
    let open = || {
        ["counted/a", "counted/a@1"].map(|name| {
            let dataset = pool.dsl().dataset(&named(name)).expect("there");
            dataset.object_set().expect("opens").id()
        })
    };
    let lookups = |id: ObjsetId| {
        let figures = pool.cache().datasets().remove(&id)?;
        let counts = figures.demand.iter().chain(&figures.prefetch).flatten();
        Some(counts.sum::<u64>())
    };
    create();
    let old = open();
    for id in old {
        assert!(lookups(id).is_some_and(|count| count > 0), "{id}");
    }
    let task = DestroySnapshots {
        names: vec![named("counted/a@1")],
        defer: false,
    };
    pool.run_task(task).expect("destroyed");
    assert_eq!(lookups(old[1]), None, "the snapshot is no more");
    let name = named("counted/a");
    pool.run_task(DestroyDataset { name }).expect("destroyed");
    assert_eq!(lookups(old[0]), None, "the head is no more");
    // Readers may have left cells of any number that is free.
    const MANY: u64 = 1000;
    for id in 1..2000 {
        let stale = pool.cache().for_dataset(ObjsetId(id));
        (0..MANY).for_each(|_| stale.note_hit(false));
    }
    create();
    for id in open() {
        assert!(id.0 < 2000, "{id} had none");
        assert!(lookups(id).is_some_and(|count| count < MANY), "{id}");
    }
    pool.close().expect("written");
    bench.check();
}
