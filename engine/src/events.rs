//! The daemon's events: what happened to pools since it started.
//!
//! The last [`EVENTS_MAX`] are kept. Whoever follows waits on a condition that every new event
//! signals.

use cenote_base::Env;
use cenote_control::model::{ControlError, Event, Part, Response};
use cenote_control::protocol::Reply;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::Engine;
use super::registry::Imported;

const EVENTS_MAX: usize = 1000;

/// How often a follower looks whether whoever asked is still there.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// The events that are remembered.
#[derive(Debug)]
pub(super) struct Events {
    env: Arc<dyn Env>,
    log: Mutex<Log>,
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
    pub fn new(env: Arc<dyn Env>) -> Self {
        Self {
            env,
            log: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Notes that something happened to a pool.
    pub fn post(&self, class: &str, imported: &Imported) {
        let now = self.env.wall_clock();
        let pool = imported.name().to_owned();
        let details = vec![
            ("version".to_owned(), "0x0".to_owned()),
            ("class".to_owned(), format!("\"{class}\"")),
            ("pool".to_owned(), format!("\"{pool}\"")),
            (
                "pool_guid".to_owned(),
                format!("{:#x}", imported.pool.guid().0),
            ),
            ("pool_state".to_owned(), "0x0".to_owned()),
            ("pool_context".to_owned(), "0x0".to_owned()),
        ];
        let event = Event {
            class: class.to_owned(),
            seconds: now.as_secs(),
            nanoseconds: now.subsec_nanos(),
            details,
        };
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.kept.len() >= EVENTS_MAX {
            log.kept.pop_front();
        }
        let number = log.next;
        log.next += 1;
        log.kept.push_back((number, pool, event));
        self.changed.notify_all();
    }

    fn clear(&self) -> u64 {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let events = log.kept.len() as u64;
        log.kept.clear();
        events
    }

    /// Events from number `from` on, and the number to go on from; waits a little for some.
    fn since(&self, from: u64, pool: Option<&str>, wait: bool) -> (Vec<Event>, u64) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if wait && log.next <= from {
            let waited = self.changed.wait_timeout(log, LOOK_INTERVAL);
            log = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let wanted = log
            .kept
            .iter()
            .filter(|(number, of, _)| *number >= from && pool.is_none_or(|pool| pool == of));
        let events = wanted.map(|(_, _, event)| event.clone()).collect();
        (events, log.next)
    }
}

impl Engine {
    pub(super) fn events(
        &self,
        pool: Option<&str>,
        follow: bool,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        if let Some(pool) = pool {
            self.registry.pool(pool)?;
        }
        let mut from = 0;
        loop {
            let (events, next) = self.events.since(from, pool, follow && from > 0);
            from = next.max(1);
            if !events.is_empty() {
                reply.part(Part::Events(events))?;
            }
            if !follow || reply.cancelled() {
                return Ok(Response::Done);
            }
        }
    }

    pub(super) fn events_clear(&self) -> Response {
        let events = self.events.clear();
        Response::Cleared { events }
    }
}
