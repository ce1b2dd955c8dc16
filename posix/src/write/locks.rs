//! Locks of objects that are being changed.
//!
//! A fixed number of locks is shared by all objects. An operation takes the locks of all objects
//! that it changes together, in order, before it begins its transaction. So no open transaction
//! ever waits for a lock.

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, MutexGuard, ranks};

/// Locks; operations on different objects rarely meet.
const LOCKS: usize = 1024;

/// The locks of one file system.
#[derive(Debug)]
pub(super) struct Locks {
    locks: Vec<Mutex<(), ranks::ObjectLocks>>,
}

/// Held locks; released when dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    _guards: [Option<MutexGuard<'a, ()>>; HELD_MAX],
}

/// The most objects that one operation changes.
const HELD_MAX: usize = 4;

impl Locks {
    pub(super) fn new() -> Self {
        Self {
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
        }
    }

    /// Takes the lock of one object, if it is free.
    pub(super) fn try_lock(&self, object: ObjectId) -> Option<Held<'_>> {
        let guard = self.locks[place_of(object)].try_lock()?;
        let mut guards = [const { None }; HELD_MAX];
        guards[0] = Some(guard);
        Some(Held { _guards: guards })
    }

    /// Takes the locks of these objects, at most four.
    pub(super) fn lock(&self, objects: &[ObjectId]) -> Held<'_> {
        assert!(objects.len() <= HELD_MAX);
        let mut places = [usize::MAX; HELD_MAX];
        for (place, object) in places.iter_mut().zip(objects) {
            *place = place_of(*object);
        }
        places.sort_unstable();
        let mut guards = [const { None }; HELD_MAX];
        for index in 0..HELD_MAX {
            let place = places[index];
            let is_new = index == 0 || places[index - 1] != place;
            if place < LOCKS && is_new {
                // There is nothing behind the lock that a panic could leave half done.
                let guard = self.locks[place].lock();
                guards[index] = Some(guard);
            }
        }
        Held { _guards: guards }
    }
}

/// The lock of an object.
fn place_of(object: ObjectId) -> usize {
    let spread = object.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    usize::try_from(spread).expect("32 bits") % LOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_and_repetition_is_fine() {
        let locks = Locks::new();
        let ids: Vec<ObjectId> = (1..2000).map(ObjectId).collect();
        std::thread::scope(|scope| {
            for offset in [1, 7, 13] {
                let (ids, locks) = (&ids, &locks);
                scope.spawn(move || {
                    for i in 0..ids.len() {
                        let other = ids[(i + offset) % ids.len()];
                        drop(locks.lock(&[ids[i], other, ids[i], other]));
                        drop(locks.lock(&[other, ids[i]]));
                    }
                });
            }
        });
        drop(locks.lock(&[]));
        let held = locks.try_lock(ObjectId(7)).expect("free");
        assert!(locks.try_lock(ObjectId(7)).is_none());
        drop(held);
        assert!(locks.try_lock(ObjectId(7)).is_some());
    }
}
