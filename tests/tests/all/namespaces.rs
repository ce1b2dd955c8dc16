//! Mounts in other mount namespaces, and mounts whose daemon has ended.

use anyhow::{Context, Result, ensure};
use cenote_tests::patience::wait_until;
use cenote_tests::pool;
use cenote_tests::site::Site;
use cenote_tests::skip;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A process with a copy of all mounts that does not follow the tree any more, as a container has.
struct Namespace(Child);

impl Namespace {
    /// In which `script` runs once it is there.
    fn new(script: &str) -> Result<Option<Self>> {
        let script = format!("echo ready; {script}; exec sleep 600");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let Ok(mut child) = command.stdout(Stdio::piped()).spawn() else {
            skip!("no mount namespaces can be made here");
            return Ok(None);
        };
        let mut byte = [0];
        let mut pipe = child.stdout.take().context("its output")?;
        std::io::Read::read_exact(&mut pipe, &mut byte)?;
        Ok(Some(Self(child)))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_suspended(site: &Site) -> Result<bool> {
    Ok(site.ok("zpool status tank")?.contains("SUSPENDED"))
}

/// With any container about, `zfs destroy` closed a head that its session still had. The session's
/// last reads made the closed head dirty, and the pool was suspended.
#[test]
fn a_mount_that_lives_on_elsewhere_stops_no_pool() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "-O relatime=off")?;
    site.ok("zfs create tank/gone")?;
    site.ok("zfs create tank/used")?;
    for name in ["gone", "used"] {
        fs::write(site.path("tank").join(name).join("file"), "contents")?;
    }
    site.ok("zpool sync tank")?;
    fs::read(site.path("tank/gone/file"))?;
    let used = site.path("tank/used/file").display().to_string();
    let Some(namespace) = Namespace::new(&format!("exec 9<'{used}'"))? else {
        return Ok(());
    };
    // Nothing there uses the one; a file of the other is open.
    site.ok("zfs destroy tank/gone")?;
    let descriptor = format!("/proc/{}/fd/9", namespace.0.id());
    wait_until(
        "the file is open",
        || Ok(fs::read_link(&descriptor).is_ok()),
    )?;
    let busy = site.fails("zfs destroy tank/used")?;
    let process = format!("of process {}", namespace.0.id());
    ensure!(busy.stderr.contains(&process), "{}", busy.report());
    let busy = site.fails("zpool export tank")?;
    ensure!(busy.stderr.contains("mount namespace"), "{}", busy.report());
    ensure!(!is_suspended(&site)?);
    // What was refused left all as it was.
    ensure!(fs::read(site.path("tank/used/file"))? == b"contents");
    let mut file = File::create(site.path("tank/after"))?;
    file.write_all(b"important")?;
    file.sync_all()?;
    drop(file);
    site.ok("zpool export -f tank")?;
    site.import("")?;
    ensure!(fs::read(site.path("tank/after"))? == b"important");
    site.ok("zfs destroy tank/used")?;
    drop(namespace);
    site.finish()
}

/// One `unshare --mount` of a stranger made every export fail: "pool is busy". Service managers
/// make such copies all the time.
#[test]
fn an_idle_copy_of_all_mounts_is_in_nobodys_way() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create tank/data")?;
    fs::write(site.path("tank/data/file"), "contents")?;
    // A mount made on purpose in another place counts as in use, even if it is idle.
    let aside = site.cenote().subdirectory("aside")?;
    let data = site.path("tank/data");
    let bind = format!(
        "mount --bind '{}' '{}'; : >'{}/ready'",
        data.display(),
        aside.display(),
        site.devices().display()
    );
    let Some(namespace) = Namespace::new(&bind)? else {
        return Ok(());
    };
    let ready = site.devices().join("ready");
    wait_until("it is mounted there", || Ok(ready.exists()))?;
    let busy = site.fails("zpool export tank")?;
    let process = format!("process {}", namespace.0.id());
    ensure!(busy.stderr.contains(&process), "{}", busy.report());
    ensure!(fs::read(site.path("tank/data/file"))? == b"contents");
    drop(namespace);
    let Some(_namespace) = Namespace::new("true")? else {
        return Ok(());
    };
    site.export()?;
    site.import("")?;
    ensure!(fs::read(site.path("tank/data/file"))? == b"contents");
    site.finish()
}

/// A mount requested in a container used to appear in the daemon's namespace.
#[test]
fn a_mount_is_where_its_caller_is() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    site.ok("zfs create -o mountpoint=legacy tank/by-hand")?;
    let place = site.devices().join("place");
    fs::create_dir(&place)?;
    let command = site.cenote().command("mount.zfs", &["tank/by-hand"]);
    let mut inside = Command::new("unshare");
    let script = "\"$0\" tank/by-hand \"$1\" && echo inside > \"$1/file\" && cat \"$1/file\"";
    inside.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    inside.arg(command.get_program()).arg(&place);
    for (name, value) in command.get_envs() {
        inside.env(name, value.unwrap_or_default());
    }
    let output = inside.output()?;
    ensure!(output.stdout == b"inside\n", "{output:?}");
    ensure!(
        fs::read_dir(&place)?.next().is_none(),
        "it is out here, too"
    );
    // The mount ends with its namespace, and does not keep the dataset busy.
    wait_until("the mount ended", || {
        Ok(site.ok("cenote daemon status")?.contains("ONLINE, 1 mount"))
    })?;
    site.finish()
}

/// The lines of the kernel's table for a place.
fn mounts_at(place: &Path) -> Result<usize> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let place = format!(" {} ", place.display());
    Ok(table.lines().filter(|line| line.contains(&place)).count())
}

/// A daemon that starts took dead mounts away, by their paths. What programs wrote until the next
/// import, and was acknowledged, lay in the directory below; and where the owner had mounted again
/// meanwhile, the live mount was taken away.
#[test]
fn nothing_is_written_below_a_dead_mount() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    let root = site.path("tank");
    for _ in 0..3 {
        site.kill()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = {
            let (is_over, root) = (Arc::clone(&is_over), root.clone());
            std::thread::spawn(move || {
                let mut written = Vec::new();
                for number in 0.. {
                    let path = root.join(format!("file-{number}"));
                    if fs::write(&path, b"acknowledged").is_ok() {
                        written.push(path);
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                }
                written
            })
        };
        site.start()?;
        ensure!(mounts_at(&root)? == 1, "the dead mount stays");
        site.import("")?;
        ensure!(mounts_at(&root)? == 1, "and is replaced");
        is_over.store(true, Ordering::Relaxed);
        let written = writer.join().ok().context("no panic")?;
        for path in written {
            let found = fs::read(&path).with_context(|| path.display().to_string())?;
            ensure!(found == b"acknowledged");
            fs::remove_file(path)?;
        }
    }
    site.export()?;
    let below = fs::read_dir(&root);
    ensure!(below.map_or(0, Iterator::count) == 0, "something is below");
    site.judge()
}

/// A thread that waits for a FUSE server cannot be killed: where that server is its own process,
/// nothing ended it, and the devices stayed in use.
#[test]
fn a_daemon_with_a_device_on_its_own_mount_can_be_killed() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 512, "")?;
    let device = site.path("tank/inner.img");
    File::create(&device)?.set_len(128 << 20)?;
    let (root, device) = (site.path("in"), device.display());
    site.ok(&format!(
        "zpool create -f -R {} inner {device}",
        root.display()
    ))?;
    let place = root.join("inner");
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let is_over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let file = File::create(place.join("file"));
                let synced = file.and_then(|mut file| {
                    file.write_all(&[7; 1 << 16])?;
                    file.sync_all()
                });
                if synced.is_err() {
                    break;
                }
            }
        })
    };
    std::thread::sleep(std::time::Duration::from_millis(500));
    // It returns when the process is gone.
    let (sender, receiver) = std::sync::mpsc::channel();
    let killed = std::thread::scope(|scope| {
        scope.spawn(|| sender.send(site.kill()));
        receiver.recv_timeout(std::time::Duration::from_secs(60))
    });
    is_over.store(true, Ordering::Relaxed);
    killed.context("the daemon does not end")??;
    writer.join().ok().context("no panic")?;
    site.start()?;
    site.import("")?;
    site.finish()
}

/// `zfs create` said so and exited 0.
#[test]
fn what_cannot_be_mounted_is_a_failure() -> Result<()> {
    if !pool::can_mount() {
        return Ok(());
    }
    let site = Site::create("single", 128, "")?;
    for name in ["new", "clone", "renamed", "above", "received"] {
        fs::write(site.path("tank").join(name), "a file is in the way")?;
    }
    site.ok("zfs create tank/good")?;
    site.ok("zfs snapshot tank/good@one")?;
    let stream = site.devices().join("stream");
    let sent = site.cenote().run("zfs", &["send", "tank/good@one"])?;
    fs::write(&stream, sent.success()?.stdout)?;
    for line in [
        "zfs create tank/new",
        "zfs create -p tank/above/below",
        "zfs clone tank/good@one tank/clone",
        "zfs rename tank/good tank/renamed",
    ] {
        let failed = site.fails(line)?;
        let name = line.split(' ').next_back().unwrap_or_default();
        ensure!(failed.code == Some(1), "{}", failed.report());
        ensure!(
            failed.stderr.contains("cannot mount"),
            "{}",
            failed.report()
        );
        site.ok(&format!("zfs list {name}"))?;
    }
    let mut receive = site.cenote().command("zfs", &["receive", "tank/received"]);
    let received = receive.stdin(File::open(&stream)?).output()?;
    ensure!(received.status.code() == Some(1), "{received:?}");
    site.ok("zfs list tank/received@one")?;
    let failed = site.fails("zfs mount -a")?;
    ensure!(failed.code == Some(1), "{}", failed.report());
    site.finish()
}
