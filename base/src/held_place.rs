//! The way to a mount point.
//!
//! Root makes directories for mounts, mounts at them, and removes them again, also in directories
//! of ordinary users. Such a user could put a symbolic link in the way, between a check and that,
//! and lead root to a directory of the system. So the way is walked step by step, links of ordinary
//! users are not followed, and the directory at its end is held open.

use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The type of the file system of processes (statfs(2)).
const PROC: rustix::fs::FsWord = 0x9fa0;

/// The most symbolic links on a way, as in the kernel.
const LINKS_MAX: usize = 40;

/// A directory that is held open.
#[derive(Debug)]
pub struct HeldPlace {
    directory: OwnedFd,
    /// Its path without symbolic links.
    pub path: PathBuf,
}

impl HeldPlace {
    /// Walks to the directory at an absolute path.
    ///
    /// # Errors
    /// What the system says; `EACCES` for a symbolic link of an ordinary user or of a process.
    pub fn at(path: &Path) -> Result<Self, Errno> {
        Self::walked(path, false)
    }

    /// The same; directories that are missing are made.
    ///
    /// # Errors
    /// As [`Self::at`], and if one cannot be made.
    pub fn made_at(path: &Path) -> Result<Self, Errno> {
        Self::walked(path, true)
    }

    /// Removes the empty directory at an absolute path.
    ///
    /// # Errors
    /// As [`Self::at`], and if it cannot be removed.
    pub fn remove(path: &Path) -> Result<(), Errno> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Errno::BUSY);
        };
        let parent = Self::at(parent)?;
        rustix::fs::unlinkat(&parent.directory, name, AtFlags::REMOVEDIR)
    }

    fn walked(path: &Path, makes: bool) -> Result<Self, Errno> {
        let mut walk = Walk {
            at: open(None, OsStr::new("/"))?,
            path: PathBuf::from("/"),
            ahead: VecDeque::new(),
            links: 0,
            makes,
        };
        walk.add(path);
        while let Some(part) = walk.ahead.pop_front() {
            walk.step(&part)?;
        }
        Ok(Self {
            directory: walk.at,
            path: walk.path,
        })
    }

    /// A path that leads to the directory, whatever happens to its own.
    pub fn handle(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))
    }
}

struct Walk {
    at: OwnedFd,
    path: PathBuf,
    ahead: VecDeque<OsString>,
    links: usize,
    /// Makes directories that are missing.
    makes: bool,
}

fn open(at: Option<&OwnedFd>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let at = at.map_or(rustix::fs::CWD, AsFd::as_fd);
    rustix::fs::openat(at, name, flags, Mode::empty())
}

impl Walk {
    /// Puts the parts of a path before those that are still ahead.
    fn add(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::CurDir | Component::Prefix(_) => {}
                Component::RootDir => self.ahead.push_front(OsString::from("/")),
                Component::ParentDir => self.ahead.push_front(OsString::from("..")),
                Component::Normal(name) => self.ahead.push_front(name.to_owned()),
            }
        }
    }

    fn step(&mut self, part: &OsStr) -> Result<(), Errno> {
        let next = match part.as_bytes() {
            b"/" => {
                self.path = PathBuf::from("/");
                self.at = open(None, part)?;
                return Ok(());
            }
            b".." => {
                self.at = open(Some(&self.at), part)?;
                self.path.pop();
                return Ok(());
            }
            _ => match open(Some(&self.at), part) {
                Err(Errno::NOENT) if self.makes => {
                    match rustix::fs::mkdirat(&self.at, part, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => open(Some(&self.at), part)?,
                        Err(error) => return Err(error),
                    }
                }
                next => next?,
            },
        };
        let found = match rustix::fs::fstat(&next) {
            // A mount whose server has ended, which the new one replaces.
            Err(Errno::NOTCONN) if self.ahead.is_empty() => None,
            found => Some(found?),
        };
        match found.map(|found| (FileType::from_raw_mode(found.st_mode), found.st_uid)) {
            None | Some((FileType::Directory, _)) => {
                self.at = next;
                self.path.push(part);
                Ok(())
            }
            Some((FileType::Symlink, owner)) => self.follow(&next, owner),
            Some(_) => Err(Errno::NOTDIR),
        }
    }

    fn follow(&mut self, link: &OwnedFd, owner: u32) -> Result<(), Errno> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(Errno::LOOP);
        }
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Err(Errno::ACCESS);
        }
        // Links of processes lead where the process likes, and may belong to root nevertheless.
        if rustix::fs::fstatfs(link)?.f_type == PROC {
            return Err(Errno::ACCESS);
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        self.add(&target);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};

    #[test]
    fn links_of_ordinary_users_are_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        let top = directory.path().canonicalize().expect("a path");
        std::fs::create_dir_all(top.join("a/b")).expect("directories");
        std::fs::write(top.join("file"), "").expect("a file");
        symlink("a/../a", top.join("relative")).expect("a link");
        symlink(top.join("relative"), top.join("absolute")).expect("a link");
        symlink("self", top.join("self")).expect("a link");
        let walk = |below: &str| HeldPlace::at(&top.join(below)).map(|held| held.path);
        for way in ["a/b", "relative/b", "absolute/b", "a/./b/../b"] {
            assert_eq!(walk(way), Ok(top.join("a/b")), "{way}");
        }
        assert_eq!(walk("self"), Err(Errno::LOOP));
        assert_eq!(walk("file"), Err(Errno::NOTDIR));
        assert_eq!(walk("none"), Err(Errno::NOENT));
        let of_process = HeldPlace::at(Path::new("/proc/self/cwd"));
        assert_eq!(of_process.err(), Some(Errno::ACCESS));
        let new = top.join("new/below/one");
        assert_eq!(HeldPlace::made_at(&new).expect("made").path, new);
        assert_eq!(HeldPlace::remove(&top.join("new")), Err(Errno::NOTEMPTY));
        assert_eq!(HeldPlace::remove(&new), Ok(()));
        assert!(!new.exists() && top.join("new/below").exists());
        let held = HeldPlace::at(&top.join("a/b")).expect("a directory");
        let inode = |path: &Path| path.metadata().expect("a directory").ino();
        assert_eq!(inode(&held.handle()), inode(&top.join("a/b")));
        if rustix::process::geteuid().is_root() {
            lchown(top.join("relative"), Some(7), None).expect("chown");
            assert_eq!(walk("absolute/b"), Err(Errno::ACCESS));
            let beyond = top.join("absolute/new/one");
            assert_eq!(HeldPlace::made_at(&beyond).err(), Some(Errno::ACCESS));
            assert_eq!(
                HeldPlace::remove(&top.join("absolute/b")),
                Err(Errno::ACCESS)
            );
            assert!(top.join("a/b").exists() && !top.join("a/new").exists());
            chown(top.join("a"), Some(7), None).expect("chown");
            assert_eq!(walk("a/b"), Ok(top.join("a/b")));
        }
    }
}
