//! Accounts that are counted again.
//!
//! After a raw receive, datasets had no accounts, or outdated ones, for ever: quotas did not hold.
//! Here the flags are cleared as a raw receive does, and files change uncounted. Then all is
//! counted in several groups while files still change. In the end each account equals what a walk
//! finds.

use super::{World, check};
use cenote_base::ObjectId;
use cenote_dmu::TxCost;
use cenote_posix::write::{NewFile, SetAttributes};
use cenote_posix::{AccountKind, FileKind, FileSystem};
use std::collections::BTreeMap;
use std::sync::Arc;

const KINDS: [AccountKind; 3] = [AccountKind::User, AccountKind::Group, AccountKind::Project];

type Used = BTreeMap<u64, (u64, u64)>;

/// What each account has by its files: bytes, objects.
fn by_files(fs: &Arc<FileSystem>, kind: AccountKind) -> Used {
    let mut used = Used::new();
    for found in fs.walk(fs.root()).expect("begins") {
        let znode = found.expect("readable").znode;
        let attributes = znode.attributes();
        let id = match kind {
            AccountKind::User => attributes.uid.0,
            AccountKind::Group => attributes.gid.0,
            AccountKind::Project => attributes.project,
        };
        let dnode = fs.set().dnode(znode.id()).expect("readable");
        let account = used.entry(id).or_default();
        account.0 += dnode.expect("exists").used_bytes() + 512;
        account.1 += 1;
    }
    used
}

fn by_accounts(fs: &FileSystem, kind: AccountKind) -> Used {
    let accounts = fs.accounts(kind).expect("readable").into_iter();
    accounts
        .map(|account| (account.fuid.0, (account.used, account.objects_used)))
        .collect()
}

fn assert_right(fs: &Arc<FileSystem>) {
    for kind in KINDS {
        assert_eq!(by_accounts(fs, kind), by_files(fs, kind), "{kind:?}");
    }
    check(fs);
}

fn file(world: &World, number: u64) -> ObjectId {
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(number % 5, number % 3);
    let id = world.make(world.root(), &format!("f{number}"), &new);
    world.write(
        id,
        0,
        &vec![3; usize::try_from(number % 9000).expect("small")],
    );
    id
}

/// Takes accounts away, changes files, and counts again with files that change.
fn count_again(kept: u64, targets: u64) {
    let world = World::new();
    for number in 0..2500 {
        file(&world, number);
    }
    assert_right(&world.reopened());
    let set = &world.set;
    let begin = || world.gate.begin(TxCost::default()).expect("begins");
    set.set_flags(&begin(), kept).expect("writable");
    for number in 2500..2600 {
        file(&world, number);
    }
    for number in 0..50 {
        let name = format!("f{number}");
        world
            .fs
            .unlink(world.root(), name.as_bytes())
            .expect("goes");
    }
    drop(world.reopened());
    assert!(set.begin_recount(targets), "nothing else counts");
    assert!(!set.begin_recount(targets), "one at a time");
    let (mut after, mut number) = (ObjectId(0), 2600);
    let mut change = |groups: u64| {
        // Files that are counted already, and that are not yet.
        for offset in [100, 900, 1500, 2400] {
            let name = format!("f{}", offset + groups);
            let root = world.fs.znode(world.root()).expect("exists");
            let found = world.fs.lookup(&root, name.as_bytes()).expect("readable");
            let id = found.expect("made").object;
            world.write(id, 0, &[1; 15_000]);
            let set = SetAttributes {
                uid: Some(7),
                ..SetAttributes::default()
            };
            world.fs.set_attributes(id, &set).expect("changes");
            let name = format!("f{}", offset + groups + 20);
            world
                .fs
                .unlink(world.root(), name.as_bytes())
                .expect("goes");
        }
        number += 1;
        file(&world, number);
    };
    for groups in 0..20 {
        change(groups);
        let counted = set.recount_some(&begin(), after).expect("readable");
        change(groups + 40);
        drop(world.reopened());
        match counted {
            Some(last) => after = last,
            None => break,
        }
        assert!(groups < 10, "it ends");
    }
    assert!(set.counted_now() == targets);
    set.finish_recount(&begin()).expect("writable");
    change(70);
    let on_disk = world.reopened();
    assert_eq!(set.header().flags, kept | targets);
    assert_eq!(set.counted_now(), 0);
    assert_right(&on_disk);
    file(&world, 9000);
    assert_right(&world.reopened());
}

#[test]
fn all_accounts() {
    count_again(0, 7);
}

/// As after an upgrade of the pool.
#[test]
fn objects_and_projects_alone() {
    count_again(1, 6);
    count_again(3, 4);
    count_again(5, 2);
}
