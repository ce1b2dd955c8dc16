//! Serves one file, or a disk in memory, as a block device of the kernel: for trials and by hand.
//!
//! ```text
//! cenote-ublk-serve FILE|memory:BYTES [--name NAME] [--readonly] [--recover] [--stall FILE]
//! cenote-ublk-serve --left | --remove NAME
//! ```
//!
//! Requests wait as long as the file of `--stall` exists. The program takes commands from its
//! standard input, one a line, and answers each with a line: `open`, `counters`, `resize BYTES`,
//! `stop`, `stop force`, `leave`. It keeps serving when the input ends.

#![forbid(unsafe_code)]

use cenote_base::rt;
use cenote_nbd::{BlockDevice, FileDisk, Filter, Filtered, FilteredRequest, MemoryDisk};
use cenote_ublk::{DeviceOptions, KernelDevice, LeftDevice, left_devices, remove_left};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const USAGE: &str = "usage: cenote-ublk-serve FILE|memory:BYTES [--name NAME] [--readonly] \
                     [--recover] [--stall FILE]\n       cenote-ublk-serve --left | --remove NAME";

/// Requests wait as long as this file exists.
struct Stall(PathBuf);

impl Filter for Stall {
    fn before(&self, _request: &FilteredRequest) {
        while self.0.exists() {
            rt::sleep(Duration::from_millis(20));
        }
    }
}

/// Messages of the crate go to the standard error.
struct Messages;

impl log::Log for Messages {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.target().starts_with("cenote") {
            eprintln!("{}: {}", record.level(), record.args());
        }
    }

    fn flush(&self) {}
}

/// The device of this name whose process died.
fn left(name: &str) -> Result<LeftDevice, Box<dyn Error>> {
    let mut all = left_devices()?.into_iter();
    let found = all.find(|left| left.name == name);
    found.ok_or_else(|| format!("no device named '{name}' was left").into())
}

fn obey(device: &KernelDevice, line: &str) -> Result<String, Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["open"] => Ok(device.is_open().to_string()),
        ["counters"] => Ok(format!("{:?}", device.counters())),
        ["resize", size] => {
            device.resize(size.parse()?)?;
            Ok(format!("resized to {size}"))
        }
        ["stop"] => device
            .stop(false)
            .map(|()| "stopped".to_owned())
            .map_err(Into::into),
        ["stop", "force"] => device
            .stop(true)
            .map(|()| "stopped".to_owned())
            .map_err(Into::into),
        _ => Err(format!("'{line}' is not understood").into()),
    }
}

fn main() -> ExitCode {
    log::set_logger(&Messages).expect("it is set once");
    log::set_max_level(log::LevelFilter::Debug);
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cenote-ublk-serve: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let source = words.next().ok_or(USAGE)?;
    match source.as_str() {
        "--left" => {
            for left in left_devices()? {
                println!("{} {}", left.number, left.name);
            }
            return Ok(());
        }
        "--remove" => return Ok(remove_left(&left(&words.next().ok_or(USAGE)?)?)?),
        _ => {}
    }
    let mut options = DeviceOptions::new(source.as_str());
    let (mut recovers, mut stall) = (false, None);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--name" => options.name = words.next().ok_or(USAGE)?,
            "--readonly" => options.is_read_only = true,
            "--recover" => recovers = true,
            "--stall" => stall = Some(PathBuf::from(words.next().ok_or(USAGE)?)),
            _ => return Err(USAGE.into()),
        }
    }
    let mut disk: Arc<dyn BlockDevice> = match source.strip_prefix("memory:") {
        Some(size) => Arc::new(MemoryDisk::new(size.parse()?)),
        None => Arc::new(FileDisk::open(Path::new(&source), options.is_read_only)?),
    };
    if let Some(path) = stall {
        disk = Arc::new(Filtered::new(disk, Arc::new(Stall(path))));
    }
    let device = match recovers {
        true => KernelDevice::recover(disk, &left(&options.name)?)?,
        false => KernelDevice::start(disk, &options)?,
    };
    println!("serving {source} at {}", device.path().display());
    let mut device = Some(device);
    for line in std::io::stdin().lines() {
        let line = line?;
        let answer = match (&device, line.as_str()) {
            (Some(_), "leave") => {
                device = None;
                Ok("left".to_owned())
            }
            (Some(device), _) => obey(device, &line),
            (None, _) => Err("there is no device any more".into()),
        };
        match answer {
            Ok(answer) => println!("ok: {answer}"),
            Err(error) => println!("error: {error}"),
        }
    }
    loop {
        rt::park();
    }
}
