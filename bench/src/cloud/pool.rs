//! A pool in the bucket, by commands and by programs that know nothing of it.

use super::files::{Files, Noise};
use super::line::{KEY, Line, SECRET, Traffic};
use super::report::{Bar, Report};
use crate::read::machine::drop_caches;
use crate::read::product::program;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a daemon may take until it listens.
const STARTING: Duration = Duration::from_secs(10);

/// Small files that are read one after the other, and the bytes of each.
const SMALL_COUNT: usize = 680;
const SMALL_BYTES: usize = 52 << 10;

/// A machine with a daemon, and what lies on its side.
struct Machine {
    cenote: PathBuf,
    daemon: Child,
    place: PathBuf,
}

/// Runs a program to its end.
fn run(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{command:?} failed: {}",
        errors.trim()
    );
    Ok(())
}

impl Machine {
    fn start(place: &Path) -> Result<Self> {
        std::fs::create_dir_all(place.join("mount"))?;
        let cenote = program("cenote", "cenote")?;
        let socket = place.join("socket");
        let _ = std::fs::remove_file(&socket);
        let daemon = Command::new(&cenote)
            .args(["daemon", "run", "--memory", "256M"])
            .env("CENOTE_SOCKET", &socket)
            .env("CENOTE_STATE", place.join("state/cenote"))
            .env("XDG_STATE_HOME", place.join("state"))
            .env("AWS_ACCESS_KEY_ID", KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
            .env_remove("AWS_ENDPOINT_URL")
            .stdin(Stdio::null())
            .spawn()?;
        let machine = Self {
            cenote,
            daemon,
            place: place.into(),
        };
        let limit = Instant::now() + STARTING;
        while !socket.exists() {
            ensure!(Instant::now() < limit, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(machine)
    }

    fn mount(&self) -> PathBuf {
        self.place.join("mount")
    }

    /// Runs `cenote` with these words.
    fn run(&self, line: &str) -> Result<()> {
        let mut command = Command::new(&self.cenote);
        let socket = self.place.join("socket");
        run(command.args(line.split(' ')).env("CENOTE_SOCKET", socket))
    }

    /// Has everything in the store.
    fn upload(&self) -> Result<()> {
        self.run("cloud sync -q tank")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.run("daemon stop -f");
        let limit = Instant::now() + STARTING;
        while Instant::now() < limit {
            if matches!(self.daemon.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn rsync(from: &Path, to: &Path) -> Result<()> {
    let from = format!("{}/", from.display());
    run(Command::new("rsync").arg("-a").arg(from).arg(to))
}

fn list(path: &Path, wanted: u64) -> Result<()> {
    let output = Command::new("find").arg(path).arg("-ls").output()?;
    let files = output.stdout.split(|byte| *byte == b'\n');
    let files = files.filter(|line| line.ends_with(b".dat")).count() as u64;
    if !output.status.success() || files != wanted {
        bail!("find -ls shows {files} files of {wanted}");
    }
    Ok(())
}

pub(super) fn measure(
    line: &Line,
    place: &Path,
    files: &Files,
    idle: u64,
    report: &mut Report,
) -> Result<()> {
    report.part("pool");
    let machine = Machine::start(place)?;
    let name = line.name("pool");
    let (cost, ()) = line.measure(|| {
        let mount = machine.mount();
        let options = "-O compression=zstd -O recordsize=1M -O atime=off";
        let create = format!("zpool create {options} -m {} tank", mount.display());
        machine.run(&format!("{create} {name}&size=1T"))
    })?;
    report.put("zpool create, with the probe", &cost, Bar::NONE);
    write(line, &machine, files, report)?;
    let (cost, ()) = line.measure(|| {
        std::thread::sleep(Duration::from_secs(idle));
        Ok(())
    })?;
    report.put(&format!("idle for {idle} s"), &cost, Bar::new(f64::MAX, 0));
    read(line, machine, files, report)
}

fn write(line: &Line, machine: &Machine, files: &Files, report: &mut Report) -> Result<()> {
    let mount = machine.mount();
    let (copied, ()) = line.measure(|| {
        let target = mount.join("large");
        run(Command::new("cp").arg(&files.large).arg(target))?;
        run(Command::new("sync").arg("-f").arg(&mount))
    })?;
    report.put("96.4 MB file, cp and sync", &copied, Bar::NONE);
    let (rest, ()) = line.measure(|| machine.upload())?;
    let bar = Bar {
        sent: Some(68_300_000),
        ..Bar::new(25.0, 60)
    };
    report.put("96.4 MB file, in the store", &copied.and(&rest), bar);
    let tree = mount.join("tree");
    let (copied, ()) = line.measure(|| rsync(&files.tree, &tree))?;
    let (rest, ()) = line.measure(|| machine.upload())?;
    report.put("rsync of the tree, returned", &copied, Bar::NONE);
    let bar = Bar {
        sent: Some(25_000_000),
        ..Bar::new(15.0, 100)
    };
    report.put("rsync of the tree, in the store", &copied.and(&rest), bar);
    make_small(&mount.join("small"))?;
    let (cost, ()) = line.measure(|| rsync(&files.tree, &tree))?;
    report.put("rsync, unchanged", &cost, Bar::new(0.5, 0));
    // What reading left to be written is not part of what follows.
    machine.upload()
}

fn read(line: &Line, machine: Machine, files: &Files, report: &mut Report) -> Result<()> {
    let name = line.name("pool");
    let import = format!("zpool import -d {name} tank");
    let tree = machine.mount().join("tree");
    let count = walk(&files.tree)?;
    let (cost, ()) = line.measure(|| machine.run("zpool export tank"))?;
    report.put("export", &cost, Bar::NONE);
    drop_caches()?;
    let (imported, ()) = line.measure(|| machine.run(&import))?;
    report.put("import, cache kept", &imported, Bar::new(1.0, 10));
    let (found, ()) = line.measure(|| list(&tree, count))?;
    let bar = Bar::new(3.0, 20);
    report.put(
        "import and find -ls, cache kept",
        &imported.and(&found),
        bar,
    );
    let (cost, ()) = line.measure(|| list(&tree, count))?;
    report.put("find -ls again", &cost, Bar::NONE);
    let (cost, ()) = line.measure(|| machine.run("zpool export tank"))?;
    report.put("export, unchanged", &cost, Bar::new(0.3, 3));
    let place = machine.place.clone();
    drop(machine);
    std::fs::remove_dir_all(place.join("state"))?;
    drop_caches()?;
    let machine = Machine::start(&place)?;
    let (imported, ()) = line.measure(|| machine.run(&import))?;
    report.put("import, everything local lost", &imported, Bar::NONE);
    let (found, ()) = line.measure(|| list(&tree, count))?;
    let bar = Bar {
        received: Some(6_000_000),
        ..Bar::new(5.0, 120)
    };
    report.put("import and find -ls, all lost", &imported.and(&found), bar);
    let (cost, ()) = line.measure(|| read_all(&machine.mount().join("small")))?;
    // Seven tenths of what the line of 12 MB/s could bring.
    let bar = Bar::new(4.2, 120);
    report.put("680 small files, one after the other", &cost, bar);
    let (cost, ()) = line.measure(|| {
        let large = machine.mount().join("large");
        run(Command::new("cmp").arg(large).arg(&files.large))
    })?;
    report.put("96.4 MB file, read", &cost, Bar::NONE);
    machine.run("zpool destroy tank")
}

fn make_small(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut noise = Noise::new(3);
    for number in 0..SMALL_COUNT {
        let path = directory.join(format!("file-{number:03}"));
        std::fs::write(path, noise.bytes(SMALL_BYTES))?;
    }
    Ok(())
}

/// Reads the files of a directory one after the other, as they are listed.
fn read_all(directory: &Path) -> Result<()> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        bytes += std::fs::read(entry?.path())?.len();
    }
    ensure!(bytes == SMALL_COUNT * SMALL_BYTES, "{bytes} bytes came");
    Ok(())
}

/// How many files a tree has.
fn walk(root: &Path) -> Result<u64> {
    let mut count = 0;
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => open.push(entry.path()),
                false => count += 1,
            }
        }
    }
    Ok(count)
}

impl Traffic {
    /// Both, one after the other.
    fn and(&self, next: &Self) -> Self {
        Self {
            seconds: self.seconds + next.seconds,
            requests: self.requests + next.requests,
            sent: self.sent + next.sent,
            received: self.received + next.received,
            kinds: format!("{}; {}", self.kinds, next.kinds),
        }
    }
}
