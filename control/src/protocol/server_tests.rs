//! A real server on a real socket, with a service of canned answers.

use cenote_base::rt;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use super::*;
use crate::model::{DaemonStatus, Hold};
use crate::protocol::{CallError, Client};

struct Canned {
    idle: AtomicBool,
    busy: AtomicBool,
    cancelled: rt::SyncSender<()>,
}

impl Service for Canned {
    fn handle(
        &self,
        request: Request,
        peer: Peer,
        reply: &mut dyn Reply,
    ) -> Result<Response, ControlError> {
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        match request {
            Request::Holds { snapshot, .. } => {
                let holds = vec![Hold {
                    snapshot,
                    tag: "keep".to_owned(),
                    time: 1_700_000_000,
                }];
                Ok(Response::Holds { holds })
            }
            Request::History { .. } => {
                for _ in 0..3 {
                    reply.part(Part::History(Vec::new()))?;
                }
                Ok(Response::Done)
            }
            Request::Events { .. } => {
                while !reply.cancelled() {
                    std::thread::sleep(Duration::from_millis(5));
                    if reply.part(Part::Events(Vec::new())).is_err() {
                        break;
                    }
                }
                self.cancelled.send(()).expect("the test listens");
                Err(ControlError::Interrupted)
            }
            Request::DaemonStatus => {
                let descriptor = reply.take_descriptor(0).expect("one was sent");
                let size = rustix::fs::fstat(descriptor).expect("a stat").st_size;
                let status = DaemonStatus {
                    version: "test".to_owned(),
                    pid: 1,
                    auto: false,
                    uptime: 0,
                    pools: Vec::new(),
                    memory_limit: u64::try_from(size).expect("not negative"),
                    memory_used: 0,
                    record_failure: None,
                    cache_failures: Vec::new(),
                    missing: Vec::new(),
                };
                Ok(Response::Status { status })
            }
            _ => Err(ControlError::NoSuchPool {
                pool: "tank".to_owned(),
            }),
        }
    }

    fn look(&self, request: Request, reply: &mut dyn Reply) -> Result<Response, ControlError> {
        assert_eq!(request.access(), Access::Look);
        assert!(reply.take_descriptor(0).is_none());
        Ok(Response::Done)
    }

    fn idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    fn shutdown(&self, ending: Ending) -> Result<(), ControlError> {
        if self.busy.load(Ordering::Acquire) && !ending.force {
            let pool = "tank".to_owned();
            return Err(ControlError::PoolBusy { pool });
        }
        Ok(())
    }
}

fn stop(force: bool) -> Request {
    Request::DaemonStop {
        force,
        is_restart: false,
    }
}

struct World {
    directory: tempfile::TempDir,
    service: Arc<Canned>,
    cancelled: rt::Receiver<()>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl World {
    fn new(auto: bool) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (sender, cancelled) = rt::sync_channel(4);
        let service = Arc::new(Canned {
            idle: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            cancelled: sender,
        });
        let server = Server::bind(&directory.path().join("s")).expect("a server");
        let server = server.with_view().expect("a second socket");
        let stop = Arc::new(AtomicBool::new(false));
        let (handler, flag) = (Arc::clone(&service), Arc::clone(&stop));
        let options = ServeOptions {
            auto,
            connections_max: 2,
            viewers_max: 8,
        };
        let thread = std::thread::spawn(move || server.run(handler, options, flag));
        World {
            directory,
            service,
            cancelled,
            stop,
            thread: Some(thread),
        }
    }

    fn client(&self) -> Client {
        Client::connect(&self.directory.path().join("s")).expect("a connection")
    }

    fn join(&mut self) {
        let thread = self.thread.take().expect("joined once");
        thread.join().expect("no panic");
    }
}

fn no_parts(_: Part) -> ControlFlow<()> {
    panic!("no part is expected")
}

fn holds() -> Request {
    Request::Holds {
        snapshot: "tank@a".to_owned(),
        recursive: false,
    }
}

#[test]
fn answers_refusals_and_parts_arrive() {
    let mut world = World::new(false);
    let mut client = world.client();
    let answer = client.call(holds(), &[], &mut no_parts).expect("an answer");
    assert!(matches!(answer, Response::Holds { holds } if holds[0].snapshot == "tank@a"));

    let refused = client.call(Request::MountList, &[], &mut no_parts);
    assert!(matches!(
        refused,
        Err(CallError::Refused(ControlError::NoSuchPool { .. }))
    ));

    let mut parts = 0;
    let request = Request::History {
        pool: "tank".to_owned(),
    };
    let answer = client.call(request, &[], &mut |_| {
        parts += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(answer.expect("an answer"), Response::Done);
    assert_eq!(parts, 3);
    world.stop.store(true, Ordering::Release);
    world.join();
}

#[test]
fn descriptors_reach_the_service() {
    let mut world = World::new(false);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(4711).expect("a truncate");
    let mut client = world.client();
    let answer = client.call(Request::DaemonStatus, &[file.as_fd()], &mut no_parts);
    assert!(matches!(
        answer.expect("an answer"),
        Response::Status { status } if status.memory_limit == 4711
    ));
    world.stop.store(true, Ordering::Release);
    world.join();
}

#[test]
fn leaving_cancels_the_work() {
    let mut world = World::new(false);
    let mut client = world.client();
    let request = Request::Events {
        pool: None,
        follow: true,
    };
    let broken = client.call(request, &[], &mut |_| ControlFlow::Break(()));
    assert!(matches!(broken, Err(CallError::Interrupted)));
    drop(client);
    // Either `cancelled` sees it or the next part fails; both end the handler.
    let ended = world.cancelled.recv_timeout(Duration::from_secs(10));
    assert!(ended.is_ok(), "the handler did not notice");
    world.stop.store(true, Ordering::Release);
    world.join();
}

#[test]
fn a_stop_is_refused_while_busy_and_obeyed_by_force() {
    let mut world = World::new(false);
    world.service.busy.store(true, Ordering::Release);
    let mut client = world.client();
    let refused = client.call(stop(false), &[], &mut no_parts);
    assert!(matches!(refused, Err(CallError::Refused(_))));
    let done = client.call(stop(true), &[], &mut no_parts);
    assert_eq!(done.expect("an answer"), Response::Done);
    world.join();
    let gone = Client::connect(&world.directory.path().join("s"));
    assert!(matches!(gone, Err(CallError::NotRunning)));
}

#[test]
fn an_auto_started_daemon_leaves_after_its_last_pool() {
    let mut world = World::new(true);
    let mut client = world.client();
    client.call(holds(), &[], &mut no_parts).expect("an answer");
    std::thread::sleep(3 * LOOK_INTERVAL);
    world.service.idle.store(true, Ordering::Release);
    // The open connection keeps it: its next request may import a pool.
    client.call(holds(), &[], &mut no_parts).expect("an answer");
    drop(client);
    world.join();
}

/// They used to be turned away: of 300 commands at once some failed.
#[test]
fn more_connections_than_there_is_room_for_wait() {
    let mut world = World::new(false);
    let mut first = world.client();
    first.call(holds(), &[], &mut no_parts).expect("an answer");
    let clients: Vec<_> = (0..40)
        .map(|_| {
            let mut client = world.client();
            std::thread::spawn(move || client.call(holds(), &[], &mut no_parts))
        })
        .collect();
    for client in clients {
        let answer = client.join().expect("no panic");
        assert!(matches!(answer, Ok(Response::Holds { .. })), "{answer:?}");
    }
    first.call(holds(), &[], &mut no_parts).expect("an answer");
    world.stop.store(true, Ordering::Release);
    world.join();
}

/// Only what is classed as harmless reaches the service from the second socket, without the
/// descriptors that came along, and requests there are small.
#[test]
fn on_the_second_socket_one_may_only_look() {
    let mut world = World::new(false);
    let path = view_path(&world.directory.path().join("s"));
    let mode = path.metadata().expect("a socket").permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    let viewer = || Client::connect(&path).expect("a connection");
    let file = tempfile::tempfile().expect("a file");
    let seen = viewer().call(Request::MountList, &[file.as_fd()], &mut no_parts);
    assert_eq!(seen.expect("an answer"), Response::Done);
    for request in [
        stop(true),
        Request::EventsClear,
        holds(),
        Request::Noted {
            asked: Box::new(Request::MountList),
            command: String::new(),
        },
    ] {
        let refused = viewer().call(request, &[], &mut no_parts);
        let is_refused = matches!(
            refused,
            Err(CallError::Refused(ControlError::PermissionDenied))
        );
        assert!(is_refused, "{refused:?}");
    }
    let long = Request::SettingsList {
        names: vec!["x".repeat(REQUEST_SIZE_MAX)],
    };
    assert!(viewer().call(long, &[], &mut no_parts).is_err());
    world.stop.store(true, Ordering::Release);
    world.join();
    assert!(!path.exists());
}

#[test]
fn one_daemon_for_each_socket_and_stale_sockets_are_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s");
    // A socket without a lock holder: the leftover of a killed daemon.
    drop(UnixListener::bind(&path).expect("a socket"));
    assert!(path.exists());
    let server = Server::bind(&path).expect("replaces the stale socket");
    let second = Server::bind(&path);
    assert!(matches!(second, Err(ServeError::AlreadyRunning(_))));
    drop(server);
    assert!(!path.exists());
    Server::bind(&path).expect("free again");
}

/// A file in the socket's place used to be removed.
#[test]
fn what_is_no_socket_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("s");
    std::fs::write(&path, "precious").expect("a file");
    assert!(matches!(
        Server::bind(&path),
        Err(ServeError::Listen { .. })
    ));
    assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    let nowhere = directory.path().join("none/s");
    let error = Server::bind(&nowhere).expect_err("no directory");
    assert!(
        error.to_string().ends_with("another place for it"),
        "{error}"
    );
}
