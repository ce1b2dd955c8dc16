//! The systemd unit that runs the daemon, `cenote.service`.
//!
//! If it runs the daemon, nothing else may replace a daemon that died. A daemon started by a
//! command belongs to that command's unit or session, and ends with it. The unit's daemon could not
//! listen then. So commands wait for the unit, which starts another daemon a second after a crash
//! and imports its pools. The daemon listens seconds before that is done; only then is the unit
//! active (`ExecStartPost`).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote_control::protocol::{Client, MACHINE_SOCKET};

/// How long a unit may take to start a new daemon and import the old one's pools.
const RESUME_WAIT: Duration = Duration::from_secs(120);

/// Its name.
pub const NAME: &str = "cenote.service";

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a unit in this state runs its daemon, or is about to.
fn is_on_duty(state: &str) -> bool {
    ["active", "activating", "reloading", "deactivating"].contains(&state)
}

/// Whether a unit in this state has resumed, once its daemon listens.
fn has_resumed(state: &str) -> bool {
    state == "active"
}

/// The systemctl option for the manager of this socket's unit.
fn scope_of(socket: &Path) -> &'static str {
    match socket == Path::new(MACHINE_SOCKET) {
        true => "--system",
        false => "--user",
    }
}

/// The same option, if the unit runs the daemon of this socket.
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

/// Waits until the unit has replaced a dead daemon and resumed. Returns whether it did; `None` if
/// the unit does not run this socket's daemon.
///
/// The command's request reports pools that could not be resumed.
pub fn wait_for_resumption(socket: &Path, pid: u32) -> Option<bool> {
    state_of_unit(socket)?;
    eprintln!(
        "cenote: the daemon (process {pid}) died; waiting until systemd has started it again"
    );
    Some(is_resumed(socket))
}

/// Waits while the unit's daemon, which already listens, imports its predecessor's pools. Returns
/// whether it waited and the unit has resumed.
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
        // Connect first: the unit is also active while it has not noticed the death yet.
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

    /// A command right after a crash of the unit's daemon started a daemon of its own. When systemd
    /// stopped the command's unit, that daemon was killed together with its record of the mounts.
    #[test]
    fn a_unit_that_waits_to_restart_is_on_duty_and_a_failed_one_is_not() {
        for state in ["active", "activating", "deactivating"] {
            assert!(is_on_duty(state), "{state}");
        }
        for state in ["failed", "inactive", ""] {
            assert!(!is_on_duty(state), "{state}");
        }
    }

    /// A command right after a crash proceeded as soon as the new daemon listened, when its pools
    /// were not imported yet: "dataset does not exist".
    #[test]
    fn a_unit_that_still_resumes_has_not_resumed() {
        assert!(has_resumed("active"));
        for state in ["activating", "deactivating", "reloading"] {
            assert!(!has_resumed(state), "{state}");
        }
    }
}
