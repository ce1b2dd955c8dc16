//! Heads are opened between tasks that change the tree, never in the middle of one.

use crate::common::{self, Bench};
use cenote_dsl::DslError;
use cenote_pool::{NewVdev, VdevShape};
use cenote_vdev::AllocationClass::Normal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A rollback checks whether its head is in use, and relies on the result to its end. A head opened
/// a moment later had its old blocks, which were freed twice: the pool was suspended.
#[test]
fn none_is_opened_in_the_middle_of_a_task() {
    let disks = common::disks(1, 64 << 20);
    let bench = Bench::new("heads");
    let vdev = NewVdev {
        shape: VdevShape::Single,
        class: Normal,
        leaves: disks.leaves(),
    };
    let pool = bench.create(vec![vdev]);
    let root = pool.dsl().root().expect("read").head().expect("read");
    let dataset = root.expect("the root directory has a dataset");
    let gate = pool.gate().expect("open for writing");
    let (is_over, id) = (AtomicBool::new(false), dataset.id());
    std::thread::scope(|scope| {
        let task = pool.dsl().begin_change();
        let opening = scope.spawn(|| {
            let opened = pool.dsl().open_for_writing(&dataset, gate);
            (opened.map(|_| ()), is_over.load(Ordering::Acquire))
        });
        // Long enough to fail if opening does not wait.
        std::thread::sleep(Duration::from_millis(100));
        assert!(pool.dsl().open_head(id).is_none());
        is_over.store(true, Ordering::Release);
        drop(task);
        let (opened, was_over) = opening.join().expect("no panic");
        opened.expect("there is nothing against it now");
        assert!(was_over, "it was opened before the task was over");
    });
    pool.dsl().close_head(id);
    let kept = pool.dsl().keep_head(&dataset).expect("it is closed");
    let refused = pool.dsl().open_for_writing(&dataset, gate);
    assert!(matches!(refused, Err(DslError::Busy { .. })), "{refused:?}");
    drop(kept);
}
