//! A store in memory that is slow, fails, loses answers and carries out requests late.

use super::Random;
use crate::store::{Answer, Condition, Meta, Request, Store, StoreError, Tag};
use cenote_base::Env;
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How a store misbehaves, in thousandths of all requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Requests that fail without having been carried out.
    pub failing: u64,
    /// Requests that are carried out without an answer.
    pub answer_lost: u64,
    /// Requests that fail and are carried out at some later time.
    pub late: u64,
    /// The longest time that a request takes, in milliseconds.
    pub latency_ms_max: u64,
    /// Puts on a condition are done always.
    pub ignores_conditions: bool,
}

#[derive(Clone, Debug)]
struct Object {
    bytes: Arc<Vec<u8>>,
    version: u64,
    modified: u64,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<String, Object>,
    versions: u64,
    random: Random,
    faults: Faults,
    /// Requests on their way whose callers wait no more.
    late: Vec<Request>,
    requests: u64,
}

/// A store that many can be connected to.
#[derive(Debug)]
pub struct SimulatedStore {
    state: Mutex<State, ranks::SimulatedStore>,
    env: Arc<dyn Env>,
}

impl SimulatedStore {
    /// An empty store without faults.
    pub fn new(seed: u64, env: Arc<dyn Env>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                objects: BTreeMap::new(),
                versions: 0,
                random: Random::new(seed),
                faults: Faults::default(),
                late: Vec::new(),
                requests: 0,
            }),
            env,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// From now on it misbehaves in this way.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// A way to it.
    pub fn connect(self: &Arc<Self>) -> Arc<Connection> {
        Arc::new(Connection {
            store: Arc::clone(self),
            left: Mutex::new(None),
        })
    }

    /// The names of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.state().objects.keys().cloned().collect()
    }

    /// Bytes of all objects whose names begin with `prefix`.
    pub fn bytes(&self, prefix: &str) -> u64 {
        let state = self.state();
        let own = state.objects.iter();
        let own = own.filter(|(key, _)| key.starts_with(prefix));
        own.map(|(_, object)| object.bytes.len() as u64).sum()
    }

    /// The bytes of an object.
    pub fn object(&self, key: &str) -> Option<Arc<Vec<u8>>> {
        let state = self.state();
        state
            .objects
            .get(key)
            .map(|object| Arc::clone(&object.bytes))
    }

    /// Puts bytes under a name, whatever is there; removes it if there are none.
    pub fn set_object(&self, key: &str, bytes: Option<Vec<u8>>) {
        let now = self.env.wall_clock().as_secs();
        let mut state = self.state();
        match bytes {
            Some(bytes) => state.store(key, Arc::new(bytes), now),
            None => {
                state.objects.remove(key);
            }
        }
    }

    /// Requests that came so far.
    pub fn requests(&self) -> u64 {
        self.state().requests
    }
}

impl State {
    fn store(&mut self, key: &str, bytes: Arc<Vec<u8>>, now: u64) {
        self.versions += 1;
        let object = Object {
            bytes,
            version: self.versions,
            modified: now,
        };
        self.objects.insert(key.into(), object);
    }

    fn carry_out(&mut self, request: &Request, now: u64) -> Result<Answer, StoreError> {
        match request {
            Request::Put {
                key,
                body,
                condition,
            } => self.put(key, body, condition, now),
            Request::Get { key, range } => {
                let object = self.objects.get(key).ok_or(StoreError::NotFound)?;
                let tag = Some(object.tag());
                let Some(range) = range else {
                    return Ok(Answer::Get(Arc::clone(&object.bytes), tag));
                };
                let piece = object.bytes.get(range.start as usize..range.end as usize);
                let piece =
                    piece.ok_or_else(|| StoreError::of_length(key, object.bytes.len() as u64))?;
                Ok(Answer::Get(Arc::new(piece.to_vec()), tag))
            }
            Request::Head { key } => {
                let object = self.objects.get(key).ok_or(StoreError::NotFound)?;
                Ok(Answer::Head(object.meta(key)))
            }
            Request::List {
                prefix,
                after,
                limit,
            } => {
                let objects = self.objects.iter();
                let wanted = objects.filter(|(key, _)| {
                    key.starts_with(prefix) && after.as_ref().is_none_or(|after| *key > after)
                });
                let found = wanted.map(|(key, object)| object.meta(key));
                Ok(Answer::List(found.take(*limit).collect()))
            }
            Request::Delete { key } => {
                self.objects.remove(key);
                Ok(Answer::Delete)
            }
        }
    }

    fn put(
        &mut self,
        key: &str,
        body: &Arc<Vec<u8>>,
        condition: &Condition,
        now: u64,
    ) -> Result<Answer, StoreError> {
        let is_met = match (condition, self.objects.get(key)) {
            _ if self.faults.ignores_conditions => true,
            (Condition::Absent, found) => found.is_none(),
            (Condition::Matches(tag), Some(found)) => found.tag() == *tag,
            (Condition::Matches(_), None) => return Err(StoreError::NotFound),
            (Condition::None, _) => true,
        };
        if !is_met {
            return Err(StoreError::Precondition);
        }
        self.store(key, Arc::clone(body), now);
        Ok(Answer::Put(self.objects.get(key).map(Object::tag)))
    }

    /// Carries out some of the requests whose callers wait no more.
    fn catch_up(&mut self, now: u64) {
        let mut index = 0;
        while index < self.late.len() {
            if self.random.permille(100) {
                let request = self.late.swap_remove(index);
                // The caller does not get the answer.
                let _ = self.carry_out(&request, now);
            } else {
                index += 1;
            }
        }
    }

    fn meet(&mut self, request: &Request, now: u64) -> Result<Answer, StoreError> {
        self.requests += 1;
        self.catch_up(now);
        let faults = self.faults;
        let lost = || Err(StoreError::Transient("no answer in time".into()));
        if self.random.permille(faults.failing) {
            return Err(StoreError::Transient("busy".into()));
        }
        if self.random.permille(faults.late) {
            self.late.push(request.clone());
            return lost();
        }
        let answer = self.carry_out(request, now);
        match self.random.permille(faults.answer_lost) {
            true => lost(),
            false => answer,
        }
    }
}

impl Object {
    fn tag(&self) -> Tag {
        Tag(self.version.to_string())
    }

    fn meta(&self, key: &str) -> Meta {
        Meta {
            key: key.into(),
            length: self.bytes.len() as u64,
            tag: Some(self.tag()),
            modified: self.modified,
        }
    }
}

/// A way to a store, which can be cut.
#[derive(Debug)]
pub struct Connection {
    store: Arc<SimulatedStore>,
    /// Requests until it is cut.
    left: Mutex<Option<u64>, ranks::SimulatedConnection>,
}

impl Connection {
    fn left(&self) -> MutexGuard<'_, Option<u64>> {
        self.left.lock()
    }

    /// Lets so many more requests through.
    pub fn cut_after(&self, requests: u64) {
        *self.left() = Some(requests);
    }

    /// Whether no request gets through any more.
    pub fn is_cut(&self) -> bool {
        *self.left() == Some(0)
    }

    /// Whether a request gets through.
    fn takes(&self) -> bool {
        match &mut *self.left() {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

impl Store for Connection {
    fn run(&self, requests: &[Request]) -> Vec<Result<Answer, StoreError>> {
        let now = self.store.env.wall_clock().as_secs();
        let mut answers: Vec<Result<Answer, StoreError>> =
            requests.iter().map(|_| Err(StoreError::Closed)).collect();
        let mut order: Vec<usize> = (0..requests.len()).collect();
        let mut latency = 0;
        let mut state = self.store.state();
        while !order.is_empty() {
            let pick = state.random.below(order.len() as u64) as usize;
            let index = order.swap_remove(pick);
            if self.takes() {
                answers[index] = state.meet(&requests[index], now);
            } else if state.random.permille(300) {
                // It was on its way already.
                state.late.push(requests[index].clone());
            }
            let most = state.faults.latency_ms_max + 1;
            latency = latency.max(state.random.below(most));
        }
        drop(state);
        self.store.env.sleep(Duration::from_millis(latency));
        answers
    }

    fn sent_bytes(&self) -> u64 {
        0
    }

    fn name(&self) -> String {
        "simulated".into()
    }
}
