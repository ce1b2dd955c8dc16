//! The queue of events, and the zedlets that run.
//!
//! One thread takes one event after the other and starts its zedlets, each in a thread of its own.
//! It waits while as many run as may. A caller that puts an event into the queue never waits: of
//! more than [`WAITING_MAX`] events the newest are dropped, counted and reported.

use crate::child::{self, End, Task};
use crate::directory::Directory;
use crate::plan::Plan;
use crate::tell::Tell;
use crate::variables::{number_of, variables};
use cenote_base::rt::{self, Condvar, Mutex, MutexGuard, ranks};
use cenote_control::model::Event;
use jiff::tz::TimeZone;
use log::Level;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Events that may wait: about 16 MiB.
const WAITING_MAX: usize = 16_384;

/// How long killed zedlets may take to end. A process that waits for a device does not.
const KILLED_WAIT: Duration = Duration::from_secs(5);

/// Runs zedlets for events.
pub struct Runner {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Rules,
    state: Mutex<State, ranks::Zedlets>,
    changed: Condvar,
}

/// What threads that run zedlets need of the plan.
struct Rules {
    variables: Vec<(OsString, OsString)>,
    jobs: usize,
    limit: Duration,
    zone: TimeZone,
    tell: Tell,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Event>,
    dropped: u64,
    running: usize,
    /// No more events come.
    ends: bool,
    /// Nothing more is started, and what runs is killed.
    is_over: bool,
    /// The dispatcher has ended.
    is_done: bool,
}

impl Runner {
    /// A runner by this plan, with an empty queue.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(plan: Plan) -> io::Result<Self> {
        let mut directory = Directory::new(plan.directory.clone(), plan.sharing);
        // Otherwise the first event takes the lock, or reports why not.
        let _ = directory.lock();
        Self::start_in(directory, plan)
    }

    /// The same, over a directory that may be locked.
    pub(crate) fn start_in(directory: Directory, plan: Plan) -> io::Result<Self> {
        assert!(plan.jobs > 0, "no zedlet would ever run");
        let all = plan.surroundings.all(&plan.directory);
        let all = all.into_iter().map(|(name, value)| (name.into(), value));
        let shared = Arc::new(Shared {
            plan: Rules {
                variables: all.collect(),
                jobs: plan.jobs,
                limit: plan.limit,
                zone: plan.zone,
                tell: plan.tell,
            },
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (own, handled) = (Arc::clone(&shared), plan.handled);
        rt::spawn("zedlets", move || {
            let _done = Done(&own);
            dispatch(&own, directory, handled);
        })?;
        Ok(Self { shared })
    }

    /// Queues an event.
    pub fn put(&self, event: Event) {
        let mut state = self.shared.lock();
        if state.waiting.len() < WAITING_MAX {
            state.waiting.push_back(event);
            self.shared.changed.notify_all();
            return;
        }
        state.dropped += 1;
        let dropped = state.dropped;
        drop(state);
        // A storm of events must not fill the log, too.
        if dropped.is_power_of_two() {
            let text = format!("zedlets: {dropped} events were dropped, {WAITING_MAX} are waiting");
            (self.shared.plan.tell)(Level::Warn, &text);
        }
    }

    /// Handles the events that wait, for at most this time. Then kills what runs, and returns the
    /// events that are still waiting.
    pub fn finish(&self, limit: Duration) -> Vec<Event> {
        let Shared { changed, .. } = &*self.shared;
        let mut state = self.shared.lock();
        state.ends = true;
        changed.notify_all();
        let is_busy = |state: &mut State| !state.is_done || state.running > 0;
        (state, _) = changed.wait_timeout_while(state, limit, is_busy);
        state.is_over = true;
        changed.notify_all();
        let (mut state, is_late) = changed.wait_timeout_while(state, KILLED_WAIT, is_busy);
        let left = state.waiting.drain(..).collect();
        drop(state);
        if is_late {
            let text = "zedlets: some do not end although they were killed";
            (self.shared.plan.tell)(Level::Warn, text);
        }
        left
    }
}

/// Reports the end of the dispatcher, however it ends.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.lock().is_done = true;
        self.0.changed.notify_all();
    }
}

/// The place of a zedlet that runs.
struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The next event; `None` at the end.
    fn next(&self) -> Option<Event> {
        let waits = |state: &mut State| state.waiting.is_empty() && !state.ends && !state.is_over;
        let mut state = self.changed.wait_while(self.lock(), waits);
        match state.is_over {
            true => None,
            false => state.waiting.pop_front(),
        }
    }

    /// Waits for a place; `None` if nothing more is to be started.
    fn place(shared: &Arc<Self>) -> Option<Place> {
        let waits = |state: &mut State| state.running >= shared.plan.jobs && !state.is_over;
        let mut state = shared.changed.wait_while(shared.lock(), waits);
        if state.is_over {
            return None;
        }
        state.running += 1;
        drop(state);
        Some(Place(Arc::clone(shared)))
    }

    /// The environment of a zedlet for this event.
    fn variables(&self, event: &Event, id: u64) -> Vec<(OsString, OsString)> {
        let of_event = variables(event, id, &self.plan.zone);
        let owned = |(name, value): (String, String)| (name.into(), value.into());
        let of_event = of_event.into_iter().map(owned);
        of_event
            .chain(self.plan.variables.iter().cloned())
            .collect()
    }

    /// Runs a zedlet, and reports how that ended.
    fn run(&self, task: &Task, class: &str) {
        let Rules { limit, tell, .. } = self.plan;
        let name = name_of(&task.program);
        let about = format!("zedlet {name}, event {} ({class})", task.event);
        let is_over = || self.lock().is_over;
        let (level, what) = match child::run(task, limit, &is_over, tell) {
            Ok(End::Ended(status)) if status.success() => (Level::Debug, "succeeded".to_owned()),
            // Many zedlets say so that they had nothing to do.
            Ok(End::Ended(status)) if status.code().is_some() => (Level::Info, status.to_string()),
            Ok(End::Ended(status)) => (Level::Warn, status.to_string()),
            Ok(End::Slow) => (Level::Warn, format!("killed after {} s", limit.as_secs())),
            Ok(End::Over) => (Level::Warn, "killed at the end of the daemon".to_owned()),
            Err(error) => (Level::Warn, format!("not run: {error}")),
        };
        tell(level, &format!("{about}: {what}"));
    }
}

fn name_of(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Starts the zedlets of one event after the other.
fn dispatch(shared: &Arc<Shared>, mut directory: Directory, handled: Box<dyn Fn(&Event) + Send>) {
    while let Some(event) = shared.next() {
        let programs = directory.zedlets(&event.class, shared.plan.tell);
        let is_started = |program: &&PathBuf| start(shared, program, &event);
        let started = programs.iter().take_while(is_started).count();
        if started == 0 && !programs.is_empty() {
            // The next runner handles it.
            shared.lock().waiting.push_front(event);
            return;
        }
        if started < programs.len() {
            let left = programs[started..].iter().map(|left| name_of(left));
            let (id, left) = (number_of(&event), left.collect::<Vec<String>>().join(", "));
            let text = format!("zedlets: not run for event {id}: {left}");
            (shared.plan.tell)(Level::Warn, &text);
        }
        handled(&event);
    }
}

/// Starts a zedlet; whether there was time for it.
fn start(shared: &Arc<Shared>, program: &Path, event: &Event) -> bool {
    let Some(place) = Shared::place(shared) else {
        return false;
    };
    let id = number_of(event);
    let task = Task {
        program: PathBuf::from(program),
        event: id,
        variables: shared.variables(event, id),
    };
    let class = event.class.clone();
    let started = rt::spawn("zedlet", move || place.0.run(&task, &class));
    if let Err(error) = started {
        let name = name_of(program);
        let text = format!("zedlet {name}, event {id}: no thread: {error}");
        (shared.plan.tell)(Level::Warn, &text);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Sharing;
    use crate::surroundings::Surroundings;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn new(zedlets: &[(&str, &str)]) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let out = directory.path().join("out");
            fs::create_dir(directory.path().join("zed.d")).expect("a directory");
            for (name, script) in zedlets {
                let place = directory.path().join("zed.d").join(name);
                let script = script.replace("OUT", &out.display().to_string());
                fs::write(&place, format!("#!/bin/sh\n{script}\n")).expect("a file");
                let mode = fs::Permissions::from_mode(0o700);
                fs::set_permissions(&place, mode).expect("its mode");
            }
            Self { directory }
        }

        fn plan(&self, jobs: usize) -> Plan {
            let place = self.directory.path().join("zed.d");
            let surroundings = Surroundings::new(Path::new("/run/s"), None);
            Plan {
                jobs,
                tell: |_, _| (),
                ..Plan::new(place, Sharing::Daemons, surroundings)
            }
        }

        fn lines(&self) -> Vec<String> {
            let text = fs::read_to_string(self.directory.path().join("out")).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        }
    }

    fn event(id: u64, class: &str) -> Event {
        Event {
            class: class.to_owned(),
            seconds: 1_700_000_000 + id,
            nanoseconds: 0,
            details: vec![("eid".to_owned(), format!("{id:#x}"))],
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn each_event_runs_its_zedlets_in_order_when_one_runs_at_a_time() {
        let world = World::new(&[
            ("all-a", "echo a $ZEVENT_EID $ZEVENT_SUBCLASS >>OUT"),
            (
                "scrub_start-b",
                "echo b $ZEVENT_EID $CENOTE_SOCKET ${HOME-none} >>OUT",
            ),
            (
                "all-c",
                "test $ZED_ZEDLET_DIR = ${0%/*} && echo c $ZEVENT_EID >>OUT",
            ),
        ]);
        let runner = Runner::start(world.plan(1)).expect("a runner");
        runner.put(event(1, "sysevent.fs.zfs.scrub_start"));
        runner.put(event(2, "ereport.fs.zfs.data"));
        assert!(runner.finish(LONG).is_empty());
        let expected = [
            "a 1 scrub_start",
            "c 1",
            "b 1 /run/s none",
            "a 2 data",
            "c 2",
        ];
        assert_eq!(world.lines(), expected);
    }

    #[test]
    fn what_is_not_handled_in_time_is_returned_and_nothing_stays_behind() {
        let world = World::new(&[("all-slow", "echo $ZEVENT_EID $$ >>OUT; sleep 600")]);
        let runner = Runner::start(world.plan(1)).expect("a runner");
        (1..=3).for_each(|id| runner.put(event(id, "sysevent.fs.zfs.scrub_start")));
        let start = rt::Instant::now();
        while world.lines().is_empty() {
            rt::sleep(Duration::from_millis(5));
            assert!(start.elapsed() < LONG, "nothing runs");
        }
        let left = runner.finish(Duration::from_millis(100));
        let left: Vec<u64> = left.iter().map(number_of).collect();
        assert_eq!(left, [2, 3]);
        let lines = world.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let id = lines[0].rsplit(' ').next().unwrap_or_default();
        assert!(!Path::new("/proc").join(id).exists(), "{id} is killed");
    }

    #[test]
    fn as_many_run_at_once_as_may() {
        // Each waits for the other.
        let script =
            "touch OUT-${0##*-}; while [ ! -e OUT-a ] || [ ! -e OUT-b ]; do sleep 0.01; done";
        let world = World::new(&[("all-a", script), ("all-b", script)]);
        let runner = Runner::start(world.plan(2)).expect("a runner");
        runner.put(event(1, "sysevent.fs.zfs.scrub_start"));
        let start = rt::Instant::now();
        assert!(runner.finish(LONG).is_empty());
        assert!(start.elapsed() < LONG, "they waited for each other");
    }

    /// The queue has a limit, and what is beyond it costs no memory.
    #[test]
    fn a_storm_of_events_is_cut() {
        let world = World::new(&[("all-slow", "sleep 600")]);
        let runner = Runner::start(world.plan(1)).expect("a runner");
        (0..WAITING_MAX as u64 + 500).for_each(|id| runner.put(event(id, "x")));
        assert!(
            runner.shared.lock().dropped >= 498,
            "two may have left the queue"
        );
        let left = runner.finish(Duration::ZERO);
        // The one that waited for its place is back.
        let kept = WAITING_MAX - 1..=WAITING_MAX + 1;
        assert!(kept.contains(&left.len()), "{}", left.len());
    }
}
