//! The program itself: its names, its exit codes, its daemon.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_cenote");

/// A directory with links called zpool and zfs, and a socket for this test only.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let installed = place.run(Path::new(PROGRAM), &["install-links", "bin"]);
        assert!(installed.status.success(), "{installed:?}");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory.path());
        command.env("CENOTE_SOCKET", self.path("socket"));
        command.env("TZ", "UTC").stdin(Stdio::null());
        command
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        self.command(program, arguments)
            .output()
            .expect("the program runs")
    }

    fn zpool(&self, arguments: &[&str]) -> Output {
        self.run(&self.path("bin/zpool"), arguments)
    }

    fn cenote(&self, arguments: &[&str]) -> Output {
        self.run(Path::new(PROGRAM), arguments)
    }

    fn daemon(&self) -> Running {
        let mut command = self.command(Path::new(PROGRAM), &["daemon", "run"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running(command.spawn().expect("the daemon starts"));
        // The socket may be left from an earlier daemon: only an answer shows that this one runs.
        wait_for("the daemon", || {
            self.cenote(&["daemon", "status"]).status.code() == Some(0)
        });
        running
    }
}

/// A process that ends with its test.
struct Running(Child);

impl Running {
    fn ends(&mut self) {
        wait_for("the daemon's end", || {
            self.0.try_wait().expect("our own child").is_some()
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_there() {
        assert!(Instant::now() < deadline, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_name_it_is_called_by_decides() {
    let place = Place::new();
    let version = place.zpool(&["--version"]);
    assert_eq!(text(&version.stdout), "zfs-2.3.2-1\nzfs-kmod-2.3.2-1\n");
    let zfs = place.run(&place.path("bin/zfs"), &["foo"]);
    assert_eq!(zfs.status.code(), Some(2));
    assert!(text(&zfs.stderr).starts_with("unrecognized command 'foo'\nusage: zfs command"));
    // Users look for a subcommand in the wrong program.
    let zfs_import = place.run(&place.path("bin/zfs"), &["import"]);
    assert!(text(&zfs_import.stderr).contains("\ndid you mean 'zpool import'?\n"));
    let own = place.cenote(&["status"]);
    assert!(text(&own.stderr).contains("\ndid you mean 'zpool status'?\n"));
    let direct = place.cenote(&["zfs", "foo"]);
    assert_eq!(direct.stderr, zfs.stderr);
    let helper = place.run(&place.path("bin/mount.zfs"), &["tank/fs"]);
    assert_eq!(helper.status.code(), Some(1));
    assert!(text(&helper.stderr).starts_with("missing mountpoint argument"));
    let own = place.cenote(&["help"]);
    assert!(text(&own.stdout).starts_with("Cenote opens OpenZFS pools"));
    assert_eq!(place.cenote(&[]).status.code(), Some(2));
    assert_eq!(place.cenote(&["nosuch"]).status.code(), Some(2));
}

#[test]
fn links_are_made_once_and_replaced_only_by_force() {
    let place = Place::new();
    assert!(place.cenote(&["install-links", "bin"]).status.success());
    let link = place.path("bin/zpool");
    std::fs::remove_file(&link).expect("the link is there");
    std::fs::write(&link, "another program").expect("a write");
    assert_eq!(
        place.cenote(&["install-links", "bin"]).status.code(),
        Some(1)
    );
    let forced = place.cenote(&["install-links", "--force", "bin"]);
    assert!(forced.status.success(), "{forced:?}");
    assert_eq!(
        std::fs::read_link(&link).expect("a link"),
        Path::new(PROGRAM)
    );
}

#[test]
fn questions_need_no_daemon() {
    let place = Place::new();
    let list = place.zpool(&["list"]);
    assert_eq!(text(&list.stdout), "no pools available\n");
    assert_eq!(list.status.code(), Some(0));
    let status = place.zpool(&["status", "tank"]);
    assert_eq!(text(&status.stderr), "cannot open 'tank': no such pool\n");
    assert_eq!(status.status.code(), Some(1));
    assert_eq!(place.cenote(&["daemon", "status"]).status.code(), Some(3));
    assert!(!place.path("socket").exists());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::new();
    let script = format!("'{PROGRAM}' zfs help | head -1");
    let output = place.run(Path::new("/bin/sh"), &["-c", &script]);
    assert_eq!(text(&output.stdout), "usage: zfs command args ...\n");
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_daemon_stops_when_told() {
    let place = Place::new();
    let mut daemon = place.daemon();
    let second = place.cenote(&["daemon", "run"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("already running"));
    assert!(place.cenote(&["daemon", "stop"]).status.success());
    daemon.ends();
    assert!(!place.path("socket").exists());
}

#[test]
fn the_daemon_leaves_cleanly_after_a_signal() {
    let place = Place::new();
    let mut daemon = place.daemon();
    let pid = i32::try_from(daemon.0.id()).expect("a process id");
    let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("our own child");
    daemon.ends();
    assert!(!place.path("socket").exists());
}

#[test]
fn a_killed_daemon_does_not_block_the_next() {
    let place = Place::new();
    let mut daemon = place.daemon();
    daemon.0.kill().expect("our own child");
    daemon.ends();
    assert!(place.path("socket").exists());
    let list = place.zpool(&["list"]);
    assert_eq!(text(&list.stdout), "no pools available\n");
    let mut next = place.daemon();
    assert!(place.cenote(&["daemon", "stop"]).status.success());
    next.ends();
}

#[test]
fn an_import_starts_a_daemon_that_leaves_by_itself() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).expect("a directory");
    let import = place.zpool(&["import", "-d", "empty", "tank"]);
    assert_eq!(import.status.code(), Some(1), "{import:?}");
    let said = text(&import.stderr);
    assert!(said.starts_with("cannot import 'tank': "), "{said}");
    wait_for("the daemon to leave", || !place.path("socket").exists());
}

#[test]
fn two_commands_that_start_a_daemon_share_it() {
    let place = Place::new();
    std::fs::create_dir(place.path("empty")).expect("a directory");
    let import = || {
        let mut command = place.command(&place.path("bin/zpool"), &["import", "-d", "empty"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the program runs")
    };
    let both = [import(), import(), import()];
    for child in both {
        let output = child.wait_with_output().expect("our own child");
        let said = text(&output.stderr);
        assert_eq!(said, "no pools available to import\n");
        assert_eq!(output.status.code(), Some(0));
    }
    assert!(place.cenote(&["daemon", "stop"]).status.success());
}
