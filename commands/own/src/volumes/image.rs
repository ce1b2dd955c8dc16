//! `cenote volume import` and `export`: copy between a volume and an image.
//!
//! Raw images are copied here, several pieces in parallel, and zeros stay holes. `qemu-img` copies
//! other formats, as a client of the daemon's NBD server.

use super::copy::{Copy, INTERRUPTED};
use super::part::{PartFile, about, target};
use super::references::other_files;
use super::served::Served;
use super::size::size_of;
use crate::reading::stop::Stop as Signal;
use crate::sparse::data_of;
use cenote_control::model::{Change, NewDataset, NewVolume, Request, Response, shell_word};
use cenote_device::{Device, DeviceError};
use cenote_nbd_client::NbdDevice;
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed, usage};
use cenote_words::progress::{Progress, Style};
use rustix::fs::SeekFrom;
use serde_json::json;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// How often to check whether `qemu-img` has ended.
const POLL: std::time::Duration = std::time::Duration::from_millis(20);
/// How many bytes of its error output to keep.
const SAID_MAX: u64 = 64 << 10;
/// How many bytes of a progress line to keep.
const LINE_MAX: usize = 64;
/// A multiple of every block size, as volumes need.
const SIZE_UNIT: u64 = 1 << 20;

/// Magic numbers of images that are not raw, and `qemu-img`'s names of their formats.
const FORMATS: [(&[u8], &str); 5] = [
    (b"QFI\xfb", "qcow2"),
    (b"KDMV", "vmdk"),
    (b"vhdxfile", "vhdx"),
    (b"conectix", "vpc"),
    (b"QED\0", "qed"),
];

fn style(arguments: &Arguments) -> Style {
    match (arguments.has("quiet"), arguments.has("json")) {
        (true, _) => Style::Quiet,
        (false, true) => Style::Json,
        (false, false) => Style::Auto,
    }
}

/// The format given by the user.
fn named_format(arguments: &Arguments) -> Result<Option<String>, Stop> {
    match arguments.last("format").map(|word| word.to_str()) {
        None => Ok(None),
        Some(Some(word)) if word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') => {
            Ok(Some(word.to_owned()))
        }
        Some(_) => usage("--format: not the name of a format"),
    }
}

/// The format of an image, by its magic number.
fn recognized(file: &File) -> io::Result<&'static str> {
    let mut beginning = Vec::new();
    file.take(16).read_to_end(&mut beginning)?;
    let mut known = FORMATS.iter();
    let found = known.find(|(magic, _)| beginning.starts_with(magic));
    Ok(found.map_or("raw", |(_, format)| format))
}

/// An error if `qemu-img` cannot be run.
fn not_run(error: &io::Error) -> Stop {
    Stop::Failed(format!(
        "cannot run qemu-img: {error}. Images that are not raw need it; on Debian it is in the \
         package qemu-utils"
    ))
}

/// `qemu-img`'s information about an image.
fn information(path: &Path, format: &str) -> Result<String, Stop> {
    let mut command = Command::new("qemu-img");
    command
        .args(["info", "--output=json", "-f", format])
        .arg(path);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| not_run(&error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            failed(format!("qemu-img failed: {}", said.trim_end()))
        }
    }
}

/// The size of the disk in an image, in bytes.
fn size_in(path: &Path, format: &str, file: &File) -> Result<u64, Stop> {
    if format == "raw" {
        let size = rustix::fs::seek(file, SeekFrom::End(0));
        return size.map_err(|error| about(path, &error));
    }
    let info = information(path, format)?;
    let info: serde_json::Value = serde_json::from_str(&info).map_err(|e| about(path, &e))?;
    let size = info["virtual-size"].as_u64();
    size.ok_or_else(|| about(path, &"qemu-img does not say its size"))
}

/// Refuses an image that refers to other files of this machine.
fn check_alone(path: &Path, file: &File, format: &str) -> Result<(), Stop> {
    if format == "raw" {
        return Ok(());
    }
    match other_files(file, format).map_err(|error| about(path, &error))? {
        None => Ok(()),
        Some(part) => failed(format!(
            "{}: the image has {part} in another file, and could so read any file of this \
             machine. If you trust it, make one image of all first: 'qemu-img convert -O qcow2 \
             IMAGE NEW'",
            path.display()
        )),
    }
}

/// Copies an image into a volume.
pub fn import(image: &str, volume: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let path = context.place(Path::new(image));
    let file = File::open(&path).map_err(|error| about(&path, &error))?;
    let format = match named_format(arguments)? {
        Some(format) => format,
        None => recognized(&file).map_err(|e| about(&path, &e))?.to_owned(),
    };
    check_alone(&path, &file, &format)?;
    let size = size_in(&path, &format, &file)?;
    if size == 0 {
        return failed(format!("{}: it is empty", path.display()));
    }
    let signal = watch()?;
    let is_new = prepare(volume, size, arguments, context)?;
    let source = Source {
        path: &path,
        file: &file,
        format: &format,
        size,
    };
    let style = style(arguments);
    let served = match Served::begin(&[volume.to_owned()], false, context) {
        Ok(served) => served,
        Err(error) if is_new => return Err(undone(volume, error, context)),
        Err(error) => return Err(error),
    };
    let copied = source.copy_to(&served.devices[0].1, is_new, style, &signal);
    let ended = served.end(context);
    let copied = copied.and_then(|copied| ended.map(|_| copied));
    let copied = copied.map_err(|error| match (is_new, error) {
        (true, error) => undone(volume, error, context),
        (false, Stop::Failed(text)) => {
            Stop::Failed(format!("{text}; {volume} is overwritten in part"))
        }
        (false, error) => error,
    })?;
    if arguments.has("json") {
        let report = json!({"volume": volume, "image": path.to_string_lossy(), "format": format,
            "size": size, "copied": copied});
        context.line(&report.to_string());
    }
    Ok(0)
}

/// Watches for signals, so that an incomplete volume or image can be removed.
fn watch() -> Result<Signal, Stop> {
    Signal::on_signals().map_err(|error| Stop::Failed(error.to_string()))
}

/// Destroys a new volume whose import failed; returns the message.
fn undone(volume: &str, error: Stop, context: &mut Context) -> Stop {
    let Stop::Failed(text) = error else {
        return error;
    };
    let change = Change::DestroyDataset {
        dataset: volume.to_owned(),
        recursive: false,
        clones: false,
        force: true,
        dry_run: false,
    };
    let command = format!("cenote volume import {volume}: undone");
    let is_gone = match context.ask(Request::Change { change, command }) {
        Ok(Response::Failures { failures, .. }) => failures.is_empty(),
        other => other.is_ok(),
    };
    Stop::Failed(match is_gone {
        true => format!("{text}; {volume} was not created"),
        false => format!(
            "{text}; {volume} has only a part of the image, destroy it with 'zfs destroy {}'",
            shell_word(volume)
        ),
    })
}

/// An image to read.
struct Source<'a> {
    path: &'a Path,
    file: &'a File,
    format: &'a str,
    size: u64,
}

impl Source<'_> {
    /// Copies the image into a volume and zeroes the rest of it. Returns how many bytes were not
    /// zeros.
    fn copy_to(
        &self,
        device: &NbdDevice,
        is_new: bool,
        style: Style,
        signal: &Signal,
    ) -> Result<u64, Stop> {
        let io = |error: DeviceError| Stop::Failed(error.to_string());
        if !is_new {
            // Also after the end of the image: old data must not remain there.
            device.zero(0, device.size()).map_err(io)?;
        }
        let progress = Progress::new(style, Some(self.size));
        let copied = match self.format {
            "raw" => {
                let file = self.file;
                let copy = Copy {
                    read: &|at, buffer| file.read_exact_at(buffer, at).map_err(|e| e.to_string()),
                    write: &|at, bytes| device.write_at(at, bytes).map_err(|e| e.to_string()),
                    stop: signal,
                };
                let data = data_of(file, 0..self.size);
                copy.run(data, self.size, &progress).map_err(Stop::Failed)
            }
            format => {
                let (name, uri) = (self.path.to_string_lossy(), device.path().to_string_lossy());
                let words = ["-n", "-f", format, "-O", "raw", "--target-is-zero"];
                let shown = (&progress, self.size);
                convert(&words, [&*name, &*uri], shown, signal).map(|()| self.size)
            }
        };
        progress.finish();
        let copied = copied?;
        device.flush().map_err(io)?;
        Ok(copied)
    }
}

/// The progress that `qemu-img -p` reports, in per cent: `    (12.50/100%)`.
fn percent_in(line: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let number = text.strip_prefix('(')?.strip_suffix("/100%)")?;
    let percent: f64 = number.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent)
}

/// Shows the progress of `qemu-img`. It overwrites one line, which is no use in a log.
fn follow(output: impl Read, (progress, size): (&Progress, u64)) {
    let mut line = Vec::new();
    for byte in io::BufReader::new(output).bytes() {
        match byte {
            Ok(b'\r' | b'\n') => {
                if let Some(percent) = percent_in(&line) {
                    progress.set((size as f64 * percent / 100.0) as u64, Some(size), "");
                }
                line.clear();
            }
            Ok(byte) if line.len() < LINE_MAX => line.push(byte),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

/// Runs `qemu-img convert` for an image of this size; a signal ends it.
fn convert(
    options: &[&str],
    from_to: [&str; 2],
    shown: (&Progress, u64),
    signal: &Signal,
) -> Result<(), Stop> {
    let mut command = Command::new("qemu-img");
    command.args(["convert", "-p"]).args(options).args(from_to);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_run(&error))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let mut said = Vec::new();
    let status = std::thread::scope(|scope| {
        scope.spawn(|| output.map(|output| follow(output, shown)));
        let reader = scope.spawn(|| {
            let Some(mut errors) = errors else { return };
            // The output is only shown, so a part is enough. Drain the rest, so that it cannot
            // block.
            let _ = errors.by_ref().take(SAID_MAX).read_to_end(&mut said);
            let _ = io::copy(&mut errors, &mut io::sink());
        });
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if signal.is_set() => {
                    // It may have ended already.
                    let _ = child.kill();
                    break child.wait();
                }
                Ok(None) => std::thread::sleep(POLL),
                Err(error) => break Err(error),
            }
        };
        let _ = reader.join();
        status
    });
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) if signal.is_set() => failed(INTERRUPTED),
        Ok(_) => failed(format!(
            "qemu-img failed: {}",
            String::from_utf8_lossy(&said).trim_end()
        )),
        Err(error) => Err(not_run(&error)),
    }
}

/// Creates the volume, or checks an existing one. Returns whether it is new.
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

/// Copies a volume or a snapshot of one into an image.
pub fn export(volume: &str, image: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let path = target(context.place(Path::new(image)), arguments.has("force"))?;
    let format = named_format(arguments)?.unwrap_or_else(|| "raw".to_owned());
    let (signal, style) = (watch()?, style(arguments));
    let served = Served::begin(&[volume.to_owned()], true, context)?;
    let device = &served.devices[0].1;
    let size = device.size();
    let part = PartFile::create(&path);
    let copied = part.and_then(|part| {
        let progress = Progress::new(style, Some(size));
        let copied = match format.as_str() {
            "raw" => export_raw(device.as_ref(), &part, &progress, &signal),
            format => {
                // qemu-img takes its own lock, which conflicts with ours on network file systems.
                part.unlock();
                let (uri, name) = (device.path().to_string_lossy(), part.path.to_string_lossy());
                let words = ["-f", "raw", "-O", format];
                convert(&words, [&*uri, &*name], (&progress, size), &signal).map(|()| size)
            }
        };
        progress.finish();
        match copied {
            Ok(copied) => part.finish(&path).map(|()| copied),
            Err(error) => {
                part.discard();
                Err(error)
            }
        }
    });
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

fn export_raw(
    device: &dyn Device,
    part: &PartFile,
    progress: &Progress,
    signal: &Signal,
) -> Result<u64, Stop> {
    let (size, file) = (device.size(), &part.file);
    file.set_len(size)
        .map_err(|error| about(&part.path, &error))?;
    let copy = Copy {
        read: &|at, buffer| device.read_at(at, buffer).map_err(|e| e.to_string()),
        write: &|at, bytes| {
            let written = file.write_all_at(bytes, at);
            written.map_err(|error| format!("{}: {error}", part.path.display()))
        },
        stop: signal,
    };
    let all = std::iter::once(0..size).collect();
    copy.run(all, size, progress).map_err(Stop::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_img_says_of_its_progress_is_understood() {
        assert_eq!(percent_in(b"    (12.50/100%)"), Some(12.5));
        assert_eq!(percent_in(b"    (100.00/100%)"), Some(100.0));
        for other in [&b"    (-1/100%)"[..], b"(nan/100%)", b"12.5", b"\xff", b""] {
            assert_eq!(percent_in(other), None);
        }
        let progress = Progress::new(Style::Quiet, None);
        let endless = io::repeat(b'x').take(1 << 20);
        follow(endless, (&progress, 100));
    }
}
