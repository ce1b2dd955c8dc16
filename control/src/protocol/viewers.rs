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
/// Requests that are carried out at once.
const WORKING_MAX: usize = 8;
/// Those of one user among them.
const USER_WORKING_MAX: usize = 4;

/// How long a request may take, with the wait for its turn.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);
/// How long a connection may be idle, and how long a part of an answer may wait to be read.
pub(super) const IDLE_MAX: Duration = Duration::from_secs(10);
/// The longest request: some hundred names.
pub(super) const REQUEST_SIZE_MAX: usize = 64 << 10;

#[derive(Debug, Default)]
struct Counts {
    working: usize,
    /// Connections and requests under way, by user.
    users: HashMap<u32, (usize, usize)>,
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
        let (connections, _) = counts.users.entry(user).or_default();
        let has_room = *connections < USER_CONNECTIONS_MAX;
        *connections += usize::from(has_room);
        has_room
    }

    /// A connection has ended.
    pub fn leave(&self, user: u32) {
        let mut counts = self.lock();
        if let Some((connections, working)) = counts.users.get_mut(&user) {
            *connections = connections.saturating_sub(1);
            if *connections == 0 && *working == 0 {
                counts.users.remove(&user);
            }
        }
    }

    /// Waits for a request's turn; `None` if it does not come in time.
    pub fn begin(&self, user: u32, deadline: Instant) -> Option<Turn<'_>> {
        let mut counts = self.lock();
        loop {
            let own = counts.users.get(&user).map_or(0, |(_, working)| *working);
            if counts.working < WORKING_MAX && own < USER_WORKING_MAX {
                break;
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.ended.wait_timeout(counts, left);
            counts = waited.0;
        }
        counts.working += 1;
        counts.users.entry(user).or_default().1 += 1;
        Some(Turn {
            viewers: self,
            user,
        })
    }
}

/// A request that is carried out.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    viewers: &'a Viewers,
    user: u32,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut counts = self.viewers.lock();
        counts.working -= 1;
        if let Some((_, working)) = counts.users.get_mut(&self.user) {
            *working -= 1;
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
        let turns: Vec<Turn<'_>> = (0..USER_WORKING_MAX)
            .map(|_| viewers.begin(7, now).expect("a turn"))
            .collect();
        assert!(viewers.begin(7, now).is_none());
        assert!(viewers.begin(8, now).is_some());
        drop(turns);
        assert!(viewers.begin(7, now).is_some());
    }
}
