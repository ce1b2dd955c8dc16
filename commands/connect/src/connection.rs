//! The connection to the daemon: connect to it, and start one if needed.
//!
//! Importing or creating a pool starts a daemon, and so does taking labels off a device, which only
//! a daemon does. All other requests concern imported pools.
//! Without a daemon there are none, and commands can say so themselves. If a daemon died, commands
//! that only read report that. Commands that work on pools first run `cenote daemon resume`, which
//! imports and mounts its pools again, and report it.
//!
//! Users without access to the daemon's socket, or without a daemon of their own, connect to the
//! second, read-only socket.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote_control::model::{
    Change, ControlError, DaemonStatus, HttpAct, HttpRefusal, InjectAct, InjectRefusal, Injection,
    MissingPool, NbdAct, NbdRefusal, OpenedPool, Part, Request, Response, UblkAct, UblkStatus,
};
use cenote_control::protocol::{
    CallError, Client, FrameError, Interrupt, MACHINE_SOCKET, socket_of_process, view_path,
};

use crate::{death, missing, service_unit};
use cenote_words::context::Daemon;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Variables that name the daemon's files, possibly relative to our directory.
const FILE_VARIABLES: [&str; 6] = [
    "CENOTE_STATE",
    "CENOTE_SETTINGS",
    "CENOTE_ALARMS",
    "CENOTE_ZEDLETS",
    "CENOTE_NBD_TLS",
    "CENOTE_DASHBOARD_TOKEN_FILE",
];

/// Prevents a command from starting a daemon, because a daemon started the command.
pub const NO_START: &str = "CENOTE_NO_START";

/// How long a daemon may take to listen.
const START_WAIT: Duration = Duration::from_secs(10);

/// How long a daemon that another command started may take to listen, once ours has exited.
const RIVAL_WAIT: Duration = Duration::from_millis(500);

/// How long a daemon that listens may take to detach from the terminal.
const NOTES_WAIT: Duration = Duration::from_secs(2);

/// How long an exiting daemon may still accept connections that it does not serve.
const LEAVE_WAIT: Duration = Duration::from_secs(10);

/// How the daemon opened a pool, by name or guid; `None` if it has not, or is not running.
///
/// If the daemon does not answer. The pool may be imported then, so the caller must not open
/// another pool with its name instead.
pub fn opened(pool: &str) -> Result<Option<OpenedPool>, CallError> {
    let pool = pool.to_owned();
    let request = Request::PoolOpened { pool };
    match Connection::new(false).call(request, &mut |_| Interrupt::Continue(())) {
        Ok(Response::Opened { opened }) => Ok(Some(*opened)),
        Ok(_) => Err(CallError::Mismatch),
        Err(CallError::NotRunning | CallError::Refused(ControlError::NoSuchPool { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Block devices of this machine that a dead daemon left behind, for when no daemon runs.
#[derive(Clone, Copy)]
pub struct LeftDisks {
    /// Lists them.
    pub status: fn() -> UblkStatus,
    /// Removes the named ones, or reports why not; with `true` even if they are in use.
    pub stop: fn(&[String], bool) -> Result<Response, ControlError>,
}

/// A connection that is made at the first request.
pub struct Connection {
    path: PathBuf,
    client: Option<Client>,
    disks: Option<LeftDisks>,
    /// Whether the command works on pools, so that the pools of a dead daemon are imported again.
    resumes: bool,
}

impl Connection {
    /// A connection to the user's daemon.
    pub fn new(resumes: bool) -> Self {
        Connection {
            path: socket_of_process(),
            client: None,
            disks: None,
            resumes,
        }
    }

    /// The same connection, which answers requests about block devices if no daemon runs.
    pub fn with_disks(self, disks: LeftDisks) -> Self {
        Connection {
            disks: Some(disks),
            ..self
        }
    }

    fn connect(&mut self, start: bool) -> Result<Option<&mut Client>, CallError> {
        if self.client.is_none() {
            self.client = match Client::connect(&self.path) {
                Ok(client) => Some(client),
                Err(CallError::NotRunning) if start && may_start() => Some(self.start()?),
                Err(CallError::NotRunning) => match self.resume() {
                    true => Some(Client::connect(&self.path)?),
                    false => self.machine_view(),
                },
                Err(CallError::Socket(error)) if is_denied(&error) => {
                    match Client::connect(&view_path(&self.path)) {
                        // The daemon has no second socket, or has exited.
                        Err(CallError::NotRunning) if self.is_dead() => None,
                        Err(CallError::NotRunning) => return Err(CallError::Socket(error)),
                        client => Some(client?),
                    }
                }
                Err(error) => return Err(error),
            };
        }
        Ok(self.client.as_mut())
    }

    /// The second socket of the machine's daemon, for users without a daemon of their own.
    fn machine_view(&mut self) -> Option<Client> {
        let is_given = std::env::var_os("CENOTE_SOCKET").is_some_and(|path| !path.is_empty());
        let machine = Path::new(MACHINE_SOCKET);
        if is_given || self.is_dead() || self.path == machine {
            return None;
        }
        let client = Client::connect(&view_path(machine)).ok()?;
        self.path = machine.to_owned();
        Some(client)
    }

    fn is_dead(&self) -> bool {
        death::of_socket(&self.path).is_some()
    }

    /// Imports and mounts the pools of a dead daemon again, if the command needs them and that is
    /// safe. Returns whether a daemon runs now.
    fn resume(&self) -> bool {
        let death = death::of_socket(&self.path).filter(|_| self.resumes);
        let Some(death) = death.filter(death::Death::may_resume) else {
            return false;
        };
        let pid = death.loss.pid;
        if let Some(is_back) = service_unit::wait_for_resumption(&self.path, pid) {
            return is_back;
        }
        eprintln!("cenote: the daemon (process {pid}) died; its pools are imported again");
        let Ok(program) = std::env::current_exe() else {
            return false;
        };
        let mut command = Command::new(program);
        // Its report must not mix with the output of this command.
        command.args(["daemon", "resume"]).stdin(Stdio::null());
        command.stdout(std::io::stderr());
        let ended = command.status();
        ended.is_ok() && Client::connect(&self.path).is_ok()
    }

    /// Starts a daemon that exits after its last pool is exported.
    fn start(&self) -> Result<Client, CallError> {
        let program = std::env::current_exe().map_err(CallError::Socket)?;
        let mut command = Command::new(program);
        command.args(["daemon", "run", "--auto"]);
        // The daemon must not keep our directory's file system busy. So it runs in `/`, and needs
        // an absolute path of its socket.
        let socket = std::path::absolute(&self.path).map_err(CallError::Socket)?;
        command.env("CENOTE_SOCKET", socket).current_dir("/");
        for name in FILE_VARIABLES {
            if let Some(files) = std::env::var_os(name) {
                command.env(name, absolute(name, files).map_err(CallError::Socket)?);
            }
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // In a process group of its own, because it outlives this command and must not get the
        // terminal's signals.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(CallError::Socket)?;
        let deadline = Instant::now() + START_WAIT;
        let mut left: Option<Instant> = None;
        loop {
            match Client::connect(&self.path) {
                Err(CallError::NotRunning) => {}
                Ok(client) => {
                    // If another command's daemon listens, that command prints its notes; ours
                    // would only report the conflict.
                    if client.is_served_by(child.id()) {
                        pass_on_notes(&mut child);
                    }
                    return Ok(client);
                }
                Err(error) => return Err(error),
            }
            if left.is_none() && matches!(child.try_wait(), Ok(Some(_))) {
                // Another command may have started a daemon a moment earlier.
                left = Some(Instant::now());
            }
            if left.is_some_and(|left| left.elapsed() > RIVAL_WAIT) {
                return Err(why_it_left(child));
            }
            if Instant::now() > deadline {
                return Err(CallError::NotRunning);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The value of a variable that names files, with absolute paths; an empty one stands for no file.
fn absolute(name: &str, files: OsString) -> std::io::Result<OsString> {
    if name != "CENOTE_SETTINGS" {
        return match files.is_empty() {
            true => Ok(files),
            false => Ok(std::path::absolute(files)?.into_os_string()),
        };
    }
    let files = std::env::split_paths(&files).filter(|file| !file.as_os_str().is_empty());
    let files: std::io::Result<Vec<PathBuf>> = files.map(std::path::absolute).collect();
    std::env::join_paths(files?).map_err(std::io::Error::other)
}

/// Prints the daemon's messages of its start, mainly about settings. Once it listens, it detaches
/// from the terminal.
fn pass_on_notes(child: &mut std::process::Child) {
    let Some(mut pipe) = child.stderr.take() else {
        return;
    };
    let deadline = Instant::now() + NOTES_WAIT;
    let mut notes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut ready = [PollFd::new(&pipe, PollFlags::IN)];
        let left = Timespec::try_from(left).ok();
        match poll(&mut ready, left.as_ref()) {
            Ok(1..) => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => break,
        }
        match pipe.read(&mut piece) {
            Ok(0) | Err(_) => break,
            Ok(length) => notes.extend_from_slice(&piece[..length]),
        }
    }
    eprint!("{}", String::from_utf8_lossy(&notes));
}

/// The messages of a daemon that exited at once.
fn why_it_left(child: std::process::Child) -> CallError {
    let text = match child.wait_with_output() {
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    let reason = format!("it did not start: {text}");
    CallError::Refused(ControlError::Unreachable { reason })
}

impl Daemon for Connection {
    fn call(
        &mut self,
        request: Request,
        on_part: &mut dyn FnMut(Part) -> Interrupt,
    ) -> Result<Response, CallError> {
        let start = needs_daemon(&request);
        let deadline = Instant::now() + LEAVE_WAIT;
        let mut has_waited = false;
        loop {
            let fresh = self.client.is_none();
            let Some(client) = self.connect(start)? else {
                let death = death::of_socket(&self.path).filter(|_| is_about_pools(&request));
                return match death {
                    Some(death) => Err(died(&death)),
                    None => without_daemon(request, self.disks).map_err(CallError::Refused),
                };
            };
            let answer = client.call(request.clone(), &beside(&request), on_part);
            match answer {
                // The daemon was about to exit when we connected, and has not read the request.
                Err(CallError::Frame(FrameError::Unread)) if fresh && Instant::now() < deadline => {
                    self.client = None;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(CallError::Interrupted) => {
                    self.client = None;
                    return answer;
                }
                Err(CallError::Frame(_)) => {
                    self.client = None;
                    let death = death::just_now(&self.path);
                    return death.map_or(answer, |death| Err(died(&death)));
                }
                Err(CallError::Refused(
                    ControlError::NoSuchPool { pool: ref name }
                    | ControlError::NoSuchDataset { dataset: ref name },
                )) => {
                    if self.resumes && !has_waited && service_unit::wait_while_resuming(&self.path)
                    {
                        has_waited = true;
                        continue;
                    }
                    let death = death::before_this(&self.path);
                    let death = death.filter(|death| death.concerns(name));
                    return death.map_or(answer, |death| Err(died(&death)));
                }
                _ => return answer,
            }
        }
    }

    fn lost(&mut self) -> Option<String> {
        let death = death::before_this(&self.path).filter(|_| self.client.is_some());
        death.map(|death| death.text())
    }

    fn missing(&mut self) -> Vec<MissingPool> {
        let Some(client) = self.client.as_mut() else {
            return missing::of_files(&self.path);
        };
        let answer = client.call(Request::DaemonStatus, &[], &mut |_| Interrupt::Continue(()));
        match answer {
            // The other missing pools are those of a dead daemon, which `lost` reports.
            Ok(Response::Status { mut status }) => {
                status.missing.retain(|pool| !pool.is_lost);
                status.missing
            }
            _ => Vec::new(),
        }
    }

    fn record_failure(&mut self) -> Option<String> {
        let client = self.client.as_mut()?;
        let answer = client.call(Request::DaemonStatus, &[], &mut |_| Interrupt::Continue(()));
        let Ok(Response::Status { status }) = answer else {
            return None;
        };
        failures_to_record(&status)
    }
}

/// The message that a daemon cannot record its imported pools.
fn failures_to_record(status: &DaemonStatus) -> Option<String> {
    let record = status.record_failure.iter().map(|failure| {
        format!(
            "the Cenote daemon cannot write down which pools it has imported: {failure}.\n\
             If it dies now, 'cenote daemon resume' may not find them. Make room in that\n\
             directory, or make it writable for the daemon."
        )
    });
    let cached = (!status.cache_failures.is_empty()).then(|| {
        format!(
            "these pools are not in their cache file, and will not be imported when the machine\n\
             starts:\n  {}\n\
             Correct that, then run 'zpool set cachefile= POOL' for each, which writes the file\n\
             again.",
            status.cache_failures.join("\n  ")
        )
    });
    let texts: Vec<String> = record.chain(cached).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn may_start() -> bool {
    std::env::var_os(NO_START).is_none()
}

fn is_denied(error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::PermissionDenied
}

fn died(death: &death::Death) -> CallError {
    let text = death.text();
    CallError::Refused(ControlError::DaemonDied { text })
}

/// Whether a request has no answer while the pools of a dead daemon are not imported.
fn is_about_pools(request: &Request) -> bool {
    match request {
        Request::Alarms { .. }
        | Request::Dashboard { .. }
        | Request::SettingsList { .. }
        | Request::SettingsSet { .. }
        | Request::EventsClear
        | Request::DaemonForget
        | Request::DaemonForgetPools { .. }
        | Request::DaemonStop { .. } => false,
        Request::Noted { asked, .. } => is_about_pools(asked),
        other => !needs_daemon(other),
    }
}

/// The descriptors sent with a request: a stream is read from the command's standard input, or
/// written to its standard output.
fn beside(request: &Request) -> Vec<BorrowedFd<'static>> {
    match request {
        Request::Receive { .. } => vec![rustix::stdio::stdin()],
        Request::Send { .. } => vec![rustix::stdio::stdout()],
        _ => Vec::new(),
    }
}

fn needs_daemon(request: &Request) -> bool {
    let is_without_pool =
        |change: &Change| matches!(change, Change::CreatePool(_) | Change::ClearLabels { .. });
    match request {
        Request::ImportSearch { .. } | Request::Import { .. } => true,
        // The fault waits for the pool.
        Request::Inject { act } => matches!(
            act,
            InjectAct::Add {
                fault: Injection::Import { .. },
                ..
            }
        ),
        Request::Change { change, .. } => is_without_pool(change),
        Request::Noted { asked, .. } => needs_daemon(asked),
        _ => false,
    }
}

/// A root of a listing, with the error that it does not exist.
fn no_such_root(root: String) -> (String, ControlError) {
    let name = root.clone();
    let error = if root.contains('#') {
        ControlError::NoSuchBookmark { bookmark: name }
    } else {
        ControlError::NoSuchDataset { dataset: name }
    };
    (root, error)
}

fn not_running() -> ControlError {
    ControlError::Unreachable {
        reason: CallError::NotRunning.to_string(),
    }
}

/// Answers as a daemon without pools would.
// tidy: allow(long-function, one arm for each request, so that none is forgotten)
fn without_daemon(request: Request, disks: Option<LeftDisks>) -> Result<Response, ControlError> {
    let pool_of = |name: &str| {
        name.split(['/', '@', '#'])
            .next()
            .unwrap_or(name)
            .to_owned()
    };
    let no_pool = |pool: String| ControlError::NoSuchPool { pool };
    let no_dataset = |dataset: String| Err(ControlError::NoSuchDataset { dataset });
    let named = |pool: String| (pool.clone(), no_pool(pool));
    let no_pools = |pools: Vec<String>| pools.into_iter().map(named).collect();
    match request {
        Request::PoolList { pools, .. } => Ok(Response::Pools {
            pools: Vec::new(),
            failures: no_pools(pools),
        }),
        Request::PoolStatus { pools, .. } => Ok(Response::Statuses {
            pools: Vec::new(),
            failures: no_pools(pools),
        }),
        Request::DatasetList { roots, .. } => Ok(Response::Failures {
            failures: roots.into_iter().map(no_such_root).collect(),
            done: 0,
        }),
        Request::MountAll { below: None, .. } | Request::UnmountAll { .. } => {
            Ok(Response::Failures {
                failures: Vec::new(),
                done: 0,
            })
        }
        Request::Noted { asked, .. } => without_daemon(*asked, disks),
        Request::MountList => Ok(Response::Mounts { mounts: Vec::new() }),
        Request::EventsClear => Ok(Response::Cleared { events: 0 }),
        Request::Events { pool: None, .. } => Ok(Response::Done),
        Request::Events {
            pool: Some(pool), ..
        }
        | Request::Export { pool, .. }
        | Request::VdevGet { pool, .. }
        | Request::PoolOpened { pool }
        | Request::PoolGroups { pool }
        | Request::ObjectPlace { pool, .. }
        | Request::Stores { pool, .. }
        | Request::Verify { pool, .. }
        | Request::ErrorHistory { pool }
        | Request::History { pool } => Err(no_pool(pool)),
        Request::Program { program, .. } => Err(no_pool(program.pool)),
        Request::Holds { snapshot, .. } => no_dataset(snapshot),
        Request::Diff { from, .. } => no_dataset(pool_of(&from)),
        Request::Unmount { target, .. } if target.starts_with('/') => {
            Err(ControlError::NotMounted { target })
        }
        Request::Unmount { target, .. } => no_dataset(target),
        Request::MountAll {
            below: Some(dataset),
            ..
        }
        | Request::SnapshotSpace { dataset, .. }
        | Request::Grants { dataset }
        | Request::Mount { dataset, .. }
        | Request::LoadKey { dataset, .. }
        | Request::UnloadKey { dataset }
        | Request::DeleteQueue { dataset }
        | Request::UserSpace { dataset, .. } => no_dataset(dataset),
        Request::Receive { receive, .. } => no_dataset(receive.target),
        Request::Http { act } => match act {
            HttpAct::Status => Ok(Response::Http {
                servers: Vec::new(),
            }),
            HttpAct::Start { sites, .. } => {
                no_dataset(sites.into_iter().next().unwrap_or_default().dataset)
            }
            HttpAct::Reload => Ok(Response::Done),
            HttpAct::Stop { targets, .. } => match targets.into_iter().next() {
                None => Ok(Response::Done),
                Some(target) => Err(HttpRefusal::NotServed { target }.into()),
            },
        },
        Request::Ublk { act } => match (act, disks) {
            (UblkAct::Serve { volumes, .. }, _) => {
                no_dataset(volumes.into_iter().next().unwrap_or_default())
            }
            (UblkAct::Status, Some(disks)) => Ok(Response::Ublk {
                status: (disks.status)(),
            }),
            (UblkAct::Stop { targets, force }, Some(disks)) => (disks.stop)(&targets, force),
            (UblkAct::Status | UblkAct::Stop { .. }, None) => Err(not_running()),
        },
        Request::Nbd { act } => match act {
            NbdAct::Status => Ok(Response::Nbd {
                servers: Vec::new(),
            }),
            NbdAct::Serve { volumes, .. } => {
                no_dataset(volumes.into_iter().next().unwrap_or_default())
            }
            NbdAct::Stop { targets, .. } => match targets.into_iter().next() {
                None => Ok(Response::Done),
                Some(target) => Err(NbdRefusal::NotServed { target }.into()),
            },
        },
        Request::Send { send } => no_dataset(send.target),
        Request::Redact { redact, .. } => no_dataset(redact.snapshot),
        Request::Inject { act } => match act {
            InjectAct::List | InjectAct::Cancel { id: None } => {
                Ok(Response::Injections { rows: Vec::new() })
            }
            InjectAct::Flush => Ok(Response::Done),
            InjectAct::Cancel { id: Some(id) } => Err(InjectRefusal::NoSuchFault { id }.into()),
            InjectAct::Add { pool, .. } | InjectAct::Blame { pool, .. } => Err(no_pool(pool)),
        },
        Request::ReclaimedBy { .. }
        | Request::Alarms { .. }
        | Request::Dashboard { .. }
        | Request::SettingsList { .. }
        | Request::SettingsSet { .. }
        | Request::Metrics { .. }
        | Request::DaemonStatus
        | Request::DaemonForget
        | Request::DaemonForgetPools { .. }
        | Request::Change { .. }
        | Request::DaemonStop { .. }
        | Request::ImportSearch { .. }
        | Request::Import { .. } => Err(not_running()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An automatically started daemon runs in `/`, and did not find these files.
    #[test]
    fn files_named_from_here_are_found_from_anywhere() {
        let here = std::env::current_dir().expect("a directory");
        let of = |name: &str, files: &str| absolute(name, files.into()).expect("absolute");
        assert_eq!(of("CENOTE_STATE", "a:b"), here.join("a:b"));
        assert_eq!(of("CENOTE_ALARMS", ""), "");
        assert_eq!(of("CENOTE_SETTINGS", ""), "");
        let both = format!("{}:/b", here.join("a").display());
        assert_eq!(of("CENOTE_SETTINGS", "a:/b"), both.as_str());
    }
}
