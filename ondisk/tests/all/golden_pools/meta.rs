//! The meta object set: every object of it decodes, and what can be summed up is.

use super::reader::{ObjectSet, Pool};
use cenote_base::ObjectId;
use cenote_codec::Compression;
use cenote_codec::compress::decompress;
use cenote_ondisk::bookmark_phys::BookmarkPhys;
use cenote_ondisk::bpobj::{self, BpobjHeader};
use cenote_ondisk::brt::{self, BrtVdev};
use cenote_ondisk::ddt::{self, DdtKey, DdtLogHeader, DdtStatistics, DdtValue};
use cenote_ondisk::deadlist::DeadlistHeader;
use cenote_ondisk::device_removal::{self, MappingHeader, Removing};
use cenote_ondisk::history::{HistoryHeader, HistoryRecords};
use cenote_ondisk::object_type::ByteswapClass;
use cenote_ondisk::scan::{Scan, ScanState};
use cenote_ondisk::space_map::{Action, SpaceMapHeader, SpaceMapItems};
use cenote_ondisk::{
    Dnode, DslDataset, DslDir, NvList, ObjectType, PoolConfig, Uberblock, features, zap,
};

/// Single disks and mirrors without gang blocks, and with everything that the MOS can hold.
const KINDS: [&str; 18] = [
    "ashift13",
    "block-cloning",
    "checkpoint",
    "checksums",
    "dedup",
    "dedup-legacy",
    "device-removal",
    "dirty-zil",
    "encryption",
    "legacy-features-off",
    "legacy-grub2",
    "mirror2",
    "names-folding",
    "quotas",
    "single-default",
    "snapshots-clones",
    "version28",
    "zvol",
];

fn for_each_pool(check: impl Fn(&ObjectSet<'_>)) {
    for kind in KINDS {
        if let Some(pool) = Pool::open(kind) {
            eprintln!("{kind}");
            check(&pool.mos());
        }
    }
}

#[test]
fn every_object_decodes() {
    for_each_pool(|mos| {
        let root = &mos.pool.uberblock.root;
        let encoded = mos.objset.encode(root.logical_size() as usize);
        assert_eq!(encoded, mos.pool.read(root));
        let dnodes = mos.dnodes();
        assert_eq!(dnodes.len() as u64, mos.pool.uberblock.root.fill());
        for (object, dnode) in dnodes {
            assert_eq!(Dnode::decode(&dnode.encode()), Ok(Some(dnode.clone())));
            check_bonus(&dnode);
            let class = dnode.object_type.byteswap_class();
            if class == Some(ByteswapClass::Zap) && !dnode.block_pointers[0].is_hole() {
                mos.zap(&dnode);
            }
            if dnode.object_type == ObjectType::SPACE_MAP {
                check_space_map(mos, object, &dnode);
            }
            if dnode.bonus_type == ObjectType::BPOBJ_HEADER {
                check_bpobj(mos, &dnode);
            }
        }
    });
}

fn check_bonus(dnode: &Dnode) {
    let bonus = &dnode.bonus;
    match dnode.bonus_type {
        ObjectType::DSL_DIR => {
            let dir = DslDir::decode(bonus).expect("valid");
            assert_eq!(dir.encode()[..], bonus[..]);
            let parts = dir.breakdown;
            let sum = parts.head + parts.snapshots + parts.children;
            let sum = sum + parts.child_reservations + parts.refreservation;
            assert_eq!(sum, dir.used_bytes);
        }
        ObjectType::DSL_DATASET => {
            let dataset = DslDataset::decode(bonus).expect("valid");
            assert_eq!(dataset.encode()[..], bonus[..]);
        }
        ObjectType::DEADLIST_HEADER => {
            let header = DeadlistHeader::decode(bonus).expect("valid");
            assert_eq!(header.encode()[..], bonus[..]);
        }
        _ => {}
    }
}

/// What the entries allocate is what the header says. Units cancel out but for the shift,
/// which is found by trying: 0 (time logs), 9 (logs) and the vdev's.
fn check_space_map(mos: &ObjectSet<'_>, object: ObjectId, dnode: &Dnode) {
    let header = SpaceMapHeader::decode(&dnode.bonus).expect("valid");
    assert_eq!(header.encode(), dnode.bonus);
    let data = mos.data(dnode, header.length);
    let block_size = dnode.data_block_size as usize;
    let mut units: i64 = 0;
    for block in data.chunks(block_size) {
        for entry in SpaceMapItems::new(block, 0, 0).entries() {
            let entry = entry.expect("valid");
            match entry.action {
                Action::Alloc => units += entry.length as i64,
                Action::Free => units -= entry.length as i64,
            }
        }
    }
    let matches = [0, 9, 12, 13].map(|shift| units << shift == header.allocated);
    assert!(
        matches.contains(&true),
        "object {object}: {units} {header:?}"
    );
}

fn check_bpobj(mos: &ObjectSet<'_>, dnode: &Dnode) {
    let header = BpobjHeader::decode(&dnode.bonus).expect("valid");
    assert_eq!(header.encode(), dnode.bonus);
    let data = mos.data(dnode, header.entries * 128);
    assert_eq!(bpobj::entries(&data).count() as u64, header.entries);
    let own: u64 = bpobj::entries(&data)
        .inspect(|pointer| assert_eq!(pointer.check(), Ok(())))
        .map(|pointer| pointer.allocated_size())
        .sum();
    if header.subobject_count == 0 && header.freed.is_none() {
        assert_eq!(own, header.bytes);
    }
    if let Some(list) = header.subobjects {
        let data = mos.data(&mos.dnode(list), header.subobject_count * 8);
        for subobject in bpobj::subobjects(&data) {
            BpobjHeader::decode(&mos.dnode(subobject).bonus).expect("valid");
        }
    }
}

fn directory_words(mos: &ObjectSet<'_>, name: &str) -> Option<Vec<u64>> {
    mos.names(ObjectId(1)).get(name)?.value.as_u64s()
}

fn directory_object(mos: &ObjectSet<'_>, name: &str) -> Option<ObjectId> {
    directory_words(mos, name).map(|words| ObjectId(words[0]))
}

#[test]
fn configurations_agree_with_uberblocks() {
    for_each_pool(|mos| {
        let object = directory_object(mos, "config").expect("always there");
        let dnode = mos.dnode(object);
        let length = u64::from_le_bytes(dnode.bonus[..8].try_into().expect("8 bytes"));
        let packed = mos.data(&dnode, length);
        let list = NvList::decode(&packed).expect("valid");
        assert_eq!(list.encode_xdr(), packed);
        let config = PoolConfig::decode(&list).expect("valid");
        let tree = config.vdev_tree.expect("the MOS has the whole tree");
        assert_eq!(tree.guid_sum(), mos.pool.uberblock.guid_sum);
        assert_eq!(config.version, mos.pool.uberblock.version);
    });
}

#[test]
fn features_are_known_and_in_the_right_table() {
    for_each_pool(|mos| {
        for (table, read_only_compatible) in
            [("features_for_read", false), ("features_for_write", true)]
        {
            let Some(object) = directory_object(mos, table) else {
                assert!(mos.pool.uberblock.version < 5000);
                continue;
            };
            for guid in mos.names(object).keys() {
                let feature = features::by_guid(guid).expect("all of 2.3 are known");
                assert_eq!(feature.read_only_compatible, read_only_compatible, "{guid}");
            }
        }
    });
}

#[test]
fn history_begins_with_the_creation() {
    for_each_pool(|mos| {
        let object = directory_object(mos, "history").expect("there");
        let dnode = mos.dnode(object);
        let header = HistoryHeader::decode(&dnode.bonus).expect("valid");
        assert_eq!(header.encode()[..], dnode.bonus[..]);
        let mut records = Vec::new();
        for range in header.logical_ranges() {
            let mut bytes = Vec::new();
            for piece in header.physical_pieces(range) {
                let data = mos.data(&dnode, piece.end);
                bytes.extend(&data[piece.start as usize..]);
            }
            records.extend(HistoryRecords::new(&bytes).map(|record| record.expect("valid")));
        }
        let commands: Vec<_> = records
            .iter()
            .filter_map(|record| record.get_str("history command"))
            .collect();
        assert!(commands[0].starts_with("zpool create"), "{commands:?}");
        assert!(records.len() > 3);
    });
}

#[test]
fn clones_are_counted() {
    let Some(pool) = Pool::open("block-cloning") else {
        return;
    };
    let mos = pool.mos();
    let name = format!("{}0", brt::DIRECTORY_PREFIX);
    let object = directory_object(&mos, &name).expect("the pool has clones");
    let dnode = mos.dnode(object);
    let header = BrtVdev::decode(&dnode.bonus).expect("valid");
    assert_eq!(header.encode()[..], dnode.bonus[..]);
    let entries = mos.zap(&mos.dnode(header.entries));
    assert_eq!(entries.len() as u64, header.entry_count);
    let data = mos.data(&dnode, header.regions * 2);
    let counters: Vec<u16> = header.counters(&data).collect();
    let mut expected = vec![0; counters.len()];
    for entry in &entries {
        let offset = entry.key.as_words().expect("numbers")[0];
        expected[(offset / header.region_size) as usize] += 1;
        assert!(brt::count(&entry.value).expect("valid") > 0);
    }
    assert_eq!(counters, expected);
    // `zpool list -o bcloneused,bclonesaved` says the same: 520192 and 1011712.
    let line = |name: &str, value: u64| format!("{name}\t{value}");
    let said = pool.golden.manifest.document["bclone"].to_string();
    for figure in [
        line("bcloneused", header.used_bytes),
        line("bclonesaved", header.saved_bytes),
    ] {
        assert!(
            said.contains(&figure.replace('\t', "\\t")),
            "{said} {figure}"
        );
    }
}

fn zle(stored: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; size];
    decompress(Compression::Zle, stored, &mut out).ok()?;
    Some(out)
}

/// Sums up a dedup table's entries as its histogram does.
fn sum_table(mos: &ObjectSet<'_>, table: ObjectId, flat: bool) -> DdtStatistics {
    let mut sum = DdtStatistics::default();
    for entry in mos.zap(&mos.dnode(table)) {
        let key = DdtKey::from_words(entry.key.as_words().expect("numbers")).expect("valid");
        let value = DdtValue::decode(entry.value.as_bytes().expect("bytes")).expect("valid");
        let entry = value.entry(flat, zle).expect("valid");
        for block in entry.blocks() {
            let allocated: u64 = block.dvas.iter().map(|dva| dva.asize()).sum();
            let references = block.references;
            sum.add(&DdtStatistics {
                blocks: 1,
                logical: key.logical_size(),
                physical: key.physical_size(),
                allocated,
                referenced_blocks: references,
                referenced_logical: key.logical_size() * references,
                referenced_physical: key.physical_size() * references,
                referenced_allocated: allocated * references,
            });
        }
    }
    sum
}

#[test]
fn dedup_tables_sum_up_to_their_histograms() {
    for (kind, flat) in [("dedup-legacy", false), ("dedup", true)] {
        let Some(pool) = Pool::open(kind) else {
            continue;
        };
        let mos = pool.mos();
        let directory = mos.names(ObjectId(1));
        let statistics = directory_object(&mos, "DDT-statistics").expect("there");
        let mut tables = 0;
        for (name, entry) in mos.names(statistics) {
            let words = entry.value.as_u64s().expect("numbers");
            let histogram = ddt::histogram_from_words(&words).expect("valid");
            let mut expected = DdtStatistics::default();
            histogram.iter().for_each(|bucket| expected.add(bucket));
            let checksum = name.split('-').nth(1).expect("DDT-<checksum>-...");
            let holder = match directory.get(&format!("DDT-{checksum}")) {
                Some(entry) => mos.names(ObjectId(entry.value.as_u64().expect("one"))),
                None => directory.clone(),
            };
            let Some(table) = holder.get(&name) else {
                assert_eq!(expected, DdtStatistics::default(), "{name}");
                continue;
            };
            let sum = sum_table(&mos, ObjectId(table.value.as_u64().expect("one")), flat);
            // Entries in a log are still in the table, but no longer counted.
            let logged = logged_entries(&mos, &holder);
            assert!(logged > 0 || sum == expected, "{kind} {name}");
            tables += 1;
        }
        assert!(tables > 0);
    }
}

/// Decodes the dedup logs of a table's directory.
fn logged_entries(
    mos: &ObjectSet<'_>,
    directory: &std::collections::BTreeMap<String, zap::Entry>,
) -> usize {
    let mut count = 0;
    let logs = directory
        .iter()
        .filter(|(name, _)| name.starts_with("DDT-log-"));
    for (_, entry) in logs {
        let dnode = mos.dnode(ObjectId(entry.value.as_u64().expect("one")));
        let header = DdtLogHeader::decode(&dnode.bonus).expect("valid");
        let data = mos.data(&dnode, header.length);
        for block in data.chunks(dnode.data_block_size as usize) {
            count += ddt::log_records(block).expect("valid").len();
        }
    }
    count
}

#[test]
fn removed_devices_are_mapped() {
    let Some(pool) = Pool::open("device-removal") else {
        return;
    };
    let mos = pool.mos();
    let words = directory_words(&mos, "com.delphix:removing").expect("there");
    let removing = Removing::from_words(&words).expect("valid");
    assert_eq!(removing.copied, removing.to_copy);
    let config = directory_object(&mos, "config").expect("there");
    let packed = mos.data(&mos.dnode(config), 16 << 10);
    let config = PoolConfig::decode(&NvList::decode(&packed).expect("valid")).expect("valid");
    let tree = config.vdev_tree.expect("the MOS has the whole tree");
    let removed = &tree.children[removing.vdev.0 as usize];
    let dnode = mos.dnode(removed.indirect_object.expect("mapped"));
    let header = MappingHeader::decode(&dnode.bonus).expect("valid");
    let data = mos.data(&dnode, header.entries * 24);
    let entries = device_removal::mapping_entries(&data).expect("valid");
    let mapped: u64 = entries.iter().map(|entry| entry.length()).sum();
    assert_eq!(mapped, header.bytes_mapped);
    assert_eq!(
        entries.last().map(|entry| entry.end()),
        Some(header.offset_max)
    );
    let births = mos.dnode(removed.indirect_births.expect("kept"));
    let count = device_removal::birth_count(&births.bonus).expect("valid");
    let data = mos.data(&births, count * 16);
    let last = device_removal::BirthEntry::decode(&data[data.len() - 16..]).expect("valid");
    assert!(last.offset >= header.offset_max && last.physical_birth.0 > 0);
}

#[test]
fn scans_checkpoints_and_bookmarks() {
    for_each_pool(|mos| {
        if let Some(words) = directory_words(mos, "scan") {
            let scan = Scan::from_words(&words).expect("valid");
            assert!(scan.state != ScanState::Scanning);
        }
        if let Some(words) = directory_words(mos, "com.delphix:zpool_checkpoint") {
            let words = words.try_into().expect("27 words");
            let uberblock = Uberblock::from_words(&words).expect("valid");
            assert_eq!(uberblock.checkpoint_txg, uberblock.txg);
            assert!(uberblock.txg < mos.pool.uberblock.txg);
            mos.pool.objset(&uberblock.root).dnodes();
        }
        for (_, dnode) in mos.dnodes() {
            if dnode.bonus_type != ObjectType::DSL_DATASET
                || dnode.object_type != ObjectType::ZAP_METADATA
            {
                continue;
            }
            let fields = mos.zap(&dnode);
            let name = Some("com.delphix:bookmarks");
            let Some(field) = fields.iter().find(|entry| entry.key.as_str() == name) else {
                continue;
            };
            let bookmarks = mos.names(ObjectId(field.value.as_u64().expect("one")));
            for entry in bookmarks.values() {
                let words = entry.value.as_u64s().expect("numbers");
                let bookmark = BookmarkPhys::from_words(&words).expect("valid");
                assert_eq!(bookmark.to_words(words.len() > 3), words);
                assert!(bookmark.creation_txg <= mos.pool.uberblock.txg);
            }
        }
    });
}
