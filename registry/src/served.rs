//! The users of open volumes: clients of servers, and disks of this machine.
//!
//! A client of a block device cannot be held back as a mount can: its next request goes to the
//! volume that it opened. So a volume with clients is not destroyed, renamed or given other
//! contents unless they are disconnected first. This is the list of clients, with a way to
//! disconnect each.
//!
//! A disk of this machine has its volume open all the time, but only blocks changes while the disk
//! itself is open. So a change makes it release the volume, and no disk is created until the change
//! ends ([`Served::hold`]). Then the publisher creates it again.

use cenote_base::ObjectId;
use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_control::model::ControlError;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long requests of clients that are disconnected may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long to wait for a client that disconnects on its own.
const FAREWELL: Duration = Duration::from_secs(1);

/// Disconnects a client.
pub type HangUp = Arc<dyn Fn() + Send + Sync>;

/// How a disk releases its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grip {
    /// Not at all: only whether it would.
    Look,
    /// Unless it is open; waits for a program that has just closed it.
    Unused,
    /// The same without waiting.
    UnusedNow,
    /// Although it is open.
    Force,
    /// The disk stays for the next daemon, and requests wait until then.
    Leave,
}

/// A disk of this machine.
pub trait LetsGo: Send + Sync {
    /// Lets go of the volume.
    ///
    /// # Errors
    /// The disk is open, or the kernel refuses.
    fn let_go(&self, grip: Grip) -> Result<(), ControlError>;
}

/// A user of an open volume.
#[derive(Clone)]
pub enum User {
    /// A client of a server.
    Client(HangUp),
    /// A disk.
    Disk(Weak<dyn LetsGo>),
}

/// One use of an open volume.
#[derive(Clone)]
struct Open {
    dataset: ObjectId,
    /// Whether it is served because of the property.
    is_by_property: bool,
    /// Its volume is being closed.
    is_leaving: bool,
    user: User,
}

impl Open {
    fn hang_up(&self) -> Option<&HangUp> {
        match &self.user {
            User::Client(hang_up) => Some(hang_up),
            User::Disk(_) => None,
        }
    }
}

#[derive(Default)]
struct State {
    next: u64,
    known: BTreeMap<u64, Open>,
    /// Changes under way, during which no disk is made.
    holds: u32,
}

/// The users of a pool's open volumes.
#[derive(Default)]
pub struct Served {
    state: Mutex<State, ranks::ServedVolumes>,
    /// A user has left.
    left: Condvar,
}

/// Keeps disks from being made until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct DisksHeld<'a>(&'a Served);

impl Drop for DisksHeld<'_> {
    fn drop(&mut self) {
        self.0.state.lock().holds -= 1;
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.state.lock().known.len();
        f.debug_struct("Served").field("open", &count).finish()
    }
}

impl Served {
    /// Adds a user of a volume; the number is for [`Self::remove`]. `None` for a disk while none
    /// may be created.
    pub(crate) fn add(&self, dataset: ObjectId, is_by_property: bool, user: User) -> Option<u64> {
        let mut state = self.state.lock();
        if state.holds > 0 && matches!(user, User::Disk(_)) {
            return None;
        }
        let number = state.next;
        state.next += 1;
        let open = Open {
            dataset,
            is_by_property,
            is_leaving: false,
            user,
        };
        state.known.insert(number, open);
        Some(number)
    }

    /// A user makes no more requests, and leaves when its writes are on disk.
    pub(crate) fn leave(&self, number: u64) {
        if let Some(open) = self.state.lock().known.get_mut(&number) {
            open.is_leaving = true;
        }
        self.left.notify_all();
    }

    /// A user has left, and its writes are on disk.
    pub(crate) fn remove(&self, number: u64) {
        let gone = self.state.lock().known.remove(&number);
        drop(gone);
        self.left.notify_all();
    }

    /// Keeps disks from being made.
    pub(crate) fn hold(&self) -> DisksHeld<'_> {
        self.state.lock().holds += 1;
        DisksHeld(self)
    }

    /// What clients have open, each with whether it is served by the property.
    pub fn datasets(&self) -> Vec<(ObjectId, bool)> {
        let state = self.state.lock();
        let clients = state.known.values().filter(|open| open.hang_up().is_some());
        clients
            .map(|open| (open.dataset, open.is_by_property))
            .collect()
    }

    /// The disks.
    pub(crate) fn disks(&self) -> Vec<(ObjectId, Arc<dyn LetsGo>)> {
        let state = self.state.lock();
        let disks = state.known.values().filter_map(|open| match &open.user {
            User::Disk(disk) => Some((open.dataset, disk.upgrade()?)),
            User::Client(_) => None,
        });
        disks.collect()
    }

    /// Disconnects the clients for which `is_meant` holds, and waits until they are gone; false if
    /// they do not go.
    pub fn hang_up(&self, is_meant: impl Fn(ObjectId, bool) -> bool) -> bool {
        let is_meant =
            |open: &&Open| open.hang_up().is_some() && is_meant(open.dataset, open.is_by_property);
        let state = self.state.lock();
        let meant: Vec<Open> = state.known.values().filter(is_meant).cloned().collect();
        drop(state);
        for hang_up in meant.iter().filter_map(Open::hang_up) {
            hang_up();
        }
        drop(meant);
        let is_there = |state: &mut State| state.known.values().any(|open| is_meant(&open));
        let state = self.state.lock();
        let (_state, are_there) = self.left.wait_timeout_while(state, PATIENCE, is_there);
        !are_there
    }

    /// Waits for leaving clients of these; false if other clients are connected. A program that
    /// just ended is still a client for a moment, until the server reads the end of its connection.
    pub(crate) fn await_leaving(&self, datasets: &[ObjectId]) -> bool {
        let is_meant = |open: &&Open| open.hang_up().is_some() && datasets.contains(&open.dataset);
        let is_used = |state: &mut State| {
            let mut meant = state.known.values().filter(is_meant);
            meant.any(|open| !open.is_leaving)
        };
        let is_open = |state: &mut State| state.known.values().any(|open| is_meant(&open));
        let state = self.state.lock();
        let (state, are_there) = self.left.wait_timeout_while(state, FAREWELL, is_used);
        if are_there {
            return false;
        }
        let (_state, are_there) = self.left.wait_timeout_while(state, PATIENCE, is_open);
        !are_there
    }

    /// Waits until disks that release these have closed them; false if they do not in time.
    pub(crate) fn await_disks(&self, datasets: &[ObjectId]) -> bool {
        let is_there = |state: &mut State| {
            let mut disks = state.known.values().filter(|open| open.hang_up().is_none());
            disks.any(|open| datasets.contains(&open.dataset))
        };
        let state = self.state.lock();
        let (_state, are_there) = self.left.wait_timeout_while(state, PATIENCE, is_there);
        !are_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn clients_are_disconnected_and_waited_for() {
        let served = Arc::new(Served::default());
        let calls = Arc::new(AtomicU64::new(0));
        let (own, count) = (Arc::clone(&served), Arc::clone(&calls));
        let client = User::Client(Arc::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            let own = Arc::clone(&own);
            rt::spawn("gone", move || own.remove(0)).expect("a thread");
        }));
        assert_eq!(served.add(ObjectId(1), true, client), Some(0));
        let other = User::Client(Arc::new(|| panic!("it is not meant")));
        served.add(ObjectId(2), false, other);
        assert_eq!(served.datasets().len(), 2);
        assert!(served.hang_up(|id, is_by_property| id == ObjectId(1) && is_by_property));
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        assert_eq!(served.datasets(), [(ObjectId(2), false)]);
        assert!(
            served.hang_up(|id, _| id == ObjectId(1)),
            "there is no client"
        );
    }

    /// `zfs destroy` right behind `nbdcopy` was refused: "dataset is busy".
    #[test]
    fn who_leaves_is_waited_for_and_who_stays_is_not() {
        let served = Arc::new(Served::default());
        let client = || User::Client(Arc::new(|| panic!("no client is disconnected")));
        let leaving = served.add(ObjectId(1), false, client()).expect("a client");
        served.add(ObjectId(2), false, client()).expect("a client");
        let own = Arc::clone(&served);
        let gone = rt::spawn("gone", move || {
            rt::sleep(Duration::from_millis(50));
            own.leave(leaving);
            // Longer than the wait for a client that stays.
            rt::sleep(FAREWELL + Duration::from_millis(200));
            own.remove(leaving);
        });
        assert!(served.await_leaving(&[ObjectId(1)]), "it leaves");
        assert_eq!(served.datasets(), [(ObjectId(2), false)]);
        assert!(!served.await_leaving(&[ObjectId(2)]), "it stays");
        gone.expect("a thread").join().expect("no panic");
    }

    #[test]
    fn no_disk_is_made_during_a_change() {
        struct Disk;
        impl LetsGo for Disk {
            fn let_go(&self, _grip: Grip) -> Result<(), ControlError> {
                Ok(())
            }
        }
        let served = Served::default();
        let disk: Arc<dyn LetsGo> = Arc::new(Disk);
        let user = || User::Disk(Arc::downgrade(&disk));
        let held = served.hold();
        assert_eq!(served.add(ObjectId(1), false, user()), None);
        let client = User::Client(Arc::new(|| {}));
        assert!(served.add(ObjectId(1), false, client).is_some());
        drop(held);
        let number = served.add(ObjectId(1), false, user()).expect("it may");
        assert_eq!(served.disks().len(), 1);
        assert_eq!(served.datasets().len(), 1, "a disk is no client");
        served.remove(number);
        assert!(served.await_disks(&[ObjectId(1)]), "it is gone");
    }
}
