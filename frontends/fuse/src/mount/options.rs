//! How a file system is mounted.

use crate::filesystem::FileSystem;
use crate::protocol::init::Wishes;
use crate::session::SessionConfig;
use cenote_base::rt;
use rustix::mount::{MountAttrFlags, MountFlags};
use std::ffi::OsString;
use std::path::PathBuf;

/// How to mount.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What the table of mounts shows as the source: the dataset's name.
    pub source: OsString,
    /// Refuse writes before they reach us.
    pub read_only: bool,
    /// Let users other than the mounting one in.
    pub allow_other: bool,
    /// Let the kernel check permissions by owner and mode. If off, the mounting user can read
    /// everything, as needed to rescue a foreign pool; ignored if other users have access.
    pub check_permissions: bool,
    /// Honour set-user-id bits (property `setuid`); never for unprivileged mounts.
    pub set_user_id: bool,
    /// Honour device nodes (property `devices`); never for unprivileged mounts.
    pub devices: bool,
    /// Allow running programs (property `exec`).
    pub executables: bool,
    /// Let reads update access times (property `atime`).
    pub access_times: bool,
    /// Workers that always wait for requests.
    pub threads_min: usize,
    /// Workers at most, hence requests under way at most.
    pub threads_max: usize,
    /// Largest read or write in bytes. The kernel's own limit (`fs.fuse.max_pages_limit`) is 1 MiB.
    pub request_size_max: u32,
    /// Requests that may wait in the background: read-ahead, and direct reads larger than one
    /// request.
    pub background_max: u16,
    /// Read-ahead of mapped and page-cached files in KiB, set where the kernel lets us.
    pub read_ahead_kib: Option<u32>,
    /// Load attributes with every listing, not only where the kernel guesses they are wanted.
    pub readdirplus_always: bool,
    /// The device node of the FUSE driver.
    pub device: PathBuf,
}

impl MountOptions {
    /// A read-only mount of `source`, open to all users if root makes it or `/etc/fuse.conf` lets
    /// users do so.
    pub fn new(source: impl Into<OsString>) -> Self {
        let processors = rt::available_parallelism().map_or(2, |count| count.get());
        MountOptions {
            source: source.into(),
            read_only: true,
            allow_other: rustix::process::geteuid().is_root() || lets_others_in(),
            check_permissions: true,
            set_user_id: true,
            devices: true,
            executables: true,
            access_times: true,
            threads_min: processors.clamp(2, 16),
            threads_max: 64,
            request_size_max: 1 << 20,
            background_max: 256,
            read_ahead_kib: Some(1024),
            readdirplus_always: true,
            device: PathBuf::from("/dev/fuse"),
        }
    }

    /// Whether the kernel checks permissions: always when several users may enter.
    pub(super) fn default_permissions(&self) -> bool {
        self.check_permissions || self.allow_other
    }

    pub(super) fn flags(&self) -> MountFlags {
        let switches = [
            (self.read_only, MountFlags::RDONLY),
            (!self.set_user_id, MountFlags::NOSUID),
            (!self.devices, MountFlags::NODEV),
            (!self.executables, MountFlags::NOEXEC),
            (!self.access_times, MountFlags::NOATIME),
        ];
        let chosen = switches.iter().filter(|(on, _)| *on);
        chosen.fold(MountFlags::empty(), |flags, (_, flag)| flags | *flag)
    }

    /// As [`Self::flags`], in the terms of `fsmount(2)`.
    pub(super) fn attributes(&self) -> MountAttrFlags {
        let switches = [
            (self.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
            (!self.set_user_id, MountAttrFlags::MOUNT_ATTR_NOSUID),
            (!self.devices, MountAttrFlags::MOUNT_ATTR_NODEV),
            (!self.executables, MountAttrFlags::MOUNT_ATTR_NOEXEC),
            (!self.access_times, MountAttrFlags::MOUNT_ATTR_NOATIME),
        ];
        let chosen = switches.iter().filter(|(on, _)| *on);
        chosen.fold(MountAttrFlags::empty(), |flags, (_, flag)| flags | *flag)
    }

    /// The parameters of a connection for the kernel's driver, with its descriptor; words without a
    /// value are switches.
    pub(super) fn parameters(&self, descriptor: i32) -> Vec<(&'static str, String)> {
        let mut parameters = vec![
            ("fd", descriptor.to_string()),
            ("rootmode", "40000".to_owned()),
            ("user_id", rustix::process::geteuid().as_raw().to_string()),
            ("group_id", rustix::process::getegid().as_raw().to_string()),
            (
                "max_read",
                self.request_size_max.max(WRITE_SIZE_MIN).to_string(),
            ),
        ];
        let switches = [
            (self.default_permissions(), "default_permissions"),
            (self.allow_other, "allow_other"),
        ];
        let chosen = switches.into_iter().filter(|(on, _)| *on);
        parameters.extend(chosen.map(|(_, name)| (name, String::new())));
        parameters
    }

    pub(super) fn session_config(&self, file_system: &dyn FileSystem) -> SessionConfig {
        let threads_max = self.threads_max.max(1);
        let mut features = file_system.features();
        // The kernel takes ACL enforcement to include all other permission checks.
        features.posix_acl &= self.default_permissions();
        SessionConfig {
            device_path: self.device.clone(),
            threads_min: self.threads_min.clamp(1, threads_max),
            threads_max,
            wishes: Wishes {
                features,
                readdirplus_always: self.readdirplus_always,
                request_size_max: self.request_size_max.max(WRITE_SIZE_MIN),
                // Also where the mount is read-only: it may be changed to take writes.
                write_size_max: match features.writable {
                    true => self.request_size_max.max(WRITE_SIZE_MIN),
                    false => WRITE_SIZE_MIN,
                },
                background_max: self.background_max,
            },
        }
    }
}

/// The helper's settings, by the system's administrator (fusermount3(1)).
pub(super) const SETTINGS: &str = "/etc/fuse.conf";

/// The setting in that file that lets users open their mounts to other users.
pub(super) const OTHERS_SETTING: &str = "user_allow_other";

/// Whether a user's mount may be open to other users. Mounts inside that mount need this: the
/// helper runs as root, and a mount for its owner alone excludes root.
pub(super) fn lets_others_in() -> bool {
    let settings = std::fs::read_to_string(SETTINGS).unwrap_or_default();
    settings
        .lines()
        .any(|line| line.trim_end() == OTHERS_SETTING)
}

/// The kernel accepts no smaller limit for writes (`FUSE_MIN_READ_BUFFER` has room for it).
const WRITE_SIZE_MIN: u32 = 4096;
