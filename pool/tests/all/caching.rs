//! How blocks are cached, as the properties of their dataset say.

use crate::common::Bench;
use cenote_dmu::{CacheScope, Caching, DirectIo};
use cenote_dsl::Stored;
use cenote_dsl::write::{SetProperties, Setting};
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
