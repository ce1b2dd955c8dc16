//! Staying awake for the next request instead of sleeping until it comes.
//!
//! Waking a processor that has fallen idle takes a few microseconds, and on a virtual machine more
//! than 20: longer than most requests. A single caller that makes one small request after the
//! other pays that up to twice for each, since the scheduler spreads caller and worker over idle
//! processors. So while the next request is likely to come at once, one worker stays awake for it:
//!
//! - With two processors, a worker that has nothing else to do keeps the second one from looking
//!   idle. Caller and leader then share the first one (see the module `follow`), where passing a
//!   request on is a change of threads.
//! - With more, the caller cannot be kept on its processor. The leader polls for the next request,
//!   so that at least it need not be woken.
//!
//! That keeps a processor from other work and spends power, so it must pay: a credit grows with
//! each request that came in time and shrinks with each that did not. And no other thread must want
//! the processor. Such threads are noticed by the time that `sched_yield` takes; while they stay,
//! the pauses without polling become longer and longer.

use cenote_base::rt::{self, Instant};
use std::time::Duration;

/// How long to stay awake after a request.
const LOOKING_MAX: Duration = Duration::from_micros(200);
/// A `sched_yield` that takes longer let another thread run for a time slice; shorter ones were
/// only interrupted.
const TRY_MAX: Duration = Duration::from_micros(500);
/// Requests for which no leader stays awake after another thread wanted the processor: at first, at
/// most. A guard counts each of its periods as that many.
const CROWD: (u32, u32) = (256, 16384);
/// The most that the requests in time may be ahead.
const CREDIT_MAX: u32 = 32;
/// The credit that one useless wait costs.
const CREDIT_LOSS: u32 = 8;
/// So many requests while a guard slept for a period are worth another try.
const REQUESTS_MANY: u64 = 8;

/// Which worker stays awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awake {
    /// None: a single processor has to be left to the caller.
    Nobody,
    /// The one that watches the leader.
    Guard,
    /// The one that waits for requests.
    Leader,
}

impl Awake {
    /// The choice for this many processors.
    pub fn with(processors: usize) -> Self {
        match processors {
            0 | 1 => Self::Nobody,
            2 => Self::Guard,
            _ => Self::Leader,
        }
    }
}

/// One worker's experience.
#[derive(Debug)]
pub(crate) struct Lookout {
    credit: u32,
    /// Requests left to sleep for because another thread wants the processor.
    crowded: u32,
    /// The next value of `crowded`.
    crowd: u32,
    /// Requests in time since another thread wanted the processor.
    undisturbed: u32,
}

impl Lookout {
    /// Without experience yet, except that requests came in a row.
    pub fn new() -> Self {
        Self {
            credit: CREDIT_LOSS,
            crowded: 0,
            crowd: CROWD.0,
            undisturbed: 0,
        }
    }

    /// Whether to stay awake for the next request.
    pub fn pays(&self) -> bool {
        self.crowded == 0 && self.credit > 0
    }

    /// Tries until something comes, or it no longer pays.
    pub fn look<T>(&mut self, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let start = Instant::now();
        let mut last = start;
        loop {
            if let Some(found) = attempt() {
                self.came();
                return Some(found);
            }
            rt::yield_now();
            let now = Instant::now();
            if now - last > TRY_MAX {
                self.is_in_the_way();
                return None;
            }
            if now - start > LOOKING_MAX {
                self.credit = self.credit.saturating_sub(CREDIT_LOSS);
                return None;
            }
            last = now;
        }
    }

    /// Another thread wants the processor.
    pub fn is_in_the_way(&mut self) {
        self.crowded = self.crowd;
        self.crowd = (self.crowd * 2).min(CROWD.1);
        self.undisturbed = 0;
    }

    /// A request came in time.
    fn came(&mut self) {
        self.credit = (self.credit + 1).min(CREDIT_MAX);
        self.undisturbed = self.undisturbed.saturating_add(1);
        if self.undisturbed >= CROWD.1 {
            self.crowd = CROWD.0;
        }
    }

    /// A request came after sleeping for `time`.
    pub fn slept(&mut self, time: Duration) {
        self.crowded = self.crowded.saturating_sub(1);
        if time < LOOKING_MAX {
            self.came();
        }
    }

    /// So many requests came while a guard slept for one of its periods. That does not show how
    /// soon they would have come with a guard awake, so it tries again after a few periods. This is
    /// cheap: no request waits for a guard that cannot run.
    pub fn rested(&mut self, requests: u64) {
        self.crowded = self.crowded.saturating_sub(CROWD.0);
        if requests >= REQUESTS_MANY {
            self.credit = self.credit.max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_pays_while_requests_come_at_once() {
        let mut lookout = Lookout::new();
        for _ in 0..100 {
            assert!(lookout.pays());
            let mut tries = 0;
            let found = lookout.look(|| {
                tries += 1;
                (tries == 3).then_some(tries)
            });
            if found.is_none() {
                // Something else ran here meanwhile, which the test cannot prevent.
                return;
            }
        }
        assert_eq!(lookout.credit, CREDIT_MAX);
    }

    #[test]
    fn looking_in_vain_ends_until_requests_come_at_once_again() {
        let mut lookout = Lookout::new();
        let mut vain = 0;
        while lookout.pays() {
            assert_eq!(lookout.look(|| None::<()>), None);
            vain += 1;
        }
        assert!(vain <= 1 + CREDIT_MAX / CREDIT_LOSS);
        lookout.slept(Duration::from_secs(1));
        assert!(!lookout.pays());
        for _ in 0..=CROWD.0 {
            lookout.slept(Duration::from_micros(5));
        }
        assert!(lookout.pays());
    }

    #[test]
    fn whoever_wants_the_processor_is_left_alone_for_longer_each_time() {
        let mut lookout = Lookout::new();
        let slow = || {
            std::thread::sleep(2 * TRY_MAX);
            None::<()>
        };
        let mut waits = Vec::new();
        for _ in 0..3 {
            assert_eq!(lookout.look(slow), None);
            assert!(!lookout.pays());
            let mut requests = 0;
            while !lookout.pays() {
                lookout.slept(Duration::from_secs(1));
                requests += 1;
            }
            waits.push(requests);
        }
        assert_eq!(waits, [CROWD.0, 2 * CROWD.0, 4 * CROWD.0]);
    }

    #[test]
    fn a_guard_tries_again_when_many_requests_came() {
        let mut lookout = Lookout::new();
        (lookout.credit, lookout.crowded) = (0, 3 * CROWD.0);
        lookout.rested(REQUESTS_MANY - 1);
        assert_eq!((lookout.credit, lookout.crowded), (0, 2 * CROWD.0));
        lookout.rested(REQUESTS_MANY);
        assert!(!lookout.pays(), "others wanted the processor just now");
        lookout.rested(0);
        assert!(lookout.pays());
    }
}
