//! Mounts file systems for the daemon, through FUSE.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use cenote_base::ObjectId;
use cenote_base::rt::{Mutex, ranks};
use cenote_control::model::ControlError;
use cenote_engine::{
    Holder, MountFigures, MountJob, MountSwitches, Mounted, Mounter, SnapshotNameChange,
};
use cenote_files::{ControlDirectory, DatasetFiles, DatasetOptions, DatasetSwitches, NameChange};
use cenote_fuse::{Errno, FileSystem, Mount, MountError, MountOptions, UnmountMode};
use cenote_posix::{DatasetSpace, FileSystem as PosixFiles};

use super::guard::{Guard, Guarded};

/// Mounts through FUSE.
#[derive(Default)]
pub struct FuseMounter {
    /// Aborts the connections if the daemon is killed; without it, some may remain.
    guard: Option<Arc<Guard>>,
}

impl FuseMounter {
    /// With a guard process that watches the connections.
    pub fn guarded() -> Self {
        let guard = Guard::start().map(Arc::new);
        if let Err(error) = &guard {
            log::warn!("no process guards the mounts if this one is killed: {error}");
        }
        Self { guard: guard.ok() }
    }
}

impl Mounter for FuseMounter {
    fn mount(&self, mut job: MountJob) -> Result<Box<dyn Mounted>, ControlError> {
        let name = job.dataset.name().to_string();
        let failed = |error: MountError| ControlError::MountFailed {
            dataset: name.clone(),
            reason: with_hint(&error.to_string()),
        };
        let options = mount_options(&name, &job.switches);
        let namespace = job.namespace.take();
        let place = job.mount_point.clone();
        let switches = Mutex::new(job.switches);
        let files = Arc::new(dataset_files(&name, job));
        let served: Arc<dyn FileSystem> = Arc::clone(&files) as _;
        let mount = match &namespace {
            Some(namespace) => Mount::new_within(namespace.as_fd(), served, &place, &options),
            None => Mount::new(served, &place, &options),
        };
        let mount = mount.map_err(failed)?;
        let connection = mount.connection();
        let guarded = self.guard.as_ref().zip(connection);
        Ok(Box::new(FuseMount {
            _guarded: guarded.map(|(guard, number)| guard.watch(number)),
            mount,
            files,
            name,
            switches,
        }))
    }
}

fn mount_options(name: &str, switches: &MountSwitches) -> MountOptions {
    let mut options = MountOptions::new(name);
    options.read_only = switches.read_only;
    options.set_user_id = switches.setuid;
    options.devices = switches.devices;
    options.executables = switches.exec;
    options.access_times = switches.atime;
    options
}

fn dataset_switches(switches: &MountSwitches) -> DatasetSwitches {
    DatasetSwitches {
        control_directory: match (switches.snapdir_disabled, switches.snapdir_visible) {
            (true, _) => ControlDirectory::Disabled,
            (false, true) => ControlDirectory::Visible,
            (false, false) => ControlDirectory::Hidden,
        },
        xattr: switches.xattr,
        access_times: !switches.noatime && !switches.read_only,
        refuses_changes: switches.read_only,
    }
}

fn dataset_files(name: &str, job: MountJob) -> DatasetFiles {
    let options = DatasetOptions {
        switches: dataset_switches(&job.switches),
        posix_acl: job.switches.posix_acl,
        space: DatasetSpace {
            referenced: job.dataset.phys().referenced_bytes,
            available: job.available,
            record_size: job.record_size,
            long_names: job.switches.long_names,
        },
    };
    let name = name.to_owned();
    let damage = Arc::clone(&job.damage);
    let report = move |error: &cenote_posix::PosixError| {
        log::error!("{name}: {error}");
        damage.report(error);
    };
    let names = job.snapshots;
    let change_name = move |user: u32, change: NameChange<'_>| {
        let change = match change {
            NameChange::Make(name) => SnapshotNameChange::Make(name),
            NameChange::Destroy(name) => SnapshotNameChange::Destroy(name),
            NameChange::Rename { from, to } => SnapshotNameChange::Rename { from, to },
        };
        let changed = names.change(user, change);
        changed.map_err(Errno::from_raw_os_error)
    };
    let report = Box::new(report);
    DatasetFiles::new(
        job.dataset,
        job.files,
        options,
        report,
        Box::new(change_name),
    )
}

/// A FUSE mount; dropping it unmounts lazily.
struct FuseMount {
    _guarded: Option<Guarded>,
    mount: Mount,
    files: Arc<DatasetFiles>,
    name: String,
    /// The current switches.
    switches: Mutex<MountSwitches, ranks::MountedSwitches>,
}

/// The switches that the kernel must know.
fn options_of(switches: &MountSwitches) -> [bool; 5] {
    let MountSwitches {
        exec,
        devices,
        setuid,
        read_only,
        atime,
        ..
    } = *switches;
    [exec, devices, setuid, read_only, atime]
}

/// Whether the file server can apply the change without the kernel: no atime updates, and refusing
/// changes.
fn is_for_files(before: &MountSwitches, after: &MountSwitches) -> bool {
    let kept = MountSwitches {
        atime: after.atime,
        read_only: after.read_only,
        ..*before
    };
    (after.read_only || !before.read_only) && options_of(&kept) == options_of(after)
}

impl Mounted for FuseMount {
    fn figures(&self) -> MountFigures {
        let metrics = self.mount.metrics();
        MountFigures {
            operations: metrics.operations().collect(),
            errors: metrics.errors.get(),
            read_bytes: metrics.bytes_read.get(),
            written_bytes: metrics.bytes_written.get(),
        }
    }

    fn mount_point(&self) -> &Path {
        self.mount.mount_point()
    }

    fn is_there(&self) -> bool {
        self.mount.is_serving()
    }

    fn is_in_tree(&self) -> bool {
        self.mount.is_in_tree()
    }

    fn forget_snapshots(&self) {
        self.files.forget_snapshots();
    }

    fn can_exchange(&self) -> bool {
        self.files.can_exchange()
    }

    fn hold_back(&self) -> bool {
        self.files.hold_back()
    }

    fn take_up(&self, files: Arc<PosixFiles>, open: &[ObjectId], gone: &[ObjectId]) {
        self.files.take_up(files, open, gone);
    }

    fn go_on(&self) {
        self.files.go_on();
    }

    fn change(&self, switches: &MountSwitches) -> Result<bool, ControlError> {
        let mut now = self.switches.lock();
        let needs_files = !switches.read_only && !self.files.can_take_changes();
        if needs_files || switches.posix_acl != now.posix_acl {
            return Ok(false);
        }
        match self.mount.change(&mount_options(&self.name, switches)) {
            Ok(()) => {}
            // Files are open for writing. The kernel keeps accepting writes, so our server refuses
            // them.
            Err(MountError::Busy) if switches.read_only => {}
            Err(MountError::NotPermitted) if is_for_files(&now, switches) => {}
            Err(MountError::Busy | MountError::NotPermitted | MountError::Covered) => {
                return Ok(false);
            }
            Err(error) => {
                return Err(ControlError::MountFailed {
                    dataset: self.name.clone(),
                    reason: error.to_string(),
                });
            }
        }
        self.files.change(dataset_switches(switches));
        *now = *switches;
        Ok(true)
    }

    fn holders(&self) -> Vec<Holder> {
        self.mount.holders().into_iter().map(holder_of).collect()
    }

    fn end(&self) -> bool {
        self.mount.end()
    }

    fn unmount(&self, force: bool) -> Result<(), ControlError> {
        let mode = if force {
            UnmountMode::Force
        } else {
            UnmountMode::Normal
        };
        match self.mount.unmount(mode) {
            Ok(()) => Ok(()),
            Err(MountError::Busy) => Err(ControlError::MountBusy {
                path: self.mount.mount_point().to_string_lossy().into_owned(),
            }),
            Err(error) => Err(ControlError::UnmountFailed {
                path: self.mount.mount_point().to_string_lossy().into_owned(),
                reason: with_hint(&error.to_string()),
            }),
        }
    }
}

/// A process that uses a mount, in the protocol's types.
fn holder_of(holder: cenote_fuse::Holder) -> Holder {
    Holder {
        pid: holder.pid,
        command: holder.command,
        mount_point: holder.mount_point,
        is_used: holder.is_used,
        is_idle_copy: holder.is_idle_copy,
    }
}

/// An error of `fusermount3`, with advice for unsuitable systems.
fn with_hint(reason: &str) -> String {
    // The program prints its own name, too.
    let reason = reason.replacen("fusermount3: fusermount3: ", "fusermount3: ", 1);
    if reason.contains("/etc/mtab") {
        return format!("{reason}; 'ln -s /proc/self/mounts /etc/mtab' as root mends that");
    }
    if reason.contains("/dev/fuse") && reason.contains("Permission denied") {
        return format!("{reason}; 'chmod 666 /dev/fuse' as root lets everybody mount");
    }
    reason
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, this was reported as an internal error.
    #[test]
    fn a_missing_mtab_is_told_with_its_remedy() {
        let reason = "fusermount3: failed to open /etc/mtab: No such file or directory";
        let path = "/m".to_owned();
        let reason = with_hint(reason);
        let error = ControlError::UnmountFailed { path, reason };
        let text = cenote_words::texts::with_context("cannot export 't'", &error);
        assert!(
            text.starts_with("cannot export 't': cannot unmount '/m': fusermount3"),
            "{text}"
        );
        assert!(text.ends_with("mends that"), "{text}");
        assert_eq!(with_hint("busy"), "busy");
    }

    /// If the kernel refuses to change a mount, the file server applies what it can.
    #[test]
    fn files_refuse_what_the_kernel_would_not() {
        let all = MountSwitches {
            exec: true,
            devices: true,
            setuid: true,
            read_only: false,
            atime: true,
            noatime: false,
            xattr: true,
            posix_acl: false,
            snapdir_visible: false,
            snapdir_disabled: false,
            long_names: false,
        };
        let quiet = MountSwitches {
            atime: false,
            ..all
        };
        let read_only = MountSwitches {
            read_only: true,
            ..quiet
        };
        let no_programs = MountSwitches { exec: false, ..all };
        assert!(is_for_files(&all, &quiet) && is_for_files(&all, &read_only));
        assert!(!is_for_files(&all, &no_programs));
        assert!(!is_for_files(&read_only, &all), "the kernel refuses");
    }

    #[test]
    fn a_closed_device_is_told_with_its_remedy() {
        let reason = "fusermount3: fusermount3: failed to open /dev/fuse: Permission denied";
        let text = with_hint(reason);
        let expected = "fusermount3: failed to open /dev/fuse: Permission denied; 'chmod";
        assert!(text.starts_with(expected), "{text}");
    }
}
