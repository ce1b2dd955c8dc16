//! Which thread receives the next request of a connection, and which one watches it.
//!
//! One thread, the *leader*, receives. It answers itself, one after the other, requests that are
//! likely to be quick, and all requests of a client that makes one at a time. Before any other
//! request it passes the lead on. All other threads are parked, until they are needed. One of them
//! is the *watcher*: when the leader has been at one request for a whole period, it may be blocked,
//! and the watcher takes the lead. So a request that is unexpectedly slow delays others only for a
//! moment.
//!
//! ```text
//! leader     receives, answers what is quick    passes on, or loses, the lead
//! watcher    looks every 2 ms                   takes the lead of one that is blocked
//! idle       sleeps                             becomes watcher or leader when there is none
//! at work    carries out one request            is none of these meanwhile
//! ```
//!
//! *Deliberately absent*: staying awake for the next request, as mounts do. No measurement has
//! shown that it pays here.
//!
//! Invariants: while a thread leads and another is parked, there is a watcher, or the leader wakes
//! one before it answers a request. A leader that lost the lead notices before it receives again;
//! two that receive for a moment do no harm, for a lock keeps whole requests together.

use cenote_base::rt::watch::{AtWork, Look, Watch};
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Requests in a row that came alone before the client is believed to make one at a time.
const SINGLE_MIN: u32 = 32;

/// What a thread is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Receive, as long as the lead is this one.
    Lead(u64),
    /// The connection has ended.
    Leave,
}

/// Whether there is a thread that can take the lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Some,
    /// A thread should be started.
    None,
}

#[derive(Debug)]
struct State {
    /// All threads of the connection.
    threads: usize,
    /// Parked, the watcher not among them.
    idle: usize,
    has_leader: bool,
    has_watcher: bool,
    has_ended: bool,
}

/// The threads of one connection.
#[derive(Debug)]
pub(crate) struct Turns {
    state: Mutex<State, ranks::NbdWorkers>,
    idle: Condvar,
    left: Condvar,
    /// The number of the lead.
    lead: AtomicU64,
    /// What the watcher sees of the leader.
    watch: Watch,
    has_ended: AtomicBool,
    /// Requests in a row that came alone.
    single: AtomicU32,
}

impl Turns {
    /// For a connection with one thread.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                threads: 1,
                idle: 0,
                has_leader: false,
                has_watcher: false,
                has_ended: false,
            }),
            idle: Condvar::new(),
            left: Condvar::new(),
            lead: AtomicU64::new(0),
            watch: Watch::new(),
            has_ended: AtomicBool::new(false),
            single: AtomicU32::new(0),
        }
    }

    /// Takes the lead; parks the thread until it is free.
    pub fn take(&self) -> Role {
        let mut state = self.state.lock();
        loop {
            if state.has_ended {
                return Role::Leave;
            }
            if !state.has_leader {
                state.has_leader = true;
                self.watch.change_leader();
                return Role::Lead(self.lead.fetch_add(1, Ordering::SeqCst) + 1);
            }
            if !state.has_watcher {
                state = self.watch(state);
                continue;
            }
            state.idle += 1;
            state = self.idle.wait(state);
            state.idle -= 1;
        }
    }

    /// Whether the thread with this lead still has it.
    pub fn leads(&self, lead: u64) -> bool {
        self.lead.load(Ordering::SeqCst) == lead
    }

    /// Gives the lead away.
    pub fn pass_on(&self, lead: u64) -> Others {
        let mut state = self.state.lock();
        if !self.leads(lead) {
            return Others::Some;
        }
        state.has_leader = false;
        self.lead.fetch_add(1, Ordering::SeqCst);
        match (state.idle, state.has_watcher) {
            (1.., _) => self.idle.notify_one(),
            (0, true) => self.watch.notify(),
            (0, false) => return Others::None,
        }
        Others::Some
    }

    /// The leader has received a request, and answers it itself.
    pub fn at_work(&self) -> (AtWork<'_>, Others) {
        let work = self.watch.at_work();
        let mut others = Others::Some;
        if self.watch.is_unwatched() {
            let state = self.state.lock();
            self.watch.wake();
            match (state.has_watcher, state.idle) {
                (true, _) => {}
                (false, 1..) => self.idle.notify_one(),
                // The next thread that completes its request will watch.
                (false, 0) if state.threads > 1 => {}
                (false, 0) => others = Others::None,
            }
        }
        (work, others)
    }

    /// A request came; `is_alone` if no other one did together with it.
    pub fn note(&self, is_alone: bool) {
        match is_alone {
            true => {
                let single = self.single.load(Ordering::Relaxed);
                let more = single.saturating_add(1);
                self.single.store(more, Ordering::Relaxed);
            }
            false => self.single.store(0, Ordering::Relaxed),
        }
    }

    /// Whether the client seems to make one request at a time.
    pub fn is_single(&self) -> bool {
        self.single.load(Ordering::Relaxed) >= SINGLE_MIN
    }

    /// Looks after the leader until there is none.
    fn watch<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let is_wanted = |state: &State| state.has_leader && !state.has_ended;
        state.has_watcher = true;
        let mut view = self.watch.begin();
        while is_wanted(&state) {
            let look;
            (state, look) = self.watch.look(state, &mut view, is_wanted);
            if look == Look::Blocked {
                state.has_leader = false;
                self.lead.fetch_add(1, Ordering::SeqCst);
            }
        }
        state.has_watcher = false;
        self.watch.leave();
        state
    }

    /// Whether the connection has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// The connection ends: no thread stays parked. `false` if it had ended before.
    pub fn end(&self) -> bool {
        let mut state = self.state.lock();
        let had_ended = std::mem::replace(&mut state.has_ended, true);
        self.has_ended.store(true, Ordering::Release);
        drop(state);
        self.idle.notify_all();
        self.watch.notify();
        !had_ended
    }

    /// Counts one more thread, if there are fewer than `most`.
    pub fn join(&self, most: usize) -> bool {
        let mut state = self.state.lock();
        let is_room = state.threads < most && !state.has_ended;
        state.threads += usize::from(is_room);
        is_room
    }

    /// A thread leaves; whether it is the last one.
    pub fn leave(&self) -> bool {
        let mut state = self.state.lock();
        state.threads -= 1;
        let is_last = state.threads == 0;
        drop(state);
        self.left.notify_all();
        is_last
    }

    /// Waits until no thread is left.
    pub fn wait_for_all(&self) {
        let state = self.state.lock();
        drop(self.left.wait_while(state, |state| state.threads > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::watch::{PERIOD, QUIET_PERIODS};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    fn take(turns: &Turns) -> Role {
        turns.take()
    }

    fn lead(turns: &Turns) -> u64 {
        match take(turns) {
            Role::Lead(lead) => lead,
            Role::Leave => panic!("it has not ended"),
        }
    }

    /// Parks this many threads, and returns their roles when they wake.
    fn park<'s>(
        scope: &'s std::thread::Scope<'s, '_>,
        turns: &'s Turns,
        count: usize,
    ) -> Receiver<Role> {
        let (send, roles) = channel();
        for _ in 0..count {
            assert!(turns.join(count + 1));
            let send = send.clone();
            scope.spawn(move || send.send(take(turns)));
        }
        let are_parked = || {
            let state = turns.state.lock();
            state.has_watcher && state.idle == count - 1
        };
        while !are_parked() {
            std::thread::yield_now();
        }
        roles
    }

    #[test]
    fn whoever_passes_the_lead_on_has_it_no_more() {
        let turns = Turns::new();
        let first = lead(&turns);
        assert!(turns.leads(first));
        assert_eq!(turns.pass_on(first), Others::None);
        assert!(!turns.leads(first));
        let second = lead(&turns);
        assert!(turns.leads(second) && !turns.leads(first));
        assert_eq!(turns.pass_on(first), Others::Some, "it was not its own");
        assert!(turns.leads(second));
    }

    #[test]
    fn one_that_is_parked_leads_when_the_lead_is_passed_on() {
        let turns = Turns::new();
        let mut own = lead(&turns);
        std::thread::scope(|scope| {
            for left in (0..3).rev() {
                let roles = park(scope, &turns, left + 1);
                assert_eq!(turns.pass_on(own), Others::Some);
                let role = roles.recv_timeout(LONG).expect("one leads");
                let Role::Lead(other) = role else {
                    panic!("it has not ended");
                };
                assert!(turns.leads(other));
                assert!(roles.try_recv().is_err(), "one alone");
                // The others leave, so that the next round begins with none.
                turns.end();
                for _ in 0..left {
                    let role = roles.recv_timeout(LONG).expect("none stays parked");
                    assert_eq!(role, Role::Leave);
                }
                let mut state = turns.state.lock();
                (state.has_ended, state.has_leader, state.threads) = (false, false, 1);
                drop(state);
                own = lead(&turns);
            }
        });
    }

    /// Answered at once, a request that waits for a device held up all that came after it.
    #[test]
    fn a_leader_that_is_blocked_loses_the_lead() {
        let turns = Turns::new();
        let own = lead(&turns);
        std::thread::scope(|scope| {
            let roles = park(scope, &turns, 2);
            // Many short requests, and a pause after which the watcher has to be woken.
            for _ in 0..1000 {
                turns.note(true);
                assert_eq!(turns.at_work().1, Others::Some);
            }
            std::thread::sleep(PERIOD * (QUIET_PERIODS + 3));
            assert!(
                roles.try_recv().is_err() && turns.leads(own),
                "none is blocked"
            );
            let (work, _) = turns.at_work();
            let role = roles.recv_timeout(LONG).expect("the watcher leads");
            assert!(!turns.leads(own));
            drop(work);
            assert!(matches!(role, Role::Lead(other) if turns.leads(other)));
            turns.end();
        });
    }

    #[test]
    fn a_leader_alone_has_another_thread_started() {
        let turns = Turns::new();
        lead(&turns);
        assert_eq!(turns.at_work().1, Others::None);
        assert!(turns.join(2) && !turns.join(2));
        // It has not come yet, and may have failed to start: that is asked once.
        assert_eq!(turns.at_work().1, Others::Some);
        assert!(!turns.leave() && turns.leave());
    }

    /// Threads that take turns at random: none stays parked for ever.
    #[test]
    fn nobody_is_forgotten() {
        for _ in 0..3 {
            let turns = Turns::new();
            let (send, done) = channel();
            // Before one of them ends all.
            assert!((1..4).all(|_| turns.join(4)));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let (send, turns) = (send.clone(), &turns);
                    scope.spawn(move || {
                        let mut leads = 0;
                        while let Role::Lead(lead) = take(turns) {
                            leads += 1;
                            for step in 0..leads % 7 {
                                turns.note(step % 5 != 0);
                                drop(turns.at_work());
                            }
                            turns.pass_on(lead);
                            if leads == 2000 {
                                turns.end();
                            }
                        }
                        send.send(()).expect("the test waits");
                    });
                }
                for left in (0..4).rev() {
                    let ended = done.recv_timeout(LONG);
                    assert!(ended.is_ok(), "{left} and one more are parked for ever");
                }
            });
        }
    }
}
