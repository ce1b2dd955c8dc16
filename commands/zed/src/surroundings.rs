//! What zedlets find in their environment besides the event.
//!
//! Nothing of it comes from the process that runs them: zedlets run as root, and must not depend on
//! the environment in which that process was started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where zedlets find programs.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Variables that name commands, and the commands.
const COMMANDS: [(&str, &str); 5] = [
    ("ZDB", "zdb"),
    ("ZED", "zed"),
    ("ZFS", "zfs"),
    ("ZINJECT", "zinject"),
    ("ZPOOL", "zpool"),
];

/// The variables that are the same for all events.
#[derive(Clone, Debug)]
pub struct Surroundings {
    variables: Vec<(&'static str, OsString)>,
}

impl Surroundings {
    /// Those of this process, for zedlets that talk to the daemon on `socket`. With `path`, they
    /// find programs there and not in the system's directories.
    pub fn new(socket: &Path, path: Option<OsString>) -> Self {
        let program = std::env::current_exe().unwrap_or_default();
        let elsewhere = std::env::var_os("PATH").unwrap_or_default();
        let path = path.unwrap_or_else(|| PATH.into());
        let version = env!("CARGO_PKG_VERSION");
        let mut variables = vec![
            ("ZED_PID", std::process::id().to_string().into()),
            ("ZFS_ALIAS", format!("cenote-{version}-1").into()),
            ("ZFS_VERSION", version.into()),
            ("ZFS_RELEASE", "1".into()),
            ("CENOTE_SOCKET", socket.into()),
            // A daemon that ends must not be followed by one that a zedlet starts.
            ("CENOTE_NO_START", "1".into()),
        ];
        for (variable, name) in COMMANDS {
            let found = command(name, &program, &[&path, &elsewhere]);
            variables.push((variable, found.into_os_string()));
        }
        variables.push(("PATH", path));
        Self { variables }
    }

    /// All of them, for zedlets in this directory.
    pub(crate) fn all(&self, directory: &Path) -> Vec<(&'static str, OsString)> {
        let mut all = self.variables.clone();
        all.push(("ZED_ZEDLET_DIR", directory.into()));
        all
    }
}

/// The path of a command: preferably that of our program under the command's name, because there
/// may be another program of this name. Its name, if there is none.
fn command(name: &str, program: &Path, paths: &[&OsString]) -> PathBuf {
    let beside = program.parent().map(Path::to_owned);
    let listed = paths.iter().flat_map(|path| std::env::split_paths(path));
    let places = beside.into_iter().chain(listed);
    let places: Vec<PathBuf> = places
        .filter(|place| place.is_absolute())
        .map(|place| place.join(name))
        .filter(|place| place.is_file())
        .collect();
    let is_ours = |place: &&PathBuf| place.canonicalize().is_ok_and(|found| found == program);
    let found = places.iter().find(is_ours).or_else(|| places.first());
    found.cloned().unwrap_or_else(|| PathBuf::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn our_own_command_comes_before_a_stranger_of_the_same_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        for below in ["theirs", "ours"] {
            std::fs::create_dir(root.join(below)).expect("a directory");
        }
        let program = root.join("cenote");
        for file in [
            &program,
            &root.join("theirs/zpool"),
            &root.join("theirs/zdb"),
        ] {
            std::fs::write(file, "").expect("a file");
        }
        let ours = root.join("ours/zpool");
        symlink(&program, &ours).expect("a link");
        let path = std::env::join_paths([root.join("theirs"), root.join("ours")]).expect("a path");
        assert_eq!(command("zpool", &program, &[&path]), ours);
        assert_eq!(command("zdb", &program, &[&path]), root.join("theirs/zdb"));
        assert_eq!(command("zfs", &program, &[&path]), Path::new("zfs"));
    }
}
