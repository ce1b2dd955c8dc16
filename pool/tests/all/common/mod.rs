//! Pools on files, and the referee that judges what was written to them.
#![allow(dead_code, reason = "each test file uses a part of it")]

use cenote_base::RealEnv;
use cenote_device::{Device, FileDevice, FileOptions, SystemOpener};
use cenote_dsl::Stored;
use cenote_dsl::write::{Encryption, SetProperties, Setting};
use cenote_pool::{
    Actor, CreateRequest, ImportOptions, NewLeaf, NewVdev, Pool, PoolCandidate, SyncError,
    VdevShape, assemble, default_features,
};
use cenote_sim::{Disks, Image, Random};
use cenote_tests::golden::Golden;
use cenote_tests::referee::{self, judge};
use cenote_vdev::{AllocationClass, scan};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// A directory with the devices of one pool.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub pool: &'static str,
    devices: usize,
    is_judged: Cell<bool>,
}

impl Bench {
    pub fn new(pool: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let devices = 0;
        let is_judged = Cell::new(false);
        Self {
            dir,
            pool,
            devices,
            is_judged,
        }
    }

    /// A new device of `mebibytes`.
    pub fn leaf(&mut self, mebibytes: u64) -> NewLeaf {
        self.devices += 1;
        let path = self
            .dir
            .path()
            .join(format!("{}-{:02}.img", self.pool, self.devices));
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(mebibytes << 20).expect("room");
        drop(file);
        let device = open(&path);
        NewLeaf {
            path,
            device,
            whole_disk: false,
        }
    }

    pub fn vdev(&mut self, shape: VdevShape, class: AllocationClass, count: usize) -> NewVdev {
        let leaves = (0..count).map(|_| self.leaf(128)).collect();
        NewVdev {
            shape,
            class,
            leaves,
        }
    }

    pub fn request(&self, vdevs: Vec<NewVdev>) -> CreateRequest {
        CreateRequest {
            name: self.pool.to_owned(),
            version: 5000,
            vdevs,
            spares: Vec::new(),
            cache_devices: Vec::new(),
            ashift: None,
            features: default_features(),
            properties: Vec::new(),
            comment: None,
            compatibility: None,
            root_properties: Vec::new(),
            encryption: Encryption::Inherit,
            format: None,
            actor: Actor {
                user: 0,
                host: "test".to_owned(),
            },
            command: Some(format!("zpool create {}", self.pool)),
        }
    }

    pub fn create(&self, vdevs: Vec<NewVdev>) -> Pool {
        let request = self.request(vdevs);
        cenote_pool::create(request, &options(), Arc::new(RealEnv::new())).expect("created")
    }

    /// What OpenZFS says of the pool, which must be closed. Skipped with a notice where it is
    /// not installed.
    pub fn check(&self) {
        self.is_judged.set(true);
        judge(self.dir.path(), self.pool);
    }
}

/// What a test leaves in files is judged, whether it asked for that or not.
impl Drop for Bench {
    fn drop(&mut self) {
        if self.devices > 0 && !self.is_judged.get() && !std::thread::panicking() {
            judge(self.dir.path(), self.pool);
        }
    }
}

pub fn options() -> ImportOptions {
    ImportOptions {
        read_only: false,
        hostid: 0x1234,
        ..ImportOptions::default()
    }
}

pub fn open(path: &Path) -> Arc<dyn Device> {
    let options = FileOptions {
        writable: true,
        ..FileOptions::default()
    };
    Arc::new(FileDevice::open(path, options).expect("opens"))
}

/// Empty disks in memory.
pub fn disks(count: usize, size: usize) -> Arc<Disks> {
    Arc::new(Disks::new(count, size, Random::new(0)))
}

/// Disks in memory with these contents.
pub fn disks_of(images: impl IntoIterator<Item = Vec<u8>>) -> Arc<Disks> {
    let images = images.into_iter().map(|bytes| Image::of(&bytes));
    Arc::new(Disks::of(images.collect(), Random::new(0)))
}

/// The pools whose devices are in `dir`.
pub fn candidates(dir: &Path) -> Vec<PoolCandidate> {
    let found = scan(&[dir.to_owned()], &SystemOpener::default());
    assemble(found)
}

/// Changes a little of the pool's metadata, in a group of its own.
pub fn change(pool: &Pool, round: u64) -> Result<(), SyncError> {
    let value = format!("{round:0>300}");
    let setting = Setting {
        name: format!("cenote:{}", round % 3),
        value: Some(Stored::Text(value)),
    };
    let task = SetProperties {
        name: pool.dsl().pool_name().clone(),
        settings: vec![setting],
    };
    pool.run_task(task).map(|_| ())
}

/// What [`change`] stored under this number.
pub fn value_of(dataset: &cenote_dsl::Dataset, number: u64) -> Option<u64> {
    let properties = dataset.directory().properties().expect("readable");
    match properties.get(&format!("cenote:{number}"))? {
        Stored::Text(text) => text.parse().ok(),
        Stored::Number(_) => None,
    }
}

/// Runs OpenZFS on the pool whose devices are in `dir`; `false`, with a notice, if it is not
/// installed.
pub fn openzfs(dir: &Path, pool: &str, command: &str, arguments: &[&str]) -> bool {
    let place = dir.to_str().expect("a path in UTF-8");
    let words = [&[command, place, pool], arguments].concat();
    let answer = referee::run(&words).expect("the referee runs");
    answer.map(|said| said.expect("it can be done")).is_some()
}

/// A golden pool and a directory with copies of its devices; `None` where it is not here.
pub fn golden(kind: &str) -> Option<(tempfile::TempDir, Golden)> {
    let golden = Golden::find(kind).expect("readable")?;
    let dir = tempfile::tempdir().expect("a temporary directory");
    golden.copy_to(dir.path()).expect("room");
    Some((dir, golden))
}
