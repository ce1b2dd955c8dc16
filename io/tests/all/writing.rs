//! Blocks through the whole pipeline and back: every function, every layout, every treatment.

use crate::support::{Layout, Pool, bookmark, noise, text};
use cenote_base::{Level, Txg};
use cenote_codec::cipher::{HmacKey, MasterKey, Suite};
use cenote_io::{
    DedupError, DedupPolicy, DedupTable, Duplicate, IoError, ObjsetKeys, Pipeline, ReadContext,
    WritePolicy, WriteRequest, Writer,
};
use cenote_ondisk::ddt::DdtKey;
use cenote_ondisk::{BlockPointer, ChecksumKind, CompressionKind, ObjectType};
use cenote_vdev::IoContext;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

fn request(data: Vec<u8>, policy: WritePolicy) -> WriteRequest {
    WriteRequest {
        data: Arc::new(data.into()),
        bookmark: bookmark(7),
        object_type: ObjectType::PLAIN_FILE,
        level: Level(0),
        fill: 1,
        policy,
        keys: None,
        previous: None,
        form: None,
    }
}

fn write_one(writer: &Writer, request: WriteRequest) -> BlockPointer {
    let mut results = writer.write(Txg(10), 1, vec![request]);
    results.pop().expect("one result").expect("written")
}

fn read(pipeline: &Pipeline, pointer: &BlockPointer, keys: Option<&ObjsetKeys>) -> Vec<u8> {
    let bookmark = bookmark(7);
    let context = ReadContext { bookmark, keys };
    let read = pipeline.read(pointer, context, &IoContext::USER);
    read.unwrap_or_else(|error| panic!("{pointer}: {error}"))
}

/// Contents that compress, that do not, and that are odd in size.
fn samples() -> Vec<Vec<u8>> {
    vec![
        text(131_072),
        noise(131_072),
        text(512),
        noise(512),
        text(1536),
        noise(4608),
        text(1 << 20),
        noise(1 << 19),
    ]
}

#[test]
fn every_function_on_every_layout() {
    let checksums = [
        ChecksumKind::On,
        ChecksumKind::Off,
        ChecksumKind::Fletcher2,
        ChecksumKind::Fletcher4,
        ChecksumKind::Sha256,
        ChecksumKind::Sha512,
        ChecksumKind::Skein,
        ChecksumKind::Edonr,
        ChecksumKind::Blake3,
    ];
    let compressions = [
        CompressionKind::Off,
        CompressionKind::On,
        CompressionKind::Lzjb,
        CompressionKind::Gzip(6),
        CompressionKind::Zle,
        CompressionKind::Lz4,
        CompressionKind::Zstd,
        CompressionKind::Empty,
    ];
    for (index, layout) in Layout::ALL.into_iter().enumerate() {
        let pool = Pool::new(layout);
        let mut requests = Vec::new();
        for (turn, checksum) in checksums.into_iter().enumerate() {
            for compression in compressions {
                let policy = WritePolicy {
                    checksum,
                    compression,
                    copies: (turn % 3) as u8 + 1,
                    ..WritePolicy::default()
                };
                // All samples with every function would be long; each meets each somewhere.
                let samples = samples();
                let sample = &samples[(index + turn) % samples.len()];
                requests.push(request(sample.clone(), policy));
                requests.push(request(text(20_480), policy));
            }
        }
        let results = pool.writer.write(Txg(10), 1, requests.clone());
        pool.vdevs.shape().flush().expect("memory flushes");
        for lost in pool.survivable() {
            let reopened = pool.reopen(lost);
            for (request, result) in requests.iter().zip(&results) {
                let pointer = result.as_ref().expect("written");
                assert_eq!(pointer.check(), Ok(()));
                assert!(pointer.physical_size() <= pointer.logical_size());
                let back = read(&reopened, pointer, None);
                assert!(back == request.data[..], "{layout:?} {pointer}");
            }
        }
    }
}

#[test]
fn holes_and_embedded_blocks_take_no_space() {
    let pool = Pool::new(Layout::Disk);
    let policy = WritePolicy::default();
    let hole = write_one(&pool.writer, request(vec![0; 131_072], policy));
    assert_eq!(hole, BlockPointer::HOLE);
    let mut tiny = vec![0; 131_072];
    tiny[77_777] = 5;
    let zstd = WritePolicy {
        compression: CompressionKind::Zstd,
        ..policy
    };
    let embedded = write_one(&pool.writer, request(tiny.clone(), zstd));
    assert!(embedded.is_embedded());
    assert_eq!(read(&pool.pipeline, &embedded, None), tiny);
    assert_eq!(pool.space.taken(), 0);
    let stored = WritePolicy {
        embed: false,
        ..policy
    };
    let stored = write_one(&pool.writer, request(tiny.clone(), stored));
    assert!(!stored.is_embedded() && !stored.is_hole());
    assert_eq!(read(&pool.pipeline, &stored, None), tiny);
    let previous = WriteRequest {
        previous: Some(stored),
        ..request(vec![0; 131_072], policy)
    };
    let hole = write_one(&pool.writer, previous);
    assert!(hole.is_hole() && hole.logical_birth() == Txg(10));
    let off = WritePolicy {
        compression: CompressionKind::Off,
        ..policy
    };
    let zeros = write_one(&pool.writer, request(vec![0; 4096], off));
    assert!(!zeros.is_hole(), "zeros are data without compression");
    assert_eq!(read(&pool.pipeline, &zeros, None), vec![0; 4096]);
}

#[test]
fn metadata_is_rewritten_in_place_from_the_second_pass_on() {
    let pool = Pool::new(Layout::Raidz2);
    let policy = WritePolicy {
        copies: 3,
        embed: false,
        ..WritePolicy::default()
    };
    let again = |data: Vec<u8>, previous, pass| {
        let request = WriteRequest {
            object_type: ObjectType::OBJECT_DIRECTORY,
            previous: Some(previous),
            ..request(data, policy)
        };
        let mut results = pool.writer.write(Txg(10), pass, vec![request]);
        results.pop().expect("one result").expect("written")
    };
    let first = write_one(&pool.writer, request(text(131_072), policy));
    let other = again(text(131_072), first, 1);
    assert_ne!(other.dva(0), first.dva(0), "the first pass allocates");
    let mut smaller = text(131_072);
    smaller[..100_000].fill(b'x');
    let second = again(smaller.clone(), first, 2);
    assert_eq!(second.words[..6], first.words[..6]);
    assert_eq!(second.physical_size(), first.physical_size());
    assert!(read(&pool.pipeline, &second, None) == smaller);
    let third = again(noise(131_072), second, 3);
    assert_ne!(third.dva(0), first.dva(0), "it has grown");
    let fourth = again(text(131_072), third, 4);
    assert_eq!(fourth.dva(0), third.dva(0));
    assert_eq!(fourth.compression(), Some(CompressionKind::Off));
    let last = again(text(131_072), first, 9);
    assert_eq!(
        last.compression(),
        Some(CompressionKind::Off),
        "so late nothing is compressed"
    );
    let older = WriteRequest {
        previous: Some(fourth),
        ..request(text(131_072), policy)
    };
    let mut results = pool.writer.write(Txg(11), 2, vec![older]);
    let newer = results.pop().expect("one").expect("written");
    assert_ne!(
        newer.dva(0),
        fourth.dva(0),
        "what is on disk is never overwritten"
    );
}

/// Regression: each pass made new gangs. Where the metadata itself was in gangs, that changed the
/// space maps each time, and the group never ended.
#[test]
fn gangs_are_rewritten_in_place_too() {
    for (layout, piece, copies) in [(Layout::Disk, 4096, 1), (Layout::Raidz2, 16_384, 3)] {
        let pool = Pool::new(layout);
        pool.space.limit_pieces(piece);
        let policy = WritePolicy {
            copies,
            compression: CompressionKind::Off,
            ..WritePolicy::default()
        };
        let write = |data: &[u8], previous, pass| {
            let request = WriteRequest {
                object_type: ObjectType::OBJECT_DIRECTORY,
                previous,
                ..request(data.to_vec(), policy)
            };
            let mut results = pool.writer.write(Txg(10), pass, vec![request]);
            results.pop().expect("one result").expect("written")
        };
        let first = write(&noise(131_072), None, 1);
        assert!(first.is_gang(), "{layout:?}");
        let taken = pool.space.taken();
        let mut data = noise(131_072);
        data.reverse();
        let second = write(&data, Some(first), 2);
        assert_eq!(second.words[..6], first.words[..6], "{layout:?}");
        assert_eq!(pool.space.taken(), taken, "it is where it was");
        assert!(read(&pool.pipeline, &second, None) == data);
        assert_ne!(write(&data, Some(second), 1).dva(0), first.dva(0));
    }
}

#[test]
fn equal_blocks_are_not_written_again() {
    let pool = Pool::new(Layout::Mirror);
    let strong = WritePolicy {
        checksum: ChecksumKind::Sha256,
        ..WritePolicy::default()
    };
    let again = |policy, data: Vec<u8>, previous| {
        let request = WriteRequest {
            previous: Some(previous),
            ..request(data, policy)
        };
        let mut results = pool.writer.write(Txg(20), 1, vec![request]);
        results.pop().expect("one result").expect("written")
    };
    let first = write_one(&pool.writer, request(text(131_072), strong));
    assert_eq!(again(strong, text(131_072), first), first);
    assert_ne!(again(strong, noise(131_072), first), first);
    let weak = WritePolicy::default();
    let first = write_one(&pool.writer, request(text(131_072), weak));
    assert_ne!(
        again(weak, text(131_072), first),
        first,
        "fletcher4 proves nothing"
    );
}

#[test]
fn gangs_are_made_where_space_is_in_pieces() {
    for (layout, piece, copies) in [
        (Layout::Disk, 4096, 1),
        (Layout::Raidz2, 16_384, 2),
        (Layout::Mirror, 65_536, 3),
        (Layout::Draid, 12_288, 1),
    ] {
        let pool = Pool::new(layout);
        pool.space.limit_pieces(piece);
        let policy = WritePolicy {
            copies,
            compression: CompressionKind::Off,
            ..WritePolicy::default()
        };
        let data = noise(1 << 20);
        let leader = write_one(&pool.writer, request(data.clone(), policy));
        assert!(leader.is_gang(), "{layout:?}");
        assert!(read(&pool.pipeline, &leader, None) == data);
        let parts = pool
            .pipeline
            .gang_parts(&leader, bookmark(7), &IoContext::USER)
            .expect("parts");
        assert!(parts.len() > 3, "gangs in gangs");
        // The first address counts all the space below, with that of all the headers.
        let space = |pointer: &BlockPointer| pointer.dva(0).asize();
        let leaves = parts.iter().filter(|part| !part.is_gang());
        let leaves: u64 = leaves.map(space).sum();
        assert!(space(&leader) > leaves);
        let all: u64 = leader.dvas().map(|dva| dva.asize()).sum();
        assert_eq!(all, pool.space.taken(), "{layout:?}");
    }
    let pool = Pool::new(Layout::Disk);
    pool.space.limit_pieces(512);
    let results = pool.writer.write(
        Txg(10),
        1,
        vec![request(noise(512), WritePolicy::default())],
    );
    assert!(results[0].is_ok());
    pool.space.limit_pieces(0);
    let results = pool.writer.write(
        Txg(10),
        1,
        vec![request(noise(512), WritePolicy::default())],
    );
    assert!(matches!(results[0], Err(IoError::NoSpace { .. })));
}

fn keys(suite: Suite) -> Arc<ObjsetKeys> {
    Arc::new(ObjsetKeys::new(
        MasterKey::new(suite, [7; 32]),
        HmacKey::new([9; 64]),
    ))
}

/// A block of dnodes: one free, one with a system attribute bonus, one of two slots.
fn dnodes() -> Vec<u8> {
    let mut block = vec![0; 16_384];
    for (slot, extra) in [(1, 0), (2, 1), (5, 0)] {
        let dnode = &mut block[slot * 512..];
        dnode[0] = 19;
        dnode[1] = 17;
        dnode[2] = 1;
        dnode[3] = 1;
        dnode[4] = 44;
        dnode[10] = 168;
        dnode[12] = extra;
        let end = 512 * (1 + usize::from(extra));
        dnode[192..end]
            .iter_mut()
            .enumerate()
            .for_each(|(i, byte)| *byte = i as u8);
    }
    block
}

/// A block of each kind: ciphertext, clear metadata, an indirect block, dnodes, an object set.
fn blocks_to_seal(
    pool: &Pool,
    sealed: &dyn Fn(Vec<u8>, ObjectType, u8) -> WriteRequest,
) -> Vec<(Vec<u8>, ObjectType, u8)> {
    let file = write_one(
        &pool.writer,
        sealed(text(131_072), ObjectType::PLAIN_FILE, 0),
    );
    assert!(file.has_crypt_parameters() && file.dvas().count() == 2);
    let noisy = write_one(&pool.writer, sealed(noise(4096), ObjectType::PLAIN_FILE, 0));
    let mut indirect = vec![0; 4096];
    indirect[..128].copy_from_slice(&file.encode());
    indirect[256..384].copy_from_slice(&noisy.encode());
    let mut objset = vec![0; 4096];
    objset[..512].copy_from_slice(&dnodes()[512..1024]);
    objset[1024..1536].copy_from_slice(&dnodes()[512..1024]);
    objset[704] = 2;
    objset[712] = 1;
    vec![
        (text(131_072), ObjectType::PLAIN_FILE, 0),
        (noise(4096), ObjectType::PLAIN_FILE, 0),
        (text(16_384), ObjectType::MASTER_NODE, 0),
        (indirect, ObjectType::PLAIN_FILE, 1),
        (dnodes(), ObjectType::DNODE, 0),
        (objset.clone(), ObjectType::OBJSET, 0),
    ]
}

#[test]
fn every_kind_of_block_of_an_encrypted_dataset() {
    let suites = [
        Suite::Aes128Ccm,
        Suite::Aes192Ccm,
        Suite::Aes256Ccm,
        Suite::Aes128Gcm,
        Suite::Aes192Gcm,
        Suite::Aes256Gcm,
    ];
    for (suite, layout) in suites.into_iter().zip(Layout::ALL.into_iter().cycle()) {
        let pool = Pool::new(layout);
        let keys = keys(suite);
        let policy = WritePolicy {
            encrypt: true,
            copies: 3,
            ..WritePolicy::default()
        };
        let sealed = |data, object_type, level| WriteRequest {
            object_type,
            level: Level(level),
            keys: Some(Arc::clone(&keys)),
            ..request(data, policy)
        };
        let blocks = blocks_to_seal(&pool, &sealed);
        for (data, object_type, level) in blocks {
            let request = sealed(data.clone(), object_type, level);
            let pointer = write_one(&pool.writer, request);
            assert!(pointer.uses_crypt() && !pointer.is_embedded());
            let mut back = read(&pool.pipeline, &pointer, Some(&keys));
            if object_type == ObjectType::OBJSET {
                assert_ne!(back[720..784], [0; 64], "the two MACs are inside");
                back[720..784].fill(0);
            }
            assert!(back == data, "{suite:?} {pointer}");
            let stranger = ObjsetKeys::new(MasterKey::new(suite, [8; 32]), HmacKey::new([1; 64]));
            let (bookmark, keys) = (bookmark(7), Some(&stranger));
            let refused =
                pool.pipeline
                    .read(&pointer, ReadContext { bookmark, keys }, &IoContext::USER);
            let is_public = level > 0;
            assert_eq!(refused.is_ok(), is_public, "{suite:?} {pointer}");
        }
        let zeros = write_one(
            &pool.writer,
            sealed(vec![0; 4096], ObjectType::PLAIN_FILE, 0),
        );
        assert!(zeros.is_hole(), "zeros are holes before they are secrets");
        pool.space.limit_pieces(16_384);
        let gang = write_one(
            &pool.writer,
            sealed(noise(131_072), ObjectType::PLAIN_FILE, 0),
        );
        assert!(gang.is_gang() && gang.has_crypt_parameters());
        assert!(read(&pool.pipeline, &gang, Some(&keys)) == noise(131_072));
    }
}

#[test]
fn large_calls_keep_their_order() {
    for layout in [Layout::Disk, Layout::Raidz2] {
        let pool = Pool::new(layout);
        let policy = WritePolicy {
            compression: CompressionKind::Off,
            ..WritePolicy::default()
        };
        let data = |index: usize| {
            let mut data = noise(16_384);
            data[..8].copy_from_slice(&(index as u64).to_le_bytes());
            data
        };
        let requests = (0..2000)
            .map(|index| request(data(index), policy))
            .collect();
        let results = pool.writer.write(Txg(10), 1, requests);
        for (index, result) in results.into_iter().enumerate() {
            let pointer = result.expect("written");
            assert!(
                read(&pool.pipeline, &pointer, None) == data(index),
                "{index}"
            );
        }
        let status = pool.vdevs.shape().status();
        let leaves = status.children[0].children.iter();
        let operations: u64 = leaves.map(|leaf| leaf.figures.write_operations).sum();
        assert!(
            operations < 400,
            "neighbours are written at once: {operations}"
        );
    }
}

#[test]
fn pools_opened_for_reading_and_nonsense_are_refused() {
    let pool = Pool::new(Layout::Disk);
    let policy = WritePolicy::default();
    let refused = |request| {
        let mut results = pool.writer.write(Txg(10), 1, vec![request]);
        results.pop().expect("one result").is_err()
    };
    assert!(
        refused(request(vec![1; 100], policy)),
        "not a multiple of 512"
    );
    assert!(refused(request(vec![], policy)));
    let copies = WritePolicy {
        copies: 4,
        ..policy
    };
    assert!(refused(request(text(512), copies)));
    let label = WritePolicy {
        checksum: ChecksumKind::Label,
        ..policy
    };
    assert!(refused(request(text(512), label)));
    let no_keys = WritePolicy {
        encrypt: true,
        ..policy
    };
    assert!(refused(request(text(512), no_keys)));
}

/// A table in memory that knows no copies.
#[derive(Debug, Default)]
struct Remembered(Mutex<HashMap<DdtKey, (BlockPointer, u64)>>);

impl DedupTable for Remembered {
    fn find(&self, pointer: &BlockPointer, _: usize) -> Result<Duplicate, DedupError> {
        let known = self.0.lock().expect("no thread panicked");
        Ok(match known.get(&DdtKey::of(pointer)) {
            None => Duplicate::None,
            Some((known, _)) => Duplicate::Stored {
                dvas: [known.dva(0), known.dva(1), known.dva(2)],
                birth: known.physical_birth(),
            },
        })
    }

    fn refer(&self, pointer: &BlockPointer, _: usize) -> Result<(), DedupError> {
        let mut known = self.0.lock().expect("no thread panicked");
        let entry = known.entry(DdtKey::of(pointer)).or_insert((*pointer, 0));
        entry.1 += 1;
        Ok(())
    }
}

#[test]
fn equal_blocks_share_their_place_clear_or_encrypted() {
    for (layout, suite, verify) in [
        (Layout::Disk, None, true),
        (Layout::Mirror, Some(Suite::Aes256Gcm), false),
        (Layout::Raidz2, Some(Suite::Aes128Ccm), true),
    ] {
        let table = Arc::new(Remembered::default());
        let pool = Pool::new(layout).with_dedup(Arc::clone(&table) as Arc<dyn DedupTable>);
        let policy = WritePolicy {
            checksum: ChecksumKind::Sha256,
            dedup: Some(DedupPolicy { verify }),
            encrypt: suite.is_some(),
            copies: 2,
            ..WritePolicy::default()
        };
        let keys = suite.map(keys);
        let of = |data: Vec<u8>| WriteRequest {
            keys: keys.clone(),
            ..request(data, policy)
        };
        let blocks = [
            text(131_072),
            noise(16_384),
            text(131_072),
            noise(16_384),
            text(8192),
        ];
        let requests = blocks.iter().cloned().map(of).collect();
        let results = pool.writer.write(Txg(10), 1, requests);
        let first: Vec<BlockPointer> = results.into_iter().map(|r| r.expect("written")).collect();
        assert_eq!(first[0], first[2]);
        assert_eq!(first[1], first[3]);
        assert!(first.iter().all(BlockPointer::is_dedup));
        let taken = pool.space.taken();
        let requests = blocks.iter().cloned().map(of).collect();
        let again = pool.writer.write(Txg(11), 1, requests);
        assert_eq!(pool.space.taken(), taken, "nothing new is stored");
        for (pointer, data) in again.iter().zip(&blocks) {
            let pointer = pointer.as_ref().expect("written");
            assert_eq!(
                (pointer.logical_birth(), pointer.physical_birth()),
                (Txg(11), Txg(10))
            );
            assert!(
                read(&pool.pipeline, pointer, keys.as_deref()) == *data,
                "{pointer}"
            );
        }
        let mut counts: Vec<u64> = {
            let known = table.0.lock().expect("no thread panicked");
            known.values().map(|(_, count)| *count).collect()
        };
        counts.sort_unstable();
        assert_eq!(counts, [2, 4, 4]);
        // The same contents over the same block change nothing, not even its birth.
        let over = WriteRequest {
            previous: Some(first[0]),
            ..of(text(131_072))
        };
        let mut same = pool.writer.write(Txg(12), 1, vec![over]);
        assert_eq!(same.pop().expect("one").expect("written"), first[0]);
    }
}
