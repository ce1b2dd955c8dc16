//! Operations that no commit can put into the log any more.

use super::*;

/// A renamed file was truncated and written again, and another file synced. The rename took the old
/// write along, whose bytes were read only then: after a crash the file had its old length, and
/// neither the old contents nor the new ones.
#[test]
fn what_a_rename_took_along_and_is_cut_off_waits_for_its_group() {
    let (pool, writer) = started();
    let (renamed, synced) = (ObjectId(20), ObjectId(21));
    let truncate = |txg| {
        let (object, offset, length) = (renamed, 0, 0);
        let body = RecordBody::Truncate {
            object,
            offset,
            length,
        };
        writer.append(&record(txg, record_type::TRUNCATE, body));
    };
    let txg = pool.begin().txg();
    writer.append_write(txg, renamed, 0, 100_000);
    writer.put_in_order(renamed);
    append(&writer, &pool, (3, None));
    truncate(txg);
    append(&writer, &pool, (4, Some(synced)));
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= txg);
    assert_eq!(writer.figures().blocks, 0);
    // What a commit has written is not read again.
    let txg = pool.begin().txg();
    writer.append_write(txg, renamed, 0, 100_000);
    writer.put_in_order(renamed);
    assert_eq!(commit(&writer, Commit::Object(synced)), Committed::Log);
    truncate(txg);
    assert_eq!(commit(&writer, Commit::All), Committed::Log);
}

/// A renamed file was partly overwritten, and another file synced. What was read for the write that
/// the rename took along had bytes of the second one, whose record was not in the log.
#[test]
fn what_a_rename_took_along_and_is_overwritten_waits_for_its_group() {
    let (pool, writer) = started();
    let (renamed, synced) = (ObjectId(20), ObjectId(21));
    let data = vec![1; 1000];
    let overwrite = |txg, offset| {
        let body = RecordBody::Write {
            object: renamed,
            offset,
            length: data.len() as u64,
            data: WriteData::Immediate(&data),
        };
        writer.append(&record(txg, record_type::WRITE, body));
    };
    let txg = pool.begin().txg();
    writer.append_write(txg, renamed, 0, 100_000);
    writer.put_in_order(renamed);
    append(&writer, &pool, (3, None));
    overwrite(txg, 99_999);
    append(&writer, &pool, (4, Some(synced)));
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= txg);
    assert_eq!(writer.figures().blocks, 0);
    // What is appended does not matter.
    let txg = pool.begin().txg();
    writer.append_write(txg, renamed, 0, 100_000);
    writer.put_in_order(renamed);
    overwrite(txg, 100_000);
    assert_eq!(commit(&writer, Commit::Object(synced)), Committed::Log);
}

/// Two groups may be open. One thread's operation of the first was too much to be kept, and
/// another's of the second was dropped with it: a commit of that found nothing to write once the
/// first group was on disk.
#[test]
fn what_is_dropped_for_want_of_room_waits_for_the_last_group_of_it() {
    let (pool, writer) = started();
    let first = pool.begin().txg();
    let second = Txg(first.0 + 1);
    let name = |number: &'static [u8]| RecordBody::Remove {
        directory: ObjectId(3),
        name: number,
    };
    writer.append(&record(second, record_type::REMOVE, name(b"late")));
    let data = vec![0; 32 << 10];
    for _ in 0..(64 << 20) / data.len() {
        let body = RecordBody::Write {
            object: ObjectId(20),
            offset: 0,
            length: data.len() as u64,
            data: WriteData::Immediate(&data),
        };
        writer.append(&record(first, record_type::WRITE, body));
    }
    commit_with_groups(&pool, &writer);
    assert!(pool.durable_txg() >= second);
}
