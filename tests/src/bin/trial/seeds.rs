//! Cuts small seeds for the fuzz targets out of golden pools: `cargo run -p cenote-tests --bin
//! trial seeds`. They are part of the repository, so that a session starts from real structures.

use anyhow::{Context, Result, bail};
use cenote_codec::Compression;
use cenote_codec::compress::compress;
use cenote_ondisk::{Dnode, label, wire};
use cenote_tests::golden::{Golden, workspace_root};
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use cenote_tests::words::{self, Words};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

/// Pools with many kinds of structures.
const KINDS: [&str; 4] = ["quotas", "snapshots-clones", "large-dnodes", "version28"];

/// Seeds of one target, and the longest of them.
const SEEDS_MAX: usize = 6;
const SEED_SIZE_MAX: usize = 16 << 10;

/// First words of ZAP blocks: format/2b 5.
const ZAP_LEAF: u64 = 0x8000_0000_0000_0000;
const ZAP_HEADER: u64 = 0x8000_0000_0000_0001;
const ZAP_MICRO: u64 = 0x8000_0000_0000_0003;

#[derive(Default)]
struct Seeds {
    by_target: BTreeMap<&'static str, Vec<Vec<u8>>>,
}

impl Seeds {
    fn add(&mut self, target: &'static str, bytes: &[u8]) {
        let seeds = self.by_target.entry(target).or_default();
        let is_new = seeds.iter().all(|seed| seed[..] != *bytes);
        if seeds.len() < SEEDS_MAX && bytes.len() <= SEED_SIZE_MAX && is_new {
            seeds.push(bytes.to_vec());
        }
    }
}

/// Writes them.
pub fn main(words: Words) -> ExitCode {
    words::end("seeds", run(words).map(|()| true))
}

fn run(mut words: Words) -> Result<()> {
    if let Some(word) = words.next() {
        bail!("'{word}' is not understood");
    }
    let mut seeds = Seeds::default();
    for kind in KINDS {
        let Some(golden) = Golden::find(kind)? else {
            continue;
        };
        let directory = tempfile::tempdir()?;
        let devices = Devices::open(golden.copy_to(directory.path())?)?;
        let structure = Structure::read(&devices)?.context("a pool of disks")?;
        let size = usize::try_from(label::CONFIG_SIZE)?;
        let config = devices.read(0, label::CONFIG_OFFSET, size)?;
        seeds.add("label_config", without_zeros(&config[..size - 40]));
        seeds.add("uberblock", &structure.uberblock().encode());
        seeds.add("block_pointer", &structure.uberblock().root.encode());
        for (what, content) in structure.contents() {
            add_block(&mut seeds, &what, content);
        }
    }
    for (number, kind) in [
        Compression::Lzjb,
        Compression::Gzip(6),
        Compression::Zle,
        Compression::Lz4,
        Compression::Zstd,
    ]
    .into_iter()
    .enumerate()
    {
        let text = "a line of text, and zeros behind it\n\0\0\0\0\0\0\0\0".repeat(60);
        let data = &text.as_bytes()[..text.len() - text.len() % 4];
        let mut out = vec![0; 4096];
        let length = compress(kind, 3, data, 4096, &mut out).context("it compresses")?;
        let size = u16::try_from(data.len() / 4)?.to_le_bytes();
        let header = [u8::try_from(number)?, size[0], size[1]];
        seeds.add("decompress", &[&header, &out[..length]].concat());
        seeds.add("compress", &[&header[..1], data].concat());
    }
    add_partition_tables(&mut seeds);
    add_vdev_trees(&mut seeds)?;
    for (target, list) in seeds.by_target {
        let directory = workspace_root().join("fuzz/seeds").join(target);
        fs::create_dir_all(&directory)?;
        for (index, seed) in list.iter().enumerate() {
            fs::write(directory.join(format!("golden{index}")), seed)?;
        }
    }
    Ok(())
}

fn add_block(seeds: &mut Seeds, what: &str, content: &[u8]) {
    match what {
        "packed nvlist" => seeds.add("nvlist", without_zeros(content)),
        "DMU objset" => seeds.add("objset", content),
        "SPA space map" => seeds.add("space_map", &[&[9], without_zeros(content)].concat()),
        "DMU dnode" => {
            for slot in content.chunks(512) {
                if let Ok(Some(dnode)) = Dnode::decode(slot) {
                    seeds.add("dnode", slot);
                    match dnode.bonus_type.to_string().as_str() {
                        "DSL directory" | "DSL dataset" | "bpobj header" => {
                            seeds.add("dsl", &dnode.bonus);
                        }
                        "System attributes" | "ZFS znode" => {
                            seeds.add("attributes", &dnode.bonus);
                            seeds.add("attributes", &[&[0; 8], &dnode.bonus[..]].concat());
                        }
                        _ => {}
                    }
                }
            }
            seeds.add(
                "byteswap",
                &[&[0, 10], &content[..content.len().min(2048)]].concat(),
            );
        }
        _ => match wire::u64_le(content, 0, "block") {
            Ok(ZAP_MICRO) => seeds.add("zap_micro", content),
            Ok(ZAP_HEADER) => seeds.add("zap_fat", content),
            Ok(ZAP_LEAF) => seeds.add("zap_leaf", content),
            _ => {}
        },
    }
}

/// Small disks with each kind of partition table; the target makes the checksums right.
fn add_partition_tables(seeds: &mut Seeds) {
    const SIZE: usize = 8192;
    let put = |image: &mut Vec<u8>, at: usize, bytes: &[u8]| {
        image[1 + at..1 + at + bytes.len()].copy_from_slice(bytes);
    };
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    for sector in [512, 4096] {
        let mut gpt = vec![0; 1 + SIZE];
        gpt[0] = 65;
        put(&mut gpt, sector, b"EFI PART");
        put(&mut gpt, sector + 12, &words(&[92]));
        // Behind the header, in the same sector where sectors are large: 2 entries of 128 bytes.
        let entries_sector = if sector == 512 { 2 } else { 1 };
        put(&mut gpt, sector + 72, &words(&[entries_sector, 0, 2, 128]));
        if sector == 512 {
            put(&mut gpt, 1024, &[1; 16]);
            put(&mut gpt, 1024 + 32, &words(&[34, 0, 99, 0]));
            put(&mut gpt, 1024 + 128, &[2; 16]);
            put(&mut gpt, 1024 + 160, &words(&[100, 0, 120, 0]));
        }
        seeds.add("partition", &gpt);
    }
    // A primary partition, and an extended one that holds two logical ones.
    let mut mbr = vec![0; 1 + SIZE];
    mbr[0] = 64;
    let entry = |kind: u32, first: u32, count: u32| words(&[0, kind, first, count]);
    put(&mut mbr, 446, &entry(0x83, 8, 16));
    put(&mut mbr, 462, &entry(0x05, 2, 100));
    put(&mut mbr, 1024 + 446, &entry(0x83, 1, 4));
    put(&mut mbr, 1024 + 462, &entry(0x05, 4, 20));
    put(&mut mbr, 3072 + 446, &entry(0xbf, 1, 4));
    for table in [0, 1024, 3072] {
        put(&mut mbr, table + 510, &[0x55, 0xaa]);
    }
    seeds.add("partition", &mbr);
}

/// The configurations of pools with each kind of vdev.
fn add_vdev_trees(seeds: &mut Seeds) -> Result<()> {
    for kind in [
        "mirror2",
        "raidz1-3",
        "raidz3-8",
        "draid2",
        "device-removal",
    ] {
        let Some(golden) = Golden::find(kind)? else {
            continue;
        };
        let device = File::open(golden.devices()?.join(&golden.device_names()[0]))?;
        let mut config = vec![0; usize::try_from(label::CONFIG_SIZE)?];
        device.read_exact_at(&mut config, label::CONFIG_OFFSET)?;
        let config = without_zeros(&config[..config.len() - 40]);
        seeds.add("vdev_tree", &[&[0x35; 8], config].concat());
    }
    Ok(())
}

/// `bytes` up to the last that is not zero, rounded up to whole words.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    &bytes[..end.next_multiple_of(8).min(bytes.len())]
}
