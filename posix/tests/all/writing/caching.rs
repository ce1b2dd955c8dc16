//! What is left in the cache, as `primarycache`, `prefetch` and `direct` have it.

use super::{World, contents};
use crate::pool::{Random, sync};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Instant};
use cenote_dmu::{CacheLimits, CacheScope, Caching, DirectIo};
use cenote_posix::Access;
use cenote_posix::write::WriteOptions;
use std::time::Duration;

const BYTES: usize = 6 << 20;
/// What passes keeps at most an eighth of the memory for decoded blocks, here 2 MiB.
const FEW: u64 = 3 << 20;

/// A file of 6 MiB, of which nothing is cached.
struct Site {
    world: World,
    file: ObjectId,
    expected: Vec<u8>,
}

impl Site {
    fn new() -> Self {
        let world = World::new();
        let file = world.file(world.root(), "f");
        let mut random = Random::new(7);
        let expected: Vec<u8> = (0..BYTES).map(|_| random.below(256) as u8).collect();
        let site = Self {
            world,
            file,
            expected,
        };
        site.write(Access::Buffered);
        assert!(site.cached() > BYTES as u64, "all that is written stays");
        site.forget();
        site
    }

    fn set(&self, change: impl FnOnce(&mut Caching)) {
        let mut caching = Caching::default();
        change(&mut caching);
        self.world.set.set_caching(caching);
    }

    fn cached(&self) -> u64 {
        self.world.set.cache().bytes().iter().sum()
    }

    fn forget(&self) {
        let cache = self.world.set.cache();
        let limits = cache.limits();
        let none = CacheLimits {
            stored: 0,
            decoded: 0,
        };
        cache.set_limits(none);
        cache.set_limits(limits);
        assert_eq!((self.cached(), cache.limits()), (0, limits));
    }

    /// Writes the whole file and syncs it.
    fn write(&self, access: Access) {
        let options = WriteOptions {
            access,
            ..WriteOptions::default()
        };
        let written = self.world.fs.write(self.file, 0, &self.expected, options);
        written.expect("writes");
        sync(&self.world.pool, &self.world.gate, &self.world.set);
    }

    /// Reads the whole file in small pieces; returns how much is cached then.
    fn read(&self, access: Access) -> u64 {
        self.read_in_pieces(12 << 10, access)
    }

    fn read_in_pieces(&self, piece: usize, access: Access) -> u64 {
        let fs = &self.world.fs;
        let file = fs.znode(self.file).expect("exists");
        let mut bytes = Vec::new();
        while bytes.len() < BYTES {
            let at = bytes.len() as u64;
            let segments = fs.read_segments_as(&file, at, piece, access);
            for segment in segments.expect("readable") {
                bytes.extend_from_slice(segment.bytes().expect("no holes"));
            }
        }
        assert!(bytes == self.expected);
        self.cached()
    }
}

#[test]
fn data_of_who_caches_metadata_only_passes() {
    let site = Site::new();
    assert!(site.read(Access::Buffered) > BYTES as u64);
    for scope in [CacheScope::Metadata, CacheScope::None] {
        site.forget();
        site.set(|caching| caching.primary = scope);
        assert!(site.read(Access::Buffered) < FEW, "read");
        site.write(Access::Buffered);
        assert!(site.cached() < FEW, "written");
        assert!(contents(&site.world.fs, site.file) == site.expected);
    }
    site.set(|_| ());
    site.write(Access::Buffered);
    assert!(site.cached() > BYTES as u64, "all again");
}

#[test]
fn metadata_stays_unless_nothing_is_to() {
    let site = Site::new();
    site.set(|caching| caching.primary = CacheScope::Metadata);
    site.read(Access::Buffered);
    let [with_metadata, _] = site.world.set.cache().bytes();
    site.forget();
    site.set(|caching| caching.primary = CacheScope::None);
    site.read(Access::Buffered);
    let [without, _] = site.world.set.cache().bytes();
    assert!(
        with_metadata > 0 && without == 0,
        "{with_metadata}, {without}"
    );
}

#[test]
fn direct_requests_pass_as_the_property_says() {
    let site = Site::new();
    for (direct, access, passes) in [
        (DirectIo::Disabled, Access::Buffered, false),
        (DirectIo::Disabled, Access::Direct, false),
        (DirectIo::Standard, Access::Buffered, false),
        (DirectIo::Standard, Access::Direct, true),
        (DirectIo::Always, Access::Buffered, true),
        (DirectIo::Always, Access::Direct, true),
    ] {
        site.set(|caching| caching.direct = direct);
        site.forget();
        let read = site.read(access);
        site.forget();
        site.write(access);
        let written = site.cached();
        assert_eq!(
            [read < FEW, written < FEW],
            [passes, passes],
            "{direct:?} {access:?}: {read} read, {written} written"
        );
    }
    // Reads of parts of a page are direct only with `direct=always`.
    site.set(|caching| caching.direct = DirectIo::Always);
    site.forget();
    assert!(contents(&site.world.fs, site.file) == site.expected);
}

#[test]
fn nothing_is_read_ahead_where_nobody_wants_it() {
    rt::World::simulated(1).run(nothing_ahead);
}

fn nothing_ahead() {
    let site = Site::new();
    let begin = || {
        site.forget();
        let fs = &site.world.fs;
        let file = fs.znode(site.file).expect("exists");
        for block in 0..8_u64 {
            let segments = fs.read_segments(&file, block * (16 << 10), 4096);
            segments.expect("readable");
        }
    };
    // Eight blocks of 16 KiB and the indirect block above, as stored and decoded.
    let wanted = (8 * 16 + 128 + 32) << 10;
    begin();
    let started = Instant::now();
    while site.cached() <= wanted {
        assert!(started.elapsed() < Duration::from_secs(20), "not ahead");
        rt::sleep(Duration::from_millis(5));
    }
    site.set(|caching| caching.prefetch = CacheScope::Metadata);
    // What is under way ends first.
    rt::sleep(Duration::from_secs(10));
    begin();
    rt::sleep(Duration::from_secs(10));
    assert!(site.cached() <= wanted, "{}", site.cached());
}
