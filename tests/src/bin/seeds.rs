//! Cuts small seeds for the fuzz targets out of golden pools: `cargo run -p cenote-tests --bin
//! seeds`. They are part of the repository, so that a session starts from real structures.

#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use cenote_codec::Compression;
use cenote_codec::compress::compress;
use cenote_ondisk::{Dnode, label, wire};
use cenote_tests::golden::{Golden, workspace_root};
use cenote_tests::mutate::Devices;
use cenote_tests::mutate::structure::Structure;
use std::collections::BTreeMap;
use std::fs;

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

fn main() -> Result<()> {
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

/// `bytes` up to the last that is not zero, rounded up to whole words.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    &bytes[..end.next_multiple_of(8).min(bytes.len())]
}
