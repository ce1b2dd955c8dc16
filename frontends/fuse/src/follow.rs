//! Working on the processor where the caller runs.
//!
//! A caller that makes one small request after another sleeps while each is served. If the worker
//! runs on another processor, that one has to be woken for each request, and the caller's for
//! each answer; on a virtual machine this takes ten times as long as the request itself. On the
//! caller's own processor it is no more than a change of threads. The kernel's scheduler does not
//! see this: it leaves both where they are, in the belief that two processors are better than one.
//!
//! So while there is a single active caller, all workers bind themselves to its processor, which is
//! looked up from time to time. As soon as requests overlap, or move much data, the binding ends:
//! then several processors are useful. Workers change their own binding before they wait for the
//! next request; other threads are not touched. Processors that the program was not allowed to use
//! at the start are never used. A new thread inherits the binding of its creator: file systems must
//! not start long-lived threads from within a request.

use crate::protocol::opcode;
use crate::protocol::request::{HEADER_SIZE, RequestHeader};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Bytes of a request or answer from which on copying takes longer than waking.
const LARGE: usize = 64 << 10;
/// Requests of one caller in a row before it is followed.
const STREAK_MIN: u32 = 16;
/// Requests between two checks of the caller's processor; a look costs as much as one or two.
const LOOK_PERIOD: u32 = 64;
/// No processor.
const NOWHERE: usize = usize::MAX;

/// A session's view of its callers. Races between workers only cost a moment's speed.
#[derive(Debug)]
pub(crate) struct Callers {
    /// The thread of the last request.
    caller: AtomicU32,
    /// Its requests in a row, none of which met another.
    streak: AtomicU32,
    /// Requests under way that a caller waits for.
    under_way: AtomicUsize,
    /// The processor to work on.
    home: AtomicUsize,
    /// The processors of the thread that created the session, which workers may use; `None` if they
    /// are unknown.
    allowed: Option<CpuSet>,
}

impl Default for Callers {
    fn default() -> Self {
        Self {
            caller: AtomicU32::new(0),
            streak: AtomicU32::new(0),
            under_way: AtomicUsize::new(0),
            home: AtomicUsize::new(NOWHERE),
            allowed: sched_getaffinity(None).ok(),
        }
    }
}

/// A request that a caller waits for, until it is dropped.
pub(crate) struct UnderWay<'a>(&'a Callers);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes that an answer may have, if the request says so.
fn answer_size(header: &RequestHeader, arguments: &[u8]) -> usize {
    match header.opcode {
        // fh, offset, size
        opcode::READ => arguments.get(16..20).map_or(0, |size| {
            u32::from_le_bytes([size[0], size[1], size[2], size[3]]) as usize
        }),
        _ => 0,
    }
}

impl Callers {
    /// Number of processors that workers may use; 1 if that is not known.
    pub fn processors(&self) -> usize {
        self.allowed
            .as_ref()
            .map_or(1, |allowed| allowed.count() as usize)
    }

    /// Whether this thread runs where the caller is followed to.
    pub fn are_here(&self) -> bool {
        rustix::thread::sched_getcpu() == self.home.load(Ordering::Relaxed)
    }

    /// Whether the requests of late came one by one, from one caller.
    pub fn is_single(&self) -> bool {
        self.streak.load(Ordering::Relaxed) > 1
    }

    /// Takes note of a request of `length` bytes, of which this is the front at least; `None` if no
    /// caller waits for it.
    pub fn enter(&self, front: &[u8], length: usize) -> Option<UnderWay<'_>> {
        let (header, arguments) = RequestHeader::decode_front(front, length).ok()?;
        let is_awaited = !matches!(
            header.opcode,
            opcode::RELEASE
                | opcode::RELEASEDIR
                | opcode::FORGET
                | opcode::BATCH_FORGET
                | opcode::INTERRUPT
        );
        if header.pid == 0 || !is_awaited {
            return None;
        }
        let others = self.under_way.fetch_add(1, Ordering::Relaxed);
        let bytes = (length - HEADER_SIZE).max(answer_size(&header, arguments));
        if others > 0 || bytes >= LARGE {
            self.streak.store(0, Ordering::Relaxed);
            self.home.store(NOWHERE, Ordering::Relaxed);
            return Some(UnderWay(self));
        }
        if self.caller.swap(header.pid, Ordering::Relaxed) != header.pid {
            self.streak.store(0, Ordering::Relaxed);
        }
        let streak = self.streak.fetch_add(1, Ordering::Relaxed);
        if streak >= STREAK_MIN && streak % LOOK_PERIOD == STREAK_MIN {
            let home = processor_of(header.pid).unwrap_or(NOWHERE);
            self.home.store(home, Ordering::Relaxed);
        }
        Some(UnderWay(self))
    }
}

/// The processor that a thread ran on last.
fn processor_of(thread: u32) -> Option<usize> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    processor_in(&stat)
}

/// The field `processor` of `/proc/PID/stat`, the 39th. The second is a name in brackets, in
/// which anything may stand.
fn processor_in(stat: &str) -> Option<usize> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(36)?.parse().ok()
}

/// The processors that the program may use now; an administrator may have changed them. The main
/// thread shows them, as it is never bound.
fn allowed_now() -> Option<CpuSet> {
    let main = Pid::from_raw(std::process::id().cast_signed());
    sched_getaffinity(main).ok()
}

/// A thread that stays off the processor where the caller is followed to, until this is dropped.
/// The scheduler does not ensure that: for it, a thread that spins is like any other.
pub(crate) struct Apart<'a> {
    callers: &'a Callers,
    /// The processor stayed away from.
    home: usize,
    /// Where the thread was allowed to run before.
    before: Option<CpuSet>,
}

impl<'a> Apart<'a> {
    /// The thread may be anywhere at first.
    pub fn new(callers: &'a Callers) -> Self {
        Self {
            callers,
            home: NOWHERE,
            before: None,
        }
    }

    /// Leaves the caller's processor if it is another one than before.
    pub fn keep(&mut self) {
        let home = self.callers.home.load(Ordering::Relaxed);
        if home == self.home || home >= CpuSet::MAX_CPU {
            return;
        }
        self.home = home;
        let Some(mut others) = allowed_now() else {
            return;
        };
        others.unset(home);
        if others.count() == 0 {
            return;
        }
        if self.before.is_none() {
            self.before = sched_getaffinity(None).ok();
        }
        // If this fails, the thread notices later that it is in the way.
        if self.before.is_some() {
            let _ = sched_setaffinity(None, &others);
        }
    }
}

impl Drop for Apart<'_> {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// Where one worker runs.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    /// The processor it is bound to; `None` if that is not known yet, since it was started by a
    /// worker that may have been bound.
    bound: Option<usize>,
    /// The system does not let it.
    is_refused: bool,
}

impl Binding {
    /// Goes where the caller is; anywhere if `is_apart`, for a worker that does not sleep.
    pub fn follow(&mut self, callers: &Callers, is_apart: bool) {
        let home = match is_apart {
            true => NOWHERE,
            false => callers.home.load(Ordering::Relaxed),
        };
        if self.bound == Some(home) || self.is_refused {
            return;
        }
        let Some(allowed) = &callers.allowed else {
            return;
        };
        let is_possible = home < CpuSet::MAX_CPU && allowed.is_set(home);
        let done = if is_possible {
            let mut only = CpuSet::new();
            only.set(home);
            sched_setaffinity(None, &only)
        } else {
            sched_setaffinity(None, &allowed_now().unwrap_or(*allowed))
        };
        self.is_refused = done.is_err();
        self.bound = Some(home);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: u32, pid: u32, arguments: &[u8]) -> Vec<u8> {
        let length = (HEADER_SIZE + arguments.len()) as u32;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(operation.to_le_bytes());
        bytes.extend([0; 24]);
        bytes.extend(pid.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(arguments);
        bytes
    }

    #[test]
    fn the_processor_is_found_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("17 (a ) 1 (b) R {}", fields[1..].join(" "));
        assert_eq!(processor_in(&stat), Some(39));
        assert_eq!(processor_in("17 (cut"), None);
        assert!(processor_of(std::process::id()).is_some());
    }

    #[test]
    fn a_single_caller_is_followed_until_requests_meet() {
        let callers = Callers::default();
        let lookup = request(opcode::LOOKUP, std::process::id(), b"name\0");
        let home = || callers.home.load(Ordering::Relaxed);
        for _ in 0..STREAK_MIN {
            drop(callers.enter(&lookup, lookup.len()));
        }
        assert_eq!(home(), NOWHERE, "too early");
        drop(callers.enter(&lookup, lookup.len()));
        assert_ne!(home(), NOWHERE);
        let one = callers.enter(&lookup, lookup.len());
        assert_ne!(home(), NOWHERE);
        let two = callers.enter(&lookup, lookup.len());
        assert_eq!(home(), NOWHERE, "two at once");
        drop((one, two));
        assert_eq!(callers.under_way.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_moves_much_data_is_not_followed() {
        let callers = Callers::default();
        let pid = std::process::id();
        let lookup = request(opcode::LOOKUP, pid, b"name\0");
        let mut read = [0; 40];
        read[16..20].copy_from_slice(&(1_u32 << 20).to_le_bytes());
        for large in [
            request(opcode::READ, pid, &read),
            request(opcode::WRITE, pid, &vec![0; LARGE]),
        ] {
            for _ in 0..=STREAK_MIN {
                drop(callers.enter(&lookup, lookup.len()));
            }
            assert_ne!(callers.home.load(Ordering::Relaxed), NOWHERE);
            drop(callers.enter(&large, large.len()));
            assert_eq!(callers.home.load(Ordering::Relaxed), NOWHERE);
        }
    }

    #[test]
    fn what_nobody_waits_for_does_not_count() {
        let callers = Callers::default();
        let is_noted = |request: &[u8]| callers.enter(request, request.len()).is_some();
        assert!(!is_noted(&request(opcode::RELEASE, 1, &[])));
        assert!(!is_noted(&request(opcode::LOOKUP, 0, b"x\0")));
        assert!(!is_noted(b"short"));
    }

    #[test]
    fn a_guard_leaves_the_caller_s_processor() {
        let allowed = sched_getaffinity(None).expect("Linux says so");
        if allowed.count() < 2 {
            return;
        }
        let callers = Callers::default();
        let mut apart = Apart::new(&callers);
        apart.keep();
        let now = || sched_getaffinity(None).expect("Linux says so");
        assert_eq!(now().count(), allowed.count(), "no caller is followed");
        for home in (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)) {
            callers.home.store(home, Ordering::Relaxed);
            apart.keep();
            assert!(!now().is_set(home) && now().count() + 1 == allowed.count());
        }
        drop(apart);
        assert_eq!(now().count(), allowed.count());
    }

    #[test]
    fn a_worker_is_bound_and_let_go() {
        let allowed = sched_getaffinity(None).expect("Linux says so");
        let count = allowed.count();
        let callers = Callers::default();
        let mut binding = Binding::default();
        let home = processor_of(std::process::id()).expect("it runs");
        callers.home.store(home, Ordering::Relaxed);
        binding.follow(&callers, false);
        let bound = sched_getaffinity(None).expect("Linux says so");
        assert!(bound.count() == 1 && bound.is_set(home));
        callers.home.store(NOWHERE, Ordering::Relaxed);
        binding.follow(&callers, false);
        let free = sched_getaffinity(None).expect("Linux says so");
        assert_eq!(free.count(), count);
        callers.home.store(home, Ordering::Relaxed);
        binding.follow(&callers, false);
        callers.home.store(NOWHERE, Ordering::Relaxed);
        std::thread::scope(|scope| {
            // Started by a bound worker.
            scope.spawn(|| {
                Binding::default().follow(&callers, false);
                let free = sched_getaffinity(None).expect("Linux says so");
                assert_eq!(free.count(), count);
            });
        });
    }
}
