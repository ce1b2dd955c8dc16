//! Power cuts while files change. The devices keep any part of the unflushed writes. The files must
//! be as of the last sync, or as the next one would have left them, and every block is whole.
//!
//! The work goes in rounds, each of which ends with a sync as `fsync(2)` makes it. A cut may fall
//! anywhere. What a file system looks like afterwards is checked file by file: each is as of the
//! last round that was synced, or as of the one that was under way.

use crate::made;
use crate::pools;
use cenote_base::{ObjectId, RealEnv};
use cenote_device::Opener;
use cenote_dsl::write::{Encryption, NewKeyFormat, UserKey};
use cenote_dsl::{DatasetName, DslError};
use cenote_pool::verify::{VerifyOptions, VerifyProgress, Watcher, verify};
use cenote_pool::{ImportOptions, NewVdev, Pool, VdevShape, assemble};
use cenote_posix::write::{NewFile, RenameMode, SetXattr, WriteOptions};
use cenote_posix::{FileKind, FileSystem};
use cenote_sim::{Disks, Event, Random};
use cenote_vdev::{AllocationClass, scan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Rounds before the recording starts, so that freed space is used again.
const WARM_UP: u64 = 12;
/// Rounds that are recorded.
const ROUNDS: u64 = 8;
/// Places at which the power is cut.
const CUTS: usize = 20;
const KEY: &[u8] = &[7; 32];
const XATTR: &[u8] = b"user.round";

/// Files by name: their contents, and the value of an extended attribute.
type State = BTreeMap<String, (Vec<u8>, Vec<u8>)>;

pub struct Silent;

impl Watcher for Silent {
    fn progress(&self, _: &VerifyProgress) {}

    fn cancelled(&self) -> bool {
        false
    }
}

pub fn import(world: &Arc<Disks>, read_only: bool) -> Pool {
    let candidates = assemble(scan(&world.paths(), world.as_ref()));
    let options = ImportOptions {
        read_only,
        opener: Arc::clone(world) as Arc<dyn Opener>,
        ..pools::options()
    };
    cenote_pool::import(&candidates[0], &options, Arc::new(RealEnv::new())).expect("imports")
}

/// Opens the root file system, whose key is loaded first.
pub fn files(pool: &Pool, writable: bool) -> Arc<FileSystem> {
    let dataset = pool.dsl().dataset(pool.dsl().pool_name()).expect("exists");
    if dataset
        .directory()
        .crypto_key()
        .expect("readable")
        .is_some()
    {
        let loaded = pool.dsl().load_key(dataset.directory(), KEY, false);
        assert!(matches!(loaded, Ok(_) | Err(DslError::KeyLoaded { .. })));
    }
    if !writable {
        let set = dataset.object_set().expect("opens");
        return Arc::new(FileSystem::open(set).expect("opens"));
    }
    let files = made::open(pool);
    files.drain_delete_queue().expect("drains");
    files
}

/// Bytes of a round: some of them compress.
fn bytes(round: u64, file: u64, length: usize) -> Vec<u8> {
    let mut word = (round << 32 | file).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        let piece = if file.is_multiple_of(3) { round } else { word };
        bytes.extend_from_slice(&piece.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Changes files, in a state beside them too.
struct Work<'a> {
    fs: &'a FileSystem,
    state: State,
}

impl Work<'_> {
    fn file(&mut self, name: &str) -> ObjectId {
        let root = self.fs.znode(self.fs.root()).expect("exists");
        self.state.entry(name.to_owned()).or_default();
        match self.fs.lookup(&root, name.as_bytes()).expect("readable") {
            Some(target) => target.object,
            None => {
                let new = NewFile::new(FileKind::Regular, 0o644);
                let made = self.fs.create(root.id(), name.as_bytes(), &new);
                made.expect("makes").id()
            }
        }
    }

    fn write(&mut self, name: &str, offset: usize, data: &[u8]) {
        let file = self.file(name);
        let written = self
            .fs
            .write(file, offset as u64, data, WriteOptions::default());
        written.expect("writes");
        let contents = &mut self.state.get_mut(name).expect("known").0;
        let end = offset + data.len();
        contents.resize(contents.len().max(end), 0);
        contents[offset..end].copy_from_slice(data);
    }

    fn round(&mut self, round: u64) {
        let root = self.fs.root();
        for file in 0..6 {
            let name = format!("new {round} {file}");
            let length = [0, 80, 5000, 40_000, 131_072, 400_000][file as usize];
            self.write(&name, 0, &bytes(round, file, length));
        }
        for file in 0..4 {
            let name = format!("kept {file}");
            let length = 3000 * (file as usize + 1);
            let offset = (round as usize * 7919) % (100_000 * (file as usize + 1));
            self.write(&name, offset, &bytes(round, file, length));
            let file = self.file(&name);
            let value = bytes(round, 1, 100 + round as usize * 37 % 900);
            let set = self.fs.set_xattr(file, XATTR, &value, SetXattr::Any);
            set.expect("sets");
            self.state.get_mut(&name).expect("known").1 = value;
        }
        let cut = self.file("kept 3");
        let size = 50_000 + (round as usize * 104_729) % 200_000;
        self.fs.truncate(cut, size as u64).expect("truncates");
        self.state
            .get_mut("kept 3")
            .expect("known")
            .0
            .resize(size, 0);
        if let Some(old) = round.checked_sub(3) {
            for file in 0..3 {
                let name = format!("new {old} {file}");
                self.fs.unlink(root, name.as_bytes()).expect("removes");
                self.state.remove(&name);
            }
            let (from, to) = (format!("new {old} 4"), format!("moved {}", old % 4));
            let renamed = self.fs.rename(
                (root, from.as_bytes()),
                (root, to.as_bytes()),
                RenameMode::Replace,
            );
            renamed.expect("renames");
            let moved = self.state.remove(&from).expect("known");
            self.state.insert(to, moved);
            for file in [3, 5] {
                let name = format!("new {old} {file}");
                self.fs.unlink(root, name.as_bytes()).expect("removes");
                self.state.remove(&name);
            }
        }
        self.fs.sync().expect("synced");
    }
}

/// What is in the file system.
fn found(fs: &FileSystem) -> State {
    let root = fs.znode(fs.root()).expect("exists");
    let entries = fs.read_directory(&root, 0).expect("lists").skip(2);
    let mut state = State::new();
    for entry in entries {
        let entry = entry.expect("readable");
        let file = fs.znode(entry.target.object).expect("exists");
        let mut contents = vec![0xEE; usize::try_from(file.attributes().size).expect("small")];
        let count = fs.read(&file, 0, &mut contents).expect("readable");
        assert_eq!(count, contents.len());
        let value = fs
            .xattr(&file, XATTR)
            .expect("readable")
            .unwrap_or_default();
        let name = String::from_utf8(entry.name).expect("as made");
        state.insert(name, (contents, value));
    }
    state
}

fn judge(pool: &Pool, writable: bool, states: &[&State], what: &str) {
    let report = verify(pool, &VerifyOptions::default(), &Silent).expect("runs");
    // A device without the last uberblock is given that group again.
    let is_whole = report.complete && report.problems == 0;
    assert!(is_whole, "{what}: {report:?}");
    let found = found(&files(pool, writable));
    let mut names: BTreeSet<&String> = found.keys().collect();
    names.extend(states.iter().flat_map(|state| state.keys()));
    for name in names {
        let is_one_of = states
            .iter()
            .any(|state| state.get(name) == found.get(name));
        assert!(is_one_of, "{what}: {name} is in no expected state");
    }
}

pub struct Layout {
    pub vdevs: Vec<(VdevShape, AllocationClass, usize)>,
    pub encrypted: bool,
}

pub fn plain(shape: VdevShape, count: usize) -> Layout {
    let vdevs = vec![(shape, AllocationClass::Normal, count)];
    Layout {
        vdevs,
        encrypted: false,
    }
}

pub fn create(world: &Arc<Disks>, layout: &Layout) -> Pool {
    let bench = pools::Bench::new("world");
    let mut leaves = world.leaves().into_iter();
    let vdevs = layout.vdevs.iter().map(|(shape, class, count)| NewVdev {
        shape: *shape,
        class: *class,
        leaves: leaves.by_ref().take(*count).collect(),
    });
    let mut request = bench.request(vdevs.collect());
    if layout.encrypted {
        let name = DatasetName::parse("world").expect("a name");
        let format = NewKeyFormat::Raw;
        let key = UserKey::derive(&name, KEY, format, "prompt", &RealEnv::new());
        request.encryption = Encryption::On {
            suite: None,
            key: Some(key.expect("a key")),
        };
    }
    request.format = made::empty();
    let env = Arc::new(RealEnv::new());
    cenote_pool::create(request, &pools::options(), env).expect("created")
}

fn cut(layout: &Layout, seed: u64) {
    let count = layout.vdevs.iter().map(|(_, _, count)| count).sum();
    let world = pools::disks(count, 80 << 20);
    let pool = create(&world, layout);
    let fs = files(&pool, true);
    let state = State::new();
    let mut work = Work { fs: &fs, state };
    for round in 0..WARM_UP {
        work.round(round);
    }
    world.record();
    let mut states = vec![work.state.clone()];
    let mut synced = vec![0];
    for round in WARM_UP..WARM_UP + ROUNDS {
        work.round(round);
        states.push(work.state.clone());
        synced.push(world.recorded());
    }
    let log = world.take_record();
    drop(fs);
    drop(pool);
    let mut random = Random::new(seed);
    for number in 0..=CUTS {
        let at = log.len() * number / CUTS;
        let done = synced
            .iter()
            .rposition(|end| *end <= at)
            .expect("0 is there");
        let allowed: Vec<&State> = states[done..].iter().take(2).collect();
        let keep = [0, 50, 100][number % 3];
        let what = format!("cut at {at} of {}, {keep} % kept, seed {seed}", log.len());
        let image = Arc::new(world.after(&log, at, keep, &mut random));
        if number % 5 > 0 {
            judge(&import(&image, true), false, &allowed, &what);
            continue;
        }
        // The work continues, and the power fails again.
        let pool = import(&image, false);
        judge(&pool, true, &allowed, &what);
        let fs = files(&pool, true);
        let state = found(&fs);
        image.record();
        let mut work = Work { fs: &fs, state };
        for file in 0..20 {
            work.write(&format!("after {file}"), 0, &bytes(99, file, 60_000));
        }
        fs.sync().expect("synced");
        let state = work.state;
        let again = image.take_record();
        let flushes = again
            .iter()
            .filter(|event| matches!(event, Event::Flush { .. }));
        assert!(flushes.count() > 0, "what is promised is flushed");
        drop(fs);
        drop(pool);
        let image = Arc::new(image.after(&again, again.len(), 0, &mut random));
        judge(&import(&image, true), false, &[&state], &what);
    }
}

#[test]
fn single() {
    cut(&plain(VdevShape::Single, 1), 1);
}

#[test]
fn mirror() {
    cut(&plain(VdevShape::Mirror, 2), 2);
}

#[test]
fn raidz1() {
    cut(&plain(VdevShape::Raidz { parity: 1 }, 3), 3);
}

#[test]
fn raidz2() {
    cut(&plain(VdevShape::Raidz { parity: 2 }, 5), 4);
}

#[test]
fn raidz3() {
    cut(&plain(VdevShape::Raidz { parity: 3 }, 5), 5);
}

#[test]
fn draid() {
    let shape = VdevShape::Draid {
        parity: 1,
        data: 2,
        spares: 1,
    };
    cut(&plain(shape, 5), 6);
}

#[test]
fn several_vdevs_and_classes() {
    let layout = Layout {
        vdevs: vec![
            (VdevShape::Single, AllocationClass::Normal, 1),
            (VdevShape::Mirror, AllocationClass::Normal, 2),
            (VdevShape::Single, AllocationClass::Special, 1),
            (VdevShape::Single, AllocationClass::Dedup, 1),
            (VdevShape::Single, AllocationClass::Log, 1),
        ],
        encrypted: false,
    };
    cut(&layout, 7);
}

#[test]
fn encrypted() {
    let layout = Layout {
        encrypted: true,
        ..plain(VdevShape::Mirror, 2)
    };
    cut(&layout, 8);
}
