//! `cenote device export`: a device shown to other programs as a file.

mod device_file;

use crate::command::{Arguments, Command, Run, flags};
use crate::context::{Context, Outcome, failed, usage};
use crate::places::state_directory_of_process;
use cenote_cloud::location::is_location;
use cenote_cloud::{Close, CloudDevice, LOG_SIZE, Opening, StoreOpener};
use cenote_device::{Device, FileDevice, FileOptions, kernel_use};
use cenote_fuse::{FileSystem, Mount, MountOptions, UnmountMode};
use device_file::DeviceFile;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file's name.
const NAME: &str = "disk";
/// How often it is looked whether it is over.
const POLL: Duration = Duration::from_millis(200);

/// The command.
pub const COMMAND: Command = Command {
    name: "device",
    summary: "Show a device, one in an object store too, to other programs as a file",
    synopsis: "export [-r] [-f] DEVICE DIRECTORY",
    about: "The device, a URL such as s3://bucket/prefix or a path, is the file 'disk' in\n\
            DIRECTORY until that is unmounted, or this command ends by Ctrl-C: for losetup,\n\
            qemu, or the zpool of a kernel's ZFS. What was synced is as durable as in a pool;\n\
            a device in a store is uploaded and released at the end.",
    flags: flags! {
        'r' "read-only" _ "only read, as of the newest commit; nobody is hindered";
        'f' "force" _ "take over a device in a store that its last writer did not release";
    },
    run: Run::Asking(run),
};

fn run(arguments: &Arguments, context: &mut Context) -> Outcome {
    let operands = arguments.operands.iter();
    let words: Vec<&str> = operands.map(|word| word.to_str().unwrap_or("?")).collect();
    match words.as_slice() {
        ["export", device, directory] => export(device, directory, arguments, context),
        _ => usage(""),
    }
}

/// What is shown.
struct Shown {
    device: Arc<dyn Device>,
    store: Option<Arc<CloudDevice>>,
}

fn open(name: &str, is_read_only: bool, is_forced: bool) -> Result<Shown, String> {
    let path = Path::new(name);
    if !is_location(path) {
        if let Some(used) = kernel_use(path).filter(|_| !is_read_only) {
            return Err(format!(
                "cannot show {name} for writing: it {used}. Free it first, or use -r"
            ));
        }
        let options = FileOptions {
            writable: !is_read_only,
            ..FileOptions::default()
        };
        let device = FileDevice::open(path, options).map_err(|error| error.to_string())?;
        return Ok(Shown {
            device: Arc::new(device),
            store: None,
        });
    }
    let mut opening = Opening {
        log_bytes: LOG_SIZE,
        ..Opening::default()
    };
    opening.options.is_read_only = is_read_only;
    opening.options.is_forced = is_forced;
    let opener = StoreOpener::new(false);
    let opener = match state_directory_of_process() {
        Some(state) => opener.with_state(&state.join("cloud")),
        None => opener,
    };
    let made = match name.contains("size=") && !is_read_only {
        true => match opener.create_device(path, &opening) {
            Ok(()) | Err(cenote_cloud::CloudError::Exists { .. }) => Ok(()),
            Err(error) => Err(error),
        },
        false => Ok(()),
    };
    let opened = made.and_then(|()| opener.open_device(path, &opening));
    let device = opened.map_err(|error| error.to_string())?;
    Ok(Shown {
        device: Arc::clone(&device) as Arc<dyn Device>,
        store: Some(device),
    })
}

fn export(name: &str, directory: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let is_read_only = arguments.has("read-only");
    let shown = match open(name, is_read_only, arguments.has("force")) {
        Ok(shown) => shown,
        Err(reason) => return failed(reason),
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            return failed(format!("cannot listen for signals: {error}"));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    let files = DeviceFile::new(Arc::clone(&shown.device), NAME.to_owned(), seconds);
    let served: Arc<dyn FileSystem> = Arc::new(files);
    let mut options = MountOptions::new(name);
    options.read_only = !shown.device.is_writable();
    let mount = match Mount::new(served, Path::new(directory), &options) {
        Ok(mount) => mount,
        Err(error) => {
            close(&shown, is_read_only)?;
            return failed(error.to_string());
        }
    };
    context.line(&format!("{name} is {directory}/{NAME}"));
    context.flush();
    while !mount.wait(Some(POLL)) {
        if !stop.load(Ordering::Relaxed) {
            continue;
        }
        match mount.unmount(UnmountMode::Normal) {
            Ok(()) => break,
            Err(error) => {
                stop.store(false, Ordering::Relaxed);
                context.complain(&format!("cenote: {directory}: {error}"));
            }
        }
    }
    close(&shown, is_read_only)
}

/// Makes durable what was written, and lets others have the device.
fn close(shown: &Shown, is_read_only: bool) -> Outcome {
    if is_read_only {
        return Ok(0);
    }
    if let Err(error) = shown.device.flush() {
        return failed(error.to_string());
    }
    match shown.store.as_ref().map(|store| store.close(Close::Upload)) {
        Some(Err(error)) => failed(error.to_string()),
        _ => Ok(0),
    }
}
