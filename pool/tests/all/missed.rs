//! What a device missed is remembered across imports, and what all missed was not done.

use crate::common;
use cenote_base::{Guid, RealEnv, Txg};
use cenote_device::{Device, DeviceError, Entry, FaultyDevice, Opener};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportError, ImportOptions, NewVdev, Pool, VdevShape, assemble};
use cenote_sim::{Disks, Image, Random};
use cenote_vdev::{AllocationClass, VdevState, scan};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// A pool of one vdev on all devices of a world, the last of which can be made to fail.
fn create(world: &Arc<Disks>, shape: VdevShape) -> (Pool, Arc<FaultyDevice>) {
    let mut leaves = world.leaves();
    let last = leaves.last_mut().expect("a world has devices");
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&last.device)));
    last.device = Arc::clone(&faulty) as Arc<dyn Device>;
    let vdev = NewVdev {
        shape,
        class: AllocationClass::Normal,
        leaves,
    };
    (common::Bench::new("tank").create(vec![vdev]), faulty)
}

fn import(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        // What was missed is to be seen.
        scans: false,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    cenote_pool::import(&candidates[0], &options, env).expect("imported")
}

/// All needed data is right, and this device is reported as outdated.
fn assert_only_stale(pool: &Pool, device: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.complete && report.problems == 0, "{report:?}");
    assert_eq!(report.stale, [device], "{report:?}");
    assert!(!report.is_clean());
}

/// A mirror side that took no writes for a while comes back with its old data: it is not trusted
/// with data written meanwhile.
#[test]
fn a_side_that_took_no_writes() {
    let world = common::disks(2, 64 << 20);
    let (pool, faulty) = create(&world, VdevShape::Mirror);
    common::change(&pool, 0).expect("written");
    faulty.fail_writes(true);
    for round in 1..5 {
        common::change(&pool, round).expect("written on the other side");
    }
    let synced = pool.synced_txg();
    pool.close().expect("written");
    drop(pool);
    let pool = import(&world);
    let guids: Vec<_> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    assert!(pool.vdevs().dtl(guids[0]).is_empty());
    let missed = pool.vdevs().dtl(guids[1]);
    assert!(
        missed.iter().any(|range| range.contains(&synced)),
        "{missed:?}"
    );
    common::change(&pool, 9).expect("written to both");
    assert_only_stale(&pool, "disk1");
    let txg = pool.synced_txg();
    let missed = pool.vdevs().dtl(guids[1]);
    assert!(
        !missed.iter().any(|range| range.contains(&txg)),
        "{missed:?}"
    );
    pool.close().expect("written");
}

/// Everything that was written can be read from this disk alone.
fn assert_whole_alone(world: &Disks, disk: usize) {
    let images = world.images().into_iter().enumerate();
    let images = images.map(|(other, image)| match other == disk {
        true => image,
        false => Image::zeros(SIZE),
    });
    let alone = Arc::new(Disks::of(images.collect(), Random::new(1)));
    let report = verify(&import(&alone), &VerifyOptions::default(), &Silent).expect("runs");
    assert!(
        report.problems == 0 && report.damaged.is_empty(),
        "{report:?}"
    );
}

/// A mirror side failed and was given up. Before its errors were cleared, its file was overwritten
/// with an older copy. The pool took it for what it had left there: the resilver copied what the
/// pool had recorded, and what the copy lacked beyond that was lost with the other side.
#[test]
fn a_side_that_was_given_up_is_judged_by_its_labels_when_errors_are_cleared() {
    for exchanged in [false, true] {
        let world = common::disks(2, SIZE);
        let (pool, faulty) = create(&world, VdevShape::Mirror);
        common::change(&pool, 0).expect("written");
        let mut old = vec![0; SIZE];
        world.images()[1].read(0, &mut old);
        (1..6).for_each(|round| common::change(&pool, round).expect("written"));
        faulty.fail_writes(true);
        let leaf = pool.vdev_tree().leaves().nth(1).expect("a mirror").guid;
        let is_given_up = || {
            pool.vdevs()
                .given_up()
                .iter()
                .any(|(guid, _)| *guid == leaf)
        };
        let mut rounds = 6..200;
        while !is_given_up() {
            let round = rounds.next().expect("it fails too often");
            common::change(&pool, round).expect("written on the other side");
        }
        faulty.heal();
        if exchanged {
            world.leaf(1).device.write_at(0, &old).expect("in range");
        }
        pool.clear(&[]).expect("it is the pool's");
        assert!(!is_given_up());
        bring_up_to_date(&pool, 200);
        pool.close().expect("written");
        drop(pool);
        assert_whole_alone(&world, 1);
    }
}

/// Disks of which one can only be read for a while.
#[derive(Debug)]
struct ReadOnly {
    disks: Arc<Disks>,
    path: PathBuf,
    is_over: AtomicBool,
}

impl ReadOnly {
    fn new(disks: &Arc<Disks>, disk: usize) -> Arc<Self> {
        Arc::new(Self {
            disks: Arc::clone(disks),
            path: disks.paths().swap_remove(disk),
            is_over: AtomicBool::new(false),
        })
    }

    fn import(self: &Arc<Self>) -> Result<Pool, ImportError> {
        let candidates = assemble(scan(&self.disks.paths(), self.as_ref()));
        let options = ImportOptions {
            opener: Arc::clone(self) as Arc<dyn Opener>,
            ..common::options()
        };
        cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
    }
}

impl Opener for ReadOnly {
    fn open(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        self.disks.open(path)
    }

    fn open_writable(&self, path: &Path) -> Result<Arc<dyn Device>, DeviceError> {
        const READ_ONLY_FILE_SYSTEM: i32 = 30;
        match path == self.path && !self.is_over.load(Ordering::Acquire) {
            true => Err(DeviceError::Open {
                path: path.into(),
                source: std::io::Error::from_raw_os_error(READ_ONLY_FILE_SYSTEM),
            }),
            false => self.disks.open_writable(path),
        }
    }

    fn list(&self, path: &Path) -> Result<Option<Vec<Entry>>, DeviceError> {
        self.disks.list(path)
    }
}

/// The file system below one side of a mirror became read-only, and the whole pool could only be
/// imported for reading. Without that side it would have been degraded.
#[test]
fn a_side_that_can_only_be_read_is_left_out() {
    let world = common::disks(2, SIZE);
    let (pool, _) = create(&world, VdevShape::Mirror);
    let leaf = pool.vdev_tree().leaves().nth(1).expect("a mirror").guid;
    (0..3).for_each(|round| common::change(&pool, round).expect("written"));
    pool.close().expect("written");
    drop(pool);
    let opener = ReadOnly::new(&world, 1);
    for round in 3..5 {
        let pool = opener.import().expect("the other side has all");
        assert_eq!(pool.vdevs().state().0, VdevState::Degraded);
        assert!(!pool.vdevs().is_open(leaf));
        let outsiders = pool.outsiders();
        assert_eq!(outsiders.len(), 1, "{outsiders:?}");
        let told = outsiders[0].to_string();
        assert!(
            told.contains("cannot be opened for writing: Read-only file system"),
            "{told}"
        );
        common::change(&pool, round).expect("written");
        pool.close().expect("written");
    }
    opener.is_over.store(true, Ordering::Release);
    let pool = opener.import().expect("both can be written to");
    bring_up_to_date(&pool, 9);
    assert!(pool.outsiders().is_empty());
    pool.close().expect("written");
    drop(pool);
    assert_whole_alone(&world, 1);
}

/// What only such a device has is not given up for being able to write: the other side is behind,
/// by what the pool knows or by its labels alone, or there is no other.
#[test]
fn a_device_that_is_needed_and_can_only_be_read_keeps_the_pool_out() {
    let is_refused = |world: &Arc<Disks>, disk: usize| {
        let refused = ReadOnly::new(world, disk).import();
        let is_refused = matches!(refused, Err(ImportError::Device(DeviceError::Open { .. })));
        assert!(is_refused, "{refused:?}");
    };
    let alone = common::disks(1, SIZE);
    let (pool, _) = create(&alone, VdevShape::Single);
    pool.close().expect("written");
    drop(pool);
    is_refused(&alone, 0);
    for recovers in [false, true] {
        let world = common::disks(2, SIZE);
        let (pool, faulty) = create(&world, VdevShape::Mirror);
        common::change(&pool, 0).expect("written");
        faulty.fail_writes(true);
        (1..4).for_each(|round| common::change(&pool, round).expect("written on one side"));
        if recovers {
            // Both have the newest groups from now on, and one lacks some between.
            faulty.heal();
            (4..6).for_each(|round| common::change(&pool, round).expect("written"));
        }
        pool.close().expect("written");
        drop(pool);
        is_refused(&world, 0);
    }
}

/// Metadata is sent off without waiting for it: what fails must be noticed before the commit. Each
/// time another few blocks where the next metadata will go take no writes.
#[test]
fn a_group_whose_metadata_was_not_taken_is_not_committed() {
    let mut failed = 0;
    for step in 0..8 {
        failed += u32::from(fails_behind_the_root(step * BLOCK));
    }
    assert!(failed > 0, "nothing was written there");
}

const BLOCK: u64 = 4096;
const SIZE: usize = 64 << 20;
/// There are as many at either end of a device.
const TWO_LABELS: usize = 512 << 10;

/// Changes a pool whose device takes no writes to a block so far behind the last root. Whether
/// that failed; either way what is committed must be there.
fn fails_behind_the_root(distance: u64) -> bool {
    let world = common::disks(1, 64 << 20);
    let (pool, faulty) = create(&world, VdevShape::Single);
    common::change(&pool, 0).expect("written");
    let (synced, root) = (pool.synced_txg(), pool.uberblock().root.dva(0));
    let start = LABELS + root.offset() + distance;
    faulty.fail_writes_to(start..start + BLOCK);
    let is_failed = common::change(&pool, 1).is_err();
    if is_failed {
        assert_eq!(pool.synced_txg(), synced, "at {distance}");
        faulty.heal();
        assert!(common::change(&pool, 2).is_err(), "it is suspended");
    }
    let vdevs = Arc::downgrade(&pool.vdevs());
    drop(pool);
    // A worker may just be coming back from something that others had done before it came.
    let begun = Instant::now();
    while vdevs.strong_count() > 0 {
        let is_long = begun.elapsed() > Duration::from_secs(60);
        assert!(!is_long, "something holds the devices");
        std::thread::sleep(Duration::from_millis(1));
    }
    let pool = import(&world);
    let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
    assert!(report.is_clean(), "at {distance}: {report:?}");
    common::change(&pool, 3).expect("written");
    pool.close().expect("written");
    is_failed
}

/// Where addresses are counted from: behind two labels and the boot region.
const LABELS: u64 = 4 << 20;

/// A device that is put back from an older copy of itself looked as good as the others: its log
/// of what it missed was empty, since it had been there all the time.
#[test]
fn a_device_put_back_from_a_copy_is_behind() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let world = common::disks(3, 64 << 20);
        let (pool, _) = create(&world, shape);
        common::change(&pool, 0).expect("written");
        pool.close().expect("written");
        let before = pool.uberblock().txg;
        drop(pool);
        let device = Arc::clone(&world.leaves()[1].device);
        let size = usize::try_from(device.size()).expect("small");
        let copy = device.read_vec(0, size).expect("in range");

        let pool = import(&world);
        let guids: Vec<_> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
        (1..5).for_each(|round| common::change(&pool, round).expect("written"));
        assert!(guids.iter().all(|guid| pool.vdevs().dtl(*guid).is_empty()));
        let written = pool.uberblock().txg;
        pool.close().expect("written");
        drop(pool);
        device.write_at(0, &copy).expect("in range");

        let pool = import(&world);
        let vdevs = pool.vdevs();
        let missed = vdevs.dtl(guids[1]);
        let is_told = missed[0].start > before && missed[0].contains(&written);
        assert!(is_told, "{before} {written} {missed:?}");
        assert!(vdevs.dtl(guids[0]).is_empty() && vdevs.dtl(guids[2]).is_empty());
        assert!(vdevs.needs_resilver(guids[1]) && !vdevs.needs_resilver(guids[0]));
        assert!(vdevs.is_resilver_needed().is_some());
        assert_eq!(vdevs.state().0, VdevState::Healthy, "as OpenZFS has it");
        assert!(!vdevs.is_required(guids[1]));
        // Of a mirror each other side is enough; a raidz needs both.
        assert_eq!(vdevs.is_required(guids[0]), shape != VdevShape::Mirror);
        common::change(&pool, 6).expect("written");
        assert_only_stale(&pool, "disk1");
        pool.close().expect("written");
        drop(pool);
        // It was recorded with the first group, for the next import.
        let pool = import(&world);
        assert!(
            pool.vdevs()
                .dtl(guids[1])
                .iter()
                .any(|r| r.contains(&written))
        );
        pool.close().expect("written");
    }
}

/// A pool some of whose devices are as they were one group earlier: all that is on them, or their
/// labels only.
fn one_group_behind(
    (shape, count): (VdevShape, usize),
    behind: std::ops::Range<usize>,
    is_copy: bool,
) -> (Arc<Disks>, Vec<Guid>) {
    let world = common::disks(count, SIZE);
    let (pool, _) = create(&world, shape);
    (0..3).for_each(|round| common::change(&pool, round).expect("written"));
    let before = pool.synced_txg();
    let copies = behind.map(|disk| {
        let device = Arc::clone(&world.leaves()[disk].device);
        let copy = device.read_vec(0, SIZE).expect("in range");
        (device, copy)
    });
    let copies: Vec<_> = copies.collect();
    common::change(&pool, 3).expect("written");
    assert_eq!(pool.synced_txg(), Txg(before.0 + 1), "one group");
    let guids = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    drop(pool);
    for (device, copy) in copies {
        let end = match is_copy {
            true => SIZE - TWO_LABELS,
            false => TWO_LABELS,
        };
        for part in [0..end, SIZE - TWO_LABELS..SIZE] {
            let bytes = &copy[part.clone()];
            device.write_at(part.start as u64, bytes).expect("in range");
        }
    }
    (world, guids)
}

/// Opens the pool with its scans, and waits until no device lacks anything.
fn bring_what_is_missed(world: &Arc<Disks>) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..common::options()
    };
    let env = Arc::new(RealEnv::new());
    let pool = cenote_pool::import(&candidates[0], &options, env).expect("imported");
    bring_up_to_date(&pool, 4);
    pool
}

/// Waits until no device lacks anything, and writes something in `round` meanwhile.
fn bring_up_to_date(pool: &Pool, round: u64) {
    let begun = Instant::now();
    while pool.vdevs().is_resilver_needed().is_some() {
        let is_long = begun.elapsed() > Duration::from_secs(120);
        assert!(!is_long, "{:?}", pool.scan_status());
        common::change(pool, round).expect("written");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A copy of a device made exactly one group before a crash looked like a device that had lost
/// power during a commit. It counted as complete, and when the other devices failed, that group's
/// data was lost.
#[test]
fn a_copy_made_one_group_earlier_is_behind() {
    for shape in [VdevShape::Mirror, VdevShape::Raidz { parity: 1 }] {
        let (world, guids) = one_group_behind((shape, 3), 1..2, true);
        let pool = import(&world);
        let last = pool.uberblock().txg;
        assert_eq!(pool.vdevs().dtl(guids[1]), [last..Txg(last.0 + 1)]);
        assert!(pool.vdevs().dtl(guids[0]).is_empty());
        assert_eq!(
            pool.vdevs().is_required(guids[0]),
            shape != VdevShape::Mirror
        );
        drop(pool);

        let pool = bring_what_is_missed(&world);
        pool.close().expect("written");
        drop(pool);
        let gone = if shape == VdevShape::Mirror { 2 } else { 1 };
        for disk in [0, 2].into_iter().take(gone) {
            let noise = vec![0xa5; SIZE - 4 * TWO_LABELS];
            let device = Arc::clone(&world.leaves()[disk].device);
            let start = 2 * TWO_LABELS as u64;
            device.write_at(start, &noise).expect("in range");
        }
        let report = verify(&import(&world), &VerifyOptions::default(), &Silent).expect("runs");
        assert!(report.damaged.is_empty(), "{report:?}");
    }
}

/// A power cut left the newest uberblock on one device of a raidz. Neither of the others can be
/// called complete, and both have what it needs: all can be read, and they are soon complete.
#[test]
fn more_devices_than_parity_lack_the_last_uberblock() {
    let draid = VdevShape::Draid {
        parity: 1,
        data: 2,
        spares: 1,
    };
    let raidz = |parity| VdevShape::Raidz { parity };
    for (shape, count) in [(raidz(1), 3), (raidz(3), 6), (draid, 5)] {
        let (world, guids) = one_group_behind((shape, count), 1..count, false);
        let pool = import(&world);
        let last = pool.uberblock().txg;
        for guid in &guids[1..count] {
            assert_eq!(pool.vdevs().dtl(*guid), [last..Txg(last.0 + 1)]);
        }
        let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
        let is_whole = report.complete && report.problems == 0;
        assert!(is_whole, "{shape:?}: {report:?}");
        drop(pool);
        let pool = bring_what_is_missed(&world);
        let report = verify(&pool, &VerifyOptions::default(), &Silent).expect("runs");
        assert!(report.is_clean(), "{shape:?}: {report:?}");
        pool.close().expect("written");
    }
}
