//! Damaged objects: each kind of damage to each kind of object, in a directory and in a bucket.
//!
//! A store with one short object was taken for one that does not answer, and its reads were tried
//! again for ever. Here each read ends within a bounded time, gives what was written or names the
//! object, and a verification names it, too.

use crate::fake::{Answered, Asked, FakeServer};
use cenote_base::Env;
use cenote_cloud::simulation::{Random, SimulatedEnv};
use cenote_cloud::store::s3::BucketName;
use cenote_cloud::store::{DirectoryStore, Store};
use cenote_cloud::{CloudDevice, Drive, Options, Verified};
use cenote_device::Device;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const SIZE: u64 = 2 << 20;
const BLOCK: usize = 4 << 10;

/// Time that nothing here may take: a request that is tried for ever ends the test.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A simulated clock that does not run for ever.
#[derive(Debug)]
pub(crate) struct Bounded(SimulatedEnv, Duration);

impl Bounded {
    pub(crate) fn new() -> Arc<Self> {
        Self::of(7)
    }

    /// With other random numbers for each seed.
    pub(crate) fn of(seed: u64) -> Arc<Self> {
        let env = SimulatedEnv::new(seed);
        let begun = env.monotonic();
        Arc::new(Self(env, begun))
    }
}

impl Env for Bounded {
    fn wall_clock(&self) -> Duration {
        self.0.wall_clock()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
        let took = self.0.monotonic() - self.1;
        assert!(took < PATIENCE, "something is tried for ever");
    }

    fn fill_random(&self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.0.fill_random(buffer)
    }
}

pub(crate) fn options() -> Options {
    Options {
        drive: Drive::Manual,
        host: "test".into(),
        batch_bytes: 64 << 10,
        batch_age: Duration::ZERO,
        object_bytes: 128 << 10,
        inline_bytes: 4 << 10,
        contents_bytes_min: 32 << 10,
        checkpoint_commits: 4,
        tail_bytes_min: 200,
        map_bytes: 0,
        ..Options::default()
    }
}

/// A device with pages of the map, checkpoints, and commits behind them.
pub(crate) fn made(root: &Path) -> Vec<u8> {
    let env: Arc<dyn Env> = Bounded::new();
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::new(root).expect("made"));
    CloudDevice::create(Arc::clone(&store), SIZE, &options(), &env).expect("an empty store");
    let device = CloudDevice::open(store, |_| Ok(None), options(), &env).expect("there");
    let mut random = Random::new(3);
    let mut model = vec![0; SIZE as usize];
    for _ in 0..60 {
        let length = if random.permille(300) {
            64 << 10
        } else {
            8 << 10
        };
        let at = random.below((SIZE as usize - length) as u64 / BLOCK as u64) as usize * BLOCK;
        random.fill(&mut model[at..at + length]);
        device
            .write_at(at as u64, &model[at..at + length])
            .expect("room");
        device.flush().expect("answers");
        while device.step().expect("answers") {}
    }
    assert!(device.counts().checkpoints > 2);
    device.write_at(0, &model[..BLOCK]).expect("room");
    device.flush().expect("answers");
    drop(device);
    model
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    Short,
    Empty,
    Long,
    Foreign,
    Missing,
    Directory,
    Pipe,
    /// As a server answers: a refusal of this object.
    Denied,
    /// A failure, whenever it is asked for.
    Failing,
    /// A body that ends early.
    Cut,
}

impl Damage {
    const OF_FILES: [Self; 7] = [
        Self::Short,
        Self::Empty,
        Self::Long,
        Self::Foreign,
        Self::Missing,
        Self::Directory,
        Self::Pipe,
    ];
    const OF_ANSWERS: [Self; 8] = [
        Self::Short,
        Self::Empty,
        Self::Long,
        Self::Foreign,
        Self::Missing,
        Self::Denied,
        Self::Failing,
        Self::Cut,
    ];

    fn apply(self, path: &Path) {
        let mut bytes = std::fs::read(path).expect("there");
        match self {
            Self::Short => bytes.truncate(bytes.len() / 2),
            Self::Empty => bytes.clear(),
            Self::Long => bytes.extend_from_slice(&[7; 100]),
            Self::Foreign => Random::new(9).fill(&mut bytes),
            Self::Denied | Self::Failing | Self::Cut => return,
            Self::Missing | Self::Directory | Self::Pipe => {
                std::fs::remove_file(path).expect("there");
                match self {
                    Self::Directory => std::fs::create_dir(path).expect("free"),
                    Self::Pipe => {
                        let made = std::process::Command::new("mkfifo").arg(path).status();
                        assert!(made.expect("mkfifo").success());
                    }
                    _ => {}
                }
                return;
            }
        }
        std::fs::write(path, bytes).expect("writable");
    }
}

fn newest(root: &Path, folder: &str, wanted: impl Fn(&Path) -> bool) -> PathBuf {
    let mut found: Vec<PathBuf> = walk(&root.join(folder));
    found.retain(|path| wanted(path));
    found.sort();
    found.pop().expect("there is one")
}

pub(crate) fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => found.extend(walk(&path)),
            false => found.push(path),
        }
    }
    found
}

/// One object of each kind, by its name.
fn objects(root: &Path) -> Vec<String> {
    let is_root = |path: &Path| path.ends_with("root");
    let largest = walk(&root.join("data"))
        .into_iter()
        .max_by_key(|path| path.metadata().map_or(0, |found| found.len()));
    let paths = [
        root.join("device"),
        root.join("device-copy"),
        root.join("current"),
        newest(root, "commit", |_| true),
        newest(root, "map", is_root),
        newest(root, "map", |path| !is_root(path)),
        newest(root, "data", |_| true),
        largest.expect("there is one"),
    ];
    let names = paths.iter().map(|path| path.strip_prefix(root));
    let names = names.map(|name| name.expect("below").to_string_lossy().into_owned());
    names.collect()
}

/// A server of what a directory has, with one object about which it says something else.
fn serve(root: &Path, key: &str, damage: Damage) -> FakeServer {
    let (root, key) = (root.to_owned(), key.to_owned());
    FakeServer::new(move |asked| answer(&root, asked, &key, damage))
}

/// A page of the list of what a directory has.
pub(crate) fn list(root: &Path, asked: &Asked) -> Answered {
    let parameter = |name: &str| {
        let parts = asked.path.split(['?', '&']);
        let mut values = parts.filter_map(|part| part.strip_prefix(&format!("{name}=")));
        values.next().map(|value| value.replace("%2F", "/"))
    };
    let (prefix, after) = (parameter("prefix"), parameter("start-after"));
    let names = walk(root).into_iter().map(|path| {
        let key = path.strip_prefix(root).expect("below");
        (format!("x/{}", key.display()), path)
    });
    let mut names: Vec<(String, PathBuf)> = names.collect();
    names.sort();
    names.retain(|(key, _)| {
        let is_behind = after.as_ref().is_none_or(|after| key > after);
        is_behind && prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
    });
    let most = parameter("max-keys").map(|most| most.parse().expect("a number"));
    let count = names.len();
    names.truncate(most.unwrap_or(count));
    let mut body = format!(
        "<ListBucketResult><IsTruncated>{}</IsTruncated>",
        names.len() < count
    );
    for (key, path) in names {
        let length = path.metadata().expect("there").len();
        body += &format!(
            "<Contents><Key>{key}</Key><Size>{length}</Size>\
             <LastModified>2024-01-02T03:04:05.000Z</LastModified></Contents>"
        );
    }
    Answered {
        status: 200,
        headers: Vec::new(),
        body: (body + "</ListBucketResult>").into(),
    }
}

pub(crate) fn answer(root: &Path, asked: &Asked, damaged: &str, damage: Damage) -> Answered {
    if asked.path.starts_with("/bucket?") {
        return list(root, asked);
    }
    let key = asked.path.strip_prefix("/bucket/x/").unwrap_or_default();
    let Ok(bytes) = std::fs::read(root.join(key)) else {
        return Answered::error(404, "NoSuchKey");
    };
    let is_it = key == damaged;
    match damage {
        Damage::Denied if is_it => return Answered::error(403, "AccessDenied"),
        Damage::Failing if is_it => return Answered::error(500, "InternalError"),
        _ => {}
    }
    let mut answered = Answered {
        status: 200,
        headers: vec![
            ("last-modified", "Sun, 06 Nov 2033 08:49:37 GMT".into()),
            ("etag", "\"1\"".into()),
        ],
        body: bytes.clone(),
    };
    if let Some(range) = asked.headers.get("range") {
        let range = range
            .strip_prefix("bytes=")
            .and_then(|range| range.split_once('-'));
        let (from, to) = range.expect("a range");
        let from: usize = from.parse().expect("a number");
        let to: usize = to.parse::<usize>().expect("a number") + 1;
        if from >= bytes.len() {
            return Answered::error(416, "InvalidRange");
        }
        answered.status = 206;
        answered.body = bytes[from..to.min(bytes.len())].to_vec();
        let last = from + answered.body.len() - 1;
        let said = format!("bytes {from}-{last}/{}", bytes.len());
        answered.headers.push(("content-range", said));
    }
    if is_it && damage == Damage::Cut {
        let length = answered.body.len().to_string();
        answered.headers.push(("content-length", length));
        answered.headers.push(("connection", "close".into()));
        answered.body.truncate(answered.body.len() / 2);
    }
    answered
}

/// What was reported of an object while a device was read and verified.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn hear(&self, text: String) {
        self.0.lock().expect("no panic").push(text);
    }

    fn names(&self, key: &str) -> bool {
        let told = self.0.lock().expect("no panic");
        told.iter().any(|text| text.contains(key))
    }
}

/// Reads and verifies a device with a damaged object.
fn look(store: Arc<dyn Store>, model: &[u8], may_differ: bool, told: &Told) {
    let env: Arc<dyn Env> = Bounded::new();
    let options = Options {
        is_read_only: true,
        ..options()
    };
    let device = match CloudDevice::open(store, |_| Ok(None), options, &env) {
        Ok(device) => device,
        Err(error) => return told.hear(error.to_string()),
    };
    for (at, wanted) in model.chunks(BLOCK).enumerate() {
        let mut found = vec![0; BLOCK];
        match device.read_at((at * BLOCK) as u64, &mut found) {
            Ok(()) => assert!(may_differ || found == wanted, "block {at} is wrong"),
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                told.hear(format!("{error} {}", source.unwrap_or_default()));
            }
        }
    }
    let listed = device.status().damaged;
    let failed = !told.0.lock().expect("no panic").is_empty();
    // What has a copy is listed without any failure.
    let is_hint = |key: &str| ["current", "device"].contains(&key);
    let is_read = listed.iter().any(|object| !is_hint(&object.key));
    assert_eq!(is_read, failed, "what failed is listed: {listed:?}");
    for object in listed {
        told.hear(format!("{}: {}", object.key, object.what));
    }
    match device.verify(&mut |_, _| true) {
        Ok(Verified {
            faults, remarks, ..
        }) => {
            let all = faults.into_iter().chain(remarks);
            all.for_each(|fault| told.hear(format!("{}: {}", fault.key, fault.what)));
        }
        Err(error) => told.hear(error.to_string()),
    }
}

fn copy(from: &Path, to: &Path) {
    for path in walk(from) {
        let target = to.join(path.strip_prefix(from).expect("below"));
        std::fs::create_dir_all(target.parent().expect("below")).expect("made");
        std::fs::copy(&path, &target).expect("copied");
    }
}

/// Whether an object has to be named when it is damaged so.
fn matters(key: &str, damage: Damage) -> bool {
    match damage {
        // An end of the chain, and a checkpoint that is not there yet: older, and consistent.
        Damage::Missing => !key.starts_with("commit/") && key != "current",
        // Until the device is known nothing tells damage from an outage, which ends after a while.
        Damage::Denied | Damage::Failing | Damage::Cut => key != "device",
        // Pages are found by their places, and each has its checksum.
        Damage::Long => !key.contains("pages"),
        _ => true,
    }
}

fn every_damage(damages: &[Damage], store: impl Fn(&Path, &str, Damage) -> Arc<dyn Store>) {
    let home = tempfile::tempdir().expect("a directory");
    let whole = home.path().join("whole");
    let model = made(&whole);
    for key in objects(&whole) {
        for damage in damages {
            let root = home.path().join("damaged");
            copy(&whole, &root);
            damage.apply(&root.join(&key));
            let told = Told::default();
            let is_older = *damage == Damage::Missing && key.starts_with("commit/");
            let may_differ = is_older || *damage == Damage::Foreign && key.starts_with("data/");
            look(store(&root, &key, *damage), &model, may_differ, &told);
            let is_named = told.names(&key) || !matters(&key, *damage);
            assert!(is_named, "{damage:?} {key}: {told:?}");
            std::fs::remove_dir_all(&root).expect("removable");
        }
    }
}

#[test]
fn every_damage_in_a_directory_is_named_and_ends() {
    every_damage(&Damage::OF_FILES, |root, _, _| {
        Arc::new(DirectoryStore::new(root).expect("there"))
    });
}

#[test]
fn every_damage_in_a_bucket_is_named_and_ends() {
    every_damage(&Damage::OF_ANSWERS, |root, key, damage| {
        let fake = serve(root, key, damage);
        let mut name = BucketName::parse("bucket/x").expect("a name");
        name.endpoint = Some(format!("http://{}", fake.address));
        crate::server::store(&name)
    });
}
