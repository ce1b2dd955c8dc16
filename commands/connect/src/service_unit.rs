//! The unit of systemd that runs the daemon, `cenote.service`.
//!
//! Where it does, nobody else may start a daemon in the place of one that died: a daemon that a
//! command starts belongs to the unit or the session of that command, and ends with it. And the
//! unit's own could not listen. So commands wait for the unit, which starts another daemon a second
//! after a crash and resumes. The unit is active only when that is done (`ExecStartPost`); the
//! daemon listens seconds before, and knows no pool yet.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote_control::protocol::{Client, MACHINE_SOCKET};

/// How long a unit may take to start a daemon that has what the one before had.
const RESUME_WAIT: Duration = Duration::from_secs(120);

/// Its name.
pub const NAME: &str = "cenote.service";

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a state of a unit means that it runs its daemon, or is about to.
fn is_on_duty(state: &str) -> bool {
    ["active", "activating", "reloading", "deactivating"].contains(&state)
}

/// Whether a state of a unit means that it has resumed, once its daemon listens.
fn has_resumed(state: &str) -> bool {
    state == "active"
}

/// The option by which systemctl means the manager of the unit of this socket.
fn scope_of(socket: &Path) -> &'static str {
    match socket == Path::new(MACHINE_SOCKET) {
        true => "--system",
        false => "--user",
    }
}

/// The same if the unit runs the daemon of this socket.
pub fn scope_on_duty(socket: &Path) -> Option<&'static str> {
    state_of_unit(socket).map(|_| scope_of(socket))
}

/// The state of the unit that runs the daemon of this socket; `None` if no unit does.
fn state_of_unit(socket: &Path) -> Option<String> {
    if !Path::new("/run/systemd/system").is_dir() || std::env::var_os("CENOTE_SOCKET").is_some() {
        return None;
    }
    let scope = scope_of(socket);
    let mut systemctl = Command::new("systemctl");
    systemctl.args([scope, "show", "--property=ActiveState", "--value"]);
    systemctl.arg(NAME);
    let output = systemctl
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let state = output.ok()?.stdout;
    let state = String::from_utf8_lossy(&state).trim().to_owned();
    is_on_duty(&state).then_some(state)
}

/// Waits until the unit has started another daemon in the place of one that died, and has resumed.
/// Whether it did; `None` where it is not the unit's business.
///
/// What could not be resumed is for the command's request to find out.
pub fn wait_for_resumption(socket: &Path, pid: u32) -> Option<bool> {
    state_of_unit(socket)?;
    eprintln!(
        "cenote: the daemon (process {pid}) died; waiting until systemd has started it again"
    );
    Some(is_resumed(socket))
}

/// Waits while the unit's daemon, which listens already, imports the pools of the one before it.
/// Whether that was so, and has ended.
pub fn wait_while_resuming(socket: &Path) -> bool {
    if state_of_unit(socket).as_deref() != Some("activating") {
        return false;
    }
    eprintln!("cenote: waiting until systemd has brought the daemon's pools back");
    is_resumed(socket)
}

/// Waits until the unit has resumed; whether it did.
fn is_resumed(socket: &Path) -> bool {
    let deadline = Instant::now() + RESUME_WAIT;
    while Instant::now() < deadline {
        // In this order: a unit that has not noticed the death yet is active, too.
        let is_connected = Client::connect(socket).is_ok();
        match state_of_unit(socket) {
            Some(state) if is_connected && has_resumed(&state) => return true,
            Some(_) => {}
            None => break,
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    eprintln!("cenote: systemd has not brought the pools back; 'systemctl status cenote' says why");
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that ran right after a crash of the unit's daemon started a daemon of its own. It
    /// took the record of what had been mounted with it when systemd ended the command's unit.
    #[test]
    fn a_unit_that_waits_to_restart_is_on_duty_and_a_failed_one_is_not() {
        for state in ["active", "activating", "deactivating"] {
            assert!(is_on_duty(state), "{state}");
        }
        for state in ["failed", "inactive", ""] {
            assert!(!is_on_duty(state), "{state}");
        }
    }

    /// A command right after a crash went on as soon as the new daemon listened. Its pools were not
    /// imported yet: "dataset does not exist".
    #[test]
    fn a_unit_that_still_resumes_has_not_resumed() {
        assert!(has_resumed("active"));
        for state in ["activating", "deactivating", "reloading"] {
            assert!(!has_resumed(state), "{state}");
        }
    }
}
