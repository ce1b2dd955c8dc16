//! Blocks and labels written by the vdevs and read back by them, with devices missing and failing.

use crate::support::{
    DEVICE, Devices, MIB, blocks, disks, memory, open, open_kept, pool, read_all, vdev, write_all,
};
use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{Device, FaultyDevice, MemoryDevice};
use cenote_ondisk::label::LABEL_SIZE;
use cenote_ondisk::uberblock::{MULTIHOST_MAGIC, UBERBLOCK_WORDS};
use cenote_ondisk::{Dva, NvList, NvValue, Uberblock, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::{
    AllocationClass, CopyHealth, DeviceLabels, FaultKind, FreeSpaceAction, Kept, LabelPhase,
    OpenOptions, Shape, UberblockScope, VdevAux, VdevState, VdevWrite, Vdevs, clear_labels, create,
    format_labels,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A layout, the guids of its devices, and how many of them may be lost.
struct Case {
    name: &'static str,
    config: VdevConfig,
    guids: std::ops::Range<u64>,
    spare: usize,
    size: u64,
}

fn cases() -> Vec<Case> {
    let case = |name, config, count: u64, spare, size| Case {
        name,
        config,
        guids: 10..10 + count,
        spare,
        size,
    };
    let mut cases = vec![
        case("disk", pool(vdev("disk", 10, vec![]), 9, &[]), 1, 0, DEVICE),
        case(
            "mirror",
            pool(vdev("mirror", 2, disks(10..13)), 12, &[]),
            3,
            2,
            DEVICE,
        ),
    ];
    for (children, parity, ashift) in [(3, 1, 9), (5, 1, 12), (6, 2, 12), (7, 3, 9)] {
        let top = vdev("raidz", 2, disks(10..10 + children));
        let config = pool(top, ashift, &[("nparity", parity)]);
        cases.push(case("raidz", config, children, parity as usize, DEVICE));
    }
    let mut expanded = vdev("raidz", 2, disks(10..15));
    expanded.set("raidz_expand_txgs", NvValue::Uint64Array(vec![50]));
    let config = pool(expanded, 9, &[("nparity", 1)]);
    cases.push(case("expanded raidz", config, 5, 1, DEVICE));
    let geometry = [
        ("nparity", 2),
        ("draid_ndata", 3),
        ("draid_nspares", 1),
        ("draid_ngroups", 7),
    ];
    let config = pool(vdev("draid", 2, disks(10..18)), 12, &geometry);
    cases.push(case("draid", config, 8, 2, 300 * MIB));
    cases
}

#[test]
fn every_layout_gives_back_what_it_took() {
    for case in cases() {
        let devices = memory(case.guids.clone(), case.size);
        let vdevs = open(&case.config, &devices);
        // Of the expanded vdev, blocks of both widths; past the parity swap of bit 20.
        for txg in [Txg(20), Txg(60)] {
            let unit = vdevs.asize(VdevId(0), 1, Txg(60)).expect("small");
            let writes = blocks(&vdevs, txg, (txg.0 - 20) * MIB / unit * unit);
            write_all(&vdevs, &writes);
            read_all(&open(&case.config, &devices), &writes, case.name);
            for write in &writes {
                let is_right = |bytes: &[u8]| *bytes == write.data[..];
                let size = write.data.len();
                let report = vdevs.check_copies(write.dva, size, txg, &is_right, &IoContext::USER);
                let report = report.expect("a sound address");
                let all_good = report
                    .verdicts
                    .iter()
                    .all(|verdict| verdict.health == CopyHealth::Good);
                assert!(all_good, "{}: {report:?}", case.name);
            }
            for first in case.guids.clone() {
                let mut fewer = devices.clone();
                let lost = (first..).take(case.spare);
                lost.for_each(|guid| drop(fewer.remove(&Guid(guid))));
                read_all(&open(&case.config, &fewer), &writes, case.name);
            }
        }
        assert!(
            vdevs.take_changed_dtls().is_empty(),
            "no leaf missed anything"
        );
    }
}

/// Damages everything on as many leaves as may be lost.
fn damage(case: &Case, devices: &Devices) {
    for guid in case.guids.clone().take(case.spare) {
        let noise: Vec<u8> = (0..MIB).map(|i| (i * i / 3 + guid) as u8).collect();
        for at in (4 * MIB..case.size - MIB).step_by(MIB as usize) {
            let written = devices[&Guid(guid)].write_at(at, &noise);
            written.expect("in range");
        }
    }
}

#[test]
fn repairs_give_leaves_back_what_they_lost() {
    for case in cases() {
        let devices = memory(case.guids.clone(), case.size);
        let vdevs = open(&case.config, &devices);
        let writes = blocks(&vdevs, Txg(60), 0);
        write_all(&vdevs, &writes);
        damage(&case, &devices);
        for write in &writes {
            let (dva, size) = (write.dva, write.data.len());
            let is_right = |bytes: &[u8]| *bytes == write.data[..];
            let read = vdevs
                .read(dva, size, Txg(60), &is_right, &IoContext::USER)
                .expect("right");
            let holders = vdevs.leaves_of(dva, size, Txg(60)).expect("sound");
            let lost = 10..10 + case.spare as u64;
            for fault in &read.wrong {
                assert_eq!(fault.kind, FaultKind::Wrong, "{}", case.name);
                assert!(lost.contains(&fault.leaf.0) && holders.contains(&fault.leaf));
            }
            let damaged: Vec<Guid> = lost.map(Guid).collect();
            let repaired = vdevs.repair(dva, &write.data, Txg(60), &damaged, &IoContext::USER);
            repaired.expect("all leaves are there");
            let report = vdevs.check_copies(dva, size, Txg(60), &is_right, &IoContext::USER);
            let report = report.expect("sound");
            assert!(report.is_perfect(), "{}: {report:?}", case.name);
        }
        // What one repair wrote disturbed no other block.
        let again = open(&case.config, &devices);
        read_all(&again, &writes, case.name);
        assert!(vdevs.take_changed_dtls().is_empty(), "no leaf missed that");
    }
}

#[test]
fn a_read_tells_of_leaves_that_missed_the_block() {
    for case in cases().iter().filter(|case| case.spare > 0) {
        let devices = memory(case.guids.clone(), case.size);
        let vdevs = open(&case.config, &devices);
        let writes = blocks(&vdevs, Txg(60), 0);
        write_all(&vdevs, &writes);
        vdevs.set_dtl(Guid(10), &[Txg(60)..Txg(61)]);
        let mut stale = 0;
        for write in &writes {
            let is_right = |bytes: &[u8]| *bytes == write.data[..];
            let read = vdevs.read(
                write.dva,
                write.data.len(),
                Txg(60),
                &is_right,
                &IoContext::USER,
            );
            for fault in read.expect("right").wrong {
                assert_eq!((fault.leaf, fault.kind), (Guid(10), FaultKind::Stale));
                stale += 1;
            }
        }
        assert!(stale > 0, "{}", case.name);
    }
}

#[test]
fn degraded_vdevs_take_writes_and_remember_who_missed_them() {
    for case in cases() {
        let devices = memory(case.guids.clone(), case.size);
        let mut fewer = devices.clone();
        let lost: Vec<u64> = case.guids.clone().take(case.spare).collect();
        lost.iter()
            .for_each(|guid| drop(fewer.remove(&Guid(*guid))));
        let vdevs = open(&case.config, &fewer);
        let writes = blocks(&vdevs, Txg(77), 0);
        write_all(&vdevs, &writes);
        read_all(&vdevs, &writes, case.name);
        let changed = vdevs.take_changed_dtls();
        let missed: Vec<u64> = changed.iter().map(|(guid, _)| guid.0).collect();
        assert_eq!(missed, lost, "{}", case.name);
        for (_, txgs) in &changed {
            assert_eq!(txgs.as_slice(), std::slice::from_ref(&(Txg(77)..Txg(78))));
        }
        // One more is one too many. Which one of a draid matters depends on the permutation.
        match case.name {
            "draid" => fewer.clear(),
            _ => drop(fewer.remove(&Guid(case.guids.end - 1))),
        }
        let vdevs = open(&case.config, &fewer);
        let results = vdevs.write(writes);
        assert!(results.iter().any(Result::is_err), "{}", case.name);
    }
}

#[test]
fn a_leaf_that_fails_is_given_up_unless_it_is_the_last() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let mut devices = memory(11..12, DEVICE);
    let failing = Arc::new(FaultyDevice::new(Arc::new(MemoryDevice::new(
        "failing",
        vec![0; DEVICE as usize],
    ))));
    devices.insert(Guid(10), Arc::clone(&failing) as Arc<dyn Device>);
    let vdevs = open(&config, &devices);
    failing.fail_writes(true);
    for txg in 30..50 {
        let writes = blocks(&vdevs, Txg(txg), 0);
        write_all(&vdevs, &writes);
        read_all(&vdevs, &writes, "half a mirror");
    }
    let status = vdevs.status();
    let mirror = &status.children[0];
    assert_eq!(status.state, VdevState::Degraded);
    assert_eq!(mirror.children[0].state, VdevState::Faulted);
    assert!(mirror.children[0].figures.write_errors >= 10);
    assert_eq!(vdevs.dtl(Guid(10)).first(), Some(&(Txg(30)..Txg(50))));
    assert!(!vdevs.fault(Guid(11)), "the pool needs it");
    assert_eq!(
        vdevs.top_state(VdevId(0)).map(|state| state.0),
        Some(VdevState::Degraded)
    );
}

#[test]
fn both_sides_of_a_replacement_are_written() {
    let replacing = vdev("replacing", 3, disks(10..12));
    let spare = vdev("spare", 4, disks(12..14));
    let children = vec![replacing, spare, vdev("disk", 14, vec![])];
    let config = pool(vdev("raidz", 2, children), 12, &[("nparity", 1)]);
    let devices = memory(10..15, DEVICE);
    let writes = blocks(&open(&config, &devices), Txg(9), 0);
    write_all(&open(&config, &devices), &writes);
    for lost in [[10, 12], [10, 13], [11, 12], [11, 13]] {
        let mut fewer = devices.clone();
        lost.iter()
            .for_each(|guid| drop(fewer.remove(&Guid(*guid))));
        fewer.remove(&Guid(14));
        read_all(&open(&config, &fewer), &writes, "one of each pair");
    }
}

#[test]
fn free_space_is_treated_and_its_neighbours_are_not() {
    for case in cases() {
        let devices = memory(case.guids.clone(), case.size);
        let vdevs = open(&case.config, &devices);
        let unit = vdevs.asize(VdevId(0), 1, Txg(77)).expect("small");
        let start = 5 * MIB / unit * unit;
        let before = blocks(&vdevs, Txg(77), 0);
        let middle = blocks(&vdevs, Txg(77), 40 * MIB / unit * unit);
        write_all(&vdevs, &before);
        write_all(&vdevs, &middle);
        let end_of = |write: &VdevWrite| write.dva.offset() + write.dva.asize();
        let last = before.last().map_or(0, end_of);
        let free = last.max(start)..40 * MIB / unit * unit;
        let action = FreeSpaceAction::Initialize {
            word: 0xdead_beef_dead_beef,
            chunk: 1 << 20,
        };
        let treated = vdevs.treat_free_space(VdevId(0), free.clone(), action);
        treated.expect("memory takes anything");
        read_all(&vdevs, &before, case.name);
        read_all(&vdevs, &middle, case.name);
        let treated = vdevs.treat_free_space(VdevId(0), free, FreeSpaceAction::Discard);
        treated.expect("memory ignores it");
        let beyond = 1 << 50..1 << 51;
        let refused = vdevs.treat_free_space(VdevId(0), beyond, FreeSpaceAction::Discard);
        assert!(refused.is_err());
    }
}

#[test]
fn a_vdev_is_added_while_the_others_are_in_use() {
    let first = vdev("disk", 10, vec![]);
    let config = pool(first.clone(), 12, &[]);
    let devices = memory(10..13, DEVICE);
    let mut few = devices.clone();
    few.retain(|guid, _| guid.0 == 10);
    let vdevs = open_kept(&config, &few);
    let writes = blocks(&vdevs.shape(), Txg(9), 0);
    write_all(&vdevs.shape(), &writes);
    vdevs.shape().set_class(VdevId(0), AllocationClass::Special);
    vdevs.shape().set_dtl(Guid(10), &[Txg(3)..Txg(4)]);
    let writer = vdevs.shape();
    let late = blocks(&vdevs.shape(), Txg(10), 30 * MIB);
    let prepared = writer
        .prepare_write(late[0].clone())
        .expect("a sound address");
    let plan = writer.plan_writes(vec![prepared]);

    let mut grown = vdev("root", 1, vec![first, vdev("mirror", 2, disks(11..13))]);
    grown.set_u64("id", 0);
    let grown = VdevConfig::decode(&grown).expect("a sound tree");
    let mut new = devices;
    new.remove(&Guid(10));
    vdevs.change(&grown, &new).expect("a sound tree");

    (0..plan.chunks()).for_each(|chunk| writer.write_chunk(&plan, chunk));
    assert!(writer.finish_writes(&plan).iter().all(Result::is_ok));
    assert_eq!(vdevs.shape().top_count(), 2);
    assert_eq!(
        vdevs.shape().class(VdevId(0)),
        Some(AllocationClass::Special)
    );
    assert_eq!(vdevs.shape().dtl(Guid(10)).len(), 1);
    let status = vdevs.shape().status();
    assert!(status.children[0].figures.write_operations > 0);
    assert_eq!(status.state, VdevState::Healthy);
    read_all(&vdevs.shape(), &writes, "before");
    read_all(&vdevs.shape(), &late[..1], "under way");
    let elsewhere = |write: VdevWrite| VdevWrite {
        dva: Dva::new(VdevId(1), write.dva.offset(), write.dva.asize()),
        ..write
    };
    let more: Vec<VdevWrite> = writes.into_iter().map(elsewhere).collect();
    write_all(&vdevs.shape(), &more);
    read_all(&vdevs.shape(), &more, "on the new one");
    vdevs.shape().flush().expect("memory flushes");
    let nonsense = pool(vdev("floppy", 7, vec![]), 12, &[]);
    assert!(vdevs.change(&nonsense, &new).is_err());
    read_all(&vdevs.shape(), &more, "nothing has changed");
}

#[test]
fn cleared_errors_are_forgotten() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let mut devices = memory(11..12, DEVICE);
    let memory = MemoryDevice::new("failing", vec![0; DEVICE as usize]);
    let failing = Arc::new(FaultyDevice::new(Arc::new(memory)));
    devices.insert(Guid(10), Arc::clone(&failing) as Arc<dyn Device>);
    let vdevs = open(&config, &devices);
    failing.fail_writes(true);
    let writes = blocks(&vdevs, Txg(30), 0);
    (0..20).for_each(|_| write_all(&vdevs, &writes));
    assert_eq!(
        vdevs.status().children[0].children[0].state,
        VdevState::Faulted
    );
    failing.heal();
    vdevs.clear_errors(None);
    let leaf = &vdevs.status().children[0].children[0];
    assert_eq!(
        (leaf.state, leaf.figures.write_errors),
        (VdevState::Healthy, 0)
    );
    assert_eq!(vdevs.dtl(Guid(10)).first(), Some(&(Txg(30)..Txg(31))));
    let later = blocks(&vdevs, Txg(31), 0);
    write_all(&vdevs, &later);
    assert_eq!(
        vdevs.dtl(Guid(10)).first(),
        Some(&(Txg(30)..Txg(31))),
        "it has this one"
    );
}

fn uberblock(txg: u64) -> Uberblock {
    let mut words = [0; UBERBLOCK_WORDS];
    words[0] = cenote_ondisk::uberblock::MAGIC;
    words[1] = 5000;
    words[2] = txg;
    words[21] = 5000;
    words[22] = MULTIHOST_MAGIC;
    Uberblock::from_words(&words).expect("right magic")
}

fn label(guid: u64, txg: u64) -> (Guid, NvList) {
    let mut list = NvList::new();
    list.set_u64("version", 5000);
    list.set_str("name", "tank");
    list.set_u64("state", 0);
    list.set_u64("txg", txg);
    list.set_u64("pool_guid", 1);
    list.set_u64("top_guid", 2);
    list.set_u64("guid", guid);
    let mut tree = vdev("mirror", 2, disks(10..12));
    tree.set_u64("id", 0);
    tree.set_u64("ashift", 12);
    list.set("vdev_tree", NvValue::List(tree));
    (Guid(guid), list)
}

#[test]
fn labels_and_uberblocks_are_found_again() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 12, &[]);
    let devices = memory(10..12, DEVICE + 12_345);
    for device in devices.values() {
        format_labels(device.as_ref(), None).expect("writable");
        assert!(!DeviceLabels::read(device.as_ref()).is_member());
    }
    let vdevs = open(&config, &devices);
    let configs = |txg| [label(10, txg), label(11, txg)];
    let both = [LabelPhase::Even, LabelPhase::Odd];
    for phase in both {
        let written = vdevs.write_labels(&configs(4), phase, Txg(4));
        written.expect("memory takes labels");
    }
    let write = |txg, scope| vdevs.write_uberblock(&uberblock(txg), scope, false);
    let taken = write(4, UberblockScope::All).expect("memory takes uberblocks");
    assert_eq!(taken, [Guid(10), Guid(11)]);
    write(36, UberblockScope::Some(7)).expect("memory takes uberblocks");
    // The crash that the order of writes is made for: labels of a txg that never came.
    let written = vdevs.write_labels(&configs(50), LabelPhase::Even, Txg(50));
    written.expect("memory takes labels");
    for device in devices.values() {
        let labels = DeviceLabels::read(device.as_ref());
        assert_eq!(labels.damaged().count(), 0);
        let txgs: Vec<u64> = labels.labels.iter().map(|label| label.txg().0).collect();
        assert_eq!(txgs, [50, 4, 50, 4]);
        assert_eq!(
            labels.uberblocks.len(),
            4,
            "36 took the slot of 4 in a ring of 32"
        );
        let best = labels.best_uberblock(None).expect("just written");
        assert_eq!((best.uberblock.txg, best.slot), (Txg(36), 4));
        let fitting = labels.config_for(Txg(36)).expect("the odd labels");
        assert_eq!(fitting.txg(), Txg(4));
    }
    for device in devices.values() {
        // What is in the place of a label stays.
        let other = vec![7; LABEL_SIZE as usize];
        device.write_at(LABEL_SIZE, &other).expect("writable");
        let labels = DeviceLabels::read(device.as_ref());
        labels.clear(device.as_ref()).expect("writable");
        let kept = device.read_vec(LABEL_SIZE, other.len()).expect("readable");
        assert!(kept == other, "no label was there");
        assert!(!DeviceLabels::read(device.as_ref()).is_member());
        clear_labels(device.as_ref()).expect("writable");
        let cleared = device.read_vec(LABEL_SIZE, other.len()).expect("readable");
        assert!(cleared.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn labels_need_a_leaf_of_each_vdev() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 12, &[]);
    let mut devices = Devices::new();
    let failing: Vec<_> = (10..12)
        .map(|guid| {
            let memory = MemoryDevice::new("failing", vec![0; DEVICE as usize]);
            let device = Arc::new(FaultyDevice::new(Arc::new(memory)));
            devices.insert(Guid(guid), Arc::clone(&device) as Arc<dyn Device>);
            device
        })
        .collect();
    let vdevs = open(&config, &devices);
    let configs = [label(10, 4), label(11, 4)];
    failing[0].fail_writes(true);
    assert!(
        vdevs
            .write_labels(&configs, LabelPhase::Even, Txg(4))
            .is_ok()
    );
    let taken = vdevs.write_uberblock(&uberblock(4), UberblockScope::All, false);
    assert_eq!(taken.expect("one side has it"), [Guid(11)]);
    failing[1].fail_writes(true);
    assert!(
        vdevs
            .write_labels(&configs, LabelPhase::Even, Txg(4))
            .is_err()
    );
    assert!(
        vdevs
            .write_uberblock(&uberblock(4), UberblockScope::All, false)
            .is_err()
    );
}

#[test]
fn the_unit_of_memory_is_the_smallest() {
    let devices = memory(10..12, DEVICE);
    let natural = create::natural_ashift(devices.values().map(AsRef::as_ref));
    assert_eq!(natural, 9);
}

/// A leaf that is not to be used stays so when something is added elsewhere.
#[test]
fn problems_outlive_a_change_of_the_tree() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let devices = memory(10..12, DEVICE);
    let options = OpenOptions {
        problems: HashMap::from([(Guid(11), VdevAux::BadLabel)]),
        ..OpenOptions::default()
    };
    let vdevs = Vdevs::open(&config, &devices, &options).expect("a sound tree");
    assert_eq!(vdevs.shape().state().0, VdevState::Degraded);
    vdevs
        .change(&config, &Devices::new())
        .expect("a sound tree");
    assert_eq!(
        vdevs.shape().state().0,
        VdevState::Degraded,
        "after a change"
    );
}

/// A device that was away has what it made durable, and perhaps nothing else.
#[test]
fn a_device_that_comes_back_may_have_lost_what_was_not_flushed() {
    for (kind, guids) in [("disk", 2..3), ("mirror", 10..12)] {
        let children = match kind {
            "disk" => vec![],
            _ => disks(guids.clone()),
        };
        let config = pool(vdev(kind, 2, children), 9, &[]);
        let mut devices = memory(guids.clone(), DEVICE);
        let last = Guid(guids.end - 1);
        let faulty = Arc::new(FaultyDevice::new(Arc::clone(&devices[&last])));
        let spare = devices.insert(last, Arc::clone(&faulty) as Arc<dyn Device>);
        let again = HashMap::from([(last, spare.expect("it was there"))]);
        let vdevs = open_kept(&config, &devices);
        write_all(&vdevs.shape(), &blocks(&vdevs.shape(), Txg(5), 0));
        assert!(vdevs.shape().silent_leaves().is_empty() && !vdevs.shape().has_gone(VdevId(0)));

        faulty.set_missing(true);
        assert_eq!(vdevs.shape().silent_leaves(), [last], "{kind}");
        assert_eq!(vdevs.shape().has_gone(VdevId(0)), kind == "disk");
        let unknown = || Kept {
            is_unknown: true,
            ..Kept::default()
        };
        vdevs
            .reopen(&config, &again, unknown)
            .expect("nothing is unflushed");
        assert!(vdevs.shape().silent_leaves().is_empty() && vdevs.shape().dtl(last).is_empty());

        let unflushed = vdevs.shape().write(blocks(&vdevs.shape(), Txg(6), 0));
        assert!(unflushed.iter().all(Result::is_ok));
        let reopened = vdevs.reopen(&config, &again, unknown);
        match kind {
            "disk" => {
                let text = reopened.expect_err("no other leaf has it").to_string();
                assert!(text.contains("was away before it was flushed"), "{text}");
                let found = vdevs.reopen(&config, &again, Kept::default);
                found.expect("a search found nothing lost");
                assert!(vdevs.shape().dtl(last).is_empty());
            }
            _ => {
                reopened.expect("the other side has it");
                assert_eq!(vdevs.shape().dtl(last), [Txg(6)..Txg(7)]);
            }
        }
    }
}

/// A device that had flushed everything came back as a copy from before, and was taken: only what
/// was not flushed counted.
#[test]
fn a_device_that_lacks_what_it_flushed_is_not_taken_unless_others_have_it() {
    for (kind, guids) in [("disk", 2..3), ("mirror", 10..12)] {
        let children = match kind {
            "disk" => vec![],
            _ => disks(guids.clone()),
        };
        let config = pool(vdev(kind, 2, children), 9, &[]);
        let devices = memory(guids.clone(), DEVICE);
        let last = Guid(guids.end - 1);
        let again = HashMap::from([(last, Arc::clone(&devices[&last]))]);
        let vdevs = open_kept(&config, &devices);
        write_all(&vdevs.shape(), &blocks(&vdevs.shape(), Txg(5), 0));
        let lacking = HashSet::from([last]);
        let kept = Kept {
            is_lost: kind == "disk",
            lacking: lacking.clone(),
            ..Kept::default()
        };
        let reopened = vdevs.reopen(&config, &again, || kept);
        match kind {
            "disk" => {
                let text = reopened.expect_err("no other leaf has it").to_string();
                assert!(text.contains("an older copy"), "{text}");
            }
            _ => assert_eq!(reopened.expect("the other side has it"), lacking),
        }
    }
}

/// A write that no leaf took counts as missed by none: it fails, and the block is nowhere yet.
#[test]
fn a_write_that_failed_as_a_whole_is_not_missed() {
    let config = pool(vdev("disk", 2, vec![]), 9, &[]);
    let mut devices = memory(2..3, DEVICE);
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&devices[&Guid(2)])));
    devices.insert(Guid(2), Arc::clone(&faulty) as Arc<dyn Device>);
    let vdevs = open(&config, &devices);
    let writes = blocks(&vdevs, Txg(5), 0);
    faulty.fail_writes(true);
    assert!(vdevs.write(writes.clone()).iter().all(Result::is_err));
    assert!(vdevs.dtl(Guid(2)).is_empty());
    faulty.heal();
    write_all(&vdevs, &writes);
    read_all(&vdevs, &writes, "written again");
}

/// A mirror whose sides each lack the same group has lost it, though both can be read: one did not
/// take the write, the other took it and failed to make it durable.
#[test]
fn a_flush_that_fails_where_the_other_side_has_nothing_is_told() {
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let mut devices = memory(10..12, DEVICE);
    let faulty: Vec<Arc<FaultyDevice>> = [10, 11]
        .map(|guid| Arc::new(FaultyDevice::new(Arc::clone(&devices[&Guid(guid)]))))
        .into();
    for (guid, device) in [10, 11].into_iter().zip(&faulty) {
        devices.insert(Guid(guid), Arc::clone(device) as Arc<dyn Device>);
    }
    let vdevs = open(&config, &devices);
    send(&vdevs, Txg(5));
    faulty[1].fail_writes(true);
    assert!(vdevs.flush().is_ok(), "the other side has it");
    faulty[1].fail_writes(false);
    // Of another group, which both have.
    send(&vdevs, Txg(6));
    assert!(vdevs.flush().is_ok());
    faulty[0].fail_writes(true);
    send(&vdevs, Txg(7));
    faulty[0].fail_writes(false);
    // In use again, should it have been given up.
    vdevs.clear_errors(None);
    faulty[1].fail_writes(true);
    assert!(vdevs.flush_group(false).is_err(), "no side has group 7");
}

/// Regression: another caller's flush took the marks of a group's writes and failed. The flush of
/// the group found nothing to do, and the uberblock was written.
#[test]
fn what_another_s_flush_lost_is_lost_to_the_group() {
    let config = pool(vdev("disk", 2, vec![]), 9, &[]);
    let mut devices = memory(2..3, DEVICE);
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&devices[&Guid(2)])));
    devices.insert(Guid(2), Arc::clone(&faulty) as Arc<dyn Device>);
    let vdevs = open(&config, &devices);
    let before = vdevs.flush_mark();
    send(&vdevs, Txg(5));
    faulty.fail_writes(true);
    assert!(vdevs.flush().is_err());
    faulty.fail_writes(false);
    let elsewhere = VdevId(7);
    assert!(vdevs.flush_since(&before, &[VdevId(0)]).is_err());
    assert!(vdevs.flush_since(&before, &[elsewhere]).is_ok());
    assert!(vdevs.flush_since(&vdevs.flush_mark(), &[VdevId(0)]).is_ok());
    assert!(vdevs.flush_group(false).is_err());
    assert!(vdevs.flush_group(false).is_ok(), "it was reported");
}

/// Writes blocks and does not flush.
fn send(vdevs: &Shape, txg: Txg) {
    let results = vdevs.write(blocks(vdevs, txg, 0));
    assert!(results.iter().all(Result::is_ok));
}

/// A log device that failed a flush, or had lost something by one, suspended the pool for good,
/// though the group had nothing there. And each commit failed on it again.
#[test]
fn a_log_device_that_fails_a_flush_rests_until_it_answers() {
    let mut tops = disks(2..4);
    for (id, top) in (0..).zip(&mut tops) {
        top.set_u64("id", id);
        top.set_u64("ashift", 9);
        top.set_u64("is_log", id);
    }
    let config = VdevConfig::decode(&vdev("root", 1, tops)).expect("a sound tree");
    let mut devices = memory(2..4, DEVICE);
    let faulty = Arc::new(FaultyDevice::new(Arc::clone(&devices[&Guid(3)])));
    devices.insert(Guid(3), Arc::clone(&faulty) as Arc<dyn Device>);
    let vdevs = open(&config, &devices);
    let (main, log) = (VdevId(0), VdevId(1));
    let send_log = |txg| {
        let mut writes = blocks(&vdevs, txg, 0);
        for write in &mut writes {
            write.dva = Dva::new(log, write.dva.offset(), write.dva.asize());
        }
        let mut results = vdevs.write(writes).into_iter();
        results.find_map(Result::err)
    };
    send(&vdevs, Txg(5));
    let before = vdevs.flush_mark();
    assert!(send_log(Txg(5)).is_none());
    faulty.fail_writes(true);
    let lost = vdevs.flush_since(&before, &[log]);
    assert!(lost.is_err(), "the commit has to wait for its group");
    assert!(vdevs.flush_group(false).is_ok() && vdevs.flush().is_ok());
    assert_eq!(vdevs.resting_logs(), [Guid(3)]);
    assert!(!vdevs.writable_tops().contains(&log));
    assert!(!vdevs.try_log(Guid(3)) && vdevs.can_be_read(Guid(3)));
    faulty.fail_writes(false);
    assert!(!vdevs.try_log(Guid(2)), "that is no log device");
    assert!(vdevs.try_log(Guid(3)) && vdevs.resting_logs().is_empty());
    assert!(vdevs.dtl(Guid(3)).is_empty(), "nothing there was promised");
    assert!(vdevs.writable_tops().contains(&log));

    faulty.fail_writes(true);
    let failed = send_log(Txg(6)).expect("it takes no writes");
    vdevs.rest_logs(&failed);
    assert_eq!(vdevs.resting_logs(), [Guid(3)]);
    send(&vdevs, Txg(6));
    assert!(vdevs.flush_group(false).is_ok());
    assert!(vdevs.flush_since(&vdevs.flush_mark(), &[main]).is_ok());
}

/// What a group wrote again after a failed flush was still missing from its only device.
#[test]
fn what_is_written_again_and_flushed_is_not_missed() {
    for kind in ["disk", "mirror"] {
        let guids = match kind {
            "disk" => 2..3,
            _ => 10..12,
        };
        let children = match kind {
            "disk" => vec![],
            _ => disks(guids.clone()),
        };
        let config = pool(vdev(kind, 2, children), 9, &[]);
        let mut devices = memory(guids.clone(), DEVICE);
        let mut faulty = Vec::new();
        for (guid, device) in &mut devices {
            let broken = Arc::new(FaultyDevice::new(Arc::clone(device)));
            *device = Arc::clone(&broken) as Arc<dyn Device>;
            faulty.push((*guid, broken));
        }
        let vdevs = open(&config, &devices);
        send(&vdevs, Txg(5));
        faulty
            .iter()
            .for_each(|(_, device)| device.fail_writes(true));
        assert!(vdevs.flush_group(false).is_err(), "{kind}");
        assert!(faulty.iter().all(|(guid, _)| !vdevs.dtl(*guid).is_empty()));
        // In the mirror, one side comes back.
        faulty[0].1.fail_writes(false);
        send(&vdevs, Txg(5));
        assert!(vdevs.flush_group(true).is_ok(), "{kind}");
        assert!(vdevs.dtl(faulty[0].0).is_empty(), "{kind}");
        for (guid, _) in &faulty[1..] {
            assert_eq!(vdevs.dtl(*guid), [Txg(5)..Txg(6)], "{kind}");
        }
    }
}
