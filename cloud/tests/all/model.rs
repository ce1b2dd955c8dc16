//! A device beside a flat buffer: random writes, crashes and take-overs, all decided by a seed.
//!
//! `CENOTE_CLOUD_SEED` and `CENOTE_CLOUD_STEPS` say which world and how long; a failure prints
//! both. What must hold:
//!
//! - while the device is open, it reads as the buffer;
//! - after a crash with its log it is as of some operation not before the last flush, and if the
//!   power stayed on, not before any operation at all;
//! - a device that is opened for reading shows one moment of it for as long as objects are kept,
//!   and after that either the same or an error;
//! - a writer that was taken over changes nothing, whatever it still tries;
//! - after a crash without its log, or once another machine has taken it over, it is as of some
//!   flush (or, where a full log forced it, some operation) not before what was confirmed as
//!   uploaded.

use cenote_base::Env;
use cenote_cloud::local::Place;
use cenote_cloud::simulation::{
    Connection, Faults, Random, SimulatedEnv, SimulatedPlace, SimulatedStore,
};
use cenote_cloud::{Close, CloudDevice, CloudError, Drive, Options, WriteMode};
use cenote_device::Device;
use std::sync::Arc;
use std::time::Duration;

/// Large enough for labels at both ends and as much between them.
const SIZE: u64 = 2 << 20;
const SECTOR: u64 = 512;
const LOG: u64 = 5 << 20;
const CACHE: u64 = 1 << 20;

#[derive(Clone, Debug)]
enum Operation {
    Write(u64, Vec<u8>),
    Discard(u64, u64),
    Flush,
}

impl Operation {
    fn apply(&self, buffer: &mut [u8]) {
        match self {
            Self::Write(offset, bytes) => {
                let start = *offset as usize;
                buffer[start..start + bytes.len()].copy_from_slice(bytes);
            }
            Self::Discard(offset, length) => {
                let start = offset.next_multiple_of(SECTOR) as usize;
                let end = ((offset + length) / SECTOR * SECTOR) as usize;
                if start < end {
                    buffer[start..end].fill(0);
                }
            }
            Self::Flush => {}
        }
    }
}

/// A machine: its local side, and whether it has one.
struct Machine {
    place: Option<Arc<SimulatedPlace>>,
}

struct World {
    seed: u64,
    step: u64,
    random: Random,
    env: Arc<SimulatedEnv>,
    store: Arc<SimulatedStore>,
    machines: Vec<Machine>,
    /// Which machine has the device.
    owner: usize,
    device: Arc<CloudDevice>,
    connection: Arc<Connection>,
    /// The contents before all operations.
    base: Vec<u8>,
    /// The contents now.
    now: Vec<u8>,
    operations: Vec<Operation>,
    /// The one among them that failed, so that it may be done or not.
    failed: Option<usize>,
    /// So many operations are certainly in the store.
    uploaded: usize,
    /// So many are certainly on the local side.
    durable: usize,
    counts: Counts,
    /// Readers of the device as of some moment.
    followers: Vec<Follower>,
    /// Writers that were taken over and may not know, with their machines.
    zombies: Vec<(usize, Arc<CloudDevice>)>,
}

struct Follower {
    device: Arc<CloudDevice>,
    contents: Vec<u8>,
    opened: Duration,
}

/// For how long what is dead is kept.
const KEEP: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
struct Counts {
    followers: u64,
    passed: u64,
    checkpoints: u64,
    compacted: u64,
    deleted: u64,
    crashes: u64,
    power_cuts: u64,
    losses: u64,
    take_overs: u64,
    asides: u64,
    lost_operations: u64,
}

fn options(random: &mut Random) -> Options {
    Options {
        mode: match random.permille(700) {
            true => WriteMode::Writeback,
            false => WriteMode::Writethrough,
        },
        drive: Drive::Manual,
        host: "model".into(),
        batch_bytes: 48 << 10,
        batch_bytes_max: 256 << 10,
        batch_age: Duration::from_secs(30),
        object_bytes: 64 << 10,
        inline_bytes: 4 << 10,
        contents_bytes_min: 8 << 10,
        memory_bytes: 512 << 10,
        map_bytes: 4 << 10,
        checkpoint_commits: 6,
        tail_bytes_min: 600,
        keep: KEEP,
        window_bytes: 16 << 10,
        gap_bytes: 2 << 10,
        fetched_bytes: 256 << 10,
        opening_patience: Duration::from_secs(1_000_000),
        ..Options::default()
    }
}

fn open(
    store: &Arc<SimulatedStore>,
    machine: &Machine,
    env: &Arc<SimulatedEnv>,
    mut options: Options,
    is_forced: bool,
) -> Result<(Arc<CloudDevice>, Arc<Connection>), CloudError> {
    options.is_forced = is_forced;
    let connection = store.connect();
    let env: Arc<dyn Env> = env.clone();
    let place = machine.place.clone().map(|place| place as Arc<dyn Place>);
    let device = CloudDevice::open(connection.clone(), |_| Ok(place), options, &env)?;
    Ok((device, connection))
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let env = Arc::new(SimulatedEnv::new(random.word()));
        let store = SimulatedStore::new(random.word(), env.clone());
        let machines = [true, true, false].map(|has_place| Machine {
            place: has_place.then(|| Arc::new(SimulatedPlace::new(LOG, CACHE))),
        });
        let options = options(&mut random);
        let world: Arc<dyn Env> = env.clone();
        CloudDevice::create(store.connect(), SIZE, &options, &world).expect("an empty store");
        store.set_faults(Faults {
            failing: 30,
            answer_lost: 30,
            late: 20,
            latency_ms_max: 80,
            ..Faults::default()
        });
        let opened = open(&store, &machines[0], &env, options, false);
        let (device, connection) = opened.expect("a new device");
        Self {
            seed,
            step: 0,
            random,
            env,
            store,
            machines: machines.into(),
            owner: 0,
            device,
            connection,
            base: vec![0; SIZE as usize],
            now: vec![0; SIZE as usize],
            operations: Vec::new(),
            failed: None,
            uploaded: 0,
            durable: 0,
            counts: Counts::default(),
            followers: Vec::new(),
            zombies: Vec::new(),
        }
    }

    fn place(&self) -> String {
        format!("seed {}, step {}", self.seed, self.step)
    }

    fn do_operation(&mut self, operation: Operation) -> bool {
        let result = match &operation {
            Operation::Write(offset, bytes) => self.device.write_at(*offset, bytes),
            Operation::Discard(offset, length) => self.device.discard(*offset, *length),
            Operation::Flush => self.device.flush(),
        };
        operation.apply(&mut self.now);
        let is_flush = matches!(operation, Operation::Flush);
        self.operations.push(operation);
        if result.is_ok() && is_flush {
            self.durable = self.operations.len();
            if self.device.status().pending_bytes == 0 && self.machines[self.owner].place.is_none()
            {
                self.uploaded = self.operations.len();
            }
        }
        assert!(
            result.is_ok() || self.connection.is_cut(),
            "{}: {result:?}",
            self.place()
        );
        if result.is_err() {
            self.failed = Some(self.operations.len() - 1);
        }
        result.is_ok()
    }

    fn random_range(&mut self, longest: u64) -> (u64, u64) {
        let length = 1 + self.random.below(longest);
        let offset = self.random.below(SIZE - length + 1);
        match self.random.permille(850) {
            true => {
                let offset = offset / SECTOR * SECTOR;
                (offset, length.next_multiple_of(SECTOR).min(SIZE - offset))
            }
            false => (offset, length),
        }
    }

    fn random_operation(&mut self) -> Operation {
        match self.random.below(100) {
            0..=5 => {
                let (offset, length) = self.random_range(200 << 10);
                Operation::Discard(offset, length)
            }
            6..=19 => Operation::Flush,
            kind => {
                let longest = if kind < 60 { 6 << 10 } else { 40 << 10 };
                let (offset, length) = self.random_range(longest);
                let mut bytes = vec![0; length as usize];
                match self.random.permille(200) {
                    // Compressible, and equal in many places.
                    true => bytes.fill(self.random.below(3) as u8),
                    false => self.random.fill(&mut bytes),
                }
                Operation::Write(offset, bytes)
            }
        }
    }

    fn check_read(&mut self) {
        let (offset, length) = self.random_range(100 << 10);
        match self.device.read_vec(offset, length as usize) {
            Ok(bytes) => {
                let start = offset as usize;
                let expected = &self.now[start..start + length as usize];
                assert!(bytes == expected, "{}: {offset}+{length}", self.place());
            }
            Err(error) => assert!(self.connection.is_cut(), "{}: {error}", self.place()),
        }
    }

    fn upload(&mut self) {
        // It puts a flush behind everything.
        self.operations.push(Operation::Flush);
        if self.device.upload().is_ok() {
            self.uploaded = self.operations.len();
        } else {
            assert!(self.connection.is_cut(), "{}", self.place());
        }
    }

    /// Lets the device go, and opens it again where and how the dice say.
    fn crash(&mut self) {
        self.counts.crashes += 1;
        let place = self.machines[self.owner].place.clone();
        let (mut least, mut has_log) = (self.operations.len(), place.is_some());
        let died_in_operation = self.connection.is_cut();
        // It flushes, if it can.
        self.device.close(Close::Keep).ok();
        self.operations.push(Operation::Flush);
        if died_in_operation {
            // The last operation may have failed half-way.
            least = least.saturating_sub(1).max(self.durable);
        }
        if let Some(place) = &place {
            match self.random.below(10) {
                0..=3 => {
                    self.counts.power_cuts += 1;
                    place.cut_power(&mut self.random);
                    least = self.durable;
                }
                4 => place.lose_cache(),
                5 => {
                    self.counts.losses += 1;
                    let lost = SimulatedPlace::new(LOG, CACHE);
                    self.machines[self.owner].place = Some(Arc::new(lost));
                    has_log = false;
                }
                _ => {}
            }
        }
        if !has_log {
            least = self.uploaded;
        }
        let is_forced = !has_log;
        self.reopen(self.owner, least.max(self.uploaded), is_forced, !has_log);
    }

    /// Another machine takes the device over, while it is open or not.
    fn take_over(&mut self) {
        self.counts.take_overs += 1;
        let old = Arc::clone(&self.device);
        // The old writer continues its other work, for a while or until it notices.
        self.zombies.push((self.owner, Arc::clone(&old)));
        if self.zombies.len() > 2 {
            self.zombies.remove(0);
        }
        let others = (1..self.machines.len()).map(|by| (self.owner + by) % self.machines.len());
        let others: Vec<usize> = others.collect();
        let owner = others[self.random.below(others.len() as u64) as usize];
        let upto = self.uploaded;
        self.reopen(owner, upto, true, true);
        if self.random.permille(300) {
            return;
        }
        // The one before writes on for a while, and is stopped.
        let bytes = vec![0xee; 512 * (1 + self.random.below(100) as usize)];
        for _ in 0..self.random.below(4) {
            old.write_at(self.random.below(1000) * 512, &bytes).ok();
        }
        old.write_at(0, &bytes).ok();
        let error = old.upload().expect_err("the next commit is another's");
        let is_told = matches!(
            *error,
            CloudError::Fenced { .. } | CloudError::Closed | CloudError::Cloned { .. }
        );
        assert!(is_told, "{}: {error}", self.place());
        assert!(old.flush().is_err());
    }

    fn reopen(&mut self, owner: usize, least: usize, is_forced: bool, is_without_log: bool) {
        let options = options(&mut self.random);
        // One program at a time has what lies on a machine.
        self.zombies.retain(|(machine, _)| *machine != owner);
        let machine = &self.machines[owner];
        let opened = open(&self.store, machine, &self.env, options, is_forced);
        let (device, connection) = opened.unwrap_or_else(|e| panic!("{}: {e}", self.place()));
        self.counts.asides += u64::from(device.log_aside().is_some());
        self.count_work();
        self.owner = owner;
        self.device = device;
        self.connection = connection;
        let found = self.device.read_vec(0, SIZE as usize);
        let found = found.unwrap_or_else(|e| panic!("{}: {e}", self.place()));
        let must_be_flush = is_without_log && self.device.status().is_at_flush;
        let matching = self
            .moment_of(&found, least, must_be_flush, None)
            .or_else(|| self.moment_of(&found, least, must_be_flush, self.failed));
        let Some(matching) = matching else {
            panic!("{}: no moment from {least} on", self.place());
        };
        self.counts.lost_operations += (self.operations.len() - matching) as u64;
        self.base = found.clone();
        self.now = found;
        self.operations.clear();
        self.failed = None;
        self.uploaded = 0;
        self.durable = 0;
        if !is_without_log {
            // What is on this side alone can still be lost with it.
            let device = Arc::clone(&self.device);
            if device.upload().is_err() {
                panic!("{}: nothing is cut yet", self.place());
            }
        }
    }

    fn count_work(&mut self) {
        let done = self.device.counts();
        self.counts.checkpoints += done.checkpoints;
        self.counts.compacted += done.compacted;
        self.counts.deleted += done.deleted;
    }

    /// Another machine opens the device for reading.
    fn follow(&mut self) {
        let options = Options {
            is_read_only: true,
            ..options(&mut self.random)
        };
        let machine = Machine { place: None };
        let opened = open(&self.store, &machine, &self.env, options, false);
        let (device, _) = opened.unwrap_or_else(|e| panic!("{}: {e}", self.place()));
        let opened = self.env.monotonic();
        let contents = device.read_vec(0, SIZE as usize);
        let contents = contents.unwrap_or_else(|e| panic!("{}: {e}", self.place()));
        let moment = self
            .moment_of(&contents, self.uploaded, false, None)
            .or_else(|| self.moment_of(&contents, self.uploaded, false, self.failed));
        assert!(moment.is_some(), "{}: no moment to follow", self.place());
        assert!(device.write_at(0, &[1]).is_err());
        self.counts.followers += 1;
        self.followers.push(Follower {
            device,
            contents,
            opened,
        });
        if self.followers.len() > 3 {
            self.followers.remove(0);
        }
    }

    /// Readers still see what they saw.
    fn check_followers(&mut self) {
        let (offset, length) = self.random_range(60 << 10);
        let mut passed = 0;
        for follower in &self.followers {
            match follower.device.read_vec(offset, length as usize) {
                Ok(bytes) => {
                    let range = offset as usize..(offset + length) as usize;
                    let is_same = bytes == follower.contents[range];
                    assert!(is_same, "{}: follower, {offset}+{length}", self.place());
                }
                Err(error) => {
                    let since = self.env.monotonic() - follower.opened;
                    assert!(since >= KEEP, "{}: after {since:?}: {error}", self.place());
                    passed += 1;
                }
            }
        }
        self.counts.passed += passed;
    }

    /// Writers that were taken over continue their work, and find out.
    fn let_zombies_live(&mut self) {
        for _ in 0..3 {
            self.zombies.retain(|(_, zombie)| zombie.step().is_ok());
        }
    }

    /// How many operations lead to what was found, at least `least`, leaving out one.
    fn moment_of(
        &self,
        found: &[u8],
        least: usize,
        must_be_flush: bool,
        without: Option<usize>,
    ) -> Option<usize> {
        let mut state = self.base.clone();
        let mut matching = None;
        for count in 0..=self.operations.len() {
            let last = count.checked_sub(1).map(|index| &self.operations[index]);
            if let Some(last) = last
                && without != Some(count - 1)
            {
                last.apply(&mut state);
            }
            let is_flush = last.is_none_or(|last| matches!(last, Operation::Flush));
            if count >= least && (is_flush || !must_be_flush) && state == found {
                matching = Some(count);
            }
        }
        matching
    }

    fn run(&mut self, steps: u64) {
        let mut laziness = 500;
        for step in 0..steps {
            self.step = step;
            if step % 150 == 0 {
                laziness = self.random.below(1000);
            }
            match self.random.below(1000) {
                0..=599 => {
                    let operation = self.random_operation();
                    if !self.do_operation(operation) {
                        self.crash();
                    }
                }
                600..=849 => self.check_read(),
                850..=859 => self.upload(),
                860..=867 => self.env.sleep(Duration::from_secs(self.random.below(100))),
                868..=869 => self.env.sleep(Duration::from_secs(self.random.below(1500))),
                870..=879 if !self.connection.is_cut() => {
                    let left = self.random.below(12);
                    self.connection.cut_after(left);
                }
                880..=884 => self.crash(),
                885..=888 => self.take_over(),
                889..=891 => self.hand_over(),
                940..=944 => {
                    if let Some(place) = &self.machines[self.owner].place {
                        place.damage_cache(&mut self.random);
                    }
                }
                892..=893 => self.follow(),
                894..=929 => self.check_followers(),
                930..=939 => self.let_zombies_live(),
                _ => {}
            }
            if !self.random.permille(laziness)
                && let Err(error) = self.device.step()
            {
                assert!(self.connection.is_cut(), "{}: {error}", self.place());
                self.crash();
            }
        }
    }

    /// Closes the device in order, and opens it somewhere without force.
    fn hand_over(&mut self) {
        self.operations.push(Operation::Flush);
        if self.device.close(Close::Upload).is_err() {
            assert!(self.connection.is_cut(), "{}", self.place());
            self.crash();
            return;
        }
        let owner = self.random.below(self.machines.len() as u64) as usize;
        let all = self.operations.len();
        self.reopen(owner, all, false, true);
    }

    /// All of it was exercised.
    fn finish(&mut self) {
        self.count_work();
        let counts = &self.counts;
        let done = [
            counts.checkpoints,
            counts.compacted,
            counts.deleted,
            counts.followers,
        ];
        assert!(done.iter().all(|count| *count > 0), "{counts:?}");
        println!("{counts:?}, {} requests", self.store.requests());
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn a_device_is_a_buffer() {
    let steps = number("CENOTE_CLOUD_STEPS", 4000);
    let first = number("CENOTE_CLOUD_SEED", 1);
    for seed in first..first + 3 {
        println!("CENOTE_CLOUD_SEED={seed} CENOTE_CLOUD_STEPS={steps}");
        let mut world = World::new(seed);
        world.run(steps);
        world.finish();
    }
}
