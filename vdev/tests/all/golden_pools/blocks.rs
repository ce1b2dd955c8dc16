//! Pools made by OpenZFS, read block by block: whole, with devices missing, with devices noisy.

use super::support::Pool;
use super::support::walk::{self, Walk};
use cenote_base::{Txg, VdevId};
use cenote_device::Device;
use cenote_vdev::IoContext;
use cenote_vdev::{BatchRead, CopyHealth, VdevError, VdevState};

/// Kinds whose whole tree the labels tell (no removed vdevs).
const KINDS: [&str; 24] = [
    "ashift13",
    "ashift9",
    "checkpoint",
    "compression",
    "dirty-crash",
    "draid2",
    "legacy-grub2",
    "mirror2",
    "raidz-expanded",
    "raidz-expanding",
    "raidz1-3",
    "raidz1-5",
    "raidz1-ashift9",
    "raidz2-6",
    "raidz2-ashift12-5",
    "raidz3-8",
    "recordsizes",
    "single-default",
    "snapshots-clones",
    "special-vdev",
    "stripe-mixed-sizes",
    "version28",
    "dedup",
    "zvol",
];

/// Kinds with redundancy: how many devices may be lost, and the most sets of them to try.
const REDUNDANT: [(&str, usize); 10] = [
    ("mirror2", 1),
    ("raidz1-3", 1),
    ("raidz1-5", 1),
    ("raidz1-ashift9", 1),
    ("raidz2-6", 2),
    ("raidz2-ashift12-5", 2),
    ("raidz3-8", 3),
    ("draid2", 2),
    ("raidz-expanded", 0),
    ("raidz-expanding", 2),
];

/// Every `step`th block, at least the first.
fn sample(walk: &Walk, wanted: usize) -> Vec<cenote_ondisk::BlockPointer> {
    let step = (walk.blocks.len() / wanted).max(1);
    walk.blocks.iter().step_by(step).copied().collect()
}

#[test]
fn every_copy_of_every_block_verifies() {
    for kind in KINDS {
        let Some(pool) = Pool::open(kind) else { return };
        let vdevs = pool.vdevs();
        assert_eq!(vdevs.state().0, VdevState::Healthy, "{kind}");
        let walk = Walk::of_pool(&vdevs, &pool.uberblock.root);
        assert!(walk.failures.is_empty(), "{kind}: {:?}", walk.failures[0]);
        assert!(
            walk.blocks.len() > 50,
            "{kind}: {} blocks",
            walk.blocks.len()
        );
        assert!(walk.blocks[0].dvas().count() >= 1);
        let mut reads = Vec::new();
        for pointer in &walk.blocks {
            let size = pointer.physical_size() as usize;
            let birth = pointer.physical_birth();
            for dva in pointer.dvas() {
                let accept = |bytes: &[u8]| walk::verify(pointer, bytes) == Some(true);
                let report = vdevs.check_copies(dva, size, birth, &accept, &IoContext::USER);
                let report = report.unwrap_or_else(|error| panic!("{kind}: {error}"));
                assert!(
                    report.is_perfect(),
                    "{kind} {pointer}: {:?}",
                    report.verdicts
                );
                reads.push((pointer, BatchRead { dva, size, birth }));
            }
        }
        let batch: Vec<_> = reads.iter().map(|(_, read)| *read).collect();
        for (block, (pointer, _)) in vdevs
            .read_batch(&batch, &IoContext::USER)
            .into_iter()
            .zip(&reads)
        {
            let block = block.unwrap_or_else(|| panic!("{kind} {pointer}: not in the batch"));
            assert_eq!(
                walk::verify(pointer, &block),
                Some(true),
                "{kind} {pointer}"
            );
        }
        let wrong: u64 = walk::checksum_errors(&vdevs)
            .iter()
            .map(|(_, count)| count)
            .sum();
        assert_eq!(wrong, 0, "{kind}: nothing is damaged");
        println!("{kind}: {} blocks", walk.blocks.len());
    }
}

/// All sets of `count` positions below `limit`.
fn sets(limit: usize, count: usize) -> Vec<Vec<usize>> {
    let mut found = vec![vec![]];
    for _ in 0..count {
        found = found
            .into_iter()
            .flat_map(|set: Vec<usize>| {
                let next = set.last().map_or(0, |last| last + 1);
                (next..limit).map(move |i| set.iter().copied().chain([i]).collect())
            })
            .collect();
    }
    found
}

fn parity_of(pool: &Pool, kind: &str, listed: usize) -> usize {
    match pool.root.children[0].parity as usize {
        0 => listed,
        parity => {
            assert!(listed == parity || listed == 0, "{kind}");
            parity
        }
    }
}

#[test]
fn any_devices_up_to_the_redundancy_may_be_missing() {
    for (kind, listed) in REDUNDANT {
        let Some(pool) = Pool::open(kind) else { return };
        let walk = Walk::of_pool(&pool.vdevs(), &pool.uberblock.root);
        let blocks = sample(&walk, 60);
        let lost = parity_of(&pool, kind, listed);
        for missing in sets(pool.devices.len(), lost) {
            let vdevs = pool.vdevs_without(&missing);
            assert_eq!(
                vdevs.state().0,
                VdevState::Degraded,
                "{kind} without {missing:?}"
            );
            for pointer in &blocks {
                let read = walk::read(&vdevs, pointer);
                assert!(read.is_some(), "{kind} without {missing:?}: {pointer}");
            }
            let wrong: u64 = walk::checksum_errors(&vdevs)
                .iter()
                .map(|(_, count)| count)
                .sum();
            assert_eq!(
                wrong, 0,
                "{kind} without {missing:?}: a missing device is not wrong"
            );
        }
        let too_many: Vec<usize> = (0..=lost).collect();
        let vdevs = pool.vdevs_without(&too_many);
        assert_eq!(vdevs.state().0, VdevState::CannotOpen, "{kind}");
        // A block may lie outside the lost disks or have copies; most do not.
        let read = blocks
            .iter()
            .filter(|pointer| walk::read(&vdevs, pointer).is_some());
        assert!(read.count() < blocks.len(), "{kind}");
    }
}

#[test]
fn any_devices_up_to_the_redundancy_may_lie() {
    for (kind, listed) in REDUNDANT {
        let Some(pool) = Pool::open(kind) else { return };
        let walk = Walk::of_pool(&pool.vdevs(), &pool.uberblock.root);
        let blocks = sample(&walk, 25);
        let lost = parity_of(&pool, kind, listed);
        let mut blamed = 0;
        for noisy in sets(pool.devices.len(), lost) {
            pool.spoil(&noisy);
            let vdevs = pool.vdevs();
            for pointer in &blocks {
                let size = pointer.physical_size() as usize;
                let accept = |bytes: &[u8]| walk::verify(pointer, bytes) == Some(true);
                for dva in pointer.dvas() {
                    let read =
                        vdevs.read(dva, size, walk::birth(pointer), &accept, &IoContext::USER);
                    assert!(read.is_ok(), "{kind}, noise on {noisy:?}: {:?}", read.err());
                }
            }
            let errors = walk::checksum_errors(&vdevs);
            blamed += errors.iter().map(|(_, count)| count).sum::<u64>();
            // A noisy device that gave only unused parity goes unnoticed.
            for (guid, _) in errors.into_iter().filter(|(_, count)| *count > 0) {
                let position = pool.devices.iter().position(|(known, _)| *known == guid);
                let is_noisy = position.is_some_and(|position| noisy.contains(&position));
                assert!(
                    is_noisy,
                    "{kind}, noise on {noisy:?}, but {position:?} is blamed"
                );
            }
            pool.heal();
        }
        assert!(blamed > 0, "{kind}: a noisy device is found");
    }
}

/// format/1c 6: zdb says that vdev 1 was mapped by object 87, one segment, to vdev 2 or 0.
#[test]
fn blocks_of_a_removed_vdev_are_found_through_its_mapping() {
    let Some(mut pool) = Pool::open("device-removal") else {
        return;
    };
    pool.make_indirect(1, 9, 95_944_704);
    let vdevs = pool.vdevs();
    let before = Walk::of_pool(&vdevs, &pool.uberblock.root);
    let entries = before.mappings.clone();
    assert_eq!(entries.len(), 1);
    let mut copies = before.blocks.iter().flat_map(|pointer| pointer.dvas());
    let lost = copies
        .find(|dva| dva.vdev() == VdevId(1))
        .expect("a copy was moved");
    let unmapped = vdevs.read(lost, 512, Txg(4), &|_| true, &IoContext::USER);
    assert!(
        matches!(unmapped, Err(VdevError::Unmapped { .. })),
        "{unmapped:?}"
    );
    vdevs
        .set_indirect_mapping(VdevId(1), entries)
        .expect("an indirect vdev");
    let walk = Walk::of_pool(&vdevs, &pool.uberblock.root);
    assert!(walk.failures.is_empty(), "{:?}", walk.failures[0]);
    assert!(walk.blocks.len() >= before.blocks.len());
    let mut moved = 0;
    for pointer in &walk.blocks {
        let size = pointer.physical_size() as usize;
        let birth = pointer.physical_birth();
        for dva in pointer.dvas() {
            moved += u32::from(dva.vdev() == VdevId(1));
            let accept = |bytes: &[u8]| walk::verify(pointer, bytes) == Some(true);
            let report = vdevs
                .check_copies(dva, size, birth, &accept, &IoContext::USER)
                .expect("a sound address");
            assert!(report.is_perfect(), "{pointer}: {:?}", report.verdicts);
            let batch = vdevs.read_batch(&[BatchRead { dva, size, birth }], &IoContext::USER);
            assert_eq!(batch[0].as_deref().map(accept), Some(true));
        }
    }
    assert!(moved > 10, "{moved} copies on the removed vdev");
}

#[test]
fn scattered_read_errors_on_every_device_are_made_good() {
    for kind in [
        "raidz-expanded",
        "raidz-expanding",
        "raidz1-5",
        "draid2",
        "mirror2",
    ] {
        let Some(pool) = Pool::open(kind) else { return };
        let walk = Walk::of_pool(&pool.vdevs(), &pool.uberblock.root);
        // One sector every 64 KiB, elsewhere on each device, so that no row loses two.
        for (position, (_, device)) in (0..).zip(&pool.devices) {
            for start in (0x40_0000..device.size() - 0x8_0000)
                .step_by(64 << 10)
                .take(200)
            {
                let at = start + position * (8 << 10);
                device.add_errors(at..at + 512);
            }
        }
        let vdevs = pool.vdevs();
        for pointer in sample(&walk, 200) {
            let size = pointer.physical_size() as usize;
            let accept = |bytes: &[u8]| walk::verify(&pointer, bytes) == Some(true);
            for dva in pointer.dvas() {
                let read = vdevs.read(
                    dva,
                    size,
                    pointer.physical_birth(),
                    &accept,
                    &IoContext::USER,
                );
                assert!(read.is_ok(), "{kind} {pointer}: {:?}", read.err());
            }
        }
        let status = vdevs.status();
        let children = status.children[0].children.iter();
        let errors: u64 = children.map(|child| child.figures.read_errors).sum();
        assert!(errors > 0, "{kind}: some block is hit");
        pool.heal();
    }
}

#[test]
fn checking_copies_finds_bad_parity_that_reading_does_not() {
    for kind in ["raidz2-6", "draid2", "raidz-expanded", "mirror2"] {
        let Some(pool) = Pool::open(kind) else { return };
        let walk = Walk::of_pool(&pool.vdevs(), &pool.uberblock.root);
        pool.spoil(&[1]);
        let vdevs = pool.vdevs();
        let (mut wrong, mut good) = (0, 0);
        for pointer in sample(&walk, 40) {
            let size = pointer.physical_size() as usize;
            let accept = |bytes: &[u8]| walk::verify(&pointer, bytes) == Some(true);
            let birth = pointer.physical_birth();
            let report = vdevs.check_copies(pointer.dva(0), size, birth, &accept, &IoContext::USER);
            let report = report.expect("a sound address");
            assert_eq!(report.data.as_deref().map(accept), Some(true), "{kind}");
            for verdict in report.verdicts {
                let expected = match verdict.leaf == pool.devices[1].0 {
                    true => CopyHealth::Wrong,
                    false => CopyHealth::Good,
                };
                assert_eq!(verdict.health, expected, "{kind} {pointer}: {verdict:?}");
                wrong += u32::from(verdict.health == CopyHealth::Wrong);
                good += u32::from(verdict.health == CopyHealth::Good);
            }
        }
        assert!(
            wrong > 0 && good > wrong / 2,
            "{kind}: {wrong} wrong, {good} good"
        );
    }
}
