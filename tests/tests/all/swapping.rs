//! Swap: a volume written to when memory is short must not wait for memory itself.
//!
//! The daemon of this test has the memory limit that the handbook recommends for swap. If possible,
//! it also runs in a control group: there the kernel kills processes that need more. A client
//! writes to the whole volume at random, as fast as it can and without a flush, from four
//! connections. Its requests have the sizes that swapping makes.

use anyhow::{Context, Result, ensure};
use cenote_tests::nbd::program;
use cenote_tests::patience::wait_until;
use cenote_tests::program::{Cenote, resident_memory_max};
use cenote_tests::{missing, skip};
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the handbook says that such a daemon takes.
const MEMORY_MAX: u64 = 256 << 20;

/// Writes about 100 MiB, each page with its number and that of the round, and reads it all back.
const SWAPPER: &str = "
import os, random, threading
import nbd
page, pages, uri = 4096, 256 << 8, os.environ['EXPORT']
found = []
def swap(part):
    r = random.Random(part)
    h = nbd.NBD()
    h.connect_uri(uri)
    mine = range(part * pages // 4, (part + 1) * pages // 4)
    last = {}
    for turn in range(150):
        count = r.choice([1, 8, 32, 128])
        first = r.randrange(mine.start, mine.stop - count)
        tags = [b'%8d%8d' % (at, turn) for at in range(first, first + count)]
        h.pwrite(b''.join(tag * (page // 16) for tag in tags), first * page)
        last.update(zip(range(first, first + count), tags))
    for at, tag in last.items():
        if h.pread(page, at * page) != tag * (page // 16):
            found.append(at)
    h.shutdown()
threads = [threading.Thread(target=swap, args=(part,)) for part in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not found, found[:10]
print('done')
";

/// A control group with little memory.
struct Group(PathBuf);

impl Group {
    /// `None` where none can be made.
    fn new(limit: u64) -> Option<Self> {
        let name = format!("cenote-swapping-{}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        kinds.into_iter().find_map(|(parent, file)| {
            let group = Self(Path::new(parent).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        })
    }

    fn add(&self, process: u32) -> Result<()> {
        let processes = self.0.join("cgroup.procs");
        fs::write(processes, process.to_string()).context("the control group")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// A daemon that is killed with the test.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The handbook said how much memory a daemon with a swapping client takes, and no test did.
#[test]
fn a_volume_takes_writes_while_memory_is_short() -> Result<()> {
    if Command::new("nbdsh").arg("--version").output().is_err() {
        missing!("nbdsh is not installed");
        return Ok(());
    }
    let group = Group::new(MEMORY_MAX);
    if group.is_none() {
        skip!("no control group limits memory here: only what the daemon takes is looked at");
    }
    let cenote = Cenote::new()?;
    let device = cenote.directory().join("device");
    File::create(&device)?.set_len(1 << 30)?;
    let mut command = cenote.command("cenote", &["daemon", "run", "--memory", "64M"]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut daemon = Daemon(command.stderr(Stdio::null()).spawn()?);
    if let Some(group) = &group {
        group.add(daemon.0.id())?;
    }
    let socket = cenote.socket();
    wait_until("the daemon listens", || {
        Ok(UnixStream::connect(&socket).is_ok())
    })?;
    let device = device.display();
    cenote.ok(&format!("zpool create -O mountpoint=none tank {device}"))?;
    let how = "-b 4k -o compression=off -o primarycache=metadata";
    cenote.ok(&format!("zfs create -V 256M {how} tank/swap"))?;
    let uri = cenote.ok("cenote nbd serve tank/swap")?;
    let mut swapper = program("nbdsh", &["-n", "-c", SWAPPER]);
    let swapped = swapper.env("EXPORT", uri.trim()).output()?;
    let text = String::from_utf8_lossy(&swapped.stderr);
    ensure!(swapped.status.success(), "{text}");
    ensure!(daemon.0.try_wait()?.is_none(), "the daemon ended");
    let most = resident_memory_max(daemon.0.id()).context("it runs")?;
    ensure!(most < MEMORY_MAX, "{} MiB", most >> 20);
    cenote.ok("zpool export -f tank")?;
    drop(daemon);
    drop(group);
    Ok(())
}
