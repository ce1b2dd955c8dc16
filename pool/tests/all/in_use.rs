//! Pools that another system may have.

use crate::common::{self, Bench};
use cenote_base::RealEnv;
use cenote_codec::checksum::sha256;
use cenote_device::Device;
use cenote_ondisk::embedded_checksum::{TRAILER_SIZE, label_verifier, prepare, seal};
use cenote_ondisk::label::{UBERBLOCK_RING_OFFSET, UberblockRing, label_offset};
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::uberblock::{Multihost, Uberblock};
use cenote_pool::{ImportError, PoolCandidate, VdevShape, import};
use cenote_vdev::AllocationClass::Normal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const OWN_HOST: u64 = 0x1234;
const OTHER_HOST: u64 = 0x99;

/// Writes a heartbeat as OpenZFS does: the last uberblock again, in the last slot of a label.
fn beat(device: &dyn Device, ring: UberblockRing, last: &Uberblock, sequence: u16) {
    let mut heartbeat = last.clone();
    heartbeat.timestamp += 1;
    heartbeat.multihost = Some(Multihost {
        delay_ns: 50_000_000,
        interval_ms: Some(100),
        sequence: Some(sequence),
        fail_intervals: Some(5),
    });
    let slot = ring.slot_offset(ring.heartbeat_slot());
    let label = label_offset(device.size(), usize::from(sequence) % 4).expect("large enough");
    let at = label + UBERBLOCK_RING_OFFSET + slot;
    let mut bytes = heartbeat.encode().to_vec();
    bytes.resize(usize::try_from(ring.slot_size()).expect("small"), 0);
    let position = bytes.len() - TRAILER_SIZE;
    prepare(&mut bytes, position, label_verifier(at));
    let checksum = sha256(&bytes);
    seal(&mut bytes, position, checksum);
    device.write_at(at, &bytes).expect("written");
}

/// The pool as a system with this id left it, or has it.
fn active(bench: &Bench, hostid: u64) -> PoolCandidate {
    let mut candidate = common::candidates(bench.dir.path()).remove(0);
    candidate.config.state = PoolState::Active;
    candidate.config.hostid = hostid;
    candidate
}

fn attempt(candidate: &PoolCandidate) -> Result<cenote_pool::Pool, ImportError> {
    import(candidate, &common::options(), Arc::new(RealEnv::new()))
}

#[test]
fn a_pool_with_a_heartbeat_is_left_alone() {
    let mut bench = Bench::new("beating");
    let vdev = bench.vdev(VdevShape::Single, Normal, 1);
    let device = Arc::clone(&vdev.leaves[0].device);
    let pool = bench.create(vec![vdev]);
    pool.close().expect("written");
    drop(pool);
    let left = active(&bench, OWN_HOST);
    let last = left.uberblocks().remove(0);
    let ashift = left.tree.children[0].ashift;
    let ring = UberblockRing::new(ashift.expect("in the label"));
    beat(&*device, ring, &last, 1);
    // Another system had it, and may have crashed: force overrules that.
    let refused = attempt(&active(&bench, OTHER_HOST));
    assert!(
        matches!(refused, Err(ImportError::InUse { hostid, .. }) if hostid == OTHER_HOST),
        "{refused:?}"
    );
    // A system has it, this one or another.
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 2.. {
                if has_ended.load(Ordering::Relaxed) {
                    break;
                }
                beat(&*device, ring, &last, sequence);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let refused = [OTHER_HOST, OWN_HOST].map(|host| attempt(&active(&bench, host)));
        has_ended.store(true, Ordering::Relaxed);
        for refused in refused {
            assert!(
                matches!(refused, Err(ImportError::ActiveElsewhere { .. })),
                "{refused:?}"
            );
        }
    });
    drop(device);
    // The same system may import again what it left.
    let pool = attempt(&active(&bench, OWN_HOST)).expect("it is not in use");
    pool.close().expect("written");
    bench.check();
}

/// Regression: two imports found the pool at the same time. The second one waited for the first
/// to unlock the devices, and opened the state that it had found after the first had written: it
/// wrote over newer blocks, and the pool could not be imported any more.
#[test]
fn an_import_that_was_overtaken_changes_nothing() {
    let mut bench = Bench::new("overtaken");
    let vdev = bench.vdev(VdevShape::Mirror, Normal, 2);
    let pool = bench.create(vec![vdev]);
    pool.export().expect("written");
    drop(pool);
    let scan = || common::candidates(bench.dir.path()).remove(0);
    let found = scan();
    let first = attempt(&scan()).expect("free");
    common::change(&first, 1).expect("written");
    first.export().expect("written");
    drop(first);
    let refused = attempt(&found);
    assert!(
        matches!(refused, Err(ImportError::WrittenMeanwhile { .. })),
        "{refused:?}"
    );
    drop(refused);
    let again = attempt(&scan()).expect("free");
    again.export().expect("written");
    bench.check();
}
