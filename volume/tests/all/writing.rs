//! What was written is read: by whom it was written, and from disk.

use crate::pool::{Random, TestPool, Way, gate, sync};
use cenote_base::{ObjectId, ObjsetId, RealEnv};
use cenote_dataset::{DatasetError, LogSink, OpenDataset};
use cenote_dmu::{BlockBuffer, ObjectSet, Transaction, TxCost, TxgGate};
use cenote_ondisk::intent_log::record::{Record, RecordBody, WriteData};
use cenote_ondisk::objset::ObjsetKind;
use cenote_volume::{Volume, VolumeError, format_new};
use std::sync::{Arc, Mutex};

const BLOCK: u64 = 8 << 10;
const BLOCKS: u64 = 64;
const SIZE: u64 = BLOCK * BLOCKS;

struct World {
    pool: Arc<TestPool>,
    gate: Arc<TxgGate>,
    set: Arc<ObjectSet>,
    volume: Volume,
}

impl World {
    fn new() -> Self {
        Self::of(TestPool::new(64))
    }

    fn of(pool: Arc<TestPool>) -> Self {
        let gate = gate();
        let set = pool.create(&gate, ObjsetKind::Volume, 0);
        let tx = gate.begin(TxCost::default()).expect("begins");
        format_new(&set, &tx, SIZE, BLOCK).expect("formats");
        drop(tx);
        let env = Arc::new(RealEnv::new());
        let open = OpenDataset::of_set(Arc::clone(&set), Arc::clone(&gate), env);
        let volume = Volume::open_writable(Arc::new(open)).expect("opens");
        Self {
            pool,
            gate,
            set,
            volume,
        }
    }

    /// The volume as it is on disk.
    fn reopened(&self) -> Volume {
        let root = sync(&self.pool, &self.gate, &self.set);
        Volume::open(self.pool.reopen(root, ObjsetId(7))).expect("opens")
    }
}

fn all(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0xEE; usize::try_from(volume.size()).expect("small")];
    volume.read(0, &mut bytes).expect("readable");
    bytes
}

/// The same bytes cut where blocks begin.
fn pieces(offset: u64, data: &[u8]) -> Vec<BlockBuffer> {
    let (mut pieces, mut rest, mut at) = (Vec::new(), data, offset);
    while !rest.is_empty() {
        let room = usize::try_from(BLOCK - at % BLOCK).expect("small");
        let (piece, left) = rest.split_at(room.min(rest.len()));
        pieces.push(BlockBuffer::copy_of(piece));
        (rest, at) = (left, at + piece.len() as u64);
    }
    pieces
}

/// Random writes and zeros, of parts of blocks and of whole ones, against an array.
#[test]
fn a_volume_is_an_array_of_bytes() {
    let seed = std::env::var("CENOTE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(20);
    println!("CENOTE_SEED={seed}");
    let mut random = Random::new(seed);
    let world = World::new();
    let mut model = vec![0_u8; usize::try_from(SIZE).expect("small")];
    for step in 0..600_u64 {
        let unit = [1, 512, BLOCK][usize::try_from(random.below(3)).expect("small")];
        let offset = random.below(SIZE / unit) * unit;
        let length = (random.below(4 * BLOCK / unit) * unit).min(SIZE - offset);
        let range = usize::try_from(offset).expect("small")..;
        let range = range.start..range.start + usize::try_from(length).expect("small");
        match random.below(4) {
            0 => {
                world.volume.zero(offset, length).expect("zeroes");
                model[range].fill(0);
            }
            way => {
                let byte = u8::try_from(step % 255 + 1).expect("small");
                let data = vec![byte; range.len()];
                match way {
                    1 => world.volume.write(offset, &data),
                    _ => world
                        .volume
                        .write_pieces(offset, &mut pieces(offset, &data)),
                }
                .expect("writes");
                model[range].fill(byte);
            }
        }
        if step % 50 == 49 {
            assert!(all(&world.volume) == model, "step {step}");
            assert!(all(&world.reopened()) == model, "step {step}, from disk");
        }
    }
    world.volume.zero(0, SIZE).expect("zeroes");
    let empty = world.reopened();
    assert_eq!(empty.next_data(0).expect("readable"), None, "all is holes");
}

/// A whole block is written without a look at what it replaces; a part of one needs it.
#[test]
fn whole_blocks_are_not_read_before_they_are_written() {
    // Nothing stays in memory.
    let world = World::of(TestPool::with(64, 0, Way::Plain));
    let size = usize::try_from(BLOCK).expect("small");
    let before: Vec<u64> = world.pool.in_use().into_keys().collect();
    world.volume.write(BLOCK, &vec![1; size]).expect("writes");
    let root = sync(&world.pool, &world.gate, &world.set);
    // Everything but the volume's metadata is that block.
    let stored = world.pool.in_use().into_iter();
    let mut stored = stored.filter(|(offset, size)| *size == BLOCK && !before.contains(offset));
    let (offset, _) = stored.next_back().expect("the block is stored");
    let set = world.pool.reopen(root, ObjsetId(7));
    world.pool.harm(offset);
    let mut bytes = vec![0; size];
    let read = Volume::open(set).expect("opens").read(BLOCK, &mut bytes);
    assert!(read.is_err(), "the right block was damaged");
    let part = world.volume.write(BLOCK + 7, b"part");
    assert!(matches!(part, Err(VolumeError::Dmu(_))), "{part:?}");
    world.volume.write(BLOCK, &vec![2; size]).expect("whole");
    world.volume.read(BLOCK, &mut bytes).expect("readable");
    assert!(bytes.iter().all(|byte| *byte == 2));
}

#[test]
fn what_lies_outside_is_refused_and_so_are_changes_of_a_closed_volume() {
    let world = World::new();
    for (offset, length) in [(SIZE, 1), (SIZE - 1, 2), (u64::MAX, 2)] {
        let data = vec![1; length];
        let written = world.volume.write(offset, &data);
        assert!(
            matches!(written, Err(VolumeError::BeyondEnd { .. })),
            "{written:?}"
        );
        let zeroed = world.volume.zero(offset, length as u64);
        assert!(
            matches!(zeroed, Err(VolumeError::BeyondEnd { .. })),
            "{zeroed:?}"
        );
    }
    world.volume.write(SIZE, &[]).expect("nothing, at the end");
    let odd = world.volume.resize(BLOCK + 1);
    assert!(matches!(odd, Err(VolumeError::BadSize { .. })), "{odd:?}");
    let read_only = world.reopened().write(0, b"x");
    assert_eq!(read_only.expect_err("read-only").errno(), 30);
    world.volume.close().expect("writable");
    let late = world.volume.write(0, b"late");
    assert!(
        matches!(late, Err(VolumeError::Dataset(DatasetError::Closed))),
        "{late:?}"
    );
    assert_eq!(
        all(&world.volume),
        vec![0; usize::try_from(SIZE).expect("small")]
    );
}

/// Notes writes, some of them late.
#[derive(Debug, Default)]
struct Tape(Mutex<Vec<(u64, Vec<u8>)>>);

impl LogSink for Tape {
    fn append(&self, _: &Transaction, record: &Record<'_>) {
        let RecordBody::Write { offset, data, .. } = record.body else {
            panic!("{record:?}");
        };
        let WriteData::Immediate(data) = data else {
            panic!("{record:?}");
        };
        for _ in 0..data[0] % 8 {
            std::thread::yield_now();
        }
        let mut tape = self.0.lock().expect("no panic");
        tape.push((offset, data.to_vec()));
    }

    fn append_write(&self, _: &Transaction, _: ObjectId, _: u64, _: u64) {
        panic!("these writes are short");
    }

    fn append_unlogged(&self, _: &Transaction) {
        panic!("all have records");
    }

    fn put_in_order(&self, _: ObjectId) {}

    fn forget(&self, _: ObjectId) {}
}

/// Two concurrent writes of the same bytes could be logged in the wrong order. After a crash the
/// replay then showed data that no reader had seen after the flush.
#[test]
fn writes_of_the_same_bytes_are_logged_in_the_order_in_which_they_were_made() {
    let world = World::new();
    let tape = Arc::new(Tape::default());
    let dataset = world.volume.dataset().expect("writable");
    dataset.set_log_sink(Arc::clone(&tape) as _);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let volume = &world.volume;
            scope.spawn(move || {
                for round in 0..400_u64 {
                    let byte = thread.wrapping_mul(61).wrapping_add(round as u8);
                    let offset = round % 3 * 512;
                    volume.write(offset, &[byte; 2048]).expect("writes");
                }
            });
        }
    });
    let mut model = vec![0; usize::try_from(SIZE).expect("small")];
    for (offset, data) in tape.0.lock().expect("no panic").iter() {
        let start = usize::try_from(*offset).expect("small");
        model[start..start + data.len()].copy_from_slice(data);
    }
    assert!(all(&world.volume) == model, "the log tells another story");
}
