//! Names of disks: symbolic links below `/dev/zvol`, as in OpenZFS.
//!
//! `/dev/zvol/tank/vms/web` leads to `../../../ublkb3`. Links of ours are recognized by that form.
//! A link is made atomically, and never replaces anything else: another driver's link, a file, or
//! a link to a disk of another process. Links to a missing disk are left over from a daemon that
//! died; they are replaced or removed. Empty directories are removed.

use cenote_engine::disk_number;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// How many directory entries one search for stale links checks at most.
const ENTRIES_MAX: usize = 100_000;

/// Why there is no link.
#[derive(Debug, Error)]
pub(super) enum LinkFault {
    /// Something is in its place.
    #[error("{} is there already and is not a link of this daemon; remove it", .0.display())]
    Occupied(PathBuf),
    /// The name cannot be a path.
    #[error("'{0}' cannot be the name of a link")]
    Name(String),
    /// The system's reason.
    #[error("cannot make the link {}: {source}", path.display())]
    System { path: PathBuf, source: io::Error },
}

/// The links.
#[derive(Clone, Debug)]
pub(super) struct Links {
    devices: PathBuf,
}

impl Links {
    /// Links to disks in `devices`, which is `/dev` but in tests.
    pub fn new(devices: &Path) -> Self {
        Self {
            devices: devices.to_owned(),
        }
    }

    fn root(&self) -> PathBuf {
        self.devices.join("zvol")
    }

    /// The path of a disk.
    pub fn device(&self, number: u32) -> PathBuf {
        self.devices.join(format!("ublkb{number}"))
    }

    /// Where the link of a dataset is.
    pub fn place(&self, dataset: &str) -> PathBuf {
        self.root().join(dataset)
    }

    /// The name of a dataset, if a path is that of its link.
    pub fn dataset_of<'a>(&self, path: &'a Path) -> Option<&'a str> {
        path.strip_prefix(self.root()).ok()?.to_str()
    }

    /// The number of a disk, if a path is that of one.
    pub fn number_of(&self, path: &Path) -> Option<u32> {
        let name = path.strip_prefix(&self.devices).ok()?.to_str()?;
        disk_number(name)
    }

    /// The disk that a link of ours leads to.
    fn target(&self, link: &Path) -> Option<u32> {
        let target = fs::read_link(link).ok()?;
        let ups = link.strip_prefix(&self.devices).ok()?.components().count() - 1;
        let mut parts = target.components();
        let is_up = |part: Option<Component<'_>>| part == Some(Component::ParentDir);
        let is_ours = (0..ups).all(|_| is_up(parts.next()));
        let name = parts.next().filter(|_| is_ours)?.as_os_str().to_str()?;
        disk_number(name).filter(|_| parts.next().is_none())
    }

    /// Makes the link of a dataset. A link to a disk for which `is_ours` holds may be replaced.
    pub fn make(
        &self,
        dataset: &str,
        number: u32,
        is_ours: impl Fn(u32) -> bool,
    ) -> Result<PathBuf, LinkFault> {
        let link = self.place(dataset);
        let relative = Path::new(dataset);
        let is_normal = |part: Component<'_>| matches!(part, Component::Normal(_));
        if dataset.is_empty() || !relative.components().all(is_normal) {
            return Err(LinkFault::Name(dataset.to_owned()));
        }
        let failed = |source| LinkFault::System {
            path: link.clone(),
            source,
        };
        let parent = link.parent().unwrap_or(&self.devices);
        fs::create_dir_all(parent).map_err(failed)?;
        let mut target: PathBuf = relative.components().map(|_| "..").collect();
        target.push(format!("ublkb{number}"));
        match symlink(&target, &link) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|()| link.clone()).map_err(failed),
        }
        match self.target(&link) {
            Some(there) if there == number => return Ok(link),
            Some(there) if is_ours(there) || !self.device(there).exists() => {}
            _ => return Err(LinkFault::Occupied(link)),
        }
        // A name that no dataset has.
        let new = parent.join(format!(".ublkb{number}~"));
        let _ = fs::remove_file(&new);
        let made = symlink(&target, &new).and_then(|()| fs::rename(&new, &link));
        made.map(|()| link.clone()).map_err(failed)
    }

    /// Removes the link of a dataset, if it leads to this disk.
    pub fn remove(&self, dataset: &str, number: u32) {
        let link = self.place(dataset);
        if self.target(&link) == Some(number) {
            let _ = fs::remove_file(&link);
            self.remove_empty(link.parent());
        }
    }

    /// Removes directories that are empty, from this one up.
    fn remove_empty(&self, mut directory: Option<&Path>) {
        while let Some(path) = directory.filter(|path| path.starts_with(self.root())) {
            // It fails while something is there.
            if fs::remove_dir(path).is_err() {
                break;
            }
            directory = path.parent();
        }
    }

    /// Removes links of ours for whose disk `is_gone` holds.
    pub fn prune(&self, is_gone: impl Fn(u32) -> bool) {
        let mut directories = vec![self.root()];
        let mut looks = 0;
        while let Some(directory) = directories.pop() {
            let Ok(entries) = fs::read_dir(&directory) else {
                continue;
            };
            for entry in entries.flatten() {
                looks += 1;
                if looks > ENTRIES_MAX {
                    return;
                }
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(kind) if kind.is_symlink() => {
                        let path = entry.path();
                        if self.target(&path).is_some_and(&is_gone) {
                            let _ = fs::remove_file(&path);
                            self.remove_empty(path.parent());
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// Removes links whose disk is gone.
    pub fn prune_dead(&self) {
        self.prune(|number| !self.device(number).exists());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links() -> (tempfile::TempDir, Links) {
        let directory = tempfile::tempdir().expect("a directory");
        let links = Links::new(directory.path());
        fs::write(links.device(3), "three").expect("written");
        fs::write(links.device(4), "four").expect("written");
        (directory, links)
    }

    fn never(_: u32) -> bool {
        false
    }

    #[test]
    fn a_link_leads_to_its_disk_and_goes_with_its_directories() {
        let (_directory, links) = links();
        let made = links.make("tank/vms/web@a b", 3, never).expect("made");
        assert_eq!(fs::read_to_string(&made).expect("it leads there"), "three");
        links
            .make("tank/vms/web@a b", 3, never)
            .expect("it is there");
        links.make("tank/other", 4, never).expect("made");
        assert_eq!(links.dataset_of(&made), Some("tank/vms/web@a b"));
        assert_eq!(links.number_of(&links.device(4)), Some(4));
        links.remove("tank/vms/web@a b", 4);
        assert!(made.exists(), "it leads to another disk");
        links.remove("tank/vms/web@a b", 3);
        assert!(!links.place("tank/vms").exists());
        assert!(links.place("tank/other").exists());
        links.remove("tank/other", 4);
        assert!(!links.root().exists());
    }

    #[test]
    fn what_is_not_ours_is_not_replaced() {
        let (_directory, links) = links();
        fs::create_dir_all(links.place("tank")).expect("made");
        let place = links.place("tank/vol");
        let refused = || {
            let made = links.make("tank/vol", 3, never);
            assert!(matches!(made, Err(LinkFault::Occupied(_))), "{made:?}");
            links.prune_dead();
            links.remove("tank/vol", 3);
            assert!(place.symlink_metadata().is_ok(), "it is still there");
            fs::remove_file(&place).expect("removed");
        };
        fs::write(&place, "a file").expect("written");
        refused();
        for foreign in ["../../zd16", "/dev/ublkb9", "../../sub/ublkb9", "ublkb9"] {
            symlink(foreign, &place).expect("made");
            refused();
        }
        // A disk of another process.
        symlink("../../ublkb4", &place).expect("made");
        refused();
        symlink("../../ublkb4", &place).expect("made");
        links
            .make("tank/vol", 3, |number| number == 4)
            .expect("ours");
        assert_eq!(fs::read_to_string(&place).expect("it leads there"), "three");
        for name in ["", "/etc", "tank/../../etc", "tank/./a/.."] {
            let made = links.make(name, 3, never);
            assert!(matches!(made, Err(LinkFault::Name(_))), "{name}: {made:?}");
        }
    }

    #[test]
    fn links_whose_disk_is_gone_are_replaced_and_removed() {
        let (_directory, links) = links();
        fs::create_dir_all(links.place("tank/a")).expect("made");
        for name in ["tank/vol", "tank/a/old"] {
            let ups = "../".repeat(name.split('/').count());
            symlink(format!("{ups}ublkb9"), links.place(name)).expect("made");
        }
        links.make("tank/vol", 3, never).expect("made");
        links.prune_dead();
        assert!(links.place("tank/vol").exists());
        assert!(!links.place("tank/a").exists(), "with its directory");
    }
}
