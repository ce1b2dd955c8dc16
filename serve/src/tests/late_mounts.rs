//! Mounts that are being made while their pool leaves.

use super::pools::{ask, change, pool_of};
use cenote_base::ObjectId;
use cenote_base::RealEnv;
use cenote_control::model::{
    Change, ControlError, ExportHow, ImportOptions, ImportPick, MountOptions, Request, Response,
    Search, SnapshotChange,
};
use cenote_engine::{
    Engine, EngineSettings, MountFigures, MountJob, MountSwitches, Mounted, Mounter,
};
use cenote_posix::FileSystem;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Where mounts wait until the test lets them be made.
#[derive(Default)]
struct Gate {
    /// How many came, and whether they may continue.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn set_open(&self, is_open: bool) {
        self.state.lock().expect("no panic").1 = is_open;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.0 += 1;
        self.changed.notify_all();
        drop(
            self.changed
                .wait_while(state, |state| !state.1)
                .expect("no panic"),
        );
    }

    fn wait_for(&self, count: usize) {
        let state = self.state.lock().expect("no panic");
        drop(
            self.changed
                .wait_while(state, |state| state.0 < count)
                .expect("no panic"),
        );
    }
}

/// Makes mounts that are only noted.
#[derive(Clone, Default)]
struct Noter {
    gate: Arc<Gate>,
    made: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Noter {
    /// How many mounts there are.
    fn there(&self) -> usize {
        let made = self.made.lock().expect("no panic");
        made.iter().filter(|one| one.load(Ordering::SeqCst)).count()
    }
}

struct Noted {
    place: PathBuf,
    is_there: Arc<AtomicBool>,
    _files: Arc<FileSystem>,
}

impl Mounter for Noter {
    fn mount(&self, job: MountJob) -> Result<Box<dyn Mounted>, ControlError> {
        self.gate.pass();
        let is_there = Arc::new(AtomicBool::new(true));
        self.made
            .lock()
            .expect("no panic")
            .push(Arc::clone(&is_there));
        Ok(Box::new(Noted {
            place: job.mount_point,
            is_there,
            _files: job.files,
        }))
    }
}

impl Mounted for Noted {
    fn mount_point(&self) -> &Path {
        &self.place
    }

    fn is_there(&self) -> bool {
        self.is_there.load(Ordering::SeqCst)
    }

    fn is_in_tree(&self) -> bool {
        self.is_there()
    }

    fn change(&self, _: &MountSwitches) -> Result<bool, ControlError> {
        Ok(false)
    }

    fn forget_snapshots(&self) {}

    fn can_exchange(&self) -> bool {
        false
    }

    fn hold_back(&self) -> bool {
        false
    }

    fn take_up(&self, _: Arc<FileSystem>, _: &[ObjectId], _: &[ObjectId]) {}

    fn go_on(&self) {}

    fn unmount(&self, _: bool) -> Result<(), ControlError> {
        self.is_there.store(false, Ordering::SeqCst);
        Ok(())
    }

    fn figures(&self) -> MountFigures {
        MountFigures::default()
    }

    fn end(&self) -> bool {
        self.is_there.store(false, Ordering::SeqCst);
        true
    }
}

fn mount(engine: &Engine, dataset: &str, at: &Path) -> Result<(), ControlError> {
    let request = Request::Mount {
        dataset: dataset.to_owned(),
        at: Some(at.to_string_lossy().into_owned()),
        options: MountOptions::default(),
    };
    ask(engine, request).map(drop)
}

fn export(engine: &Engine) -> Result<(), ControlError> {
    let how = ExportHow::default();
    let pool = "heads".to_owned();
    ask(engine, Request::Export { pool, how }).map(drop)
}

fn mounts(engine: &Engine) -> usize {
    match ask(engine, Request::MountList).expect("answered").0 {
        Response::Mounts { mounts } => mounts.len(),
        other => panic!("{other:?}"),
    }
}

/// Regression: a mount that came into the table after an export had emptied it stayed there, on a
/// pool that was gone; only `umount -l` ended it.
#[test]
fn a_mount_does_not_outlive_its_pool() {
    let directory = tempfile::tempdir().expect("a directory");
    let noter = Noter::default();
    let env = Arc::new(RealEnv::new());
    let mounter = Box::new(noter.clone());
    let engine = Engine::new(mounter, EngineSettings::default(), env);
    noter.gate.set_open(true);
    pool_of(&engine, directory.path());
    let (one, two) = (directory.path().join("1"), directory.path().join("2"));
    for place in [&one, &two] {
        std::fs::create_dir(place).expect("created");
    }
    let create = |name: &str| {
        let snapshots = SnapshotChange::Create {
            names: vec![name.to_owned()],
            recursive: false,
            properties: Vec::new(),
        };
        change(&engine, Change::Snapshots(snapshots));
    };
    create("heads/one@s");
    mount(&engine, "heads/one", &one).expect("mounted");
    assert_eq!((mounts(&engine), noter.there()), (1, 1));

    // An export waits for a mount that is quick, and unmounts it, too.
    noter.gate.set_open(false);
    std::thread::scope(|scope| {
        let mounting = scope.spawn(|| mount(&engine, "heads/one@s", &two));
        noter.gate.wait_for(2);
        let exporting = scope.spawn(|| export(&engine));
        std::thread::sleep(Duration::from_millis(100));
        noter.gate.set_open(true);
        exporting.join().expect("no panic").expect("exported");
        // It may have been refused, if the export was quicker after all.
        let _ = mounting.join().expect("no panic");
    });
    assert_eq!((mounts(&engine), noter.there()), (0, 0));

    import(&engine, directory.path());
    // An export does not wait for ever; a mount that is late is refused, and ended.
    noter.gate.set_open(false);
    std::thread::scope(|scope| {
        let mounting = scope.spawn(|| mount(&engine, "heads/one@s", &two));
        noter.gate.wait_for(3);
        let begun = Instant::now();
        export(&engine).expect("exported");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(!mounting.is_finished());
        noter.gate.set_open(true);
        let refused = mounting.join().expect("no panic");
        assert!(
            matches!(refused, Err(ControlError::NoSuchPool { .. })),
            "{refused:?}"
        );
    });
    assert_eq!((mounts(&engine), noter.there()), (0, 0));
}

fn import(engine: &Engine, directory: &Path) {
    let request = Request::Import {
        search: Search {
            paths: vec![directory.to_string_lossy().into_owned()],
            ..Search::default()
        },
        pick: ImportPick::All,
        options: ImportOptions {
            no_mount: true,
            ..ImportOptions::default()
        },
    };
    ask(engine, request).expect("imported");
}
