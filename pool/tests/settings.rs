//! Settings that bind a pool that is written to, on a device that takes its time.
//!
//! Settings hold for the whole process, so this file has one test that goes over all of them.

mod common;

use cenote_base::settings::{self, Setting};
use cenote_base::{BlockId, RealEnv};
use cenote_device::{Device, DeviceError, MemoryDevice, Nature};
use cenote_dmu::{NewObject, Object, Owner, OwnerHook, TxCost};
use cenote_dsl::write::Head;
use cenote_ondisk::ObjectType;
use cenote_pool::verify::{self, VerifyOptions, VerifyProgress, Watcher};
use cenote_pool::{NewLeaf, NewVdev, Pool, VdevShape};
use cenote_vdev::AllocationClass::Normal;
use common::Bench;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const BLOCK: u64 = 128 << 10;

/// A disk in memory that takes or gives so many bytes in a second, whoever asks.
#[derive(Debug)]
struct SlowDisk {
    memory: MemoryDevice,
    bytes_per_second: AtomicU64,
    free_at: Mutex<Option<Instant>>,
    active: AtomicU32,
    most_active: AtomicU32,
}

impl SlowDisk {
    fn new(mebibytes: usize) -> Self {
        Self {
            memory: MemoryDevice::new("slow", vec![0; mebibytes << 20]),
            bytes_per_second: AtomicU64::new(u64::MAX),
            free_at: Mutex::default(),
            active: AtomicU32::new(0),
            most_active: AtomicU32::new(0),
        }
    }

    fn busy<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let active = self.active.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_active.fetch_max(active, Ordering::SeqCst);
        let rate = self.bytes_per_second.load(Ordering::Relaxed);
        if rate != u64::MAX {
            let takes = Duration::from_nanos(bytes as u64 * 1_000_000_000 / rate);
            let mut free_at = self.free_at.lock().expect("sound");
            let now = Instant::now();
            let done = free_at.map_or(now, |at| at.max(now)) + takes;
            *free_at = Some(done);
            drop(free_at);
            std::thread::sleep(done.saturating_duration_since(now));
        }
        let result = work();
        self.active.fetch_sub(1, Ordering::SeqCst);
        result
    }
}

impl Device for SlowDisk {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.busy(buffer.len(), || self.memory.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        self.busy(new.len(), || self.memory.write_at(offset, new))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.memory.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        self.memory.discard(offset, length)
    }

    fn nature(&self) -> Nature {
        Nature {
            logical_block_size: 512,
            ..self.memory.nature()
        }
    }

    fn path(&self) -> &Path {
        self.memory.path()
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// Objects here belong to nobody.
#[derive(Debug)]
struct Nobody;

impl OwnerHook for Nobody {
    fn owner(&self, _: ObjectType, _: &[u8], _: Option<&[u8]>) -> Option<Owner> {
        None
    }
}

struct Site {
    pool: Pool,
    head: Arc<Head>,
    object: Object,
    disk: Arc<SlowDisk>,
}

impl Site {
    fn new() -> Self {
        let bench = Bench::new("settings");
        let disk = Arc::new(SlowDisk::new(1024));
        let leaf = NewLeaf {
            path: disk.path().to_owned(),
            device: Arc::clone(&disk) as _,
            whole_disk: false,
        };
        let vdev = NewVdev {
            shape: VdevShape::Single,
            class: Normal,
            leaves: vec![leaf],
        };
        let request = bench.request(vec![vdev]);
        let env = Arc::new(RealEnv::new());
        let pool = cenote_pool::create(request, &common::options(), env).expect("created");
        let root = pool.dsl().root().expect("read").head().expect("read");
        let dataset = root.expect("the root directory has a dataset");
        let gate = pool.gate().expect("open for writing");
        let head = pool.dsl().open_for_writing(&dataset, gate).expect("a head");
        head.set().set_owner_hook(Arc::new(Nobody));
        let tx = gate.begin(TxCost::default()).expect("not suspended");
        let new = NewObject::new(ObjectType::PLAIN_FILE, BLOCK);
        let object = head.set().allocate(&tx, new).expect("there is room");
        drop(tx);
        pool.sync().expect("on disk");
        Self {
            pool,
            head,
            object,
            disk,
        }
    }

    /// Writes a block that does not compress; returns how long that took.
    fn write(&self, block: u64) -> Duration {
        let mut data = vec![0; BLOCK as usize];
        let mut state = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for word in data.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let started = Instant::now();
        let gate = self.pool.gate().expect("open for writing");
        let cost = TxCost { dirty_bytes: BLOCK };
        let tx = gate.begin(cost).expect("not suspended");
        let object = &self.object;
        object.write(&tx, block * BLOCK, &data).expect("written");
        drop(tx);
        started.elapsed()
    }

    fn most_active(&self, work: impl FnOnce()) -> u32 {
        self.disk.most_active.store(0, Ordering::SeqCst);
        work();
        self.disk.most_active.load(Ordering::SeqCst)
    }

    fn set_rate(&self, bytes_per_second: u64) {
        let rate = &self.disk.bytes_per_second;
        rate.store(bytes_per_second, Ordering::Relaxed);
    }
}

fn set(setting: &Setting, value: u64) {
    setting.set(value).expect("in range");
}

#[test]
fn settings_bind_a_pool_in_use() {
    let site = Site::new();
    groups_follow_the_timeout(&site);
    queues_follow_the_limits(&site);
    reads_have_the_class_of_their_purpose(&site);
    slow_requests_are_counted(&site);
    writers_slow_down_evenly(&site);
    site.set_rate(u64::MAX);
    site.pool.export().expect("written");
    drop(site.head);
}

/// Waits until the group that is open now is on disk; `false` after `patience`.
fn is_synced_within(pool: &Pool, patience: Duration) -> bool {
    let gate = pool.gate().expect("open for writing");
    let (txg, started) = (gate.open_txg(), Instant::now());
    while pool.synced_txg() < txg {
        if started.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

fn groups_follow_the_timeout(site: &Site) {
    set(&settings::TXG_TIMEOUT, 3600);
    // The thread may be in its wait of before, and settle what was made.
    while is_synced_within(&site.pool, Duration::from_secs(6)) {}
    site.write(0);
    assert!(
        !is_synced_within(&site.pool, Duration::from_secs(7)),
        "not within the usual five"
    );
    set(&settings::TXG_TIMEOUT, 1);
    assert!(is_synced_within(&site.pool, Duration::from_secs(4)));
    settings::TXG_TIMEOUT.reset();
}

fn queues_follow_the_limits(site: &Site) {
    site.set_rate(400 << 20);
    let write_all = || {
        for block in 0..400 {
            site.write(block);
        }
        site.pool.sync().expect("on disk");
    };
    set(&settings::ASYNC_WRITE_MIN_ACTIVE, 1);
    set(&settings::ASYNC_WRITE_MAX_ACTIVE, 1);
    assert_eq!(site.most_active(write_all), 1);
    set(&settings::ASYNC_WRITE_MAX_ACTIVE, 6);
    let most = site.most_active(write_all);
    assert!((2..=6).contains(&most), "{most} writes at once");
    settings::ASYNC_WRITE_MIN_ACTIVE.reset();
    settings::ASYNC_WRITE_MAX_ACTIVE.reset();
    set(&settings::SYNC_READ_MAX_ACTIVE, 2);
    set(&settings::PREFETCH_DISABLE, 1);
    let caches = site.pool.cache();
    let limits = caches.limits();
    let none = cenote_cache::CacheLimits {
        stored: 0,
        decoded: 0,
    };
    caches.set_limits(none);
    let read_all = || {
        let read = |from: u64| {
            for block in (from..400).step_by(8) {
                site.object.block(BlockId(block)).expect("readable");
            }
        };
        std::thread::scope(|scope| {
            (0..8).for_each(|from| drop(scope.spawn(move || read(from))));
        });
    };
    assert_eq!(site.most_active(read_all), 2);
    caches.set_limits(limits);
    settings::PREFETCH_DISABLE.reset();
    settings::SYNC_READ_MAX_ACTIVE.reset();
}

struct Nobodys;

impl Watcher for Nobodys {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

/// What is read ahead and what is verified keeps to limits of its own.
fn reads_have_the_class_of_their_purpose(site: &Site) {
    let verify = || {
        let report = verify::verify(&site.pool, &VerifyOptions::default(), &Nobodys);
        assert!(report.expect("readable").damaged.is_empty());
    };
    set(&settings::SCRUB_MAX_ACTIVE, 1);
    assert_eq!(site.most_active(verify), 1);
    set(&settings::SCRUB_MAX_ACTIVE, 3);
    let most = site.most_active(verify);
    assert!((2..=3).contains(&most), "{most} verifying reads at once");
    settings::SCRUB_MAX_ACTIVE.reset();
    let read = || {
        let limits = site.pool.cache().limits();
        let none = cenote_cache::CacheLimits {
            stored: 0,
            decoded: 0,
        };
        site.pool.cache().set_limits(none);
        site.pool.cache().set_limits(limits);
        let mut buffer = vec![0; BLOCK as usize];
        for block in 0..400 {
            let read = site.object.read(block * BLOCK, &mut buffer);
            read.expect("readable");
        }
    };
    set(&settings::PREFETCH_DISABLE, 1);
    assert_eq!(site.most_active(read), 1, "nothing is read ahead");
    settings::PREFETCH_DISABLE.reset();
    set(&settings::ASYNC_READ_MAX_ACTIVE, 1);
    let most = site.most_active(read);
    assert!(
        most <= 2,
        "{most} reads at once: the reader's and one ahead"
    );
    settings::ASYNC_READ_MAX_ACTIVE.reset();
}

fn slow_requests_are_counted(site: &Site) {
    let slow = || {
        site.pool.vdevs().status().children[0]
            .figures
            .slow_operations
    };
    assert_eq!(slow(), 0);
    set(&settings::SLOW_IO_MS, 1);
    for block in 0..50 {
        site.write(block);
    }
    site.pool.sync().expect("on disk");
    assert!(slow() > 0);
    settings::SLOW_IO_MS.reset();
}

/// A writer that is much faster than the disk has no more dirty than allowed and is never stopped
/// for long: its latency grows with what is dirty, up to what the disk takes.
fn writers_slow_down_evenly(site: &Site) {
    const DIRTY_MAX: u64 = 64 << 20;
    const RATE: u64 = 50 << 20;
    site.pool.sync().expect("on disk");
    set(&settings::DIRTY_DATA_MAX, DIRTY_MAX);
    site.set_rate(RATE);
    let gate = site.pool.gate().expect("open for writing");
    let (mut most, mut slowest) = (0, Duration::ZERO);
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(5) {
        slowest = slowest.max(site.write(written % 3000));
        written += 1;
        most = most.max(gate.dirty_bytes());
    }
    let rate = written * BLOCK / started.elapsed().as_secs();
    eprintln!("{most} bytes dirty, {slowest:?} at the slowest, {rate} bytes a second");
    assert!(most <= DIRTY_MAX + 2 * BLOCK, "{most} bytes were dirty");
    assert!(most > DIRTY_MAX / 2, "the limit was never felt");
    assert!(
        slowest < Duration::from_millis(400),
        "stopped for {slowest:?}"
    );
    assert!(rate > RATE / 2, "{rate} bytes a second");
    settings::DIRTY_DATA_MAX.reset();
}
