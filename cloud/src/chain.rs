//! Finding the current state of a device: the newest checkpoint, then the commits after it.
//!
//! Three round trips for a device of any size: `current`, the checkpoint, and a handful of commits
//! at once, until one is missing. Nothing is listed, as long as there is a `current`.
//!
//! *Without `current`* the device is new, or has lost it; then its first commits may be removed.
//! Taken for new it would be overwritten, so a list of all its objects decides: it is new if the
//! list came to its end, has the identity in it, which is there, and nothing else. What is listed
//! has to be reached; if it is not, objects are missing. A list that fails or contradicts itself is
//! an error.
//!
//! Commits that lie behind two checkpoints are removed at some time. So a free name is the end of
//! the chain only if `current` has not changed. Otherwise a machine that slept with an old
//! `current` would find a removed commit's place free, and fork history there.

use crate::error::{CloudError, Result};
use crate::format::checkpoint::{Base, Checkpoint, Waste};
use crate::format::commit::{Commit, LogPoint, Tip};
use crate::format::current::Current;
use crate::format::device::Identity;
use crate::format::{CommitNumber, Hash, ObjectNumber, WriterId, key};
use crate::kept::Kept;
use crate::map::Map;
use crate::store::{Client, Request, StoreError, Tag};
use std::collections::HashMap;
use std::sync::Arc;

/// Commits that are asked for at once, at first and at most.
const WINDOW_MIN: u64 = 2;
const WINDOW_MAX: u64 = 32;
/// Names that are listed at once.
const NAMES_AT_ONCE: usize = 1000;
/// How often a store is asked for a list that leaves out what is there: about six seconds.
const LIST_TRIES: u32 = 5;
/// How often opening starts again because the device changes meanwhile.
const TRIES: usize = 10;

/// What is known of checkpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checkpoints {
    /// The version of `current`, and the checkpoint it names.
    pub(crate) current: Option<(CommitNumber, Option<Tag>)>,
    /// The newest full one, and the hash of its root.
    pub(crate) full: Option<(CommitNumber, Hash)>,
    /// Commits since the newest.
    pub(crate) commits_since: u64,
    /// The first commit that may still be there, apart from the first ones of sessions.
    pub(crate) oldest: CommitNumber,
    /// Objects of the map that are not needed any more.
    pub(crate) waste: Vec<Waste>,
}

/// A device as of its newest commit.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) map: Map,
    pub(crate) tip: Tip,
    /// The hash of the newest commit.
    pub(crate) hash: Hash,
    pub(crate) checkpoints: Checkpoints,
    /// How far each log that was seen had come.
    pub(crate) points: HashMap<[u8; 16], LogPoint>,
    /// The objects that led here.
    pub(crate) kept: Kept,
}

/// Turns a failure of the store into one of the device.
pub(crate) fn store_error(client: &Client, source: StoreError) -> CloudError {
    match source {
        StoreError::Closed => CloudError::Closed,
        StoreError::Damaged { key, what } => CloudError::Damaged {
            store: client.name(),
            key,
            what,
        },
        source => CloudError::Store {
            store: client.name(),
            source,
        },
    }
}

/// An object that has to be there.
pub(crate) fn needed(client: &Client, key: &str) -> Result<Arc<Vec<u8>>> {
    let found = client.get(key).map_err(|e| store_error(client, e))?;
    let (bytes, _) = found.ok_or_else(|| CloudError::Missing { key: key.into() })?;
    Ok(bytes)
}

/// Says which object it was that could not be decoded.
pub(crate) fn in_object<T>(
    key: &str,
    decoded: std::result::Result<T, crate::format::FormatError>,
) -> Result<T> {
    decoded.map_err(|source| CloudError::Format {
        key: key.into(),
        source,
    })
}

/// The identity of the device in the store, and the object's bytes; by its copy if the object is
/// lost. What is found wrong with the object is listed.
pub(crate) fn identity(client: &Client) -> Result<(Identity, Arc<Vec<u8>>)> {
    let first = match identity_in(client, key::DEVICE) {
        Ok(Some(found)) => return Ok(found),
        Ok(None) => None,
        Err(error) if error.damaged_object().is_some() => Some(error),
        Err(error) => return Err(error),
    };
    let none = || CloudError::NoDevice {
        store: client.name(),
    };
    match identity_in(client, key::DEVICE_COPY) {
        Ok(Some(found)) => {
            let what = first.and_then(|error| Some(error.damaged_object()?.1));
            let what = what.unwrap_or_else(|| "it is missing".to_owned());
            client.note_damage(key::DEVICE, what);
            Ok(found)
        }
        Ok(None) => Err(first.unwrap_or_else(none)),
        // If both are damaged, what is wrong with the object itself says more. A copy that cannot
        // be asked for is not missing.
        Err(error) if error.damaged_object().is_some() => Err(first.unwrap_or(error)),
        Err(error) => Err(error),
    }
}

fn identity_in(client: &Client, key: &str) -> Result<Option<(Identity, Arc<Vec<u8>>)>> {
    let found = client.get(key);
    match found.map_err(|e| store_error(client, e))? {
        Some((bytes, _)) => Ok(Some((in_object(key, Identity::decode(&bytes))?, bytes))),
        None => Ok(None),
    }
}

/// The commit before the first. It follows from the identity, so it is never stored.
pub(crate) fn genesis(identity: &Identity) -> Commit {
    Commit {
        parent: Hash::default(),
        tip: Tip {
            number: CommitNumber(0),
            writer: WriterId(0),
            session: CommitNumber(0),
            host: String::new(),
            written: identity.created,
            is_released: true,
            ends_flush: true,
            size: identity.size,
            log: LogPoint::default(),
            txg: 0,
            is_txg_complete: false,
            checkpoint: None,
            next_object: ObjectNumber(0),
        },
        objects: Vec::new(),
        extents: Vec::new(),
        inline: Vec::new(),
    }
}

/// What `current` says now.
pub(crate) fn current(
    client: &Client,
    identity: &Identity,
) -> Result<Option<(Current, Option<Tag>)>> {
    let found = client.get(key::CURRENT);
    let Some((bytes, tag)) = found.map_err(|e| store_error(client, e))? else {
        return Ok(None);
    };
    let current = in_object(key::CURRENT, Current::decode(identity.uuid, &bytes))?;
    Ok(Some((current, tag)))
}

/// The device as of its newest commit.
///
/// # Errors
/// Objects that are missing or wrong, and [`CloudError::Restless`].
pub(crate) fn load(client: &Client, identity: &Identity, map_bytes: u64) -> Result<Loaded> {
    let mut gaps = Vec::new();
    for _ in 0..TRIES {
        let current = readable_current(client, identity)?;
        let seen = current.as_ref().map(|(current, _)| current.number);
        // Which commit has to be reached at least.
        let mut least = CommitNumber(0);
        let (current, is_found) = match current {
            Some(current) => (Some(current), true),
            None => {
                let listed = listed_device(client)?;
                least = listed.least;
                let newest = listed.newest_root(client)?;
                (newest.map(|newest| (newest, None)), false)
            }
        };
        let mut loaded = match current {
            Some((current, tag)) => match from_checkpoint(client, identity, map_bytes, current) {
                Ok(mut loaded) => {
                    loaded.checkpoints.current = is_found.then_some((current.number, tag));
                    loaded
                }
                // It was removed, so there has to be a newer one.
                Err(CloudError::Missing { .. }) if has_moved(client, identity, seen)? => continue,
                // Or `current` is older than the store, and what it names was removed in time.
                Err(error @ CloudError::Missing { .. }) => {
                    let listed = listed_device(client)?;
                    least = listed.least;
                    let newest = listed.newest_root(client)?;
                    let newest = newest.filter(|newest| newest.number > current.number);
                    let newest = newest.ok_or(error)?;
                    let mut loaded = from_checkpoint(client, identity, map_bytes, newest)?;
                    loaded.checkpoints.current = Some((current.number, tag));
                    loaded
                }
                Err(error) => return Err(error),
            },
            None => empty(identity, map_bytes),
        };
        let is_whole = follow(client, identity, &mut loaded)? && least <= loaded.tip.number;
        if is_whole && !has_moved(client, identity, seen)? {
            return Ok(loaded);
        }
        gaps.extend((!is_whole).then(|| loaded.tip.number.next()));
    }
    // A commit that is being put is there the next time.
    match gaps.as_slice() {
        [gap, rest @ ..] if rest.len() + 1 == TRIES && rest.iter().all(|own| own == gap) => {
            Err(CloudError::Missing {
                key: key::commit(*gap),
            })
        }
        _ => Err(CloudError::Restless),
    }
}

/// Whether `current` says something else than `seen`.
pub(crate) fn has_moved(
    client: &Client,
    identity: &Identity,
    seen: Option<CommitNumber>,
) -> Result<bool> {
    let now = readable_current(client, identity)?;
    Ok(now.map(|(current, _)| current.number) != seen)
}

/// What `current` says, if it says anything. It is a hint: one that is damaged is listed, and as if
/// it were not there.
fn readable_current(
    client: &Client,
    identity: &Identity,
) -> Result<Option<(Current, Option<Tag>)>> {
    match current(client, identity) {
        Err(error) if error.damaged_object().is_some() => {
            let what = error.damaged_object().map(|(_, what)| what);
            client.note_damage(key::CURRENT, what.unwrap_or_default());
            Ok(None)
        }
        found => found,
    }
}

/// What a store has below the prefix.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// Whether it has the identity, or its copy.
    has_identity: bool,
    /// The first object that only a device has that was written to.
    pub(crate) first: Option<String>,
    /// The newest root of a checkpoint.
    root: Option<CommitNumber>,
    /// A commit that there was, so whatever leads to the newest state leads that far.
    least: CommitNumber,
}

impl Listed {
    fn add(&mut self, key: &str) {
        self.has_identity |= [key::DEVICE, key::DEVICE_COPY].contains(&key);
        let folders = [key::COMMITS, key::DATA, key::MAP];
        let is_in_folder = folders.iter().any(|folder| key.starts_with(folder));
        if !is_in_folder && key != key::CURRENT {
            return;
        }
        self.first.get_or_insert_with(|| key.to_owned());
        self.root = self.root.max(key::root_number(key));
        // All of it was put behind the first commit.
        let commit = key::commit_number(key).unwrap_or(CommitNumber(1));
        self.least = self.least.max(commit);
    }

    /// What `current` would say if it named the newest root.
    fn newest_root(&self, client: &Client) -> Result<Option<Current>> {
        let Some(number) = self.root else {
            return Ok(None);
        };
        let bytes = needed(client, &key::root(number))?;
        client.note_damage(key::CURRENT, "it does not name a checkpoint");
        let root = Hash::of(&bytes);
        Ok(Some(Current { number, root }))
    }
}

/// All that the store has, by a list that came to its end and has in it what is there.
///
/// # Errors
/// A list that fails, or leaves out the identity that is there.
pub(crate) fn listed(client: &Client) -> Result<Listed> {
    for tries in 0..LIST_TRIES {
        let listed = all_names(client)?;
        if listed.has_identity || !is_identity_there(client)? {
            return Ok(listed);
        }
        let waited = client.wait_again(tries);
        waited.map_err(|e| store_error(client, e))?;
    }
    let what = "its list of objects leaves out the device's own, which are there".to_owned();
    Err(store_error(client, StoreError::Unclear(what)))
}

/// The same of a device, whose identity has to be there.
fn listed_device(client: &Client) -> Result<Listed> {
    let listed = listed(client)?;
    match listed.has_identity {
        true => Ok(listed),
        false => Err(CloudError::Missing {
            key: key::DEVICE.to_owned(),
        }),
    }
}

fn all_names(client: &Client) -> Result<Listed> {
    let mut listed = Listed::default();
    let mut after = None;
    loop {
        let found = client.list("", after.take(), NAMES_AT_ONCE);
        let found = found.map_err(|e| store_error(client, e))?;
        found.iter().for_each(|meta| listed.add(&meta.key));
        // There may be very many data objects, and one says as much as all.
        let next = |last: &str| match last.starts_with(key::DATA) {
            true => key::BEHIND_DATA.to_owned(),
            false => last.to_owned(),
        };
        match found.last() {
            Some(last) if found.len() >= NAMES_AT_ONCE => after = Some(next(&last.key)),
            _ => return Ok(listed),
        }
    }
}

fn is_identity_there(client: &Client) -> Result<bool> {
    for key in [key::DEVICE, key::DEVICE_COPY] {
        match client.head(key) {
            Ok(Some(_)) => return Ok(true),
            Ok(None) | Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(store_error(client, error)),
        }
    }
    Ok(false)
}

/// The device before its first commit.
fn empty(identity: &Identity, map_bytes: u64) -> Loaded {
    let mut map = Map::new(map_bytes);
    let genesis = genesis(identity);
    let hash = Hash::of(&genesis.encode(identity.uuid));
    let tip = genesis.tip.clone();
    map.apply(genesis);
    Loaded {
        map,
        tip,
        hash,
        checkpoints: Checkpoints::default(),
        points: HashMap::new(),
        kept: Kept::default(),
    }
}

fn from_checkpoint(
    client: &Client,
    identity: &Identity,
    map_bytes: u64,
    current: Current,
) -> Result<Loaded> {
    let mut kept = Kept::default();
    let (newest, bytes) = checkpoint(client, identity, current.number, current.root)?;
    kept.roots.insert(current.number, bytes);
    let mut map = Map::new(map_bytes);
    let (tip, hash) = (newest.tip.clone(), newest.hash);
    let (oldest, waste) = (newest.oldest, newest.waste.clone());
    let full = match newest.base {
        Base::Pages(_) => (current.number, current.root),
        Base::Earlier { number, root } => {
            let (base, bytes) = checkpoint(client, identity, number, root)?;
            kept.roots.insert(number, bytes);
            map.load(base);
            (number, root)
        }
    };
    map.load(newest);
    Ok(Loaded {
        map,
        points: HashMap::from([(tip.log.id, tip.log)]),
        tip,
        hash,
        checkpoints: Checkpoints {
            current: None,
            full: Some(full),
            commits_since: 0,
            oldest,
            waste,
        },
        kept,
    })
}

/// The checkpoint `number`, whose root has the hash `root`.
pub(crate) fn checkpoint(
    client: &Client,
    identity: &Identity,
    number: CommitNumber,
    root: Hash,
) -> Result<(Checkpoint, Arc<Vec<u8>>)> {
    let key = key::root(number);
    let bytes = needed(client, &key)?;
    if Hash::of(&bytes) != root {
        let source = crate::format::FormatError::Checksum;
        return Err(CloudError::Format { key, source });
    }
    let decoded = in_object(&key, Checkpoint::decode(identity.uuid, number, &bytes))?;
    Ok((decoded, bytes))
}

/// Adds commits until one is missing; says whether that is the end, as far as commits tell.
fn follow(client: &Client, identity: &Identity, loaded: &mut Loaded) -> Result<bool> {
    // Behind a device that was released there is nothing, most of the time.
    let mut window = if loaded.tip.is_released {
        1
    } else {
        WINDOW_MIN
    };
    loop {
        let first = loaded.tip.number.0 + 1;
        let numbers: Vec<CommitNumber> = (first..first + window).map(CommitNumber).collect();
        let gets = numbers.iter().map(|number| Request::Get {
            key: key::commit(*number),
            range: None,
        });
        let found = client.get_all(gets.collect());
        let found = found.map_err(|e| store_error(client, e))?;
        let is_end = |bytes: &Option<Arc<Vec<u8>>>| bytes.is_none();
        let end = found.iter().position(is_end);
        for (number, bytes) in numbers.iter().zip(&found[..end.unwrap_or(found.len())]) {
            let bytes = bytes.as_ref().expect("those before the end are there");
            add(identity, loaded, *number, bytes)?;
        }
        match end {
            // A commit behind the missing one: it was put while these were read, or removed.
            Some(end) if found[end..].iter().any(Option::is_some) => return Ok(false),
            Some(_) => return Ok(true),
            None => window = (window * 2).clamp(WINDOW_MIN, WINDOW_MAX),
        }
    }
}

fn add(
    identity: &Identity,
    loaded: &mut Loaded,
    number: CommitNumber,
    bytes: &Arc<Vec<u8>>,
) -> Result<()> {
    let key = key::commit(number);
    let commit = in_object(&key, Commit::decode(identity.uuid, number, bytes))?;
    let numbers_go_on =
        commit.tip.next_object.0 == loaded.tip.next_object.0 + commit.objects.len() as u64;
    if commit.parent != loaded.hash || !numbers_go_on {
        return Err(CloudError::Chain(number));
    }
    loaded.hash = Hash::of(bytes);
    loaded.tip = commit.tip.clone();
    loaded.points.insert(commit.tip.log.id, commit.tip.log);
    loaded.map.apply(commit);
    loaded.checkpoints.commits_since += 1;
    loaded.kept.last = Some((number, Arc::clone(bytes)));
    Ok(())
}
