//! Opens golden pools and describes their file systems as manifests do.
//!
//! The tree of vdevs is put together from the labels: enough for intact pools without removed
//! vdevs, and independent of what importing checks.

#![allow(dead_code, reason = "each test program uses a part")]

use cenote_base::{Guid, MemoryBudget, ObjsetId};
use cenote_cache::{BlockCache, CacheLimits};
use cenote_device::{Device, Opener, SystemOpener};
use cenote_dmu::ObjectSet;
use cenote_dsl::{DatasetName, Dsl, PoolFacts};
use cenote_io::{Pipeline, PipelineParts, Workers};
use cenote_ondisk::{PoolConfig, Uberblock, VdevConfig, VdevKind};
use cenote_posix::{FileKind, FileSystem, SeekTarget, Znode};
use cenote_tests::golden::Golden;
use cenote_tests::manifest::{Entries, Entry, Key};
use cenote_tests::mounted::{base64, hex};
use cenote_vdev::{DeviceLabels, OpenOptions, Vdevs};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

/// Files above this are described by their segments of data instead of a hash of everything.
const HASHED_SIZE_MAX: u64 = 1 << 30;
/// Attribute values up to this are given in full.
const XATTR_VALUE_SHOWN_MAX: usize = 300;

/// An open golden pool.
pub struct Pool {
    pub dsl: Arc<Dsl>,
    pub golden: Golden,
    pub uberblock: Uberblock,
}

struct Found {
    devices: HashMap<Guid, Arc<dyn Device>>,
    tops: BTreeMap<u64, VdevConfig>,
    name: String,
    uberblock: Option<Uberblock>,
}

fn find(directory: &Path, names: &[String]) -> Result<Found, Box<dyn Error>> {
    let (devices, tops) = (HashMap::new(), BTreeMap::new());
    let mut found = Found {
        devices,
        tops,
        name: String::new(),
        uberblock: None,
    };
    for name in names {
        let opener = SystemOpener::default();
        let device = opener.open(&directory.join(name))?;
        let labels = DeviceLabels::read(&*device);
        let config = labels
            .newest_config()
            .and_then(|label| label.config.clone());
        let Some(config) = config.filter(PoolConfig::is_pool_member) else {
            continue;
        };
        if let Some(best) = labels.best_uberblock(None) {
            let best = &best.uberblock;
            if found
                .uberblock
                .as_ref()
                .is_none_or(|old| old.rank() < best.rank())
            {
                found.uberblock = Some(best.clone());
            }
        }
        let tree = config.vdev_tree.clone().ok_or("a label without a tree")?;
        found
            .devices
            .insert(config.guid.ok_or("a label without a guid")?, device);
        found
            .tops
            .insert(tree.id.ok_or("a top-level vdev without an id")?.0, tree);
        found.name = config.name.ok_or("a label without a name")?;
    }
    Ok(found)
}

/// Opens the golden pool of this kind; `None` with a notice when it is not here.
pub fn open(kind: &str) -> Option<Pool> {
    let golden = Golden::find(kind).expect("the manifest is readable")?;
    let directory = golden.devices().expect("images unpack");
    let (dsl, uberblock) = open_devices(&directory, &golden.device_names()).expect("it opens");
    Some(Pool {
        dsl,
        golden,
        uberblock,
    })
}

/// Opens the pool on devices in a directory, if it is not too damaged for that.
pub fn open_devices(
    directory: &Path,
    names: &[String],
) -> Result<(Arc<Dsl>, Uberblock), Box<dyn Error>> {
    let found = find(directory, names)?;
    let uberblock = found.uberblock.ok_or("no uberblock")?;
    let mut root = found.tops.values().next().ok_or("no vdev")?.clone();
    root.kind = VdevKind::Root;
    root.children = found.tops.into_values().collect();
    root.asize = 0;
    let reflow = uberblock.raidz_reflow();
    let options = OpenOptions {
        reflow,
        ..OpenOptions::default()
    };
    let vdevs = Vdevs::open(&root, &found.devices, &options)?;
    let (name, version) = (found.name, uberblock.version);
    let facts = PoolFacts {
        name,
        version,
        ..PoolFacts::default()
    };
    let pipeline = Arc::new(Pipeline::new(PipelineParts {
        vdevs: Arc::new(vdevs),
        memory: MemoryBudget::new(512 << 20),
        salt: None,
    }));
    let workers = Arc::new(Workers::new(2));
    let limits = CacheLimits::of_total(64 << 20);
    let cache = Arc::new(BlockCache::new(pipeline, workers, limits));
    let mos = ObjectSet::open(cache, ObjsetId::MOS, uberblock.root, None)?;
    let dsl = Dsl::open(mos, facts)?;
    if let Some(salt) = dsl.object_directory().checksum_salt()? {
        dsl.mos().cache().pipeline().learn_salt(salt);
    }
    Ok((dsl, uberblock))
}

impl Pool {
    /// Loads all keys that the manifest knows.
    pub fn load_keys(&self) {
        for (dataset, key) in &self.golden.manifest.keys {
            let name = DatasetName::parse(dataset).expect("a name");
            let directory = self
                .dsl
                .directory(&name)
                .expect("readable")
                .expect("is there");
            let material = match key {
                Key::Passphrase(text) | Key::Hex(text) => text.clone().into_bytes(),
                Key::Raw(bytes) => bytes.clone(),
            };
            self.dsl
                .load_key(&directory, &material, false)
                .expect("the key is right");
        }
    }

    /// The object set of a dataset or snapshot.
    pub fn object_set(&self, dataset: &str) -> Arc<ObjectSet> {
        let name = DatasetName::parse(dataset).expect("a name");
        let dataset = self.dsl.dataset(&name).expect("the dataset is there");
        dataset.object_set().expect("the object set opens")
    }

    /// The file system of a dataset or snapshot.
    pub fn file_system(&self, dataset: &str) -> Arc<FileSystem> {
        Arc::new(FileSystem::open(self.object_set(dataset)).expect("the file system opens"))
    }
}

/// Everything in a file system, as manifests have it.
pub fn entries(file_system: &Arc<FileSystem>) -> Entries {
    let mut entries = Entries::new();
    for found in file_system
        .walk(file_system.root())
        .expect("the walk begins")
    {
        let found = found.expect("everything is readable");
        let path = match found.path.is_empty() {
            true => ".".to_owned(),
            false => String::from_utf8(found.path).expect("names are UTF-8"),
        };
        let description = entry(file_system, &found.znode);
        assert!(
            entries.insert(path, description).is_none(),
            "each path once"
        );
    }
    entries
}

/// One file, as manifests have it.
pub fn entry(file_system: &FileSystem, znode: &Znode) -> Entry {
    let stat = file_system.stat(znode);
    let kind = match stat.kind {
        FileKind::Regular => "file",
        FileKind::Directory => "dir",
        FileKind::Symlink => "symlink",
        FileKind::CharDevice => "char",
        FileKind::BlockDevice => "block",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
    };
    let mut entry = Entry::new();
    entry.insert("type".into(), kind.into());
    entry.insert("mode".into(), format!("{:04o}", stat.mode).into());
    entry.insert("uid".into(), stat.uid.posix_id().into());
    entry.insert("gid".into(), stat.gid.posix_id().into());
    let mtime = i64::try_from(stat.modified.total_nanoseconds()).expect("within 292 years");
    entry.insert("mtime".into(), mtime.into());
    entry.insert("ino".into(), stat.object.0.into());
    if kind != "dir" {
        entry.insert("nlink".into(), stat.links.into());
    }
    match stat.kind {
        FileKind::Regular => describe_contents(file_system, znode, &mut entry),
        FileKind::Symlink => {
            let target = file_system.read_link(znode).expect("readable");
            entry.insert(
                "target".into(),
                String::from_utf8(target).expect("UTF-8").into(),
            );
        }
        FileKind::CharDevice | FileKind::BlockDevice => {
            entry.insert("rdev".into(), json!([stat.device.major, stat.device.minor]));
        }
        FileKind::Directory | FileKind::Fifo | FileKind::Socket => {}
    }
    let mut xattrs = Entry::new();
    for name in file_system.xattr_names(znode).expect("readable") {
        let value = file_system
            .xattr(znode, &name)
            .expect("readable")
            .expect("was listed");
        let shown = match value.len() <= XATTR_VALUE_SHOWN_MAX {
            true => json!({"b64": base64(&value)}),
            false => json!({"len": value.len(), "sha256": hex(&Sha256::digest(&value))}),
        };
        xattrs.insert(String::from_utf8(name).expect("UTF-8"), shown);
    }
    if !xattrs.is_empty() {
        entry.insert("xattrs".into(), Value::Object(xattrs));
    }
    entry
}

/// Stretches of data, as seeking finds them.
pub fn data_segments(file_system: &FileSystem, znode: &Znode) -> Vec<(u64, u64)> {
    let mut segments = Vec::new();
    let mut at = 0;
    while let Ok(start) = file_system.seek(znode, at, SeekTarget::Data) {
        let end = file_system
            .seek(znode, start, SeekTarget::Hole)
            .expect("the end is a hole");
        assert!(end > start && start >= at);
        segments.push((start, end));
        at = end;
    }
    segments
}

fn describe_contents(file_system: &FileSystem, znode: &Znode, entry: &mut Entry) {
    let size = znode.attributes().size;
    entry.insert("size".into(), size.into());
    let segments = data_segments(file_system, znode);
    if size > HASHED_SIZE_MAX {
        let describe = |(start, end): &(u64, u64)| {
            let mut hasher = Sha256::new();
            hash_range(file_system, znode, *start, *end, &mut hasher);
            json!([start, end - start, hex(&hasher.finalize())])
        };
        let data: Vec<Value> = segments.iter().map(describe).collect();
        entry.insert("data".into(), data.into());
        return;
    }
    // Holes are read, too: they must read as zeros.
    let mut hasher = Sha256::new();
    hash_range(file_system, znode, 0, size, &mut hasher);
    entry.insert("sha256".into(), hex(&hasher.finalize()).into());
}

fn hash_range(file_system: &FileSystem, znode: &Znode, start: u64, end: u64, hasher: &mut Sha256) {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    let mut at = start;
    while at < end {
        let length = usize::try_from((end - at).min(1 << 20)).expect("at most 1 MiB");
        let segments = file_system
            .read_segments(znode, at, length)
            .expect("readable");
        for segment in &segments {
            hasher.update(segment.bytes().unwrap_or(&ZEROS[..segment.length]));
        }
        at += segments
            .iter()
            .map(|segment| segment.length as u64)
            .sum::<u64>();
    }
}
