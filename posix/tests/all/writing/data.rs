//! Contents: block sizes, truncation, holes.

use super::{World, check, contents, errno};
use crate::pool::Random;
use cenote_base::ObjectId;
use cenote_posix::SeekTarget;
use cenote_posix::write::{FallocateMode, WriteOptions};

fn block_size(world: &World, id: ObjectId) -> u64 {
    let object = world.set.object(id).expect("exists");
    object.dnode().data_block_size
}

#[test]
fn small_files_have_one_block_of_their_size() {
    let world = World::new();
    let file = world.file(world.root(), "f");
    assert_eq!(block_size(&world, file), 512);
    world.write(file, 0, b"hello");
    assert_eq!(block_size(&world, file), 512);
    world.write(file, 5, &[7; 1000]);
    assert_eq!(block_size(&world, file), 1024);
    assert_eq!(contents(&world.fs, file).len(), 1005);
    world.write(file, 4000, b"x");
    assert_eq!(block_size(&world, file), 4096);
    world.write(file, 100_000, b"end");
    assert_eq!(block_size(&world, file), 16 << 10);
    let mut expected = vec![0; 100_003];
    expected[..5].copy_from_slice(b"hello");
    expected[5..1005].fill(7);
    expected[4000] = b'x';
    expected[100_000..].copy_from_slice(b"end");
    assert!(contents(&world.fs, file) == expected);
    let fs = world.reopened();
    assert!(contents(&fs, file) == expected);
    check(&fs);
}

#[test]
fn appending_and_limits() {
    let world = World::new();
    let file = world.file(world.root(), "f");
    let options = WriteOptions {
        append: true,
        ..WriteOptions::default()
    };
    for i in 0..100_u64 {
        let at = world.fs.write(file, 0, &[i as u8; 999], options);
        assert_eq!(at.expect("writes"), i * 999);
    }
    assert_eq!(contents(&world.fs, file)[99 * 999], 99);
    let beyond = world
        .fs
        .write(file, i64::MAX as u64, b"xx", WriteOptions::default());
    assert_eq!(errno(beyond), 27);
    assert_eq!(errno(world.fs.truncate(file, 1 << 63)), 27);
    assert_eq!(errno(world.fs.truncate(world.root(), 0)), 21);
    world.fs.truncate(file, 1 << 50).expect("a hole");
    let stat = world.fs.stat(&world.fs.znode(file).expect("exists"));
    assert_eq!(stat.size, 1 << 50);
}

#[test]
fn whatever_is_cut_off_is_zero_when_the_file_grows_again() {
    let world = World::new();
    let file = world.file(world.root(), "f");
    world.write(file, 0, &[1; 50_000]);
    world.reopened();
    world.fs.truncate(file, 20_000).expect("cuts");
    world.fs.truncate(file, 40_000).expect("grows");
    let mut expected = vec![1; 20_000];
    expected.resize(40_000, 0);
    assert!(contents(&world.fs, file) == expected);
    let fs = world.reopened();
    assert!(contents(&fs, file) == expected);
    world.fs.truncate(file, 0).expect("cuts");
    world.write(file, 3, b"x");
    assert_eq!(contents(&world.reopened(), file), b"\0\0\0x");
}

/// Random writes, truncations and holes of one file, compared with bytes.
#[test]
fn agrees_with_bytes() {
    for seed in 1..6 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let world = World::new();
        let file = world.file(world.root(), "f");
        let mut model: Vec<u8> = Vec::new();
        for step in 0..400 {
            let span = if step < 100 { 10_000 } else { 200_000 };
            let offset = random.below(span);
            let length = random.below(40_000) + 1;
            let (start, end) = (offset as usize, (offset + length) as usize);
            match random.below(8) {
                0 => {
                    world.fs.truncate(file, offset).expect("truncates");
                    model.resize(start, 0);
                }
                1 | 2 => {
                    let (mode, grows) = match random.below(3) {
                        0 => (FallocateMode::PunchHole, false),
                        1 => (FallocateMode::ZeroRange { keep_size: false }, true),
                        _ => (FallocateMode::ZeroRange { keep_size: true }, false),
                    };
                    let done = world.fs.fallocate(file, offset, length, mode);
                    done.expect("fallocates");
                    if grows && end > model.len() {
                        model.resize(end, 0);
                    }
                    let (start, end) = (start.min(model.len()), end.min(model.len()));
                    model[start..end].fill(0);
                }
                3 if random.below(4) == 0 => {
                    assert!(contents(&world.reopened(), file) == model, "step {step}");
                }
                _ => {
                    let byte = random.below(255) as u8 + 1;
                    world.write(file, offset, &vec![byte; length as usize]);
                    model.resize(model.len().max(end), 0);
                    model[start..end].fill(byte);
                }
            }
            assert!(contents(&world.fs, file) == model, "step {step}");
        }
        let fs = world.reopened();
        assert!(contents(&fs, file) == model);
        check(&fs);
    }
}

#[test]
fn data_and_holes_are_found_before_and_after_the_sync() {
    let world = World::new();
    let file = world.file(world.root(), "f");
    world.write(file, 100_000, b"x");
    world.write(file, 300_000, b"y");
    let seek = |fs: &cenote_posix::FileSystem, offset, target| {
        let znode = fs.znode(file).expect("exists");
        fs.seek(&znode, offset, target)
            .map_err(|error| error.errno())
    };
    let again = world.reopened();
    let block = 16 << 10;
    world.write(file, 200_000, b"z");
    for (fs, written) in [(&world.fs, true), (&again, false)] {
        assert_eq!(seek(fs, 0, SeekTarget::Data), Ok(100_000 / block * block));
        assert_eq!(
            seek(fs, 100_000, SeekTarget::Hole),
            Ok((100_000 / block + 1) * block)
        );
        let next = if written { 200_000 } else { 300_000 };
        let found = seek(fs, 150_000, SeekTarget::Data);
        assert_eq!(found, Ok(next / block * block));
        assert_eq!(seek(fs, 300_001, SeekTarget::Data), Err(6));
    }
}

#[test]
fn large_writes_take_several_transactions() {
    let world = World::new();
    let file = world.file(world.root(), "f");
    let data: Vec<u8> = (0..10_000_000_u32).map(|i| (i / 1000) as u8).collect();
    world.write(file, 12_345, &data);
    assert!(contents(&world.reopened(), file)[12_345..] == data);
}
