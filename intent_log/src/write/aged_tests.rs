//! Small changes whose group is late.

use super::*;

fn lists(writer: &LogWriter, pool: &Pool, operations: &[Operation]) {
    for operation in operations {
        append(writer, pool, *operation);
    }
}

/// A program that never calls `fsync` wrote small files while another filled the transaction group.
/// They were lost with that group, seconds after they had been written.
#[test]
fn small_changes_are_in_the_log_without_a_commit() {
    let (pool, writer) = started();
    let before = writer.figures();
    let (small, stream) = (ObjectId(20), ObjectId(21));
    lists(&writer, &pool, &[(2, None), (3, Some(small))]);
    let txg = pool.begin().txg();
    writer.append_write(txg, stream, 0, 2 << 20);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert_eq!(found_now(&pool), [2, 3], "a stream goes with its group");
    assert_eq!(writer.commit_aged(), Aged::Nothing);
    let after = writer.figures();
    assert_eq!(after.blocks, before.blocks + 1);
    assert_eq!(after.commits, before.commits, "no caller asked for one");
    // What is there already is not written again.
    append(&writer, &pool, (4, Some(small)));
    assert_eq!(commit(&writer, Commit::Object(small)), Committed::Log);
    assert_eq!(found_now(&pool), [2, 3, 4]);
    // With sync=disabled nothing goes there.
    append(&writer, &pool, (5, None));
    writer.set_aging(false);
    assert_eq!(writer.commit_aged(), Aged::Nothing);
    writer.set_aging(true);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert_eq!(found_now(&pool), [2, 3, 4, 5]);
    writer.end().expect("the pool is well");
    append(&writer, &pool, (6, None));
    assert_eq!(writer.commit_aged(), Aged::Nothing);
}

/// Each call has a limit. Names come in their order; objects take turns.
#[test]
fn what_does_not_fit_has_its_turn_later() {
    let (pool, writer) = started();
    let txg = pool.begin().txg();
    let objects: Vec<ObjectId> = (20..26).map(ObjectId).collect();
    for object in &objects {
        writer.append_write(txg, *object, 0, 900 << 10);
    }
    assert_eq!(writer.commit_aged(), Aged::Committed);
    let left = |writer: &LogWriter| {
        let state = writer.lock();
        let is_left = |object: &&ObjectId| state.lists.has(**object);
        let left = objects.iter().filter(is_left);
        left.copied().collect::<Vec<_>>()
    };
    assert_eq!(left(&writer), [ObjectId(24), ObjectId(25)]);
    writer.append_write(txg, ObjectId(20), 1 << 20, 900 << 10);
    writer.append_write(txg, ObjectId(21), 1 << 20, 900 << 10);
    writer.append_write(txg, ObjectId(22), 1 << 20, 900 << 10);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert_eq!(left(&writer), [ObjectId(22)]);
    // An object whose name is not in the log yet has to wait for that.
    writer.append_write(txg, ObjectId(30), 0, 1 << 20);
    writer.put_in_order(ObjectId(30));
    for number in 0..5 {
        writer.append_write(txg, ObjectId(31), number << 20, 1 << 20);
    }
    writer.put_in_order(ObjectId(31));
    lists(&writer, &pool, &[(9, None)]);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert_eq!(left(&writer), [ObjectId(22)]);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert!(left(&writer).is_empty());
}

/// What the log cannot take waits for its group, which is asked for. It was waited for once: the
/// thread that looked after all logs hung while the pool had lost its devices.
#[test]
fn a_log_that_cannot_take_it_asks_for_a_group() {
    let pool = Pool::new(1);
    let writer = writer_on(&pool, None);
    append(&writer, &pool, (1, None));
    assert_eq!(writer.commit_aged(), Aged::NeedsGroup, "there is no chain");
    assert_eq!(writer.commit_aged(), Aged::NeedsGroup, "it is being begun");
    pool.sync();
    append(&writer, &pool, (2, None));
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert_eq!(found_now(&pool), [2]);
    append(&writer, &pool, (3, None));
    writer.append_unlogged(pool.begin().txg());
    assert_eq!(writer.commit_aged(), Aged::NeedsGroup, "there is a hole");
    pool.sync();
    assert_eq!(writer.commit_aged(), Aged::Nothing);
    // A device fails.
    append(&writer, &pool, (4, None));
    pool.state.lock().failures = 100;
    assert_eq!(writer.commit_aged(), Aged::NeedsGroup);
    pool.state.lock().failures = 0;
    append(&writer, &pool, (5, None));
    assert_eq!(writer.commit_aged(), Aged::NeedsGroup);
    assert_eq!(writer.figures().failures, 1);
    commit_with_groups(&pool, &writer);
}

/// Files that are being changed all the time, but for one.
#[derive(Debug)]
struct Busy;

impl LogData for Busy {
    fn read(&self, _: ObjectId, _: u64, _: u64) -> Result<Option<Vec<u8>>, DmuError> {
        panic!("the file's writer may wait for a group, and all commits would wait here")
    }

    fn read_if_free(&self, object: ObjectId, _: u64, length: u64) -> Option<Vec<u8>> {
        let length = usize::try_from(length).expect("short");
        (object == ObjectId(20)).then(|| vec![7; length])
    }
}

/// A busy writer holds its file while it waits for room. What was late was read within the stage
/// that all commits share, so `fsync` of other files waited with that writer.
#[test]
fn nothing_waits_for_whoever_has_a_file() {
    let pool = Pool::new(1);
    let writer = writer_with(&pool, None, Arc::new(Busy));
    start(&pool, &writer);
    let txg = pool.begin().txg();
    let blocks = writer.figures().blocks;
    writer.append_write(txg, ObjectId(21), 0, 50_000);
    assert_eq!(writer.commit_aged(), Aged::Nothing);
    writer.append_write(txg, ObjectId(20), 0, 50_000);
    writer.append_write(txg, ObjectId(22), 0, 50_000);
    assert_eq!(writer.commit_aged(), Aged::Committed);
    assert!(writer.figures().blocks > blocks);
    let has = |object| writer.lock().lists.has(ObjectId(object));
    assert_eq!([20, 21, 22].map(has), [false, true, true]);
    // Nothing overtakes what has to come before it.
    writer.put_in_order(ObjectId(21));
    append(&writer, &pool, (2, None));
    append(&writer, &pool, (3, Some(ObjectId(20))));
    assert_eq!(writer.commit_aged(), Aged::Nothing);
    assert!(has(20));
}

/// What was written after the data was read is not taken for it.
#[test]
fn data_that_was_read_is_of_one_write_only() {
    let (pool, writer) = started();
    let (txg, object) = (pool.begin().txg(), ObjectId(20));
    writer.append_write(txg, object, 0, 50_000);
    let read = writer.read_aged();
    assert_eq!(read.len(), 1);
    writer.append_write(txg, object, 0, 50_000);
    let mut state = writer.lock();
    assert!(matches!(
        state.look_for_aged(read),
        super::super::aged::Look::Done(Aged::Nothing)
    ));
    assert!(state.lists.has(object));
}
