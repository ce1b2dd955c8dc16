//! Serves one file, or a disk in memory, as a block device of the kernel: for trials and by hand.
//!
//! ```text
//! cenote-ublk-serve FILE|memory:BYTES [--name NAME] [--readonly] [--recover]
//! cenote-ublk-serve --left | --remove NAME
//! ```
//!
//! It takes commands from its standard input, one a line, and answers each with a line: `open`,
//! `counters`, `resize BYTES`, `stop`, `stop force`. It goes on without them when the input ends.

#![forbid(unsafe_code)]

use cenote_nbd::{BlockDevice, FileDisk, MemoryDisk};
use cenote_ublk::{DeviceOptions, KernelDevice, LeftDevice, left_devices, remove_left};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

const USAGE: &str = "usage: cenote-ublk-serve FILE|memory:BYTES [--name NAME] [--readonly] \
                     [--recover]\n       cenote-ublk-serve --left | --remove NAME";

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
    let mut recovers = false;
    while let Some(word) = words.next() {
        match word.as_str() {
            "--name" => options.name = words.next().ok_or(USAGE)?,
            "--readonly" => options.is_read_only = true,
            "--recover" => recovers = true,
            _ => return Err(USAGE.into()),
        }
    }
    let disk: Arc<dyn BlockDevice> = match source.strip_prefix("memory:") {
        Some(size) => Arc::new(MemoryDisk::new(size.parse()?)),
        None => Arc::new(FileDisk::open(Path::new(&source), options.is_read_only)?),
    };
    let device = match recovers {
        true => KernelDevice::recover(disk, &left(&options.name)?)?,
        false => KernelDevice::start(disk, &options)?,
    };
    println!("serving {source} at {}", device.path().display());
    for line in std::io::stdin().lines() {
        match obey(&device, &line?) {
            Ok(answer) => println!("ok: {answer}"),
            Err(error) => println!("error: {error}"),
        }
    }
    loop {
        cenote_base::rt::park();
    }
}
