//! A way's own job, with the alarms that wait for it.
//!
//! The queue has [`QUEUE_MAX`] places. If it is full, new alarms are dropped and counted, so that
//! raising an alarm never waits; the next alarm that gets through reports how many were lost. An
//! alarm that fails is tried again after each of the plan's times and then counts as failed. While
//! it waits, those behind it wait too: they go to the same receiver.

use crate::alarm::Alarm;
use crate::trial::unused;
use crate::way::{AlarmSendError, AlarmWay, AlarmWayPlan};
use cenote_base::rt::job::{Control, Job, Next, Work};
use cenote_base::rt::{self, Instant, Mutex, MutexGuard, ranks};
use cenote_control::model::AlarmWayState;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

/// Alarms that wait for one way.
const QUEUE_MAX: usize = 100;

/// A way, its job and its queue.
pub struct Courier {
    /// The way, and what is sent by it.
    pub plan: AlarmWayPlan,
    shared: Arc<Shared>,
    job: Job,
}

struct Shared {
    name: String,
    retries: Vec<Duration>,
    state: Mutex<State, ranks::AlarmQueue>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Alarm>,
    /// An alarm is on its way.
    is_sending: bool,
    /// No more alarms come; those that are there have one try.
    ends: bool,
    sent: u64,
    failed: u64,
    dropped: u64,
    /// Failed or dropped alarms that were not reported yet.
    untold: u64,
    last_error: Option<String>,
}

impl Courier {
    /// The way of `plan`, with an empty queue.
    pub fn start(plan: AlarmWayPlan, retries: &[Duration]) -> Self {
        let shared = Arc::new(Shared {
            name: plan.name.clone(),
            retries: retries.to_vec(),
            state: Mutex::default(),
        });
        let job = Job::new();
        Self { plan, shared, job }
    }

    /// Has what is queued delivered.
    fn work(&self) {
        let delivery = Delivery {
            shared: Arc::clone(&self.shared),
            way: Arc::clone(&self.plan.way),
            failed: None,
        };
        if let Err(error) = self.job.start("alarms", delivery) {
            log::warn!("alarms '{}': no thread: {error}", self.plan.name);
            self.shared.lock().last_error = Some(error.to_string());
        }
    }

    /// Whether alarms like this one go this way.
    pub fn takes(&self, alarm: &Alarm) -> bool {
        self.plan.on.contains(&alarm.kind) && alarm.severity >= self.plan.least
    }

    /// Queues an alarm, if there is room.
    pub fn put(&self, alarm: Alarm) {
        let mut state = self.shared.lock();
        if state.queue.len() < QUEUE_MAX {
            state.queue.push_back(alarm);
            drop(state);
            self.work();
            return;
        }
        state.dropped += 1;
        state.untold += 1;
        // A storm of alarms must not fill the log, too.
        if state.dropped.is_power_of_two() {
            let (name, dropped) = (&self.shared.name, state.dropped);
            log::warn!("alarms '{name}': {dropped} dropped, {QUEUE_MAX} are waiting");
        }
    }

    /// How many alarms were sent, failed, were dropped and are waiting.
    pub fn state(&self) -> AlarmWayState {
        let state = self.shared.lock();
        AlarmWayState {
            sent: state.sent,
            failed: state.failed,
            dropped: state.dropped,
            waiting: state.queue.len() as u64 + u64::from(state.is_sending),
            last_error: state.last_error.clone(),
            ..unused(&self.plan)
        }
    }

    /// Ends the job after the try that is under way. Returns the alarms that are still waiting.
    pub fn end(&self) -> Vec<Alarm> {
        self.job.cancel();
        let mut state = self.shared.lock();
        state.ends = true;
        state.queue.drain(..).collect()
    }

    /// Tries waiting alarms a last time until `end`; returns whether all were tried.
    pub fn finish(&self, end: Instant) -> bool {
        self.shared.lock().ends = true;
        self.work();
        self.job.wait_idle(end)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// The work of the job: it sends one alarm after the other.
struct Delivery {
    shared: Arc<Shared>,
    way: Arc<dyn AlarmWay>,
    /// An alarm that failed, the number of its tries, and the time of the next one.
    failed: Option<(Alarm, usize, Instant)>,
}

impl Work for Delivery {
    fn step(&mut self, _: &Control) -> Next {
        let (alarm, tries) = {
            let mut state = self.shared.lock();
            if let Some((_, _, due)) = self.failed.as_ref().filter(|_| !state.ends) {
                let left = due.saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Next::After(left);
                }
            }
            let failed = self.failed.take().map(|(alarm, tries, _)| (alarm, tries));
            let next = failed.or_else(|| Some((state.queue.pop_front()?, 0)));
            state.is_sending = next.is_some();
            let Some((mut alarm, tries)) = next else {
                return Next::Done;
            };
            alarm.lost = state.untold;
            (alarm, tries)
        };
        match self.send(&alarm) {
            Ok(()) => self.sent(&alarm),
            Err(error) => return self.not_sent(alarm, tries, &error),
        }
        Next::Now
    }
}

impl Delivery {
    /// Sends an alarm; a way that panics has failed like another.
    fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
        let send = AssertUnwindSafe(|| self.way.send(alarm));
        rt::catch_unwind(send).unwrap_or_else(|_| {
            Err(AlarmSendError::Io {
                place: self.shared.name.clone(),
                source: std::io::Error::other("sending ended with a panic"),
            })
        })
    }

    fn sent(&self, alarm: &Alarm) {
        let mut state = self.shared.lock();
        state.is_sending = false;
        state.untold = state.untold.saturating_sub(alarm.lost);
        state.sent += 1;
        state.last_error = None;
    }

    /// Has it tried again, or gives it up.
    fn not_sent(&mut self, alarm: Alarm, tries: usize, error: &AlarmSendError) -> Next {
        let (name, text) = (&self.shared.name, error.to_string());
        let mut state = self.shared.lock();
        let time = self.shared.retries.get(tries).filter(|_| !state.ends);
        let before = state.last_error.replace(text);
        let text = state.last_error.as_ref();
        match time {
            Some(time) => {
                if before.as_ref() != text {
                    log::warn!("alarms '{name}': {error}");
                }
                self.failed = Some((alarm, tries + 1, Instant::now() + *time));
                Next::After(*time)
            }
            None => {
                log::warn!("alarms '{name}': given up: {error}");
                state.is_sending = false;
                state.failed += 1;
                state.untold += 1;
                Next::Now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarm::{AlarmKind, AlarmSeverity};
    use crate::trial::test_alarm;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// A receiver that hangs until it is released, and then fails a number of times.
    #[derive(Default)]
    struct Receiver {
        is_released: AtomicBool,
        failures: AtomicU64,
        panics: AtomicBool,
        lost: Mutex<Vec<u64>, ranks::Unranked>,
    }

    impl AlarmWay for Receiver {
        fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
            while !self.is_released.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!self.panics.swap(false, Ordering::AcqRel), "as it is to be");
            let fails = |left: u64| left.checked_sub(1);
            let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
            if self.failures.fetch_update(set, read, fails).is_ok() {
                return Err(AlarmSendError::Refused {
                    place: "here".to_owned(),
                    answer: "not now".to_owned(),
                });
            }
            self.lost.lock().push(alarm.lost);
            Ok(())
        }
    }

    fn courier(receiver: &Arc<Receiver>, retries: &[Duration]) -> Courier {
        let plan = AlarmWayPlan {
            name: "w".to_owned(),
            kind: "webhook",
            target: "here".to_owned(),
            on: AlarmKind::ALL.to_vec(),
            least: AlarmSeverity::Attention,
            way: Arc::clone(receiver) as Arc<dyn AlarmWay>,
        };
        Courier::start(plan, retries)
    }

    fn alarm() -> Alarm {
        test_alarm("nas", &cenote_base::RealEnv::new())
    }

    #[test]
    fn a_receiver_that_hangs_costs_alarms_and_no_time() {
        let receiver = Arc::new(Receiver::default());
        let courier = courier(&receiver, &[]);
        for _ in 0..QUEUE_MAX + 50 {
            courier.put(alarm());
        }
        let state = courier.state();
        // One may be on its way, and has left its place to another then.
        assert!((49..=50).contains(&state.dropped), "{state:?}");
        receiver.is_released.store(true, Ordering::Release);
        assert!(courier.finish(Instant::now() + Duration::from_secs(60)));
        let lost = receiver.lost.lock();
        assert_eq!(lost.len() as u64, QUEUE_MAX as u64 + 50 - state.dropped);
        assert_eq!(
            lost.iter().sum::<u64>(),
            state.dropped,
            "told once: {lost:?}"
        );
    }

    /// A way that panicked sent nothing any more: alarms waited until they were dropped.
    #[test]
    fn a_way_that_panics_costs_one_alarm() {
        let receiver = Arc::new(Receiver::default());
        receiver.is_released.store(true, Ordering::Release);
        receiver.panics.store(true, Ordering::Release);
        let courier = courier(&receiver, &[]);
        courier.put(alarm());
        courier.put(alarm());
        assert!(courier.finish(Instant::now() + Duration::from_secs(60)));
        let state = courier.state();
        assert_eq!((state.sent, state.failed, state.waiting), (1, 1, 0));
        assert_eq!(*receiver.lost.lock(), [1], "the lost one is reported");
    }

    #[test]
    fn what_fails_is_tried_again_and_then_given_up() {
        let receiver = Arc::new(Receiver::default());
        receiver.is_released.store(true, Ordering::Release);
        receiver.failures.store(5, Ordering::Release);
        let courier = courier(&receiver, &[Duration::ZERO; 2]);
        courier.put(alarm());
        courier.put(alarm());
        while courier.state().sent == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let state = courier.state();
        assert_eq!((state.sent, state.failed, state.waiting), (1, 1, 0));
        assert_eq!(*receiver.lost.lock(), [1]);
        let mut note = alarm();
        assert!(
            !courier.takes(&note),
            "a test is of no kind that pools give reason for"
        );
        (note.kind, note.severity) = (AlarmKind::Scan, AlarmSeverity::Note);
        assert!(!courier.takes(&note));
        note.severity = AlarmSeverity::Danger;
        assert!(courier.takes(&note));
    }
}
