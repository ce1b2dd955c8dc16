//! A way's own thread, with the alarms that wait for it.
//!
//! The queue has [`QUEUE_MAX`] places. What comes when it is full is dropped and counted, so that
//! whoever makes alarms never waits; the next alarm that gets through tells how many were lost.
//! An alarm that fails is tried again after each of the plan's times and then counts as failed.
//! While it waits, those behind it wait too: they would meet the same receiver.

use super::alarm::Alarm;
use super::trial::unused;
use super::way::{AlarmSendError, AlarmWayPlan};
use cenote_base::rt::{self, Condvar, Instant, Mutex, MutexGuard, ranks};
use cenote_control::model::AlarmWayState;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Alarms that wait for one way.
const QUEUE_MAX: usize = 100;

/// A way, its thread and its queue.
pub(super) struct Courier {
    pub plan: AlarmWayPlan,
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    retries: Vec<Duration>,
    state: Mutex<State, ranks::AlarmQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Alarm>,
    /// An alarm is on its way.
    is_sending: bool,
    /// No more alarms come, and none is tried again.
    ends: bool,
    sent: u64,
    failed: u64,
    dropped: u64,
    /// Of those that failed or were dropped, what nobody was told of yet.
    untold: u64,
    last_error: Option<String>,
}

impl Courier {
    pub fn start(plan: AlarmWayPlan, retries: &[Duration]) -> Self {
        let shared = Arc::new(Shared {
            name: plan.name.clone(),
            retries: retries.to_vec(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (way, own) = (Arc::clone(&plan.way), Arc::clone(&shared));
        let spawned = rt::spawn("alarms", move || {
            while let Some(mut alarm) = own.next() {
                let outcome = own.deliver(&mut |lost| {
                    alarm.lost = lost;
                    way.send(&alarm)
                });
                own.note(&outcome);
            }
        });
        if let Err(error) = spawned {
            log::warn!("alarms '{}': no thread: {error}", plan.name);
            shared.lock().last_error = Some(error.to_string());
        }
        Self { plan, shared }
    }

    /// Whether alarms like this one go this way.
    pub fn takes(&self, alarm: &Alarm) -> bool {
        self.plan.on.contains(&alarm.kind) && alarm.severity >= self.plan.least
    }

    /// Has an alarm sent, if there is a place for it.
    pub fn put(&self, alarm: Alarm) {
        let mut state = self.shared.lock();
        if state.queue.len() < QUEUE_MAX {
            state.queue.push_back(alarm);
            self.shared.changed.notify_all();
            return;
        }
        state.dropped += 1;
        state.untold += 1;
        // A storm is not to fill the log, too.
        if state.dropped.is_power_of_two() {
            let (name, dropped) = (&self.shared.name, state.dropped);
            log::warn!("alarms '{name}': {dropped} dropped, {QUEUE_MAX} are waiting");
        }
    }

    /// What became of its alarms.
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

    /// Ends the thread once its alarms were tried once more; those that it did not come to yet.
    pub fn end(&self) -> Vec<Alarm> {
        let mut state = self.shared.lock();
        state.ends = true;
        self.shared.changed.notify_all();
        state.queue.drain(..).collect()
    }

    /// Gives what waits a last chance until `end`; whether all of it was tried.
    pub fn finish(&self, end: Instant) -> bool {
        let mut state = self.shared.lock();
        state.ends = true;
        self.shared.changed.notify_all();
        loop {
            if state.queue.is_empty() && !state.is_sending {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The next alarm; none at the end.
    fn next(&self) -> Option<Alarm> {
        let mut state = self.lock();
        loop {
            if let Some(alarm) = state.queue.pop_front() {
                state.is_sending = true;
                return Some(alarm);
            }
            if state.ends {
                return None;
            }
            let waited = self.changed.wait(state);
            state = waited;
        }
    }

    /// Tries until it succeeds or the times are used up.
    fn deliver(
        &self,
        send: &mut dyn FnMut(u64) -> Result<(), AlarmSendError>,
    ) -> Result<(), AlarmSendError> {
        let mut times = self.retries.iter();
        loop {
            let untold = self.lock().untold;
            let error = match send(untold) {
                Ok(()) => {
                    let mut state = self.lock();
                    state.untold = state.untold.saturating_sub(untold);
                    return Ok(());
                }
                Err(error) => error,
            };
            let Some(time) = times.next() else {
                return Err(error);
            };
            let mut state = self.lock();
            let text = error.to_string();
            if state.last_error.as_ref() != Some(&text) {
                log::warn!("alarms '{}': {text}", self.name);
            }
            state.last_error = Some(text);
            let end = Instant::now() + *time;
            while !state.ends {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = self.changed.wait_timeout(state, left);
                state = waited.0;
            }
            if state.ends {
                return Err(error);
            }
        }
    }

    fn note(&self, outcome: &Result<(), AlarmSendError>) {
        let mut state = self.lock();
        state.is_sending = false;
        match outcome {
            Ok(()) => {
                state.sent += 1;
                state.last_error = None;
            }
            Err(error) => {
                log::warn!("alarms '{}': given up: {error}", self.name);
                state.failed += 1;
                state.untold += 1;
                state.last_error = Some(error.to_string());
            }
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::alarm::{AlarmKind, AlarmSeverity};
    use super::super::trial::test_alarm;
    use super::super::way::AlarmWay;
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// A receiver that hangs until it is released, and then fails so many times.
    #[derive(Default)]
    struct Receiver {
        is_released: AtomicBool,
        failures: AtomicU64,
        lost: Mutex<Vec<u64>, ranks::Unranked>,
    }

    impl AlarmWay for Receiver {
        fn send(&self, alarm: &Alarm) -> Result<(), AlarmSendError> {
            while !self.is_released.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(1));
            }
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
