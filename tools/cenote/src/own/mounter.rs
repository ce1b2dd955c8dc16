//! How the daemon mounts file systems: through FUSE.

use std::path::Path;
use std::sync::Arc;

use cenote_control::model::ControlError;
use cenote_control::service::{MountJob, Mounted, Mounter};
use cenote_fuse::{
    ControlDirectory, DatasetFiles, DatasetOptions, Mount, MountError, MountOptions, UnmountMode,
};
use cenote_posix::DatasetSpace;

/// Mounts through FUSE.
pub struct FuseMounter;

impl Mounter for FuseMounter {
    fn mount(&self, job: MountJob) -> Result<Box<dyn Mounted>, ControlError> {
        let name = job.dataset.name().to_string();
        let failed = |error: MountError| ControlError::MountFailed {
            dataset: name.clone(),
            reason: with_hint(&error.to_string()),
        };
        let options = mount_options(&name, &job);
        let place = job.mount_point.clone();
        let files = Arc::new(dataset_files(&name, job));
        let mount = Mount::new(files, &place, &options).map_err(failed)?;
        Ok(Box::new(FuseMount(mount)))
    }
}

fn mount_options(name: &str, job: &MountJob) -> MountOptions {
    let mut options = MountOptions::new(name);
    options.read_only = job.switches.read_only || !job.files.is_writable();
    options.set_user_id = job.switches.setuid;
    options.devices = job.switches.devices;
    options.executables = job.switches.exec;
    options.access_times = job.switches.atime;
    options
}

fn dataset_files(name: &str, job: MountJob) -> DatasetFiles {
    let switches = job.switches;
    let options = DatasetOptions {
        control_directory: match (switches.snapdir_disabled, switches.snapdir_visible) {
            (true, _) => ControlDirectory::Disabled,
            (false, true) => ControlDirectory::Visible,
            (false, false) => ControlDirectory::Hidden,
        },
        posix_acl: switches.posix_acl,
        xattr: switches.xattr,
        access_times: !switches.noatime,
        space: DatasetSpace {
            referenced: job.dataset.phys().referenced_bytes,
            available: job.available,
            record_size: job.record_size,
            long_names: switches.long_names,
        },
    };
    let name = name.to_owned();
    let damage = Arc::clone(&job.damage);
    let report = move |error: &cenote_posix::PosixError| {
        eprintln!("cenote: {name}: {error}");
        damage.report(error);
    };
    DatasetFiles::new(job.dataset, job.files, options, Box::new(report))
}

/// A FUSE mount; dropping it unmounts lazily.
struct FuseMount(Mount);

impl Mounted for FuseMount {
    fn mount_point(&self) -> &Path {
        self.0.mount_point()
    }

    fn is_there(&self) -> bool {
        self.0.is_serving()
    }

    fn is_in_tree(&self) -> bool {
        self.0.is_in_tree()
    }

    fn unmount(&self, force: bool) -> Result<(), ControlError> {
        let mode = if force {
            UnmountMode::Force
        } else {
            UnmountMode::Normal
        };
        match self.0.unmount(mode) {
            Ok(()) => Ok(()),
            Err(MountError::Busy) => Err(ControlError::MountBusy {
                path: self.0.mount_point().to_string_lossy().into_owned(),
            }),
            Err(error) => Err(ControlError::UnmountFailed {
                path: self.0.mount_point().to_string_lossy().into_owned(),
                reason: with_hint(&error.to_string()),
            }),
        }
    }
}

/// A reason of `fusermount3`, with what to do about systems that do not suit it.
fn with_hint(reason: &str) -> String {
    // The program says its own name, too.
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

    /// This used to be called an internal error.
    #[test]
    fn a_missing_mtab_is_told_with_its_remedy() {
        let reason = "fusermount3: failed to open /etc/mtab: No such file or directory";
        let path = "/m".to_owned();
        let reason = with_hint(reason);
        let error = ControlError::UnmountFailed { path, reason };
        let text = crate::texts::with_context("cannot export 't'", &error);
        assert!(
            text.starts_with("cannot export 't': cannot unmount '/m': fusermount3"),
            "{text}"
        );
        assert!(text.ends_with("mends that"), "{text}");
        assert_eq!(with_hint("busy"), "busy");
    }

    #[test]
    fn a_closed_device_is_told_with_its_remedy() {
        let reason = "fusermount3: fusermount3: failed to open /dev/fuse: Permission denied";
        let text = with_hint(reason);
        let expected = "fusermount3: failed to open /dev/fuse: Permission denied; 'chmod";
        assert!(text.starts_with(expected), "{text}");
    }
}
