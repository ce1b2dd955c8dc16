//! Whom a resilver counts for: leaves that were there from its begin to its end, and got it all.

use crate::support::{DEVICE, Devices, blocks, disks, memory, open_kept, pool, vdev, write_all};
use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{Device, FaultyDevice};
use cenote_ondisk::{BlockPointer, Dva, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::{FaultKind, IndirectEntry, Reshape, TxgSet};
use std::ops::Range;
use std::sync::Arc;

fn txgs(range: Range<u64>) -> TxgSet {
    TxgSet::from_ranges([Txg(range.start)..Txg(range.end)])
}

/// A pointer to 4096 stored bytes.
fn pointer(dva: Dva, birth: u64) -> BlockPointer {
    let mut pointer = BlockPointer::HOLE;
    (pointer.words[0], pointer.words[1]) = (dva.word0, dva.word1);
    // Little-endian, uncompressed, 8 sectors of each size.
    pointer.words[6] = 1 << 63 | 2 << 32 | 7 << 16 | 7;
    pointer.words[10] = birth;
    pointer
}

/// A device with an older gap joined a resilver that had begun for another one: it was not walked
/// for, and its whole gap was struck off.
#[test]
fn a_leaf_that_comes_later_keeps_its_gap() {
    let devices = memory(10..13, DEVICE);
    let root = pool(vdev("mirror", 2, disks(10..13)), 9, &[]);
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    shape.set_dtl(Guid(12), &[Txg(20)..Txg(22)]);
    let targets = shape.begin_resilver(Txg(30));
    assert!(!shape.is_another_due(&targets));
    // What comes now is for another resilver.
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(22)]);
    assert!(shape.is_another_due(&targets));
    assert!(shape.end_resilver(&targets).is_empty());
    assert!(shape.dtl(Guid(12)).is_empty());
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(22)]);
    let targets = shape.begin_resilver(Txg(30));
    assert!(!shape.is_another_due(&targets));
    shape.end_resilver(&targets);
    assert!(shape.dtl(Guid(11)).is_empty());
}

/// What a leaf missed after the resilver had begun is not its affair, and no reason to begin
/// another at once: a device that fails all the time would be resilvered all the time.
#[test]
fn what_was_due_and_could_not_be_brought_is_not_tried_again_at_once() {
    let devices = memory(10..12, DEVICE);
    let root = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(33)]);
    let targets = shape.begin_resilver(Txg(31));
    assert!(shape.is_another_due(&targets), "two groups were too late");
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(15)]);
    let targets = shape.begin_resilver(Txg(31));
    shape.note_unrepaired(Guid(11), Txg(12));
    shape.add_missed(Guid(11), &txgs(40..41));
    assert!(!shape.is_another_due(&targets));
    shape.end_resilver(&targets);
    let left = [Txg(12)..Txg(13), Txg(40)..Txg(41)];
    assert_eq!(shape.dtl(Guid(11)), left);
}

/// A block that leads to others could not be read for a moment: what is below it was not met, and
/// the gap was struck off all the same.
#[test]
fn what_was_not_met_is_not_struck_off() {
    let devices = memory(10..12, DEVICE);
    let root = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(20)]);
    let targets = shape.begin_resilver(Txg(30));
    shape.note_unwalked(&targets, Txg(14));
    assert_eq!(shape.served(&targets).count(), 0);
    shape.end_resilver(&targets);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(15)]);
}

/// A block that was cloned to a place that the walk had passed, and then removed where it would
/// have been met, was not brought to the device, and counted as if it had been.
#[test]
fn what_is_shared_meanwhile_is_not_struck_off() {
    let devices = memory(10..12, DEVICE);
    let root = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(20)]);
    let targets = shape.begin_resilver(Txg(30));
    shape.note_shared(&pointer(Dva::new(VdevId(0), 0, 4096), 12));
    shape.note_shared(&pointer(Dva::new(VdevId(0), 4096, 4096), 25));
    assert!(shape.end_resilver(&targets).is_empty());
    assert_eq!(shape.dtl(Guid(11)), [Txg(12)..Txg(13)]);
    assert!(shape.dtl(Guid(10)).is_empty());
}

/// A device that does not take a flush may have lost what repairs wrote to it, whichever groups
/// that was of.
#[test]
fn a_leaf_that_does_not_flush_was_not_reached() {
    let mut devices = memory(10..12, DEVICE);
    let inner = Arc::clone(&devices[&Guid(11)]);
    let faulty = Arc::new(FaultyDevice::new(inner));
    devices.insert(Guid(11), Arc::clone(&faulty) as Arc<dyn Device>);
    let root = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    let writes = blocks(&shape, Txg(10), 0);
    write_all(&shape, &writes);
    shape.flush().expect("memory flushes");
    shape.set_dtl(Guid(11), &[Txg(10)..Txg(11)]);
    let targets = shape.begin_resilver(Txg(30));
    for write in &writes {
        let repaired = shape.repair(
            write.dva,
            &write.data,
            write.txg,
            &[Guid(11)],
            &IoContext::USER,
        );
        repaired.expect("taken");
    }
    faulty.fail_writes(true);
    shape.flush().expect("the other side has it");
    faulty.fail_writes(false);
    assert_eq!(shape.end_resilver(&targets), [Guid(11)]);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(11)]);
}

/// Regression: a spare that went back and came again under its own guid while a resilver ran was
/// taken for the one that had been there before.
#[test]
fn a_leaf_that_left_and_came_again_is_another() {
    let devices = memory(10..12, DEVICE);
    let both = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let alone = pool(vdev("disk", 10, vec![]), 9, &[]);
    let vdevs = open_kept(&both, &devices);
    vdevs.shape().set_dtl(Guid(11), &[Txg(4)..Txg(13)]);
    let targets = vdevs.shape().begin_resilver(Txg(30));
    let turn = |root, devices: &Devices, missed: &[(Guid, TxgSet)]| {
        let change = Reshape {
            root,
            devices,
            missed,
        };
        vdevs.reshape(&change).expect("sound");
    };
    turn(&alone, &Devices::new(), &[]);
    let mut new = devices.clone();
    new.remove(&Guid(10));
    turn(&both, &new, &[(Guid(11), txgs(4..20))]);
    let shape = vdevs.shape();
    assert_eq!(shape.end_resilver(&targets), [Guid(11)]);
    assert_eq!(shape.dtl(Guid(11)), [Txg(4)..Txg(20)]);
}

/// A scan that resumes after an import counts for the leaves that were there all the time.
#[test]
fn an_interrupted_resilver_goes_on_for_those_that_missed_nothing_since() {
    let devices = memory(10..13, DEVICE);
    let root = pool(vdev("mirror", 2, disks(10..13)), 9, &[]);
    let open = || {
        let vdevs = open_kept(&root, &devices);
        let shape = vdevs.shape();
        shape.set_dtl(Guid(11), &[Txg(10)..Txg(22)]);
        shape.set_dtl(Guid(12), &[Txg(20)..Txg(22)]);
        vdevs
    };
    let shape = open().shape();
    let targets = shape.begin_resilver(Txg(30));
    let known: Vec<(Guid, TxgSet)> = shape.served(&targets).collect();
    assert_eq!(known.len(), 2);
    let shape = open().shape();
    // It was away meanwhile.
    shape.add_missed(Guid(12), &txgs(31..32));
    let targets = shape.resume_resilver(&known, &(Txg(10)..Txg(22)));
    let leaves: Vec<Guid> = targets.iter().map(|target| target.leaf).collect();
    assert_eq!(leaves, [Guid(11)]);
    assert!(shape.is_another_due(&targets));
    shape.end_resilver(&targets);
    assert!(shape.dtl(Guid(11)).is_empty());
    assert_eq!(shape.dtl(Guid(12)), [Txg(20)..Txg(22), Txg(31)..Txg(32)]);
}

/// A device was away while a removed vdev was emptied. The blocks that were copied are older than
/// its gap: they counted as being there, the resilver passed over them and struck the gap off.
#[test]
fn what_a_removal_copied_is_missed_by_who_was_away() {
    let devices = memory(10..14, DEVICE);
    let gone = vdev("indirect", 4, Vec::new());
    let mut tops = vec![
        vdev("mirror", 2, disks(10..12)),
        vdev("mirror", 3, disks(12..14)),
        gone,
    ];
    for top in &mut tops {
        top.set_u64("ashift", 9);
        top.set_u64("asize", 4 << 20);
    }
    let root = VdevConfig::decode(&vdev("root", 1, tops)).expect("a sound tree");
    let vdevs = open_kept(&root, &devices);
    let shape = vdevs.shape();
    let entry = |source, vdev, copied_in| IndirectEntry {
        source,
        target: Dva::new(VdevId(vdev), 1 << 20, 4096),
        copied_in: Txg(copied_in),
    };
    // The second went to where the first had been, and was moved on from there.
    let moved = vec![entry(0, 0, 50), entry(4096, 1, 60)];
    shape
        .set_indirect_mapping(VdevId(2), moved)
        .expect("in order");
    let block = |at| Dva::new(VdevId(2), at, 4096);
    let stale = |at| shape.stale_leaves(block(at), 4096, Txg(7)).expect("sound");
    shape.set_dtl(Guid(11), &[Txg(50)..Txg(51)]);
    assert_eq!((stale(0), stale(4096)), (vec![Guid(11)], vec![]));
    let gap = txgs(50..51);
    assert!(shape.is_written_in(&pointer(block(0), 7), &gap));
    assert!(!shape.is_written_in(&pointer(block(4096), 7), &gap));
    assert!(!shape.is_written_in(&pointer(Dva::new(VdevId(0), 0, 4096), 7), &gap));
    let gang = Dva {
        word1: 1 << 63,
        ..Dva::new(VdevId(0), 0, 4096)
    };
    assert!(
        shape.is_written_in(&pointer(gang, 7), &gap),
        "its members may be there"
    );
    // The reader does not trust the leaf that was away.
    let right = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let read = shape
        .read(block(0), 4096, Txg(7), &right, &IoContext::USER)
        .expect("the other has it");
    assert!(
        read.wrong
            .iter()
            .any(|f| f.leaf == Guid(11) && f.kind == FaultKind::Stale)
    );
    // A gap before the copying is none of the block.
    shape.set_dtl(Guid(10), &[Txg(6)..Txg(9)]);
    assert!(!stale(0).contains(&Guid(10)));
    shape.set_dtl(Guid(10), &[]);
    // What cannot be brought, is shared meanwhile or not met keeps the gap of the copying.
    let spoil: [&dyn Fn(&[_]); 3] = [
        &|_| shape.note_unrepaired_block(Guid(11), block(0), 4096, Txg(7)),
        &|_| shape.note_shared(&pointer(block(0), 7)),
        &|targets| shape.note_unwalked(targets, Txg(9)),
    ];
    for spoil in spoil {
        let targets = shape.begin_resilver(Txg(70));
        spoil(&targets);
        shape.end_resilver(&targets);
        assert_eq!(shape.dtl(Guid(11)), [Txg(50)..Txg(51)]);
    }
}
