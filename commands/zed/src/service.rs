//! The zedlets of a daemon.
//!
//! The daemon is its own client: a thread follows the events as `zpool events -f` does. It begins
//! before any pool is imported and ends after all were exported, so it gets every event.

use crate::directory::Sharing;
use crate::kept;
use crate::plan::Plan;
use crate::runner::Runner;
use crate::surroundings::Surroundings;
use cenote_base::rt::{self, JoinHandle};
use cenote_control::model::{ControlError, Part, Request};
use cenote_control::protocol::{Peer, Reply, Service};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the daemon's end waits for zedlets.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The zedlets of a running daemon.
pub struct Zedlets {
    runner: Arc<Runner>,
    ends: Arc<AtomicBool>,
    follower: JoinHandle<()>,
    kept: Option<PathBuf>,
}

impl Zedlets {
    /// Begins to run the zedlets in `directory` for the events of `service`, which listens on
    /// `socket`. Events that the daemon could not handle before its end are kept in a file `kept`.
    ///
    /// # Errors
    /// There is no thread.
    pub fn begin(
        service: Arc<dyn Service>,
        directory: PathBuf,
        socket: &Path,
        kept: Option<PathBuf>,
    ) -> io::Result<Self> {
        let surroundings = Surroundings::new(socket, None);
        let plan = Plan::new(directory, Sharing::Daemons, surroundings);
        let runner = Arc::new(Runner::start(plan)?);
        if let Some(file) = &kept {
            match kept::take(file) {
                Ok(events) => events.into_iter().for_each(|event| runner.put(event)),
                Err(error) => log::warn!("zedlets: {}: {error}", file.display()),
            }
        }
        let ends = Arc::new(AtomicBool::new(false));
        let mut reply = Follower {
            runner: Arc::clone(&runner),
            ends: Arc::clone(&ends),
            has_seen_end: AtomicBool::new(false),
        };
        let follow = move || {
            let request = Request::Events {
                pool: None,
                follow: true,
            };
            if let Err(error) = service.handle(request, own_peer(), &mut reply) {
                log::warn!("zedlets: no more events: {error}");
            }
        };
        Ok(Self {
            follower: rt::spawn("zedlet-events", follow)?,
            runner,
            ends,
            kept,
        })
    }

    /// Gives zedlets for events until now a last chance, before the daemon ends.
    pub fn finish(self) {
        self.ends.store(true, Ordering::Release);
        let _ = self.follower.join();
        let left = self.runner.finish(LAST_WAIT);
        if left.is_empty() {
            return;
        }
        let count = left.len();
        let kept = self.kept.as_ref().map(|file| kept::keep(file, &left));
        match kept {
            Some(Ok(())) => log::warn!("zedlets: {count} events wait for the next daemon"),
            Some(Err(error)) => log::warn!("zedlets: {count} events are lost: {error}"),
            None => log::warn!("zedlets: {count} events are lost: there is no state directory"),
        }
    }
}

fn own_peer() -> Peer {
    Peer {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        pid: rustix::process::getpid().as_raw_nonzero().get(),
    }
}

/// Queues the events that it gets.
struct Follower {
    runner: Arc<Runner>,
    /// There are no more events.
    ends: Arc<AtomicBool>,
    /// `ends` was set when the last events were asked for.
    has_seen_end: AtomicBool,
}

impl Reply for Follower {
    fn part(&mut self, part: Part) -> Result<(), ControlError> {
        if let Part::Events(events) = part {
            events.into_iter().for_each(|event| self.runner.put(event));
        }
        Ok(())
    }

    /// Whether all events were received: those that came just before the end are asked for once
    /// more.
    fn cancelled(&self) -> bool {
        let ends = self.ends.load(Ordering::Acquire);
        ends && self.has_seen_end.swap(true, Ordering::AcqRel)
    }

    fn take_descriptor(&mut self, _: usize) -> Option<OwnedFd> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::{Event, Response};
    use cenote_control::protocol::Ending;
    use std::sync::Mutex;

    /// Sends events one by one, as the engine does.
    #[derive(Default)]
    struct Source {
        posted: Mutex<Vec<Event>>,
    }

    impl Source {
        fn post(&self, id: u64) {
            self.posted.lock().expect("the list").push(Event {
                class: "sysevent.fs.zfs.pool_export".to_owned(),
                seconds: id,
                nanoseconds: 0,
                details: vec![("eid".to_owned(), format!("{id:#x}"))],
            });
        }
    }

    impl Service for Source {
        fn handle(
            &self,
            _: Request,
            _: Peer,
            reply: &mut dyn Reply,
        ) -> Result<Response, ControlError> {
            loop {
                let posted = std::mem::take(&mut *self.posted.lock().expect("the list"));
                reply.part(Part::Events(posted))?;
                rt::sleep(Duration::from_millis(20));
                if reply.cancelled() {
                    return Ok(Response::Done);
                }
            }
        }

        fn idle(&self) -> bool {
            true
        }

        fn shutdown(&self, _: Ending) -> Result<(), ControlError> {
            Ok(())
        }
    }

    #[test]
    fn events_of_the_last_moment_are_handled_too() {
        let root = tempfile::tempdir().expect("a directory");
        let place = root.path().join("all-a");
        let out = root.path().join("out");
        let script = format!("#!/bin/sh\necho $ZEVENT_EID >>{}\n", out.display());
        std::fs::write(&place, script).expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(&place, mode).expect("its mode");
        let kept = root.path().join("s.zedlets");
        let source = Arc::new(Source::default());
        source.post(1);
        let before = std::mem::take(&mut *source.posted.lock().expect("the list"));
        kept::keep(&kept, &before).expect("kept by the daemon before");
        let (own, directory) = (source.clone(), root.path().to_owned());
        let zedlets = Zedlets::begin(own, directory, Path::new("/run/s"), Some(kept.clone()));
        let zedlets = zedlets.expect("it begins");
        source.post(2);
        rt::sleep(Duration::from_millis(100));
        source.post(3);
        zedlets.finish();
        let mut handled: Vec<String> = std::fs::read_to_string(&out)
            .expect("the file")
            .lines()
            .map(str::to_owned)
            .collect();
        handled.sort();
        assert_eq!(handled, ["1", "2", "3"]);
        assert!(!kept.exists());
    }
}
