//! The daemon's events: what happened to pools since it started.
//!
//! The last ones are kept (`zfs_zevent_len_max`). Followers wait on a condition variable that every
//! new event signals. The code that posts an event does not know its followers: this is how lower
//! layers report to upper ones.

use cenote_base::rt::{Condvar, Mutex, ranks};
use cenote_base::{Env, settings};
use cenote_control::model::Event;
use cenote_pool::Pool;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How often a follower checks whether its client is still connected.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// The events that are remembered.
#[derive(Debug)]
pub struct Events {
    env: Arc<dyn Env>,
    log: Mutex<Log, ranks::EventLog>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Log {
    /// Events with their number and pool, oldest first.
    kept: VecDeque<(u64, String, Event)>,
    /// The number of the next event.
    next: u64,
}

impl Events {
    /// None yet. Their times are those of `env`.
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self {
            env,
            log: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Notes that something happened to a pool.
    pub fn post(&self, class: &str, pool: &Pool) {
        let _ = self.post_with(class, pool, Vec::new());
    }

    /// The same, with more about it: names and values as `zpool events -v` prints them.
    /// Its number, and the event as it was noted.
    pub fn post_with(&self, class: &str, pool: &Pool, more: Vec<(String, String)>) -> (u64, Event) {
        let now = self.env.wall_clock();
        let name = pool.name().to_owned();
        let mut details = vec![
            ("version".to_owned(), "0x0".to_owned()),
            ("class".to_owned(), format!("\"{class}\"")),
            ("pool".to_owned(), format!("\"{name}\"")),
            ("pool_guid".to_owned(), format!("{:#x}", pool.guid().0)),
            ("pool_state".to_owned(), "0x0".to_owned()),
            ("pool_context".to_owned(), "0x0".to_owned()),
        ];
        details.extend(more);
        let mut event = Event {
            class: class.to_owned(),
            seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
            details,
        };
        if let Some(what) = class.strip_prefix("sysevent.fs.zfs.")
            && what != "history_event"
        {
            log::info!("pool '{name}': {what}");
        }
        let mut log = self.log.lock();
        let kept_max = usize::try_from(settings::ZEVENT_LEN_MAX.get()).unwrap_or(usize::MAX);
        while log.kept.len() >= kept_max.max(1) {
            log.kept.pop_front();
        }
        let number = log.next;
        log.next += 1;
        let printed = format!("{:#x}", number + 1);
        event.details.push(("eid".to_owned(), printed));
        log.kept.push_back((number, name, event.clone()));
        self.changed.notify_all();
        (number + 1, event)
    }

    /// Events from number `next` on, each with its number, which counts from 1, and its pool; and
    /// the number to continue from.
    pub fn numbered(&self, next: u64) -> (Vec<(u64, String, Event)>, u64) {
        let log = self.log.lock();
        let new = log.kept.iter().filter(|(number, ..)| *number >= next);
        let new = new.map(|(number, pool, event)| (number + 1, pool.clone(), event.clone()));
        (new.collect(), log.next)
    }

    /// Forgets them; how many there were.
    pub fn clear(&self) -> u64 {
        let mut log = self.log.lock();
        let events = log.kept.len() as u64;
        log.kept.clear();
        events
    }

    /// Events from number `from` on, and the number to continue from; with `wait`, waits a little
    /// for some.
    pub fn since(&self, from: u64, pool: Option<&str>, wait: bool) -> (Vec<Event>, u64) {
        let mut log = self.log.lock();
        if wait && log.next <= from {
            let waited = self.changed.wait_timeout(log, LOOK_INTERVAL);
            log = waited.0;
        }
        let wanted = log
            .kept
            .iter()
            .filter(|(number, of, _)| *number >= from && pool.is_none_or(|pool| pool == of));
        let events = wanted.map(|(_, _, event)| event.clone()).collect();
        (events, log.next)
    }
}
