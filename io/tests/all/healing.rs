//! What reads find wrong is written again, and only then.

use crate::support::{Layout, Pool, bookmark, noise, text};
use cenote_base::{Guid, Level, Txg};
use cenote_injection::BlockError;
use cenote_io::{
    BlockFault, FaultClass, FaultSink, MendScope, RepairSpace, SpaceStamp, WritePolicy,
    WriteRequest, Writer,
};
use cenote_ondisk::label::DATA_OFFSET;
use cenote_ondisk::{BlockPointer, ChecksumKind, Dva, ObjectType};
use cenote_vdev::IoContext;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const TXG: Txg = Txg(10);
/// More than all blocks of a test take on a device.
const USED: usize = 8 << 20;

/// Lets repairs be made, or not.
#[derive(Debug, Default)]
struct Permits {
    refuses: AtomicBool,
    held: AtomicU64,
    released: AtomicU64,
}

impl RepairSpace for Permits {
    fn stamp(&self) -> SpaceStamp {
        SpaceStamp(0)
    }

    fn hold(&self, _: &[Dva], birth: Txg, _: SpaceStamp) -> bool {
        assert_eq!(birth, TXG);
        let is_held = !self.refuses.load(Ordering::SeqCst);
        self.held.fetch_add(u64::from(is_held), Ordering::SeqCst);
        is_held
    }

    fn is_freed(&self, _: &[Dva]) -> bool {
        false
    }

    fn release(&self, places: &[Dva]) {
        assert!(!places.is_empty());
        // What was refused is not released.
        let released = self.released.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(released <= self.held.load(Ordering::SeqCst));
    }
}

/// Keeps the reported faults.
#[derive(Debug, Default)]
struct Listener(Mutex<Vec<BlockFault>>);

impl FaultSink for Listener {
    fn fault(&self, fault: &BlockFault) {
        self.0
            .lock()
            .expect("no thread panicked")
            .push(fault.clone());
    }
}

impl Listener {
    fn take(&self) -> Vec<(FaultClass, Option<Guid>)> {
        let told = std::mem::take(&mut *self.0.lock().expect("no thread panicked"));
        told.iter().map(|fault| (fault.class, fault.leaf)).collect()
    }
}

struct Site {
    pool: Pool,
    permits: Arc<Permits>,
    listener: Arc<Listener>,
    blocks: Vec<(BlockPointer, Vec<u8>)>,
}

fn written(writer: &Writer, contents: &[Vec<u8>], policy: WritePolicy) -> Vec<BlockPointer> {
    let request = |data: &Vec<u8>| WriteRequest {
        data: Arc::new(data.clone().into()),
        bookmark: bookmark(7),
        object_type: ObjectType::PLAIN_FILE,
        level: Level(0),
        fill: 1,
        policy,
        keys: None,
        previous: None,
        form: None,
    };
    let results = writer.write(TXG, 1, contents.iter().map(request).collect());
    results.into_iter().map(|r| r.expect("written")).collect()
}

fn site_with(layout: Layout, copies: u8) -> Site {
    let pool = Pool::new(layout);
    let contents = [
        text(131_072),
        noise(131_072),
        noise(512),
        text(20_480),
        noise(4608),
        noise(1 << 20),
    ];
    let policy = WritePolicy {
        copies,
        ..WritePolicy::default()
    };
    let pointers = written(&pool.writer, &contents, policy);
    let (permits, listener): (Arc<Permits>, Arc<Listener>) = Default::default();
    let pool = pool.with_repairs(Arc::clone(&permits) as _);
    pool.pipeline.set_fault_sink(Arc::clone(&listener) as _);
    Site {
        pool,
        permits,
        listener,
        blocks: pointers.into_iter().zip(contents).collect(),
    }
}

fn site(layout: Layout) -> Site {
    site_with(layout, 1)
}

impl Site {
    fn image(&self, guid: u64) -> Vec<u8> {
        let device = self.pool.device(guid);
        device.read_vec(DATA_OFFSET, USED).expect("in range")
    }

    fn spoil(&self, guid: u64) {
        let device = self.pool.device(guid);
        let written = device.write_at(DATA_OFFSET, &noise(USED));
        written.expect("in range");
    }

    fn read_all(&self) {
        self.read_all_for(&IoContext::USER);
    }

    fn read_all_for(&self, io: &IoContext) {
        for (pointer, contents) in &self.blocks {
            let read = self.pool.pipeline.read_stored(pointer, bookmark(7), io);
            let stored = read.expect("redundancy serves");
            let context = cenote_io::ReadContext {
                bookmark: bookmark(7),
                keys: None,
            };
            let decoded = self.pool.pipeline.decode(pointer, &stored, context);
            let decoded = decoded.expect("sound");
            assert!(decoded.as_deref().unwrap_or(&stored) == &contents[..]);
        }
        self.pool.pipeline.finish_healing();
    }

    /// Whether every part of every copy is right.
    fn is_whole(&self) -> bool {
        let pipeline = &self.pool.pipeline;
        self.blocks.iter().all(|(pointer, _)| {
            let birth = pointer.physical_birth();
            let size = usize::try_from(pointer.physical_size()).expect("small");
            let right = |bytes: &[u8]| {
                let verified = pipeline.verify(pointer, bytes, bookmark(7));
                verified.expect("the salt is set")
            };
            pointer.dvas().all(|dva| {
                let report =
                    pipeline
                        .vdevs()
                        .check_copies(dva, size, birth, &right, &IoContext::USER);
                report.expect("sound").is_perfect()
            })
        })
    }
}

/// Until no read finds anything wrong any more, whichever leaves it asks.
fn heal_by_reading(site: &Site) {
    for _ in 0..20 {
        site.read_all();
        if site.is_whole() {
            return;
        }
    }
    panic!("twenty reads healed no more");
}

#[test]
fn single_reads_heal_mirrors() {
    let site = site(Layout::Mirror);
    let before: Vec<Vec<u8>> = (10..13).map(|guid| site.image(guid)).collect();
    site.spoil(10);
    heal_by_reading(&site);
    let told = site.listener.take();
    assert!(told.contains(&(FaultClass::Checksum, Some(Guid(10)))));
    let healed = site.pool.vdevs.shape().status().children[0].children[0].figures;
    assert!(healed.self_healed_bytes > 1 << 20 && healed.checksum_errors > 0);
    assert_eq!(site.image(11), before[1], "the others are left alone");
}

/// The thread that writes a block again does it in the class of the read that found it.
#[test]
fn repairs_have_the_class_of_the_read() {
    for (io, is_scrub) in [(IoContext::USER, false), (IoContext::SCRUB, true)] {
        let site = site(Layout::Raidz2);
        site.spoil(11);
        site.read_all_for(&io);
        let figures = site.pool.vdevs.shape().status().children[0].children[1].figures;
        let (scan, healed) = (figures.scan_repaired_bytes, figures.self_healed_bytes);
        assert_eq!((scan > 0, healed > 0), (is_scrub, !is_scrub), "{io:?}");
    }
}

#[test]
fn single_reads_heal_data_columns() {
    for layout in [
        Layout::Raidz1,
        Layout::Raidz2,
        Layout::Raidz3,
        Layout::Draid,
    ] {
        let site = site(layout);
        site.spoil(11);
        site.read_all();
        let told = site.listener.take();
        let is_of_device = |(class, leaf): &(FaultClass, Option<Guid>)| {
            *class == FaultClass::Checksum && *leaf == Some(Guid(11))
        };
        assert!(
            !told.is_empty() && told.iter().all(is_of_device),
            "{layout:?}"
        );
        site.read_all();
        assert!(
            site.listener.take().is_empty(),
            "{layout:?}: healed at once"
        );
    }
}

#[test]
fn batches_heal_what_they_find() {
    for layout in [Layout::Mirror, Layout::Raidz2, Layout::Draid] {
        let site = site(layout);
        let guids = 10..10 + site.pool.vdevs.shape().status().children[0].children.len() as u64;
        for guid in guids {
            site.spoil(guid);
            let batch: Vec<_> = site.blocks.iter().map(|b| (b.0, bookmark(7))).collect();
            let read = site
                .pool
                .pipeline
                .read_stored_batch(&batch, &IoContext::USER);
            for ((pointer, _), stored) in site.blocks.iter().zip(&read) {
                let stored = stored.as_ref().expect("redundancy serves");
                let verified = site.pool.pipeline.verify(pointer, stored, bookmark(7));
                assert!(verified.expect("the salt is set"));
            }
            site.pool.pipeline.finish_healing();
            // What no batch reads, such as parity, only a scrub finds.
            let scrub = |block: &(BlockPointer, Vec<u8>)| {
                let mended = site.pool.pipeline.mend(
                    &block.0,
                    bookmark(7),
                    MendScope::All,
                    &IoContext::USER,
                );
                mended.expect("sound")
            };
            for mended in site.blocks.iter().map(scrub) {
                assert!(mended.unrepaired.is_empty() && mended.lost == 0);
            }
            assert!(site.is_whole(), "{layout:?} {guid}");
        }
    }
}

/// A second copy serves for a first of which nothing is left.
#[test]
fn one_copy_heals_another() {
    let site = site_with(Layout::Disk, 2);
    let before = site.image(10);
    for (pointer, _) in &site.blocks {
        let place = DATA_OFFSET + pointer.dva(0).offset();
        let device = site.pool.device(10);
        device.write_at(place, &[0x55; 512]).expect("in range");
    }
    assert!(site.image(10) != before);
    site.read_all();
    assert!(site.image(10) == before);
    assert!(!site.listener.take().is_empty());
}

#[test]
fn gangs_are_healed_member_by_member() {
    let site = site(Layout::Mirror);
    site.pool.space.limit_pieces(8192);
    let contents = vec![noise(100_000 / 512 * 512)];
    let policy = WritePolicy::default();
    let pointers = written(&site.pool.writer, &contents, policy);
    assert!(pointers[0].is_gang());
    let images: Vec<Vec<u8>> = (10..13).map(|guid| site.image(guid)).collect();
    site.spoil(12);
    let mended =
        site.pool
            .pipeline
            .mend(&pointers[0], bookmark(7), MendScope::All, &IoContext::USER);
    let mended = mended.expect("two sides are right");
    assert!(mended.repairs > 10 && mended.unrepaired.is_empty() && mended.lost == 0);
    for (pointer, _) in &site.blocks {
        let mended =
            site.pool
                .pipeline
                .mend(pointer, bookmark(7), MendScope::All, &IoContext::USER);
        assert_eq!(mended.expect("two sides are right").repairs, 1);
    }
    let all = images.iter().zip(10..13);
    for (image, guid) in all {
        // Behind the last block there is still what was spoiled.
        let end = usize::try_from(site.pool.space.taken()).expect("small");
        assert!(site.image(guid)[..end] == image[..end], "{guid}");
    }
}

#[test]
fn nothing_is_written_without_leave_or_a_checksum() {
    let refused = site(Layout::Mirror);
    refused.permits.refuses.store(true, Ordering::SeqCst);
    refused.spoil(10);
    let spoiled = refused.image(10);
    (0..5).for_each(|_| refused.read_all());
    assert!(refused.image(10) == spoiled, "its space may be another's");
    assert_eq!(refused.permits.released.load(Ordering::SeqCst), 0);

    let site = site(Layout::Mirror);
    let read_only = site.pool.reopen(&[]);
    site.spoil(10);
    for (pointer, _) in &site.blocks {
        let read = read_only.read_stored(pointer, bookmark(7), &IoContext::USER);
        assert!(read.is_ok());
    }
    read_only.finish_healing();
    assert!(site.image(10) == spoiled, "it is only read");
    assert_eq!(site.permits.held.load(Ordering::SeqCst), 0);

    let policy = WritePolicy {
        checksum: ChecksumKind::Off,
        ..WritePolicy::default()
    };
    let unverified = written(&site.pool.writer, &[noise(65_536)], policy);
    site.pool.vdevs.shape().set_dtl(Guid(10), &[TXG..Txg(11)]);
    let read = site
        .pool
        .pipeline
        .read_stored(&unverified[0], bookmark(7), &IoContext::USER);
    assert!(read.is_ok());
    site.pool.pipeline.finish_healing();
    assert_eq!(site.permits.held.load(Ordering::SeqCst), 0);
}

/// Reading does not end a leaf's being behind, so that every read would write to it.
#[test]
fn leaves_that_missed_a_block_get_it_once() {
    let site = site(Layout::Mirror);
    let before = site.image(10);
    site.spoil(10);
    site.pool.vdevs.shape().set_dtl(Guid(10), &[TXG..Txg(11)]);
    site.read_all();
    let end = usize::try_from(site.pool.space.taken()).expect("small");
    assert!(site.image(10)[..end] == before[..end]);
    let held = site.permits.held.load(Ordering::SeqCst);
    assert_eq!(held, site.blocks.len() as u64);
    site.read_all();
    assert_eq!(site.permits.held.load(Ordering::SeqCst), held);
    assert!(site.listener.take().is_empty(), "that is no news");

    site.spoil(10);
    for (pointer, _) in &site.blocks {
        let resilver =
            site.pool
                .pipeline
                .mend(pointer, bookmark(7), MendScope::Stale, &IoContext::USER);
        let mended = resilver.expect("two sides are right");
        assert_eq!((mended.repairs, mended.unrepaired.len()), (1, 0));
    }
    assert!(site.image(10)[..end] == before[..end]);
}

/// Faults that are made on purpose fail as real ones do, by copy, and are gone when they end.
#[test]
fn blocks_that_fail_on_purpose_take_the_ordinary_path() {
    let site = site_with(Layout::Mirror, 2);
    let faults = site.pool.pipeline.faults();
    let fault = |error, copies| cenote_injection::BlockFault {
        error,
        chance: cenote_injection::Chance::ALWAYS,
        objset: bookmark(7).objset,
        object: Some(bookmark(7).object),
        kind: None,
        level: Level(0),
        blocks: 7..=7,
        copies,
    };
    let (pointer, _) = &site.blocks[0];
    let read = || {
        let pipeline = &site.pool.pipeline;
        let context = cenote_io::ReadContext {
            bookmark: bookmark(7),
            keys: None,
        };
        let read = pipeline.read(pointer, context, &IoContext::USER);
        (
            read.map_err(|error| error.to_string()),
            site.listener.take(),
        )
    };
    let told_of =
        |told: &[(FaultClass, Option<Guid>)], class| told.iter().any(|(of, _)| *of == class);

    // The second copy serves; the sides of the first one are charged.
    faults.add(1, fault(BlockError::Checksum, 0b01));
    let (good, told) = read();
    assert!(
        good.is_ok() && told_of(&told, FaultClass::Checksum),
        "{told:?}"
    );
    site.read_all();
    faults.remove(1);

    faults.add(2, fault(BlockError::Io, 0));
    let (lost, told) = read();
    assert!(
        lost.is_err() && told_of(&told, FaultClass::Data),
        "{told:?}"
    );
    assert!(told_of(&told, FaultClass::Io), "{told:?}");
    let (pipeline, io) = (&site.pool.pipeline, IoContext::USER);
    let batch = pipeline.read_stored_batch(&[(*pointer, bookmark(7))], &io);
    assert!(batch[0].is_none());
    let other = pipeline.read_stored(pointer, bookmark(6), &io);
    assert!(other.is_ok(), "only block 7 fails");
    faults.remove(2);

    for (error, class) in [
        (BlockError::Decompress, FaultClass::Data),
        (BlockError::Decrypt, FaultClass::Authentication),
    ] {
        faults.add(3, fault(error, 0));
        let (lost, told) = read();
        assert!(lost.is_err() && told == [(class, None)], "{told:?}");
        faults.remove(3);
    }
    let (good, told) = read();
    assert!(good.is_ok() && told.is_empty(), "{told:?}");
}
