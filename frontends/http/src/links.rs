//! Connections: the state of each, and which of them are too slow.
//!
//! No connection has a timer of its own. Each notes in a few atomics what it is doing, and one task
//! goes over all of them a few times a second and ends those that keep the server waiting:
//!
//! * a head of a request that is not complete some time after its first byte;
//! * no request, and no byte taken, for the idle time;
//! * a client that takes less than the least rate while an answer waits for it. Time in which the
//!   server itself waits, for the storage or a rate that it keeps, does not count.
//!
//! The same task has connections of HTTP/1 rest that have been idle for a moment: they give
//! their buffers back.
//!
//! Ending a connection drops its task, and with it the socket and the bodies of its answers.

use crate::addresses;
use crate::options::Limits;
use cenote_base::rt::process::Instant;
use cenote_base::rt::{Condvar, Mutex, ranks};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// How long a connection must have been idle to rest, in milliseconds.
const REST_AFTER: u64 = 250;

/// One connection. Times are milliseconds of the server's [`Clock`].
#[derive(Debug)]
pub(crate) struct Link {
    /// The client's address; `None` for a unix socket.
    pub peer: Option<IpAddr>,
    pub address: Option<addresses::Presence>,
    clock: Clock,
    is_h2: AtomicBool,
    /// Requests whose answers are not complete.
    busy: AtomicU32,
    /// Of these, those for which the server itself waits.
    own_waits: AtomicU32,
    /// When the first byte of a head came that is not complete; 0: there is none.
    head_since: AtomicU64,
    /// When something was last asked or taken.
    last: AtomicU64,
    /// Bytes that the client's socket took.
    sent: AtomicU64,
    /// Whether the protocol has nothing left that the client's socket has not taken.
    is_flushed: AtomicBool,
    /// No protocol has it, and no buffers are held for it.
    is_resting: AtomicBool,
    /// It has been idle for a while.
    rest: Notify,
}

/// Time since the server was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn nanoseconds(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Never 0, which means none.
    pub fn milliseconds(&self) -> u64 {
        self.nanoseconds() / 1_000_000 + 1
    }
}

impl Link {
    pub fn new(clock: Clock, peer: Option<IpAddr>, address: Option<addresses::Presence>) -> Self {
        Self {
            peer,
            address,
            clock,
            is_h2: AtomicBool::new(false),
            busy: AtomicU32::new(0),
            own_waits: AtomicU32::new(0),
            head_since: AtomicU64::new(0),
            last: AtomicU64::new(clock.milliseconds()),
            sent: AtomicU64::new(0),
            is_flushed: AtomicBool::new(true),
            is_resting: AtomicBool::new(true),
            rest: Notify::new(),
        }
    }

    pub fn set_h2(&self) {
        self.is_h2.store(true, Ordering::Relaxed);
    }

    /// Bytes came from the client.
    pub fn received(&self) {
        let is_head = self.busy.load(Ordering::Relaxed) == 0;
        if is_head && self.head_since.load(Ordering::Relaxed) == 0 {
            let now = self.clock.milliseconds();
            self.head_since.store(now, Ordering::Relaxed);
        }
    }

    /// The client's socket took bytes.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.last
            .store(self.clock.milliseconds(), Ordering::Relaxed);
    }

    /// A request is complete, and its answer is not.
    pub fn begin(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// An answer is complete, or given up.
    pub fn end(&self) {
        self.last
            .store(self.clock.milliseconds(), Ordering::Relaxed);
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// Answers that are not complete.
    pub fn busy(&self) -> u32 {
        self.busy.load(Ordering::Relaxed)
    }

    pub fn set_flushed(&self, is_flushed: bool) {
        self.is_flushed.store(is_flushed, Ordering::Relaxed);
    }

    pub fn set_resting(&self, is_resting: bool) {
        self.is_resting.store(is_resting, Ordering::Relaxed);
    }

    fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Relaxed)
    }

    /// Whether neither side owes the other one anything: all requests that began are answered.
    fn is_quiet(&self) -> bool {
        self.busy() == 0
            && self.head_since.load(Ordering::Relaxed) == 0
            && self.is_flushed.load(Ordering::Relaxed)
    }

    /// Whether it should rest now.
    fn is_tired(&self, now: u64) -> bool {
        !self.is_resting()
            && !self.is_h2.load(Ordering::Relaxed)
            && self.is_quiet()
            && self.last.load(Ordering::Relaxed) + REST_AFTER <= now
    }

    /// Waits until the connection may be taken from its protocol. For the task that serves it.
    pub async fn may_rest(&self) {
        loop {
            self.rest.notified().await;
            // A request may have come since it was found idle.
            if self.is_quiet() {
                return;
            }
        }
    }

    /// The server makes the client wait, until [`Self::end_wait`].
    pub fn begin_wait(&self) {
        self.own_waits.fetch_add(1, Ordering::Relaxed);
    }

    pub fn end_wait(&self) {
        self.own_waits.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Idle,
    Slow,
}

/// Where the measurement of a client's rate began.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since: u64,
    sent: u64,
}

impl Window {
    /// Judges a connection, a few times a second.
    fn judge(&mut self, link: &Link, limits: &Limits, now: u64) -> Option<Verdict> {
        let longer =
            |since: u64, limit: Duration| u128::from(now.saturating_sub(since)) > limit.as_millis();
        let sent = link.sent.load(Ordering::Relaxed);
        let busy = link.busy.load(Ordering::Relaxed);
        if busy == 0 {
            *self = Self::default();
            let head_since = link.head_since.load(Ordering::Relaxed);
            // On HTTP/2 other things come, too, between requests.
            let is_h1 = !link.is_h2.load(Ordering::Relaxed);
            if is_h1 && head_since != 0 && longer(head_since, limits.head_time) {
                return Some(Verdict::Slow);
            }
            let last = link.last.load(Ordering::Relaxed);
            return longer(last, limits.idle_time).then_some(Verdict::Idle);
        }
        if self.since == 0 || link.own_waits.load(Ordering::Relaxed) > 0 {
            *self = Self { since: now, sent };
            return None;
        }
        if !longer(self.since, limits.slow_time) {
            return None;
        }
        let took = u128::from(sent - self.sent) * 1000;
        let wanted = u128::from(limits.receive_rate_min) * u128::from(now - self.since);
        *self = Self { since: now, sent };
        (took < wanted).then_some(Verdict::Slow)
    }
}

struct Known {
    link: Arc<Link>,
    task: Option<AbortHandle>,
    window: Window,
}

struct Table {
    next: u64,
    known: HashMap<u64, Known>,
    /// Sockets that still listen.
    listeners: usize,
}

/// All connections, and how many sockets listen for more.
pub(crate) struct Links {
    table: Mutex<Table, ranks::HttpConnections>,
    /// A connection or a listener has ended.
    left: Condvar,
}

/// How many connections there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub connections: usize,
    pub busy: usize,
    pub resting: usize,
}

/// How many connections a look at them ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Swept {
    pub idle: u64,
    pub slow: u64,
}

/// Keeps a connection in the table until its task ends, however it does.
pub(crate) struct Presence(Arc<Links>, u64);

/// Counts a listener until it is dropped.
pub(crate) struct Listens(Arc<Links>);

impl Drop for Listens {
    fn drop(&mut self) {
        self.0.table.lock().listeners -= 1;
        self.0.left.notify_all();
    }
}

impl Links {
    pub fn new() -> Arc<Self> {
        let table = Table {
            next: 0,
            known: HashMap::new(),
            listeners: 0,
        };
        Arc::new(Self {
            table: Mutex::new(table),
            left: Condvar::new(),
        })
    }

    /// Adds a listener.
    pub fn listen(self: &Arc<Self>) -> Listens {
        self.table.lock().listeners += 1;
        Listens(Arc::clone(self))
    }

    /// Adds a connection, unless there are as many as there may be.
    pub fn enter(self: &Arc<Self>, link: &Arc<Link>, connections_max: usize) -> Option<Presence> {
        let mut table = self.table.lock();
        if table.known.len() >= connections_max {
            return None;
        }
        let id = table.next;
        table.next += 1;
        let known = Known {
            link: Arc::clone(link),
            task: None,
            window: Window::default(),
        };
        table.known.insert(id, known);
        Some(Presence(Arc::clone(self), id))
    }

    /// Says which task serves a connection that has entered; it may have ended already.
    pub fn set_task(&self, id: u64, task: AbortHandle) {
        if let Some(known) = self.table.lock().known.get_mut(&id) {
            known.task = Some(task);
        }
    }

    /// Ends the connections that keep the server waiting, and has idle ones rest.
    pub fn sweep(&self, limits: &Limits, now: u64) -> Swept {
        let mut swept = Swept::default();
        let (mut tasks, mut tired) = (Vec::new(), Vec::new());
        let mut table = self.table.lock();
        for known in table.known.values_mut() {
            let Some(verdict) = known.window.judge(&known.link, limits, now) else {
                if known.link.is_tired(now) {
                    tired.push(Arc::clone(&known.link));
                }
                continue;
            };
            // The next look finds a task that is not known yet.
            if let Some(task) = known.task.take() {
                tasks.push(task);
                match verdict {
                    Verdict::Idle => swept.idle += 1,
                    Verdict::Slow => swept.slow += 1,
                }
            }
        }
        drop(table);
        tasks.iter().for_each(AbortHandle::abort);
        tired.iter().for_each(|link| link.rest.notify_one());
        swept
    }

    /// Ends the connection that has been without a request for the longest time, at least
    /// `rest` milliseconds; whether there was one.
    pub fn end_idlest(&self, now: u64, rest: u64) -> bool {
        let mut table = self.table.lock();
        let last = |known: &Known| known.link.last.load(Ordering::Relaxed);
        let is_idle = |known: &&mut Known| {
            known.task.is_some() && known.link.busy() == 0 && last(known) + rest <= now
        };
        let idle = table.known.values_mut().filter(is_idle);
        let task = idle
            .min_by_key(|known| last(known))
            .and_then(|known| known.task.take());
        drop(table);
        task.inspect(AbortHandle::abort).is_some()
    }

    pub fn counts(&self) -> Counts {
        let table = self.table.lock();
        let count = |is_so: fn(&Link) -> bool| {
            let links = table.known.values().map(|known| &*known.link);
            links.filter(|link| is_so(link)).count()
        };
        Counts {
            busy: count(|link| link.busy() > 0),
            resting: count(Link::is_resting),
            connections: table.known.len(),
        }
    }

    /// Ends all connections now.
    pub fn end_all(&self) {
        let table = self.table.lock();
        let tasks = table.known.values().filter_map(|known| known.task.clone());
        let tasks: Vec<AbortHandle> = tasks.collect();
        drop(table);
        tasks.iter().for_each(AbortHandle::abort);
    }

    /// Waits until there are no connections, at most until the patience is over.
    pub fn wait_until_empty(&self, patience: Duration) -> bool {
        let (table, left) = (self.table.lock(), &self.left);
        let waited = left.wait_timeout_while(table, patience, |table| !table.known.is_empty());
        !waited.1
    }

    /// Waits until no socket listens, at most until the patience is over.
    pub fn wait_for_listeners(&self, patience: Duration) {
        let (table, left) = (self.table.lock(), &self.left);
        drop(left.wait_timeout_while(table, patience, |table| table.listeners > 0));
    }
}

impl Presence {
    pub fn id(&self) -> u64 {
        self.1
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let known = self.0.table.lock().known.remove(&self.1);
        drop(known);
        self.0.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        Link::new(Clock::start(), None, None)
    }

    fn limits() -> Limits {
        Limits {
            head_time: Duration::from_secs(2),
            idle_time: Duration::from_secs(10),
            slow_time: Duration::from_secs(5),
            receive_rate_min: 100,
            ..Limits::default()
        }
    }

    #[test]
    fn a_head_has_to_be_complete_in_time_however_often_a_byte_comes() {
        let (link, mut window) = (link(), Window::default());
        assert_eq!(window.judge(&link, &limits(), 9000), None);
        link.received();
        link.received();
        assert_eq!(window.judge(&link, &limits(), 1900), None);
        assert_eq!(window.judge(&link, &limits(), 2500), Some(Verdict::Slow));
        link.begin();
        assert_eq!(window.judge(&link, &limits(), 2600), None);
        link.end();
        assert_eq!(window.judge(&link, &limits(), 9000), None);
        assert_eq!(window.judge(&link, &limits(), 20000), Some(Verdict::Idle));
    }

    #[test]
    fn a_client_that_takes_too_little_is_slow_and_waits_of_the_server_do_not_count() {
        let (link, mut window) = (link(), Window::default());
        link.begin();
        assert_eq!(window.judge(&link, &limits(), 1000), None);
        link.sent(600);
        assert_eq!(window.judge(&link, &limits(), 6001), None, "600 of 500");
        link.begin_wait();
        assert_eq!(window.judge(&link, &limits(), 20000), None, "it waits");
        link.end_wait();
        assert_eq!(window.judge(&link, &limits(), 21000), None);
        link.sent(400);
        assert_eq!(
            window.judge(&link, &limits(), 25001),
            Some(Verdict::Slow),
            "400 of 500"
        );
    }

    #[test]
    fn only_a_connection_that_is_quiet_for_a_while_rests() {
        let link = link();
        link.set_resting(false);
        let later = 60_000;
        assert!(link.is_tired(later) && !link.is_tired(200));
        link.begin();
        assert!(!link.is_tired(later), "a request");
        link.end();
        link.set_flushed(false);
        assert!(!link.is_tired(later), "the end of an answer");
        link.set_flushed(true);
        assert!(link.is_tired(later));
        link.received();
        assert!(!link.is_tired(later), "half a head");
        link.begin();
        link.end();
        assert!(link.is_tired(later));
        link.set_resting(true);
        assert!(!link.is_tired(later), "it does");
    }

    #[test]
    fn connections_are_limited_and_leave_by_themselves() {
        let links = Links::new();
        let link = Arc::new(link());
        let first = links.enter(&link, 2).expect("room");
        let second = links.enter(&link, 2).expect("room");
        assert!(links.enter(&link, 2).is_none());
        assert_ne!(first.id(), second.id());
        drop(first);
        assert_eq!(links.counts().connections, 1);
        assert!(!links.wait_until_empty(Duration::from_millis(1)));
        drop(second);
        assert!(links.wait_until_empty(Duration::from_millis(1)));
    }
}
