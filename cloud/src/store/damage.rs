//! Distinguishing an outage from damage. This module alone decides.
//!
//! An *outage* is of the store, and it passes: the request is tried again, for as long as it takes.
//! *Damage* is of one object, and it stays: the request fails, so that the layers above count it,
//! read another side of a mirror and write the block again.
//!
//! What a request to read an object met, and what it is:
//!
//! * no answer, a broken connection, a body that ends early, 5xx, `ESTALE`: outage; damage once the
//!   witness answered beside the last [`PROOFS`] of at least [`TRIES`] tries;
//! * 429, 503, the store is busy: outage, whatever the witness says;
//! * an answer without its length, a list that is cut: the same, because nothing follows from it;
//! * expired credentials, a wrong clock: outage, until people act;
//! * 401, 403, `EACCES`, `EPERM`: damage if the witness answers, else an outage until people act;
//! * `EIO`, unexpected refusals: the same;
//! * another length, a range behind the end, a directory in its place: damage if the witness
//!   answers or there is none yet, else an outage: a portal answers everything;
//! * no such key: missing; damage where the map names it, which the reader knows;
//! * the right length and wrong bytes: damage; the reader that has the checksum finds it.
//!
//! *The witness* is another object of the same device, whose bytes are known: `device`, or
//! `current` if that one is damaged. It is asked only when something went wrong.
//!
//! Requests that change something are never judged by a witness: a put that is refused has lost
//! nothing. Only an object that cannot be replaced, such as a directory, ends them.
//!
//! *The list* of damaged objects serves two ends: people see their names, and an object that is
//! known to be damaged is not tried again and again for each read of it.

use super::{Request, StoreError};
use cenote_base::rt::{Mutex, MutexGuard, ranks};
use std::collections::BTreeMap;

/// Tries after which a request that fails in passing is checked for damage: 200 ms, doubled each
/// time, make about six seconds.
pub(super) const TRIES: u32 = 5;
/// How often the witness has to answer beside such a request: two tries more, of 6 and 12 seconds.
pub(super) const PROOFS: u32 = 2;
/// Objects that are listed; beyond that they are only counted.
const LISTED_MAX: usize = 1000;

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Trying again would not change it.
    Final,
    /// An outage that passes.
    Outage,
    /// An outage that lasts until people do something.
    ForPeople,
    /// Damage if the witness answers.
    Suspect,
}

/// What a failure of a request means that was tried `tries` times.
pub(super) fn verdict(
    request: &Request,
    error: &StoreError,
    tries: u32,
    is_known: bool,
) -> Verdict {
    let reads = matches!(request, Request::Get { .. } | Request::Head { .. });
    match error {
        StoreError::Busy(_) | StoreError::Unclear(_) => Verdict::Outage,
        StoreError::Transient(_) if reads && (is_known || tries >= TRIES) => Verdict::Suspect,
        StoreError::Transient(_) => Verdict::Outage,
        StoreError::Denied(_) | StoreError::Other(_) | StoreError::Damaged { .. } if reads => {
            Verdict::Suspect
        }
        StoreError::Denied(_) | StoreError::Other(_) => Verdict::ForPeople,
        StoreError::Expired(_) | StoreError::Skewed { .. } => Verdict::ForPeople,
        _ => Verdict::Final,
    }
}

/// An object that is not as it was put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedObject {
    /// Its name.
    pub key: String,
    /// What is wrong: `has 5 bytes`.
    pub what: String,
}

#[derive(Clone, Debug)]
struct Entry {
    what: String,
    /// Whether parts of it may be readable all the same.
    is_partial: bool,
    /// Whether something is needed of it that is not intact, as far as that is known.
    is_needed: bool,
}

#[derive(Debug, Default)]
struct Listed {
    entries: BTreeMap<String, Entry>,
    /// Damaged objects for which there was no room.
    more: u64,
}

/// Objects of a store that are known to be damaged.
#[derive(Debug, Default)]
pub(super) struct DamageList(Mutex<Listed, ranks::StoreDamage>);

impl DamageList {
    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.0.lock()
    }

    pub(super) fn note(&self, key: &str, what: String, is_partial: bool) {
        let mut listed = self.listed();
        if listed.entries.len() >= LISTED_MAX && !listed.entries.contains_key(key) {
            listed.more = listed.more.saturating_add(1);
            return;
        }
        let entry = Entry {
            what,
            is_partial,
            is_needed: true,
        };
        listed.entries.insert(key.to_owned(), entry);
    }

    pub(super) fn is_known(&self, key: &str) -> bool {
        self.listed().entries.contains_key(key)
    }

    /// Takes note of a request that was answered as it should be.
    pub(super) fn note_success(&self, request: &Request) {
        let mut listed = self.listed();
        let Some(entry) = listed.entries.get(request.key()) else {
            return;
        };
        let is_over = match request {
            Request::Put { .. } | Request::Delete { .. } => true,
            Request::Get { .. } => !entry.is_partial,
            Request::Head { .. } | Request::List { .. } => false,
        };
        if is_over {
            listed.entries.remove(request.key());
        }
    }

    /// Forgets objects that are no longer needed, or that are well.
    pub(super) fn retain(&self, mut is_needed: impl FnMut(&str) -> bool) {
        let mut listed = self.listed();
        listed.entries.retain(|key, _| is_needed(key));
        listed.more = 0;
    }

    /// Notes that nothing in an object is needed that is not intact.
    pub(super) fn excuse(&self, key: &str) {
        if let Some(entry) = self.listed().entries.get_mut(key) {
            entry.is_needed = false;
        }
    }

    /// The first of them that are needed, in the order of their names, and how many there are.
    pub(super) fn list(&self) -> (Vec<DamagedObject>, u64) {
        let listed = self.listed();
        let entries = listed.entries.iter().filter(|(_, entry)| entry.is_needed);
        let objects = entries.map(|(key, entry)| DamagedObject {
            key: key.clone(),
            what: entry.what.clone(),
        });
        let objects: Vec<DamagedObject> = objects.collect();
        let count = objects.len() as u64 + listed.more;
        (objects, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Condition;
    use std::sync::Arc;

    fn get(range: Option<std::ops::Range<u64>>) -> Request {
        Request::Get {
            key: "data/1".into(),
            range,
        }
    }

    fn put() -> Request {
        Request::Put {
            key: "data/1".into(),
            body: Arc::default(),
            condition: Condition::None,
        }
    }

    /// The table of this module's theory, row by row.
    #[test]
    fn outages_pass_and_damage_stays() {
        let transient = StoreError::Transient("reset".into());
        let read = get(None);
        assert_eq!(verdict(&read, &transient, 1, false), Verdict::Outage);
        assert_eq!(verdict(&read, &transient, TRIES, false), Verdict::Suspect);
        assert_eq!(verdict(&read, &transient, 1, true), Verdict::Suspect);
        for error in [
            StoreError::Busy("503 SlowDown".into()),
            StoreError::Unclear("no length".into()),
        ] {
            assert_eq!(verdict(&read, &error, 1000, true), Verdict::Outage);
        }
        let expired = StoreError::Expired("why".into());
        assert_eq!(verdict(&read, &expired, 9, true), Verdict::ForPeople);
        for error in [
            StoreError::Denied("403".into()),
            StoreError::Other("EIO".into()),
            StoreError::Damaged {
                key: "data/1".into(),
                what: "has 5 bytes".into(),
            },
        ] {
            assert_eq!(
                verdict(&read, &error, 1, false),
                Verdict::Suspect,
                "{error}"
            );
            assert_ne!(
                verdict(&put(), &error, 9, true),
                Verdict::Suspect,
                "{error}"
            );
        }
        assert_eq!(verdict(&put(), &transient, 1000, true), Verdict::Outage);
        let missing = StoreError::NotFound;
        assert_eq!(verdict(&read, &missing, 1, false), Verdict::Final);
    }

    /// A short object answers for its first half and stays damaged all the same.
    #[test]
    fn what_is_damaged_in_part_stays_listed_until_it_is_replaced() {
        let list = DamageList::default();
        list.note("data/1", "has 5 bytes".into(), true);
        list.note_success(&get(Some(0..5)));
        assert!(list.is_known("data/1"));
        list.note_success(&put());
        assert!(!list.is_known("data/1"));
        list.note("data/1", "403".into(), false);
        list.note_success(&get(Some(0..5)));
        assert_eq!(list.list(), (Vec::new(), 0));
    }
}
