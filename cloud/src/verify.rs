//! Verification: whether everything that the map points to is in the store, and is what was put.
//!
//! Every object of which something lives is fetched whole, and each of its pieces is compared with
//! its check; every page of the map is fetched and decoded. Commits were followed at the opening.
//! One object is in memory at a time, of at most 64 MiB.

use crate::chain::store_error;
use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::checkpoint::ObjectEntry;
use crate::format::data::DataTable;
use crate::format::{Hash, SECTOR, key};
use crate::store::{Answer, Request, StoreError};
use std::ops::Range;

/// Pages of the map that are fetched at once.
const PAGES_AT_ONCE: usize = 64;
/// Faults that are kept; beyond that they are only counted.
const FAULTS_MAX: usize = 1000;

/// What is wrong with an object that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFault {
    /// Its name.
    pub key: String,
    /// What is wrong: `is missing`.
    pub what: String,
    /// The bytes of the device that are not to be had, as far as that is known.
    pub ranges: Vec<Range<u64>>,
}

/// The outcome of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Data objects that were looked at.
    pub objects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Pages of the map that were looked at.
    pub pages: u64,
    /// Objects with something wrong.
    pub faulty: u64,
    /// What is wrong with them, the first thousand.
    pub faults: Vec<ObjectFault>,
    /// Whether all of it was looked at.
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
}

impl Core {
    /// Looks at everything that the map points to. `goes_on` is told how many bytes are done and
    /// how many there are, and says whether to go on.
    pub(crate) fn verify(&self, goes_on: &mut dyn FnMut(u64, u64) -> bool) -> Result<Verified> {
        let mut verified = Verified::default();
        let pages = self.state().map.pages();
        for group in pages.chunks(PAGES_AT_ONCE) {
            verified.pages += group.len() as u64;
            if self.fetch_pages(group).is_ok() {
                continue;
            }
            for page in group {
                match self.fetch_pages(std::slice::from_ref(page)) {
                    Ok(_) => {}
                    Err(CloudError::Missing { key }) => {
                        verified.add(key, "is missing", Vec::new());
                    }
                    Err(CloudError::Format { key, source }) => {
                        verified.add(key, source, Vec::new());
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let objects = self.state().map.objects().copied().collect::<Vec<_>>();
        let objects = objects.into_iter().filter(|object| object.dead_since == 0);
        let objects: Vec<ObjectEntry> = objects.collect();
        let total: u64 = objects.iter().map(|object| object.length).sum();
        for object in &objects {
            if !goes_on(verified.bytes, total) {
                return Ok(verified);
            }
            self.verify_object(object, &mut verified)?;
            verified.objects += 1;
            verified.bytes += object.length;
        }
        goes_on(verified.bytes, total);
        verified.is_complete = true;
        Ok(verified)
    }

    fn verify_object(&self, object: &ObjectEntry, verified: &mut Verified) -> Result<()> {
        let key = key::data(object.writer, object.number);
        let request = Request::Get {
            key: key.clone(),
            range: None,
        };
        let bytes = match self.client.run(vec![request]).pop() {
            Some(Ok(Answer::Get(bytes, _))) => bytes,
            Some(Ok(_) | Err(StoreError::NotFound)) | None => {
                verified.add(key, "is missing", Vec::new());
                return Ok(());
            }
            Some(Err(error)) => return Err(store_error(&self.client, error)),
        };
        let table = match DataTable::decode(self.identity.uuid, object.number, &bytes) {
            Ok(table) => table,
            Err(error) => {
                verified.add(key, error, Vec::new());
                return Ok(());
            }
        };
        if bytes.len() as u64 != table.length || table.length != object.length {
            verified.add(key, "has another length than it should", Vec::new());
            return Ok(());
        }
        let is_rotten = |piece: &&crate::format::data::Piece| {
            let from = (piece.sector * SECTOR) as usize;
            let to = from + (piece.sectors * SECTOR) as usize;
            let stored = bytes.get(from..to);
            stored.is_none_or(|stored| Hash::of(stored).short() != piece.check)
        };
        let rotten = table.pieces.iter().filter(is_rotten);
        let ranges = rotten.map(|piece| {
            let end = piece.start.saturating_add(piece.sectors);
            piece.start.saturating_mul(SECTOR)..end.saturating_mul(SECTOR)
        });
        let ranges: Vec<Range<u64>> = ranges.collect();
        if !ranges.is_empty() {
            verified.add(key, "holds something else than what was put", ranges);
        }
        Ok(())
    }
}
