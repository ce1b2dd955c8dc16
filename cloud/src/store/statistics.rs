//! What requests there were, how large, how slow, and how they failed.

use cenote_base::metrics::Counter;
use cenote_base::rt::{Mutex, ranks};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is asked of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// Storing.
    Put,
    /// Fetching.
    Get,
    /// Asking for length and version.
    Head,
    /// Listing.
    List,
    /// Removing.
    Delete,
}

impl RequestKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Put, Self::Get, Self::Head, Self::List, Self::Delete];

    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Put => "put",
            Self::Get => "get",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// How often something was how large: slot `n` counts values below 2^n, and not below 2^(n-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The counts.
    pub slots: [u64; 32],
}

/// What there was of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that were sent, again and again if need be.
    pub requests: u64,
    /// Of those, the ones that may be tried again: time-outs, refused connections, busy servers.
    pub transient: u64,
    /// Of those, the ones that were refused for lack of a right.
    pub denied: u64,
    /// Of those, the ones that failed in another way.
    pub failed: u64,
    /// Bytes that were sent.
    pub sent: u64,
    /// Bytes that came.
    pub received: u64,
    /// Bytes of a request and its answer.
    pub size: Histogram,
    /// Milliseconds of a batch of requests.
    pub latency_ms: Histogram,
}

#[derive(Debug, Default)]
struct Counters {
    requests: Counter,
    transient: Counter,
    denied: Counter,
    failed: Counter,
    sent: Counter,
    received: Counter,
    size: [Counter; 32],
    latency_ms: [Counter; 32],
}

/// The state of the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreHealth {
    /// Since when nothing has come through, by the monotonic clock; `None` while it works.
    pub failing_since: Option<Duration>,
    /// What was said last.
    pub last_error: Option<String>,
    /// Whether that was a refusal.
    pub is_denied: bool,
    /// Whether it was a put that failed: a store that is full, or may not be written to, answers
    /// everything else.
    pub is_put: bool,
}

/// An object that a caller waits for, although other requests are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedObject {
    /// Its name.
    pub key: String,
    /// Since when, by the monotonic clock.
    pub since: Duration,
    /// What was said last.
    pub error: String,
}

/// Counts of all kinds.
#[derive(Debug, Default)]
pub struct Statistics {
    kinds: [Counters; 5],
    health: Mutex<StoreHealth, ranks::StoreHealth>,
    /// Objects whose requests failed and are tried again, with since when and the last error.
    awaited: Mutex<BTreeMap<String, (Duration, String)>, ranks::StoreAwaited>,
}

fn slot(value: u64) -> usize {
    ((u64::BITS - value.leading_zeros()) as usize).min(31)
}

/// How a request ended.
pub(super) enum Ending {
    Done,
    Transient,
    Denied,
    Failed,
}

impl Statistics {
    pub(super) fn count(&self, kind: RequestKind, ending: &Ending, sent: u64, received: u64) {
        let counters = &self.kinds[kind.index()];
        counters.requests.add(1);
        counters.sent.add(sent);
        counters.received.add(received);
        counters.size[slot(sent + received)].add(1);
        match ending {
            Ending::Done => {}
            Ending::Transient => counters.transient.add(1),
            Ending::Denied => counters.denied.add(1),
            Ending::Failed => counters.failed.add(1),
        }
    }

    pub(super) fn count_latency(&self, kind: RequestKind, took: Duration) {
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.kinds[kind.index()].latency_ms[slot(milliseconds)].add(1);
    }

    pub(super) fn note_success(&self, kind: RequestKind) {
        let mut health = self.health.lock();
        let says_all = kind == RequestKind::Put || !health.is_put;
        if health.failing_since.is_some() && says_all {
            *health = StoreHealth::default();
        }
    }

    pub(super) fn note_failure(
        &self,
        kind: RequestKind,
        now: Duration,
        error: String,
        is_denied: bool,
    ) {
        let mut health = self.health.lock();
        health.failing_since.get_or_insert(now);
        health.last_error = Some(error);
        health.is_denied = is_denied;
        health.is_put |= kind == RequestKind::Put;
    }

    /// A request that failed is tried again.
    pub(super) fn note_awaited(&self, key: &str, since: Duration, error: String) {
        let mut awaited = self.awaited.lock();
        let entry = awaited
            .entry(key.to_owned())
            .or_insert((since, String::new()));
        entry.0 = entry.0.min(since);
        entry.1 = error;
    }

    /// Notes that no caller waits for an object any more.
    pub(super) fn end_awaited(&self, key: &str) {
        let mut awaited = self.awaited.lock();
        awaited.remove(key);
    }

    /// The object that a caller has waited for longest.
    pub fn longest_awaited(&self) -> Option<AwaitedObject> {
        let awaited = self.awaited.lock();
        let longest = awaited.iter().min_by_key(|(_, (since, _))| *since);
        longest.map(|(key, (since, error))| AwaitedObject {
            key: key.clone(),
            since: *since,
            error: error.clone(),
        })
    }

    /// How the connection is.
    pub fn health(&self) -> StoreHealth {
        let health = self.health.lock();
        health.clone()
    }

    /// What there was of `kind` so far.
    pub fn of(&self, kind: RequestKind) -> RequestCounts {
        let counters = &self.kinds[kind.index()];
        let histogram = |counters: &[Counter; 32]| Histogram {
            slots: std::array::from_fn(|slot| counters[slot].get()),
        };
        RequestCounts {
            requests: counters.requests.get(),
            transient: counters.transient.get(),
            denied: counters.denied.get(),
            failed: counters.failed.get(),
            sent: counters.sent.get(),
            received: counters.received.get(),
            size: histogram(&counters.size),
            latency_ms: histogram(&counters.latency_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full store was said to answer, because what was read beside its puts was answered.
    /// One object that was never answered was waited for in silence.
    #[test]
    fn the_object_that_is_waited_for_longest_is_named() {
        let statistics = Statistics::default();
        let seconds = Duration::from_secs;
        assert_eq!(statistics.longest_awaited(), None);
        statistics.note_awaited("a", seconds(7), "busy".to_owned());
        statistics.note_awaited("b", seconds(5), "busy".to_owned());
        statistics.note_awaited("b", seconds(6), "503".to_owned());
        let found = statistics.longest_awaited().expect("b");
        let expected = ("b", seconds(5), "503");
        assert_eq!(
            (found.key.as_str(), found.since, found.error.as_str()),
            expected
        );
        statistics.end_awaited("b");
        assert_eq!(statistics.longest_awaited().expect("a").key, "a");
    }

    #[test]
    fn only_a_put_says_that_puts_work_again() {
        let statistics = Statistics::default();
        let fail = |kind| statistics.note_failure(kind, Duration::ZERO, "full".into(), false);
        fail(RequestKind::Get);
        statistics.note_success(RequestKind::Get);
        assert_eq!(statistics.health(), StoreHealth::default());
        fail(RequestKind::Put);
        statistics.note_success(RequestKind::Get);
        assert_eq!(statistics.health().last_error.as_deref(), Some("full"));
        statistics.note_success(RequestKind::Put);
        assert_eq!(statistics.health(), StoreHealth::default());
    }
}
