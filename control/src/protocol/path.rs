//! Where the daemon's socket is.

use std::ffi::OsString;
use std::path::PathBuf;

/// The socket: `CENOTE_SOCKET`, else `$XDG_RUNTIME_DIR/cenote.sock`, else `/run/cenote.sock`.
///
/// `variable` looks an environment variable up; empty ones count as unset.
pub fn socket_path(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(path) = set("CENOTE_SOCKET") {
        return PathBuf::from(path);
    }
    let directory = set("XDG_RUNTIME_DIR").unwrap_or_else(|| OsString::from("/run"));
    PathBuf::from(directory).join("cenote.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(variables: &[(&str, &str)]) -> PathBuf {
        let variables = variables.to_vec();
        socket_path(move |name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_first_variable_set_decides() {
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        assert_eq!(
            path(&[("CENOTE_SOCKET", "/tmp/s"), runtime]),
            PathBuf::from("/tmp/s")
        );
        assert_eq!(path(&[runtime]), PathBuf::from("/run/user/7/cenote.sock"));
        assert_eq!(
            path(&[("CENOTE_SOCKET", "")]),
            PathBuf::from("/run/cenote.sock")
        );
    }
}
