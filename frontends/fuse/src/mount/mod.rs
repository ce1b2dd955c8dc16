//! Putting a file system into the tree, and taking it out again.
//!
//! Three ways lead to a mount, tried in this order: `mount(2)` by ourselves, which root and
//! processes in a namespace of their own may call ([`enter_namespace`]); the set-user-id helper
//! `fusermount3`; and otherwise an error that names both. The connection to the kernel is the same
//! either way.
//!
//! A mount ends when the kernel says so: after our own unmount, an external `umount`, or an abort.
//! The workers then leave by themselves. Other mount namespaces may keep what was unmounted in
//! ours; [`Mount::end`] ends it there, too. If the process dies instead, the mount stays behind
//! dead, and the next mount at that place replaces it.

mod control;
mod error;
mod held;
mod helper;
mod holders;
mod namespace;
mod options;
mod stale;
mod table;

pub use control::abort_handle;
pub use error::MountError;
pub use holders::Holder;
pub use namespace::{NamespaceError, enter_namespace};
pub use options::MountOptions;
pub use stale::{ClearedMounts, clear_stale_mounts, is_stale, stale_mounts};
pub use table::{FILE_SYSTEM_TYPE, MountEntry, mounts, own_mounts};

use crate::filesystem::FileSystem;
use crate::metrics::SessionMetrics;
use crate::notify::{Channel, Notifier};
use crate::protocol::init::Negotiated;
use crate::session::Session;
use crate::transport::Device;
use crate::values::Errno;
use cenote_base::{HeldPlace, rt};
use held::HeldMount;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long an unmount waits for the workers; then it reports success anyway.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Between two checks for other holders of a mount that does not end.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// How long a forced unmount may take to end the connection without an abort.
const FORCE_TIMEOUT: Duration = Duration::from_millis(100);

/// How often an unmount that finds the mount busy is repeated, and after what pause. A process that
/// inspects a mount keeps it busy for a moment; each daemon inspects all mounts when it starts.
const BUSY_TRIES: u32 = 5;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// How hard to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnmountMode {
    /// Only if nothing on it is in use.
    Normal,
    /// Take it out of the tree now and serve what is open until it is closed.
    Lazy,
    /// End the connection; what is open fails with ENOTCONN.
    Force,
}

/// A mounted file system, served by threads of this process. Dropping it unmounts lazily.
pub struct Mount {
    session: Arc<Session>,
    mount_point: PathBuf,
    identity: Option<Identity>,
}

/// A mount's number in the table and its superblock's device.
type Identity = (u64, (u32, u32));

impl std::fmt::Debug for Mount {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Mount")
            .field("mount_point", &self.mount_point)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Mount {
    /// Mounts `file_system` at `mount_point` and serves it.
    ///
    /// A dead mount of ours at that place is cleared first.
    pub fn new(
        file_system: Arc<dyn FileSystem>,
        mount_point: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let mount_point = resolve(mount_point)?;
        let dead = stale::clear_at(&mount_point)?;
        let device = connect(&mount_point, dead, options)?;
        let identity = find_identity(&mount_point);
        Self::serve(file_system, device, (&mount_point, identity), options)
    }

    /// As [`Self::new`], at an existing directory of another mount namespace. Only processes in
    /// that namespace can unmount it by its path; [`Self::end`] ends it.
    pub fn new_within(
        namespace: BorrowedFd<'_>,
        file_system: Arc<dyn FileSystem>,
        mount_point: &Path,
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let device = Device::open(&options.device).map_err(|source| MountError::Device {
            device: options.device.clone(),
            source,
        })?;
        let mounted = namespace::within(namespace, || {
            mount_on(&device, mount_point, options)?;
            let held = HeldMount::at(mount_point)?;
            Ok((held.id()?, held.device()?))
        });
        let identity = mounted
            .and_then(|mounted| mounted)
            .map_err(|source| MountError::Mount {
                mount_point: mount_point.to_owned(),
                source,
            })?;
        Self::serve(file_system, device, (mount_point, Some(identity)), options)
    }

    /// Serves what was mounted with `device`, as soon as that has come up.
    fn serve(
        file_system: Arc<dyn FileSystem>,
        device: Device,
        (mount_point, identity): (&Path, Option<Identity>),
        options: &MountOptions,
    ) -> Result<Mount, MountError> {
        let config = options.session_config(&*file_system);
        let started = Session::negotiate(file_system, device, config)
            .map_err(MountError::from)
            .and_then(|session| match session.start() {
                Ok(()) => Ok(session),
                Err(error) => Err(MountError::Threads(error)),
            });
        let session = match started {
            Ok(session) => session,
            Err(error) => {
                // The first error is the one to report; the connection has ended with its device.
                if let (Ok(held), Some((id, _))) = (HeldMount::at(mount_point), identity)
                    && held.id() == Ok(id)
                {
                    let _ = stale::detach(held, mount_point);
                }
                return Err(error);
            }
        };
        let notifier = Notifier::new(weak(&session), identity.map(|(id, _)| id));
        session.file_system.attach(notifier);
        if let (Some(size), Some((_, device))) = (options.read_ahead_kib, identity) {
            set_read_ahead(device, size);
        }
        Ok(Mount {
            session,
            mount_point: mount_point.to_owned(),
            identity,
        })
    }

    /// The number of its connection in the kernel, if it is known.
    pub fn connection(&self) -> Option<u32> {
        self.identity.map(|(_, (_, minor))| minor)
    }

    /// Where it was mounted.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// What kernel and server agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.session.negotiated
    }

    /// What has been done so far.
    pub fn metrics(&self) -> &SessionMetrics {
        &self.session.metrics
    }

    /// Number of worker threads now.
    pub fn workers(&self) -> usize {
        self.session.workers()
    }

    /// For telling the kernel about changes that it did not make.
    pub fn notifier(&self) -> Notifier {
        Notifier::new(weak(&self.session), self.identity.map(|(id, _)| id))
    }

    /// Whether requests may still reach the file system.
    pub fn is_serving(&self) -> bool {
        !self.session.wait_ended(Some(Duration::ZERO))
    }

    /// Waits until the mount has ended, or for `limit`; returns whether it has ended.
    pub fn wait(&self, limit: Option<Duration>) -> bool {
        self.session.wait_ended(limit)
    }

    /// Unmounts. Success if it has been unmounted already.
    pub fn unmount(&self, mode: UnmountMode) -> Result<(), MountError> {
        if !self.is_serving() {
            return Ok(());
        }
        match self.current_place()? {
            Some(place) => self.unmount_at(&place, mode)?,
            None if mode == UnmountMode::Force => {}
            // Taken away from outside: it is about to end, unless something still holds it open.
            None if mode == UnmountMode::Normal && !self.ends_here() => {
                return Err(MountError::Busy);
            }
            None => {}
        }
        match mode {
            UnmountMode::Lazy => Ok(()),
            UnmountMode::Normal => {
                self.ends_here();
                Ok(())
            }
            UnmountMode::Force if self.wait(Some(FORCE_TIMEOUT)) => Ok(()),
            UnmountMode::Force => {
                // Requests that wait for devices may be under way for longer.
                self.end();
                Ok(())
            }
        }
    }

    /// Waits until it has ended, or only other mount namespaces have it.
    fn ends_here(&self) -> bool {
        let mut waited = Duration::ZERO;
        while !self.wait(Some(LOOK_INTERVAL)) {
            waited += LOOK_INTERVAL;
            // Other namespaces' copies do not excuse what is still open in this one.
            if !self.is_used_here() && !self.holders().is_empty() {
                return true;
            }
            if waited >= END_TIMEOUT {
                return false;
            }
        }
        true
    }

    /// Its holders in other mount namespaces, one process of each, as far as this user can see.
    pub fn holders(&self) -> Vec<Holder> {
        let device = self.identity.map(|(_, device)| device);
        device.map_or_else(Vec::new, |device| {
            holders::holders(device, &self.mount_point)
        })
    }

    /// Whether a process of this mount namespace uses it, as far as this user can see.
    fn is_used_here(&self) -> bool {
        self.identity
            .is_some_and(|(id, device)| holders::is_used_here(id, device))
    }

    /// Ends the connection, even if other namespaces have the mount: open files fail with ENOTCONN.
    /// Returns whether all requests have ended; no new ones will come.
    pub fn end(&self) -> bool {
        if self.is_serving() && self.abort().is_err() {
            // Not everybody has the kernel's means. Then nothing gets through any more.
            self.session.cut();
        }
        self.wait(Some(END_TIMEOUT))
    }

    fn unmount_at(&self, place: &Path, mode: UnmountMode) -> Result<(), MountError> {
        // Holding a mount by its root keeps it busy, so a normal unmount does not; the others do.
        let held = match (mode, self.identity) {
            (UnmountMode::Normal, _) | (_, None) => None,
            (_, Some((id, _))) => {
                let held = HeldMount::at(place).ok();
                held.filter(|held| held.id() == Ok(id))
            }
        };
        let flags = match mode {
            UnmountMode::Force => UnmountFlags::FORCE,
            UnmountMode::Normal | UnmountMode::Lazy => UnmountFlags::empty(),
        };
        let detached = held.map(|held| {
            // In a user namespace one may detach, and not always force.
            held.detach(flags)
                .or_else(|_| held.detach(UnmountFlags::empty()))
        });
        match detached {
            Some(Ok(())) => Ok(()),
            _ => unmount_path(place, mode),
        }
    }

    /// Changes what the kernel allows on it to what `options` say, in its place.
    ///
    /// # Errors
    /// [`MountError::Busy`] if it is to be only read and files are open for writing, and
    /// [`MountError::NotPermitted`] if this process may not: what was written is sent off then.
    /// [`MountError::Covered`] if it is not to be seen where it is.
    pub fn change(&self, options: &MountOptions) -> Result<(), MountError> {
        let place = match self.current_place() {
            Ok(Some(place)) => place,
            Ok(None) | Err(MountError::Busy) => return Err(MountError::Covered),
            Err(error) => return Err(error),
        };
        // Without a word about times the kernel keeps what it had.
        let times = match options.access_times {
            true => MountFlags::RELATIME,
            false => MountFlags::NOATIME,
        };
        let flags = options.flags() | times;
        if options.read_only {
            // What was stored through mappings is taken before anything is refused.
            let root = rustix::fs::open(&place, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
            let synced = root.and_then(rustix::fs::syncfs);
            synced.map_err(|source| MountError::Mount {
                mount_point: place.clone(),
                source,
            })?;
        }
        match rustix::mount::mount_remount(&place, flags, c"") {
            Ok(()) => Ok(()),
            Err(Errno::BUSY) => Err(MountError::Busy),
            Err(Errno::PERM | Errno::ACCESS) => Err(MountError::NotPermitted),
            Err(source) => Err(MountError::Mount {
                mount_point: place,
                source,
            }),
        }
    }

    /// Whether it is in the tree. Right after an external unmount it is not, but still serves.
    pub fn is_in_tree(&self) -> bool {
        if !self.is_serving() {
            return false;
        }
        let flags = AtFlags::STATX_DONT_SYNC;
        let top = rustix::fs::statx(CWD, &self.mount_point, flags, StatxFlags::MNT_ID);
        let is_on_top = match (top, self.identity) {
            (Ok(top), Some((id, _))) => top.stx_mnt_id == id,
            _ => false,
        };
        // If that cannot be found out, assume that it is: the worst result is that it is not
        // mounted again.
        is_on_top || !matches!(self.current_place(), Ok(None))
    }

    /// Where the mount is now (it may have been moved), if it is still in the tree.
    fn current_place(&self) -> Result<Option<PathBuf>, MountError> {
        let Some(identity) = self.identity else {
            return Ok(Some(self.mount_point.clone()));
        };
        let table = mounts().map_err(MountError::Table)?;
        let Some(ours) = table
            .iter()
            .find(|entry| (entry.id, entry.device) == identity)
        else {
            return Ok(None);
        };
        let top = table
            .iter()
            .rev()
            .find(|entry| entry.mount_point == ours.mount_point);
        // Unmounting by path would hit the mount above it.
        if top.is_some_and(|top| top.id != ours.id) {
            return Err(MountError::Busy);
        }
        Ok(Some(ours.mount_point.clone()))
    }

    /// Ends the connection through the control file system.
    fn abort(&self) -> Result<(), MountError> {
        let Some((_, (_, minor))) = self.identity else {
            return Err(MountError::Busy);
        };
        control::abort(minor).map_err(|source| MountError::Unmount {
            mount_point: self.mount_point.clone(),
            source,
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // There is no caller to get an error; open files are served until they are closed.
        if self.unmount(UnmountMode::Lazy).is_ok() {
            self.session.wait_ended(Some(Duration::from_millis(500)));
        }
    }
}

/// The session, as notifiers know it: the file system that it serves may keep one.
fn weak(session: &Arc<Session>) -> Weak<dyn Channel> {
    let session: Weak<Session> = Arc::downgrade(session);
    session
}

/// The absolute path without symbolic links. Works on a dead mount too, which cannot be entered.
fn resolve(mount_point: &Path) -> Result<PathBuf, MountError> {
    let error = |source| MountError::MountPoint {
        mount_point: mount_point.to_owned(),
        source,
    };
    if cenote_base::is_machine_root() && mount_point.is_absolute() {
        let walked = HeldPlace::at(mount_point);
        return walked
            .map(|held| held.path)
            .map_err(|errno| error(errno.into()));
    }
    match std::fs::canonicalize(mount_point) {
        Ok(path) => Ok(path),
        Err(first) => match (mount_point.parent(), mount_point.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                };
                Ok(std::fs::canonicalize(parent)
                    .map_err(|_| error(first))?
                    .join(name))
            }
            _ => Err(error(first)),
        },
    }
}

fn check_directory(mount_point: &Path) -> Result<(), MountError> {
    let error = |source| MountError::MountPoint {
        mount_point: mount_point.to_owned(),
        source,
    };
    let metadata = std::fs::metadata(mount_point).map_err(error)?;
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(error(Errno::NOTDIR.into())),
    }
}

/// Mounts in the first way that works, in the place of a `dead` mount if there is one.
fn connect(
    mount_point: &Path,
    dead: Option<HeldMount>,
    options: &MountOptions,
) -> Result<Device, MountError> {
    if let Some(dead) = dead {
        match replace(mount_point, dead, options) {
            Ok(device) => return Ok(device),
            Err(dead) => stale::detach(dead, mount_point)?,
        }
    }
    check_directory(mount_point)?;
    match mount_directly(mount_point, options)? {
        Some(device) => Ok(device),
        None => helper::mount(mount_point, options)?.ok_or(MountError::NotPermitted),
    }
}

/// Mounts where a dead mount is, which goes in the same instant: what programs write there fails
/// before and arrives after, and never lands in the directory below. Gives it back where the
/// kernel cannot do that, or does not let this user.
fn replace(
    mount_point: &Path,
    dead: HeldMount,
    options: &MountOptions,
) -> Result<Device, HeldMount> {
    let Ok(device) = Device::open(&options.device) else {
        return Err(dead);
    };
    let mut parameters = options.parameters(device.descriptor().as_raw_fd());
    let Some(source) = options.source.to_str() else {
        return Err(dead);
    };
    let subtype = FILE_SYSTEM_TYPE.trim_start_matches("fuse.");
    parameters.push(("source", source.to_owned()));
    parameters.push(("subtype", subtype.to_owned()));
    if options.read_only {
        parameters.push(("ro", String::new()));
    }
    let mounted = held::mount_beneath(mount_point, &parameters, options.attributes());
    // What was mounted and cannot come up goes with its device.
    match mounted.and_then(|()| dead.detach(UnmountFlags::empty())) {
        Ok(()) => Ok(device),
        Err(_) => Err(dead),
    }
}

/// Calls `mount(2)`; `None` when that is not permitted, so that the helper should try.
fn mount_directly(
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Option<Device>, MountError> {
    let device = match Device::open(&options.device) {
        Ok(device) => device,
        Err(Errno::ACCESS | Errno::PERM) => return Ok(None),
        Err(source) => {
            return Err(MountError::Device {
                device: options.device.clone(),
                source,
            });
        }
    };
    // What is at the path may change meanwhile; what is held may not.
    let held = match cenote_base::is_machine_root() {
        true => Some(
            HeldPlace::at(mount_point).map_err(|errno| MountError::MountPoint {
                mount_point: mount_point.to_owned(),
                source: errno.into(),
            })?,
        ),
        false => None,
    };
    let handle = held.as_ref().map(HeldPlace::handle);
    match mount_on(&device, handle.as_deref().unwrap_or(mount_point), options) {
        Ok(()) => Ok(Some(device)),
        // ACCES is what security modules of containers answer.
        Err(Errno::PERM | Errno::ACCESS) => Ok(None),
        Err(source) => Err(MountError::Mount {
            mount_point: mount_point.to_owned(),
            source,
        }),
    }
}

fn mount_on(device: &Device, mount_point: &Path, options: &MountOptions) -> Result<(), Errno> {
    let parameters = options.parameters(device.descriptor().as_raw_fd());
    let words = parameters.iter().map(|(name, value)| match value.as_str() {
        "" => (*name).to_owned(),
        value => format!("{name}={value}"),
    });
    let data = words.collect::<Vec<_>>().join(",");
    let data = CString::new(data).expect("numbers and words hold no NUL");
    let source = options.source.as_os_str();
    rustix::mount::mount(
        source,
        mount_point,
        FILE_SYSTEM_TYPE,
        options.flags(),
        data.as_c_str(),
    )
}

fn unmount_path(mount_point: &Path, mode: UnmountMode) -> Result<(), MountError> {
    let flags = UnmountFlags::NOFOLLOW
        | match mode {
            UnmountMode::Normal => UnmountFlags::empty(),
            UnmountMode::Lazy => UnmountFlags::DETACH,
            UnmountMode::Force => UnmountFlags::DETACH | UnmountFlags::FORCE,
        };
    let mut unmounted = rustix::mount::unmount(mount_point, flags);
    for _ in 0..BUSY_TRIES {
        if unmounted != Err(Errno::BUSY) {
            break;
        }
        rt::sleep(BUSY_PAUSE);
        unmounted = rustix::mount::unmount(mount_point, flags);
    }
    match unmounted {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy),
        Err(Errno::PERM) => helper::unmount(mount_point, mode != UnmountMode::Normal)
            .unwrap_or(Err(MountError::NotPermitted)),
        Err(source) => Err(MountError::Unmount {
            mount_point: mount_point.to_owned(),
            source,
        }),
    }
}

/// The newest mount of ours at `mount_point`. `None` without `/proc`.
fn find_identity(mount_point: &Path) -> Option<Identity> {
    let entries = own_mounts().ok()?;
    let newest = entries
        .iter()
        .rev()
        .find(|entry| entry.mount_point == mount_point)?;
    Some((newest.id, newest.device))
}

/// The kernel takes INIT's read-ahead only as an upper bound of its 128 KiB; root can raise it.
fn set_read_ahead((major, minor): (u32, u32), size_kib: u32) {
    // Best effort: without the permission the default stays.
    let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let _ = std::fs::write(file, size_kib.to_string());
}
