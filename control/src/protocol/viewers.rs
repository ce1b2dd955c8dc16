//! Limits for clients of the read-only socket.
//!
//! These can be any user of the machine, even a hostile one. So connections are counted by user,
//! few requests are carried out at once, and each has a deadline. A client that does not read its
//! answer is disconnected.

use cenote_base::rt::{Condvar, Instant, Mutex, MutexGuard, ranks};
use std::collections::HashMap;
use std::time::Duration;

/// Connections of one user: more are turned away.
const USER_CONNECTIONS_MAX: usize = 384;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// It looks, within a deadline.
    Look,
    /// It needs delegated permissions, and may take long: a stream is sent or received.
    Act,
}

impl Doing {
    /// How many are carried out at once, and how many of one user among them.
    fn limits(self) -> (usize, usize) {
        match self {
            Self::Look => (8, 4),
            Self::Act => (64, 8),
        }
    }
}

/// How long a request may take, with the wait for its turn.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);
/// How long a connection may be idle, and how long a part of an answer may wait to be read.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);
/// The longest request: some hundred names.
pub(super) const REQUEST_SIZE_MAX: usize = 64 << 10;

/// What one user does.
#[derive(Debug, Default)]
struct Share {
    connections: usize,
    /// Requests under way, by [`Doing`].
    working: [usize; 2],
}

#[derive(Debug, Default)]
struct Counts {
    working: [usize; 2],
    users: HashMap<u32, Share>,
}

/// The clients of the read-only socket.
#[derive(Debug, Default)]
pub(super) struct Viewers {
    counts: Mutex<Counts, ranks::ServerViewers>,
    ended: Condvar,
}

impl Viewers {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock()
    }

    /// Takes a connection of a user in, if there is room.
    pub fn enter(&self, user: u32) -> bool {
        let mut counts = self.lock();
        let share = counts.users.entry(user).or_default();
        let has_room = share.connections < USER_CONNECTIONS_MAX;
        share.connections += usize::from(has_room);
        has_room
    }

    /// A connection has ended.
    pub fn leave(&self, user: u32) {
        let mut counts = self.lock();
        if let Some(share) = counts.users.get_mut(&user) {
            share.connections = share.connections.saturating_sub(1);
            if share.connections == 0 && share.working == [0; 2] {
                counts.users.remove(&user);
            }
        }
    }

    /// Waits for a request's turn; `None` if it does not come in time.
    pub fn begin(&self, user: u32, doing: Doing, deadline: Instant) -> Option<Turn<'_>> {
        let (kind, (all_max, own_max)) = (doing as usize, doing.limits());
        let mut counts = self.lock();
        loop {
            let own = counts
                .users
                .get(&user)
                .map_or(0, |share| share.working[kind]);
            if counts.working[kind] < all_max && own < own_max {
                break;
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.ended.wait_timeout(counts, left);
            counts = waited.0;
        }
        counts.working[kind] += 1;
        counts.users.entry(user).or_default().working[kind] += 1;
        Some(Turn {
            viewers: self,
            user,
            kind,
        })
    }
}

/// A request that is carried out.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    viewers: &'a Viewers,
    user: u32,
    kind: usize,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut counts = self.viewers.lock();
        counts.working[self.kind] -= 1;
        if let Some(share) = counts.users.get_mut(&self.user) {
            share.working[self.kind] -= 1;
        }
        drop(counts);
        self.viewers.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_room() {
        let viewers = Viewers::default();
        for _ in 0..USER_CONNECTIONS_MAX {
            assert!(viewers.enter(7));
        }
        assert!(!viewers.enter(7) && viewers.enter(8));
        viewers.leave(7);
        assert!(viewers.enter(7));
        let now = Instant::now();
        for doing in [Doing::Look, Doing::Act] {
            let turns: Vec<Turn<'_>> = (0..doing.limits().1)
                .map(|_| viewers.begin(7, doing, now).expect("a turn"))
                .collect();
            assert!(viewers.begin(7, doing, now).is_none());
            assert!(viewers.begin(8, doing, now).is_some());
            drop(turns);
            assert!(viewers.begin(7, doing, now).is_some());
        }
    }
}
