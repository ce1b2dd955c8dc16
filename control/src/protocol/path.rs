//! Where the daemon's sockets are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The socket of the machine's daemon.
pub const MACHINE_SOCKET: &str = "/run/cenote.sock";

/// The socket: `CENOTE_SOCKET`, else for root `/run/cenote.sock`, else
/// `$XDG_RUNTIME_DIR/cenote.sock`, else `/run/cenote.sock`.
///
/// Root has one place, whether it logged in or a service does its work: only a login has
/// `XDG_RUNTIME_DIR`. `variable` looks an environment variable up; empty ones count as unset.
pub fn socket_path(is_root: bool, variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = set("CENOTE_SOCKET") {
        return PathBuf::from(path);
    }
    match set("XDG_RUNTIME_DIR").filter(|_| !is_root) {
        Some(directory) => PathBuf::from(directory).join("cenote.sock"),
        None => PathBuf::from(MACHINE_SOCKET),
    }
}

/// The socket of this process's user.
pub fn socket_of_process() -> PathBuf {
    let is_root = rustix::process::geteuid().is_root();
    socket_path(is_root, |name| std::env::var_os(name))
}

/// The socket beside it with read-only access for all users.
pub fn view_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".view");
    PathBuf::from(path)
}

/// The file beside it in which a daemon says where its files are.
pub fn note_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".note");
    PathBuf::from(path)
}

/// The file beside it that a daemon holds locked.
///
/// A process that can open a file can lock it: only the daemon's user can open this one.
pub fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(is_root: bool, variables: &[(&str, &str)]) -> PathBuf {
        let variables = variables.to_vec();
        socket_path(is_root, move |name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    /// Root's login used to look for a daemon elsewhere than where a service starts it.
    #[test]
    fn the_first_variable_set_decides_and_root_has_one_place() {
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        let given = [("CENOTE_SOCKET", "/tmp/s"), runtime];
        let machine = PathBuf::from(MACHINE_SOCKET);
        for is_root in [false, true] {
            assert_eq!(path(is_root, &given), PathBuf::from("/tmp/s"));
            assert_eq!(path(is_root, &[("CENOTE_SOCKET", "")]), machine);
        }
        let own = PathBuf::from("/run/user/7/cenote.sock");
        assert_eq!(path(false, &[runtime]), own);
        assert_eq!(path(true, &[runtime]), machine);
    }
}
