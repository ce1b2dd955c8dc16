//! Retries imports of missing pools, and reports the state to the service manager.
//!
//! USB or network disks often appear seconds after `resume` has searched for them. So pools whose
//! devices were missing are retried. A retry happens two seconds after more of their device paths
//! have appeared. It also happens periodically for a day, because buckets and network disks have no
//! paths. Pools that failed for other reasons wait for the user, above all pools in use by another
//! host.
//!
//! The import runs `cenote daemon resume` in a separate process, so that keys, mounts and sites are
//! restored in the same way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cenote_base::rt;
use cenote_control::model::{MissingPool, Request, Response};
use cenote_control::protocol::Service;

use cenote_connect::NO_START;
use cenote_watch::dashboard::recorder::{Parts, own_peer};

/// How often to check for devices, in seconds.
const LOOK: u64 = 1;
/// How long to wait after a device has appeared, in seconds: other devices may follow.
const SETTLE: u64 = 2;
/// Seconds between retries; the last one repeats.
const WAITS: [u64; 7] = [5, 10, 20, 60, 120, 300, 600];
/// How long to retry without any new device, in seconds.
const PATIENCE: u64 = 86_400;
/// How often to check for a stop while a child process runs.
const POLL: Duration = Duration::from_millis(50);

/// When to retry one pool.
struct Plan {
    since: u64,
    /// The number of devices whose paths exist.
    there: usize,
    tries: usize,
    next: u64,
}

/// When to retry each pool.
#[derive(Default)]
struct Plans(BTreeMap<u64, Plan>);

impl Plans {
    /// The pools to retry at the second `now`.
    fn due(
        &mut self,
        missing: &[MissingPool],
        is_there: impl Fn(&str) -> bool,
        now: u64,
    ) -> Vec<u64> {
        let may_come = |guid: u64| {
            let mut missing = missing.iter();
            missing.any(|pool| pool.guid == guid && pool.may_come)
        };
        self.0.retain(|guid, _| may_come(*guid));
        let mut due = Vec::new();
        for pool in missing.iter().filter(|pool| pool.may_come) {
            let paths = pool.devices.iter().filter(|path| path.starts_with('/'));
            let there = paths.filter(|path| is_there(path)).count();
            let plan = self.0.entry(pool.guid).or_insert(Plan {
                since: now,
                there,
                tries: 0,
                next: now + WAITS[0],
            });
            if there > plan.there {
                plan.next = plan.next.min(now + SETTLE);
            }
            plan.there = there;
            if now < plan.next {
                continue;
            }
            due.push(pool.guid);
            plan.tries += 1;
            let wait = WAITS[plan.tries.min(WAITS.len() - 1)];
            plan.next = match now - plan.since < PATIENCE {
                true => now + wait,
                // Only if devices appear.
                false => u64::MAX,
            };
        }
        due
    }
}

/// Retries in the background until it is dropped.
pub struct Retry {
    stop: Arc<AtomicBool>,
    thread: Option<rt::JoinHandle<()>>,
}

impl Retry {
    /// Retries for the daemon with this service and socket. `said` gets one line about the state
    /// whenever that changes.
    pub fn begin(
        service: Arc<dyn Service>,
        socket: PathBuf,
        said: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&stop);
        let work = move || run(service.as_ref(), &socket, &said, &own);
        let thread = rt::spawn("retry", work);
        if let Err(error) = &thread {
            log::warn!("pools that are missing are not tried again: {error}");
        }
        Self {
            stop,
            thread: thread.ok(),
        }
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing.
            let _ = thread.join();
        }
    }
}

fn run(service: &dyn Service, socket: &Path, said: &impl Fn(&str), stop: &AtomicBool) {
    let (mut plans, mut state, mut seconds) = (Plans::default(), None, 0);
    while !stop.load(Ordering::Acquire) {
        let missing = missing(service);
        let now = state_of(socket, &missing);
        if state.as_ref() != Some(&now) {
            said(&now);
            if missing.is_empty() && state.is_some() {
                clear_failed_unit();
            }
            state = Some(now);
        }
        let due = plans.due(&missing, |path| Path::new(path).exists(), seconds);
        if !due.is_empty() {
            resume(socket, &due, stop);
        }
        for _ in 0..Duration::from_secs(LOOK).as_millis() / POLL.as_millis() {
            if stop.load(Ordering::Acquire) {
                return;
            }
            rt::sleep(POLL);
        }
        seconds += LOOK;
    }
}

fn missing(service: &dyn Service) -> Vec<MissingPool> {
    let mut parts = |_| {};
    match service.handle(Request::DaemonStatus, own_peer(), &mut Parts(&mut parts)) {
        Ok(Response::Status { status }) => status.missing,
        _ => Vec::new(),
    }
}

/// One line for `systemctl status`.
fn state_of(socket: &Path, missing: &[MissingPool]) -> String {
    if missing.is_empty() {
        return format!("listening on {}", socket.display());
    }
    let each = missing.iter().map(|pool| match pool.reason.is_empty() {
        true => format!("{} (not imported yet)", pool.name),
        false => format!("{} ({})", pool.name, pool.reason),
    });
    let each: Vec<String> = each.collect();
    let text = format!("pools are MISSING: {}", each.join("; "));
    text.replace('\n', " ")
}

/// Restarts the unit that failed because pools were missing, now that none is.
fn clear_failed_unit() {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let scope = match rustix::process::geteuid().is_root() {
        true => "--system",
        false => "--user",
    };
    let mut command = Command::new("systemctl");
    command.args([scope, "--no-block", "start", "cenote-pools.service"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    // If the unit is not installed, there is nothing to clear.
    let _ = command.stderr(Stdio::null()).status();
}

/// Runs `cenote daemon resume` for these pools, until it ends or `stop` is set.
fn resume(socket: &Path, guids: &[u64], stop: &AtomicBool) {
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut command = Command::new(program);
    command.args(["daemon", "resume"]);
    command.args(guids.iter().map(u64::to_string));
    command.env("CENOTE_SOCKET", socket).env(NO_START, "1");
    command.env_remove("NOTIFY_SOCKET");
    // Failures are in the log already.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = match command.stderr(Stdio::null()).spawn() {
        Ok(child) => child,
        Err(error) => {
            log::warn!("missing pools are not tried again: cenote: {error}");
            return;
        }
    };
    while !stop.load(Ordering::Acquire) {
        match child.try_wait() {
            Ok(None) => rt::sleep(POLL),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(may_come: bool) -> MissingPool {
        MissingPool {
            name: "tank".to_owned(),
            guid: 7,
            devices: vec!["/a".to_owned(), "/b".to_owned(), "nbd://c".to_owned()],
            tried: Some(1),
            reason: "its devices are not there".to_owned(),
            may_come,
            is_lost: false,
        }
    }

    /// Previously, a disk that appeared a second too late remained unused.
    #[test]
    fn a_pool_is_tried_when_its_devices_appear_and_now_and_then() {
        let mut plans = Plans::default();
        let mut tried = Vec::new();
        // A device appears after 1,000 seconds.
        for now in 0..2 * PATIENCE {
            let is_there = |path: &str| path == "/a" && now >= 1000;
            if !plans.due(&[pool(true)], is_there, now).is_empty() {
                tried.push(now);
            }
        }
        assert_eq!(tried[..5], [5, 15, 35, 95, 215]);
        assert!(tried.contains(&1002), "{tried:?}");
        let last = *tried.last().expect("some");
        assert!(last < PATIENCE + 1200 && tried.len() < 200, "{tried:?}");
        // Not even much later.
        assert_eq!(plans.due(&[pool(true)], |_| true, 2 * PATIENCE).len(), 0);
        let later = 2 * PATIENCE + SETTLE;
        assert_eq!(plans.due(&[pool(true)], |_| true, later), [7]);
        assert!(plans.due(&[], |_| true, later + 9).is_empty() && plans.0.is_empty());
    }

    #[test]
    fn a_pool_that_another_host_has_is_left_alone() {
        let mut plans = Plans::default();
        for now in 0..PATIENCE {
            assert!(plans.due(&[pool(false)], |_| now % 2 == 0, now).is_empty());
        }
    }
}
