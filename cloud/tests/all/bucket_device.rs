//! Devices in a bucket of a real server, on a line that loses answers and refuses requests, beside
//! a flat buffer: written, left in the middle with and without what lies on this side, taken over.
//!
//! The large model test (`model`) has the device's own rules, in a world where a seed decides
//! everything. This one is short: it shows that a real store keeps to what that world assumes.
//! `CENOTE_CLOUD_SEED` and `CENOTE_S3_STEPS` say which and how long.

use crate::server::{
    LosingLine, OwnServer, Running, Server, free_port, keys, peer, store, wait_for,
};
use cenote_base::{Env, RealEnv};
use cenote_cloud::local::{DirectoryPlace, Place};
use cenote_cloud::simulation::Random;
use cenote_cloud::store::s3::BucketName;
use cenote_cloud::{Close, CloudDevice, CloudError, Options, StoreOpener};
use cenote_device::{Device, Opener};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const SIZE: u64 = 1 << 20;

/// A line to the server that refuses and breaks some requests, where the peers' tool is there.
fn faulty_line(to: SocketAddr) -> Option<(SocketAddr, Running)> {
    let address = free_port();
    let mut command = Command::new(peer("slow-net")?);
    command
        .args([
            "proxy",
            "--listen",
            &address.to_string(),
            "--to",
            &to.to_string(),
        ])
        .args([
            "--rtt", "2", "--e503", "0.02", "--reset", "0.02", "--seed", "3",
        ])
        .args(["--max-seconds", "300"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null());
    let running = Running(command.spawn().ok()?);
    wait_for(address);
    Some((address, running))
}

struct World {
    name: BucketName,
    home: tempfile::TempDir,
    /// Which directory of `home` has the local side.
    side: u32,
    random: Random,
    /// It has what lies on this side, which one device has at a time.
    device: Option<Arc<CloudDevice>>,
    now: Vec<u8>,
    /// What a loss of the local side may lead back to: all moments since the last upload.
    moments: Vec<Vec<u8>>,
    taken_over: u32,
    lost: u32,
}

fn open(name: &BucketName, side: PathBuf, is_forced: bool) -> Result<Arc<CloudDevice>, CloudError> {
    let options = Options {
        is_forced,
        host: "here".into(),
        batch_bytes: 64 << 10,
        batch_age: Duration::from_secs(1),
        object_bytes: 64 << 10,
        inline_bytes: 4 << 10,
        contents_bytes_min: 8 << 10,
        checkpoint_commits: 8,
        tail_bytes_min: 1000,
        ..Options::default()
    };
    let place = |_: &_| {
        let place = DirectoryPlace::open(&side, 8 << 20, 1 << 20)?;
        Ok(Some(Arc::new(place) as Arc<dyn Place>))
    };
    CloudDevice::open(store(name), place, options, &env())
}

fn env() -> Arc<dyn Env> {
    Arc::new(RealEnv::new())
}

impl World {
    fn new(name: BucketName, seed: u64) -> Self {
        CloudDevice::create(store(&name), SIZE, &Options::default(), &env()).expect("made");
        let home = tempfile::tempdir().expect("a directory");
        let device = open(&name, home.path().join("0"), false).expect("new");
        Self {
            name,
            side: 0,
            home,
            random: Random::new(seed),
            device: Some(device),
            now: vec![0; SIZE as usize],
            moments: vec![vec![0; SIZE as usize]],
            taken_over: 0,
            lost: 0,
        }
    }

    fn device(&self) -> Arc<CloudDevice> {
        Arc::clone(self.device.as_ref().expect("open"))
    }

    fn side(&self) -> PathBuf {
        self.home.path().join(self.side.to_string())
    }

    fn range(&mut self, longest: u64) -> (u64, usize) {
        let length = 512 * (1 + self.random.below(longest / 512));
        let offset = self.random.below((SIZE - length) / 512 + 1) * 512;
        (offset, length as usize)
    }

    fn write(&mut self) {
        let longest = if self.random.permille(700) {
            4 << 10
        } else {
            40 << 10
        };
        let (offset, length) = self.range(longest);
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        self.device().write_at(offset, &bytes).expect("room");
        self.now[offset as usize..][..length].copy_from_slice(&bytes);
        self.moments.push(self.now.clone());
    }

    fn read(&mut self) {
        let (offset, length) = self.range(60 << 10);
        let found = self.device().read_vec(offset, length).expect("readable");
        assert!(
            found == self.now[offset as usize..][..length],
            "{offset}+{length}"
        );
    }

    fn upload(&mut self) {
        self.device().upload().expect("tried until it works");
        self.moments = vec![self.now.clone()];
    }

    /// Stops in the middle, and resumes from its log.
    fn crash(&mut self) {
        self.device().close(Close::Keep).expect("in the log");
        drop(self.device.take());
        let device = open(&self.name, self.side(), false).expect("with its log");
        let found = device.read_vec(0, SIZE as usize).expect("readable");
        assert!(found == self.now, "nothing is lost with the log");
        self.device = Some(device);
    }

    /// The local side is lost, or another machine without it opens the device.
    fn lose(&mut self, is_alive: bool) {
        let old = self.device.take().expect("open");
        if !is_alive {
            old.close(Close::Keep).expect("in the log");
        }
        self.side += 1;
        let held = open(&self.name, self.side(), false).expect_err("the other side has it");
        assert!(matches!(held, CloudError::Held { .. }), "{held}");
        let device = open(&self.name, self.side(), true).expect("by force");
        let found = device.read_vec(0, SIZE as usize).expect("readable");
        let is_known = self.moments.contains(&found);
        assert!(is_known, "some moment since the last upload");
        if is_alive {
            old.write_at(0, &[0xee; 512]).ok();
            let fenced = old.upload().expect_err("taken over");
            assert!(matches!(*fenced, CloudError::Fenced { .. }), "{fenced}");
            assert!(old.flush().is_err());
            self.taken_over += 1;
        } else {
            self.lost += 1;
        }
        self.device = Some(device);
        self.now = found;
        self.moments = vec![self.now.clone()];
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn a_device_in_a_bucket_is_a_buffer() {
    let Some(server) = Server::get() else { return };
    let (seed, steps) = (
        number("CENOTE_CLOUD_SEED", 1),
        number("CENOTE_S3_STEPS", 150),
    );
    println!("CENOTE_CLOUD_SEED={seed} CENOTE_S3_STEPS={steps}");
    let faulty = faulty_line(server.address);
    let next = faulty
        .as_ref()
        .map_or(server.address, |(address, _)| *address);
    let line = LosingLine::new(next, 50);
    let mut name = server.fresh();
    name.endpoint = Some(format!("http://{}", line.address));
    let mut world = World::new(name, seed);
    for step in 0..steps {
        match world.random.below(100) {
            0..=59 => world.write(),
            60..=79 => world.read(),
            80..=93 => world.device().flush().expect("in the log"),
            94..=96 => world.upload(),
            97..=98 => world.crash(),
            _ => world.lose(step % 2 == 0),
        }
    }
    world.lose(true);
    world.lose(false);
    world.write();
    world.device().close(Close::Upload).expect("released");
    let lost = line.lost.load(Ordering::Relaxed);
    println!(
        "{} taken over, {} lost, {lost} answers lost",
        world.taken_over, world.lost
    );
    assert!(lost > 0);
    // Another machine finds it, on a better line.
    world.name.endpoint = Some(format!("http://{}", server.address));
    let other = open(&world.name, world.home.path().join("other"), false).expect("released");
    let found = other.read_vec(0, SIZE as usize).expect("readable");
    assert!(found == world.now);
}

#[test]
fn an_outage_is_waited_out() {
    let Some(mut server) = OwnServer::new() else {
        return;
    };
    let name = server.named();
    CloudDevice::create(store(&name), SIZE, &Options::default(), &env()).expect("made");
    let home = tempfile::tempdir().expect("a directory");
    let device = open(&name, home.path().join("0"), false).expect("new");
    device.write_at(0, &[1; 4096]).expect("room");
    device.upload().expect("the server is there");
    assert_eq!(device.status().store.failing_since, None);

    server.stop();
    device
        .write_at(4096, &[2; 100 << 10])
        .expect("room in the log");
    device.flush().expect("the log is on this side");
    assert_eq!(device.read_vec(0, 1).expect("at hand"), [1]);
    let uploading = Arc::clone(&device);
    let uploading = std::thread::spawn(move || uploading.upload());
    let start = Instant::now();
    // A connection that was open breaks; then there is none.
    let health = loop {
        let health = device.status().store;
        let error = health.last_error.as_deref().unwrap_or_default();
        if health.failing_since.is_some() && error.contains("no connection") {
            break health;
        }
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "the outage is not noticed"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(!health.is_denied && device.status().pending_bytes > 0);
    assert!(!uploading.is_finished());

    server.start();
    let uploaded = uploading.join().expect("no panic");
    uploaded.expect("the server is back");
    assert_eq!(device.status().store.failing_since, None);
    assert_eq!(device.status().pending_bytes, 0);
    device.close(Close::Upload).expect("released");
    drop(device);
    let other = open(&name, home.path().join("1"), false).expect("released");
    assert_eq!(other.read_vec(100 << 10, 1).expect("readable"), [2]);

    // Closing with `Keep` does not wait for the server.
    server.stop();
    other.write_at(0, &[3; 512]).expect("room in the log");
    let start = Instant::now();
    other.close(Close::Keep).expect("the log has it");
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(other);
    server.start();
    let again = open(&name, home.path().join("1"), false).expect("with its log");
    assert_eq!(again.read_vec(0, 1).expect("readable"), [3]);
}

#[test]
fn a_device_in_a_bucket_is_known_by_its_name() {
    let Some(server) = Server::get() else { return };
    let state = tempfile::tempdir().expect("a directory");
    let opener = || {
        StoreOpener::new(false)
            .with_state(state.path())
            .with_surroundings(keys())
    };
    let name = server.fresh().to_string();
    let path = PathBuf::from(format!("{name}&size=1G&log=16M"));
    let kind = |result: Result<Arc<dyn Device>, cenote_device::DeviceError>| {
        let error = result.expect_err("refused");
        error.io_error().expect("of the opening").kind()
    };
    assert_eq!(
        kind(opener().open(&PathBuf::from(&name))),
        ErrorKind::NotFound
    );
    let device = opener().open_or_create(&path).expect("made");
    assert_eq!(device.path(), PathBuf::from(&name), "what labels keep");
    device.write_at(4096, &[7; 4096]).expect("room");
    device.flush().expect("in the log");
    drop(device);
    let elsewhere = StoreOpener::new(false).with_surroundings(keys());
    let elsewhere = elsewhere.with_state(&state.path().join("elsewhere"));
    assert_eq!(
        kind(elsewhere.open_writable(&path)),
        ErrorKind::ResourceBusy
    );
    // The log is found whatever the way is called by which one comes.
    let written = format!("{name}/&region=us-east-1&log=16M");
    let device = opener()
        .open_writable(&PathBuf::from(written))
        .expect("with its log");
    assert_eq!(device.read_vec(4096, 1).expect("a byte"), [7]);
    device.unlock();
    let reader = opener().open(&PathBuf::from(&name)).expect("released");
    assert_eq!(reader.read_vec(8191, 1).expect("a byte"), [7]);
}
