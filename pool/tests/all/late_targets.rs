//! Devices that come while a scan has begun and not walked anything yet.
//!
//! The scan's threads are held back by a setting, so each test has a world with settings of its
//! own, and time that passes when everybody waits.

use crate::common;
use cenote_base::rt::{self, Instant, World};
use cenote_base::settings::SCAN_SUSPEND_PROGRESS;
use cenote_base::{Guid, RealEnv};
use cenote_device::Opener;
use cenote_ondisk::object_directory::OBJECT_DIRECTORY;
use cenote_ondisk::scan::{ScanFunction, ScanState};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{
    Actor, Attachment, Companion, ImportOptions, NewLeaf, NewVdev, Offline, Pool, ScanRequest,
    VdevShape, assemble,
};
use cenote_sim::Disks;
use cenote_vdev::{AllocationClass, scan};
use std::sync::Arc;
use std::time::Duration;

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

const LABELS: usize = 4 << 20;
const SIZE: usize = 64 << 20;

fn by() -> Actor {
    Actor::default()
}

/// A pool on the first devices of a world, and their guids.
fn create(world: &Arc<Disks>, shape: VdevShape, count: usize) -> (Pool, Vec<Guid>) {
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves: world.leaves().into_iter().take(count).collect(),
    };
    let request = common::Bench::new("tank").request(vec![vdev]);
    let pool = cenote_pool::create(request, &options(world), Arc::new(RealEnv::new()));
    let pool = pool.expect("created");
    let tree = pool.vdev_tree();
    let guids = tree.leaves().map(|leaf| leaf.guid).collect();
    (pool, guids)
}

/// Devices that come back are looked for in the world.
fn options(world: &Arc<Disks>) -> ImportOptions {
    ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..common::options()
    }
}

fn import(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &options(world), env).expect("imported")
}

fn suspend(is_suspended: bool) {
    let set = SCAN_SUSPEND_PROGRESS.set(u64::from(is_suspended));
    set.expect("a switch");
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        rt::sleep(Duration::from_millis(5));
    }
}

/// Waits until no scan is under way and nothing is missed.
fn settled(pool: &Pool) {
    await_that("it does not come to rest", || {
        let status = pool.scan_status().expect("readable").expect("one began");
        let is_over = status.scan.state != ScanState::Scanning;
        is_over && pool.vdevs().is_resilver_needed().is_none()
    });
}

fn change(pool: &Pool, rounds: std::ops::Range<u64>) {
    rounds.for_each(|round| common::change(pool, round).expect("written"));
}

fn offline(pool: &Pool, leaf: Guid) {
    let done = pool.offline(leaf, Offline::default(), (&by(), ""));
    done.expect("others have it");
}

fn online(pool: &Pool, leaf: Guid) {
    let mut looked = pool.look_for(vec![leaf]).expect("it can be looked for");
    let device = looked.devices.remove(&leaf);
    let done = pool.online(leaf, Some(device.expect("it is there")), (&by(), ""));
    done.expect("it is there");
}

/// Whether everything can be read without these disks.
fn is_whole_without(world: &Arc<Disks>, disks: &[usize]) {
    for disk in disks {
        let device = Arc::clone(&world.leaves()[*disk].device);
        let noise = vec![0xa5; SIZE - 2 * LABELS];
        device.write_at(LABELS as u64, &noise).expect("in range");
    }
    let pool = import(world);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.damaged.is_empty(), "{report:?}");
    pool.close().expect("written");
}

/// Two devices came back within milliseconds of each other. The resilver had taken the gap of the
/// first for its range, found both when it began to work, and struck off the older gap of the
/// second, too: "resilvered, 0 errors", and all was lost when the others went.
#[test]
fn a_device_with_an_older_gap_that_comes_before_the_first_turn() {
    World::simulated(1).run(|| {
        for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 2 }] {
            let count = if shape == VdevShape::Mirror { 3 } else { 5 };
            let world = common::disks(count, SIZE);
            let (pool, guids) = create(&world, shape, count);
            change(&pool, 0..3);
            offline(&pool, guids[1]);
            change(&pool, 3..9);
            offline(&pool, guids[2]);
            change(&pool, 9..11);
            suspend(true);
            online(&pool, guids[2]);
            online(&pool, guids[1]);
            suspend(false);
            settled(&pool);
            pool.close().expect("written");
            drop(pool);
            let others: Vec<usize> = match shape {
                VdevShape::Mirror => vec![0, 2],
                _ => vec![0, 3],
            };
            is_whole_without(&world, &others);
        }
    });
}

/// The resilver under way had been begun by an import without a device that is back at the next:
/// what it came to so far, that device did not get.
#[test]
fn a_device_that_comes_back_between_two_imports() {
    World::simulated(1).run(|| {
        let world = common::disks(3, SIZE);
        let (pool, guids) = create(&world, VdevShape::Mirror, 3);
        offline(&pool, guids[1]);
        change(&pool, 0..6);
        offline(&pool, guids[2]);
        change(&pool, 6..8);
        suspend(true);
        online(&pool, guids[2]);
        let begun = pool.scan_status().expect("readable").expect("begun").scan;
        pool.close().expect("written");
        drop(pool);

        let pool = import(&world);
        assert!(
            pool.is_being_resilvered(guids[2]),
            "it continues for that one"
        );
        let resumed = pool.scan_status().expect("readable").expect("begun").scan;
        assert_eq!(resumed.txg_min, begun.txg_min);
        online(&pool, guids[1]);
        suspend(false);
        settled(&pool);
        pool.close().expect("written");
        drop(pool);
        is_whole_without(&world, &[0, 2]);
    });
}

/// A rebuild gave way to a resilver that was under way for another device, which counted for the
/// new one, too; and the device that it replaced was taken out, with the only copy of the rest.
#[test]
fn a_rebuild_that_gives_way_to_a_resilver_that_has_begun() {
    World::simulated(1).run(|| {
        let world = common::disks(4, SIZE);
        let (pool, guids) = create(&world, VdevShape::Mirror, 3);
        change(&pool, 0..6);
        offline(&pool, guids[1]);
        change(&pool, 6..9);
        suspend(true);
        online(&pool, guids[1]);
        let new = world.leaves().pop().expect("a fourth");
        attach(&pool, guids[0], new);
        // A device that is read from lacks something: the rebuild cannot be relied on.
        let is_rebuilding = || {
            let tree = pool.vdev_tree();
            let mut leaves = tree.leaves();
            leaves.any(|leaf| leaf.rebuild_txg.is_some())
        };
        await_that("it rebuilds", || !is_rebuilding());
        let has_old = || pool.vdev_tree().leaves().any(|leaf| leaf.guid == guids[0]);
        assert!(has_old(), "nothing has been brought yet");
        suspend(false);
        settled(&pool);
        await_that("the old one stays", || !has_old());
        pool.close().expect("written");
        drop(pool);
        is_whole_without(&world, &[0, 1, 2]);
    });
}

/// A spare came for a device that was being replaced: neither ever went, and the replacement never
/// ended.
#[test]
fn a_spare_that_comes_during_a_replacement_goes_with_the_old_device() {
    World::simulated(1).run(|| {
        let world = common::disks(4, SIZE);
        let mut leaves = world.leaves();
        let (new, spare) = (leaves.pop().expect("4"), leaves.pop().expect("4"));
        let vdev = NewVdev {
            shape: VdevShape::Mirror,
            class: AllocationClass::Normal,
            leaves,
        };
        let mut request = common::Bench::new("tank").request(vec![vdev]);
        request.spares.push(spare);
        let pool = cenote_pool::create(request, &options(&world), Arc::new(RealEnv::new()));
        let pool = pool.expect("created");
        change(&pool, 0..4);
        let tree = pool.vdev_tree();
        let old = tree.leaves().next().expect("a side").guid;
        let spares = pool
            .dsl()
            .auxiliary_vdevs(cenote_dsl::directory_keys::SPARES);
        let spare = spares.expect("readable")[0].guid;
        suspend(true);
        let request = Attachment {
            old,
            new,
            companion: Companion::Replacement,
            sequential: false,
            ashift: None,
        };
        pool.attach(&request, (&by(), "")).expect("begun");
        let taken = pool.attach_spare(old, spare, false, (&by(), ""));
        taken.expect("begun");
        suspend(false);
        settled(&pool);
        await_that("they stay", || pool.vdev_tree().leaves().count() == 2);
        let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        assert!(
            !leaves.contains(&old) && !leaves.contains(&spare),
            "{leaves:?}"
        );
        pool.close().expect("written");
    });
}

fn attach(pool: &Pool, old: Guid, new: NewLeaf) {
    let request = Attachment {
        old,
        new,
        companion: Companion::Replacement,
        sequential: true,
        ashift: None,
    };
    pool.attach(&request, (&by(), "")).expect("begun");
}

/// `zpool resilver` left no note in the history.
#[test]
fn a_resilver_that_is_asked_for_is_noted() {
    let world = common::disks(2, SIZE);
    let (pool, _) = create(&world, VdevShape::Mirror, 2);
    let actor = Actor {
        user: 0,
        host: "test".to_owned(),
    };
    let begun = pool.start_scan(ScanRequest::Resilver, (&actor, "zpool resilver tank"));
    begun.expect("nothing is missed");
    assert!(pool.scan_status().expect("readable").is_none());
    let history = cenote_history::read(pool.dsl())
        .expect("readable")
        .expect("it has one");
    let records: Vec<_> = history.collect::<Result<_, _>>().expect("readable");
    let is_noted = |record| format!("{record:?}").contains("zpool resilver");
    assert!(records.iter().any(is_noted), "{records:?}");
    pool.close().expect("written");
}

/// A scrub that was due after a resilver, because a rebuild had ended meanwhile, was forgotten when
/// the pool was exported: the data that the rebuild had copied was never verified.
#[test]
fn a_scrub_that_waits_for_a_resilver_is_due_after_an_import_too() {
    World::simulated(1).run(|| {
        let world = common::disks(5, SIZE);
        let vdev = |leaves: &[NewLeaf]| NewVdev {
            shape: VdevShape::Mirror,
            class: AllocationClass::Normal,
            leaves: leaves.to_vec(),
        };
        let leaves = world.leaves();
        let vdevs = vec![vdev(&leaves[..2]), vdev(&leaves[2..4])];
        let request = common::Bench::new("tank").request(vdevs);
        let pool = cenote_pool::create(request, &options(&world), Arc::new(RealEnv::new()));
        let pool = pool.expect("created");
        let guids: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        change(&pool, 0..3);
        offline(&pool, guids[1]);
        change(&pool, 3..6);
        suspend(true);
        online(&pool, guids[1]);
        let request = Attachment {
            companion: Companion::Side,
            old: guids[2],
            new: leaves[4].clone(),
            sequential: true,
            ashift: None,
        };
        pool.attach(&request, (&by(), "")).expect("begun");
        await_that("no scrub is due", || {
            let due = pool.mos().zap(OBJECT_DIRECTORY).expect("readable");
            let due = due.lookup_u64("org.cenote:scrub_follows");
            due.expect("readable").is_some()
        });
        pool.close().expect("written");
        drop(pool);
        suspend(false);
        let pool = import(&world);
        settled(&pool);
        await_that("there is no scrub", || {
            let status = pool.scan_status().expect("readable").expect("one began");
            status.scan.function == ScanFunction::Scrub && status.scan.state == ScanState::Finished
        });
        let due = pool.mos().zap(OBJECT_DIRECTORY).expect("readable");
        let due = due.lookup_u64("org.cenote:scrub_follows");
        assert!(due.expect("readable").is_none(), "it is done once");
        pool.close().expect("written");
    });
}
