//! The unit of systemd that runs the daemon, `cenote.service`.
//!
//! Where it does, nobody else may start a daemon in the place of one that died: a daemon that a
//! command starts belongs to the unit or the session of that command, and ends with it. And the
//! unit's own could not listen. So commands wait for the unit, which starts another daemon a second
//! after a crash and resumes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cenote_control::protocol::{Client, MACHINE_SOCKET};

use crate::death;

/// How long a unit may take to start a daemon that has what the one before had.
const RESUME_WAIT: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Whether a state of a unit means that it runs its daemon, or is about to.
fn is_on_duty(state: &str) -> bool {
    ["active", "activating", "reloading", "deactivating"].contains(&state.trim())
}

/// Whether the unit is responsible for the daemon of this socket.
fn runs_daemon_of(socket: &Path) -> bool {
    if !Path::new("/run/systemd/system").is_dir() || std::env::var_os("CENOTE_SOCKET").is_some() {
        return false;
    }
    let scope = match socket == Path::new(MACHINE_SOCKET) {
        true => "--system",
        false => "--user",
    };
    let mut systemctl = Command::new("systemctl");
    systemctl.args([scope, "show", "--property=ActiveState", "--value"]);
    systemctl.arg("cenote.service");
    let output = systemctl
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    output.is_ok_and(|output| is_on_duty(&String::from_utf8_lossy(&output.stdout)))
}

/// Waits until the unit has started another daemon in the place of one that died, and that has
/// imported what the other had. Whether it did; `None` where it is not the unit's business.
pub fn wait_for_resumption(socket: &Path, pid: u32) -> Option<bool> {
    if !runs_daemon_of(socket) {
        return None;
    }
    eprintln!(
        "cenote: the daemon (process {pid}) died; waiting until systemd has started it again"
    );
    let deadline = Instant::now() + RESUME_WAIT;
    while Instant::now() < deadline {
        if Client::connect(socket).is_ok() && death::before_this(socket).is_none() {
            return Some(true);
        }
        if !runs_daemon_of(socket) {
            break;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    eprintln!("cenote: systemd has not started it again; 'systemctl status cenote' says why");
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command that ran right after a crash of the unit's daemon started a daemon of its own. It
    /// took the record of what had been mounted with it when systemd ended the command's unit.
    #[test]
    fn a_unit_that_waits_to_restart_is_on_duty_and_a_failed_one_is_not() {
        for state in ["active\n", "activating\n", "deactivating\n"] {
            assert!(is_on_duty(state), "{state}");
        }
        for state in ["failed\n", "inactive\n", "\n", ""] {
            assert!(!is_on_duty(state), "{state}");
        }
        // The tests' own sockets are nobody's unit's.
        assert!(!runs_daemon_of(Path::new("/nonexistent/socket")));
    }
}
