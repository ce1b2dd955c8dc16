//! Shows devices as files until they are unmounted or a signal arrives.

use super::device_files::DeviceFiles;
pub use super::device_files::Shown as ShownAs;
use cenote_fuse::{FileSystem, Mount, MountOptions, UnmountMode};
use cenote_words::context::{Context, Outcome, failed};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often to check whether to end.
const POLL: Duration = Duration::from_millis(200);

/// How to show devices.
pub struct MountedDevices<'a> {
    /// The source in `/proc/mounts`.
    pub source: &'a str,
    /// The mount point.
    pub directory: &'a Path,
    /// Whether to refuse writes.
    pub is_read_only: bool,
    /// The lines to print once the devices are mounted.
    pub announced: &'a [String],
}

/// Shows devices as files with these names until they are unmounted or a signal arrives.
pub fn show(
    devices: Vec<(String, ShownAs)>,
    how: &MountedDevices<'_>,
    context: &mut Context,
) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            return failed(format!("cannot listen for signals: {error}"));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let files: Arc<dyn FileSystem> = Arc::new(DeviceFiles::new(devices, seconds));
    let mut options = MountOptions::new(how.source);
    options.read_only = how.is_read_only;
    let mount = match Mount::new(files, how.directory, &options) {
        Ok(mount) => mount,
        Err(error) => return failed(error.to_string()),
    };
    how.announced.iter().for_each(|line| context.line(line));
    context.flush();
    while !mount.wait(Some(POLL)) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        match mount.unmount(UnmountMode::Normal) {
            Ok(()) => break,
            Err(error) => {
                stop.store(false, Ordering::Relaxed);
                let directory = how.directory.display();
                context.complain(&format!("cenote: {directory}: {error}"));
            }
        }
    }
    Ok(0)
}
