//! Mounts that come and go: busy, lazy, forced, dead, unprivileged.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{
    Mounted, NOBODY, as_nobody, can_mount, directory, has_program, more_namespaces, mount,
    mount_with, one_namespace, small_tree, unmount, wait_for,
};
use cenote_fuse::{
    Errno, Mount, MountError, MountOptions, NodeId, UnmountMode, clear_stale_mounts, is_stale,
    own_mounts,
};
use cenote_tests::skip;
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SERVER: &str = env!("CARGO_BIN_EXE_cenote-fuse-serve");

fn is_listed(path: &Path) -> bool {
    own_mounts()
        .unwrap()
        .iter()
        .any(|entry| entry.mount_point == path)
}

/// What each way of changing something answers.
fn refusals(mounted: &Mounted) -> Vec<(&'static str, Option<i32>)> {
    let file = mounted.path("file");
    let new = mounted.path("new");
    let code = |outcome: std::io::Result<()>| outcome.err().and_then(|error| error.raw_os_error());
    let raw = |outcome: rustix::io::Result<()>| outcome.err().map(|error| error.raw_os_error());
    let flags = OFlags::WRONLY | OFlags::TMPFILE;
    let zero = rustix::fs::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: zero,
        last_modification: zero,
    };
    let none = rustix::fs::AtFlags::empty();
    let here = rustix::fs::CWD;
    vec![
        ("create", code(File::create(&new).map(drop))),
        (
            "write",
            code(fs::OpenOptions::new().write(true).open(&file).map(drop)),
        ),
        ("truncate", code(File::create(&file).map(drop))),
        ("mkdir", code(fs::create_dir(&new))),
        ("rmdir", code(fs::remove_dir(mounted.path("directory")))),
        ("unlink", code(fs::remove_file(&file))),
        ("rename", code(fs::rename(&file, &new))),
        ("link", code(fs::hard_link(&file, &new))),
        ("symlink", code(std::os::unix::fs::symlink("x", &new))),
        (
            "chmod",
            code(fs::set_permissions(
                &file,
                fs::Permissions::from_mode(0o600),
            )),
        ),
        (
            "chown",
            code(std::os::unix::fs::chown(&file, Some(1), Some(1))),
        ),
        (
            "utimes",
            raw(rustix::fs::utimensat(here, &file, &times, none)),
        ),
        (
            "mknod",
            raw(rustix::fs::mknodat(
                here,
                &new,
                rustix::fs::FileType::Fifo,
                Mode::RUSR,
                0,
            )),
        ),
        (
            "setxattr",
            raw(rustix::fs::setxattr(
                &file,
                "user.x",
                b"y",
                XattrFlags::empty(),
            )),
        ),
        ("removexattr", raw(rustix::fs::removexattr(&file, "user.x"))),
        (
            "tmpfile",
            raw(rustix::fs::open(mounted.root(), flags, Mode::RUSR).map(drop)),
        ),
    ]
}

#[test]
fn nothing_can_be_changed() {
    // Refused by the kernel on a read-only mount, and by the session on one that is not.
    for read_only in [true, false] {
        let options = |options: &mut MountOptions| options.read_only = read_only;
        let Some(mounted) = mount_with(small_tree(), options) else {
            return;
        };
        let wrong: Vec<_> = refusals(&mounted)
            .into_iter()
            .filter(|(_, code)| *code != Some(Errno::ROFS.raw_os_error()))
            .collect();
        assert_eq!(wrong, [], "read_only: {read_only}");
        assert_eq!(fs::read(mounted.path("file")).unwrap(), b"hello");
    }
}

#[test]
fn the_table_names_the_dataset() {
    let options = |options: &mut MountOptions| {
        options.source = "tank/with space,comma".into();
        options.devices = false;
        options.executables = false;
    };
    let Some(mounted) = mount_with(small_tree(), options) else {
        return;
    };
    let entries = own_mounts().unwrap();
    let ours = entries
        .iter()
        .find(|entry| entry.mount_point == mounted.root())
        .unwrap();
    assert_eq!(ours.source, "tank/with space,comma");
    assert!(ours.read_only);
    assert!(!is_stale(ours));
    let (major, minor) = ours.device;
    let read_ahead = fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"));
    assert_eq!(read_ahead.unwrap().trim(), "1024");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table
        .lines()
        .find(|line| line.contains(mounted.root().to_str().unwrap()))
        .unwrap();
    assert!(line.contains("nodev") && line.contains("noexec") && !line.contains("nosuid"));
}

#[test]
fn unmounting_waits_for_open_files() {
    let _one = one_namespace();
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let root = mounted.root().to_owned();
    let mut file = File::open(mounted.path("file")).unwrap();
    let refused = mounted.mount.unmount(UnmountMode::Normal);
    assert!(matches!(refused, Err(MountError::Busy)), "{refused:?}");
    assert!(mounted.mount.is_serving() && is_listed(&root));
    mounted.mount.unmount(UnmountMode::Lazy).unwrap();
    assert!(!is_listed(&root));
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
    assert!(mounted.mount.is_serving());
    assert!(matches!(
        mounted.mount.unmount(UnmountMode::Normal),
        Err(MountError::Busy)
    ));
    drop(file);
    assert!(mounted.mount.wait(Some(Duration::from_secs(5))));
    unmount(&mounted.mount);
}

#[test]
fn a_normal_unmount_ends_everything() {
    let _one = one_namespace();
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    assert_eq!(fs::read(mounted.path("file")).unwrap(), b"hello");
    unmount(&mounted.mount);
    assert!(!mounted.mount.is_serving());
    assert_eq!(mounted.mount.workers(), 0);
    assert!(!is_listed(mounted.root()));
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 0);
}

#[test]
fn force_cuts_open_files_off() {
    let _one = one_namespace();
    for lazily_first in [false, true] {
        let Some(mounted) = mount(small_tree()) else {
            return;
        };
        let mut file = File::open(mounted.path("file")).unwrap();
        if lazily_first {
            mounted.mount.unmount(UnmountMode::Lazy).unwrap();
        }
        mounted.mount.unmount(UnmountMode::Force).unwrap();
        assert!(!mounted.mount.is_serving());
        let code = file.read(&mut [0; 10]).unwrap_err().raw_os_error();
        assert!(
            [Errno::NOTCONN, Errno::CONNABORTED]
                .map(|errno| Some(errno.raw_os_error()))
                .contains(&code),
            "{code:?}"
        );
    }
}

#[test]
fn somebody_elses_unmount_is_noticed() {
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    assert!(
        Command::new("umount")
            .arg(mounted.root())
            .status()
            .unwrap()
            .success()
    );
    assert!(mounted.mount.wait(Some(Duration::from_secs(5))));
    unmount(&mounted.mount);
}

/// An unmount waited for a container's copy of the mount until it timed out, and then forgot it
/// while it was still served.
#[test]
fn what_another_namespace_keeps_is_named_and_can_be_ended() {
    let _more = more_namespaces();
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let script = "exec 9<\"$0\" && echo ready && exec sleep 600";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    let (mut child, _) = start(command.arg(mounted.path("file")));
    unmount(&mounted.mount);
    assert!(mounted.mount.is_serving() && !is_listed(mounted.root()));
    let holders = mounted.mount.holders();
    // Other tests, too, make namespaces, which begin with a copy of this mount.
    let holder = holders.iter().find(|holder| holder.pid == child.id());
    let holder = holder.unwrap_or_else(|| panic!("{holders:?}"));
    assert!(holder.is_used, "{holder:?}");
    assert_eq!(holder.mount_point, mounted.root());
    assert!(mounted.mount.end());
    assert!(!mounted.mount.is_serving());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A container's copy of a mount made an unmount succeed under files that were open outside of it.
#[test]
fn another_namespace_does_not_excuse_what_is_open_here() {
    let _more = more_namespaces();
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let mut command = Command::new("unshare");
    let script = "echo ready && exec sleep 600";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    let (mut child, _) = start(&mut command);
    let file = File::open(mounted.path("file")).unwrap();
    mounted.mount.unmount(UnmountMode::Lazy).unwrap();
    let holders = mounted.mount.holders();
    assert!(holders.iter().any(|holder| holder.pid == child.id()));
    let refused = mounted.mount.unmount(UnmountMode::Normal);
    assert!(matches!(refused, Err(MountError::Busy)), "{refused:?}");
    drop(file);
    unmount(&mounted.mount);
    assert!(mounted.mount.end());
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Between the removal of a dead mount and the next one at the same place, what programs wrote
/// came to lie in the directory below.
#[test]
fn a_dead_mount_is_replaced_in_one_step() {
    if !can_mount() {
        return;
    }
    let parent = directory();
    let place = parent.path().join("place");
    fs::create_dir(&place).unwrap();
    for _ in 0..5 {
        let (mut child, _) = start(Command::new(SERVER).arg(&place));
        child.kill().unwrap();
        child.wait().unwrap();
        let is_over = AtomicBool::new(false);
        let mount = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let made = File::create(place.join("new"));
                    assert!(made.is_err(), "it was made below");
                }
            });
            let mount = Mount::new(Arc::new(small_tree()), &place, &MountOptions::new("x"));
            is_over.store(true, Ordering::Relaxed);
            mount
        });
        unmount(&mount.unwrap());
        assert!(!is_listed(&place));
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }
}

#[test]
fn a_moved_mount_is_found_and_a_covered_one_spared() {
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let cover = Mount::new(
        Arc::new(small_tree()),
        mounted.root(),
        &MountOptions::new("cover"),
    )
    .unwrap();
    assert!(matches!(
        mounted.mount.unmount(UnmountMode::Lazy),
        Err(MountError::Busy)
    ));
    unmount(&cover);
    let elsewhere = directory();
    let moved = Command::new("mount")
        .arg("--move")
        .args([mounted.root(), elsewhere.path()])
        .output()
        .unwrap();
    if !moved.status.success() {
        skip!("mounts cannot be moved here");
        return;
    }
    unmount(&mounted.mount);
    assert!(!is_listed(elsewhere.path()));
}

#[test]
fn dropping_unmounts() {
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let root = mounted.root().to_owned();
    drop(mounted);
    assert!(!is_listed(&root));
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    if !can_mount() {
        return;
    }
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, b"").unwrap();
    for path in [
        file.clone(),
        directory.path().join("absent"),
        directory.path().join("a/b"),
    ] {
        let refused = Mount::new(Arc::new(small_tree()), &path, &MountOptions::new("x"));
        assert!(
            matches!(refused, Err(MountError::MountPoint { .. })),
            "{refused:?}"
        );
    }
    let mut options = MountOptions::new("x");
    options.device = directory.path().join("no-device");
    let refused = Mount::new(Arc::new(small_tree()), directory.path(), &options);
    assert!(
        matches!(refused, Err(MountError::Device { .. })),
        "{refused:?}"
    );
}

fn cleared(prefix: &Path) -> Vec<std::path::PathBuf> {
    let outcome = clear_stale_mounts(prefix).unwrap();
    assert!(outcome.failed.is_empty(), "{outcome:?}");
    outcome.cleared
}

/// Starts the serving program and waits for its `ready`; gives what it printed before.
fn start(command: &mut Command) -> (Child, Vec<String>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line == "ready" {
            return (child, lines);
        }
        lines.push(line);
    }
    panic!("the server ended early: {:?} {lines:?}", child.wait());
}

#[test]
fn a_killed_server_leaves_nothing_that_stays() {
    if !can_mount() {
        return;
    }
    let parent = directory();
    let place = parent.path().join("a \\ b");
    for _ in 0..2 {
        fs::create_dir_all(&place).unwrap();
        let (mut child, _) = start(Command::new(SERVER).arg(&place));
        // The root's attributes are now in the kernel's cache: a plain stat would still succeed.
        fs::metadata(&place).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        wait_for("the mount is dead", || {
            own_mounts()
                .unwrap()
                .iter()
                .any(|entry| entry.mount_point == place && is_stale(entry))
        });
        assert!(fs::read_dir(&place).is_err());
        // Another prefix is left alone.
        assert_eq!(cleared(&parent.path().join("other")), [] as [&Path; 0]);
        assert!(is_listed(&place));
        let mount = Mount::new(Arc::new(small_tree()), &place, &MountOptions::new("x")).unwrap();
        assert_eq!(fs::read(place.join("file")).unwrap(), b"hello");
        drop(mount);
        assert!(!is_listed(&place));
    }
    let (mut child, _) = start(Command::new(SERVER).arg(&place));
    assert_eq!(cleared(parent.path()), [] as [&Path; 0]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(cleared(parent.path()), [place.as_path()]);
    assert!(!is_listed(&place));
}

/// A copy of the server that the user `nobody` can run, and a directory that `nobody` owns.
fn for_nobody(parent: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (program, place) = (parent.join("server"), parent.join("place"));
    // By another process: a test that forks at this moment would keep our copy open for writing,
    // and what is open for writing cannot be run.
    let copied = Command::new("cp").arg(SERVER).arg(&program).status();
    assert!(copied.unwrap().success());
    fs::create_dir(&place).unwrap();
    std::os::unix::fs::chown(&place, Some(NOBODY), Some(NOBODY)).unwrap();
    (program, place)
}

/// A device node of the FUSE driver that everybody may open, as most systems have it.
fn open_device(parent: &Path) -> std::path::PathBuf {
    let device = parent.join("fuse");
    let (kind, number) = (
        rustix::fs::FileType::CharacterDevice,
        rustix::fs::makedev(10, 229),
    );
    let (all, here) = (Mode::from_raw_mode(0o666), rustix::fs::CWD);
    rustix::fs::mknodat(here, &device, kind, all, number).unwrap();
    fs::set_permissions(&device, fs::Permissions::from_mode(0o666)).unwrap();
    device
}

/// Runs the named test again where `/dev/fuse` is open to everybody, if it is not here.
/// Returns whether that was done.
fn ran_with_open_device(test: &str) -> bool {
    const GUARD: &str = "CENOTE_FUSE_OPEN_DEVICE";
    let mode = fs::metadata("/dev/fuse").unwrap().permissions().mode();
    if mode & 0o006 == 0o006 || std::env::var_os(GUARD).is_some() {
        return false;
    }
    let _more = more_namespaces();
    let parent = directory();
    let script = "mount --bind \"$1\" /dev/fuse && exec \"$2\" --exact \"$3\" --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .args([open_device(parent.path()), std::env::current_exe().unwrap()])
        .arg(test)
        .env(GUARD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // A name that has changed would find no test, and succeed.
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{output:?}"
    );
    true
}

#[test]
fn nobody_mounts_by_helper() {
    if !can_mount() || !has_program("fusermount3") {
        return;
    }
    if ran_with_open_device("lifecycle::nobody_mounts_by_helper") {
        return;
    }
    let parent = directory();
    let (program, place) = for_nobody(parent.path());
    let (mut child, _) = start(as_nobody(&program).arg(&place));
    assert!(is_listed(&place));
    let listed = as_nobody("ls").arg(&place).output().unwrap();
    assert_eq!(
        listed.stdout.iter().filter(|byte| **byte == b'\n').count(),
        101
    );
    // The kernel excludes other users, even root.
    assert!(fs::read_dir(&place).is_err());
    let unmounted = as_nobody("fusermount3")
        .arg("-u")
        .arg(&place)
        .status()
        .unwrap();
    assert!(unmounted.success());
    assert!(child.wait().unwrap().success());
    assert!(!is_listed(&place));
    // What a killed one leaves, its next start clears.
    let (mut child, _) = start(as_nobody(&program).arg(&place));
    child.kill().unwrap();
    child.wait().unwrap();
    let (mut child, _) = start(as_nobody(&program).arg(&place));
    assert!(
        as_nobody("fusermount3")
            .arg("-u")
            .arg(&place)
            .status()
            .unwrap()
            .success()
    );
    assert!(child.wait().unwrap().success());
}

#[test]
fn nobody_mounts_in_a_namespace() {
    let _more = more_namespaces();
    if !can_mount() {
        return;
    }
    let parent = directory();
    let (program, place) = for_nobody(parent.path());
    let device = open_device(parent.path());
    let mut command = as_nobody(&program);
    command
        .arg(&place)
        .arg("--namespace")
        .arg("--device")
        .arg(&device);
    let mut probe = as_nobody("unshare");
    if !probe
        .args(["--user", "true"])
        .status()
        .is_ok_and(|status| status.success())
    {
        skip!("ordinary users may not make user namespaces");
        return;
    }
    let (mut child, listed) = start(&mut command);
    assert_eq!(listed.len(), 101, "{listed:?}");
    assert!(
        !is_listed(&place),
        "the mount is visible outside its namespace"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_kernel_forgets_what_it_is_told_to() {
    let Some(mounted) = mount(small_tree()) else {
        return;
    };
    let metrics = mounted.mount.metrics();
    let notifier = mounted.mount.notifier();
    let stat = |name: &str| fs::metadata(mounted.path(name)).is_ok();
    let lookups = |names: [&str; 2]| {
        let before = metrics.operation("lookup");
        for name in names {
            stat(name);
        }
        metrics.operation("lookup") - before
    };
    assert_eq!(lookups(["file", "absent"]), 2);
    assert_eq!(
        lookups(["file", "absent"]),
        0,
        "names are cached for ever, absent ones too"
    );
    notifier.invalidate_entry(NodeId::ROOT, b"file").unwrap();
    assert_eq!(lookups(["file", "absent"]), 1);
    notifier.invalidate_entry(NodeId::ROOT, b"absent").unwrap();
    notifier
        .invalidate_entry(NodeId::ROOT, b"never heard of")
        .unwrap();
    assert_eq!(lookups(["file", "absent"]), 1);
    if notifier.invalidate_all_entries().is_ok() {
        assert_eq!(lookups(["file", "absent"]), 2);
    }
    // Programs that ask for the time of birth make the kernel use statx.
    let asked = || metrics.operation("getattr") + metrics.operation("statx");
    assert!(stat("file"));
    let before = asked();
    assert!(stat("file"));
    assert_eq!(asked(), before, "attributes are cached for ever");
    notifier.invalidate_attributes(NodeId(2)).unwrap();
    assert!(stat("file"));
    assert_eq!(asked(), before + 1);
    notifier.invalidate_node(NodeId::ROOT).unwrap();
    assert_eq!(fs::read_dir(mounted.root()).unwrap().count(), 2);
}
