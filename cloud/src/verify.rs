//! Verification: whether everything that the map points to is in the store, and is what was put.
//!
//! Every object with live data is fetched whole, and each of its pieces is compared with its check;
//! every page of the map is fetched and decoded; so are the identity and its copy, `current`, the
//! roots and the commits behind them. No cache is used. One object is in memory at a time, of at
//! most 64 MiB.
//!
//! *A fault* is damage of bytes that are needed. An object may also be damaged in bytes that are no
//! longer needed: a mirror writes what it repairs elsewhere. That is a *remark*; compaction removes
//! such an object. If a damaged piece is needed only in part, its check says nothing about that
//! part, unless the rest was repaired (module `living`).

use crate::chain::store_error;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::checkpoint::ObjectEntry;
use crate::format::data::{DataTable, Piece};
use crate::format::{Hash, SECTOR, key};
use crate::living::Living;
use crate::origin::Origin;
use crate::store::{Answer, DamagedObject, Request, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages of the map that are fetched at once.
const PAGES_AT_ONCE: usize = 64;
/// Faults that are kept; beyond that they are only counted.
const FAULTS_MAX: usize = 1000;

/// What is wrong with an object that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFault {
    /// Its name.
    pub key: String,
    /// What is wrong: `it is missing`.
    pub what: String,
    /// The bytes of the device that are not to be had, as far as that is known.
    pub ranges: Vec<Range<u64>>,
}

/// The outcome of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Data objects that were verified.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages of the map that were verified.
    pub pages: u64,
    /// Objects with something wrong.
    pub faulty: u64,
    /// What is wrong with them, the first thousand.
    pub faults: Vec<ObjectFault>,
    /// Damage without effect, and pieces whose state the check cannot tell; the first thousand.
    pub remarks: Vec<ObjectFault>,
    /// Whether everything was verified.
    pub is_complete: bool,
}

impl Verified {
    fn add(&mut self, key: String, what: impl ToString, ranges: Vec<Range<u64>>) {
        self.faulty += 1;
        if self.faults.len() < FAULTS_MAX {
            let what = what.to_string();
            self.faults.push(ObjectFault { key, what, ranges });
        }
    }

    fn remark(&mut self, key: &str, what: String, ranges: Vec<Range<u64>>) {
        if self.remarks.len() < FAULTS_MAX {
            let key = key.to_owned();
            self.remarks.push(ObjectFault { key, what, ranges });
        }
    }
}

/// An object that is not as it was put.
#[derive(Debug)]
struct Suspect {
    object: ObjectEntry,
    what: String,
    /// Its sectors that are damaged.
    damaged: Vec<Range<u64>>,
    /// Pieces whose check is wrong though all of their bytes are there.
    rotten: Vec<Piece>,
}

impl Core {
    /// Verifies everything that the map points to. `goes_on` gets the number of bytes done and in
    /// total; verification stops when it returns `false`.
    pub(crate) fn verify(&self, goes_on: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        self.forget_fetched();
        let mut verified = Verified::default();
        let (pages, faults) = self.faults_of_map()?;
        verified.pages = pages;
        for DamagedObject { key, what } in faults {
            // Devices from before there were copies have none until they are written to.
            match key == key::DEVICE_COPY {
                true => verified.remark(&key, what, Vec::new()),
                false => verified.add(key, what, Vec::new()),
            }
        }
        let objects = self.state().map.objects().copied().collect::<Vec<_>>();
        let objects = objects.into_iter().filter(|object| object.dead_since == 0);
        let objects: Vec<ObjectEntry> = objects.collect();
        let total: u64 = objects.iter().map(|object| object.length).sum();
        let mut suspects = Vec::new();
        for object in &objects {
            if !goes_on(verified.bytes, total) {
                return Ok(verified);
            }
            match self.verify_object(object)? {
                Some(suspect) => suspects.push(suspect),
                None => self
                    .client
                    .clear_damage(&key::data(object.writer, object.number)),
            }
            verified.objects += 1;
            verified.bytes += object.length;
        }
        goes_on(verified.bytes, total);
        self.judge(suspects, &mut verified)?;
        verified.is_complete = true;
        for fault in &verified.faults {
            self.client.note_damage(&fault.key, &fault.what);
        }
        for remark in &verified.remarks {
            self.client.excuse_damage(&remark.key);
        }
        if verified.faulty == 0 {
            self.state().loss = None;
        }
        Ok(verified)
    }

    /// Looks at the objects that lead to the data; lists what is wrong with them.
    pub(crate) fn verify_map(&self) -> Result<()> {
        let (_, faults) = self.faults_of_map()?;
        for DamagedObject { key, what } in faults {
            self.client.note_damage(&key, what);
            self.wants_repair.store(true, Ordering::Relaxed);
        }
        self.job.wake();
        Ok(())
    }

    /// How many pages of the map there are, and what is wrong with them and with the objects that
    /// lead to them. Those that are well are taken off the list.
    fn faults_of_map(&self) -> Result<(u64, Vec<DamagedObject>)> {
        let mut faults = self.faults_of_chain()?;
        let pages = self.state().map.pages();
        let mut damaged = BTreeMap::new();
        for group in pages.chunks(PAGES_AT_ONCE) {
            if self.fetch_pages(group, Origin::Stored).is_ok() {
                continue;
            }
            for page in group {
                let Err(error) = self.fetch_pages(std::slice::from_ref(page), Origin::Stored)
                else {
                    continue;
                };
                match error.damaged_object() {
                    Some((key, what)) => drop(damaged.insert(key.to_owned(), what)),
                    None => return Err(error),
                }
            }
        }
        for page in pages.iter() {
            let key = key::pages(page.part.checkpoint, page.part.part);
            if !damaged.contains_key(&key) {
                self.client.clear_damage(&key);
            }
        }
        let damaged = damaged.into_iter();
        faults.extend(damaged.map(|(key, what)| DamagedObject { key, what }));
        Ok((pages.len() as u64, faults))
    }

    /// What is wrong with an object, if anything is.
    fn verify_object(&self, object: &ObjectEntry) -> Result<Option<Suspect>> {
        let all = Range {
            start: 0,
            end: object.length.div_ceil(SECTOR),
        };
        let unreadable = |what: String| {
            Ok(Some(Suspect {
                object: *object,
                what,
                damaged: vec![all.clone()],
                rotten: Vec::new(),
            }))
        };
        let bytes = match self.whole(object) {
            Ok(bytes) => bytes,
            Err(error) => match error.damaged_object() {
                Some((_, what)) => return unreadable(what),
                None => return Err(error),
            },
        };
        let table = match DataTable::decode(self.identity.uuid, object.number, &bytes) {
            Ok(table) => table,
            Err(error) => return unreadable(error.to_string()),
        };
        let length = bytes.len() as u64;
        let mut what = "it holds something else than what was put";
        let mut damaged = Vec::new();
        if length != object.length || table.length != object.length {
            what = "it has another length than it should";
            damaged.push(length / SECTOR..all.end.max(length / SECTOR));
        }
        let is_rotten = |piece: &Piece| {
            let from = (piece.sector * SECTOR) as usize;
            let to = from + (piece.sectors * SECTOR) as usize;
            // Of one that is cut off nothing can be said but that a part is missing.
            let stored = bytes.get(from..to);
            stored.is_some_and(|stored| Hash::of(stored).short() != piece.check)
        };
        let mut rotten = Vec::new();
        for piece in table.pieces.into_iter().filter(is_rotten) {
            match self.is_piece_whole(object.number, &piece, &bytes, 0)? {
                // It was repaired: the damaged bytes are not needed here any more.
                true => damaged.push(piece.sector..piece.sector),
                false => rotten.push(piece),
            }
        }
        let is_good = damaged.is_empty() && rotten.is_empty();
        Ok((!is_good).then(|| Suspect {
            object: *object,
            what: what.to_owned(),
            damaged,
            rotten,
        }))
    }

    fn whole(&self, object: &ObjectEntry) -> Result<Arc<Vec<u8>>> {
        let key = key::data(object.writer, object.number);
        let request = Request::Get {
            key: key.clone(),
            range: None,
        };
        match self.client.run(vec![request]).pop() {
            Some(Ok(Answer::Get(bytes, _))) => Ok(bytes),
            Some(Ok(_) | Err(StoreError::NotFound)) | None => Err(CloudError::Missing { key }),
            Some(Err(error)) => Err(store_error(&self.client, error)),
        }
    }

    /// Decides for damaged objects whether the damaged bytes are needed.
    fn judge(&self, suspects: Vec<Suspect>, verified: &mut Verified) -> Result<()> {
        let numbers = suspects.iter().map(|suspect| suspect.object.number);
        let needed = self.needed_of(&numbers.collect())?;
        for suspect in suspects {
            let key = key::data(suspect.object.writer, suspect.object.number);
            let living = needed.of(suspect.object.number);
            let within = |range: &Range<u64>| -> Vec<Living> {
                let parts = living.iter().filter_map(|part| part.within(range));
                parts.collect()
            };
            let mut lost: Vec<Living> = suspect.damaged.iter().flat_map(within).collect();
            let mut unknown = Vec::new();
            for piece in &suspect.rotten {
                let parts = within(&(piece.sector..piece.sector + piece.sectors));
                // Copies of metadata share bytes, so more may be needed than the piece has.
                let sectors: u64 = parts.iter().map(|part| part.sectors).sum();
                match sectors >= piece.sectors {
                    true => lost.extend(parts),
                    false => unknown.extend(parts),
                }
            }
            if !lost.is_empty() || !needed.is_complete {
                verified.add(key, suspect.what, ranges(lost));
                continue;
            }
            let note = match (living.is_empty(), unknown.is_empty()) {
                (true, _) => "nothing in it is needed any more",
                (false, true) => "what is needed of it is intact",
                (false, false) => {
                    "what is needed of the damaged pieces may be intact: \
                     only 'zpool scrub' can tell"
                }
            };
            let what = format!("{}; {note}", suspect.what);
            verified.remark(&key, what, ranges(unknown));
        }
        Ok(())
    }
}

/// Parts of the device in bytes, in order, neighbours as one.
fn ranges(mut parts: Vec<Living>) -> Vec<Range<u64>> {
    parts.sort_unstable_by_key(|part| part.start);
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for part in parts {
        let (start, end) = (part.start * SECTOR, (part.start + part.sectors) * SECTOR);
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}
