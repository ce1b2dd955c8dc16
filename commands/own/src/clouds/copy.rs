//! `cenote cloud copy`: an image of a device, or a device of an image.
//!
//! Only written data is copied; the rest becomes holes. The labels at both ends identify a pool, so
//! they are copied last: an interrupted copy is not recognized as a pool. A file gets its name once
//! it is complete.

use super::target::style;
use crate::sparse::data_of;
use cenote_cloud::is_url;
use cenote_cloud::location::Location;
use cenote_cloud::{Close, CloudDevice, CloudError, Opening, StoreOpener};
use cenote_device::{Device, FileDevice, FileOptions};
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::progress::Progress;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bytes per query for holes.
const WINDOW: u64 = 1 << 30;
/// Bytes per read and write.
const PIECE: u64 = 4 << 20;
/// Threads that copy: requests to a remote store have high latency, so many run in parallel.
const THREADS: usize = 8;
/// The size of the labels at each end.
const LABELS: u64 = 512 << 10;
/// The minimum size of a run of zeros that becomes a hole.
const HOLE: usize = 64 << 10;
/// How often to check the progress of the upload.
const POLL: Duration = Duration::from_millis(100);

/// Where to read.
enum Source {
    Store(Arc<CloudDevice>),
    File(FileDevice, File),
}

/// Where to write.
enum Target {
    Store(Arc<CloudDevice>),
    /// A file, its temporary name and its final one.
    File(Box<FileDevice>, Option<(PathBuf, PathBuf)>),
}

pub fn run(from: &str, to: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let source = Source::open(from)?;
    let size = source.device().size();
    let target = Target::make(to, size)?;
    let progress = Progress::new(style(arguments), None);
    let copied = copy(&source, target.device(), &progress);
    let outcome = copied.and_then(|()| target.finish(&progress));
    progress.finish();
    match outcome {
        Ok(()) => {
            if !arguments.has("json") {
                context.line(&format!("{from} is copied to {to}"));
            }
            Ok(0)
        }
        Err(reason) => failed(reason),
    }
}

impl Source {
    fn open(name: &str) -> Result<Self, Stop> {
        let path = Path::new(name);
        if is_url(path) {
            let mut opening = Opening::default();
            opening.options.is_read_only = true;
            let opened = StoreOpener::new(false).open_device(path, &opening);
            return match opened {
                Ok(device) => Ok(Self::Store(device)),
                Err(error) => failed(error.to_string()),
            };
        }
        let device = FileDevice::open(path, FileOptions::default());
        let device = device.map_err(|error| Stop::Failed(error.to_string()))?;
        match File::open(path) {
            Ok(file) => Ok(Self::File(device, file)),
            Err(error) => failed(format!("{name}: {error}")),
        }
    }

    fn device(&self) -> &dyn Device {
        match self {
            Self::Store(device) => device.as_ref(),
            Self::File(device, _) => device,
        }
    }

    /// The ranges known to have been written.
    fn mapped(&self, range: Range<u64>) -> Result<Vec<Range<u64>>, String> {
        match self {
            Self::Store(device) => {
                let found = device.mapped(range.start, range.end - range.start);
                found.map_err(|error| error.to_string())
            }
            Self::File(_, file) => Ok(data_of(file, range)),
        }
    }
}

impl Target {
    fn make(name: &str, size: u64) -> Result<Self, Stop> {
        let path = Path::new(name);
        match is_url(path) {
            true => Self::make_device(path, size),
            false => Self::make_file(path, size),
        }
    }

    fn make_device(path: &Path, size: u64) -> Result<Self, Stop> {
        let text = path.to_string_lossy();
        let location = Location::parse(&text).map_err(|error| Stop::Failed(error.to_string()))?;
        let name = match location.size {
            Some(own) if own < size => {
                return failed(format!("{text}: smaller than what is copied: {size} bytes"));
            }
            Some(_) => text.into_owned(),
            None if text.contains('?') => format!("{text}&size={size}"),
            None => format!("{text}?size={size}"),
        };
        // Without a local log, which would only duplicate data that the source still has.
        let opening = Opening {
            log_bytes: 0,
            ..Opening::default()
        };
        let opener = StoreOpener::new(false);
        let made = opener.create_device(Path::new(&name), &opening);
        let opened = made.and_then(|()| opener.open_device(Path::new(&name), &opening));
        match opened {
            Ok(device) => Ok(Self::Store(device)),
            Err(error) => failed(error.to_string()),
        }
    }

    fn make_file(path: &Path, size: u64) -> Result<Self, Stop> {
        let fail =
            |error: &dyn std::fmt::Display| Stop::Failed(format!("{}: {error}", path.display()));
        let options = FileOptions {
            writable: true,
            direct: false,
        };
        let open = |path: &Path| FileDevice::open(path, options).map(Box::new);
        if path.exists() {
            let metadata = std::fs::metadata(path).map_err(|error| fail(&error))?;
            if metadata.is_file() {
                return Err(fail(&"it is there already"));
            }
            let device = open(path).map_err(|error| Stop::Failed(error.to_string()))?;
            return match device.size() < size {
                true => Err(fail(&format!("smaller than what is copied: {size} bytes"))),
                false => Ok(Self::File(device, None)),
            };
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let made = File::create(&part).and_then(|file| file.set_len(size));
        made.map_err(|error| fail(&error))?;
        let device = open(&part).map_err(|error| Stop::Failed(error.to_string()))?;
        Ok(Self::File(device, Some((part, path.to_owned()))))
    }

    fn device(&self) -> &dyn Device {
        match self {
            Self::Store(device) => device.as_ref(),
            Self::File(device, _) => device.as_ref(),
        }
    }

    /// Makes the copy durable, then renames it to its final name.
    fn finish(&self, progress: &Progress) -> Result<(), String> {
        match self {
            Self::Store(device) => {
                let text = |error: Arc<CloudError>| error.to_string();
                let point = device.begin_upload().map_err(text)?;
                let total = device.status().pending_bytes;
                while !device.is_uploaded(point).map_err(text)? {
                    let left = device.status().pending_bytes;
                    progress.set(total.saturating_sub(left), Some(total), "uploading");
                    std::thread::sleep(POLL);
                }
                device.close(Close::Upload).map_err(text)
            }
            Self::File(device, names) => {
                device.flush().map_err(|error| error.to_string())?;
                let Some((part, name)) = names else {
                    return Ok(());
                };
                let renamed = std::fs::rename(part, name);
                renamed.map_err(|error| format!("{}: {error}", name.display()))
            }
        }
    }
}

/// Copies everything, the labels last.
fn copy(source: &Source, target: &dyn Device, progress: &Progress) -> Result<(), String> {
    let size = source.device().size();
    let labels = LABELS.min(size / 2);
    let (front, back) = (labels, size - labels);
    let done = AtomicU64::new(0);
    let mut at = front;
    while at < back {
        let end = (at + WINDOW).min(back);
        copy_range(source, target, at..end, &done)?;
        at = end;
        let copied = done.load(Ordering::Relaxed);
        progress.set(copied, None, &format!("copied to {}", percent(at, size)));
    }
    target.flush().map_err(|error| error.to_string())?;
    copy_range(source, target, 0..front, &done)?;
    copy_range(source, target, back..size, &done)
}

fn percent(at: u64, size: u64) -> String {
    let percent = u128::from(at) * 100 / u128::from(size.max(1));
    format!("{percent}% of the device")
}

/// Copies the written part of a range, with several threads.
fn copy_range(
    source: &Source,
    target: &dyn Device,
    range: Range<u64>,
    done: &AtomicU64,
) -> Result<(), String> {
    let mut pieces = Vec::new();
    for data in source.mapped(range)? {
        let mut at = data.start;
        while at < data.end {
            let end = (at + PIECE).min(data.end);
            pieces.push(at..end);
            at = end;
        }
    }
    let pieces = Mutex::new(pieces.into_iter());
    let failure = Mutex::new(None);
    let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some(piece) = next() {
            let length = piece.end - piece.start;
            if let Err(reason) = copy_piece(source.device(), target, piece) {
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                *failure = Some(reason);
                return;
            }
            done.fetch_add(length, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
    });
    let failure = failure.into_inner();
    failure
        .unwrap_or_else(PoisonError::into_inner)
        .map_or(Ok(()), Err)
}

fn copy_piece(source: &dyn Device, target: &dyn Device, piece: Range<u64>) -> Result<(), String> {
    let length = usize::try_from(piece.end - piece.start).map_err(|error| error.to_string())?;
    let bytes = source.read_vec(piece.start, length);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let mut at = piece.start;
    for part in bytes.chunks(HOLE) {
        if part.iter().any(|byte| *byte != 0) {
            let written = target.write_at(at, part);
            written.map_err(|error| error.to_string())?;
        }
        at += part.len() as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_images_become_each_other() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        let image = at("image");
        let size = 96 << 20;
        let file = File::create(&image).expect("writable");
        file.set_len(size).expect("sparse");
        let places = [0, 5 << 20, (40 << 20) + 512, size - 4096];
        for (number, place) in places.into_iter().enumerate() {
            let bytes = vec![number as u8 + 1; 4096];
            std::os::unix::fs::FileExt::write_all_at(&file, &bytes, place).expect("room");
        }
        let progress = Progress::new(cenote_words::progress::Style::Quiet, None);
        let url = format!("file://{}", at("store"));
        let through = |from: &str, to: &str| {
            let source = Source::open(from).expect("there");
            let target = Target::make(to, source.device().size()).expect("made");
            copy(&source, target.device(), &progress).expect("copied");
            target.finish(&progress).expect("finished");
        };
        through(&image, &url);
        through(&url, &at("again"));
        let (first, second) = (std::fs::read(&image), std::fs::read(at("again")));
        assert!(first.expect("there") == second.expect("there"));
        assert!(
            Target::make(&url, size).is_err(),
            "there is a device already"
        );
        assert!(Target::make(&at("again"), size).is_err(), "it is there");
    }
}
