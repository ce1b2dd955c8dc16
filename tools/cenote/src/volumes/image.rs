//! `cenote volume import` and `export`: between a volume and an image.
//!
//! Raw images are copied here, several pieces at once, and what is zero stays a hole. What has
//! another format is left to `qemu-img`, which is a client of the daemon's NBD server then.

use super::served::Served;
use super::size::size_of;
use crate::command::Arguments;
use crate::context::{Context, Outcome, Stop, failed, usage};
use crate::reading::progress::{Progress, Style};
use crate::sparse::data_of;
use cenote_control::model::{Change, NewDataset, NewVolume, Request};
use cenote_device::Device;
use cenote_nbd_client::NbdDevice;
use rustix::fs::SeekFrom;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes that are copied at once.
const PIECE: u64 = 1 << 20;
/// What is looked at for zeros.
const HOLE: usize = 64 << 10;
/// Pieces under way.
const THREADS: usize = 8;
/// Sizes of volumes are multiples of a block, whatever its size is.
const SIZE_UNIT: u64 = 1 << 20;

/// Beginnings of images that are not raw, and what `qemu-img` calls them.
const FORMATS: [(&[u8], &str); 5] = [
    (b"QFI\xfb", "qcow2"),
    (b"KDMV", "vmdk"),
    (b"vhdxfile", "vhdx"),
    (b"conectix", "vpc"),
    (b"QED\0", "qed"),
];

/// An error about a file.
fn about(path: &Path, error: &dyn std::fmt::Display) -> Stop {
    Stop::Failed(format!("{}: {error}", path.display()))
}

fn style(arguments: &Arguments) -> Style {
    match (arguments.has("quiet"), arguments.has("json")) {
        (true, _) => Style::Quiet,
        (false, true) => Style::Json,
        (false, false) => Style::Auto,
    }
}

/// The format that was named.
fn named_format(arguments: &Arguments) -> Result<Option<String>, Stop> {
    match arguments.last("format").map(|word| word.to_str()) {
        None => Ok(None),
        Some(Some(word)) if word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            Ok(Some(word.to_owned()))
        }
        Some(_) => usage("--format: not the name of a format"),
    }
}

/// The format of an image by its beginning.
fn recognized(file: &File) -> io::Result<&'static str> {
    let mut beginning = Vec::new();
    file.take(16).read_to_end(&mut beginning)?;
    let mut known = FORMATS.iter();
    let found = known.find(|(magic, _)| beginning.starts_with(magic));
    Ok(found.map_or("raw", |(_, format)| format))
}

/// Runs `qemu-img`; what it printed.
fn qemu_img(words: &[&str], shows_progress: bool) -> Result<String, Stop> {
    let mut command = Command::new("qemu-img");
    command.args(words).stdin(Stdio::null());
    if shows_progress {
        command.stdout(Stdio::inherit());
    }
    let output = command.output().map_err(|error| {
        Stop::Failed(format!(
            "cannot run qemu-img: {error}. Images that are not raw need it; on Debian it is in \
             the package qemu-utils"
        ))
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(format!("qemu-img failed: {}", said.trim_end()))
        }
    }
}

/// The bytes of the disk in an image.
fn size_in(path: &Path, format: &str, file: &File) -> Result<u64, Stop> {
    if format == "raw" {
        let size = rustix::fs::seek(file, SeekFrom::End(0));
        return size.map_err(|error| about(path, &error));
    }
    let name = path.to_string_lossy();
    let info = qemu_img(&["info", "--output=json", "-f", format, &name], false)?;
    let info: serde_json::Value = serde_json::from_str(&info).map_err(|e| about(path, &e))?;
    let size = info["virtual-size"].as_u64();
    size.ok_or_else(|| about(path, &"qemu-img does not say its size"))
}

/// Copies an image into a volume.
pub fn import(image: &str, volume: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let path = context.place(Path::new(image));
    let file = File::open(&path).map_err(|error| about(&path, &error))?;
    let format = match named_format(arguments)? {
        Some(format) => format,
        None => recognized(&file).map_err(|e| about(&path, &e))?.to_owned(),
    };
    let size = size_in(&path, &format, &file)?;
    if size == 0 {
        return failed(format!("{}: it is empty", path.display()));
    }
    let is_new = prepare(volume, size, arguments, context)?;
    let served = Served::begin(&[volume.to_owned()], false, context)?;
    let progress = Progress::new(style(arguments), Some(size));
    let device = &served.devices[0].1;
    let copied = match format.as_str() {
        "raw" => import_raw(&file, size, device.as_ref(), is_new, &progress),
        format => {
            let (name, uri) = (path.to_string_lossy(), device.path().to_string_lossy());
            let is_shown = style(arguments) == Style::Auto;
            let mut words = vec!["convert", "-n", "-f", format, "-O", "raw"];
            if is_shown {
                words.push("-p");
            }
            if is_new {
                words.push("--target-is-zero");
            }
            words.extend([&*name, &*uri]);
            qemu_img(&words, is_shown).map(|_| size)
        }
    };
    progress.finish();
    let ended = served.end(context);
    let copied = copied?;
    ended?;
    if arguments.has("json") {
        let report = json!({"volume": volume, "image": path.to_string_lossy(), "format": format,
            "size": size, "copied": copied});
        context.line(&report.to_string());
    }
    Ok(0)
}

/// Makes the volume, or checks one that is there; whether it was made.
fn prepare(
    volume: &str,
    size: u64,
    arguments: &Arguments,
    context: &mut Context,
) -> Result<bool, Stop> {
    let mut properties = Vec::new();
    for pair in arguments.all("property") {
        match pair.to_str().and_then(|pair| pair.split_once('=')) {
            Some((name, value)) => properties.push((name.to_owned(), value.to_owned())),
            None => return usage("--property: must be PROPERTY=VALUE"),
        }
    }
    match size_of(volume, context)? {
        Some(_) if !arguments.has("force") => failed(format!(
            "{volume} exists; use -f to overwrite what is in it, or name another volume"
        )),
        Some(_) if !properties.is_empty() => {
            usage("--property is for new volumes; use 'zfs set' for one that is there")
        }
        Some(found) if found < size => failed(format!(
            "{volume} has {found} bytes and the image {size}; run 'zfs set volsize={} {volume}' \
             first",
            size.next_multiple_of(SIZE_UNIT)
        )),
        Some(_) => Ok(false),
        None => {
            let change = Change::CreateDataset(Box::new(NewDataset {
                name: volume.to_owned(),
                volume: Some(NewVolume {
                    size: size.next_multiple_of(SIZE_UNIT),
                    block_size: None,
                    sparse: true,
                }),
                properties,
                ..NewDataset::default()
            }));
            let command = format!("cenote volume import {volume}");
            match context.ask(Request::Change { change, command }) {
                Ok(_) => Ok(true),
                Err(error) => failed(format!("cannot create {volume}: {error}")),
            }
        }
    }
}

/// Copies a raw image; bytes that were no zeros.
fn import_raw(
    file: &File,
    size: u64,
    device: &NbdDevice,
    is_new: bool,
    progress: &Progress,
) -> Result<u64, Stop> {
    if !is_new {
        // What is in the volume is to be the image's zeros, too.
        let whole = size.next_multiple_of(512).min(device.size());
        let zeroed = device.zero(0, whole);
        zeroed.map_err(|error| Stop::Failed(error.to_string()))?;
    }
    let copy = Copy {
        read: &|at, buffer| file.read_exact_at(buffer, at).map_err(|e| e.to_string()),
        write: &|at, bytes| device.write_at(at, bytes).map_err(|e| e.to_string()),
    };
    let data = data_of(file, 0..size);
    let copied = copy.run(data, size, progress).map_err(Stop::Failed)?;
    device
        .flush()
        .map_err(|error| Stop::Failed(error.to_string()))?;
    Ok(copied)
}

/// Copies a volume or a snapshot of one into an image.
pub fn export(volume: &str, image: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let path = context.place(Path::new(image));
    if path.exists() && !arguments.has("force") {
        return failed(format!(
            "{} exists; use -f to overwrite it, or name another file",
            path.display()
        ));
    }
    let format = named_format(arguments)?.unwrap_or_else(|| "raw".to_owned());
    let served = Served::begin(&[volume.to_owned()], true, context)?;
    let device = &served.devices[0].1;
    let size = device.size();
    let progress = Progress::new(style(arguments), Some(size));
    let mut part = path.clone().into_os_string();
    part.push(".part");
    let part = PathBuf::from(part);
    let copied = match format.as_str() {
        "raw" => export_raw(device.as_ref(), &part, &progress),
        format => {
            let (name, uri) = (part.to_string_lossy(), device.path().to_string_lossy());
            let is_shown = style(arguments) == Style::Auto;
            let mut words = vec!["convert", "-f", "raw", "-O", format];
            if is_shown {
                words.push("-p");
            }
            words.extend([&*uri, &*name]);
            qemu_img(&words, is_shown).map(|_| size)
        }
    };
    progress.finish();
    let renamed = copied.and_then(|copied| {
        let renamed = std::fs::rename(&part, &path);
        renamed
            .map(|()| copied)
            .map_err(|error| about(&path, &error))
    });
    if renamed.is_err() {
        // It may not even be there.
        let _ = std::fs::remove_file(&part);
    }
    let ended = served.end(context);
    let copied = renamed?;
    ended?;
    if arguments.has("json") {
        let report = json!({"volume": volume, "image": path.to_string_lossy(), "format": format,
            "size": size, "copied": copied});
        context.line(&report.to_string());
    }
    Ok(0)
}

fn export_raw(device: &dyn Device, part: &Path, progress: &Progress) -> Result<u64, Stop> {
    let size = device.size();
    let file = File::create(part).map_err(|error| about(part, &error))?;
    file.set_len(size).map_err(|error| about(part, &error))?;
    let copy = Copy {
        read: &|at, buffer| device.read_at(at, buffer).map_err(|e| e.to_string()),
        write: &|at, bytes| file.write_all_at(bytes, at).map_err(|e| e.to_string()),
    };
    let all = std::iter::once(0..size).collect();
    let copied = copy.run(all, size, progress).map_err(Stop::Failed)?;
    file.sync_all().map_err(|error| about(part, &error))?;
    Ok(copied)
}

/// Fills a buffer from a place.
type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> Result<(), String> + Sync + 'a;
/// Writes bytes at a place.
type WriteAt<'a> = dyn Fn(u64, &[u8]) -> Result<(), String> + Sync + 'a;

/// Copies what is no zeros, several pieces at once; the target is all zeros.
struct Copy<'a> {
    read: &'a ReadAt<'a>,
    write: &'a WriteAt<'a>,
}

impl Copy<'_> {
    /// Bytes that were no zeros.
    fn run(&self, ranges: Vec<Range<u64>>, size: u64, progress: &Progress) -> Result<u64, String> {
        let pieces = ranges.into_iter().flat_map(|range| {
            let starts = (range.start..range.end).step_by(PIECE as usize);
            starts.map(move |at| at..(at + PIECE).min(range.end))
        });
        let (pieces, copied) = (Mutex::new(pieces), AtomicU64::new(0));
        let (failure, is_over) = (Mutex::new(None), AtomicBool::new(false));
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            let mut buffer = Vec::new();
            while let Some(piece) = next().filter(|_| !is_over.load(Ordering::Relaxed)) {
                progress.set(piece.start, Some(size), "copying");
                match self.piece(&piece, &mut buffer) {
                    Ok(bytes) => drop(copied.fetch_add(bytes, Ordering::Relaxed)),
                    Err(reason) => {
                        is_over.store(true, Ordering::Relaxed);
                        let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                        *failure = Some(reason);
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..THREADS {
                scope.spawn(work);
            }
            work();
        });
        let failure = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        failure.map_or(Ok(copied.load(Ordering::Relaxed)), Err)
    }

    fn piece(&self, piece: &Range<u64>, buffer: &mut Vec<u8>) -> Result<u64, String> {
        buffer.resize((piece.end - piece.start) as usize, 0);
        (self.read)(piece.start, buffer)?;
        let mut copied = 0;
        let mut at = piece.start;
        for part in buffer.chunks(HOLE) {
            let is_zero = part.iter().all(|byte| *byte == 0);
            if !is_zero {
                (self.write)(at, part)?;
                copied += part.len() as u64;
            }
            at += part.len() as u64;
        }
        Ok(copied)
    }
}
