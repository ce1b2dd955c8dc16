//! Trees that change while they are in use: leaves that come, go, and miss things meanwhile.

use crate::support::{
    DEVICE, Devices, MIB, blocks, disks, memory, open, open_kept, pool, read_all, vdev, write_all,
};
use cenote_base::{Guid, Txg, VdevId};
use cenote_device::{FaultyDevice, Lead};
use cenote_ondisk::{NvList, VdevConfig};
use cenote_vdev::IoContext;
use cenote_vdev::{
    AllocationClass, DtlKind, Reshape, ResilverTarget, Shape, TxgSet, VdevAux, VdevState,
    VdevWrite, WritePlan,
};
use std::ops::Range;
use std::sync::Arc;

/// Where the data of a device begins, behind two labels and the boot region.
const DATA: u64 = 4 * MIB;

fn txgs(range: Range<u64>) -> TxgSet {
    TxgSet::from_ranges([Txg(range.start)..Txg(range.end)])
}

fn image(devices: &Devices, guid: u64) -> Vec<u8> {
    let device = &devices[&Guid(guid)];
    let length = DEVICE - DATA - MIB;
    device.read_vec(DATA, length as usize).expect("in range")
}

fn only(devices: &Devices, guids: Range<u64>) -> Devices {
    let mut some = devices.clone();
    some.retain(|guid, _| guids.contains(&guid.0));
    some
}

fn reshape<'a>(
    root: &'a VdevConfig,
    devices: &'a Devices,
    missed: &'a [(Guid, TxgSet)],
) -> Reshape<'a> {
    Reshape {
        root,
        devices,
        missed,
    }
}

/// Plans writes without sending them.
fn plan(shape: &Shape, writes: &[VdevWrite]) -> WritePlan {
    let prepared = writes.iter().map(|write| {
        let prepared = shape.prepare_write(write.clone());
        prepared.expect("a sound address")
    });
    shape.plan_writes(prepared.collect())
}

fn send(shape: &Shape, plan: &WritePlan) {
    (0..plan.chunks()).for_each(|chunk| shape.write_chunk(plan, chunk));
    assert!(shape.finish_writes(plan).iter().all(Result::is_ok));
}

/// Brings leaves what they missed of these blocks.
fn resilver(vdevs: &Shape, writes: &[VdevWrite]) {
    for write in writes {
        let (dva, size) = (write.dva, write.data.len());
        let stale = vdevs.stale_leaves(dva, size, write.txg).expect("sound");
        let is_right = |bytes: &[u8]| *bytes == write.data[..];
        let read = vdevs
            .read(dva, size, write.txg, &is_right, &IoContext::USER)
            .expect("right");
        let repaired = vdevs.repair(dva, &read.bytes, write.txg, &stale, &IoContext::USER);
        repaired.expect("all leaves are there");
    }
    vdevs.flush().expect("memory flushes");
}

#[test]
fn what_is_missed_is_computed_up_the_tree() {
    let mirror = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let vdevs = open(&mirror, &memory(10..12, DEVICE));
    let of = |guid, kind| vdevs.dtl_of(Guid(guid), kind).expect("it is there");
    vdevs.set_dtl(Guid(10), &[Txg(50)..Txg(60)]);
    assert!(of(2, DtlKind::Missing).is_empty() && of(2, DtlKind::Outage).is_empty());
    assert_eq!(of(2, DtlKind::Partial), txgs(50..60));
    assert!(vdevs.is_required(Guid(11)) && !vdevs.is_required(Guid(10)));
    assert!(vdevs.is_required_without(Guid(10), &[Guid(11)]));
    assert!(!vdevs.is_required_without(Guid(10), &[Guid(10), Guid(99)]));
    assert!(!vdevs.fault(Guid(11)), "only it has what the other missed");
    vdevs.set_dtl(Guid(11), &[Txg(55)..Txg(65)]);
    assert_eq!(of(2, DtlKind::Missing), txgs(55..60));
    assert_eq!(of(1, DtlKind::Outage), txgs(55..60));
    assert!(vdevs.is_required(Guid(10)), "no leaf can be spared now");
    assert_eq!(vdevs.is_resilver_needed(), Some(Txg(50)..Txg(65)));
    assert_eq!(vdevs.dtl_of(Guid(99), DtlKind::Missing), None);

    let vdevs = open(&mirror, &memory(10..11, DEVICE));
    vdevs.set_dtl(Guid(11), &[Txg(5)..Txg(6)]);
    assert_eq!(vdevs.dtl_of(Guid(11), DtlKind::Outage), Some(TxgSet::all()));
    assert_eq!(vdevs.is_resilver_needed(), None, "it is not there");
    assert!(vdevs.is_required(Guid(10)) && !vdevs.is_required(Guid(11)));

    let raidz = pool(vdev("raidz", 2, disks(10..13)), 9, &[("nparity", 1)]);
    let vdevs = open(&raidz, &memory(10..13, DEVICE));
    vdevs.set_dtl(Guid(10), &[Txg(5)..Txg(9)]);
    assert!(!vdevs.is_required(Guid(10)) && vdevs.is_required(Guid(12)));
    vdevs.set_dtl(Guid(11), &[Txg(7)..Txg(12)]);
    let of = |kind| vdevs.dtl_of(Guid(2), kind).expect("it is there");
    assert_eq!(of(DtlKind::Missing), txgs(7..9));
    assert_eq!(of(DtlKind::Partial), txgs(5..12));
}

/// A disk becomes a mirror: the vdev stays what it was, and its new side is behind.
#[test]
fn a_leaf_is_attached_and_resilvered() {
    let devices = memory(10..12, DEVICE);
    let alone = pool(vdev("disk", 10, vec![]), 12, &[]);
    let vdevs = open_kept(&alone, &only(&devices, 10..11));
    let first = vdevs.shape();
    first.set_class(VdevId(0), AllocationClass::Special);
    let before = blocks(&first, Txg(9), 0);
    write_all(&first, &before);
    let late = blocks(&first, Txg(10), 30 * MIB);
    let under_way = plan(&first, &late);

    let mirror = pool(vdev("mirror", 2, disks(10..12)), 12, &[]);
    let new = only(&devices, 11..12);
    let missed = [(Guid(11), txgs(4..13))];
    let left = vdevs
        .reshape(&reshape(&mirror, &new, &missed))
        .expect("sound");
    assert!(left.is_empty());
    send(&first, &under_way);
    let shape = vdevs.shape();
    assert_eq!(shape.class(VdevId(0)), Some(AllocationClass::Special));
    let mut after = blocks(&shape, Txg(13), 60 * MIB);
    after.truncate(5);
    write_all(&shape, &after);
    for writes in [&before, &late, &after] {
        read_all(&shape, writes, "half resilvered");
    }
    let errors = |shape: &Shape| {
        let status = shape.status();
        let children = status.children[0].children.iter();
        children.map(|c| c.figures.checksum_errors).sum::<u64>()
    };
    assert_eq!(errors(&shape), 0, "the new side was not read");
    assert!(shape.is_required(Guid(10)) && !shape.is_required(Guid(11)));

    let targets = shape.begin_resilver(Txg(14));
    assert_eq!(targets[0].txgs, txgs(4..13));
    resilver(&shape, &before);
    resilver(&shape, &late);
    assert!(shape.end_resilver(&targets).is_empty());
    assert!(
        shape
            .take_changed_dtls()
            .iter()
            .any(|(guid, _)| *guid == Guid(11))
    );
    assert!(!shape.is_required(Guid(10)) && shape.is_resilver_needed().is_none());
    assert!(image(&devices, 10) == image(&devices, 11));
}

/// Writes that were on their way when a leaf was taken out do not reach its device any more: it
/// may be another pool's.
#[test]
fn a_leaf_that_left_is_left_alone() {
    let devices = memory(10..13, DEVICE);
    let mirror = pool(vdev("mirror", 2, disks(10..13)), 9, &[]);
    let vdevs = open_kept(&mirror, &devices);
    let before = vdevs.shape();
    let first = blocks(&before, Txg(9), 0);
    write_all(&before, &first);
    let late = blocks(&before, Txg(10), 30 * MIB);
    let under_way = plan(&before, &late);
    let gone = image(&devices, 12);

    let smaller = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let left = vdevs.reshape(&reshape(&smaller, &Devices::new(), &[]));
    let left = left.expect("sound");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].leaf, Guid(12));
    send(&before, &under_way);
    before.flush().expect("memory flushes");
    assert!(image(&devices, 12) == gone);
    for shape in [&before, &vdevs.shape()] {
        read_all(shape, &first, "before");
        read_all(shape, &late, "under way");
        assert!(shape.dtl(Guid(10)).is_empty() && shape.dtl(Guid(11)).is_empty());
    }
    // What is left of the mirror becomes a disk.
    let alone = pool(vdev("disk", 11, vec![]), 9, &[]);
    let left = vdevs.reshape(&reshape(&alone, &Devices::new(), &[]));
    assert_eq!(left.expect("sound")[0].leaf, Guid(10));
    read_all(&vdevs.shape(), &late, "alone");
}

fn offline(mut disk: NvList) -> NvList {
    disk.set_u64("offline", 1);
    disk
}

#[test]
fn a_leaf_goes_offline_and_comes_back() {
    let devices = memory(10..12, DEVICE);
    let online = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let half = vec![vdev("disk", 10, vec![]), offline(vdev("disk", 11, vec![]))];
    let half = pool(vdev("mirror", 2, half), 9, &[]);
    let vdevs = open_kept(&online, &devices);
    let shape = vdevs.shape();
    let first = blocks(&shape, Txg(9), 0);
    let late = blocks(&shape, Txg(10), 30 * MIB);
    write_all(&shape, &first);
    let under_way = plan(&shape, &late);
    let gone = image(&devices, 11);

    let left = vdevs.reshape(&reshape(&half, &Devices::new(), &[]));
    assert_eq!(left.expect("sound")[0].leaf, Guid(11));
    send(&shape, &under_way);
    let shape = vdevs.shape();
    let status = shape.status();
    assert_eq!(status.children[0].children[1].state, VdevState::Offline);
    assert_eq!(status.state, VdevState::Degraded);
    assert_eq!(
        shape.dtl(Guid(11)),
        [Txg(10)..Txg(11)],
        "what was under way"
    );
    let more = blocks(&shape, Txg(11), 0);
    write_all(&shape, &more);
    assert!(image(&devices, 11) == gone);

    let back = only(&devices, 11..12);
    let came = vdevs.reshape(&reshape(&online, &back, &[]));
    assert!(came.expect("sound").is_empty());
    let shape = vdevs.shape();
    assert_eq!(shape.status().state, VdevState::Healthy);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(12)]);
    read_all(&shape, &late, "back");

    // A resilver that was interrupted leaves it behind, even if it believes to have finished.
    let targets: Vec<ResilverTarget> = shape.begin_resilver(Txg(100));
    resilver(&shape, &late);
    let left = vdevs.reshape(&reshape(&half, &Devices::new(), &[]));
    assert_eq!(left.expect("sound").len(), 1);
    vdevs.reshape(&reshape(&online, &back, &[])).expect("sound");
    let shape = vdevs.shape();
    resilver(&shape, &more);
    assert_eq!(shape.end_resilver(&targets), [Guid(11)]);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(12)]);
    let targets = shape.begin_resilver(Txg(100));
    shape.note_unrepaired(Guid(11), Txg(11));
    resilver(&shape, &late);
    assert!(shape.end_resilver(&targets).is_empty());
    assert_eq!(
        shape.dtl(Guid(11)),
        [Txg(11)..Txg(12)],
        "that was not brought"
    );
}

/// A faulted leaf is closed. That it comes back before the resilver has ended does not mean that it
/// got all that was brought meanwhile.
#[test]
fn a_leaf_that_was_faulted_meanwhile_got_no_resilver() {
    let devices = memory(10..12, DEVICE);
    let online = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let mut faulted = vdev("disk", 11, vec![]);
    faulted.set_u64("faulted", 1);
    let half = vec![vdev("disk", 10, vec![]), faulted];
    let half = pool(vdev("mirror", 2, half), 9, &[]);
    let vdevs = open_kept(&online, &devices);
    let back = only(&devices, 11..12);
    let goes = || {
        let left = vdevs.reshape(&reshape(&half, &Devices::new(), &[]));
        assert_eq!(left.expect("sound").len(), 1, "it is closed");
    };
    let comes = || {
        let left = vdevs.reshape(&reshape(&online, &back, &[]));
        assert!(left.expect("sound").is_empty());
    };
    goes();
    let late = blocks(&vdevs.shape(), Txg(10), 30 * MIB);
    write_all(&vdevs.shape(), &late);
    comes();
    let targets = vdevs.shape().begin_resilver(Txg(100));
    assert_eq!(targets.len(), 1);
    goes();
    comes();
    let shape = vdevs.shape();
    assert_eq!(shape.end_resilver(&targets), [Guid(11)]);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(11)]);
}

/// A child of a raidz is replaced, by way of a vdev that holds both.
#[test]
fn a_leaf_is_replaced() {
    for kind in ["replacing", "spare"] {
        let devices = memory(10..14, DEVICE);
        let parity = [("nparity", 1)];
        let children =
            |middle: NvList| vec![vdev("disk", 10, vec![]), middle, vdev("disk", 12, vec![])];
        let whole = pool(
            vdev("raidz", 2, children(vdev("disk", 11, vec![]))),
            9,
            &parity,
        );
        let both = vec![vdev("disk", 11, vec![]), vdev("disk", 13, vec![])];
        let both = pool(vdev("raidz", 2, children(vdev(kind, 20, both))), 9, &parity);
        let after = pool(
            vdev("raidz", 2, children(vdev("disk", 13, vec![]))),
            9,
            &parity,
        );
        let vdevs = open_kept(&whole, &only(&devices, 10..13));
        let first = blocks(&vdevs.shape(), Txg(9), 0);
        write_all(&vdevs.shape(), &first);

        let missed = [(Guid(13), txgs(4..13))];
        let new = only(&devices, 13..14);
        vdevs
            .reshape(&reshape(&both, &new, &missed))
            .expect("sound");
        let shape = vdevs.shape();
        let second = blocks(&shape, Txg(14), 30 * MIB);
        write_all(&shape, &second);
        read_all(&shape, &first, kind);
        assert!(!shape.is_required(Guid(13)) && !shape.is_required(Guid(11)));
        let of = shape.dtl_of(Guid(20), DtlKind::Partial);
        assert_eq!(of, Some(txgs(4..13)));
        let targets = shape.begin_resilver(Txg(14));
        resilver(&shape, &first);
        assert!(shape.end_resilver(&targets).is_empty());

        let left = vdevs.reshape(&reshape(&after, &Devices::new(), &[]));
        assert_eq!(left.expect("sound")[0].leaf, Guid(11));
        let mut fewer = devices.clone();
        fewer.remove(&Guid(10));
        for writes in [&first, &second] {
            read_all(&vdevs.shape(), writes, kind);
            // The new leaf has everything: it makes up for another.
            read_all(&open(&after, &fewer), writes, kind);
        }
    }
}

/// A distributed spare that has just been taken has nothing yet, although the devices that its
/// space is on miss nothing.
#[test]
fn a_distributed_spare_is_filled() {
    let geometry = [
        ("nparity", 1),
        ("draid_ndata", 3),
        ("draid_nspares", 1),
        ("draid_ngroups", 7),
    ];
    let size = 300 * MIB;
    let devices = memory(10..18, size);
    let plain = pool(vdev("draid", 2, disks(10..18)), 12, &geometry);
    let mut spare = vdev("dspare", 50, vec![]);
    spare.set_u64("top_guid", 2);
    spare.set_u64("spareid", 0);
    let mut children = disks(10..18);
    children[3] = vdev("spare", 51, vec![vdev("disk", 13, vec![]), spare]);
    let spared = pool(vdev("draid", 2, children), 12, &geometry);

    let vdevs = open_kept(&plain, &devices);
    let writes = blocks(&vdevs.shape(), Txg(9), 0);
    write_all(&vdevs.shape(), &writes);
    let missed = [(Guid(50), txgs(4..13))];
    vdevs
        .reshape(&reshape(&spared, &Devices::new(), &missed))
        .expect("sound");
    let shape = vdevs.shape();
    assert!(!shape.is_required(Guid(13)), "parity makes up for it");
    let targets = shape.begin_resilver(Txg(100));
    assert_eq!(targets[0].leaf, Guid(50));
    resilver(&shape, &writes);
    let wrong: u64 = {
        let status = shape.status();
        let children = status.children[0].children.iter();
        children.map(|c| c.figures.checksum_errors).sum()
    };
    assert_eq!(wrong, 0, "no leaf was charged for what the spare lacked");
    assert!(shape.end_resilver(&targets).is_empty());
    // The spare stands in for the disk: another may be lost.
    let mut fewer = devices.clone();
    fewer.remove(&Guid(13));
    fewer.remove(&Guid(14));
    let lost = open(&spared, &fewer);
    let mut read = 0;
    for write in &writes {
        let is_right = |bytes: &[u8]| *bytes == write.data[..];
        let result = lost.read(
            write.dva,
            write.data.len(),
            write.txg,
            &is_right,
            &IoContext::USER,
        );
        read += usize::from(result.is_ok());
    }
    // Spare space of some rows is on the other lost disk.
    assert!(read > 20, "{read}");
}

/// The devices with these guids, each of which can stray.
fn straying(devices: &Devices) -> (Devices, Vec<Arc<FaultyDevice>>) {
    let mut guids: Vec<Guid> = devices.keys().copied().collect();
    guids.sort_unstable();
    let faulty = guids
        .iter()
        .map(|guid| Arc::new(FaultyDevice::new(Arc::clone(&devices[guid]))));
    let faulty: Vec<_> = faulty.collect();
    let wrapped = guids.iter().zip(&faulty);
    let wrapped = wrapped.map(|(guid, faulty)| (*guid, Arc::clone(faulty) as _));
    (wrapped.collect(), faulty)
}

/// The file of one side was exchanged for a copy of itself. All that was written afterwards went to
/// a file without a name, and the side counted as complete.
#[test]
fn a_device_whose_name_leads_elsewhere_takes_nothing() {
    let devices = memory(10..12, DEVICE);
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let (wrapped, faulty) = straying(&devices);
    let vdevs = open_kept(&config, &wrapped);
    let first = blocks(&vdevs.shape(), Txg(9), 0);
    write_all(&vdevs.shape(), &first);
    assert!(vdevs.shape().look_at_names().is_empty());
    let before = image(&devices, 11);
    // That it is moved says nothing.
    faulty[1].set_lead(Lead::Nowhere);
    assert!(vdevs.shape().look_at_names().is_empty());
    faulty[1].set_lead(Lead::Elsewhere);
    let shape = vdevs.shape();
    assert_eq!(shape.silent_leaves(), [Guid(11)]);
    assert_eq!(shape.look_at_names(), [(Guid(11), Lead::Elsewhere)]);
    let late = blocks(&shape, Txg(10), 30 * MIB);
    write_all(&shape, &late);
    assert!(image(&devices, 11) == before);
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(11)]);
    let side = |shape: &Shape| {
        let side = &shape.status().children[0].children[1];
        (side.state, side.aux)
    };
    let gone = (VdevState::Removed, VdevAux::Replaced);
    assert_eq!(side(&shape), gone);
    assert_eq!(shape.to_close(), [(Guid(11), VdevAux::Replaced)]);
    let left = vdevs.reshape(&reshape(&config, &Devices::new(), &[]));
    assert_eq!(left.expect("sound").len(), 1);
    let shape = vdevs.shape();
    assert!(!shape.is_open(Guid(11)) && side(&shape) == gone);
    read_all(&shape, &late, "from the other side");
    let back = only(&devices, 11..12);
    let came = vdevs.reshape(&reshape(&config, &back, &[]));
    assert!(came.expect("sound").is_empty());
    let shape = vdevs.shape();
    assert_eq!(side(&shape), (VdevState::Healthy, VdevAux::None));
    assert_eq!(shape.dtl(Guid(11)), [Txg(10)..Txg(11)]);
}

/// What the pool cannot do without stays open: it may be all that there is of the data.
#[test]
fn a_device_that_is_needed_is_read_although_its_name_leads_elsewhere() {
    let devices = memory(10..12, DEVICE);
    let config = pool(vdev("mirror", 2, disks(10..12)), 9, &[]);
    let (wrapped, faulty) = straying(&devices);
    let vdevs = open_kept(&config, &wrapped);
    let first = blocks(&vdevs.shape(), Txg(9), 0);
    write_all(&vdevs.shape(), &first);
    let shape = vdevs.shape();
    let mark = shape.flush_mark();
    faulty
        .iter()
        .for_each(|faulty| faulty.set_lead(Lead::Elsewhere));
    assert!(
        shape.flush_since(&mark, &[VdevId(0)]).is_err(),
        "nothing is promised"
    );
    assert_eq!(shape.look_at_names().len(), 2);
    assert!(shape.to_close().is_empty() && shape.has_gone(VdevId(0)));
    let left = vdevs.reshape(&reshape(&config, &Devices::new(), &[]));
    assert!(left.expect("sound").is_empty());
    let shape = vdevs.shape();
    read_all(&shape, &first, "although nothing is written");
    let late = blocks(&shape, Txg(10), 30 * MIB);
    assert!(shape.write(late.clone()).iter().all(Result::is_err));
    // The right files are put back.
    faulty.iter().for_each(|faulty| faulty.set_lead(Lead::Here));
    assert!(shape.silent_leaves().is_empty() && shape.look_at_names().is_empty());
    write_all(&shape, &late);
    read_all(&shape, &late, "with the right files");
}
