//! What the mount tests share: a mounted tree in a temporary directory, and other users.
#![allow(dead_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use cenote_fuse::{FileSystem, MemoryTree, Mount, MountError, MountOptions, NodeId, UnmountMode};
use cenote_tests::{missing, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// The user and group that tests of other users' rights run as.
pub const NOBODY: u32 = 65534;

/// Tests that make mount namespaces hold it for writing: a new namespace begins with a copy of
/// every mount. Tests that need their mount to end when it is unmounted hold it for reading.
static NAMESPACES: RwLock<()> = RwLock::new(());

/// No test makes namespaces while this is held.
pub fn one_namespace() -> RwLockReadGuard<'static, ()> {
    NAMESPACES.read().unwrap_or_else(PoisonError::into_inner)
}

/// No test that needs its mount to end runs while this is held.
pub fn more_namespaces() -> RwLockWriteGuard<'static, ()> {
    NAMESPACES.write().unwrap_or_else(PoisonError::into_inner)
}

/// A mount in a temporary directory that is removed with it.
pub struct Mounted {
    pub mount: Mount,
    directory: tempfile::TempDir,
}

impl Mounted {
    /// A path inside the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mount.mount_point().join(name)
    }

    pub fn root(&self) -> &Path {
        self.mount.mount_point()
    }
}

/// Whether mounts can be made here; says so when not.
pub fn can_mount() -> bool {
    let possible = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !possible {
        skip!("this needs /dev/fuse and root");
    }
    possible
}

/// Mounts `file_system` with default options, or skips the test.
pub fn mount(file_system: impl FileSystem + 'static) -> Option<Mounted> {
    mount_with(file_system, |_| {})
}

/// Mounts `file_system` with changed options, or skips the test.
pub fn mount_with(
    file_system: impl FileSystem + 'static,
    change: impl FnOnce(&mut MountOptions),
) -> Option<Mounted> {
    if !can_mount() {
        return None;
    }
    let directory = directory();
    let mut options = MountOptions::new("tank/test");
    change(&mut options);
    let mount = Mount::new(Arc::new(file_system), directory.path(), &options).expect("mount");
    Some(Mounted { mount, directory })
}

/// A temporary directory that other users may enter.
pub fn directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("temporary directory");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).expect("chmod");
    directory
}

/// A command that runs as the user `nobody`.
pub fn as_nobody(program: impl AsRef<std::ffi::OsStr>) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY);
    command
}

/// Whether `program` can be run; says so when not.
pub fn has_program(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        missing!("there is no {program}");
    }
    found
}

/// A file `file` that says hello, and a directory.
pub fn small_tree() -> MemoryTree {
    let mut tree = MemoryTree::new();
    tree.add_file(NodeId::ROOT, b"file", 5, vec![(0, b"hello".to_vec())]);
    tree.add_directory(NodeId::ROOT, b"directory");
    tree
}

/// Waits until `condition` holds; fails after a minute, which is for machines with much to do.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Unmounts what no test uses any more. A process that another test starts has a copy of every
/// open file until it runs its program, so the mount may be busy for that long.
pub fn unmount(mount: &Mount) {
    wait_for("the mount is not busy", || {
        match mount.unmount(UnmountMode::Normal) {
            Err(MountError::Busy) => false,
            outcome => {
                outcome.unwrap();
                true
            }
        }
    });
}
