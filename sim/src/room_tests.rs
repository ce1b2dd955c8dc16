//! Faults of room that were found by hand, each as its story.

use crate::disks::Disks;
use crate::machine::{self, Layout, POOL};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Random, World};
use cenote_dsl::write::{
    CreateDataset, CreateSnapshots, Encryption, RollbackDataset, SetProperties, Setting,
};
use cenote_dsl::{DatasetName, DslError, Stored};
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::{Pool, SyncError};
use cenote_posix::write::{NewFile, WriteOptions, WriteSettings};
use cenote_posix::{AccountKind, FileKind, FileSystem, Fuid, PosixError};
use cenote_volume::Volume;
use std::sync::Arc;

const DISK_SIZE: usize = 80 << 20;
const MIB: u64 = 1 << 20;
/// What a write takes, with what is behind its last block.
const PIECE: u64 = 256 << 10;

fn named(name: &str) -> DatasetName {
    DatasetName::parse(&format!("{POOL}/{name}")).expect("a name")
}

/// Runs in a simulated world, with a pool of one disk.
fn with_pool(work: impl FnOnce(&Pool)) {
    World::simulated(7).run(|| {
        let disks = Arc::new(Disks::new(1, DISK_SIZE, Random::new(7)));
        let pool = machine::create(&disks, &Layout::plain()).expect("creates");
        work(&pool);
        pool.close().expect("closes");
    });
}

fn make(pool: &Pool, name: &str, properties: &[(&str, u64)]) {
    let setting = |(name, value): &(&str, u64)| Setting {
        name: (*name).to_owned(),
        value: Some(Stored::Number(*value)),
    };
    let off = ("compression", 2);
    let task = CreateDataset {
        name: named(name),
        kind: ObjsetKind::Zfs,
        properties: properties.iter().chain([&off]).map(setting).collect(),
        encryption: Encryption::Inherit,
        format: Some(machine::empty_file_system()),
        created: None,
    };
    pool.run_task(task).expect("creates");
}

fn set(pool: &Pool, name: &str, property: &str, value: u64) -> Result<(), SyncError> {
    let settings = vec![Setting {
        name: property.to_owned(),
        value: Some(Stored::Number(value)),
    }];
    let name = named(name);
    pool.run_task(SetProperties { name, settings }).map(drop)
}

fn open(pool: &Pool, name: &str) -> Arc<FileSystem> {
    let name = format!("{POOL}/{name}");
    machine::files(pool, &name, WriteSettings::default()).expect("opens")
}

fn file(fs: &FileSystem, name: &str) -> ObjectId {
    let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 1000);
    let made = fs.create(fs.root(), name.as_bytes(), &new);
    made.expect("creates").id()
}

fn noise(seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(PIECE).expect("small")];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Writes up to `pieces` of a file; how many bytes were taken, and what ended that.
fn fill(fs: &FileSystem, id: ObjectId, pieces: u64) -> (u64, Option<PosixError>) {
    for piece in 0..pieces {
        let bytes = noise(piece + 1);
        if let Err(error) = fs.write(id, piece * PIECE, &bytes, WriteOptions::default()) {
            return (piece * PIECE, Some(error));
        }
    }
    (pieces * PIECE, None)
}

fn end(fs: &FileSystem) {
    let dataset = fs.dataset().expect("writable");
    dataset.end().expect("ends");
}

/// What all datasets had in flight was taken off what each had left: a quota with 15 of 20 MiB
/// left gave EDQUOT while another dataset was written.
#[test]
fn what_is_in_flight_elsewhere_takes_nothing_from_a_quota() {
    with_pool(|pool| {
        make(pool, "limited", &[("quota", 6 * MIB)]);
        make(pool, "other", &[]);
        let (limited, other) = (open(pool, "limited"), open(pool, "other"));
        let (first, second) = (file(&limited, "f"), file(&other, "f"));
        rt::scope(|scope| {
            let writer = scope.spawn(|| fill(&other, second, 64));
            let (written, error) = fill(&limited, first, 12);
            assert!(error.is_none(), "{error:?} after {written} of 6 MiB");
            writer.join().expect("no panic");
        });
        end(&limited);
        end(&other);
    });
}

/// A quota was known for 200 ms, and what a group that is being written had in flight did not
/// count: 20.2 MB could be written under a refquota of 10 MB. And of another the last 3 % could
/// not be used.
#[test]
fn a_refquota_can_be_used_up_and_not_exceeded() {
    with_pool(|pool| {
        for beside in [false, true] {
            let name = format!("f{beside}");
            make(pool, &name, &[]);
            let fs = open(pool, &name);
            let id = file(&fs, "f");
            make(pool, &format!("{name}/sub"), &[]);
            set(pool, &name, "refquota", 5 * MIB).expect("sets");
            let (written, error) = rt::scope(|scope| {
                let syncs = scope.spawn(|| {
                    (0..if beside { 20 } else { 0 }).for_each(|_| pool.sync().expect("syncs"));
                });
                let filled = fill(&fs, id, 60);
                syncs.join().expect("no panic");
                filled
            });
            assert!(
                matches!(error, Some(PosixError::QuotaExceeded)),
                "{error:?}"
            );
            assert!(
                (5 * MIB - PIECE..=5 * MIB).contains(&written),
                "{written} bytes"
            );
            end(&fs);
            let head = machine::dataset(pool, &format!("{POOL}/{name}")).expect("there");
            let referenced = head.phys().referenced_bytes;
            assert!(
                (5 * MIB..=5 * MIB + 2 * PIECE).contains(&referenced),
                "{referenced}"
            );
        }
    });
}

/// The same of the pool: what was in flight did not count for `available`.
#[test]
fn a_pool_can_be_used_up_and_not_exceeded() {
    with_pool(|pool| {
        make(pool, "f", &[]);
        let fs = open(pool, "f");
        let id = file(&fs, "f");
        let name = format!("{POOL}/f");
        let available = machine::dataset(pool, &name).expect("there").available();
        let available = available.expect("readable");
        let (written, error) = fill(&fs, id, 1000);
        assert!(matches!(error, Some(PosixError::NoSpace)), "{error:?}");
        assert!(written <= available + PIECE, "{written} of {available}");
        assert!(written >= available - 2 * MIB, "{written} of {available}");
        fs.unlink(fs.root(), b"f")
            .expect("files can be removed from a full pool");
        end(&fs);
    });
}

/// Several writers in a full pool overwrote files whose space was reserved. After four groups of
/// waiting one of them was refused.
#[test]
fn what_is_reserved_is_rewritten_by_many_in_a_full_pool() {
    with_pool(|pool| {
        make(pool, "f", &[("refreservation", 6 * MIB)]);
        make(pool, "fill", &[]);
        let (fs, other) = (open(pool, "f"), open(pool, "fill"));
        let files: Vec<_> = (0..5)
            .map(|number| file(&fs, &format!("{number}")))
            .collect();
        for id in &files {
            assert!(fill(&fs, *id, 4).1.is_none());
        }
        let full = file(&other, "f");
        assert!(fill(&other, full, 1000).1.is_some());
        for round in 0..3 {
            rt::scope(|scope| {
                let rewrite = |id: ObjectId| {
                    let fs = &fs;
                    move || fill(fs, id, 4)
                };
                let threads = files.iter().map(|id| scope.spawn(rewrite(*id)));
                let threads: Vec<_> = threads.collect();
                for thread in threads {
                    let (written, error) = thread.join().expect("no panic");
                    assert!(error.is_none(), "round {round}: {error:?} after {written}");
                }
            });
        }
        end(&fs);
        end(&other);
    });
}

/// The same of a volume, whose reservation is as large as the volume: all that it can hold is
/// reserved, whatever is in flight.
#[test]
fn a_reserved_volume_is_rewritten_by_many_in_a_full_pool() {
    const SIZE: u64 = 6 * MIB;
    with_pool(|pool| {
        let task = CreateDataset {
            name: named("v"),
            kind: ObjsetKind::Volume,
            properties: vec![Setting {
                name: "refreservation".to_owned(),
                value: Some(Stored::Number(SIZE + MIB / 4)),
            }],
            encryption: Encryption::Inherit,
            format: Some(Box::new(|set, tx| {
                cenote_volume::format_new(set, tx, SIZE, 16 << 10).map_err(DslError::from)
            })),
            created: None,
        };
        pool.run_task(task).expect("creates");
        make(pool, "fill", &[]);
        let volume: Volume = machine::volume(pool, &format!("{POOL}/v")).expect("opens");
        let other = open(pool, "fill");
        let full = file(&other, "f");
        assert!(fill(&other, full, 1000).1.is_some());
        for round in 0..3 {
            rt::scope(|scope| {
                let write = |part: u64| {
                    let volume = &volume;
                    move || {
                        (0..6_u64).try_for_each(|piece| {
                            let at = (part * 6 + piece) * PIECE;
                            volume.write(at, &noise(round * 100 + at))
                        })
                    }
                };
                let threads = (0..4).map(|part| scope.spawn(write(part)));
                let threads: Vec<_> = threads.collect();
                for thread in threads {
                    thread.join().expect("no panic").expect("it is reserved");
                }
            });
        }
        volume.dataset().expect("writable").end().expect("ends");
        end(&other);
    });
}

/// A snapshot larger than the refquota came back, and nothing was available then.
#[test]
fn a_snapshot_that_is_larger_than_the_refquota_does_not_come_back() {
    with_pool(|pool| {
        make(pool, "f", &[]);
        let fs = open(pool, "f");
        let id = file(&fs, "f");
        assert!(fill(&fs, id, 12).1.is_none());
        pool.sync().expect("syncs");
        let snapshot = named("f").snapshot(b"large").expect("a name");
        let names = vec![snapshot.clone()];
        let properties = Vec::new();
        pool.run_task(CreateSnapshots { names, properties })
            .expect("snapshots");
        fs.truncate(id, 0).expect("truncates");
        end(&fs);
        set(pool, "f", "refquota", MIB).expect("sets");
        let back = |snapshot: &DatasetName| {
            let snapshot = snapshot.clone();
            pool.run_task(RollbackDataset { snapshot })
        };
        let refused = back(&snapshot).expect_err("it is too large");
        let is_right = |error: &SyncError| error.to_string().contains("quota exceeded");
        assert!(is_right(&refused), "{refused}");
        set(pool, "f", "refquota", 4 * MIB).expect("sets");
        back(&snapshot).expect("it fits");
    });
}

/// Owners' limits were held against what is on disk: all that two groups took could be written
/// above them.
#[test]
fn what_is_in_flight_counts_for_its_owner() {
    with_pool(|pool| {
        make(pool, "f", &[]);
        let fs = open(pool, "f");
        let id = file(&fs, "f");
        fs.set_quota(AccountKind::User, 1000, 3 * MIB, false)
            .expect("sets");
        let (written, error) = fill(&fs, id, 60);
        assert!(
            matches!(error, Some(PosixError::QuotaExceeded)),
            "{error:?}"
        );
        assert!(
            (3 * MIB - PIECE..=3 * MIB).contains(&written),
            "{written} bytes"
        );
        pool.sync().expect("syncs");
        let account = fs.account(AccountKind::User, Fuid(1000)).expect("readable");
        assert!(account.used <= 3 * MIB + 2 * PIECE, "{account:?}");
        fs.truncate(id, 0).expect("truncates");
        assert!(
            fill(&fs, id, 4).1.is_none(),
            "what was given back can be used at once"
        );
        fs.set_quota(AccountKind::User, 1000, 3, true)
            .expect("sets");
        let new = NewFile::new(FileKind::Regular, 0o644).owned_by(1000, 1000);
        let made = (0..9).filter(|number| {
            let name = format!("n{number}");
            fs.create(fs.root(), name.as_bytes(), &new).is_ok()
        });
        assert_eq!(made.count(), 2, "beside the one that is there");
        end(&fs);
    });
}
