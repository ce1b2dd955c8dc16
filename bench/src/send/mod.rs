//! Streams sent and received, beside OpenZFS's library on the same pool.
//!
//! A case is large files or small ones, full or incremental, expanded or as compressed. The sides
//! take turns, each with caches dropped and a new process. The sent stream is discarded, so that
//! the sender is measured alone. A received stream comes from a file in memory, and its time ends
//! with the sync. Our figures are of commands, with a daemon that is set to use little memory;
//! OpenZFS's are of calls. Processor time is the daemon's, or that of the process with the library.

mod options;
mod pools;

pub use options::Options;

use crate::read::machine::drop_caches;
use crate::read::product::{Mounted, peak_of};
use crate::read::rivals::{output, tool};
use crate::write::machine::Clocks;
use anyhow::{Context, Result, ensure};
use pools::words;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

const RIVAL: &str = include_str!("rival.py");
/// What the daemon may use for caches, and what it may use in all.
const MEMORY: &str = "128M";
const PEAK_MAX: u64 = 256 << 20;

/// What is sent, and how.
#[derive(Clone, Copy, Debug)]
struct Case {
    dataset: &'static str,
    flags: &'static str,
    is_step: bool,
}

impl Case {
    /// All of them, each step behind what it builds upon.
    fn all() -> impl Iterator<Item = Self> {
        let kinds = [("large", ""), ("large", "c"), ("small", ""), ("small", "c")];
        kinds.into_iter().flat_map(|(dataset, flags)| {
            [false, true].map(|is_step| Self {
                dataset,
                flags,
                is_step,
            })
        })
    }

    fn name(&self) -> String {
        let extent = if self.is_step { "incremental" } else { "full" };
        let flags = if self.flags.is_empty() { "" } else { " -c" };
        format!("{} {extent}{flags}", self.dataset)
    }

    fn stream(&self, directory: &Path) -> PathBuf {
        directory.join(self.name().replace(' ', "") + ".zstream")
    }

    fn snapshot(&self) -> String {
        let snapshot = if self.is_step { 'b' } else { 'a' };
        format!("src/{}@{snapshot}", self.dataset)
    }

    fn send_line(&self) -> String {
        let flags = self.flags.chars().map(|flag| format!("-{flag} "));
        let base = if self.is_step { "-i @a " } else { "" };
        let flags: String = flags.collect();
        format!("zfs send {flags}{base}{}", self.snapshot())
    }
}

/// What one run took.
#[derive(Clone, Copy, Debug)]
struct Figures {
    bytes: u64,
    seconds: f64,
    cpu: f64,
    peak: u64,
}

impl Figures {
    fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }

    fn cpu_per_gib(&self) -> f64 {
        self.cpu / self.bytes as f64 * (1_u64 << 30) as f64
    }

    fn best(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.seconds < self.seconds => Self {
                peak: self.peak.max(other.peak),
                ..other
            },
            Some(other) => Self {
                peak: self.peak.max(other.peak),
                ..self
            },
            None => self,
        }
    }
}

/// Runs the parts; false if we are slower anywhere, or need too much memory.
///
/// # Errors
/// If something cannot be made or run.
pub fn run(options: &Options) -> Result<bool> {
    fs::create_dir_all(&options.directory)?;
    let source = pools::source(options)?;
    write_streams(&source)?;
    let wanted = |part: &str| {
        let parts = &options.parts;
        parts.is_empty() || parts.iter().any(|name| name == part)
    };
    let mut is_good = true;
    if wanted("send") {
        title("send");
        for case in Case::all() {
            let (mut ours, mut theirs) = (None, None);
            for _ in 0..options.rounds {
                ours = Some(send(&source, case)?.best(ours));
                theirs = Some(rival_send(&source, case)?.best(theirs));
            }
            is_good &= print(case, ours, theirs)?;
        }
    }
    if wanted("receive") {
        title("receive");
        is_good &= receive_all(options, &source)?;
    }
    Ok(is_good)
}

fn title(part: &str) {
    println!("\n{part}: MB/s of the stream; seconds of the processor per GiB; MiB at the peak");
    println!(
        "  {:<24} {:>8} {:>8} {:>6} {:>8} {:>8} {:>6} {:>6}",
        "", "cenote", "OpenZFS", "ratio", "cpu", "OpenZFS", "peak", "theirs"
    );
}

fn print(case: Case, ours: Option<Figures>, theirs: Option<Figures>) -> Result<bool> {
    let (ours, theirs) = ours.zip(theirs).context("at least one round")?;
    let ratio = theirs.seconds / ours.seconds;
    let is_good = ratio >= 1.0 && ours.peak <= PEAK_MAX;
    println!(
        "  {:<24} {:>8.0} {:>8.0} {:>6.2} {:>8.2} {:>8.2} {:>6} {:>6}  {}",
        case.name(),
        ours.rate(),
        theirs.rate(),
        ratio,
        ours.cpu_per_gib(),
        theirs.cpu_per_gib(),
        ours.peak >> 20,
        theirs.peak >> 20,
        if is_good { "ok" } else { "BELOW" }
    );
    Ok(is_good)
}

/// Writes the streams of all cases to files, once.
fn write_streams(source: &Path) -> Result<()> {
    let cases = Case::all().filter(|case| !case.stream(source).exists());
    let cases: Vec<Case> = cases.collect();
    if cases.is_empty() {
        return Ok(());
    }
    let daemon = Mounted::start(MEMORY)?;
    pools::import(&daemon, source, "src")?;
    for case in cases {
        let partial = source.join("partial");
        pour(&daemon, &case.send_line(), None, File::create(&partial)?)?;
        fs::rename(partial, case.stream(source))?;
    }
    daemon.run(&words("zpool export src")).map(drop)
}

/// Runs a command from one file to another.
fn pour(daemon: &Mounted, line: &str, input: Option<File>, target: File) -> Result<()> {
    let input = input.map_or_else(Stdio::null, Stdio::from);
    let mut command = daemon.command(&words(line));
    let child = command
        .stdin(input)
        .stdout(target)
        .stderr(Stdio::piped())
        .spawn()?;
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {errors}");
    Ok(())
}

/// Measures what a daemon does meanwhile.
fn measured(daemon: &Mounted, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<Figures> {
    let processor = || -> Result<f64> {
        let clocks = Clocks::now(Some(daemon.process()))?;
        clocks.processes.context("the daemon's clock")
    };
    let (start, before) = (Instant::now(), processor()?);
    work()?;
    Ok(Figures {
        bytes,
        seconds: start.elapsed().as_secs_f64(),
        cpu: processor()? - before,
        peak: peak_of(daemon.process())?,
    })
}

fn send(source: &Path, case: Case) -> Result<Figures> {
    let bytes = fs::metadata(case.stream(source))?.len();
    let daemon = Mounted::start(MEMORY)?;
    pools::import(&daemon, source, "src")?;
    drop_caches()?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    let figures = measured(&daemon, bytes, || {
        pour(&daemon, &case.send_line(), None, nowhere)
    })?;
    daemon.run(&words("zpool export src"))?;
    Ok(figures)
}

/// Runs the rival with these arguments behind the place of `openzfs-ref`.
fn rival(arguments: &[&OsStr]) -> Result<Figures> {
    let script = tempfile::NamedTempFile::new()?;
    fs::write(script.path(), RIVAL)?;
    let program = tool("openzfs-ref")?;
    let mut all = vec![script.path().as_os_str(), program.as_os_str()];
    all.extend_from_slice(arguments);
    let answer: Value = serde_json::from_str(&output(Path::new("python3"), &all)?)?;
    let number = |name: &str| answer[name].as_f64().context("a figure of the rival");
    Ok(Figures {
        bytes: answer["bytes"].as_u64().context("the rival's bytes")?,
        seconds: number("seconds")?,
        cpu: number("cpu")?,
        peak: answer["peak"].as_u64().unwrap_or(0) << 10,
    })
}

fn rival_send(source: &Path, case: Case) -> Result<Figures> {
    drop_caches()?;
    let snapshot = case.snapshot();
    let base = match case.is_step {
        true => format!("src/{}@a", case.dataset),
        false => "-".to_owned(),
    };
    let words = [OsStr::new("send"), source.as_os_str()];
    let mut all = words.to_vec();
    all.extend([&*snapshot, &*base, case.flags].map(OsStr::new));
    let figures = rival(&all)?;
    let ours = fs::metadata(case.stream(source))?.len();
    let difference = figures.bytes.abs_diff(ours);
    ensure!(
        difference <= ours / 100,
        "OpenZFS's stream has {} bytes, ours {ours}",
        figures.bytes
    );
    Ok(figures)
}

/// The accounting of owners is at most such a part of what is received.
const ACCOUNTING_SHARE: u64 = 500;

fn receive_all(options: &Options, source: &Path) -> Result<bool> {
    let target = options.directory.join("send-target");
    let _ = fs::remove_dir_all(&target);
    let small = usize::try_from(options.files / 50)?;
    let size = options.mebibytes * 4 + small * 4 + 1024;
    let daemon = Mounted::start(MEMORY)?;
    pools::create(&daemon, &target, ("dst", size))?;
    daemon.run(&words("zpool export dst"))?;
    drop(daemon);
    let mut is_good = true;
    let cases: Vec<Case> = Case::all().collect();
    for pair in cases.chunks(2) {
        let mut best = vec![(None, None); pair.len()];
        for _ in 0..options.rounds {
            for (case, (ours, theirs)) in pair.iter().zip(&mut best) {
                *ours = Some(receive(&target, source, *case)?.best(*ours));
                *theirs = Some(rival_receive(&target, source, *case)?.best(*theirs));
            }
            compare(&target, pair)?;
        }
        for (case, (ours, theirs)) in pair.iter().zip(best) {
            is_good &= print(*case, ours, theirs)?;
        }
    }
    fs::remove_dir_all(&target)?;
    Ok(is_good)
}

/// Has a stream in the kernel's memory, and nothing else.
fn in_memory(stream: &Path) -> Result<u64> {
    drop_caches()?;
    let bytes = std::io::copy(&mut File::open(stream)?, &mut std::io::sink())?;
    Ok(bytes)
}

fn receive(target: &Path, source: &Path, case: Case) -> Result<Figures> {
    let stream = case.stream(source);
    let bytes = in_memory(&stream)?;
    let daemon = Mounted::start(MEMORY)?;
    pools::import(&daemon, target, "dst")?;
    let nowhere = File::options().write(true).open("/dev/null")?;
    let line = format!("zfs receive -u dst/ours-{}", case.dataset);
    let input = File::open(&stream)?;
    let figures = measured(&daemon, bytes, || {
        pour(&daemon, &line, Some(input), nowhere)?;
        daemon.run(&words("zpool sync dst")).map(drop)
    })?;
    daemon.run(&words("zpool export dst"))?;
    Ok(figures)
}

fn rival_receive(target: &Path, source: &Path, case: Case) -> Result<Figures> {
    let stream = case.stream(source);
    in_memory(&stream)?;
    let name = format!("dst/theirs-{}", case.dataset);
    rival(&[
        OsStr::new("receive"),
        target.as_os_str(),
        OsStr::new(&name),
        stream.as_os_str(),
    ])
}

/// Compares what both sides received, and makes room for the next.
///
/// OpenZFS's kernel module notes in each dnode that its owner was charged for it, and so do we. The
/// library that the rival is made of knows nothing of files and does not, so its dnodes compress
/// a little better: 8,192 of 604,355,072 bytes in the smaller files.
fn compare(target: &Path, pair: &[Case]) -> Result<()> {
    let daemon = Mounted::start(MEMORY)?;
    pools::import(&daemon, target, "dst")?;
    let dataset = pair.first().context("a case")?.dataset;
    let of = |side: &str| -> Result<(u64, u64)> {
        let name = format!("dst/{side}-{dataset}@b");
        let line = format!("zfs get -Hp -o value guid,logicalreferenced {name}");
        let said = daemon.run(&words(&line))?;
        let mut numbers = said.split_whitespace().map(str::parse);
        let mut next = || Ok::<u64, anyhow::Error>(numbers.next().context("two values")??);
        Ok((next()?, next()?))
    };
    let ((ours, our_bytes), (theirs, their_bytes)) = (of("ours")?, of("theirs")?);
    ensure!(
        ours == theirs,
        "{ours} was received, and {theirs} by OpenZFS"
    );
    let difference = our_bytes.abs_diff(their_bytes);
    ensure!(
        difference <= our_bytes / ACCOUNTING_SHARE,
        "{our_bytes} bytes were received, and {their_bytes} by OpenZFS"
    );
    for side in ["ours", "theirs"] {
        daemon.run(&words(&format!("zfs destroy -r dst/{side}-{dataset}")))?;
    }
    daemon.run(&words("zpool export dst")).map(drop)
}
