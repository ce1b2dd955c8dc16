//! Logs that end, and chains.

use super::*;

#[test]
fn a_chain_ends_and_another_begins() {
    let (pool, writer) = started();
    append(&writer, &pool, (2, None));
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    writer.end_chain().expect("the pool is well");
    pool.sync();
    pool.sync();
    assert!(pool.state.lock().allocated.is_empty());
    start(&pool, &writer);
    append(&writer, &pool, (3, None));
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
    assert_eq!(found_now(&pool), [3]);
    assert!(!writer.has_ended());
    writer.end().expect("the pool is well");
    pool.sync();
    assert!(writer.has_ended());
}

/// A log device was taken offline while a file system was unmounted. The one ended all chains, the
/// other the log; each of them changes the head, so that its header is written. The file system
/// was closed when the log had no block any more, but the other change was in a group that was
/// not on disk yet. That group found changes of a closed dataset, and suspended the pool.
#[test]
fn a_log_has_not_ended_while_its_head_has_changes() {
    let (pool, writer) = started();
    writer.end().expect("the pool is well");
    pool.sync();
    assert!(writer.has_ended());
    // A later removal of a device has nothing to end.
    writer.end_chain().expect("the pool is well");
    assert!(writer.has_ended(), "the head has changes again");
    // A second call to end it makes another change.
    writer.end().expect("the pool is well");
    assert!(!writer.has_ended(), "a change is not on disk");
    pool.sync();
    assert!(writer.has_ended());
}
