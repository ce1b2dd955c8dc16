//! Operations on names.

use super::session::{Session, errno};
use super::tree::{Kind, Renaming};
use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, RenameFlags};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

impl Session {
    pub(super) fn create(&mut self) -> Result<()> {
        let (directory, name, path) = self.any_place();
        let mode = *self.random.choose(&[0o644, 0o600, 0o4755, 0o1777, 0o000]);
        let real = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|file| file.set_permissions(fs::Permissions::from_mode(mode)));
        let made = self
            .model
            .create(directory, &name, Kind::File(Vec::new()), mode);
        self.agree("create", errno(real), made.map(|_| ()))
    }

    pub(super) fn mkdir(&mut self) -> Result<()> {
        let (directory, name, path) = self.any_place();
        let real = fs::create_dir(&path);
        let real =
            real.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o750)));
        let kind = Kind::Directory(BTreeMap::new());
        let made = self.model.create(directory, &name, kind, 0o750);
        self.agree("mkdir", errno(real), made.map(|_| ()))
    }

    pub(super) fn symlink(&mut self) -> Result<()> {
        let (directory, name, path) = self.any_place();
        let length = self.random.below(300) as usize + 1;
        let mut target = "t/".repeat(length).split_off(length);
        if self.is_noisy {
            let digits = self.noise(length.div_ceil(2));
            target = crate::mounted::hex(&digits);
        }
        let real = std::os::unix::fs::symlink(&target, &path);
        let made = self
            .model
            .create(directory, &name, Kind::Link(target), 0o777);
        self.agree("symlink", errno(real), made.map(|_| ()))
    }

    pub(super) fn mknod(&mut self) -> Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Ok(());
        }
        let (directory, name, path) = self.any_place();
        let device = rustix::fs::makedev(1 + self.random.below(200) as u32, 7);
        let mode = Mode::from_raw_mode(0o640);
        let real = rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, device);
        let kind = Kind::Device(device);
        let made = self.model.create(directory, &name, kind, 0o640);
        self.agree("mknod", real, made.map(|_| ()))
    }

    pub(super) fn link(&mut self) -> Result<()> {
        let Some((id, from)) = self.any_file() else {
            return Ok(());
        };
        let (directory, name, path) = self.any_place();
        let real = errno(fs::hard_link(&from, &path));
        let made = self.model.link(id, directory, &name);
        self.agree("link", real, made)
    }

    pub(super) fn unlink(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (directory, name, path) = place.unwrap_or_else(|| self.any_place());
        let real = errno(fs::remove_file(&path));
        let made = self.model.unlink(directory, &name);
        self.agree("unlink", real, made)
    }

    pub(super) fn rmdir(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (directory, name, path) = place.unwrap_or_else(|| self.any_place());
        let real = errno(fs::remove_dir(&path));
        let made = self.model.rmdir(directory, &name);
        self.agree("rmdir", real, made)
    }

    pub(super) fn rename(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (from, old, path) = place.unwrap_or_else(|| self.any_place());
        let (to, new, target) = self.any_place();
        let (renaming, flags) = match self.random.below(7) {
            0 if rustix::process::geteuid().is_root() => {
                (Renaming::Whiteout, RenameFlags::WHITEOUT)
            }
            2 => (Renaming::NoReplace, RenameFlags::NOREPLACE),
            1 => (Renaming::Exchange, RenameFlags::EXCHANGE),
            _ => (Renaming::Replace, RenameFlags::empty()),
        };
        let real = rustix::fs::renameat_with(CWD, &path, CWD, &target, flags);
        let made = self.model.rename((from, &old), (to, &new), renaming);
        let what = format!(
            "rename {renaming:?} {} {}",
            path.display(),
            target.display()
        );
        self.agree(&what, real, made)
    }
}
