//! The ledger of room, in a pool of few bytes.

use super::*;

const ROOT: ObjectId = ObjectId(1);
const TOP: ObjectId = ObjectId(2);
const OTHER: ObjectId = ObjectId(3);
const HEAD: ObjectId = ObjectId(12);
const OTHER_HEAD: ObjectId = ObjectId(13);

fn directory(id: ObjectId, used: u64, limits: (u64, u64)) -> (ObjectId, DslDir) {
    let phys = DslDir {
        parent: (id != ROOT).then_some(ROOT),
        used_bytes: used,
        quota: limits.0,
        reservation: limits.1,
        ..DslDir::default()
    };
    (id, phys)
}

fn head(directory: ObjectId, bytes: u64) -> DslDataset {
    DslDataset {
        directory,
        unique_bytes: bytes,
        referenced_bytes: bytes,
        ..DslDataset::default()
    }
}

/// A pool of 1000 bytes whose groups up to 9 are on disk, with two datasets: the first has
/// these limits (`quota`, `reservation`; `refquota`, `refreservation`).
fn rooms(used: (u64, u64), limits: (u64, u64), own: (u64, u64)) -> Rooms {
    let rooms = Rooms::default();
    let pool = PoolRoom {
        usable: 1000,
        usable_later: 1000,
        physical: 1500,
        ..PoolRoom::default()
    };
    rooms.commit(Txg(9), Some(pool), &[]);
    let seen = used.0.max(own.1).max(limits.1);
    let root = directory(ROOT, seen + used.1, (0, 0));
    let open = |id, phys: &DslDataset, own: (u64, u64), chain: &[(ObjectId, DslDir)]| {
        let opened = OpenedHead {
            id,
            phys,
            refquota: own.0,
            refreservation: own.1,
            raised_quota: None,
        };
        assert!(rooms.open(&opened, chain, Txg(9), (Txg(9), Some(pool))));
    };
    let top = directory(TOP, used.0.max(own.1), limits);
    open(HEAD, &head(TOP, used.0), own, &[top, root.clone()]);
    let other = directory(OTHER, used.1, (0, 0));
    open(OTHER_HEAD, &head(OTHER, used.1), (0, 0), &[other, root]);
    rooms
}

fn ask(rooms: &Rooms, head: ObjectId, txg: u64, bytes: u64) -> Answer {
    let request = Request {
        bytes,
        ..Request::default()
    };
    rooms.reserve(head, Txg(txg), request, Txg(txg))
}

#[test]
fn only_what_is_in_flight_below_a_limit_counts_for_it() {
    let rooms = rooms((0, 0), (100, 0), (0, 0));
    assert_eq!(ask(&rooms, OTHER_HEAD, 10, 900), Answer::Fits);
    assert_eq!(ask(&rooms, HEAD, 10, 60), Answer::Fits);
    assert_eq!(
        ask(&rooms, HEAD, 10, 60),
        Answer::Fits,
        "one more than fits"
    );
    assert_eq!(ask(&rooms, HEAD, 10, 1), Answer::Wait);
    assert_eq!(ask(&rooms, OTHER_HEAD, 10, 1), Answer::Wait, "for the pool");
}

#[test]
fn figures_and_what_is_in_flight_change_together() {
    let rooms = rooms((0, 0), (100, 0), (0, 0));
    assert_eq!(ask(&rooms, HEAD, 10, 100), Answer::Fits);
    let (id, phys) = directory(TOP, 99, (100, 0));
    rooms.stage_directory(id, &phys);
    assert_eq!(
        ask(&rooms, HEAD, 11, 1),
        Answer::Wait,
        "nothing is in force yet"
    );
    rooms.commit(Txg(10), None, &[]);
    assert_eq!(ask(&rooms, HEAD, 11, 5), Answer::Fits);
    let (id, phys) = directory(TOP, 104, (100, 0));
    rooms.stage_directory(id, &phys);
    rooms.commit(Txg(11), None, &[]);
    assert_eq!(ask(&rooms, HEAD, 12, 1), Answer::Refused(Limit::Quota));
}

/// A request after a removal waits until the removal is on disk, and is not refused before.
/// Other changes after that do not make it wait forever.
#[test]
fn what_was_given_back_before_is_waited_for() {
    let rooms = rooms((100, 0), (100, 0), (0, 0));
    assert_eq!(ask(&rooms, HEAD, 10, 1), Answer::Refused(Limit::Quota));
    rooms.note(HEAD, Txg(10));
    let request = Request {
        bytes: 1,
        ..Request::default()
    };
    let again = |txg| rooms.reserve(HEAD, Txg(txg), request, Txg(10));
    assert_eq!(again(10), Answer::Wait);
    rooms.note(HEAD, Txg(11));
    rooms.commit(Txg(10), None, &[]);
    assert_eq!(again(11), Answer::Refused(Limit::Quota));
}

#[test]
fn what_is_reserved_has_room_in_a_full_pool() {
    let rooms = rooms((50, 900), (0, 0), (0, 100));
    assert_eq!(ask(&rooms, OTHER_HEAD, 10, 1), Answer::Refused(Limit::Pool));
    assert_eq!(ask(&rooms, HEAD, 10, 50), Answer::Fits);
    assert_eq!(
        ask(&rooms, HEAD, 10, 1),
        Answer::Wait,
        "it is used up by what is in flight"
    );
    rooms.set_most(HEAD, 100);
    assert_eq!(
        ask(&rooms, HEAD, 10, 500),
        Answer::Fits,
        "it never takes more"
    );
    assert_eq!(ask(&rooms, HEAD, 10, 1), Answer::Wait, "for the devices");
    rooms.commit(Txg(10), None, &[]);
    assert_eq!(ask(&rooms, HEAD, 11, 50), Answer::Fits);
}

#[test]
fn a_directory_has_what_is_reserved_for_it() {
    let rooms = rooms((50, 900), (0, 100), (0, 0));
    assert_eq!(ask(&rooms, HEAD, 10, 40), Answer::Fits);
    assert_eq!(ask(&rooms, HEAD, 10, 20), Answer::Fits, "10 are left");
    assert_eq!(ask(&rooms, HEAD, 10, 1), Answer::Wait);
}

#[test]
fn shared_blocks_count_for_quotas_alone() {
    let rooms = rooms((0, 990), (100, 0), (0, 0));
    let request = Request {
        bytes: 100,
        is_shared: true,
        is_whole: false,
    };
    assert_eq!(rooms.reserve(HEAD, Txg(10), request, Txg(10)), Answer::Fits);
    assert_eq!(rooms.reserve(HEAD, Txg(10), request, Txg(10)), Answer::Wait);
    assert_eq!(ask(&rooms, OTHER_HEAD, 10, 9), Answer::Fits);
}

#[test]
fn a_refquota_counts_what_is_referred_to() {
    let rooms = rooms((40, 0), (0, 0), (100, 0));
    assert_eq!(ask(&rooms, HEAD, 10, 60), Answer::Fits);
    assert_eq!(ask(&rooms, HEAD, 11, 1), Answer::Wait);
    rooms.stage_dataset(HEAD, &head(TOP, 100));
    rooms.commit(Txg(10), None, &[]);
    assert_eq!(ask(&rooms, HEAD, 11, 1), Answer::Refused(Limit::Quota));
    rooms.stage_limits(HEAD, (0, 0));
    rooms.commit(Txg(11), None, &[]);
    assert_eq!(ask(&rooms, HEAD, 12, 1), Answer::Fits);
}

/// A request that has to fit as a whole takes nothing.
#[test]
fn a_question_takes_nothing() {
    let rooms = rooms((0, 0), (100, 0), (0, 0));
    let whole = |bytes| Request {
        bytes,
        is_whole: true,
        ..Request::default()
    };
    assert_eq!(rooms.ask(HEAD, whole(100), Txg(10)), Answer::Fits);
    let refused = Answer::Refused(Limit::Quota);
    assert_eq!(rooms.ask(HEAD, whole(101), Txg(10)), refused);
    assert_eq!(ask(&rooms, HEAD, 10, 100), Answer::Fits);
}

#[test]
#[should_panic(expected = "is in flight")]
fn room_in_flight_is_not_forgotten() {
    let rooms = rooms((0, 0), (0, 0), (0, 0));
    ask(&rooms, HEAD, 10, 60);
    ask(&rooms, HEAD, 11, 60);
    // Group 10 is not on disk, so no transaction can be in group 12 yet.
    ask(&rooms, HEAD, 12, 60);
}

#[test]
#[should_panic(expected = "and all together")]
fn what_a_head_has_in_flight_is_counted_for_all() {
    let rooms = rooms((0, 0), (0, 0), (0, 0));
    ask(&rooms, HEAD, 11, 60);
    rooms.lock().in_flight[1].own -= 1;
    rooms.commit(Txg(10), None, &[]);
}

#[test]
fn directories_without_heads_are_forgotten() {
    let rooms = rooms((0, 0), (100, 0), (0, 0));
    rooms.close(HEAD);
    rooms.commit(Txg(10), None, &[]);
    assert_eq!(rooms.lock().directories.len(), 2);
    rooms.close(OTHER_HEAD);
    rooms.commit(Txg(11), None, &[]);
    assert!(rooms.lock().directories.is_empty() && rooms.is_unused());
}
