//! Directories that file systems are mounted at.

use crate::errors::of_dsl;
use cenote_base::HeldPlace;
use cenote_control::model::ControlError;
use cenote_dsl::{Dataset, DatasetName, Property, PropertySource};
use rustix::io::Errno;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::options::text_of;
use crate::imported::Imported;

/// Whether a dataset's place follows from its name.
pub(crate) fn is_derived(dataset: &Dataset) -> Result<bool, ControlError> {
    let report = dataset.property(Property::MountPoint).map_err(of_dsl)?;
    let source = report.map(|report| report.source);
    Ok(matches!(
        source,
        Some(PropertySource::Default | PropertySource::Inherited(_))
    ))
}

/// Whether a dataset's place follows from the mountpoint of `name`: it is that dataset, or has the
/// property from there or from further up.
pub(crate) fn has_place_of(dataset: &Dataset, name: &DatasetName) -> Result<bool, ControlError> {
    let report = dataset.property(Property::MountPoint).map_err(of_dsl)?;
    Ok(dataset.name() == name
        || match report.map(|report| report.source) {
            Some(PropertySource::Inherited(from)) => from.as_str().len() <= name.as_str().len(),
            Some(PropertySource::Default) => true,
            _ => false,
        })
}

/// Takes away directories that were there for mounts only; one with files in it stays.
pub fn remove_places(places: &[PathBuf]) {
    for place in places {
        // A directory that cannot be removed is harmless.
        let _ = match cenote_base::is_machine_root() {
            true => HeldPlace::remove(place).map_err(io::Error::from),
            false => std::fs::remove_dir(place),
        };
    }
}

/// The place that the properties name.
pub fn own_mount_point(imported: &Imported, dataset: &Dataset) -> Result<PathBuf, ControlError> {
    let name = dataset.name().as_str().to_owned();
    match text_of(dataset, Property::MountPoint).as_deref() {
        Some("legacy") => Err(ControlError::LegacyMountpoint { dataset: name }),
        None | Some("none") => Err(ControlError::NoMountpoint { dataset: name }),
        Some(place) => {
            if text_of(dataset, Property::CanMount).as_deref() == Some("off") {
                return Err(ControlError::CanMountOff { dataset: name });
            }
            Ok(imported.place(place))
        }
    }
}

/// Refuses a place that leads out of the alternative root: by dots in a property, or by a symbolic
/// link in a file system that is mounted above. Pools are not trusted.
pub(crate) fn check_within(root: &Path, place: &Path) -> Result<(), ControlError> {
    let mut at = root.to_owned();
    for part in place.strip_prefix(root).unwrap_or(place).components() {
        at.push(part);
        let is_link = at.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if is_link || !matches!(part, Component::Normal(_)) {
            return Err(ControlError::MountpointFailed {
                path: place.to_string_lossy().into_owned(),
                reason: format!("'{}' leads out of '{}'", at.display(), root.display()),
            });
        }
    }
    Ok(())
}

/// Refuses a place that a symbolic link of an ordinary user leads to: it could lead over a
/// directory of the system.
fn check_links(place: &Path) -> Result<(), ControlError> {
    let is_strange = |at: &&Path| {
        let found = at.symlink_metadata();
        found.is_ok_and(|found| found.is_symlink() && found.uid() != 0)
    };
    let strange = place.ancestors().find(is_strange);
    match strange.filter(|_| cenote_base::is_machine_root()) {
        Some(link) => Err(ControlError::MountpointFailed {
            path: place.to_string_lossy().into_owned(),
            reason: format!(
                "'{}' is a symbolic link of an ordinary user",
                link.display()
            ),
        }),
        None => Ok(()),
    }
}

/// Whether there is a mount whose server has died: it cannot be accessed, and the new mount
/// replaces it.
fn is_dead_mount(place: &Path) -> bool {
    let found = place.symlink_metadata();
    found.is_err_and(|error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()))
}

fn make_directory(place: &Path) -> io::Result<()> {
    match cenote_base::is_machine_root() {
        true => Ok(HeldPlace::made_at(place).map(drop)?),
        false => std::fs::create_dir_all(place),
    }
}

/// Makes the directory, and refuses one with files unless they may be covered.
pub(crate) fn prepare(place: &Path, make: bool, overlay: bool) -> Result<(), ControlError> {
    let path = place.to_string_lossy().into_owned();
    check_links(place)?;
    if make
        && let Err(error) = make_directory(place)
        && !is_dead_mount(place)
    {
        let reason = error.to_string();
        return Err(ControlError::MountpointFailed { path, reason });
    }
    if overlay {
        return Ok(());
    }
    // What cannot be listed the mount itself will judge: a dead mount, for one.
    let entries = std::fs::read_dir(place).ok();
    match entries.and_then(|mut entries| entries.next()) {
        Some(_) => Err(ControlError::DirectoryNotEmpty { path }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, lchown, symlink};

    /// A user's link used to lead the daemon of root over any directory.
    #[test]
    fn links_of_ordinary_users_lead_nowhere() {
        const USER: u32 = 64_001;
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        let (home, system) = (top.join("home"), top.join("system"));
        for one in [&home, &system, &home.join("roots"), &system.join("inner")] {
            std::fs::create_dir(one).expect("a directory");
        }
        let link = home.join("link");
        symlink(&system, &link).expect("a link");
        if !cenote_base::is_machine_root() {
            return;
        }
        assert!(
            prepare(&link.join("inner"), true, false).is_ok(),
            "a link of root"
        );
        chown(&home, Some(USER), None).expect("root may");
        lchown(&link, Some(USER), None).expect("root may");
        assert!(prepare(&link.join("inner"), true, false).is_err());
    }
}
