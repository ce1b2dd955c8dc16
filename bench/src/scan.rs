//! Scrubs and resilvers: beside `zdb -bcc`, OpenZFS's own scrub, and a plain copy.
//!
//! All sides read the same pools on files, with cold caches. A scrub does more than `zdb -bcc`,
//! which reads one copy of each block and no parity.

use crate::read::Comparison;
use crate::read::machine::{direct_read_rate, drop_caches, seconds};
use crate::read::rivals::{output, tool};
use crate::write::machine::cpu_seconds_of;
use anyhow::{Context, Result, bail, ensure};
use cenote_tests::referee;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What is to be measured, and where.
#[derive(Debug)]
pub struct Options {
    /// The parts; empty means all.
    pub parts: Vec<String>,
    /// For pools, which are made once.
    pub directory: PathBuf,
    /// Data in each pool, in MiB.
    pub mebibytes: u64,
}

/// A pool, and what is wanted of its scrub.
struct Wanted {
    name: &'static str,
    layout: &'static str,
    /// Bytes of a record.
    record: &'static str,
    /// How often devices have what `zpool list` counts as allocated.
    copies: f64,
    /// How many times as fast as OpenZFS.
    times: f64,
    /// Of the rate of a single reader of a device.
    of_device: f64,
}

const POOLS: [Wanted; 3] = [
    Wanted {
        name: "small",
        layout: "mirror:2",
        record: "8K",
        copies: 2.0,
        times: 4.0,
        of_device: 0.0,
    },
    Wanted {
        name: "large",
        layout: "mirror:2",
        record: "1M",
        copies: 2.0,
        times: 1.0,
        of_device: 0.9,
    },
    Wanted {
        name: "parity",
        layout: "raidz2:6",
        record: "128K",
        copies: 1.0,
        times: 1.0,
        of_device: 0.9,
    },
];

/// A daemon of our own.
struct Daemon {
    cenote: PathBuf,
    directory: tempfile::TempDir,
    process: Child,
}

impl Daemon {
    fn start() -> Result<Self> {
        let cenote = crate::read::product::program("cenote", "cenote")?;
        let directory = tempfile::tempdir()?;
        let process = Command::new(&cenote)
            .args(["daemon", "run", "--memory", "512M"])
            .env("CENOTE_SOCKET", directory.path().join("socket"))
            .env("CENOTE_STATE", directory.path().join("state"))
            .stdin(Stdio::null())
            .spawn()?;
        let daemon = Self {
            cenote,
            directory,
            process,
        };
        let limit = Instant::now() + Duration::from_secs(10);
        while !daemon.socket().exists() {
            ensure!(Instant::now() < limit, "the daemon does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds_of(self.process.id())
    }

    fn zpool(&self, words: &[&OsStr]) -> Result<String> {
        self.run("zpool", words)
    }

    fn zfs(&self, words: &[&str]) -> Result<String> {
        let words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
        self.run("zfs", &words)
    }

    fn run(&self, name: &str, words: &[&OsStr]) -> Result<String> {
        let output = Command::new(&self.cenote)
            .arg0(name)
            .args(words)
            .env("CENOTE_SOCKET", self.socket())
            .output()?;
        if !output.status.success() {
            bail!(
                "{name} {words:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn import(&self, devices: &Path, pool: &str, options: &[&str]) -> Result<()> {
        let root = self.directory.path().join("root");
        std::fs::create_dir_all(&root)?;
        let words = ["import", "-f", "-R"].map(OsStr::new);
        let mut all = words.to_vec();
        all.extend([root.as_os_str(), OsStr::new("-d"), devices.as_os_str()]);
        all.extend(options.iter().map(OsStr::new));
        all.push(OsStr::new(pool));
        self.zpool(&all).map(drop)
    }

    fn words(&self, line: &str) -> Result<String> {
        let words: Vec<&OsStr> = line.split(' ').map(OsStr::new).collect();
        self.zpool(&words)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.words("export -a");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A pool with data, made by OpenZFS's engine; its directory.
fn pool(options: &Options, (name, layout, record): (&str, &str, &str)) -> Result<PathBuf> {
    let directory = options.directory.join(format!("scan-{name}"));
    let done = directory.join("made");
    if done.exists() {
        return Ok(directory);
    }
    std::fs::create_dir_all(&directory)?;
    let bytes = format!("{}M", options.mebibytes);
    let size = format!("{}M", options.mebibytes + options.mebibytes / 2 + 256);
    println!("  (making pool {name}: {layout}, {bytes} in records of {record})");
    let words = [
        "--layout",
        layout,
        "--size",
        &size,
        "--bytes",
        &bytes,
        "--recordsize",
        record,
        "--compression",
        "off",
    ];
    let mut all = vec![
        OsStr::new("bench-write"),
        directory.as_os_str(),
        OsStr::new(name),
    ];
    all.extend(words.iter().map(OsStr::new));
    output(&tool("openzfs-ref")?, &all)?;
    std::fs::write(done, "")?;
    Ok(directory)
}

fn images(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut images: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    images.retain(|path| path.extension().is_some_and(|extension| extension == "img"));
    images.sort();
    Ok(images)
}

/// A scrub of the pool at `directory`: its seconds, and the bytes that it had to read.
fn scrub_once(directory: &Path, name: &str) -> Result<(f64, f64)> {
    let daemon = Daemon::start()?;
    // The datasets of such pools have no files.
    daemon.import(directory, name, &["-N"])?;
    let allocated = daemon.words(&format!("list -Hpo allocated {name}"))?;
    drop_caches()?;
    let before = daemon.cpu_seconds()?;
    let (taken, _) = seconds(|| daemon.words(&format!("scrub -w {name}")))?;
    println!(
        "  (the daemon took {:.2} s of processor time)",
        daemon.cpu_seconds()? - before
    );
    let status = daemon.words(&format!("status {name}"))?;
    ensure!(status.contains("scrub repaired 0B"), "{status}");
    daemon.words(&format!("export {name}"))?;
    Ok((taken, allocated.trim().parse()?))
}

fn scrub(options: &Options) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for wanted in POOLS {
        let (name, layout, record) = (wanted.name, wanted.layout, wanted.record);
        let directory = pool(options, (name, layout, record))?;
        let (ours, allocated) = scrub_once(&directory, name)?;
        drop_caches()?;
        let zdb = referee::find_zdb().context("zdb is not installed")?;
        let mut words = vec![OsStr::new("-e"), OsStr::new("-p"), directory.as_os_str()];
        words.extend([OsStr::new("-bcc"), OsStr::new(name)]);
        let (theirs, _) = seconds(|| output(&zdb, &words))?;
        let what = format!("{layout}, {record}: zdb -bcc");
        comparisons.push(Comparison::seconds(what, ours, theirs, wanted.times));
        drop_caches()?;
        let words = [OsStr::new("scrub"), directory.as_os_str(), OsStr::new(name)];
        let referee = tool("openzfs-ref")?;
        let (theirs, _) = seconds(|| output(&referee, &words))?;
        let what = format!("{layout}, {record}: OpenZFS's scrub");
        comparisons.push(Comparison::seconds(what, ours, theirs, wanted.times));
        drop_caches()?;
        let image = images(&directory)?.into_iter().next().context("an image")?;
        let disk = direct_read_rate(&image, 1 << 30)?;
        let what = format!("{layout}, {record}: an image by direct reads");
        // The figure of `list` is what mirrors have once, and raidz with its parity.
        let read = allocated * wanted.copies;
        let rate = read / 1e6 / ours;
        comparisons.push(Comparison::rates(
            what,
            rate,
            disk,
            "MB/s",
            wanted.of_device,
        ));
    }
    Ok(comparisons)
}

/// Bytes of a file in the pool, to be read and to be resilvered.
struct Mirror {
    daemon: Daemon,
    directory: PathBuf,
    root: PathBuf,
}

impl Mirror {
    /// A new mirror of two files in a directory of this name.
    fn create(options: &Options, name: &str) -> Result<Self> {
        let directory = options.directory.join(name);
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory)?;
        let daemon = Daemon::start()?;
        let root = daemon.directory.path().join("root");
        let mirror = Self {
            daemon,
            directory,
            root,
        };
        let sides = [mirror.side(0), mirror.side(1)];
        for side in &sides {
            let file = std::fs::File::create(side)?;
            file.set_len((options.mebibytes + options.mebibytes / 2 + 256) << 20)?;
        }
        // The file would be a few bytes otherwise.
        let options = ["create", "-O", "compression=off", "-R"];
        let mut words = options.map(OsStr::new).to_vec();
        words.push(mirror.root.as_os_str());
        words.extend(["bench", "mirror"].map(OsStr::new));
        words.extend(sides.iter().map(|side| side.as_os_str()));
        mirror.daemon.zpool(&words)?;
        Ok(mirror)
    }

    fn side(&self, number: u32) -> PathBuf {
        self.directory.join(format!("d{number}.img"))
    }

    fn file(&self) -> PathBuf {
        self.root.join("bench/file")
    }

    fn import(&self) -> Result<()> {
        self.daemon.import(&self.directory, "bench", &[])
    }

    fn export(&self) -> Result<()> {
        self.daemon.words("export bench").map(drop)
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = self.daemon.words("export -f bench");
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One side of a mirror lost everything but its labels, and its log says so.
fn resilver(options: &Options) -> Result<Vec<Comparison>> {
    let mirror = Mirror::create(options, "scan-resilver")?;
    mirror.export()?;
    let old = mirror.directory.join("old");
    std::fs::copy(mirror.side(1), &old)?;
    mirror.import()?;
    crate::write::machine::fill(&mirror.file(), options.mebibytes as usize)?;
    mirror.daemon.words("sync bench")?;
    mirror.export()?;
    std::fs::rename(&old, mirror.side(1))?;
    drop_caches()?;
    let began = Instant::now();
    mirror.import()?;
    let status = loop {
        let status = mirror.daemon.words("status bench")?;
        if status.contains("resilvered") && !status.contains("in progress") {
            break status;
        }
        ensure!(began.elapsed() < Duration::from_secs(300), "{status}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let with_import = began.elapsed().as_secs_f64();
    ensure!(status.contains("with 0 errors"), "{status}");
    let megabytes = options.mebibytes as f64 * 1.048_576;
    mirror.export()?;
    drop_caches()?;
    let (import, ()) = seconds(|| mirror.import())?;
    mirror.export()?;
    let ours = with_import - import;
    println!("  ({ours:.2} s, and {import:.2} s for the import)");
    // A copy of as many bytes from one file to another, as `cp` and `sync` would do it.
    let (plain, copy) = (
        mirror.directory.join("plain"),
        mirror.directory.join("copy"),
    );
    crate::write::machine::fill(&plain, options.mebibytes as usize)?;
    drop_caches()?;
    let (theirs, _) = seconds(|| {
        std::fs::copy(&plain, &copy)?;
        Ok(std::fs::File::open(&copy)?.sync_all()?)
    })?;
    let what = "resilver of a side, against cp and sync";
    let (rate, copy) = (megabytes / ours, megabytes / theirs);
    Ok(vec![Comparison::rates(what, rate, copy, "MB/s", 0.8)])
}

/// Seconds for which reads are counted.
const READING: f64 = 4.0;

/// Random reads of a file while its pool is scrubbed again and again, against alone.
fn readers(options: &Options) -> Result<Vec<Comparison>> {
    let mirror = Mirror::create(options, "scan-readers")?;
    let daemon = &mirror.daemon;
    // Every read goes to the devices.
    daemon.zfs(&["set", "primarycache=metadata", "bench"])?;
    daemon.zfs(&["set", "recordsize=16K", "bench"])?;
    crate::write::machine::fill(&mirror.file(), options.mebibytes as usize)?;
    daemon.words("sync bench")?;
    mirror.export()?;
    mirror.import()?;
    let rate = || -> Result<f64> {
        drop_caches()?;
        let size = options.mebibytes << 20;
        crate::read::machine::random_read_rate(&mirror.file(), size, 2, READING)
    };
    let alone = rate()?;
    let stop = AtomicBool::new(false);
    let (beside, scrubs) = std::thread::scope(|scope| -> Result<_> {
        let scrubber = scope.spawn(|| -> Result<u32> {
            let mut ended = 0;
            while !stop.load(Ordering::Relaxed) {
                daemon.words("scrub -w bench")?;
                ended += 1;
            }
            Ok(ended)
        });
        let beside = rate();
        stop.store(true, Ordering::Relaxed);
        let scrubs = scrubber.join().expect("it does not panic")?;
        Ok((beside?, scrubs))
    })?;
    println!("  ({scrubs} scrubs ended meanwhile)");
    let what = "random reads beside a scrub, against alone";
    Ok(vec![Comparison::rates(what, beside, alone, "K/s", 0.6)])
}

/// Runs the parts; false if a ratio is below what is wanted.
///
/// # Errors
/// If something cannot be made or run.
pub fn run(options: &Options) -> Result<bool> {
    std::fs::create_dir_all(&options.directory)?;
    type Part = fn(&Options) -> Result<Vec<Comparison>>;
    let parts: [(&str, Part); 3] = [
        ("scrub", scrub),
        ("resilver", resilver),
        ("readers", readers),
    ];
    let mut is_good = true;
    for (name, part) in parts {
        if options.parts.is_empty() || options.parts.iter().any(|wanted| wanted == name) {
            println!("{name}:");
            for comparison in part(options)? {
                comparison.print();
                is_good &= comparison.ratio >= comparison.wanted;
            }
        }
    }
    Ok(is_good)
}
