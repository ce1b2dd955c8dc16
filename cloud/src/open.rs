//! Creating and opening devices.
//!
//! A writer begins with a commit that names itself and changes nothing. From then on the previous
//! writer cannot commit: the name of its next commit is taken. Opening is refused as long as the
//! previous writer has not released the device, unless it is forced. The other exception is a local
//! log that the newest commit continues: then this machine was the previous writer.
//!
//! *The log*: it is replayed only if the newest commit names a point of it. If not, another writer
//! continued meanwhile. Writes in it that never reached the store are then kept under another name,
//! and reported.

use crate::cache::Cache;
use crate::chain::{self, Loaded, store_error};
use crate::core::{Core, Order, Parts, Seen, State};
use crate::error::{CloudError, Result};
use crate::format::commit::{Commit, LogPoint, Tip};
use crate::format::device::Identity;
use crate::format::{CommitNumber, Hash, ObjectNumber, Uuid, WriterId, device, key};
use crate::local::Place;
use crate::log::{AppendError, Event, Found, LOG_SIZE_MIN, Log, Logged, MemoryUse};
use crate::map::Map;
use crate::options::Options;
use crate::queue::Queue;
use crate::store::{Client, Put, Store};
use crate::work::Work;
use cenote_base::Env;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pairs of racing puts by which a store is tried.
const PROBE_PAIRS: usize = 8;
/// Names that are removed at once.
const NAMES_AT_ONCE: usize = 1000;
/// How often a take-over starts again because another writer was quicker.
const TRIES: usize = 10;

/// A log that was kept because another writer took the device over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogAside {
    /// Its name in the local directory.
    pub name: String,
    /// Bytes of writes in it that never came into the store.
    pub bytes: u64,
    /// The newest commit that the log knew of.
    pub commit: CommitNumber,
}

fn random<const LENGTH: usize>(env: &dyn Env) -> Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    env.fill_random(&mut bytes).map_err(CloudError::Random)?;
    Ok(bytes)
}

/// Makes a device of `size` bytes in an empty store. If objects are left of a device without
/// identity, they are removed with force, and without it that is refused.
///
/// # Errors
/// [`CloudError::Exists`] if there is one, [`CloudError::Remains`] if something is left of one,
/// [`CloudError::NoConditions`] if the store does not keep
/// names that are taken, and what the store says.
pub(crate) fn create(
    store: Arc<dyn Store>,
    size: u64,
    options: &Options,
    env: &Arc<dyn Env>,
) -> Result<Identity> {
    device::check_size(size).map_err(|_| CloudError::Size(size))?;
    let client = Client::new(store, Arc::clone(env), options.rates);
    client.set_patience(Some(options.opening_patience));
    let fail = |error| store_error(&client, error);
    let nonce = u64::from_le_bytes(random(&**env)?);
    if !client.probe(nonce, PROBE_PAIRS).map_err(fail)? {
        let store = client.described();
        return Err(CloudError::NoConditions { store });
    }
    let identity = Identity {
        uuid: Uuid(random(&**env)?),
        size,
        created: env.wall_clock().as_secs(),
    };
    let exists = |uuid| CloudError::Exists {
        store: client.name(),
        uuid,
    };
    // A device from before there were copies has none.
    match chain::identity(&client) {
        Ok((found, _)) => return Err(exists(found.uuid)),
        Err(CloudError::NoDevice { .. }) => {}
        Err(error) => return Err(error),
    }
    refuse_remains(&client, options.is_forced)?;
    let bytes = Arc::new(identity.encode());
    // If two create a device at the same time, the copy decides; the loser has put nothing else.
    for key in [key::DEVICE_COPY, key::DEVICE] {
        let object = (key.to_owned(), Arc::clone(&bytes));
        if let Some(Put::Taken(bytes)) = client.put_new(vec![object]).map_err(fail)?.pop() {
            return Err(exists(
                chain::in_object(key, Identity::decode(&bytes))?.uuid,
            ));
        }
    }
    Ok(identity)
}

/// Refuses a store with objects of a device, or with force removes them: without the identity,
/// which is lost, the device cannot be opened.
fn refuse_remains(client: &Client, is_forced: bool) -> Result<()> {
    let Some(key) = chain::listed(client)?.first else {
        return Ok(());
    };
    if !is_forced {
        let store = client.name();
        return Err(CloudError::Remains { store, key });
    }
    let fail = |error| store_error(client, error);
    let current = vec![key::CURRENT.to_owned()];
    client.delete(current).map_err(fail)?;
    for prefix in [key::COMMITS, key::MAP, key::DATA] {
        let mut after = None;
        loop {
            let found = client.list(prefix, after.take(), NAMES_AT_ONCE);
            let keys = found.map_err(fail)?.into_iter().map(|meta| meta.key);
            let keys: Vec<String> = keys.collect();
            let Some(last) = keys.last() else { break };
            after = Some(last.clone());
            client.delete(keys).map_err(fail)?;
        }
    }
    Ok(())
}

/// The log and the records that the store does not have.
#[derive(Debug)]
struct Resumed {
    /// The writer before, if it did not end in order, and the first number that it did not commit.
    unfinished: Option<(WriterId, ObjectNumber)>,
    log: Option<Log>,
    point: LogPoint,
    rest: Vec<Logged>,
}

/// The state of a device that was opened for reading, to save a writer that opens it next the
/// search. If the state is out of date, the name of the next commit is taken.
#[derive(Debug)]
pub struct Known {
    identity: Identity,
    bytes: Arc<Vec<u8>>,
    loaded: Loaded,
    fetched: Cache,
}

impl Core {
    /// Takes what is known away, and with that the device's use.
    pub(crate) fn take_known(&self) -> Option<Known> {
        if !self.options.is_read_only || self.is_stopping.swap(true, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.state();
        let loaded = Loaded {
            map: std::mem::replace(&mut state.map, Map::new(0)),
            tip: state.tip.clone(),
            hash: state.hash,
            checkpoints: state.checkpoints.clone(),
            points: self.seen.points.clone(),
            kept: state.kept.clone(),
        };
        drop(state);
        Some(Known {
            identity: self.identity,
            bytes: Arc::clone(&self.seen.identity),
            loaded,
            fetched: self.cache.take(),
        })
    }
}

/// Opens the device in `store`, with what `place` has for it on this side.
// tidy: allow(long-function, one step of the opening after another)
pub(crate) fn open(
    store: Arc<dyn Store>,
    find_place: impl FnOnce(&Identity) -> Result<Option<Arc<dyn Place>>>,
    options: Options,
    env: &Arc<dyn Env>,
    known: Option<Known>,
) -> Result<(Core, Option<LogAside>)> {
    let client = Arc::new(Client::new(store, Arc::clone(env), options.rates));
    client.set_patience(Some(options.opening_patience));
    let (identity, bytes, known, fetched) = match known {
        Some(known) => {
            let loaded = Some(known.loaded);
            (known.identity, known.bytes, loaded, known.fetched)
        }
        None => {
            let (identity, bytes) = chain::identity(&client)?;
            let fetched = Cache::new(options.fetched_bytes, options.cache_policy);
            (identity, bytes, None, fetched)
        }
    };
    client.set_witness(identity.uuid, Arc::clone(&bytes));
    let writer = WriterId(u64::from_le_bytes(random(&**env)?));
    let memory = MemoryUse::default();
    let mut aside = None;
    let (loaded, resumed, place) = if options.is_read_only {
        let loaded = chain::load(&client, &identity, options.map_bytes)?;
        let resumed = resumed_nothing(&loaded);
        (loaded, resumed, None)
    } else {
        refuse_without_conditions(&client, &bytes)?;
        let place = find_place(&identity)?;
        let opening = Opening {
            client: &client,
            identity: &identity,
            options: &options,
            env: &**env,
            writer,
            memory: &memory,
            place: place.as_deref(),
        };
        let (loaded, resumed) = opening.take_over(known, &mut aside)?;
        (loaded, resumed, place)
    };
    client.set_patience(None);
    let mut queue = Queue::default();
    for logged in resumed.rest {
        queue.push(logged, env.monotonic());
    }
    let core = Core::new(Parts {
        cache: cache(fetched, place.as_deref(), &identity)?,
        seen: Seen {
            identity: bytes,
            points: loaded.points.clone(),
        },
        identity,
        writer,
        options,
        client,
        place,
        memory,
        order: Order {
            log: resumed.log,
            point: resumed.point,
            trim: (loaded.tip.log, loaded.tip.number),
        },
        work: Work::new(resumed.unfinished),
        state: state(loaded, queue),
    });
    core.load_noted();
    // What was found lost on the way is put again first.
    core.wants_repair
        .store(core.client.damaged().1 > 0, Ordering::Relaxed);
    Ok((core, aside))
}

/// Makes sure that the store keeps a name that is taken. An identity that is lost is put again
/// before.
fn refuse_without_conditions(client: &Client, identity: &Arc<Vec<u8>>) -> Result<()> {
    if client.is_damaged(key::DEVICE) {
        let put = client.put_in_place(key::DEVICE, identity);
        put.map_err(|e| store_error(client, e))?;
    }
    let keeps = || {
        let keeps = client.keeps_name(key::DEVICE, identity);
        keeps.map_err(|e| store_error(client, e))
    };
    // A name that was free, because the object is lost, is taken by the first try.
    match keeps()? || keeps()? {
        true => Ok(()),
        false => Err(CloudError::NoConditions {
            store: client.described(),
        }),
    }
}

/// Of a device that is only read no local log is looked for.
fn resumed_nothing(loaded: &Loaded) -> Resumed {
    Resumed {
        unfinished: None,
        log: None,
        point: loaded.tip.log,
        rest: Vec::new(),
    }
}

fn state(loaded: Loaded, queue: Queue) -> State {
    State {
        map: loaded.map,
        tip: loaded.tip,
        hash: loaded.hash,
        checkpoints: loaded.checkpoints,
        queue,
        kept: loaded.kept,
        loss: None,
        failure: None,
        is_ending: false,
        rounds: 0,
    }
}

/// The read cache, with what is left of it on this side.
fn cache(cache: Cache, place: Option<&dyn Place>, identity: &Identity) -> Result<Cache> {
    let device = place.map(Place::cache).transpose()?.flatten();
    Ok(match device {
        Some(device) => cache.with_disk(device, identity.uuid),
        None => cache,
    })
}

struct Opening<'a> {
    client: &'a Client,
    identity: &'a Identity,
    options: &'a Options,
    env: &'a dyn Env,
    writer: WriterId,
    memory: &'a MemoryUse,
    place: Option<&'a dyn Place>,
}

impl Opening<'_> {
    /// Becomes the writer.
    fn take_over(
        &self,
        mut known: Option<Loaded>,
        aside: &mut Option<LogAside>,
    ) -> Result<(Loaded, Resumed)> {
        let mut unfinished = None;
        for _ in 0..TRIES {
            let mut loaded = match known.take() {
                Some(known) => known,
                None => chain::load(self.client, self.identity, self.options.map_bytes)?,
            };
            let mut resumed = self.resume(&loaded, aside)?;
            if !loaded.tip.is_released && loaded.tip.writer != self.writer {
                unfinished = Some((loaded.tip.writer, loaded.tip.next_object));
            }
            resumed.unfinished = unfinished;
            let commit = self.first_commit(&loaded, resumed.point);
            let number = commit.tip.number;
            let bytes = Arc::new(commit.encode(self.identity.uuid));
            let puts = self
                .client
                .put_new(vec![(key::commit(number), Arc::clone(&bytes))]);
            let puts = puts.map_err(|e| store_error(self.client, e))?;
            let seen = loaded.checkpoints.current.as_ref().map(|current| current.0);
            if puts != [Put::Done] || chain::has_moved(self.client, self.identity, seen)? {
                continue;
            }
            loaded.hash = Hash::of(&bytes);
            loaded.kept.first = Some((number, Arc::clone(&bytes)));
            loaded.kept.last = loaded.kept.first.clone();
            loaded.tip = commit.tip.clone();
            loaded.map.apply(commit);
            loaded.checkpoints.commits_since += 1;
            return Ok((loaded, self.begin(resumed)?));
        }
        Err(CloudError::Restless)
    }

    fn first_commit(&self, loaded: &Loaded, log: LogPoint) -> Commit {
        let number = loaded.tip.number.next();
        Commit {
            parent: loaded.hash,
            tip: Tip {
                number,
                writer: self.writer,
                session: number,
                host: self.options.host.clone(),
                written: self.env.wall_clock().as_secs(),
                is_released: false,
                log,
                checkpoint: loaded.checkpoints.current.as_ref().map(|current| current.0),
                ..loaded.tip.clone()
            },
            objects: Vec::new(),
            extents: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// Lets what follows in the log differ from whatever an earlier writer left there.
    fn begin(&self, mut resumed: Resumed) -> Result<Resumed> {
        if let Some(log) = &mut resumed.log {
            match log.append(Event::Session(self.writer), None) {
                Ok(logged) => resumed.rest.push(logged),
                // Then nothing is appended before something of it is in the store.
                Err(AppendError::Full) => {}
                Err(AppendError::Device(error)) => return Err(error.into()),
            }
        }
        Ok(resumed)
    }

    /// The log that continues the newest commit, if this writer may continue at all.
    fn resume(&self, loaded: &Loaded, aside: &mut Option<LogAside>) -> Result<Resumed> {
        let Some(place) = self.place else {
            self.check_released(loaded)?;
            let point = LogPoint {
                id: random(self.env)?,
                ..LogPoint::default()
            };
            return Ok(Resumed {
                unfinished: None,
                log: None,
                point,
                rest: Vec::new(),
            });
        };
        let device = place.log()?;
        if device.size() < LOG_SIZE_MIN {
            return Err(CloudError::LogSize(device.size()));
        }
        let found = Log::open(device, self.identity.uuid, self.memory)?;
        let from = found
            .as_ref()
            .and_then(|found| position(found, &loaded.tip.log));
        let found = match (found, from) {
            (Some(found), Some(from)) => {
                return Ok(Resumed {
                    unfinished: None,
                    point: loaded.tip.log,
                    rest: found.records.into_iter().skip(from).collect(),
                    log: Some(found.log),
                });
            }
            (found, _) => found,
        };
        if let Some(known) = found.as_ref().map(|found| found.commit)
            && known > loaded.tip.number
            && !self.options.is_forced
        {
            let found = loaded.tip.number;
            return Err(CloudError::SetBack { found, known });
        }
        self.check_released(loaded)?;
        if let Some(found) = found {
            self.set_aside(loaded, found, place, aside)?;
        }
        let log = Log::create(
            place.log()?,
            self.identity.uuid,
            random(self.env)?,
            self.memory,
        )?;
        Ok(Resumed {
            unfinished: None,
            point: log.head(),
            log: Some(log),
            rest: Vec::new(),
        })
    }

    fn check_released(&self, loaded: &Loaded) -> Result<()> {
        // Our own first commit is there if looking at it again was needed.
        let is_ours = loaded.tip.writer == self.writer;
        match loaded.tip.is_released || self.options.is_forced || is_ours {
            true => Ok(()),
            false => Err(CloudError::Held {
                host: loaded.tip.host.clone(),
                commit: loaded.tip.number,
            }),
        }
    }

    /// Keeps a log that has what never came into the store.
    fn set_aside(
        &self,
        loaded: &Loaded,
        found: Found,
        place: &dyn Place,
        aside: &mut Option<LogAside>,
    ) -> Result<()> {
        let known = loaded.points.get(&found.tail.id);
        let from = known.and_then(|point| position(&found, point));
        let lost = &found.records[from.unwrap_or(0)..];
        let payloads = lost.iter().filter_map(|logged| logged.payload.as_ref());
        let bytes: u64 = payloads.map(|payload| payload.length() as u64).sum();
        let changes =
            |logged: &Logged| matches!(logged.event, Event::Write { .. } | Event::Discard { .. });
        if lost.iter().any(changes) {
            let id = Uuid(found.tail.id);
            let name = format!("log-aside-{id}-{}", found.commit);
            place.put_log_aside(&name)?;
            *aside = Some(LogAside {
                name,
                bytes,
                commit: found.commit,
            });
        }
        Ok(())
    }
}

/// How many records of a log lie before `point`, if it is one of the log's.
fn position(found: &Found, point: &LogPoint) -> Option<usize> {
    if found.tail == *point {
        return Some(0);
    }
    let at = found.records.iter().position(|logged| logged.end == *point);
    at.map(|index| index + 1)
}
