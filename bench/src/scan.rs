//! Scrubs and resilvers: beside `zdb -bcc`, OpenZFS's own scrub, and a plain copy.
//!
//! All sides read the same pools on files, with cold caches. A scrub does more than `zdb -bcc`,
//! which reads one copy of each block and no parity.

use crate::read::Comparison;
use crate::read::machine::{direct_read_rate, drop_caches, seconds};
use crate::read::rivals::{output, tool};
use crate::write::machine::direct_write_rate;
use anyhow::{Context, Result, bail, ensure};
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

/// Pools: name, layout, bytes of a record, and how much faster than `zdb -bcc` a scrub is to be.
const POOLS: [(&str, &str, &str, f64); 3] = [
    ("small", "mirror:2", "8K", 4.0),
    ("large", "mirror:2", "1M", 1.0),
    ("parity", "raidz2:6", "128K", 1.0),
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

    fn zpool(&self, words: &[&OsStr]) -> Result<String> {
        let output = Command::new(&self.cenote)
            .arg0("zpool")
            .args(words)
            .env("CENOTE_SOCKET", self.socket())
            .output()?;
        if !output.status.success() {
            bail!(
                "zpool {words:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn import(&self, devices: &Path, pool: &str) -> Result<()> {
        let root = self.directory.path().join("root");
        std::fs::create_dir_all(&root)?;
        let words = ["import", "-f", "-R"].map(OsStr::new);
        let mut all = words.to_vec();
        all.extend([root.as_os_str(), OsStr::new("-d"), devices.as_os_str()]);
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

fn scrub(options: &Options) -> Result<Vec<Comparison>> {
    let mut comparisons = Vec::new();
    for (name, layout, record, wanted) in POOLS {
        let directory = pool(options, (name, layout, record))?;
        let daemon = Daemon::start()?;
        daemon.import(&directory, name)?;
        drop_caches()?;
        let (ours, _) = seconds(|| daemon.words(&format!("scrub -w {name}")))?;
        let status = daemon.words(&format!("status {name}"))?;
        ensure!(status.contains("scrub repaired 0B"), "{status}");
        daemon.words(&format!("export {name}"))?;
        drop(daemon);
        drop_caches()?;
        let zdb = [OsStr::new("-e"), OsStr::new("-p"), directory.as_os_str()];
        let mut words = zdb.to_vec();
        words.extend([OsStr::new("-bcc"), OsStr::new(name)]);
        let (theirs, _) = seconds(|| output(Path::new("zdb"), &words))?;
        let what = format!("{layout}, {record}: zdb -bcc");
        comparisons.push(Comparison::seconds(what, ours, theirs, wanted));
        drop_caches()?;
        let words = [OsStr::new("scrub"), directory.as_os_str(), OsStr::new(name)];
        let referee = tool("openzfs-ref")?;
        let (theirs, _) = seconds(|| output(&referee, &words))?;
        let what = format!("{layout}, {record}: OpenZFS's scrub");
        comparisons.push(Comparison::seconds(what, ours, theirs, wanted));
        let image = images(&directory)?.into_iter().next().context("an image")?;
        let disk = direct_read_rate(&image, 1 << 30)?;
        println!("  (one image by direct reads: {disk:.0} MB/s)");
    }
    Ok(comparisons)
}

/// One side of a mirror lost everything but its labels, and its log says so.
fn resilver(options: &Options) -> Result<Vec<Comparison>> {
    let directory = options.directory.join("scan-resilver");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory)?;
    let side = |number| directory.join(format!("d{number}.img"));
    for number in 0..2 {
        let file = std::fs::File::create(side(number))?;
        file.set_len((options.mebibytes + options.mebibytes / 2 + 256) << 20)?;
    }
    let daemon = Daemon::start()?;
    let root = daemon.directory.path().join("root");
    let (first, second) = (side(0), side(1));
    let create = ["create", "-R"].map(OsStr::new);
    let mut words = create.to_vec();
    words.extend([root.as_os_str(), OsStr::new("bench"), OsStr::new("mirror")]);
    words.extend([first.as_os_str(), second.as_os_str()]);
    daemon.zpool(&words)?;
    daemon.words("export bench")?;
    let old = directory.join("old");
    std::fs::copy(side(1), &old)?;
    daemon.import(&directory, "bench")?;
    crate::write::machine::fill(&root.join("bench/file"), options.mebibytes as usize)?;
    daemon.words("sync bench")?;
    daemon.words("export bench")?;
    std::fs::rename(&old, side(1))?;
    drop_caches()?;
    daemon.import(&directory, "bench")?;
    let (ours, _) = seconds(|| daemon.words("wait -t resilver bench"))?;
    let status = daemon.words("status bench")?;
    ensure!(status.contains("resilvered"), "{status}");
    let rate = options.mebibytes as f64 * 1.048_576 / ours;
    daemon.words("export bench")?;
    let read = direct_read_rate(&side(0), 1 << 30)?;
    let write = direct_write_rate(&directory.join("copy"), 512)?;
    let _ = std::fs::remove_dir_all(&directory);
    let copy = read.min(write);
    let what = "resilver of a mirror side, against a copy";
    Ok(vec![Comparison::rates(what, rate, copy, "MB/s", 0.8)])
}

/// Random reads of a file meanwhile.
fn readers(options: &Options) -> Result<Vec<Comparison>> {
    let directory = pool(options, ("large", "mirror:2", "1M"))?;
    let daemon = Daemon::start()?;
    daemon.import(&directory, "large")?;
    let images = images(&directory)?;
    let root = daemon.directory.path().join("root");
    let file = largest_below(&root)?;
    let rate = || -> Result<f64> {
        drop_caches()?;
        crate::read::machine::random_read_rate(&file, 128 << 10, 2, 3.0)
    };
    let alone = rate()?;
    let stop = AtomicBool::new(false);
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if daemon.words("scrub -w large").is_err() {
                    return;
                }
            }
        });
        let beside = rate();
        stop.store(true, Ordering::Relaxed);
        let _ = daemon.words("scrub -s large");
        beside
    })?;
    drop(images);
    let what = "users' random reads beside a scrub, against alone";
    Ok(vec![Comparison::rates(what, beside, alone, "/s", 0.6)])
}

fn largest_below(root: &Path) -> Result<PathBuf> {
    let mut stack = vec![root.to_owned()];
    let mut largest = (0, None);
    while let Some(directory) = stack.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            match metadata.is_dir() {
                true => stack.push(entry.path()),
                false if metadata.len() > largest.0 => {
                    largest = (metadata.len(), Some(entry.path()));
                }
                false => {}
            }
        }
    }
    largest.1.context("no file in the pool")
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
