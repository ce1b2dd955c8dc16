//! Objects that the store has lost and this machine still has are put again, under their own names.
//!
//! An object never changes, so putting its very bytes again is right whatever happened to it: it
//! was removed, shortened or exchanged, or the whole store was set back to an older state. This
//! machine has:
//!
//! * the identity; the newest commit and the first one of this session; the roots of the newest
//!   checkpoint and of its base: in memory, as bytes ([`Kept`]);
//! * data objects that are in the read cache as a whole: compared with the checks in their tables;
//! * pages of the map: in memory or in the read cache;
//! * the changes since the newest checkpoint: in the map. A new checkpoint replaces commits that
//!   are gone, so they are not kept.
//!
//! *Order*: first data, pages and roots; then `current`, which leads to them; commits last. So
//! an import that opens the store meanwhile finds an older state, or the newest.
//!
//! *Set back*: before a commit is put, the store is asked for the one before it: one request for
//! each commit, and no more than one in [`crate::Options::predecessor_interval`]. If it is not
//! there, all objects are checked. First of all, a check finds another writer that continued from
//! the older state: then nothing is put.
//!
//! Objects of which only parts are here are left to a scrub, which knows what their blocks hold.

use crate::cache::Name;
use crate::chain::{self, store_error};
use crate::checkpoint::Size;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::checkpoint::{ObjectEntry, PageRef};
use crate::format::commit::Commit;
use crate::format::current::Current;
use crate::format::data::DataTable;
use crate::format::{CommitNumber, Decoder, Encoder, Hash, SECTOR, key};
use crate::kept::{Kept, Loss};
use crate::map::{Fetched, PageKey};
use crate::pack::Package;
use crate::store::{Answer, DamagedObject, Put, Request, StoreError};
use crate::work::Work;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Objects that are asked for at once.
const HEADS_AT_ONCE: usize = 64;
/// What is wrong with an object that has other bytes than it was put with.
const OTHER: &str = "it holds something else than what was put";
/// Pages that are written again by one checkpoint: at 4096 extents of 40 bytes, 42 MB in memory.
const PAGES_AT_ONCE: usize = 256;

/// The name in the local directory under which damage is written down.
const NOTED: &str = "damage";
/// Damaged objects that are written down.
const NOTED_MAX: usize = 1000;

/// What is known of a store's damage, as it is written down: strings with their lengths before
/// them, the loss first, then pairs of name and what is wrong, and a hash behind all of it.
#[derive(Debug, Default)]
struct Noted {
    loss: Option<Loss>,
    damaged: Vec<DamagedObject>,
}

impl Noted {
    fn encode(&self) -> Vec<u8> {
        let mut encoder = Encoder::new();
        let none = Loss::default();
        let loss = self.loss.as_ref().unwrap_or(&none);
        encoder.u8(u8::from(self.loss.is_some()));
        encoder.bytes(loss.what.as_bytes());
        encoder.varint(loss.put_again);
        let damaged = self.damaged.iter().take(NOTED_MAX);
        for object in damaged {
            encoder.bytes(object.key.as_bytes());
            encoder.bytes(object.what.as_bytes());
        }
        let mut bytes = encoder.finish();
        let hash = Hash::of(&bytes);
        bytes.extend_from_slice(&hash.0);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, hash) = bytes.split_last_chunk::<32>()?;
        if Hash::of(body).0 != *hash {
            return None;
        }
        let mut decoder = Decoder::new(body);
        let text = |decoder: &mut Decoder<'_>| {
            let bytes = decoder.bytes().ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let has_loss = decoder.u8().ok()? != 0;
        let what = text(&mut decoder)?;
        let put_again = decoder.varint().ok()?;
        let mut noted = Self {
            loss: has_loss.then_some(Loss { what, put_again }),
            damaged: Vec::new(),
        };
        while decoder.left() > 0 && noted.damaged.len() < NOTED_MAX {
            let (key, what) = (text(&mut decoder)?, text(&mut decoder)?);
            noted.damaged.push(DamagedObject { key, what });
        }
        Some(noted)
    }
}

impl Core {
    /// Makes sure that the store still has the newest commit. If not, puts again what this side
    /// has.
    pub(crate) fn ensure_predecessor(&self, work: &mut Work) -> Result<()> {
        let now = self.now();
        let interval = self.options.predecessor_interval;
        let is_fresh = |at| now.saturating_sub(at) < interval;
        if work.ensured.is_some_and(is_fresh) {
            return Ok(());
        }
        let Some((number, bytes)) = self.state().kept.last.clone() else {
            return Ok(());
        };
        let key = key::commit(number);
        let what = match self.client.head(&key) {
            Ok(Some(meta)) if meta.length == bytes.len() as u64 => None,
            Ok(Some(meta)) => Some(StoreError::of_length(&key, meta.length).to_string()),
            Ok(None) => Some("it is missing".to_owned()),
            Err(StoreError::Damaged { what, .. }) => Some(what),
            Err(error) => return Err(store_error(&self.client, error)),
        };
        if let Some(what) = what {
            self.recover(work, what)?;
        }
        work.ensured = Some(self.now());
        Ok(())
    }

    /// Puts again what there is, because the newest commit is not what it was.
    pub(crate) fn recover(&self, work: &mut Work, what: String) -> Result<()> {
        self.look_for_successors()?;
        let key = key::commit(self.state().tip.number);
        self.client.note_damage(&key, &what);
        self.note_loss(&key, &what);
        self.note_faults_of_chain()?;
        self.ask_for_objects()?;
        self.put_again(work)
    }

    /// Fails for good if another writer continued, from any state of the store.
    fn look_for_successors(&self) -> Result<()> {
        self.look_for_others()?;
        self.check_failure()?;
        let found = match chain::load(&self.client, &self.identity, 0) {
            Ok(found) => found.tip,
            // What is lost cannot tell.
            Err(error) if error.damaged_object().is_some() => return Ok(()),
            Err(CloudError::Restless | CloudError::Chain(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let state = self.state();
        let sessions = state.map.sessions();
        let is_known = sessions
            .iter()
            .any(|session| session.writer == found.writer);
        let is_ours = is_known || found.number == CommitNumber(0);
        drop(state);
        if !is_ours {
            self.fail(CloudError::Fenced {
                host: found.host,
                commit: found.number,
            });
        }
        self.check_failure()
    }

    /// Remembers that the store has lost something, for people.
    pub(crate) fn note_loss(&self, key: &str, what: &str) {
        let mut state = self.state();
        if state.loss.is_none() {
            state.loss = Some(Loss {
                what: format!("{key}: {what}"),
                put_again: 0,
            });
        }
    }

    /// Asks for all data objects that are needed and for the parts of the map; lists those that are
    /// not there or have another length.
    fn ask_for_objects(&self) -> Result<()> {
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        {
            let state = self.state();
            let living = state.map.objects().filter(|object| object.dead_since == 0);
            wanted.extend(
                living.map(|object| (key::data(object.writer, object.number), object.length)),
            );
            let parts = state.map.pages();
            let parts = parts.iter().map(|page| page.part);
            wanted.extend(parts.map(|part| (key::pages(part.checkpoint, part.part), part.length)));
        }
        let wanted: Vec<(String, u64)> = wanted.into_iter().collect();
        for group in wanted.chunks(HEADS_AT_ONCE) {
            let heads = group
                .iter()
                .map(|(key, _)| Request::Head { key: key.clone() });
            let answers = self.client.run(heads.collect());
            for ((key, length), answer) in group.iter().zip(answers) {
                match answer {
                    Ok(Answer::Head(meta)) if meta.length == *length => {}
                    Ok(Answer::Head(meta)) => {
                        let error = StoreError::of_length(key, meta.length);
                        self.client.note_damage(key, error);
                    }
                    Ok(_) | Err(StoreError::NotFound) => {
                        self.client.note_damage(key, "it is missing");
                    }
                    // It is listed already.
                    Err(StoreError::Damaged { .. }) => {}
                    Err(error) => return Err(store_error(&self.client, error)),
                }
            }
        }
        Ok(())
    }

    /// Puts again what is known to be damaged, as far as this side has it.
    pub(crate) fn put_again(&self, work: &mut Work) -> Result<()> {
        self.wants_repair.store(false, Ordering::Relaxed);
        let (listed, _) = self.client.damaged();
        let Some(first) = listed.first().filter(|_| !self.options.is_read_only) else {
            return Ok(());
        };
        let damaged = listed.iter().map(|object| object.key.clone());
        let damaged: BTreeSet<String> = damaged.collect();
        self.look_for_successors()?;
        let mut done = 0;
        for key in [key::DEVICE, key::DEVICE_COPY] {
            if damaged.contains(key) {
                done += self.replace(key, &self.seen.identity)?;
            }
        }
        done += self.put_data_again(work, &damaged)?;
        let kept = self.state().kept.clone();
        for (number, bytes) in &kept.roots {
            if damaged.contains(&key::root(*number)) {
                done += self.replace(&key::root(*number), bytes)?;
            }
        }
        let is_of = |prefix: &str| damaged.iter().any(|key| key.starts_with(prefix));
        let is_chain_broken = damaged.contains(key::CURRENT) || is_of(key::COMMITS);
        let rescued = self.rescued_pages(&damaged);
        if is_chain_broken {
            done += self.renew_chain(work, &kept, &damaged)?;
        }
        if !rescued.is_empty() {
            done += rescued.len() as u64;
            self.renew_pages(work, rescued)?;
        }
        if done > 0 {
            self.note_loss(&first.key, &first.what);
        }
        if let Some(loss) = &mut self.state().loss {
            loss.put_again += done;
        }
        self.changed.notify_all();
        Ok(())
    }

    /// Puts bytes under their name, whatever is there; says how many objects that repaired.
    fn replace(&self, key: &str, bytes: &Arc<Vec<u8>>) -> Result<u64> {
        let put = self.client.put_in_place(key, bytes);
        put.map(u64::from).map_err(|e| store_error(&self.client, e))
    }

    /// Puts data objects again that are here as a whole.
    fn put_data_again(&self, work: &mut Work, damaged: &BTreeSet<String>) -> Result<u64> {
        let objects: Vec<ObjectEntry> = {
            let state = self.state();
            let objects = state.map.objects().filter(|object| {
                object.dead_since == 0
                    && !work.given_up.contains(&object.number)
                    && damaged.contains(&key::data(object.writer, object.number))
            });
            objects.copied().collect()
        };
        let mut done = 0;
        for object in objects {
            match self.whole_from_cache(&object) {
                Some(bytes) => {
                    done += self.replace(&key::data(object.writer, object.number), &bytes)?;
                }
                None => drop(work.given_up.insert(object.number)),
            }
        }
        Ok(done)
    }

    /// An object that is in the read cache as a whole, and is what was put.
    fn whole_from_cache(&self, object: &ObjectEntry) -> Option<Arc<Vec<u8>>> {
        let mut bytes = vec![0; usize::try_from(object.length).ok()?];
        let name = Name::Data(object.writer, object.number);
        if !self.cache.get(name, object.class, 0, &mut bytes) {
            return None;
        }
        let table = DataTable::decode(self.identity.uuid, object.number, &bytes).ok()?;
        let is_right = table.length == object.length
            && table.pieces.iter().all(|piece| {
                let from = (piece.sector * SECTOR) as usize;
                let piece_bytes = bytes.get(from..from + (piece.sectors * SECTOR) as usize);
                piece_bytes.is_some_and(|bytes| Hash::of(bytes).short() == piece.check)
            });
        is_right.then(|| Arc::new(bytes))
    }

    /// Lets `current` lead to all that there is, and puts the commits that have to be there.
    fn renew_chain(&self, work: &mut Work, kept: &Kept, damaged: &BTreeSet<String>) -> Result<u64> {
        let (since, newest) = {
            let checkpoints = &self.state().checkpoints;
            let newest = checkpoints.current.as_ref().map(|current| current.0);
            (checkpoints.commits_since, newest)
        };
        match newest.and_then(|number| Some((number, kept.roots.get(&number)?))) {
            Some((number, bytes)) if since == 0 => {
                let root = Hash::of(bytes);
                let tag = self.set_current(Current { number, root })?;
                self.state().checkpoints.current = Some((number, tag));
            }
            _ => self.checkpoint(work, Size::Light)?,
        }
        let mut done = 1;
        for (number, bytes) in kept.first.iter().chain(&kept.last) {
            let key = key::commit(*number);
            if !damaged.contains(&key) {
                continue;
            }
            let put = self.client.put_new(vec![(key.clone(), Arc::clone(bytes))]);
            let found = match put.map(|mut puts| puts.pop()) {
                Ok(Some(Put::Taken(found))) => Some(found),
                Ok(_) => {
                    done += 1;
                    continue;
                }
                Err(StoreError::Damaged { .. }) => None,
                Err(error) => return Err(store_error(&self.client, error)),
            };
            // An object without meaning does not fence other writers off.
            let decoded = found.map(|found| {
                let commit = Commit::decode(self.identity.uuid, *number, &found);
                commit.map(|_| found)
            });
            if let Some(Ok(found)) = decoded {
                return Err(self.fenced_by(*number, &found));
            }
            done += self.replace(&key, bytes)?;
        }
        // Opening begins at the checkpoint, so damage of older commits does not matter any more.
        let is_over = |key: &str| key == key::CURRENT || key::commit_number(key).is_some();
        self.client.retain_damaged(|key| !is_over(key));
        Ok(done)
    }

    /// Pages of damaged parts of the map that are here.
    fn rescued_pages(&self, damaged: &BTreeSet<String>) -> Fetched {
        let pages = self.state().map.pages();
        let is_lost =
            |page: &&PageRef| damaged.contains(&key::pages(page.part.checkpoint, page.part.part));
        let mut rescued = Fetched::new();
        for page in pages.iter().filter(is_lost).take(PAGES_AT_ONCE) {
            let found = self.state().map.page_in_memory(page);
            let found = found.or_else(|| self.page_from_cache(page));
            rescued.extend(found.map(|extents| (PageKey::of(page), extents)));
        }
        rescued
    }

    /// Writes pages again, in a checkpoint.
    fn renew_pages(&self, work: &mut Work, rescued: Fetched) -> Result<()> {
        if self.state().checkpoints.commits_since == 0 {
            let says = self.unchanged();
            self.commit(Package::default(), says, None)?;
        }
        work.rescued = rescued;
        let made = self.checkpoint(work, Size::Full);
        work.rescued = Fetched::new();
        made
    }

    /// What was written down of damaged objects, and of what was lost.
    pub(crate) fn load_noted(&self) {
        let place = self.place.as_ref();
        // Without it the next verification finds out again.
        let bytes = place.and_then(|place| place.load(NOTED).ok().flatten());
        let Some(noted) = bytes.and_then(|bytes| Noted::decode(&bytes)) else {
            return;
        };
        for object in noted.damaged {
            self.client.note_damage(&object.key, object.what);
        }
        self.state().loss = noted.loss;
    }

    /// Writes down what is known of damaged objects, so that it is still known after a restart.
    pub(crate) fn save_noted(&self, work: &mut Work) {
        let (damaged, count) = self.client.damaged();
        let loss = self.state().loss.clone();
        if count == 0 && loss.is_none() && work.noted.is_empty() {
            return;
        }
        let bytes = Noted { damaged, loss }.encode();
        let Some(place) = self.place.as_ref().filter(|_| bytes != work.noted) else {
            return;
        };
        // Without it the next verification finds out again.
        let _ = place.save(NOTED, &bytes);
        work.noted = bytes;
    }

    /// What is wrong with the objects that lead to all others, listed.
    pub(crate) fn note_faults_of_chain(&self) -> Result<()> {
        for DamagedObject { key, what } in self.faults_of_chain()? {
            self.client.note_damage(&key, what);
        }
        Ok(())
    }

    /// What is wrong with the objects that lead to all others: identity, `current`, roots, and the
    /// commits behind the newest checkpoint. Those that are right are taken off the list.
    pub(crate) fn faults_of_chain(&self) -> Result<Vec<DamagedObject>> {
        let (tip, hash, newest, full, kept) = {
            let state = self.state();
            let checkpoints = &state.checkpoints;
            let newest = checkpoints.current.as_ref().map(|current| current.0);
            let full = checkpoints.full.map(|full| full.0);
            let kept = state.kept.clone();
            (state.tip.number, state.hash, newest, full, kept)
        };
        let mut faults = Vec::new();
        for key in [key::DEVICE, key::DEVICE_COPY] {
            let identity = Some(&self.seen.identity);
            self.compare(key.to_owned(), identity, &mut faults)?;
        }
        if let Some(newest) = newest {
            let found = self.object(key::CURRENT)?;
            let fault = found.and_then(|bytes| self.is_current(newest, &bytes));
            self.judge_chain(key::CURRENT.to_owned(), fault.err(), &mut faults);
        }
        let roots: BTreeSet<CommitNumber> = newest.into_iter().chain(full).collect();
        for number in roots {
            self.compare(key::root(number), kept.roots.get(&number), &mut faults)?;
        }
        let first = newest.map_or(1, |newest| newest.0 + 1);
        self.check_commits(first..=tip.0, hash, &mut faults)?;
        if let Some((number, bytes)) = kept.first.filter(|(number, _)| number.0 < first) {
            self.compare(key::commit(number), Some(&bytes), &mut faults)?;
        }
        Ok(faults)
    }

    fn judge_chain(&self, key: String, fault: Option<String>, faults: &mut Vec<DamagedObject>) {
        match fault {
            Some(what) => faults.push(DamagedObject { key, what }),
            None => self.client.clear_damage(&key),
        }
    }

    /// Judges an object that has these bytes, or of which only its being there is known.
    fn compare(
        &self,
        key: String,
        bytes: Option<&Arc<Vec<u8>>>,
        faults: &mut Vec<DamagedObject>,
    ) -> Result<()> {
        let found = self.object(&key)?;
        let fault = found.and_then(|found| match bytes.is_none_or(|bytes| *bytes == found) {
            true => Ok(()),
            false => Err(OTHER.to_owned()),
        });
        self.judge_chain(key, fault.err(), faults);
        Ok(())
    }

    /// Whether bytes are `current` as it names the checkpoint `newest` or a newer one.
    fn is_current(&self, newest: CommitNumber, bytes: &[u8]) -> std::result::Result<(), String> {
        match Current::decode(self.identity.uuid, bytes) {
            Ok(current) if current.number >= newest => Ok(()),
            Ok(current) => Err(format!("it is of the older commit {}", current.number)),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Judges commits, of which the last has this hash.
    fn check_commits(
        &self,
        numbers: RangeInclusive<u64>,
        hash: Hash,
        faults: &mut Vec<DamagedObject>,
    ) -> Result<()> {
        let mut expected = Some(hash);
        for number in numbers.rev().map(CommitNumber) {
            let key = key::commit(number);
            let found = self.object(&key)?.and_then(|bytes| {
                let commit = Commit::decode(self.identity.uuid, number, &bytes);
                let commit = commit.map_err(|error| error.to_string())?;
                match expected.is_none_or(|expected| expected == Hash::of(&bytes)) {
                    true => Ok(commit.parent),
                    false => Err(OTHER.to_owned()),
                }
            });
            expected = found.as_ref().ok().copied();
            self.judge_chain(key, found.err(), faults);
        }
        Ok(())
    }

    /// The bytes of an object, or what is wrong with it.
    fn object(&self, key: &str) -> Result<std::result::Result<Arc<Vec<u8>>, String>> {
        match self.client.get(key) {
            Ok(Some((bytes, _))) => Ok(Ok(bytes)),
            Ok(None) => Ok(Err("it is missing".to_owned())),
            Err(StoreError::Damaged { what, .. }) => Ok(Err(what)),
            Err(error) => Err(store_error(&self.client, error)),
        }
    }
}
