//! `cenote daemon restart`: a new daemon, of the installed program, takes over what this one has.
//!
//! A stopped daemon forgets what only commands gave it: pools that are in no cache file, mounts in
//! other places, served volumes and sites. For a restart, it keeps its record as it was before the
//! first unmount. `resume` then restores everything, as after a crash, but the record says that no
//! daemon died. Daemons of older versions do not keep it; then the record that was read before is
//! stored again.
//!
//! Keys that are in no file cannot be loaded again. If such a key is loaded, a restart needs `-f`:
//! its file systems would be unavailable until a user types the key.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cenote_base::rt::{self, Instant};
use cenote_control::model::{ControlError, Request, Response, shell_word};
use cenote_control::record::{DaemonRecord, beside_socket};

use cenote_connect::places::Places;
use cenote_connect::service_unit;
use cenote_words::context::{Context, Outcome, Stop, failed};

/// How long a stopped daemon may take to exit.
const END_WAIT: Duration = Duration::from_secs(60);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// `cenote daemon restart [-f]`.
pub fn run(is_forced: bool, socket: &Path, context: &mut Context) -> Outcome {
    let status = match context.ask(Request::DaemonStatus) {
        Ok(Response::Status { status }) => status,
        Ok(_) => return failed(cenote_words::context::mismatch().to_string()),
        Err(error @ ControlError::Unreachable { .. }) => {
            return failed(format!(
                "cannot restart the daemon: {error}. 'cenote daemon resume' starts one and imports \
                 the pools in the cache file"
            ));
        }
        Err(error) => return failed(format!("cannot restart the daemon: {error}")),
    };
    let unit_scope = service_unit::scope_on_duty(socket);
    if !status.auto && unit_scope.is_none() {
        return failed(format!(
            "cannot restart the daemon (process {}): it was started with 'cenote daemon run', \
             and its options are not recorded. Stop it with 'cenote daemon stop', start it as \
             before, then run 'cenote daemon resume'",
            status.pid
        ));
    }
    if !is_forced {
        refuse_where_keys_are_lost(context)?;
    }
    let kept = record_to_keep(socket)?;
    let stop = Request::DaemonStop {
        force: is_forced,
        is_restart: true,
    };
    if let Err(error) = context.ask(stop) {
        return failed(format!("cannot stop the daemon: {error}"));
    }
    if let Some((path, mut record)) = kept {
        await_end(&record)?;
        if matches!(record_to_keep(socket), Ok(Some((_, left))) if left.is_restart) {
            context.flush();
            return start(unit_scope);
        }
        record.is_restart = true;
        let stored = record.store(&path);
        if let Err(error) = stored.or_else(|_| record.store(&beside_socket(socket))) {
            context.complain(&format!(
                "{}: cannot be written: {error}. Only the pools in the cache file come back; \
                 'zpool import' imports others",
                path.display()
            ));
        }
    }
    context.flush();
    start(unit_scope)
}

/// Refuses if a key is loaded that `resume` cannot load again.
fn refuse_where_keys_are_lost(context: &mut Context) -> Result<(), Stop> {
    let roots = cenote_zfs_commands::zfs::keys_not_in_files(context)
        .map_err(|code| Stop::Failed(format!("cannot find out which keys are loaded ({code})")))?;
    let Some(first) = roots.first() else {
        return Ok(());
    };
    failed(format!(
        "cannot restart the daemon: the keys of these are loaded and are in no file: {}. Their \
         file systems would be unavailable until you run 'zfs load-key {}' and 'zfs mount -a'. \
         'cenote daemon restart -f' restarts it anyway",
        roots.join(", "),
        shell_word(first),
    ))
}

/// The running daemon's record and its path; `None` if it has no pools.
fn record_to_keep(socket: &Path) -> Result<Option<(PathBuf, DaemonRecord)>, Stop> {
    let places = Places::of_socket(socket);
    let found = DaemonRecord::find(places.record.as_deref(), socket, places.owner);
    let record = found.map_err(|error| Stop::Failed(error.to_string()))?;
    let path = places.record.unwrap_or_else(|| beside_socket(socket));
    Ok(record
        .filter(|record| !record.is_empty())
        .map(|record| (path, record)))
}

fn await_end(record: &DaemonRecord) -> Result<(), Stop> {
    let deadline = Instant::now() + END_WAIT;
    while record.is_alive() {
        if Instant::now() > deadline {
            return failed(format!(
                "the daemon (process {}) has exported its pools, but does not end. When it has \
                 ended, run 'cenote daemon resume'",
                record.pid
            ));
        }
        rt::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Starts a new daemon, which resumes.
fn start(unit_scope: Option<&str>) -> Outcome {
    let mut command = match unit_scope {
        Some(scope) => {
            let mut systemctl = Command::new("systemctl");
            systemctl.args([scope, "start", service_unit::NAME]);
            systemctl
        }
        None => {
            let program = std::env::current_exe();
            let program = program.map_err(|error| Stop::Failed(format!("cenote: {error}")))?;
            let mut resume = Command::new(program);
            resume.args(["daemon", "resume"]);
            resume
        }
    };
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(0),
        Ok(status) => Ok(status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1)),
        Err(error) => failed(format!(
            "the daemon was stopped, and no other was started: {error}. Run 'cenote daemon resume'"
        )),
    }
}
