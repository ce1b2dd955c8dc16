//! Which worker waits for the next request.
//!
//! With many callers all workers wait in the kernel, which wakes one for each request. For one
//! caller that makes small requests in a row this costs more than the requests themselves: each
//! wakes a worker from its sleep, on a processor that has fallen idle meanwhile, and finds none of
//! what the last worker had in its caches. So while requests come one by one, a single worker
//! receives them all, and while they come at once one stays awake for them (module `lookout`):
//!
//! ```text
//! many       every worker waits in the kernel
//!   |  a streak of small requests by one caller
//! one        the leader waits; the others are parked; one of them, the guard, looks every 2 ms
//!   |  another caller, a large request, or the guard sees the leader at the same request for
//!   |  a whole period: it may be blocked, and others may wait behind it
//! many
//! ```
//!
//! Invariants: in the state `one` with a leader at work, some worker waits in the kernel or a guard
//! is parked; the worker that ends that state wakes all parked workers.

use crate::follow::{Apart, Callers};
use crate::lookout::{Awake, Lookout};
use cenote_base::rt::watch::{AtWork, Look, Watch};
use cenote_base::rt::{Condvar, Mutex, MutexGuard, ranks};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a parked worker that is no guard stays when there are more than need be.
const PATIENCE: Duration = Duration::from_secs(1);
/// Single requests in a row before one worker waits for all.
const GATHER_MIN: u32 = 64;
/// Pause instructions (`spin_loop`) between two checks of the sequence.
const PAUSES: u32 = 8;
/// Steps of requests in a row at which the guard is on the caller's own processor, where it is in
/// the way: the system did not let it go to another one.
const TOGETHER_MAX: u32 = 64;
/// No worker.
const NOBODY: usize = usize::MAX;

/// What a worker is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Wait for a request with the others.
    Shared,
    /// Wait for requests alone.
    Alone,
    /// End: it was not needed for long.
    Leave,
}

/// The state of one session's workers.
#[derive(Debug)]
pub(crate) struct Turns {
    /// One worker waits for all.
    is_one: AtomicBool,
    /// Single requests since all waited.
    single: AtomicU32,
    leader: AtomicUsize,
    /// What the guard sees of the leader.
    watch: Watch,
    /// A guard watches the leader.
    is_guarded: AtomicBool,
    parked: Mutex<Parked, ranks::FuseTurns>,
    woken: Condvar,
    awake: Awake,
}

#[derive(Debug, Default)]
struct Parked {
    has_guard: bool,
    has_ended: bool,
}

impl Turns {
    /// For workers that may use this many processors.
    pub fn new(processors: usize) -> Self {
        Self {
            is_one: AtomicBool::new(false),
            single: AtomicU32::new(0),
            leader: AtomicUsize::new(NOBODY),
            watch: Watch::new(),
            is_guarded: AtomicBool::new(false),
            parked: Mutex::default(),
            woken: Condvar::new(),
            awake: Awake::with(processors),
        }
    }

    /// Whether the leader is to stay awake for the next request, if that pays.
    pub fn keeps_leader_awake(&self) -> bool {
        self.awake == Awake::Leader
    }

    fn parked(&self) -> MutexGuard<'_, Parked> {
        // Two flags that are never left half changed.
        self.parked.lock()
    }

    /// One more request came alone. After many of them one worker waits for all.
    pub fn gather(&self) {
        if !self.is_one.load(Ordering::Relaxed)
            && self.single.fetch_add(1, Ordering::Relaxed) >= GATHER_MIN
        {
            self.is_one.store(true, Ordering::Release);
        }
    }

    /// From now on all workers wait.
    pub fn scatter(&self) {
        self.single.store(0, Ordering::Relaxed);
        if self.is_one.load(Ordering::Relaxed) {
            self.scatter_locked(&self.parked());
        }
    }

    fn scatter_locked(&self, _parked: &Parked) {
        self.single.store(0, Ordering::Relaxed);
        self.is_one.store(false, Ordering::Release);
        self.leader.store(NOBODY, Ordering::Release);
        self.watch.notify();
        self.woken.notify_all();
    }

    /// The session is over: no worker stays parked.
    pub fn end(&self) {
        let mut parked = self.parked();
        parked.has_ended = true;
        self.scatter_locked(&parked);
    }

    /// The worker `slot` ends. If it waited for all, all wait now.
    pub fn leave(&self, slot: usize) {
        if self.leader.load(Ordering::Acquire) == slot {
            self.scatter();
        }
    }

    /// Whether a parked worker notices when the leader is blocked.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded.load(Ordering::Acquire)
    }

    /// Whether [`take`](Self::take) would park the worker `slot` at this moment.
    pub fn would_park(&self, slot: usize) -> bool {
        let leader = self.leader.load(Ordering::Acquire);
        self.is_one.load(Ordering::Acquire) && leader != NOBODY && leader != slot
    }

    /// What the worker `slot` is to do now. Parks it while another one waits for all; it leaves
    /// when `may_leave` says so after a long time.
    pub fn take(
        &self,
        slot: usize,
        lookout: &mut Lookout,
        callers: &Callers,
        may_leave: impl Fn() -> bool,
    ) -> Turn {
        if !self.is_one.load(Ordering::Acquire) {
            return Turn::Shared;
        }
        if self.leads(slot) {
            return Turn::Alone;
        }
        let mut parked = self.parked();
        loop {
            if parked.has_ended || !self.is_one.load(Ordering::Acquire) {
                return Turn::Shared;
            }
            if self.leads(slot) {
                return Turn::Alone;
            }
            if !parked.has_guard {
                parked.has_guard = true;
                self.is_guarded.store(true, Ordering::Release);
                parked = self.guard(parked, lookout, callers);
                self.is_guarded.store(false, Ordering::Release);
                parked.has_guard = false;
                continue;
            }
            let waited = self.woken.wait_timeout(parked, PATIENCE);
            let (guard, timeout) = waited;
            parked = guard;
            if timeout && may_leave() {
                return Turn::Leave;
            }
        }
    }

    /// Whether `slot` is the leader; it becomes so if there is none.
    fn leads(&self, slot: usize) -> bool {
        let order = Ordering::AcqRel;
        match self
            .leader
            .compare_exchange(NOBODY, slot, order, Ordering::Acquire)
        {
            Ok(_) => {
                self.watch.change_leader();
                true
            }
            Err(leader) => leader == slot,
        }
    }

    /// Looks after the leader until one waits for all no longer.
    fn guard<'a>(
        &'a self,
        mut parked: MutexGuard<'a, Parked>,
        lookout: &mut Lookout,
        callers: &Callers,
    ) -> MutexGuard<'a, Parked> {
        let mut view = self.watch.begin();
        while self.is_one.load(Ordering::Acquire) {
            if self.awake == Awake::Guard && lookout.pays() {
                drop(parked);
                view.move_to(self.stay_awake(lookout, callers));
                parked = self.parked();
            }
            let look;
            (parked, look) = self.watch.look(parked, &mut view, |_| {
                // Whatever changes that also notifies the guard.
                self.is_one.load(Ordering::Acquire)
            });
            match look {
                Look::Steps(steps) => lookout.rested(steps / 2),
                Look::Blocked => self.scatter_locked(&parked),
                Look::Quiet => {}
            }
        }
        self.watch.leave();
        parked
    }

    /// Keeps a processor from falling idle while requests come at once. Returns the sequence.
    fn stay_awake(&self, lookout: &mut Lookout, callers: &Callers) -> u64 {
        let mut together = 0;
        let mut apart = Apart::new(callers);
        let mut seen = self.watch.steps();
        while lookout.pays() && self.is_one.load(Ordering::Acquire) {
            let next = lookout.look(|| {
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
                let now = self.watch.steps();
                (now != seen || !self.is_one.load(Ordering::Relaxed)).then_some(now)
            });
            let Some(next) = next else { break };
            seen = next;
            apart.keep();
            together = match callers.are_here() {
                true => together + 1,
                false => 0,
            };
            if together == TOGETHER_MAX {
                lookout.is_in_the_way();
            }
        }
        seen
    }

    /// The leader has received a request; it is at work until the guard is dropped.
    pub fn at_work(&self) -> AtWork<'_> {
        let work = self.watch.at_work();
        if self.watch.is_unwatched() {
            let parked = self.parked();
            self.watch.wake();
            drop(parked);
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::rt::watch::{PERIOD, QUIET_PERIODS};
    use std::sync::mpsc::{Receiver, channel};

    const LONG: Duration = Duration::from_secs(20);

    fn take(turns: &Turns, slot: usize) -> Turn {
        turns.take(slot, &mut Lookout::new(), &Callers::default(), || false)
    }

    fn gathered() -> Turns {
        let turns = Turns::new(2);
        for _ in 0..=GATHER_MIN {
            assert_eq!(take(&turns, 0), Turn::Shared);
            turns.gather();
        }
        assert_eq!(take(&turns, 0), Turn::Alone);
        turns
    }

    /// Parks the workers 1 to `count` and returns their next turns.
    fn park<'s>(
        scope: &'s std::thread::Scope<'s, '_>,
        turns: &'s Turns,
        count: usize,
    ) -> Receiver<(usize, Turn)> {
        let (send, receive) = channel();
        for slot in 1..=count {
            let send = send.clone();
            scope.spawn(move || send.send((slot, take(turns, slot))));
        }
        while !turns.is_guarded() {
            std::thread::yield_now();
        }
        receive
    }

    #[test]
    fn one_waits_for_all_after_a_streak() {
        let turns = Turns::new(2);
        for _ in 0..GATHER_MIN {
            turns.gather();
        }
        assert_eq!(take(&turns, 0), Turn::Shared);
        turns.scatter();
        turns.gather();
        assert_eq!(take(&turns, 0), Turn::Shared, "the streak was broken");
        let turns = gathered();
        turns.scatter();
        assert_eq!(take(&turns, 3), Turn::Shared);
    }

    #[test]
    fn all_wait_again_when_requests_meet() {
        let turns = gathered();
        std::thread::scope(|scope| {
            let parked = park(scope, &turns, 3);
            assert_eq!(take(&turns, 0), Turn::Alone);
            turns.scatter();
            for _ in 0..3 {
                let (_, turn) = parked.recv_timeout(LONG).expect("all are woken");
                assert_eq!(turn, Turn::Shared);
            }
        });
        assert!(!turns.is_guarded());
    }

    #[test]
    fn a_leader_that_is_blocked_wakes_the_others() {
        let turns = gathered();
        std::thread::scope(|scope| {
            let parked = park(scope, &turns, 2);
            // Many short requests, and a pause after which the guard has to be woken.
            for _ in 0..1000 {
                drop(turns.at_work());
            }
            std::thread::sleep(PERIOD * (QUIET_PERIODS + 3));
            assert!(parked.try_recv().is_err(), "nothing is blocked");
            let work = turns.at_work();
            for _ in 0..2 {
                let (_, turn) = parked.recv_timeout(LONG).expect("all are woken");
                assert_eq!(turn, Turn::Shared);
            }
            drop(work);
        });
    }

    #[test]
    fn another_leads_when_the_leader_ends() {
        let turns = gathered();
        std::thread::scope(|scope| {
            let parked = park(scope, &turns, 2);
            turns.leave(7);
            assert!(parked.try_recv().is_err(), "another's end is no matter");
            turns.leave(0);
            for _ in 0..2 {
                parked.recv_timeout(LONG).expect("all are woken");
            }
        });
    }

    #[test]
    fn nobody_stays_parked_at_the_end() {
        let turns = gathered();
        std::thread::scope(|scope| {
            let parked = park(scope, &turns, 4);
            turns.end();
            for _ in 0..4 {
                parked.recv_timeout(LONG).expect("all are woken");
            }
        });
        for _ in 0..=GATHER_MIN {
            turns.gather();
        }
        assert_eq!(take(&turns, 0), Turn::Alone);
        assert_eq!(take(&turns, 1), Turn::Shared);
    }

    /// Workers that take turns at random while the state changes all the time: none stays behind.
    #[test]
    fn workers_are_never_forgotten() {
        for processors in 1..=3 {
            take_turns_at_random(&Turns::new(processors));
        }
    }

    fn take_turns_at_random(turns: &Turns) {
        let (send, done) = channel();
        std::thread::scope(|scope| {
            for slot in 0..4 {
                let send = send.clone();
                scope.spawn(move || {
                    for step in 0..20_000_u32 {
                        match take(turns, slot) {
                            Turn::Alone => drop(turns.at_work()),
                            Turn::Shared => {}
                            Turn::Leave => panic!("it may not"),
                        }
                        match (step + slot as u32) % 97 {
                            0 => turns.scatter(),
                            _ => turns.gather(),
                        }
                    }
                    turns.leave(slot);
                    let _ = send.send(());
                });
            }
            for left in (0..4).rev() {
                // The last ones' streaks end only when they leave.
                let ended = done.recv_timeout(LONG);
                assert!(ended.is_ok(), "{left} and one more are parked for ever");
            }
        });
    }
}
