//! Pools whose metadata is wrong and whose checksums are right: reading them always ends and never
//! panics.

use crate::common;
use cenote_base::{RealEnv, Txg};
use cenote_dsl::{DatasetName, Dsl};
use cenote_ondisk::Uberblock;
use cenote_posix::write::WriteSettings;
use cenote_posix::{
    AccountKind, FileKind, FileSystem, PosixError, ReplayOptions, SeekTarget, Timestamp, Znode,
};
use cenote_tests::golden::Golden;
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::random::Random;
use cenote_volume::Volume;
use std::sync::Arc;

/// Objects met on a walk of a golden pool; a mutant that shows many more never ends.
const WALK_MAX: usize = 100_000;

/// Mutants of each pool; `CENOTE_MUTANTS` sets another number.
fn mutants() -> u64 {
    let wanted = std::env::var("CENOTE_MUTANTS").ok();
    wanted.and_then(|count| count.parse().ok()).unwrap_or(60)
}

/// Asks everything about one file; counts errors.
fn read_file(files: &Arc<FileSystem>, znode: &Znode, errors: &mut u64) {
    let mut note = |failed: bool| *errors += u64::from(failed);
    files.stat(znode);
    note(files.acl_text(znode).is_err());
    match files.xattr_names(znode) {
        Err(_) => note(true),
        Ok(names) => {
            for name in names {
                note(files.xattr(znode, &name).is_err());
            }
        }
    }
    match znode.kind() {
        FileKind::Regular => {
            for offset in [0, 1 << 20, znode.attributes().size.saturating_sub(10)] {
                note(files.read_segments(znode, offset, 1 << 20).is_err());
            }
            for target in [SeekTarget::Data, SeekTarget::Hole] {
                let failed = files.seek(znode, 0, target);
                note(matches!(failed, Err(ref error) if error.is_damage()));
            }
        }
        FileKind::Symlink => note(files.read_link(znode).is_err()),
        _ => note(matches!(files.path_of(znode.id()), Err(ref error) if error.is_damage())),
    }
}

fn read_files(files: &Arc<FileSystem>, errors: &mut u64) {
    let mut met = 0;
    match files.walk(files.root()) {
        Err(_) => *errors += 1,
        Ok(walk) => {
            for found in walk {
                match found {
                    Ok(found) => read_file(files, &found.znode, errors),
                    Err(_) => *errors += 1,
                }
                met += 1;
                assert!(met < WALK_MAX, "the walk ends");
            }
        }
    }
    for kind in AccountKind::ALL {
        *errors += u64::from(files.accounts(kind).is_err());
    }
    *errors += u64::from(files.delete_queue().is_err());
}

fn read_dataset(dsl: &Arc<Dsl>, name: &str, uberblock: &Uberblock, errors: &mut u64) {
    let name = DatasetName::parse(name).expect("from a manifest");
    let Ok(set) = dsl.dataset(&name).and_then(|dataset| dataset.object_set()) else {
        *errors += 1;
        return;
    };
    let options = ReplayOptions {
        last_synced: uberblock.txg,
        synced_at: Timestamp::default(),
        settings: WriteSettings::default(),
        env: Arc::new(RealEnv::new()),
    };
    let env = Arc::clone(&options.env);
    match FileSystem::open_replayed(Arc::clone(&set), &options) {
        Ok((files, report)) => {
            *errors += u64::from(report.stopped.is_some());
            read_files(&Arc::new(files), errors);
        }
        Err(PosixError::NotFileSystem { .. }) => {
            match Volume::open_replayed(set, uberblock.txg, env) {
                Ok((volume, _)) => {
                    let mut buffer = vec![0; 1 << 20];
                    let length = volume.size().min(buffer.len() as u64) as usize;
                    *errors += u64::from(volume.read(0, &mut buffer[..length]).is_err());
                    *errors += u64::from(volume.next_data(0).is_err());
                }
                Err(_) => *errors += 1,
            }
        }
        Err(_) => *errors += 1,
    }
}

/// Reads everything in `count` mutants of a pool; how many showed errors.
fn check(kind: &str, seeds: std::ops::Range<u64>) -> u64 {
    let Some(golden) = Golden::find(kind).expect("readable") else {
        return 1;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let devices = Devices::open(golden.copy_to(directory.path()).expect("copies")).expect("opens");
    let structure = Structure::read(&devices)
        .expect("readable")
        .expect("a single disk");
    let mut noticed = 0;
    for seed in seeds {
        let mutant = structure.mutant(&mut Random::new(seed)).expect("is made");
        let undo = devices.apply(&mutant).expect("is written");
        let mut errors = 0;
        match common::open_devices(directory.path(), &golden.device_names()) {
            Err(_) => errors += 1,
            Ok((dsl, uberblock)) => {
                for name in golden
                    .manifest
                    .datasets
                    .keys()
                    .filter(|name| !name.contains('#'))
                {
                    read_dataset(&dsl, name, &uberblock, &mut errors);
                }
            }
        }
        noticed += u64::from(errors > 0);
        devices.restore(undo).expect("is taken back");
    }
    noticed
}

#[test]
fn mutants_of_files_do_no_harm() {
    assert!(
        check("quotas", 0..mutants()) > 0,
        "some mutants are noticed"
    );
}

#[test]
fn mutants_of_logs_do_no_harm() {
    assert!(
        check("dirty-zil", 0..mutants()) > 0,
        "some mutants are noticed"
    );
}

#[test]
fn differences_with_a_mutant_end() {
    let kind = "version28";
    let Some(golden) = Golden::find(kind).expect("readable") else {
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let devices = Devices::open(golden.copy_to(directory.path()).expect("copies")).expect("opens");
    let structure = Structure::read(&devices)
        .expect("readable")
        .expect("a single disk");
    for seed in 0..mutants() / 2 {
        let mutant = structure.mutant(&mut Random::new(seed)).expect("is made");
        let undo = devices.apply(&mutant).expect("is written");
        if let Ok((dsl, _)) = common::open_devices(directory.path(), &golden.device_names()) {
            let open = |name: &str| {
                let name = DatasetName::parse(name).expect("a name");
                let set = dsl.dataset(&name).ok()?.object_set().ok()?;
                FileSystem::open(set).ok().map(Arc::new)
            };
            if let (Some(from), Some(to)) =
                (open("gold_version28/data@one"), open("gold_version28/data"))
            {
                let count = FileSystem::diff(&from, &to, Txg(0)).take(WALK_MAX).count();
                assert!(count < WALK_MAX);
            }
        }
        devices.restore(undo).expect("is taken back");
    }
}
