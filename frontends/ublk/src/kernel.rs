//! Commands to the driver.
//!
//! `libublk` sends them through an `io_uring` of the calling thread and waits for the answer. A
//! command that a signal interrupts leaves that ring unusable, so each command has a thread of its
//! own, which takes its ring along when it ends.
//!
//! *Files that are not ours.* `libublk` would describe devices in files below `/run/ublksrvd`, a
//! directory that it makes writable for everybody. It does so only for threads that it starts
//! itself; ours are not, so nothing is written there. It insists on reading such a file when it
//! is pointed to a device that exists. A placeholder keeps it from complaining; what the file says
//! is not used.

use crate::UblkError;
use cenote_base::rt;
use libublk::ctrl::{UblkCtrl, UblkCtrlBuilder, ublk_init_ctrl_task_ring};
use libublk::{UblkFlags, sys};
use rustix::io::Errno;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What devices are made with: their data stays in the kernel's memory until we copy it, and they
/// outlive the process with the requests that are under way.
const FLAGS: u32 = sys::UBLK_F_USER_COPY
    | sys::UBLK_F_USER_RECOVERY
    | sys::UBLK_F_USER_RECOVERY_REISSUE
    | sys::UBLK_F_CMD_IOCTL_ENCODE;

/// Commands in the ring of a thread; there is one at a time.
const RING_ENTRIES: u32 = 4;

/// What the kernel says about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub is_quiesced: bool,
    pub is_dead: bool,
    pub process: i32,
    /// What we gave it when it was made.
    pub token: u64,
    pub queue_depth: u16,
}

/// Commands to one device.
#[derive(Clone)]
pub(crate) struct Control(Arc<UblkCtrl>);

impl Control {
    /// Makes a device; it cannot be opened yet.
    pub fn add(token: u64, queue_depth: u16) -> Result<Self, UblkError> {
        let ctrl = command("make a device", move || {
            let ctrl = UblkCtrlBuilder::default()
                .name("cenote")
                .nr_queues(1)
                .depth(queue_depth)
                .io_buf_bytes(crate::parameters::REQUEST_BYTES_MAX)
                .ctrl_flags(FLAGS.into())
                .ctrl_target_flags(token)
                .dev_flags(UblkFlags::UBLK_DEV_F_ADD_DEV)
                .build()?;
            // It goes when we say so, and not with this value.
            ctrl.disown();
            Ok(ctrl)
        })?;
        Ok(Self(Arc::new(ctrl)))
    }

    /// A device that exists, to be taken over.
    pub fn of_left(number: u32) -> Result<Self, UblkError> {
        place_placeholder(number);
        let id = i32::try_from(number).unwrap_or(i32::MAX);
        let what = format!("find device {number}");
        let ctrl = command(&what, move || {
            UblkCtrlBuilder::default()
                .name("cenote")
                .id(id)
                .dev_flags(UblkFlags::UBLK_DEV_F_RECOVER_DEV)
                .build()
        })?;
        Ok(Self(Arc::new(ctrl)))
    }

    pub fn number(&self) -> u32 {
        self.0.dev_info().dev_id
    }

    /// For the functions of `libublk` that need it.
    pub fn ctrl(&self) -> &UblkCtrl {
        &self.0
    }

    /// Sends a command in a thread of its own.
    fn send<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce(&UblkCtrl) -> Result<T, libublk::UblkError> + Send + 'static,
    ) -> Result<T, UblkError> {
        let ctrl = Arc::clone(&self.0);
        let what = format!("{what} /dev/ublkb{}", self.number());
        command(&what, move || work(&ctrl))
    }

    /// Sends a command that has no other answer than how it went.
    pub fn order(
        &self,
        what: &str,
        work: impl FnOnce(&UblkCtrl) -> Result<i32, libublk::UblkError> + Send + 'static,
    ) -> Result<(), UblkError> {
        self.send(what, |ctrl| match work(ctrl)? {
            // `libublk` takes EBUSY for a success.
            number if number < 0 => Err(libublk::UblkError::UringIOError(number)),
            _ => Ok(()),
        })
    }

    /// What the kernel says about the device.
    pub fn facts(&self) -> Result<Facts, UblkError> {
        self.send("describe", |ctrl| {
            ctrl.read_dev_info()?;
            let info = ctrl.dev_info();
            Ok(Facts {
                is_quiesced: u32::from(info.state) == sys::UBLK_S_DEV_QUIESCED,
                is_dead: u32::from(info.state) == sys::UBLK_S_DEV_DEAD,
                process: info.ublksrv_pid,
                token: info.ublksrv_flags,
                queue_depth: info.queue_depth,
            })
        })
    }

    /// Has the kernel end the device's requests and its node. Returns when none is under way.
    pub fn stop(&self) -> Result<(), UblkError> {
        self.order("stop", UblkCtrl::kill_dev)
    }

    /// Removes a device that was stopped. While it is open its number stays taken; the kernel
    /// completes the removal.
    pub fn delete(&self) -> Result<(), UblkError> {
        let deleted = self.order("remove", UblkCtrl::del_dev_async);
        match deleted {
            // Linux 6.9 and newer can remove it without waiting for its users.
            Err(UblkError::Kernel { .. }) => {
                let control = self.clone();
                let waiting = rt::spawn("ublk-remove", move || {
                    control.order("remove", UblkCtrl::del_dev)
                });
                waiting.map(drop).map_err(|source| UblkError::System {
                    what: "start a thread",
                    source,
                })
            }
            other => other,
        }
    }
}

/// What the driver can do.
pub(crate) fn features() -> Result<u64, UblkError> {
    let features = command("say what it can do", || Ok(UblkCtrl::get_features()))?;
    features.ok_or(UblkError::TooOld("say what it can do"))
}

/// Whether the driver can do what we need.
pub(crate) fn check_features(features: u64) -> Result<(), UblkError> {
    let has = |flag: u32| features & u64::from(flag) != 0;
    if !has(sys::UBLK_F_USER_COPY) {
        return Err(UblkError::TooOld("leave the copying to programs"));
    }
    if !has(sys::UBLK_F_USER_RECOVERY) || !has(sys::UBLK_F_USER_RECOVERY_REISSUE) {
        return Err(UblkError::TooOld(
            "keep a device when its program is killed",
        ));
    }
    if !has(sys::UBLK_F_CMD_IOCTL_ENCODE) {
        return Err(UblkError::TooOld("take commands in their present form"));
    }
    Ok(())
}

/// Whether the size of a device can change while it exists.
pub(crate) fn can_resize(features: u64) -> bool {
    features & u64::from(sys::UBLK_F_UPDATE_SIZE) != 0
}

/// Has the kernel not wait for this thread's own device when it is short of memory.
pub(crate) fn mark_thread() {
    UblkCtrl::init_queue_thread();
}

/// Does something with the driver in a thread and a ring of its own.
fn command<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> Result<T, libublk::UblkError> + Send + 'static,
) -> Result<T, UblkError> {
    let failed = |source| UblkError::System {
        what: "start a thread for a command to the ublk driver",
        source,
    };
    let thread = rt::spawn("ublk-command", move || {
        make_ring()?;
        work().map_err(Failure::Command)
    });
    let outcome = thread.map_err(failed)?.join();
    if let Ok(Err(Failure::Command(error))) = &outcome {
        log::debug!("the ublk driver did not {what}: {error:?}");
    }
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(Failure::Ring(source))) => Err(UblkError::NoIoUring { source }),
        Ok(Err(Failure::Command(error))) => Err(UblkError::Kernel {
            what: what.to_owned(),
            source: system_error(&error),
        }),
        Err(_) => Err(UblkError::Kernel {
            what: what.to_owned(),
            source: io::Error::other("the command panicked; the log has more"),
        }),
    }
}

enum Failure {
    Ring(io::Error),
    Command(libublk::UblkError),
}

fn make_ring() -> Result<(), Failure> {
    let made = ublk_init_ctrl_task_ring(|ring| {
        *ring = Some(io_uring::IoUring::builder().build(RING_ENTRIES)?);
        Ok(())
    });
    made.map_err(|error| Failure::Ring(system_error(&error)))
}

/// The system's error in one of `libublk`.
pub(crate) fn system_error(error: &libublk::UblkError) -> io::Error {
    use libublk::UblkError as Theirs;
    match error {
        Theirs::UringIOError(number) | Theirs::OtherError(number) => {
            io::Error::from_raw_os_error(number.saturating_neg())
        }
        Theirs::IOError(error) => match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::other(error.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

/// Puts a file where `libublk` reads one, so that it finds nothing to complain of.
fn place_placeholder(number: u32) {
    let directory = PathBuf::from(UblkCtrl::run_dir());
    let path = directory.join(format!("{number:04}.json"));
    if let Err(error) = try_place(&directory, &path) {
        log::debug!("{}: {error}", path.display());
    }
}

fn try_place(directory: &Path, path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Any file there is about a device that no longer exists: ours have no such file.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(b"{}")
}

/// Removes the placeholder of a device that is gone.
pub(crate) fn remove_placeholder(number: u32) {
    let path = PathBuf::from(UblkCtrl::run_dir()).join(format!("{number:04}.json"));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            log::debug!("{}: {error}", path.display());
        }
        _ => {}
    }
}

/// Whether there is such a device at all.
pub(crate) fn exists(number: u32) -> bool {
    Path::new(&format!("/dev/ublkc{number}")).exists()
}

/// A signal interrupts a command with this error.
pub(crate) fn is_interrupted(error: &UblkError) -> bool {
    matches!(number(error), Some(Errno::AGAIN | Errno::INTR))
}

/// The device is not, or not yet, in the state for the command.
pub(crate) fn is_busy(error: &UblkError) -> bool {
    number(error) == Some(Errno::BUSY)
}

fn number(error: &UblkError) -> Option<Errno> {
    match error {
        UblkError::Kernel { source, .. } => Errno::from_io_error(source),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_drivers_are_refused() {
        assert!(check_features(FLAGS.into()).is_ok());
        let old = u64::from(FLAGS & !sys::UBLK_F_USER_COPY);
        let told = check_features(old).expect_err("too old").to_string();
        assert!(told.contains("Linux 6.5"), "{told}");
        assert!(!can_resize(FLAGS.into()));
        assert!(can_resize(u64::from(FLAGS | sys::UBLK_F_UPDATE_SIZE)));
    }

    #[test]
    fn errors_keep_their_numbers() {
        let told = system_error(&libublk::UblkError::UringIOError(-16));
        assert_eq!(told.raw_os_error(), Some(16));
        let told = system_error(&libublk::UblkError::OtherError(i32::MIN));
        assert!(told.raw_os_error().is_some());
    }

    #[test]
    fn a_placeholder_replaces_what_is_there() {
        let directory = tempfile::tempdir().expect("there is room");
        let place = directory.path().join("run");
        let path = place.join("0001.json");
        try_place(&place, &path).expect("it is placed");
        fs::remove_file(&path).expect("it is there");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("it is linked");
        try_place(&place, &path).expect("it is placed");
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        assert!(metadata.is_file());
        assert_eq!(fs::read(&path).expect("it can be read"), b"{}");
    }
}
