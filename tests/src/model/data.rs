//! Operations on contents and attributes.

use super::compare;
use super::session::Session;
use super::tree::{Acl, Kind, NodeId};
use anyhow::{Context, Result, ensure};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};

/// Handles that are open at once.
const HANDLES_MAX: usize = 6;

/// Files end before this.
const SIZE_MAX: u64 = 6 << 20;

impl Session {
    pub(super) fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        bytes
    }

    pub(super) fn data(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        match self.random.below(3) {
            0 => self.random.fill(&mut bytes),
            1 => bytes.fill(self.random.below(256) as u8),
            _ => {
                let word = self.random.next_u64().to_le_bytes();
                for (index, byte) in bytes.iter_mut().enumerate() {
                    *byte = word[index % 8].wrapping_add((index / 1000) as u8);
                }
            }
        }
        bytes
    }

    pub(super) fn length(&mut self) -> usize {
        let limit = *self.random.choose(&[10, 500, 5000, 70_000, 400_000]);
        self.random.below(limit) as usize + 1
    }

    pub(super) fn offset(&mut self, size: u64) -> u64 {
        match self.random.below(4) {
            0 => self.random.below(size + 1),
            1 => self.random.below(size + 1) & !4095,
            2 => size,
            _ => self.random.below(SIZE_MAX / 2),
        }
    }

    /// A file to change: an open handle or one that is opened now.
    pub(super) fn writable(&mut self) -> Result<Option<(NodeId, File)>> {
        if !self.handles.is_empty() && self.random.below(3) == 0 {
            let (file, id) = self.random.choose(&self.handles);
            return Ok(Some((*id, file.try_clone()?)));
        }
        let Some((id, path)) = self.any_file() else {
            return Ok(None);
        };
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        Ok(Some((id, file)))
    }

    pub(super) fn size(&self, id: NodeId) -> u64 {
        match &self.model.node(id).kind {
            Kind::File(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    pub(super) fn put(&mut self, id: NodeId, offset: u64, data: &[u8]) {
        let bytes = self.model.contents_mut(id);
        let end = offset as usize + data.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset as usize..end].copy_from_slice(data);
    }

    pub(super) fn write(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        for _ in 0..=self.random.below(3) {
            let offset = self.offset(self.size(id)).min(SIZE_MAX);
            let length = self.length();
            let data = self.data(length);
            self.model.touch(id);
            file.write_all_at(&data, offset).context("write")?;
            self.put(id, offset, &data);
        }
        Ok(())
    }

    pub(super) fn append(&mut self) -> Result<()> {
        let Some((id, path)) = self.any_file() else {
            return Ok(());
        };
        if self.size(id) > SIZE_MAX {
            return Ok(());
        }
        let length = self.length();
        let data = self.data(length);
        self.model.touch(id);
        let mut file = OpenOptions::new().append(true).open(path)?;
        std::io::Write::write_all(&mut file, &data).context("append")?;
        self.put(id, self.size(id), &data);
        Ok(())
    }

    pub(super) fn truncate(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        let size = self.offset(self.size(id)) * self.random.below(2);
        self.model.touch(id);
        file.set_len(size).context("truncate")?;
        self.model.contents_mut(id).resize(size as usize, 0);
        Ok(())
    }

    pub(super) fn punch(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        let size = self.size(id);
        let offset = self.offset(size).min(size);
        let length = self.length() as u64 * (1 + self.random.below(4));
        self.model.touch(id);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, offset, length).context("punch")?;
        let bytes = self.model.contents_mut(id);
        let end = (offset + length).min(size) as usize;
        bytes[offset as usize..end].fill(0);
        Ok(())
    }

    /// Reserving room changes a size at most; zeroing a range changes contents.
    pub(super) fn allocate(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        let size = self.size(id);
        let offset = self.offset(size).min(SIZE_MAX);
        let length = self.length() as u64;
        self.model.touch(id);
        let zeroes = self.random.below(2) == 0;
        let keeps = self.random.below(2) == 0;
        let mut flags = FallocateFlags::empty();
        flags.set(FallocateFlags::ZERO_RANGE, zeroes);
        flags.set(FallocateFlags::KEEP_SIZE, keeps);
        rustix::fs::fallocate(&file, flags, offset, length)
            .with_context(|| format!("fallocate {flags:?}"))?;
        let bytes = self.model.contents_mut(id);
        let end = (offset + length) as usize;
        if !keeps && bytes.len() < end {
            bytes.resize(end, 0);
        }
        if zeroes {
            let end = end.min(bytes.len());
            bytes[(offset as usize).min(end)..end].fill(0);
        }
        Ok(())
    }

    /// Sets or removes the entries for one more user.
    pub(super) fn acl(&mut self) -> Result<()> {
        const NAME: &str = "system.posix_acl_access";
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        if !matches!(self.model.node(id).kind, Kind::File(_) | Kind::Directory(_)) {
            return Ok(());
        }
        self.model.touch(id);
        let supported = match self.has_acls {
            true => Ok(()),
            false => Err(Errno::OPNOTSUPP),
        };
        if self.random.below(4) == 0 {
            if !self.has_acls {
                return Ok(());
            }
            let real = rustix::fs::removexattr(&path, NAME);
            // What is not there can be removed as well, as by `setfacl -b`.
            let real = if real == Err(Errno::NODATA) {
                Ok(())
            } else {
                real
            };
            self.model.node_mut(id).acl = None;
            return self.agree("removing an ACL", real, Ok(()));
        }
        let acl = Acl {
            user: self.random.below(100_000) as u32,
            user_permissions: self.random.below(8) as u16,
            group_permissions: self.random.below(8) as u16,
        };
        let mode = self.random.below(0o1000) as u32;
        let special = self.model.node(id).mode & 0o7000;
        let real = rustix::fs::setxattr(&path, NAME, &acl.encode(mode), XattrFlags::empty());
        if self.has_acls {
            let node = self.model.node_mut(id);
            node.acl = Some(acl);
            node.mode = special | mode;
        }
        self.agree("setting an ACL", real, supported)
    }

    pub(super) fn chmod(&mut self) -> Result<()> {
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        if !matches!(self.model.node(id).kind, Kind::File(_) | Kind::Directory(_)) {
            return Ok(());
        }
        let mode = self.random.below(0o10000) as u32;
        self.model.touch(id);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context("chmod")?;
        self.model.node_mut(id).mode = mode;
        Ok(())
    }

    pub(super) fn xattr(&mut self) -> Result<()> {
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        if !matches!(self.model.node(id).kind, Kind::File(_) | Kind::Directory(_)) {
            return Ok(());
        }
        let key = format!("x{}", self.random.below(5));
        let full = format!("user.{key}");
        self.model.touch(id);
        let is_there = self.model.node(id).xattrs.contains_key(&key);
        if self.random.below(3) == 0 {
            let real = rustix::fs::removexattr(&path, full.as_str());
            let known = self.model.node_mut(id).xattrs.remove(&key);
            let made = known.map(|_| ()).ok_or(Errno::NODATA);
            return self.agree("removexattr", real, made);
        }
        let limit = *self.random.choose(&[1, 30, 200, 3000, 40_000]);
        let length = self.random.below(limit) as usize;
        let value = match self.is_noisy {
            true => self.noise(length.max(150)),
            false => self.data(length),
        };
        let (flags, made) = match self.random.below(4) {
            0 if is_there => (XattrFlags::CREATE, Err(Errno::EXIST)),
            1 if !is_there => (XattrFlags::REPLACE, Err(Errno::NODATA)),
            _ => (XattrFlags::empty(), Ok(())),
        };
        let real = rustix::fs::setxattr(&path, full.as_str(), &value, flags);
        if made.is_ok() {
            self.model.node_mut(id).xattrs.insert(key, value);
        }
        self.agree(&format!("setxattr of {length} bytes"), real, made)
    }

    pub(super) fn open_handle(&mut self) -> Result<()> {
        if self.handles.len() >= HANDLES_MAX {
            return self.close_handle();
        }
        if self.random.below(3) == 0 {
            let directory = self.any_directory();
            let path = self.root.join(self.model.path(directory));
            let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR;
            let file = rustix::fs::open(&path, flags, mode).context("O_TMPFILE")?;
            let id = self.model.create_unnamed(0o600);
            self.handles.push((file.into(), id));
        } else if let Some((id, path)) = self.any_file() {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            self.model.node_mut(id).handles += 1;
            self.handles.push((file, id));
        }
        Ok(())
    }

    pub(super) fn close_handle(&mut self) -> Result<()> {
        if self.handles.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.handles.len());
        let (file, id) = self.handles.swap_remove(index);
        compare::contents(&self.model, id, &file).context("an open file")?;
        let (directory, name, path) = self.any_place();
        // Only what never had a name can be linked: the kernel refuses what lost its last.
        let is_new = self.model.node(id).names > 0 || is_unnamed(&file)?;
        if is_new && self.random.below(2) == 0 {
            let from = format!("/proc/self/fd/{}", file.as_raw_fd());
            let real = rustix::fs::linkat(CWD, from, CWD, path, AtFlags::SYMLINK_FOLLOW);
            let made = self.model.link(id, directory, &name);
            self.agree("linkat of an open file", real, made)?;
        }
        drop(file);
        self.model.close(id);
        Ok(())
    }

    pub(super) fn copy(&mut self) -> Result<()> {
        let (Some((from, path)), Some((to, target))) = (self.any_file(), self.any_file()) else {
            return Ok(());
        };
        if from == to || self.size(from) == 0 {
            return Ok(());
        }
        self.model.touch(to);
        let source = File::open(path)?;
        let target = OpenOptions::new().write(true).open(target)?;
        let size = self.size(from);
        let start = self.random.below(size);
        let mut data = match &self.model.node(from).kind {
            Kind::File(bytes) => bytes[start as usize..].to_vec(),
            _ => Vec::new(),
        };
        data.truncate(1 << 20);
        let offset = self.offset(self.size(to)).min(SIZE_MAX);
        let (mut read_at, mut write_at) = (start, offset);
        while read_at < start + data.len() as u64 {
            let left = (start + data.len() as u64 - read_at) as usize;
            let (source_at, target_at) = (Some(&mut read_at), Some(&mut write_at));
            let copied = rustix::fs::copy_file_range(&source, source_at, &target, target_at, left);
            ensure!(copied.context("copy_file_range")? > 0, "the copy is short");
        }
        self.put(to, offset, &data);
        Ok(())
    }

    pub(super) fn utimes(&mut self) -> Result<()> {
        let Some((id, path)) = self.any_file() else {
            return Ok(());
        };
        self.model.touch(id);
        let seconds = self.random.below(4_000_000_000) as i64;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds as u64);
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_modified(time).context("utimes")?;
        self.model.node_mut(id).modified = Some(seconds);
        Ok(())
    }

    pub(super) fn fsync(&mut self) -> Result<()> {
        if let Some((id, file)) = self.writable()? {
            file.sync_all().context("fsync")?;
            self.model.synced_file(id);
        }
        Ok(())
    }

    /// Compares one file or directory now.
    pub(super) fn look(&mut self) -> Result<()> {
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        compare::node(&self.model, id, &path)
    }
}

fn is_unnamed(file: &File) -> Result<bool> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(flags.contains(OFlags::TMPFILE))
}
