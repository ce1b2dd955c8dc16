//! Commands that begin and end the treatment of a device's free space, several at once.

use crate::common;
use cenote_base::{Guid, RealEnv};
use cenote_pool::{
    Actor, NewVdev, Pool, TreatmentCommand, TreatmentKind, TreatmentState, VdevShape,
};
use cenote_sim::Disks;
use cenote_vdev::AllocationClass;
use std::time::{Duration, Instant};

const KIND: TreatmentKind = TreatmentKind::Initialize;
const START: TreatmentCommand = TreatmentCommand::Start {
    rate: 0,
    zeros: false,
};

fn treat(pool: &Pool, leaf: Guid, command: TreatmentCommand) {
    let done = pool.treat(KIND, &[leaf], command, (&Actor::default(), ""));
    // That it is under way already, or not, is no failure here.
    done.expect("the pool takes changes");
}

fn complete(pool: &Pool) {
    let begun = Instant::now();
    loop {
        let status = pool.treatment_status();
        let status = status.iter().find(|status| status.kind == KIND);
        match status.map(|status| status.state) {
            Some(TreatmentState::Complete) => break,
            state => assert!(begun.elapsed() < Duration::from_secs(120), "{state:?}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn create(world: &Disks) -> (Pool, Guid) {
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: AllocationClass::Normal,
        leaves: world.leaves(),
    };
    let request = common::Bench::new("tank").request(vec![vdev]);
    let pool = cenote_pool::create(
        request,
        &common::options(),
        std::sync::Arc::new(RealEnv::new()),
    );
    let pool = pool.expect("created");
    let leaf = pool.vdev_tree().leaves().next().expect("it has one").guid;
    (pool, leaf)
}

/// `zpool initialize -z`; without it the setting's word comes back.
#[test]
fn free_space_is_filled_with_a_word_or_zeros() {
    let world = common::disks(1, 64 << 20);
    let (pool, leaf) = create(&world);
    let pattern = 0xdead_beef_dead_beee_u64.to_le_bytes();
    for (zeros, word) in [(false, pattern), (true, [0; 8]), (false, pattern)] {
        treat(&pool, leaf, TreatmentCommand::Start { rate: 0, zeros });
        complete(&pool);
        let device = &world.leaves()[0].device;
        let found = device.read_vec(48 << 20, 4096).expect("in range");
        assert!(found.chunks(8).all(|chunk| chunk == word), "{zeros}");
        treat(&pool, leaf, TreatmentCommand::Reset);
    }
    pool.close().expect("written");
}

/// Of two concurrent commands each stopped the other's thread and began its own, or neither did: a
/// treatment was reported as active without a thread.
#[test]
fn a_treatment_that_is_active_comes_to_its_end() {
    let world = common::disks(1, 64 << 20);
    let (pool, leaf) = create(&world);
    for _ in 0..8 {
        std::thread::scope(|scope| {
            for first in [START, TreatmentCommand::Suspend, START] {
                let pool = &pool;
                scope.spawn(move || {
                    for command in [first, TreatmentCommand::Suspend, START] {
                        treat(pool, leaf, command);
                    }
                });
            }
        });
        treat(&pool, leaf, START);
        complete(&pool);
        treat(&pool, leaf, TreatmentCommand::Reset);
    }
    pool.close().expect("written");
}
