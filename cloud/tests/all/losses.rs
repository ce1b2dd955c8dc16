//! A store that loses, exchanges and ages objects under a device in use; then the local side dies.
//!
//! A store had lost objects, a scrub read the read cache and found nothing, and all that the cache
//! had was lost with the local side. What must hold, by a seed:
//!
//! - before the local side is lost, a scrub, a verification or the status says that something is
//!   wrong whenever the store alone does not lead to what was written;
//! - what this side still had when that was said is in the store afterwards;
//! - a store that was set back is noticed by the next commit.
//!
//! The layer above is a buffer that knows what each block has to hold, as a pool's checksums do.
//! Its
//! scrub is that of a pool: the medium first, and what is wrong there is written again if the
//! nearest copy is right.
//!
//! `CENOTE_CLOUD_SEED` and `CENOTE_CLOUD_ROUNDS` say which world and how long.

use cenote_base::Env;
use cenote_cloud::local::Place;
use cenote_cloud::simulation::{Random, SimulatedEnv, SimulatedPlace, SimulatedStore};
use cenote_cloud::{CloudDevice, Drive, Options};
use cenote_device::Device;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 2 << 20;
const BLOCK: usize = 4 << 10;
const LOG: u64 = 5 << 20;

type Objects = BTreeMap<String, Vec<u8>>;

fn options(random: &mut Random) -> Options {
    Options {
        drive: Drive::Manual,
        host: "losses".into(),
        batch_bytes: 48 << 10,
        batch_bytes_max: 256 << 10,
        batch_age: Duration::from_secs(30),
        object_bytes: 64 << 10,
        inline_bytes: 4 << 10,
        contents_bytes_min: 8 << 10,
        map_bytes: 1 << 20,
        checkpoint_commits: 2 + random.below(8),
        tail_bytes_min: 300 + random.below(600),
        window_bytes: 16 << 10,
        gap_bytes: 2 << 10,
        fetched_bytes: 64 << 10,
        predecessor_interval: Duration::ZERO,
        ..Options::default()
    }
}

#[derive(Debug, Default)]
struct Counts {
    sabotaged: BTreeMap<&'static str, u64>,
    harmless: u64,
    noticed: u64,
    put_again: u64,
    lost_blocks: u64,
    rewritten: u64,
    dead: u64,
}

struct World {
    seed: u64,
    round: u64,
    random: Random,
    env: Arc<SimulatedEnv>,
    store: Arc<SimulatedStore>,
    place: Arc<SimulatedPlace>,
    device: Arc<CloudDevice>,
    model: Vec<u8>,
    /// States of the store, to be gone back to.
    older: Vec<Objects>,
    counts: Counts,
}

fn open(
    store: &Arc<SimulatedStore>,
    place: Option<&Arc<SimulatedPlace>>,
    env: &Arc<SimulatedEnv>,
    options: Options,
) -> Result<Arc<CloudDevice>, cenote_cloud::CloudError> {
    let env: Arc<dyn Env> = env.clone();
    let place = place.cloned().map(|place| place as Arc<dyn Place>);
    CloudDevice::open(store.connect(), |_| Ok(place), options, &env)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let env = Arc::new(SimulatedEnv::new(random.word()));
        let store = SimulatedStore::new(random.word(), env.clone());
        let world: Arc<dyn Env> = env.clone();
        let made = options(&mut random);
        CloudDevice::create(store.connect(), SIZE, &made, &world).expect("an empty store");
        let place = Arc::new(SimulatedPlace::new(LOG, 16 << 20));
        let device = open(&store, Some(&place), &env, made).expect("a new device");
        Self {
            seed,
            round: 0,
            random,
            env,
            store,
            place,
            device,
            model: vec![0; SIZE as usize],
            older: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn at(&self) -> String {
        format!("seed {}, round {}", self.seed, self.round)
    }

    fn objects(&self) -> Objects {
        let keys = self.store.keys().into_iter();
        let objects = keys.filter_map(|key| {
            let bytes = self.store.object(&key)?;
            Some((key, bytes.to_vec()))
        });
        objects.collect()
    }

    /// Writes for a while. Nothing fails for good, unless the device has died of what it lost.
    fn live(&mut self, operations: u64) -> bool {
        for _ in 0..operations {
            let blocks = 1 + self.random.below(12) as usize;
            let last = SIZE as usize / BLOCK - blocks + 1;
            let at = self.random.below(last as u64) as usize * BLOCK;
            let mut bytes = vec![0; blocks * BLOCK];
            self.random.fill(&mut bytes);
            if self.device.write_at(at as u64, &bytes).is_err() {
                return false;
            }
            self.model[at..at + bytes.len()].copy_from_slice(&bytes);
            if self.random.permille(400) && self.device.flush().is_err() {
                return false;
            }
            if self.random.permille(300) {
                self.env.sleep(Duration::from_secs(40));
            }
            for _ in 0..self.random.below(4) {
                if self.device.step().is_err() {
                    return false;
                }
            }
        }
        true
    }

    /// One thing that happens to the store.
    fn sabotage(&mut self) -> &'static str {
        let mut objects = self.objects();
        let keys: Vec<String> = objects.keys().cloned().collect();
        let pick = |random: &mut Random, prefix: &str| {
            let own: Vec<&String> = keys.iter().filter(|key| key.starts_with(prefix)).collect();
            own.get(random.below(own.len().max(1) as u64) as usize)
                .map(|key| (*key).clone())
        };
        let prefixes = ["", "data/", "map/", "commit/", "device", "current"];
        let prefix = prefixes[self.random.below(prefixes.len() as u64) as usize];
        let Some(key) = pick(&mut self.random, prefix) else {
            return "nothing";
        };
        match self.random.below(6) {
            0 | 1 => {
                self.store.set_object(&key, None);
                "removed"
            }
            2 => {
                let bytes = objects.remove(&key).expect("picked");
                let half = bytes[..bytes.len() / 2].to_vec();
                self.store.set_object(&key, Some(half));
                "shortened"
            }
            3 => {
                let other = pick(&mut self.random, prefix).expect("there is one");
                self.store.set_object(&key, objects.get(&other).cloned());
                self.store.set_object(&other, objects.get(&key).cloned());
                "exchanged"
            }
            _ => {
                let Some(back) = self.older.pop() else {
                    return "nothing";
                };
                for key in objects.keys().filter(|key| !back.contains_key(*key)) {
                    self.store.set_object(key, None);
                }
                for (key, bytes) in back {
                    if objects.get(&key) != Some(&bytes) {
                        self.store.set_object(&key, Some(bytes));
                    }
                }
                "set back"
            }
        }
    }

    /// What the store alone leads to.
    fn by_store_alone(&mut self) -> Option<Vec<Option<Vec<u8>>>> {
        let options = Options {
            is_read_only: true,
            opening_patience: Duration::from_secs(60),
            ..options(&mut self.random)
        };
        let device = open(&self.store, None, &self.env, options).ok()?;
        let blocks = (0..SIZE as usize / BLOCK).map(|block| {
            let read = device.read_vec((block * BLOCK) as u64, BLOCK);
            read.ok()
        });
        Some(blocks.collect())
    }

    fn is_as_written(&self, block: usize, bytes: &[u8]) -> bool {
        self.model[block * BLOCK..][..BLOCK] == *bytes
    }

    /// Whether the store alone leads to all that was written, apart from these blocks.
    fn stands_alone(&mut self, lost: &BTreeSet<usize>) -> bool {
        let Some(found) = self.by_store_alone() else {
            return false;
        };
        let mut blocks = found.iter().enumerate();
        blocks.all(|(block, bytes)| {
            let is_right = |bytes: &Vec<u8>| self.is_as_written(block, bytes);
            lost.contains(&block) || bytes.as_ref().is_some_and(is_right)
        })
    }

    /// A scrub as a pool makes it: how many blocks were wrong in the store, and which of them are
    /// nowhere else.
    fn scrub(&mut self) -> (u64, BTreeSet<usize>) {
        self.device.begin_verification();
        let mut wrong = 0;
        let mut lost = BTreeSet::new();
        for group in 0..SIZE as usize / BLOCK / 16 {
            let first = group * 16;
            let range = (first * BLOCK) as u64..((first + 16) * BLOCK) as u64;
            self.device.prefetch_medium(&[range]);
            for block in first..first + 16 {
                let offset = (block * BLOCK) as u64;
                let mut bytes = vec![0; BLOCK];
                let read = self.device.read_medium(offset, &mut bytes);
                if read.is_ok() && self.is_as_written(block, &bytes) {
                    continue;
                }
                wrong += 1;
                let near = self.device.read_at(offset, &mut bytes);
                if near.is_ok() && self.is_as_written(block, &bytes) {
                    self.counts.rewritten += 1;
                    // A device that has died takes no repair, and says so.
                    self.device.write_at(offset, &bytes).ok();
                } else {
                    lost.insert(block);
                }
            }
        }
        (wrong, lost)
    }

    fn says_something(&self) -> bool {
        let status = self.device.status();
        status.damaged_count > 0 || status.loss.is_some() || status.failure.is_some()
    }

    /// Returns whether the device could continue.
    fn round(&mut self) -> bool {
        let few = 5 + self.random.below(40);
        if !self.live(few) || self.device.upload().is_err() {
            return false;
        }
        self.older.clear();
        for _ in 0..self.random.below(4) {
            self.older.push(self.objects());
            let few = 1 + self.random.below(12);
            if !self.live(few) || self.device.upload().is_err() {
                return false;
            }
        }
        if self.says_something() {
            // What an earlier round did to an object that nothing needed is noticed late.
            self.rewrite(&BTreeSet::new());
        }
        let mut was_set_back = false;
        for _ in 0..1 + self.random.below(3) {
            let kind = self.sabotage();
            was_set_back |= kind == "set back";
            *self.counts.sabotaged.entry(kind).or_default() += 1;
        }
        let was_set_back = was_set_back && !self.stands_alone(&BTreeSet::new());
        if self.random.permille(500) {
            let few = 1 + self.random.below(6);
            if !self.live(few) || self.device.upload().is_err() {
                assert!(self.says_something(), "{}: died silently", self.at());
                return false;
            }
            assert!(
                !was_set_back || self.says_something(),
                "{}: set back, and the next commit did not notice",
                self.at()
            );
        }
        let is_well = self.stands_alone(&BTreeSet::new());
        let (wrong, lost) = self.scrub();
        let says = wrong > 0 || self.says_something();
        assert!(is_well || says, "{}: the loss went unnoticed", self.at());
        match is_well {
            true => self.counts.harmless += 1,
            false => self.counts.noticed += 1,
        }
        if self.device.put_again().is_err() || self.device.upload().is_err() {
            assert!(self.says_something(), "{}: died silently", self.at());
            return false;
        }
        let loss = self.device.status().loss;
        self.counts.put_again += loss.map_or(0, |loss| loss.put_again);
        assert!(
            self.stands_alone(&lost),
            "{}: what was here is not in the store: {:?}",
            self.at(),
            self.device.status()
        );
        self.lose_local_side(&lost);
        true
    }

    /// The local side is lost. The state of the store continues; lost blocks are written again.
    fn lose_local_side(&mut self, lost: &BTreeSet<usize>) {
        self.counts.lost_blocks += lost.len() as u64;
        let is_kept = self.random.permille(300);
        if is_kept {
            self.rewrite(lost);
            return;
        }
        let size = [1 << 20, 16 << 20][self.random.below(2) as usize];
        self.place = Arc::new(SimulatedPlace::new(LOG, size));
        let options = Options {
            is_forced: true,
            ..options(&mut self.random)
        };
        let opened = open(&self.store, Some(&self.place), &self.env, options);
        self.device = opened.unwrap_or_else(|error| panic!("{}: {error}", self.at()));
        self.rewrite(lost);
    }

    fn rewrite(&mut self, lost: &BTreeSet<usize>) {
        for block in lost {
            let bytes = self.model[block * BLOCK..][..BLOCK].to_vec();
            let offset = (block * BLOCK) as u64;
            self.device.write_at(offset, &bytes).expect("room");
        }
        self.device.upload().expect("well");
        // What is damaged and not needed any more goes with a checkpoint, or is excused.
        let verified = self.device.verify(&mut |_, _| true).expect("answers");
        assert_eq!(verified.faulty, 0, "{}: {:?}", self.at(), verified.faults);
        self.device.put_again().expect("well");
        assert!(
            !self.says_something(),
            "{}: {:?}",
            self.at(),
            self.device.status()
        );
    }
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn what_a_store_loses_is_noticed_and_put_again() {
    let rounds = number("CENOTE_CLOUD_ROUNDS", 12);
    let first = number("CENOTE_CLOUD_SEED", 1);
    let seeds = number("CENOTE_CLOUD_SEEDS", 6);
    for seed in first..first + seeds {
        println!("CENOTE_CLOUD_SEED={seed} CENOTE_CLOUD_ROUNDS={rounds}");
        let mut world = World::new(seed);
        for round in 0..rounds {
            world.round = round;
            if !world.round() {
                // The device has reported its failure; another one takes its place.
                let counts = std::mem::take(&mut world.counts);
                world = World::new(seed ^ ((round + 1) << 32));
                world.counts = counts;
                world.counts.dead += 1;
            }
        }
        println!("{:?}", world.counts);
    }
}
