//! Which device an import believes: after a long life, as an older copy, as a torn copy.

use crate::common::{self, Bench};
use crate::log_writer::{head_of, names_in_log, operate, place_of_chain, writer_of};
use cenote_base::rt::World;
use cenote_base::{Guid, RealEnv, Txg};
use cenote_device::{Device, Opener};
use cenote_intent_log::{Commit, Committed};
use cenote_ondisk::NvList;
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{Actor, AddRequest, ImportError, ImportOptions, NewVdev, Offline, Pool};
use cenote_pool::{Rewind, VdevShape, Why, assemble};
use cenote_sim::{Disks, Random};
use cenote_vdev::AllocationClass::{Dedup, Log, Normal, Special};
use cenote_vdev::{AllocationClass, DeviceLabels, LabelPhase, scan, write_device_labels};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: usize = 64 << 20;
/// Two labels, which are at either end.
const TWO_LABELS: usize = 512 << 10;
/// More groups than a ring of uberblocks has places.
const LONG: u64 = 140;

type Plan<'a> = &'a [(VdevShape, AllocationClass, usize)];

fn create(plan: Plan<'_>, free: usize) -> (Arc<Disks>, Pool) {
    let count: usize = plan.iter().map(|(_, _, disks)| disks).sum();
    let disks = common::disks(count + free, SIZE);
    let mut leaves = disks.leaves().into_iter();
    let vdevs = plan.iter().map(|(shape, class, count)| NewVdev {
        shape: *shape,
        class: *class,
        leaves: leaves.by_ref().take(*count).collect(),
    });
    let pool = Bench::new("believed").create(vdevs.collect());
    (disks, pool)
}

fn import_for(
    disks: &Arc<Disks>,
    change: impl Fn(&mut ImportOptions),
) -> Result<Pool, ImportError> {
    let candidates = assemble(scan(&disks.paths(), disks.as_ref()));
    let mut options = ImportOptions {
        opener: Arc::clone(disks) as Arc<dyn Opener>,
        scans: false,
        ..common::options()
    };
    change(&mut options);
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new()))
}

fn import(disks: &Arc<Disks>) -> Result<Pool, ImportError> {
    import_for(disks, |_| ())
}

fn live_long(pool: &Pool, groups: u64) {
    (0..groups).for_each(|round| common::change(pool, round).expect("written"));
}

/// The disks as a power cut leaves them after `fsync` has promised this name.
fn cut_after_promise(disks: &Arc<Disks>, pool: &Pool, name: &str) -> Arc<Disks> {
    let head = head_of(pool);
    let writer = writer_of(pool, &head);
    // The first commit waits for a group, until then there is no chain.
    place_of_chain(pool, &head, &writer);
    disks.record();
    operate(pool, &head, &writer, name);
    let by = writer.commit(Commit::All).expect("the pool is well");
    assert_eq!(by, Committed::Log);
    let record = disks.take_record();
    let cut = disks.after(&record, record.len(), 0, &mut Random::new(1));
    writer.end().expect("the pool is well");
    pool.sync().expect("written");
    pool.dsl().close_head(head.id());
    Arc::new(cut)
}

/// A pool with a log device did not come back after a crash once it had lived for longer than the
/// ring of uberblocks remembers: no group was written to the log device's labels meanwhile. Every
/// layout comes back, after a crash, after an orderly end, and after an export.
#[test]
fn every_layout_comes_back_after_a_long_life() {
    use VdevShape::{Mirror, Raidz, Single};
    let layouts: [Plan<'_>; 7] = [
        &[(Mirror, Normal, 2), (Single, Log, 1)],
        &[(Single, Normal, 1), (Mirror, Log, 2)],
        &[
            (Raidz { parity: 1 }, Normal, 3),
            (Single, Log, 1),
            (Single, Log, 1),
        ],
        &[(Mirror, Normal, 2), (Mirror, Special, 2), (Single, Log, 1)],
        &[
            (Single, Normal, 1),
            (Single, Dedup, 1),
            (Single, Special, 1),
        ],
        &[(Single, Normal, 1); 5],
        &[
            (Mirror, Normal, 2),
            (Mirror, Normal, 2),
            (Single, Normal, 1),
            (Single, Normal, 1),
            (Single, Log, 1),
        ],
    ];
    World::simulated(1).run(|| {
        for (layout, groups) in layouts
            .into_iter()
            .zip([310, LONG, LONG, LONG, LONG, LONG, LONG])
        {
            let (disks, pool) = create(layout, 0);
            live_long(&pool, groups);
            let cut = cut_after_promise(&disks, &pool, "promised");
            pool.close().expect("written");
            drop(pool);
            let pool = import(&cut).expect("it comes back after a crash");
            assert!(names_in_log(&pool).contains("promised"), "{layout:?}");
            assert!(pool.discarded_logs().is_empty(), "{layout:?}");
            assert!(pool.outsiders().is_empty(), "{:?}", pool.outsiders());
            pool.close().expect("written");
            let pool = import(&disks).expect("it comes back after an orderly end");
            live_long(&pool, LONG);
            pool.export().expect("written");
            drop(pool);
            let pool = import(&disks).expect("it comes back after an export");
            assert!(pool.outsiders().is_empty(), "{:?}", pool.outsiders());
            pool.close().expect("written");
        }
    });
}

fn device(disks: &Disks, disk: usize) -> Arc<dyn Device> {
    Arc::clone(&disks.leaves()[disk].device)
}

fn bytes(disks: &Disks, disk: usize) -> Vec<u8> {
    let device = device(disks, disk);
    let size = usize::try_from(device.size()).expect("small");
    device.read_vec(0, size).expect("in range")
}

fn put(disks: &Disks, disk: usize, bytes: &[u8], part: Range<usize>) {
    let bytes = &bytes[part.clone()];
    let written = device(disks, disk).write_at(part.start as u64, bytes);
    written.expect("in range");
}

/// The labels of all disks say what other software lets them say.
fn forget_marks(disks: &Disks, marks: &[&str]) {
    for disk in 0..disks.paths().len() {
        let device = device(disks, disk);
        let labels = DeviceLabels::read(device.as_ref());
        let label = labels.newest_config().expect("it is the pool's");
        let mut list = NvList::new();
        let all = label.list.as_ref().expect("it is valid").iter();
        for (key, value) in all.filter(|(key, _)| !marks.iter().any(|m| m.as_bytes() == *key)) {
            list.set(std::str::from_utf8(key).expect("a name"), value.clone());
        }
        for phase in [LabelPhase::Even, LabelPhase::Odd] {
            write_device_labels(device.as_ref(), &list, phase).expect("room");
        }
    }
}

/// Other software writes uberblocks to log devices only when the configuration changes. Its pools
/// can be imported, too, and an older copy of a log device is still refused if its labels show it.
#[test]
fn logs_of_other_software_are_judged_by_their_labels() {
    let both = ["org.cenote:previous", "org.cenote:logs_have_groups"];
    World::simulated(1).run(|| {
        for marks in [&both[..], &both[1..]] {
            let plan: Plan<'_> = &[(VdevShape::Mirror, Normal, 2), (VdevShape::Single, Log, 1)];
            let (disks, pool) = create(plan, 0);
            pool.close().expect("written");
            drop(pool);
            let old = bytes(&disks, 2);
            let pool = import(&disks).expect("all is there");
            let labels = bytes(&disks, 2);
            live_long(&pool, LONG);
            let cut = cut_after_promise(&disks, &pool, "promised");
            pool.close().expect("written");
            drop(pool);
            // Its labels are those of the others. Of their groups it has only the first ones.
            let (label, ring) = (TWO_LABELS / 2, TWO_LABELS / 4);
            for at in [0, label, SIZE - TWO_LABELS, SIZE - label] {
                put(&cut, 2, &labels, at + ring..at + label);
            }
            forget_marks(&cut, marks);
            let images = (0..3).map(|disk| bytes(&cut, disk));
            let other = common::disks_of(images);
            let pool = import(&cut).unwrap_or_else(|error| panic!("{marks:?}: {error}"));
            assert!(names_in_log(&pool).contains("promised"), "{marks:?}");
            pool.close().expect("written");
            if marks.len() > 1 {
                continue;
            }
            put(&other, 2, &old, 0..SIZE);
            let refused = import(&other);
            let is_refused = matches!(&refused, Err(ImportError::MissingLogs { .. }));
            assert!(is_refused, "{refused:?}");
        }
    });
}

/// A copy of a log device that is some groups old lacks what `fsync` promised since. So does one
/// of which one end only is new.
#[test]
fn an_older_copy_of_a_log_device_has_to_be_given_up_in_words() {
    let plan: Plan<'_> = &[(VdevShape::Mirror, Normal, 2), (VdevShape::Single, Log, 1)];
    World::simulated(1).run(|| {
        for age in [1, 3, LONG] {
            for part in [0..SIZE, 0..SIZE / 2, SIZE / 2..SIZE] {
                let (disks, pool) = create(plan, 0);
                live_long(&pool, 3);
                let old = bytes(&disks, 2);
                live_long(&pool, age);
                let cut = cut_after_promise(&disks, &pool, "promised");
                pool.close().expect("written");
                put(&cut, 2, &old, part.clone());
                let refused = import(&cut);
                let is_refused = matches!(&refused, Err(ImportError::MissingLogs { .. }));
                assert!(is_refused, "{age} {part:?}: {refused:?}");
                let pool = import_for(&cut, |options| options.missing_logs = true);
                let pool = pool.expect("it is given up");
                pool.close().expect("written");
            }
        }
    });
}

struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

fn missed(pool: &Pool, leaf: Guid) -> Vec<Range<Txg>> {
    pool.vdevs().dtl(leaf)
}

/// Copies of a device that was in use: what is of before.
#[expect(clippy::single_range_in_vec_init, reason = "most have one part")]
const TORN: [(&str, &[Range<usize>]); 5] = [
    ("the first half", &[0..SIZE / 2]),
    ("the second half", &[SIZE / 2..SIZE]),
    ("all but the labels", &[TWO_LABELS..SIZE - TWO_LABELS]),
    (
        "all but labels 0 and 2",
        &[
            TWO_LABELS / 2..SIZE - TWO_LABELS,
            SIZE - TWO_LABELS / 2..SIZE,
        ],
    ),
    ("all but the first labels", &[TWO_LABELS..SIZE]),
];

/// A copy of a device in use had newer labels than data. The newest label was trusted: "resilvered
/// 9K, 0 errors", and the data of the previous group was lost with the other device.
#[test]
fn the_oldest_sign_of_a_torn_copy_counts() {
    for (shape, count) in [(VdevShape::Mirror, 2), (VdevShape::Raidz { parity: 1 }, 3)] {
        for (what, parts) in TORN {
            let (disks, pool) = create(&[(shape, Normal, count)], 0);
            live_long(&pool, 4);
            let old = bytes(&disks, 1);
            live_long(&pool, 20);
            let leaf = pool.vdev_tree().leaves().nth(1).expect("some").guid;
            pool.close().expect("written");
            drop(pool);
            parts
                .iter()
                .for_each(|part| put(&disks, 1, &old, part.clone()));
            let pool = import_for(&disks, |options| options.scans = true).expect("enough is there");
            let begun = Instant::now();
            while pool.vdevs().is_resilver_needed().is_some() {
                let is_long = begun.elapsed() > Duration::from_secs(120);
                assert!(!is_long, "{what}: {:?}", pool.scan_status());
                common::change(&pool, 4).expect("written");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(missed(&pool, leaf).is_empty(), "{what}");
            pool.close().expect("written");
            drop(pool);
            let noise = vec![0xa5; SIZE - 2 * TWO_LABELS];
            let written = device(&disks, 0).write_at(TWO_LABELS as u64, &noise);
            written.expect("in range");
            let pool = import_for(&disks, |options| options.read_only = true);
            let report = verify(&pool.expect("readable"), &VerifyOptions::default(), &Silent);
            let report = report.expect("runs");
            assert!(report.damaged.is_empty(), "{shape:?}, {what}: {report:?}");
        }
    }
}

/// The only disk is a copy that was made while the last group was written: a part of what it wrote
/// is not there. The pool was opened at that group, for writing, and its files could not be read.
/// A power cut leaves labels like that, too, but then all of the group is there.
#[test]
fn a_copy_of_the_only_disk_that_is_torn_by_a_group_is_refused() {
    World::simulated(1).run(|| {
        let (disks, pool) = create(&[(VdevShape::Single, Normal, 1)], 0);
        live_long(&pool, 6);
        let before = pool.synced_txg();
        let old = bytes(&disks, 0);
        disks.record();
        common::change(&pool, 7).expect("written");
        let _ = disks.take_record();
        let new = bytes(&disks, 0);
        pool.close().expect("written");
        drop(pool);
        let end = SIZE - TWO_LABELS;
        for (kept, is_whole) in [
            (0..TWO_LABELS, true),
            (end..SIZE, true),
            (0..end, false),
            (TWO_LABELS..SIZE, false),
        ] {
            put(&disks, 0, &new, 0..SIZE);
            put(&disks, 0, &old, kept.clone());
            let imported = import(&disks);
            match is_whole {
                true => drop(imported.expect("the power was cut").close()),
                false => {
                    let error = imported.expect_err("something is missing");
                    let is_told = matches!(error, ImportError::PartOfGroup { .. })
                        || matches!(error, ImportError::Metadata(_) | ImportError::Dsl(_));
                    assert!(is_told, "{kept:?}: {error}");
                    let back = import_for(&disks, |options| options.rewind = Rewind::Recent);
                    let pool = back.expect("the group before is there");
                    assert_eq!(pool.opened_uberblock().txg, before);
                    pool.close().expect("written");
                }
            }
        }
    });
}

/// A copy that was broken off has no labels at its end: nothing says that it is whole. A device
/// that grew has none there either, and is whole.
#[test]
fn a_device_without_an_end_gets_everything_unless_it_grew() {
    let (disks, pool) = create(&[(VdevShape::Mirror, Normal, 2)], 0);
    live_long(&pool, 4);
    let leaf = pool.vdev_tree().leaves().nth(1).expect("some").guid;
    pool.close().expect("written");
    drop(pool);
    let zeros = vec![0; SIZE];
    put(&disks, 1, &zeros, SIZE - TWO_LABELS..SIZE);
    let pool = import(&disks).expect("enough is there");
    let all = missed(&pool, leaf);
    assert!(
        all.first().is_some_and(|range| range.start == Txg(0)),
        "{all:?}"
    );
    drop(pool);

    let (disks, pool) = create(&[(VdevShape::Mirror, Normal, 2)], 0);
    live_long(&pool, 4);
    let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
    pool.close().expect("written");
    drop(pool);
    disks.grow(2 * SIZE);
    let grown = (0..2).map(|disk| bytes(&disks, disk));
    let pool = import(&common::disks_of(grown)).expect("all is there");
    assert!(leaves.iter().all(|leaf| missed(&pool, *leaf).is_empty()));
    drop(pool);
}

/// An older copy of a side is used again as long as the other's labels have its last group, and is
/// resilvered. After that nothing proves that it was not written to elsewhere: the pool is imported
/// without it, reports that, and does not change it.
#[test]
fn an_older_copy_of_a_side_is_left_out_when_nobody_knows_its_groups() {
    World::simulated(1).run(|| {
        for (groups, is_known) in [(20, true), (LONG, false)] {
            let (disks, pool) = create(&[(VdevShape::Mirror, Normal, 2)], 0);
            live_long(&pool, 5);
            let older = bytes(&disks, 1);
            live_long(&pool, groups);
            pool.close().expect("written");
            drop(pool);
            put(&disks, 1, &older, 0..SIZE);
            let pool = import(&disks).expect("there is another side");
            live_long(&pool, 5);
            let leaves: Vec<Guid> = pool.vdev_tree().leaves().map(|leaf| leaf.guid).collect();
            assert_eq!(pool.vdevs().is_open(leaves[1]), is_known);
            let why: Vec<Why> = pool.outsiders().into_iter().map(|one| one.why).collect();
            match is_known {
                true => {
                    assert_eq!(why, []);
                    assert_ne!(missed(&pool, leaves[1]), []);
                }
                false => {
                    assert_eq!(why, [Why::Unproven]);
                    assert!(bytes(&disks, 1) == older, "its data may be needed");
                }
            }
            pool.close().expect("written");
        }
    });
}

/// One disk of a stripe was put back from a copy. The pool was imported and written to, although
/// nothing could bring back what the disk lacked.
#[test]
fn an_older_copy_of_a_disk_that_nothing_makes_up_for_is_refused() {
    for (count, age) in [(2, 3), (2, LONG), (5, 12)] {
        let (disks, pool) = create(&vec![(VdevShape::Single, Normal, 1); count], 0);
        live_long(&pool, 7);
        let old = bytes(&disks, 1);
        live_long(&pool, age);
        pool.close().expect("written");
        drop(pool);
        let newest = bytes(&disks, 1);
        for part in [0..SIZE, 0..SIZE / 2, SIZE / 2..SIZE] {
            put(&disks, 1, &old, part.clone());
            let refused = import(&disks);
            let text = match &refused {
                Err(ImportError::Parted { outsiders }) => outsiders[0].to_string(),
                _ => format!("{:?}", refused.as_ref().err()),
            };
            let is_told = text.contains("older copy") || text.contains("while the device was");
            assert!(is_told, "{count} {age} {part:?}: {text}");
            put(&disks, 1, &newest, 0..SIZE);
        }
        let pool = import(&disks).expect("it is the disk again");
        pool.close().expect("written");
    }
}

/// The only log device was offline when the power went, in the moment in which it had the newest
/// group alone. Then another one was added. The next import did not know that group any more, took
/// the device for a copy, and asked for `-m`.
#[test]
fn a_log_device_that_rests_is_not_asked_for() {
    let plan: Plan<'_> = &[(VdevShape::Mirror, Normal, 2), (VdevShape::Single, Log, 1)];
    World::simulated(1).run(|| {
        let (disks, pool) = create(plan, 1);
        live_long(&pool, 2);
        let log = pool.vdev_tree().children[1].guid;
        disks.record();
        let by = (&Actor::default(), "");
        pool.offline(log, Offline::default(), by)
            .expect("no log is on it");
        let record = disks.take_record();
        pool.close().expect("written");
        drop(pool);
        for cut in (0..=record.len()).rev().step_by(2) {
            let after = disks.after(&record, cut, 100, &mut Random::new(1));
            let after = Arc::new(after);
            let pool = import(&after).unwrap_or_else(|error| panic!("{cut}: {error}"));
            let request = AddRequest {
                vdevs: vec![NewVdev {
                    shape: VdevShape::Single,
                    class: Log,
                    leaves: vec![after.leaf(3)],
                }],
                ..AddRequest::default()
            };
            pool.add(&request, by.0, by.1).expect("added");
            pool.close().expect("written");
            drop(pool);
            let pool = import(&after).unwrap_or_else(|error| panic!("then at {cut}: {error}"));
            assert!(pool.outsiders().is_empty(), "{cut}: {:?}", pool.outsiders());
            pool.close().expect("written");
            drop(pool);
            // It is not even needed.
            let zeros = vec![0; SIZE];
            put(&after, 2, &zeros, 0..SIZE);
            let pool = import(&after);
            if cut == record.len() {
                let tree = pool.expect("nothing is on it").vdev_tree();
                assert!(tree.leaves().nth(2).is_some_and(|leaf| leaf.state.offline));
            }
        }
    });
}
