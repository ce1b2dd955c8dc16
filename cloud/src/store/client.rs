//! Requests that are tried until they have a certain end.
//!
//! *Trying again*: a passing failure is retried for ever (or for as long as the patience lasts),
//! after a delay that doubles from 200 ms to 30 s and has a random part. A refusal is retried each
//! minute, because people have to fix credentials. A permanent failure is not retried: the module
//! `damage` says which failure is which.
//!
//! *Lost answers*: a put that timed out may have been done, now or later. So a put of a free name
//! that finds the name taken reads it: the same bytes mean success, whichever request put them.
//!
//! *Ending*: [`Client::close`] makes waiting callers give up within a quarter of a second.

use super::damage::{DamageList, DamagedObject, PROOFS, Verdict, verdict};
use super::pace::Pace;
use super::statistics::Ending;
use super::{Answer, Condition, Meta, Request, Statistics, Store, StoreError, Tag};
use crate::format::current::Current;
use crate::format::{Uuid, key};
use cenote_base::Env;
use cenote_base::rt::{Mutex, ranks};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const DELAY_MIN: Duration = Duration::from_millis(200);
const DELAY_MAX: Duration = Duration::from_secs(30);
const DELAY_DENIED: Duration = Duration::from_secs(60);
/// The longest sleep before a waiting thread checks whether the client is closed.
const NAP: Duration = Duration::from_millis(250);

/// The outcome of a put of a free name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The name has these bytes.
    Done,
    /// The name has other bytes: these.
    Taken(Arc<Vec<u8>>),
}

/// Limits of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// Bytes a second that may be sent.
    pub upload: Option<u64>,
    /// Bytes a second that may come.
    pub download: Option<u64>,
}

/// An object's bytes, and their version where the store has such.
pub type Found = (Arc<Vec<u8>>, Option<Tag>);

/// A store and the persistence to get answers from it.
#[derive(Debug)]
pub struct Client {
    store: Arc<dyn Store>,
    env: Arc<dyn Env>,
    statistics: Statistics,
    upload: Pace,
    download: Pace,
    is_closed: AtomicBool,
    /// How long to try; for ever if there is none.
    patience: Mutex<Option<Duration>, ranks::StorePatience>,
    damage: DamageList,
    witness: OnceLock<Witness>,
}

/// What is known of objects that tell whether the store answers.
#[derive(Debug)]
struct Witness {
    uuid: Uuid,
    identity: Arc<Vec<u8>>,
}

/// A request that has no certain end yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    index: usize,
    tries: u32,
    /// How often the witness answered beside it.
    proofs: u32,
}

type Answers = Vec<Result<Answer, StoreError>>;

impl Client {
    /// A client of `store`.
    pub fn new(store: Arc<dyn Store>, env: Arc<dyn Env>, rates: Rates) -> Self {
        Self {
            store,
            env,
            statistics: Statistics::default(),
            upload: Pace::new(rates.upload),
            download: Pace::new(rates.download),
            is_closed: AtomicBool::new(false),
            patience: Mutex::new(None),
            damage: DamageList::default(),
            witness: OnceLock::new(),
        }
    }

    /// What has been asked so far.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The world that it lives in.
    pub fn env(&self) -> &dyn Env {
        &*self.env
    }

    /// Bytes of bodies that went out so far, those of requests under way too.
    pub fn sent_bytes(&self) -> u64 {
        self.store.sent_bytes()
    }

    /// What the store is, for people.
    pub fn name(&self) -> String {
        self.store.name()
    }

    /// The name, with the store's name for itself, for people who judge it.
    pub fn described(&self) -> String {
        match self.store.software() {
            Some(software) => format!("{} ({software})", self.name()),
            None => self.name(),
        }
    }

    /// From now on requests are tried for so long, or for ever.
    pub fn set_patience(&self, patience: Option<Duration>) {
        *self.patience.lock() = patience;
    }

    /// Makes all waiting callers give up, now and later.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Does all requests; each answer is one that trying again would not change.
    pub fn run(&self, requests: Vec<Request>) -> Answers {
        if requests.is_empty() {
            return Vec::new();
        }
        let begun = self.env.monotonic();
        let mut answers: Vec<Option<Result<Answer, StoreError>>> = Vec::new();
        answers.resize_with(requests.len(), || None);
        let fresh = |index| Open {
            index,
            tries: 0,
            proofs: 0,
        };
        let mut open: Vec<Open> = (0..requests.len()).map(fresh).collect();
        let mut delay = DELAY_MIN;
        loop {
            let batch = open.iter().map(|open| requests[open.index].clone());
            let batch: Vec<Request> = batch.collect();
            let mut tried = self.try_once(&batch);
            let waits = self.judge(&batch, &mut open, &mut tried, delay);
            let wait = waits.iter().flatten().max().copied().unwrap_or_default();
            for ((open, answer), wait) in open.iter().zip(tried).zip(&waits) {
                let key = requests[open.index].key();
                match (&answer, wait) {
                    (Err(error), Some(_)) => {
                        let error = error.to_string();
                        self.statistics.note_awaited(key, begun, error);
                    }
                    _ => self.statistics.end_awaited(key),
                }
                answers[open.index] = Some(answer);
            }
            let mut waits = waits.iter();
            open.retain(|_| waits.next().is_some_and(Option::is_some));
            let wait = wait.mul_f64(0.5 + self.random_part());
            // The patience may have been changed meanwhile.
            let patience = *self.patience.lock();
            let took = self.env.monotonic().saturating_sub(begun);
            let is_over = |patience| took.saturating_add(wait) > patience;
            if open.is_empty() || patience.is_some_and(is_over) {
                break;
            }
            if !self.nap(wait) {
                for open in &open {
                    answers[open.index] = Some(Err(StoreError::Closed));
                }
                break;
            }
            delay = (delay * 2).min(DELAY_MAX);
        }
        for open in &open {
            self.statistics.end_awaited(requests[open.index].key());
        }
        let answers = answers.into_iter();
        answers
            .map(|answer| answer.expect("all were tried"))
            .collect()
    }

    /// How long to wait before each request is tried again; `None` for those that have their end.
    fn judge(
        &self,
        batch: &[Request],
        open: &mut [Open],
        tried: &mut [Result<Answer, StoreError>],
        delay: Duration,
    ) -> Vec<Option<Duration>> {
        let mut is_proven = None;
        let mut waits = Vec::with_capacity(batch.len());
        for ((request, open), answer) in batch.iter().zip(open).zip(tried) {
            let Err(error) = answer else {
                self.damage.note_success(request);
                waits.push(None);
                continue;
            };
            open.tries += 1;
            let is_known = self.damage.is_known(request.key());
            let passes = matches!(error, StoreError::Transient(_));
            waits.push(match verdict(request, error, open.tries, is_known) {
                Verdict::Final => None,
                Verdict::Outage => Some(delay),
                Verdict::ForPeople => Some(DELAY_DENIED),
                Verdict::Suspect => {
                    let answers = *is_proven.get_or_insert_with(|| self.ask_witness(request.key()));
                    open.proofs = if answers == Some(true) {
                        open.proofs + 1
                    } else {
                        0
                    };
                    let needed = if passes && !is_known { PROOFS } else { 1 };
                    let is_damage = match (&error, answers) {
                        (StoreError::Damaged { .. }, None) => true,
                        _ => open.proofs >= needed,
                    };
                    match error {
                        _ if is_damage => {
                            *error = self.found_damaged(request, error);
                            None
                        }
                        StoreError::Transient(_) | StoreError::Damaged { .. } => Some(delay),
                        _ => Some(DELAY_DENIED),
                    }
                }
            });
        }
        waits
    }

    /// Whether the store answers for another object than `suspect`; `None` if none is known yet.
    fn ask_witness(&self, suspect: &str) -> Option<bool> {
        let witness = self.witness.get()?;
        let keys = [key::DEVICE, key::DEVICE_COPY, key::CURRENT];
        let others = keys.into_iter().filter(|key| *key != suspect);
        Some(others.into_iter().any(|key| {
            let get = Request::Get {
                key: key.into(),
                range: None,
            };
            match self.try_once(&[get]).pop() {
                Some(Ok(Answer::Get(bytes, _))) if key == key::CURRENT => {
                    Current::decode(witness.uuid, &bytes).is_ok()
                }
                Some(Ok(Answer::Get(bytes, _))) => bytes == witness.identity,
                _ => false,
            }
        }))
    }

    fn found_damaged(&self, request: &Request, error: &StoreError) -> StoreError {
        let (what, is_partial) = match error {
            StoreError::Damaged { what, .. } => (what.clone(), true),
            error => (format!("it cannot be read: {error}"), false),
        };
        self.damage.note(request.key(), what.clone(), is_partial);
        StoreError::damaged(request.key(), what)
    }

    /// From now on `identity`, which is what the object of that name holds, is what tells damage of
    /// other objects from an outage.
    pub(crate) fn set_witness(&self, uuid: Uuid, identity: Arc<Vec<u8>>) {
        // The device stays what it is.
        let _ = self.witness.set(Witness { uuid, identity });
    }

    /// Lists an object whose bytes are not what was put.
    pub(crate) fn note_damage(&self, key: &str, what: impl ToString) {
        self.damage.note(key, what.to_string(), true);
    }

    /// Takes an object off the list of damaged ones: it was found to be what was put.
    pub(crate) fn clear_damage(&self, key: &str) {
        self.damage.retain(|own| own != key);
    }

    /// Says of a damaged object that nothing in it is needed that is not intact.
    pub(crate) fn excuse_damage(&self, key: &str) {
        self.damage.excuse(key);
    }

    /// Whether an object is known to be damaged.
    pub(crate) fn is_damaged(&self, key: &str) -> bool {
        self.damage.is_known(key)
    }

    /// Forgets damaged objects that are not needed any more.
    pub(crate) fn retain_damaged(&self, is_needed: impl FnMut(&str) -> bool) {
        self.damage.retain(is_needed);
    }

    /// The first objects that are known to be damaged, and how many there are.
    pub fn damaged(&self) -> (Vec<DamagedObject>, u64) {
        self.damage.list()
    }

    /// A number from 0 to 1, so that many waiting callers do not come back at once.
    fn random_part(&self) -> f64 {
        let mut byte = [128];
        // Without randomness all wait equally long, which is no harm.
        let _ = self.env.fill_random(&mut byte);
        f64::from(byte[0]) / 255.0
    }

    /// Sleeps, unless the client is closed; returns whether to continue.
    fn nap(&self, wait: Duration) -> bool {
        let end = self.env.monotonic().saturating_add(wait);
        loop {
            if self.is_closed() {
                return false;
            }
            let left = end.saturating_sub(self.env.monotonic());
            if left.is_zero() {
                return true;
            }
            self.env.sleep(left.min(NAP));
        }
    }

    /// Waits before an answer is asked for again that contradicted another one, longer each time.
    ///
    /// # Errors
    /// If the client is closed.
    pub(crate) fn wait_again(&self, tries: u32) -> Result<(), StoreError> {
        let wait = DELAY_MIN * 2_u32.saturating_pow(tries);
        match self.nap(wait.min(DELAY_MAX)) {
            true => Ok(()),
            false => Err(StoreError::Closed),
        }
    }

    fn try_once(&self, batch: &[Request]) -> Answers {
        let sends: u64 = batch.iter().map(Request::sends).sum();
        let asks: u64 = batch.iter().map(expects).sum();
        let now = self.env.monotonic();
        let upload = self.upload.reserve(now, sends);
        let download = self.download.reserve(now, asks);
        if self.is_closed() || !self.nap(upload.max(download)) {
            return batch.iter().map(|_| Err(StoreError::Closed)).collect();
        }
        let start = self.env.monotonic();
        let answers = self.store.run(batch);
        assert_eq!(answers.len(), batch.len(), "each request has an answer");
        let now = self.env.monotonic();
        let both = batch.iter().zip(&answers);
        // A put that fails counts, whatever was put beside it.
        let (failed, others): (Vec<_>, Vec<_>) = both.partition(|(request, answer)| {
            matches!(request, Request::Put { .. }) && answer.is_err()
        });
        for (request, answer) in others.into_iter().chain(failed) {
            self.count(request, answer, now);
        }
        if let Some(first) = batch.first() {
            let took = now.saturating_sub(start);
            self.statistics.count_latency(first.kind(), took);
        }
        answers
    }

    fn count(&self, request: &Request, answer: &Result<Answer, StoreError>, now: Duration) {
        let received = match answer {
            Ok(Answer::Get(bytes, _)) => bytes.len() as u64,
            _ => 0,
        };
        let ending = match answer {
            Ok(_) | Err(StoreError::NotFound | StoreError::Precondition) => Ending::Done,
            Err(StoreError::Transient(_) | StoreError::Busy(_) | StoreError::Unclear(_)) => {
                Ending::Transient
            }
            Err(error) if is_denial(error) => Ending::Denied,
            Err(_) => Ending::Failed,
        };
        self.statistics
            .count(request.kind(), &ending, request.sends(), received);
        match (&ending, answer) {
            (Ending::Done, _) => self.statistics.note_success(request.kind()),
            // It is the object that is wrong, not the way to it.
            (_, Err(StoreError::Damaged { .. } | StoreError::Closed)) => {}
            (_, Err(error)) => {
                let text = format!("{}: {error}", request.key());
                let is_denied = is_denial(error);
                self.statistics
                    .note_failure(request.kind(), now, text, is_denied);
            }
            _ => {}
        }
    }

    fn run_one(&self, request: Request) -> Result<Answer, StoreError> {
        let mut answers = self.run(vec![request]);
        answers.pop().expect("an answer for a request")
    }

    /// The bytes of `key`, and their version; `None` if there is no such object.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn get(&self, key: &str) -> Result<Option<Found>, StoreError> {
        let request = Request::Get {
            key: key.into(),
            range: None,
        };
        match self.run_one(request) {
            Ok(Answer::Get(bytes, tag)) => Ok(Some((bytes, tag))),
            Ok(_) => Err(wrong_answer()),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The bytes of each name or range, `None` for those that are not there.
    ///
    /// # Errors
    /// The first that remains once patience is over.
    pub fn get_all(&self, requests: Vec<Request>) -> Result<Vec<Option<Arc<Vec<u8>>>>, StoreError> {
        let answers = self.run(requests).into_iter();
        let bytes = answers.map(|answer| match answer {
            Ok(Answer::Get(bytes, _)) => Ok(Some(bytes)),
            Ok(_) => Err(wrong_answer()),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        });
        bytes.collect()
    }

    /// Puts objects under names that are free, all at once.
    ///
    /// # Errors
    /// The first that remains once patience is over.
    pub fn put_new(&self, objects: Vec<(String, Arc<Vec<u8>>)>) -> Result<Vec<Put>, StoreError> {
        let mut outcomes: Vec<Option<Put>> = vec![None; objects.len()];
        let mut open: Vec<usize> = (0..objects.len()).collect();
        while !open.is_empty() {
            let puts = open.iter().map(|index| Request::Put {
                key: objects[*index].0.clone(),
                body: Arc::clone(&objects[*index].1),
                condition: Condition::Absent,
            });
            let answers = self.run(puts.collect());
            let mut taken = Vec::new();
            for (index, answer) in open.into_iter().zip(answers) {
                match answer {
                    Ok(_) => outcomes[index] = Some(Put::Done),
                    Err(StoreError::Precondition) => taken.push(index),
                    Err(error) => return Err(error),
                }
            }
            let reads = taken.iter().map(|index| Request::Get {
                key: objects[*index].0.clone(),
                range: None,
            });
            let found = self.get_all(reads.collect())?;
            open = Vec::new();
            let mut is_restless = false;
            for (index, found) in taken.into_iter().zip(found) {
                match found {
                    Some(bytes) if bytes == objects[index].1 => outcomes[index] = Some(Put::Done),
                    Some(bytes) => outcomes[index] = Some(Put::Taken(bytes)),
                    // Another writer removed it meanwhile, or is about to put it.
                    None => {
                        open.push(index);
                        is_restless = true;
                    }
                }
            }
            if is_restless && !self.nap(DELAY_MIN) {
                return Err(StoreError::Closed);
            }
        }
        let outcomes = outcomes.into_iter();
        Ok(outcomes.map(|put| put.expect("all have ended")).collect())
    }

    /// Puts the only valid bytes of a name over whatever is there, because that was damaged.
    /// Returns whether it is done. An existing object is replaced by one try: the store's owner may
    /// have protected it, or there may be a directory in its place, and the caller shall not wait
    /// for that.
    ///
    /// # Errors
    /// Those that remain once patience is over, while the name is free.
    pub fn put_in_place(&self, key: &str, body: &Arc<Vec<u8>>) -> Result<bool, StoreError> {
        let object = (key.to_owned(), Arc::clone(body));
        let mut is_done = match self.put_new(vec![object]) {
            Ok(puts) => puts == [Put::Done],
            Err(StoreError::Damaged { .. }) => false,
            Err(error) => return Err(error),
        };
        if !is_done {
            let put = Request::Put {
                key: key.into(),
                body: Arc::clone(body),
                condition: Condition::None,
            };
            is_done = matches!(self.try_once(&[put]).as_slice(), [Ok(_)]);
        }
        if is_done {
            self.clear_damage(key);
        }
        Ok(is_done)
    }

    /// Replaces the version `tag` of `key`, or puts it if there is no version.
    ///
    /// Some stores never accept the right version (Ceph 16 compares it with its quotes). There it
    /// is replaced without condition, once it is certain that no other writer has replaced it.
    ///
    /// Returns whether it is done; `false` if another writer has replaced it.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn replace(
        &self,
        key: &str,
        tag: Option<Tag>,
        body: &Arc<Vec<u8>>,
    ) -> Result<bool, StoreError> {
        let put = |condition| Request::Put {
            key: key.into(),
            body: Arc::clone(body),
            condition,
        };
        let Some(tag) = tag else {
            let objects = vec![(key.to_owned(), Arc::clone(body))];
            return Ok(self.put_new(objects)? == [Put::Done]);
        };
        match self.run_one(put(Condition::Matches(tag.clone()))) {
            Ok(_) => return Ok(true),
            Err(StoreError::Precondition | StoreError::NotFound) => {}
            Err(error) => return Err(error),
        }
        match self.get(key)? {
            Some((bytes, _)) if bytes == *body => Ok(true),
            Some((_, Some(now))) if now == tag => {
                self.run_one(put(Condition::None))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// What is known of `key`; `None` if there is no such object.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn head(&self, key: &str) -> Result<Option<Meta>, StoreError> {
        match self.run_one(Request::Head { key: key.into() }) {
            Ok(Answer::Head(meta)) => Ok(Some(meta)),
            Ok(_) => Err(wrong_answer()),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Up to `limit` names that begin with `prefix` and lie behind `after`, in order.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<Meta>, StoreError> {
        let request = Request::List {
            prefix: prefix.into(),
            after,
            limit,
        };
        match self.run_one(request)? {
            Answer::List(found) => Ok(found),
            _ => Err(wrong_answer()),
        }
    }

    /// Removes objects, those among them that are there.
    ///
    /// # Errors
    /// The first that remains once patience is over.
    pub fn delete(&self, keys: Vec<String>) -> Result<(), StoreError> {
        let requests = keys.into_iter().map(|key| Request::Delete { key });
        for answer in self.run(requests.collect()) {
            match answer {
                Ok(_) | Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tries once to remove objects; says for each name whether there is nothing of it any more.
    pub fn try_delete(&self, keys: Vec<String>) -> Vec<bool> {
        let requests = keys.into_iter().map(|key| Request::Delete { key });
        let requests: Vec<Request> = requests.collect();
        let answers = self.try_once(&requests).into_iter();
        let is_gone = |answer| matches!(answer, Ok(_) | Err(StoreError::NotFound));
        answers.map(is_gone).collect()
    }

    /// Whether the store keeps the name of an object that is there: puts `body` under `key` once
    /// more, on the condition that the name is free.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn keeps_name(&self, key: &str, body: &Arc<Vec<u8>>) -> Result<bool, StoreError> {
        let request = Request::Put {
            key: key.into(),
            body: Arc::clone(body),
            condition: Condition::Absent,
        };
        match self.run_one(request) {
            // A store that does not know the condition does not honour it.
            Ok(_) | Err(StoreError::Unsupported(_)) => Ok(false),
            Err(StoreError::Precondition) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Whether one of two racing puts of a free name wins, for `pairs` names; removes them again.
    ///
    /// # Errors
    /// Those that remain once patience is over.
    pub fn probe(&self, nonce: u64, pairs: usize) -> Result<bool, StoreError> {
        let keys: Vec<String> = (0..pairs)
            .map(|pair| format!("{}{nonce:016x}-{pair}", key::PROBE))
            .collect();
        let racers = |side: u8| {
            keys.iter().map(move |key| Request::Put {
                key: key.clone(),
                body: Arc::new(vec![side; 16]),
                condition: Condition::Absent,
            })
        };
        let both: Vec<Request> = racers(1).zip(racers(2)).flat_map(<[_; 2]>::from).collect();
        let answers = self.run(both);
        let mut one_wins = true;
        for pair in answers.chunks(2) {
            let won = pair.iter().filter(|answer| answer.is_ok()).count();
            let is_lost = |answer: &&Result<Answer, StoreError>| {
                matches!(answer, Err(StoreError::Precondition))
            };
            let lost = pair.iter().filter(is_lost).count();
            if let [Err(StoreError::Unsupported(_)), _] | [_, Err(StoreError::Unsupported(_))] =
                pair
            {
                one_wins = false;
                continue;
            }
            if won + lost < pair.len() {
                let failed = pair.iter().find_map(|answer| answer.clone().err());
                return Err(failed.unwrap_or(StoreError::Closed));
            }
            // Both may have lost: to an attempt of their own whose answer was lost.
            one_wins &= won <= 1;
        }
        // What cannot be removed costs a few bytes, and does no harm.
        self.try_delete(keys);
        Ok(one_wins)
    }
}

/// Whether the store refused because of the credentials, or of the time.
fn is_denial(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Denied(_) | StoreError::Expired(_) | StoreError::Skewed { .. }
    )
}

fn wrong_answer() -> StoreError {
    StoreError::Other("the store answered something else than what was asked".into())
}

/// Bytes that an answer will have, as far as the request says.
fn expects(request: &Request) -> u64 {
    match request {
        Request::Get {
            range: Some(range), ..
        } => range.end.saturating_sub(range.start),
        _ => 0,
    }
}
