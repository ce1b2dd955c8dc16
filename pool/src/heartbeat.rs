//! Heartbeats of pools that several systems can reach: the property `multihost` (format/1 1.6).
//!
//! While such a pool is open for writing, a job writes the last uberblock again and again,
//! with the time and a number, into the last slot of the ring in one label of one leaf. A system
//! that is about to import the pool watches for that as long as the writer could take, and leaves
//! the pool alone if it sees it. Hence a writer that could write no heartbeat for so long must
//! believe that another has the pool: it suspends the pool and writes nothing more.

use crate::import::candidate::PoolCandidate;
use crate::sync::Syncer;
use cenote_base::rt::job::{Control, Job, Next, after, guarded};
use cenote_base::rt::{Mutex, ranks};
use cenote_base::{Env, settings};
use cenote_device::Device;
use cenote_dsl::Stored;
use cenote_ondisk::pool_config::PoolState;
use cenote_ondisk::uberblock::Multihost;
use cenote_vdev::DeviceLabels;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The longest that is watched for a heartbeat, whatever the labels say.
const ACTIVITY_TEST_MAX: Duration = Duration::from_secs(300);
/// The shortest.
const ACTIVITY_TEST_MIN: Duration = Duration::from_secs(1);
/// The average of the times between heartbeats grows at once, and falls by this part.
const DELAY_DECAY: u64 = 128;

/// The time from one heartbeat of the pool to the next, on whichever leaf.
fn interval() -> Duration {
    Duration::from_millis(settings::MULTIHOST_INTERVAL.get())
}

/// How long a pool may be without a heartbeat; `None` for no limit.
fn patience() -> Option<Duration> {
    let intervals = settings::MULTIHOST_FAIL_INTERVALS.get();
    (intervals > 0).then(|| interval() * u32::try_from(intervals).unwrap_or(u32::MAX))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The job, if the property is on, and what the uberblocks say of it.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    is_on: AtomicBool,
    /// The pool was suspended for want of heartbeats.
    is_lost: AtomicBool,
    /// Decaying average of the nanoseconds between two.
    delay: AtomicU64,
    /// When the last uberblock was written, in nanoseconds of the monotonic clock.
    last: AtomicU64,
    job: Mutex<Job, ranks::Heartbeat>,
}

impl Heartbeat {
    /// Begins, and returns once the first is written or has failed.
    ///
    /// # Errors
    /// If no thread can be started: the pool is then not protected from other systems.
    pub fn start(&self, syncer: &Arc<Syncer>) -> std::io::Result<()> {
        let job = self.job.lock();
        if job.is_at_work() {
            return Ok(());
        }
        let now = nanoseconds(syncer.env.monotonic());
        self.last.store(now, Ordering::Relaxed);
        self.delay.store(nanoseconds(interval()), Ordering::Relaxed);
        self.is_on.store(true, Ordering::Release);
        let mut writer = Writer::default();
        writer.beat(syncer);
        let pool = Arc::downgrade(syncer);
        let work = after(interval(), move |_: &Control| writer.step(&pool));
        let started = job.start("multihost", guarded(work, syncer.guard("heartbeats")));
        started.inspect_err(|_| self.is_on.store(false, Ordering::Release))
    }

    /// Ends; no device is written to any more when this returns.
    pub fn stop(&self) {
        let job = self.job.lock();
        self.is_on.store(false, Ordering::Release);
        job.stop();
    }

    /// Whether the last slot of the rings is the heartbeat's.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Whether the pool was suspended for want of heartbeats.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// What an uberblock says: the `sequence`th of its second, or 0 for a group's own.
    pub fn stamp(&self, sequence: u16) -> Multihost {
        if !self.is_on() {
            return Multihost {
                delay_ns: 0,
                interval_ms: None,
                sequence: None,
                fail_intervals: None,
            };
        }
        let intervals = settings::MULTIHOST_FAIL_INTERVALS.get();
        Multihost {
            delay_ns: self.delay.load(Ordering::Relaxed),
            interval_ms: Some(settings::MULTIHOST_INTERVAL.get()),
            sequence: Some(sequence),
            fail_intervals: Some(u16::try_from(intervals).unwrap_or(u16::MAX)),
        }
    }

    /// Notes that an uberblock of any kind was written.
    pub fn note_written(&self, now: Duration) {
        let now = nanoseconds(now);
        let passed = now.saturating_sub(self.last.swap(now, Ordering::Relaxed));
        let delay = self.delay.load(Ordering::Relaxed);
        let next = match passed > delay {
            true => passed,
            false => delay - (delay - passed) / DELAY_DECAY,
        };
        self.delay.store(next.max(1), Ordering::Relaxed);
    }

    /// Why nothing may be written any more, if another system may have the pool by now.
    pub fn overdue(&self, now: Duration) -> Option<String> {
        let patience = patience().filter(|_| self.is_on())?;
        let last = Duration::from_nanos(self.last.load(Ordering::Relaxed));
        let passed = now.saturating_sub(last);
        if passed <= patience {
            return None;
        }
        self.is_lost.store(true, Ordering::Release);
        Some(format!(
            "no heartbeat could be written for {:.1} seconds: another system may have imported \
             the pool meanwhile",
            passed.as_secs_f64()
        ))
    }
}

impl Syncer {
    /// Begins heartbeats if the pool's property asks for them.
    pub fn begin_heartbeat(self: &Arc<Self>) -> std::io::Result<()> {
        const ON: Stored = Stored::Number(1);
        let properties = self.dsl.pool_properties().unwrap_or_default();
        match properties.get("multihost") == Some(&ON) {
            true => self.heartbeat.start(self),
            false => Ok(()),
        }
    }
}

/// Where the next heartbeat goes, and its number.
#[derive(Debug, Default)]
struct Writer {
    /// The second of the last one, and how many that second had.
    second: (u64, u16),
}

impl Writer {
    fn step(&mut self, syncer: &Weak<Syncer>) -> Next {
        let syncer = syncer.upgrade();
        let Some(syncer) = syncer.filter(|syncer| syncer.gate.suspended().is_none()) else {
            return Next::Done;
        };
        if let Some(cause) = syncer.heartbeat.overdue(syncer.env.monotonic()) {
            syncer.suspend(&cause);
            syncer.give_up();
            return Next::Done;
        }
        Next::After(self.beat(&syncer))
    }

    /// Writes one, and returns when the next is due.
    fn beat(&mut self, syncer: &Syncer) -> Duration {
        let mut uberblock = syncer.uberblock();
        uberblock.timestamp = syncer.env.wall_clock().as_secs();
        let count = match self.second.0 == uberblock.timestamp {
            true => self.second.1.saturating_add(1),
            false => 1,
        };
        self.second = (uberblock.timestamp, count);
        uberblock.multihost = Some(syncer.heartbeat.stamp(count));
        let mut pick = [0; 8];
        // Without randomness it is always the same leaf, which is as good while that works.
        let _ = syncer.env.fill_random(&mut pick);
        let pick = u64::from_le_bytes(pick);
        // After failures for too long, the time of the last success reveals them.
        let leaves = syncer.vdevs.shape().write_heartbeat(&uberblock, pick);
        if leaves.is_ok() {
            syncer.heartbeat.note_written(syncer.env.monotonic());
        }
        let leaves = u32::try_from(leaves.unwrap_or(1)).unwrap_or(u32::MAX);
        interval() / leaves.max(1)
    }
}

/// Whether another system, or another program of this one, shows by heartbeats that it has the
/// pool open for writing.
///
/// If the labels say that there are heartbeats, this watches for as long as one may take: twenty
/// seconds, by OpenZFS's defaults. An exported pool is not in use.
pub(crate) fn is_in_use(candidate: &PoolCandidate, env: &dyn Env) -> bool {
    let is_active = candidate.config.state == PoolState::Active;
    let best = candidate.uberblocks().into_iter().next();
    let promised = best.and_then(|best| best.multihost);
    let newest = || {
        let members = candidate.members.iter();
        let labels = members.map(|member| DeviceLabels::read(member.candidate.device.as_ref()));
        let ranks = labels.filter_map(|labels| Some(labels.best_uberblock(None)?.uberblock.rank()));
        ranks.max()
    };
    promised
        .filter(|multihost| is_active && multihost.delay_ns > 0)
        .is_some_and(|promised| is_beating(newest, &promised, env))
}

/// The same of the pool that a single device belongs to by its labels.
pub fn is_device_in_use(device: &dyn Device, env: &dyn Env) -> bool {
    let labels = DeviceLabels::read(device);
    let label = labels.newest_config();
    let config = label.and_then(|label| label.config.as_ref());
    let is_active = config.is_some_and(|config| config.state == PoolState::Active);
    let best = labels.best_uberblock(None).filter(|_| is_active);
    let promised = best.and_then(|best| best.uberblock.multihost);
    let newest = || {
        let labels = DeviceLabels::read(device);
        labels
            .best_uberblock(None)
            .map(|best| best.uberblock.rank())
    };
    promised
        .filter(|multihost| multihost.delay_ns > 0)
        .is_some_and(|promised| is_beating(newest, &promised, env))
}

/// Watches for heartbeats as promised: whether the rank of the newest uberblock changes.
fn is_beating<R: PartialEq>(newest: impl Fn() -> R, promised: &Multihost, env: &dyn Env) -> bool {
    let before = newest();
    let interval = Duration::from_millis(promised.interval_ms.unwrap_or(1000));
    let whole = watch_time(promised, interval);
    let begun = env.monotonic();
    while env.monotonic() - begun < whole {
        env.sleep(interval.clamp(Duration::from_millis(100), Duration::from_secs(1)));
        if newest() != before {
            return true;
        }
    }
    false
}

/// How long to watch, given what the last writer promised.
fn watch_time(promised: &Multihost, promised_interval: Duration) -> Duration {
    let whole = match promised.fail_intervals {
        // Without success for so long it suspends; twice that, for no clock or device is exact.
        Some(fail) if fail > 0 => promised_interval.saturating_mul(u32::from(fail) * 2),
        _ => {
            let delay = Duration::from_nanos(promised.delay_ns);
            let times = settings::MULTIHOST_IMPORT_INTERVALS.get();
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            let theirs = promised_interval.saturating_add(delay);
            theirs.max(interval()).saturating_mul(times)
        }
    };
    whole.clamp(ACTIVITY_TEST_MIN, ACTIVITY_TEST_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_grows_at_once_and_falls_slowly() {
        let heartbeat = Heartbeat::default();
        heartbeat.delay.store(1_000_000, Ordering::Relaxed);
        heartbeat.note_written(Duration::from_millis(5));
        assert_eq!(heartbeat.delay.load(Ordering::Relaxed), 5_000_000);
        heartbeat.note_written(Duration::from_millis(5));
        let fallen = heartbeat.delay.load(Ordering::Relaxed);
        assert_eq!(fallen, 5_000_000 - 5_000_000 / DELAY_DECAY);
    }

    #[test]
    fn the_watch_is_as_long_as_the_writer_may_take() {
        let promise = |delay_ns, interval_ms, fail| Multihost {
            delay_ns,
            interval_ms: Some(interval_ms),
            sequence: Some(0),
            fail_intervals: Some(fail),
        };
        let watch = |promise: &Multihost| {
            watch_time(
                promise,
                Duration::from_millis(promise.interval_ms.unwrap_or(0)),
            )
        };
        assert_eq!(watch(&promise(1, 1000, 10)), Duration::from_secs(20));
        assert_eq!(watch(&promise(1, 100, 1)), ACTIVITY_TEST_MIN);
        assert_eq!(
            watch(&promise(500_000_000, 2000, 0)),
            Duration::from_secs(50)
        );
        assert_eq!(watch(&promise(1, 100, 0)), Duration::from_secs(20));
        assert_eq!(
            watch(&promise(u64::MAX, 0xff_ffff, 0xffff)),
            ACTIVITY_TEST_MAX
        );
        settings::MULTIHOST_IMPORT_INTERVALS
            .set(30)
            .expect("in range");
        let [promised, unpromised] = [10, 0].map(|fail| watch(&promise(1, 1000, fail)));
        settings::MULTIHOST_IMPORT_INTERVALS.reset();
        assert_eq!(promised, Duration::from_secs(20));
        assert_eq!(unpromised, Duration::from_nanos(30_000_000_030));
    }

    #[test]
    fn without_intervals_to_fail_nobody_is_overdue() {
        let heartbeat = Heartbeat::default();
        heartbeat.is_on.store(true, Ordering::Relaxed);
        heartbeat.note_written(Duration::from_secs(100));
        let is_overdue = |seconds| heartbeat.overdue(Duration::from_secs(seconds)).is_some();
        assert_eq!([105, 111].map(is_overdue), [false, true]);
        let intervals = &settings::MULTIHOST_FAIL_INTERVALS;
        intervals.set(20).expect("in range");
        let patient = [111, 121].map(is_overdue);
        intervals.set(0).expect("in range");
        let endless = is_overdue(100_000);
        intervals.reset();
        assert_eq!((patient, endless), ([false, true], false));
    }
}
