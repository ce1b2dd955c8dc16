//! New pools in all layouts, judged by OpenZFS.

use crate::common::{self, Bench};
use cenote_pool::{AddRequest, VdevShape};
use cenote_vdev::AllocationClass::{Dedup, Log, Normal, Special};

#[test]
fn one_file() {
    let mut bench = Bench::new("single");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![vdev]);
    pool.close().expect("written");
    if let Some(keep) = std::env::var_os("KEEP_POOL") {
        for entry in std::fs::read_dir(bench.dir.path())
            .expect("readable")
            .flatten()
        {
            let to = std::path::Path::new(&keep).join(entry.file_name());
            std::fs::copy(entry.path(), to).expect("copied");
        }
    }
    bench.check();
}

#[test]
fn spares_and_caches() {
    let mut bench = Bench::new("extras");
    let vdev = bench.vdev(VdevShape::Mirror, Normal, 2);
    let mut request = bench.request(vec![vdev]);
    request.spares.push(bench.leaf(128));
    request.cache_devices.push(bench.leaf(128));
    request.comment = Some("a remark".to_owned());
    let env = std::sync::Arc::new(cenote_base::RealEnv::new());
    let pool = cenote_pool::create(request, &common::options(), env).expect("created");
    for round in 0..20 {
        common::change(&pool, round).expect("written");
    }
    let actor = cenote_pool::Actor::default();
    let guid = pool
        .reguid(None, &actor, "zpool reguid extras")
        .expect("changed");
    assert_eq!(pool.guid(), guid);
    pool.set_comment("another", &actor, "").expect("changed");
    assert_eq!(pool.remarks().0.as_deref(), Some("another"));
    pool.export().expect("written");
    drop(pool);
    bench.check();
}

#[test]
fn layouts() {
    let raidz = |parity| VdevShape::Raidz { parity };
    let draid = VdevShape::Draid {
        parity: 1,
        data: 2,
        spares: 1,
    };
    let cases = [
        ("mirror", vec![(VdevShape::Mirror, Normal, 2)]),
        ("raidz1", vec![(raidz(1), Normal, 3)]),
        ("raidz2", vec![(raidz(2), Normal, 5)]),
        ("raidz3", vec![(raidz(3), Normal, 6)]),
        ("draid", vec![(draid, Normal, 5)]),
        (
            "stripe",
            vec![
                (VdevShape::Single, Normal, 1),
                (VdevShape::Mirror, Normal, 2),
            ],
        ),
        (
            "classes",
            vec![
                (VdevShape::Single, Normal, 1),
                (VdevShape::Mirror, Special, 2),
                (VdevShape::Single, Dedup, 1),
                (VdevShape::Single, Log, 1),
            ],
        ),
    ];
    for (name, vdevs) in cases {
        eprintln!("{name}");
        let mut bench = Bench::new(name);
        let make = |(shape, class, count): (VdevShape, _, usize)| bench.vdev(shape, class, count);
        let vdevs = vdevs.into_iter().map(make).collect();
        let pool = bench.create(vdevs);
        for round in 0..25 {
            common::change(&pool, round).expect("written");
        }
        pool.close().expect("written");
        bench.check();
    }
}

/// Without logs of space maps every group appends to the metaslabs' own maps, and frees of its
/// later passes wait for the next.
#[test]
fn few_features() {
    let mut bench = Bench::new("plain");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let mut request = bench.request(vec![vdev]);
    let few = [
        "lz4_compress",
        "extensible_dataset",
        "empty_bpobj",
        "async_destroy",
    ];
    request
        .features
        .retain(|feature| few.contains(&feature.name));
    let env = std::sync::Arc::new(cenote_base::RealEnv::new());
    let pool = cenote_pool::create(request, &common::options(), env).expect("created");
    for round in 0..40 {
        common::change(&pool, round).expect("written");
    }
    let actor = cenote_pool::Actor::default();
    for name in [
        "spacemap_histogram",
        "hole_birth",
        "log_spacemap",
        "zstd_compress",
    ] {
        let feature = cenote_ondisk::features::by_name(name).expect("known");
        pool.enable_feature(feature, &actor, "zpool set")
            .expect("enabled");
        for round in 0..10 {
            common::change(&pool, round).expect("written");
        }
    }
    pool.export().expect("written");
    drop(pool);
    bench.check();
}

/// Vdevs of all kinds are added to a pool in use, and an open group writes to them.
#[test]
fn additions() {
    let mut bench = Bench::new("growing");
    let first = bench.vdev(VdevShape::Single, Normal, 1);
    let pool = bench.create(vec![first]);
    let actor = cenote_pool::Actor::default();
    let raidz = VdevShape::Raidz { parity: 1 };
    let additions = [
        (VdevShape::Mirror, Normal, 2),
        (raidz, Normal, 3),
        (VdevShape::Single, Log, 1),
        (VdevShape::Mirror, Special, 2),
    ];
    for (shape, class, count) in additions {
        let vdev = bench.vdev(shape, class, count);
        let request = AddRequest {
            vdevs: vec![vdev],
            ..AddRequest::default()
        };
        pool.add(&request, &actor, "zpool add").expect("added");
        for round in 0..6 {
            common::change(&pool, round).expect("written");
        }
    }
    assert_eq!(pool.vdev_tree().children.len(), 5);
    assert_eq!(pool.space().len(), 5);
    pool.export().expect("written");
    drop(pool);
    bench.check();
}
