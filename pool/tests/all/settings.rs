//! Settings that bind a pool that is written to, on a device that takes its time.
//!
//! One test goes over all of them, in a simulated world: what takes a disk five seconds there takes
//! as long as the computing here, and a loaded machine changes nothing.

use crate::common::{self, Bench};
use cenote_base::rt::{self, Instant, World};
use cenote_base::settings::{self, Setting};
use cenote_base::{BlockId, RealEnv, Txg, VdevId};
use cenote_device::{Device, DeviceError, MemoryDevice, Nature, Purpose};
use cenote_dmu::{NewObject, Object, Owner, OwnerHook, TxCost};
use cenote_dsl::write::Head;
use cenote_ondisk::{Dva, ObjectType};
use cenote_pool::verify::{self, VerifyOptions, VerifyProgress, Watcher};
use cenote_pool::{
    Actor, NewLeaf, NewVdev, Pool, TreatmentCommand, TreatmentKind, TreatmentState, VdevShape,
};
use cenote_vdev::AllocationClass::Normal;
use cenote_vdev::{BatchRead, IoContext};
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BLOCK: u64 = 128 << 10;

/// A disk in memory with a limited bandwidth for all its users together.
#[derive(Debug)]
struct SlowDisk {
    memory: MemoryDevice,
    bytes_per_second: AtomicU64,
    free_at: Mutex<Option<Instant>>,
    active: AtomicU32,
    most_active: AtomicU32,
    /// Bytes of the largest read, write and discard since the last query.
    largest: [AtomicU64; 3],
    /// Discards since the last query.
    discards: AtomicU64,
    /// The next discard panics.
    fails: AtomicBool,
    /// Bytes that were read.
    bytes_read: AtomicU64,
}

const READ: usize = 0;
const WRITE: usize = 1;
const DISCARD: usize = 2;

impl SlowDisk {
    fn new(mebibytes: usize) -> Self {
        Self {
            memory: MemoryDevice::new("slow", vec![0; mebibytes << 20]),
            bytes_per_second: AtomicU64::new(u64::MAX),
            free_at: Mutex::default(),
            active: AtomicU32::new(0),
            most_active: AtomicU32::new(0),
            largest: Default::default(),
            discards: AtomicU64::new(0),
            fails: AtomicBool::new(false),
            bytes_read: AtomicU64::new(0),
        }
    }

    fn note(&self, what: usize, bytes: usize) {
        self.largest[what].fetch_max(bytes as u64, Ordering::SeqCst);
    }

    /// The largest since the last call.
    fn take_largest(&self, what: usize) -> u64 {
        self.largest[what].swap(0, Ordering::SeqCst)
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
            rt::sleep(done.saturating_duration_since(now));
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
        self.read_vectored(offset, &mut [IoSliceMut::new(buffer)])
    }

    fn read_vectored(
        &self,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        self.note(READ, bytes);
        self.bytes_read.fetch_add(bytes as u64, Ordering::SeqCst);
        self.busy(bytes, || self.memory.read_vectored(offset, buffers))
    }

    fn write_at(&self, offset: u64, new: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored(offset, &[IoSlice::new(new)], Purpose::Unknown)
    }

    fn write_vectored(
        &self,
        offset: u64,
        buffers: &[IoSlice<'_>],
        purpose: Purpose,
    ) -> Result<(), DeviceError> {
        let bytes = buffers.iter().map(|buffer| buffer.len()).sum();
        self.note(WRITE, bytes);
        self.busy(bytes, || {
            self.memory.write_vectored(offset, buffers, purpose)
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.memory.flush()
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), DeviceError> {
        assert!(!self.fails.swap(false, Ordering::SeqCst), "as it is to be");
        self.largest[DISCARD].fetch_max(length, Ordering::SeqCst);
        self.discards.fetch_add(1, Ordering::SeqCst);
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

/// Objects here have no owner.
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

    /// Reads whole blocks one after the other.
    fn read(&self, blocks: impl IntoIterator<Item = u64>) {
        let mut buffer = vec![0; BLOCK as usize];
        for block in blocks {
            let read = self.object.read(block * BLOCK, &mut buffer);
            read.expect("readable");
        }
    }

    fn empty_caches(&self) {
        let limits = self.pool.cache().limits();
        let none = cenote_cache::CacheLimits {
            stored: 0,
            decoded: 0,
        };
        self.pool.cache().set_limits(none);
        self.pool.cache().set_limits(limits);
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
    World::simulated(1).run(|| {
        let site = Site::new();
        groups_follow_the_timeout(&site);
        queues_follow_the_limits(&site);
        reads_have_the_class_of_their_purpose(&site);
        slow_requests_are_counted(&site);
        requests_are_joined_up_to_the_limit(&site);
        reading_ahead_keeps_its_distance(&site);
        groups_follow_what_is_dirty(&site);
        writers_slow_down_evenly(&site);
        free_space_is_trimmed_in_extents_worth_it(&site);
        site.set_rate(u64::MAX);
        site.pool.export().expect("written");
        drop(site.head);
    });
}

/// Waits until the group that is open now is on disk; `false` after `patience`.
fn is_synced_within(pool: &Pool, patience: Duration) -> bool {
    let gate = pool.gate().expect("open for writing");
    let (txg, started) = (gate.open_txg(), Instant::now());
    while pool.synced_txg() < txg {
        if started.elapsed() > patience {
            return false;
        }
        rt::sleep(Duration::from_millis(10));
    }
    true
}

fn groups_follow_the_timeout(site: &Site) {
    set(&settings::TXG_TIMEOUT, 3600);
    // The thread may be in its wait of before, and work off what was made.
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
        rt::scope(|scope| {
            (0..8).for_each(|from| drop(scope.spawn(move || read(from))));
        });
    };
    assert_eq!(site.most_active(read_all), 2);
    settings::SYNC_READ_MAX_ACTIVE.reset();
    set(&settings::VDEV_MAX_ACTIVE, 1);
    assert_eq!(site.most_active(read_all), 1);
    settings::VDEV_MAX_ACTIVE.reset();
    caches.set_limits(limits);
    settings::PREFETCH_DISABLE.reset();
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
        site.empty_caches();
        site.read(0..400);
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

fn requests_are_joined_up_to_the_limit(site: &Site) {
    let disk = &site.disk;
    let written_at_once = || {
        site.pool.sync().expect("on disk");
        disk.take_largest(WRITE);
        for block in 0..400 {
            site.write(block);
        }
        site.pool.sync().expect("on disk");
        disk.take_largest(WRITE)
    };
    // Blocks of 64 KiB with gaps of twice as much.
    let read_at_once = || {
        let reads: Vec<BatchRead> = (0..4)
            .map(|index| BatchRead {
                dva: Dva::new(VdevId(0), index * (192 << 10), 64 << 10),
                size: 64 << 10,
                birth: Txg(1),
            })
            .collect();
        disk.take_largest(READ);
        let blocks = site.pool.vdevs().read_batch(&reads, &IoContext::USER);
        assert!(blocks.iter().all(Option::is_some));
        disk.take_largest(READ)
    };
    assert_eq!(read_at_once(), 64 << 10);
    set(&settings::READ_GAP_LIMIT, 128 << 10);
    assert_eq!(read_at_once(), (3 * 192 + 64) << 10);
    settings::READ_GAP_LIMIT.reset();
    set(&settings::AGGREGATION_LIMIT, 0);
    assert_eq!(written_at_once(), BLOCK);
    set(&settings::AGGREGATION_LIMIT, 512 << 10);
    let most = written_at_once();
    assert!(most > BLOCK && most <= 512 << 10, "{most} bytes at once");
    settings::AGGREGATION_LIMIT.reset();
}

/// Bytes that the disk reads beside those that a reader has asked for.
fn reading_ahead_keeps_its_distance(site: &Site) {
    site.set_rate(u64::MAX);
    let read_ahead = |blocks: &mut dyn Iterator<Item = u64>| {
        site.empty_caches();
        // What leads to the blocks is not counted.
        site.read([399]);
        let before = site.disk.bytes_read.load(Ordering::SeqCst);
        let wanted = blocks.map(|block| site.read([block])).count() as u64 * BLOCK;
        // There is no signal for the end of prefetching.
        let mut all = 0;
        loop {
            rt::sleep(Duration::from_millis(100));
            let now = site.disk.bytes_read.load(Ordering::SeqCst) - before;
            if now == all {
                return all.saturating_sub(wanted);
            }
            all = now;
        }
    };
    // The cache of this pool is small, and a reader may have a part of it only.
    let usual = read_ahead(&mut (0..60));
    assert!(usual > 2 << 20, "{usual} bytes read ahead of 60 blocks");
    set(&settings::FETCH_DISTANCE_MAX, 512 << 10);
    let near = read_ahead(&mut (0..60));
    assert!(near > 0 && near <= 1 << 20, "{near} bytes with a limit");
    settings::FETCH_DISTANCE_MAX.reset();
    // A reader that has just begun: the distance doubles with each read.
    let begun = read_ahead(&mut (0..3));
    set(&settings::FETCH_DISTANCE_MIN, 4 << 20);
    let far = read_ahead(&mut (0..3));
    settings::FETCH_DISTANCE_MIN.reset();
    assert!(far > begun + (1 << 20), "{begun} and {far} bytes");
    // Two readers in turns, of whom only one is remembered.
    let two = || (0..40).flat_map(|block| [block, 200 + block]);
    assert!(read_ahead(&mut two()) > 0);
    set(&settings::FETCH_STREAMS_MAX, 1);
    assert_eq!(read_ahead(&mut two()), 0);
    settings::FETCH_STREAMS_MAX.reset();
}

fn groups_follow_what_is_dirty(site: &Site) {
    set(&settings::TXG_TIMEOUT, 3600);
    set(&settings::DIRTY_DATA_MAX, 256 << 20);
    site.pool.sync().expect("on disk");
    let is_early = |percent| {
        set(&settings::DIRTY_DATA_SYNC_PERCENT, percent);
        let before = site.pool.synced_txg();
        for block in 0..160 {
            site.write(block);
        }
        // What comes in while a group is written early is in the next.
        rt::sleep(Duration::from_secs(60));
        let is_early = site.pool.synced_txg() > before;
        site.pool.sync().expect("on disk");
        is_early
    };
    // 20 MiB of 256.
    assert!(!is_early(20), "a group was written before its time");
    assert!(is_early(5), "a group waits with a twelfth dirty");
    // They are a third of a quarter, which is all that may be dirty while memory is short.
    settings::set_memory_short(true);
    assert!(is_early(20), "a group waits while memory is short");
    settings::set_memory_short(false);
    assert!(!is_early(20), "memory is not short any more");
    settings::DIRTY_DATA_SYNC_PERCENT.reset();
    settings::DIRTY_DATA_MAX.reset();
    settings::TXG_TIMEOUT.reset();
}

/// A writer that is much faster than the disk has no more dirty than allowed and is never stopped
/// for long: its latency grows with what is dirty, up to what the disk takes.
fn writers_slow_down_evenly(site: &Site) {
    set(&settings::DIRTY_DATA_MAX, DIRTY_MAX);
    site.set_rate(RATE);
    let usual = write_for_seconds(site);
    assert!(usual.most > DIRTY_MAX / 10 * 7, "the limit was never felt");
    // Longer delays hold writers up long before the limit.
    set(&settings::DELAY_SCALE, 100_000_000);
    let long = write_for_seconds(site);
    assert!(long.level < DIRTY_MAX / 10 * 7, "{}", long.level);
    assert!(long.level > DIRTY_MAX / 2, "{}", long.level);
    set(&settings::DELAY_MIN_DIRTY_PERCENT, 30);
    let early = write_for_seconds(site);
    assert!(early.level < DIRTY_MAX / 10 * 4, "{}", early.level);
    settings::DELAY_MIN_DIRTY_PERCENT.reset();
    settings::DELAY_SCALE.reset();
    settings::DIRTY_DATA_MAX.reset();
}

const DIRTY_MAX: u64 = 64 << 20;
const RATE: u64 = 50 << 20;

/// Dirty bytes while a program writes as fast as it can.
struct Written {
    most: u64,
    /// On average over the second half of the time.
    level: u64,
}

fn write_for_seconds(site: &Site) -> Written {
    const TIME: Duration = Duration::from_secs(5);
    site.pool.sync().expect("on disk");
    let gate = site.pool.gate().expect("open for writing");
    let (mut most, mut slowest) = (0, Duration::ZERO);
    let (mut sum, mut count) = (0, 0);
    let (started, mut written) = (Instant::now(), 0);
    while started.elapsed() < TIME {
        slowest = slowest.max(site.write(written % 3000));
        written += 1;
        let dirty = gate.dirty_bytes();
        most = most.max(dirty);
        if started.elapsed() > TIME / 2 {
            sum += dirty;
            count += 1;
        }
    }
    let rate = written * BLOCK / started.elapsed().as_secs();
    let level = sum / count;
    eprintln!("{most} bytes dirty, {level} in the end, {rate} a second; at most {slowest:?}");
    assert!(most <= DIRTY_MAX + 2 * BLOCK, "{most} bytes were dirty");
    assert!(
        slowest < Duration::from_millis(400),
        "stopped for {slowest:?}"
    );
    assert!(rate > RATE / 2, "{rate} bytes a second");
    Written { most, level }
}

/// Whether a trim is begun.
fn starts_trim(site: &Site) -> bool {
    let leaves = [site.pool.vdev_tree().children[0].guid];
    let start = TreatmentCommand::Start {
        rate: 0,
        zeros: false,
    };
    let actor = Actor {
        user: 0,
        host: "test".to_owned(),
    };
    let by = (&actor, "zpool trim settings");
    let refused = site.pool.treat(TreatmentKind::Trim, &leaves, start, by);
    refused.expect("written").is_empty()
}

/// One whose thread had failed was under way for good, and could not be begun again.
fn a_trim_that_failed_can_be_begun_again(site: &Site) {
    let fails = &site.disk.fails;
    fails.store(true, Ordering::SeqCst);
    assert!(starts_trim(site));
    while fails.load(Ordering::SeqCst) || !starts_trim(site) {
        rt::sleep(Duration::from_millis(1));
    }
    let is_active = || site.pool.treatment_status()[0].state == TreatmentState::Active;
    while is_active() {
        rt::sleep(Duration::from_millis(1));
    }
}

/// By `zpool trim` as by the property `autotrim`.
fn free_space_is_trimmed_in_extents_worth_it(site: &Site) {
    site.set_rate(u64::MAX);
    let disk = &site.disk;
    let counts = || {
        let count = disk.discards.swap(0, Ordering::SeqCst);
        (count, disk.take_largest(DISCARD))
    };
    let trim = || {
        counts();
        assert!(starts_trim(site));
        let is_done = || site.pool.treatment_status()[0].state == TreatmentState::Complete;
        while !is_done() {
            rt::sleep(Duration::from_millis(10));
        }
        counts()
    };
    let (usual, longest) = trim();
    assert!(usual > 0 && longest > 4 << 20, "{usual} up to {longest}");
    a_trim_that_failed_can_be_begun_again(site);
    set(&settings::TRIM_EXTENT_MAX, 1 << 20);
    let (many, longest) = trim();
    assert_eq!(longest, 1 << 20);
    assert!(many > 2 * usual);
    set(&settings::TRIM_EXTENT_MIN, 1 << 30);
    assert_eq!(trim(), (0, 0));
    settings::TRIM_EXTENT_MAX.reset();
    // What is freed by writing again, two groups later.
    site.pool.set_autotrim(true);
    // It stayed off where it was ended and begun again while its thread was about to end.
    site.pool.set_autotrim(false);
    site.pool.set_autotrim(true);
    let free = || {
        counts();
        for block in 0..64 {
            site.write(block);
        }
        for _ in 0..5 {
            site.pool.sync().expect("on disk");
        }
        let started = Instant::now();
        while disk.discards.load(Ordering::SeqCst) == 0 && started.elapsed() < PATIENCE {
            rt::sleep(Duration::from_millis(10));
        }
        counts()
    };
    const PATIENCE: Duration = Duration::from_secs(2);
    assert_eq!(free(), (0, 0));
    settings::TRIM_EXTENT_MIN.reset();
    let (count, longest) = free();
    assert!(count > 0 && longest > 1 << 20, "{count} up to {longest}");
    site.pool.set_autotrim(false);
}
