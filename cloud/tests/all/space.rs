//! What a device costs: requests, bytes in the store, and memory.

use cenote_base::{Env, RealEnv};
use cenote_cloud::format::key::{data, data_name};
use cenote_cloud::format::{Class, ObjectNumber};
use cenote_cloud::local::{DirectoryPlace, Place};
use cenote_cloud::simulation::{Connection, Random, SimulatedEnv, SimulatedPlace, SimulatedStore};
use cenote_cloud::store::{DirectoryStore, RequestKind};
use cenote_cloud::{Close, CloudDevice, CloudError, Drive, Options};
use cenote_device::Device;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

struct World {
    env: Arc<SimulatedEnv>,
    store: Arc<SimulatedStore>,
    place: Arc<SimulatedPlace>,
    options: Options,
}

impl World {
    fn new(size: u64, options: Options) -> Self {
        let env = Arc::new(SimulatedEnv::new(5));
        let store = SimulatedStore::new(6, env.clone());
        let world = Self {
            env: env.clone(),
            store,
            place: Arc::new(SimulatedPlace::new(16 * MIB, 4 * MIB)),
            options: Options {
                drive: Drive::Manual,
                host: "test".into(),
                ..options
            },
        };
        let env: Arc<dyn Env> = env;
        let created = CloudDevice::create(world.store.connect(), size, &world.options, &env);
        created.expect("an empty store");
        world
    }

    fn open(&self) -> Arc<CloudDevice> {
        self.try_open(&self.options, Some(self.place.clone()))
            .expect("it is there")
            .0
    }

    fn try_open(
        &self,
        options: &Options,
        place: Option<Arc<SimulatedPlace>>,
    ) -> Result<(Arc<CloudDevice>, Arc<Connection>), CloudError> {
        let env: Arc<dyn Env> = self.env.clone();
        let connection = self.store.connect();
        let place = place.map(|place| place as Arc<dyn Place>);
        let device = CloudDevice::open(connection.clone(), |_| Ok(place), options.clone(), &env);
        Ok((device?, connection))
    }

    /// Requests that something takes.
    fn requests<T>(&self, what: impl FnOnce() -> T) -> (u64, T) {
        let before = self.store.requests();
        let result = what();
        (self.store.requests() - before, result)
    }
}

fn settle(device: &CloudDevice) {
    while device.step().expect("the store works") {}
}

fn noise(random: &mut Random, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    random.fill(&mut bytes);
    bytes
}

/// What a quiet pool does costs next to nothing.
#[test]
fn quiet_devices_cost_few_requests() {
    let world = World::new(1 << 30, Options::default());
    let (opening, device) = world.requests(|| world.open());
    assert!(opening <= 10, "{opening} requests to open");
    let mut random = Random::new(1);
    for round in 0..200 {
        // A small transaction group: some metadata, and labels at both ends.
        for at in [
            4 * KIB,
            (1 << 30) - 500 * KIB,
            3 * MIB,
            70 * MIB + 16 * KIB * round,
        ] {
            let bytes = noise(&mut random, 4 * KIB);
            device.write_as(Class::Metadata, at, &bytes).expect("room");
        }
        // That the group is complete costs no commit of its own.
        device.complete_group(100 + round);
        device.flush().expect("in the log");
        let (early, ()) = world.requests(|| settle(&device));
        assert_eq!(early, 0, "nothing is sent before its time");
        world.env.sleep(Duration::from_secs(31));
        let (puts, ()) = world.requests(|| settle(&device));
        // One put, and a question about the upload before it. The first also makes sure of the copy
        // of what identifies the store. Every so many a checkpoint is due, too, which is two puts
        // and what it asks or removes.
        assert!(
            puts <= 2 || (round == 0 && puts <= 4) || (puts <= 9 && round % 50 > 8),
            "round {round}: {puts}"
        );
        assert_eq!(device.status().group, Some(100 + round));
    }
    let (idle, ()) = world.requests(|| {
        for _ in 0..1000 {
            device.flush().expect("nothing to do");
            world.env.sleep(Duration::from_secs(60));
            settle(&device);
        }
    });
    assert_eq!(idle, 0, "an idle device");
    device
        .write_at(5 * MIB, &noise(&mut random, 4096))
        .expect("room");
    let (closing, closed) = world.requests(|| device.close(Close::Upload));
    closed.expect("the store works");
    // A data object, its commit, and a question about the commit before it.
    assert!(closing <= 4, "{closing} requests to close");
    for _ in 0..5 {
        let (opening, device) = world.requests(|| world.open());
        assert!(opening <= 10, "{opening} requests to open");
        assert_eq!(device.status().group, Some(299), "the commit has it");
        let (closing, closed) = world.requests(|| device.close(Close::Upload));
        closed.expect("the store works");
        assert!(closing <= 4, "{closing} requests to close at once");
    }
}

/// Reads of metadata in random order fetch each of its bytes once.
#[test]
fn metadata_is_fetched_once() {
    const BYTES: u64 = 3 * MIB;
    let world = World::new(1 << 30, Options::default());
    let device = world.open();
    let mut random = Random::new(1);
    for block in 0..BYTES / (4 * KIB) {
        let bytes = noise(&mut random, 4 * KIB);
        let at = 8 * MIB + block * 4 * KIB;
        device.write_as(Class::Metadata, at, &bytes).expect("room");
    }
    device.close(Close::Upload).expect("the store works");
    let opened = world.try_open(&world.options, None);
    let (device, _) = opened.expect("released");
    let before = device.statistics().of(RequestKind::Get);
    for _ in 0..2000 {
        let block = random.below(BYTES / (4 * KIB));
        let at = 8 * MIB + block * 4 * KIB;
        device.read_vec(at, 4096).expect("readable");
    }
    let after = device.statistics().of(RequestKind::Get);
    let received = after.received - before.received;
    assert!(received < BYTES + BYTES / 8, "{received} bytes of {BYTES}");
    let windows = BYTES / world.options.window_bytes;
    let requests = after.requests - before.requests;
    assert!(
        requests <= windows + 3,
        "{requests} requests for {windows} windows"
    );
}

/// A hundred rounds of overwriting, an hour each: what is stored stays below twice what lives.
#[test]
fn overwriting_leaves_little_garbage() {
    const LIVE: u64 = 12 * MIB;
    let options = Options {
        object_bytes: 256 * KIB,
        batch_bytes: MIB,
        batch_bytes_max: 2 * MIB,
        inline_bytes: 16 * KIB,
        tail_bytes_min: 64 * KIB,
        keep: Duration::from_secs(600),
        ..Options::default()
    };
    let world = World::new(64 * MIB, options);
    let mut device = world.open();
    let mut random = Random::new(2);
    let mut expected = noise(&mut random, LIVE);
    let start = 4 * MIB;
    for (at, bytes) in expected.chunks(64 << 10).enumerate() {
        let offset = start + at as u64 * 64 * KIB;
        device.write_at(offset, bytes).expect("room");
        device.step().expect("the store works");
    }
    let mut most = 0;
    for round in 0..100 {
        for _ in 0..40 {
            let length = [4, 16, 64, 128][random.below(4) as usize] * KIB;
            let at = random.below((LIVE - length) / (4 * KIB)) * 4 * KIB;
            let bytes = noise(&mut random, length);
            device.write_at(start + at, &bytes).expect("room");
            expected[at as usize..(at + length) as usize].copy_from_slice(&bytes);
            device.step().expect("the store works");
        }
        device.upload().expect("the store works");
        world.env.sleep(Duration::from_secs(3600));
        settle(&device);
        let stored = world.store.bytes("");
        most = most.max(stored);
        assert!(
            stored < 2 * LIVE,
            "round {round}: {stored} bytes for {LIVE}"
        );
        if round % 30 == 29 {
            device.close(Close::Upload).expect("the store works");
            device = world.open();
        }
    }
    let counts = device.counts();
    println!("at most {most} bytes for {LIVE}; last session: {counts:?}");
    assert!(counts.compacted > 0 && counts.deleted > 0, "{counts:?}");
    let found = device.read_vec(start, LIVE as usize).expect("readable");
    assert!(found == expected, "the contents");

    // What is discarded goes.
    device.discard(start, LIVE).expect("room");
    for round in 0..20 {
        device.write_at(MIB, &[round; 512]).expect("room");
        device.upload().expect("the store works");
        world.env.sleep(Duration::from_secs(3600));
        settle(&device);
    }
    let left = world.store.bytes("data/");
    assert!(left < LIVE / 4, "{left} bytes of nothing");
}

/// A device with a mapping for each 128 KiB, of which 512 bytes are written: its map is that of a
/// full one.
fn fill(world: &World, size: u64) -> Arc<CloudDevice> {
    let device = world.open();
    let bytes = [7; 512];
    for at in (MIB..size - MIB).step_by(128 << 10) {
        device.write_as(Class::Metadata, at, &bytes).expect("room");
        // Uploads as a thread would, now and then.
        if at % (64 * MIB) == 0 {
            device.step().expect("the store works");
        }
    }
    device.upload().expect("the store works");
    device
}

/// Opening costs the same at any size, and memory no more than a logarithm of it: 1, 10 and 100 GiB
/// with `CENOTE_CLOUD_GIB=100`.
#[test]
fn size_costs_nothing_at_opening() {
    let most: u64 = std::env::var("CENOTE_CLOUD_GIB").map_or(9, |text| text.parse().expect("GiB"));
    let mut costs = Vec::new();
    for gib in [1, most.isqrt(), most] {
        let options = Options {
            map_bytes: 2 * MIB,
            tail_bytes_min: 256 * KIB,
            ..Options::default()
        };
        let world = World::new(gib << 30, options);
        let device = fill(&world, gib << 30);
        device.close(Close::Upload).expect("the store works");
        drop(device);
        let began = std::time::Instant::now();
        let (requests, device) = world.requests(|| world.open());
        let opening = began.elapsed();
        let mut random = Random::new(gib);
        for _ in 0..100 {
            let at = MIB + random.below((gib << 13) - 16) * 128 * KIB;
            assert_eq!(device.read_vec(at, 512).expect("readable"), [7; 512]);
        }
        let memory = device.space().map_memory;
        println!("{gib} GiB: {requests} requests, {opening:?}, {memory} bytes of map");
        costs.push((requests, memory));
    }
    for (requests, memory) in &costs {
        assert!(*requests <= 10, "{costs:?}");
        assert!(*memory < 8 * MIB, "{costs:?}");
    }
}

/// What is read comes from the cache on disk after a restart, metadata in spite of all contents.
#[test]
fn the_cache_outlives_the_device() {
    let world = World::new(256 * MIB, Options::default());
    let device = world.open();
    let mut random = Random::new(3);
    let metadata = noise(&mut random, MIB);
    device
        .write_as(Class::Metadata, 8 * MIB, &metadata)
        .expect("room");
    for at in 0..40 {
        let bytes = noise(&mut random, MIB);
        device
            .write_as(Class::Contents, (20 + at) * MIB, &bytes)
            .expect("room");
        settle(&device);
    }
    device.close(Close::Upload).expect("the store works");
    let device = world.open();
    let (requests, found) = world.requests(|| device.read_vec(8 * MIB, MIB as usize));
    assert!(found.expect("readable") == metadata);
    assert_eq!(requests, 0, "metadata is on disk");
    device.close(Close::Upload).expect("the store works");

    // Without the cache one prefetch brings it back, all at once.
    world.place.lose_cache();
    let device = world.open();
    let ranges = [8 * MIB..9 * MIB, 30 * MIB..31 * MIB];
    let (requests, ()) = world.requests(|| device.prefetch(&ranges).expect("readable"));
    assert!(requests <= 4, "{requests}");
    let (requests, found) = world.requests(|| device.read_vec(8 * MIB, MIB as usize));
    assert!(found.expect("readable") == metadata);
    let (more, _) = world.requests(|| device.read_vec(30 * MIB, MIB as usize).expect("readable"));
    assert_eq!((requests, more), (0, 0));
}

/// A reader keeps the commit that it opened, blocks no writer, and gets an error when it is too
/// old.
#[test]
fn readers_keep_their_commit() {
    let options = Options {
        checkpoint_commits: 2,
        object_bytes: 64 * KIB,
        inline_bytes: 0,
        tail_bytes_min: 1,
        keep: Duration::from_secs(600),
        fetched_bytes: 0,
        ..Options::default()
    };
    let world = World::new(64 * MIB, options);
    let device = world.open();
    let write = |fill: u8| {
        for at in 0..8 {
            let bytes = vec![fill; 64 << 10];
            device
                .write_at(8 * MIB + at * 64 * KIB, &bytes)
                .expect("room");
        }
        device.upload().expect("the store works");
        settle(&device);
    };
    write(1);
    let reading = Options {
        is_read_only: true,
        ..world.options.clone()
    };
    let (reader, _) = world
        .try_open(&reading, None)
        .expect("readers are not blocked");
    assert_eq!(reader.read_vec(8 * MIB, 1).expect("readable"), [1]);
    for fill in 2..6 {
        world.env.sleep(Duration::from_secs(100));
        write(fill);
        assert_eq!(reader.read_vec(8 * MIB, 1).expect("still kept"), [1]);
    }
    for fill in 6..12 {
        world.env.sleep(Duration::from_secs(400));
        write(fill);
    }
    let error = reader.read_vec(8 * MIB, 1).expect_err("long gone");
    assert!(
        error
            .io_error()
            .expect("of the device")
            .to_string()
            .contains("opened again")
    );
    let (reader, _) = world
        .try_open(&reading, None)
        .expect("readers are not blocked");
    assert_eq!(reader.read_vec(8 * MIB, 1).expect("readable"), [11]);
}

/// What a writer put and never committed before it died is found and removed by the next one.
#[test]
fn orphans_are_removed() {
    let world = World::new(64 * MIB, Options::default());
    let mut random = Random::new(4);
    let device = world.open();
    let first = noise(&mut random, 2 * MIB);
    device.write_at(8 * MIB, &first).expect("room");
    device.upload().expect("the store works");
    let committed = world.store.bytes("data/");
    let mut keys = world.store.keys().into_iter();
    let last = keys.rfind(|key| key.starts_with("data/"));
    let (writer, number) = data_name(&last.expect("bytes are there")).expect("a name");
    for by in [1, 2, 9] {
        let orphan = data(writer, ObjectNumber(number.0 + by));
        world.store.set_object(&orphan, Some(first.clone()));
    }
    drop(device);
    let forced = Options {
        is_forced: true,
        ..world.options.clone()
    };
    let (device, _) = world.try_open(&forced, None).expect("taken over");
    device.write_at(MIB, &[1; 512]).expect("room");
    device.upload().expect("the store works");
    settle(&device);
    assert_eq!(world.store.bytes("data/"), committed);
    assert!(device.read_vec(8 * MIB, first.len()).expect("readable") == first);
}

/// A device that always has something to check, to move or to remove.
fn busy() -> Options {
    Options {
        batch_bytes: MIB,
        batch_bytes_max: 2 * MIB,
        object_bytes: 256 * KIB,
        inline_bytes: 4 * KIB,
        contents_bytes_min: 0,
        checkpoint_commits: 2,
        tail_bytes_min: 4 * KIB,
        map_bytes: 64 * KIB,
        keep: Duration::from_secs(1),
        ..Options::default()
    }
}

/// With a thread, a real directory and a real cache: readers continue while the uploader makes
/// checkpoints, compacts and removes.
#[test]
fn upkeep_hinders_nobody() {
    const PAGES: u64 = 1024;
    const PAGE: u64 = 8 * KIB;
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let env: Arc<dyn Env> = Arc::new(RealEnv::new());
    let options = busy();
    let store = || Arc::new(DirectoryStore::new(&at("store")).expect("made"));
    CloudDevice::create(store(), 64 * MIB, &options, &env).expect("empty");
    let open = || {
        let place = DirectoryPlace::open(&at("here"), 16 * MIB, 2 * MIB).expect("a place");
        let place: Arc<dyn Place> = Arc::new(place);
        CloudDevice::open(store(), |_| Ok(Some(place)), options.clone(), &env).expect("opens")
    };
    let device = open();
    // Each page says which one it is, and in which round it was written.
    let page = |number: u64, round: u64| {
        let words = [number, round].map(u64::to_le_bytes).concat();
        words.repeat(PAGE as usize / 16)
    };
    let write = |number: u64, round: u64| {
        let bytes = page(number, round);
        device.write_at(MIB + number * PAGE, &bytes).expect("room");
    };
    (0..PAGES).for_each(|number| write(number, 0));
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (device, is_done) = (&device, &is_done);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let mut seen = vec![0; PAGES as usize];
                while !is_done.load(Ordering::Relaxed) {
                    let number = random.below(PAGES);
                    let offset = MIB + number * PAGE;
                    let found = device.read_vec(offset, PAGE as usize).expect("readable");
                    let round = u64::from_le_bytes(found[8..16].try_into().expect("8 bytes"));
                    assert!(found == page(number, round), "page {number}");
                    assert!(round >= seen[number as usize], "page {number} went back");
                    seen[number as usize] = round;
                }
            });
        }
        let mut random = Random::new(9);
        for round in 1..=12 {
            for _ in 0..PAGES / 2 {
                write(random.below(PAGES), round);
            }
            device.upload().expect("the store works");
        }
        is_done.store(true, Ordering::Relaxed);
    });
    let counts = device.counts();
    assert!(counts.checkpoints > 2 && counts.compacted > 0, "{counts:?}");
    let contents = device.read_vec(0, 16 << 20).expect("readable");
    device.close(Close::Upload).expect("the store works");
    drop(device);
    let device = open();
    assert!(device.read_vec(0, 16 << 20).expect("readable") == contents);
}

/// What was uploaded kept its place in the log until the next upload: a writer waited for a store
/// that was away, although the log held next to nothing that the store did not have.
#[test]
fn what_is_uploaded_leaves_room_in_the_log_while_the_store_is_away() {
    let world = World::new(1 << 30, Options::default());
    let place = Arc::new(SimulatedPlace::new(16 * MIB, 4 * MIB));
    let opened = world.try_open(&world.options, Some(place));
    let (device, connection) = opened.expect("it is there");
    let mut random = Random::new(4);
    let write = |at: u64, bytes: &[u8]| device.write_at(at * MIB, bytes);
    for at in 0..14 {
        write(at, &noise(&mut random, MIB)).expect("room");
    }
    device.upload().expect("the store works");
    connection.cut_after(0);
    for at in 14..28 {
        write(at, &noise(&mut random, MIB)).expect("room for all that is not in the store");
    }
    assert_eq!(device.status().pending_bytes, 14 * MIB);
}
