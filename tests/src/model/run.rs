//! Draws operations, and makes them on a mount and in the model.

use super::compare;
use super::tree::{Kind, Model, NodeId, Renaming};
use crate::random::Random;
use crate::site::{self, Site};
use anyhow::{Context, Result, ensure};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

/// Names in a directory are drawn from so many, so that operations meet.
const NAMES: u64 = 24;

/// Nodes; above this, more is removed than made.
const NODES_MAX: usize = 3000;

/// Handles that are open at once.
const HANDLES_MAX: usize = 6;

/// Files end before this.
const SIZE_MAX: u64 = 6 << 20;

/// The file system that is worked on.
const DATASET: &str = "tank/model";

/// A run.
pub struct Options {
    /// Chooses layout, properties and operations.
    pub seed: u64,
    /// How many operations.
    pub operations: u64,
    /// Operations between two imports.
    pub reopen_interval: u64,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// What was chosen.
    pub setup: String,
    /// Operations by name.
    pub operations: BTreeMap<&'static str, u64>,
    /// Errors that both sides agreed on.
    pub refused: u64,
    /// Imports.
    pub reopened: u64,
}

/// A mounted file system, and the model beside it.
pub struct Session {
    site: Site,
    dataset: String,
    root: PathBuf,
    model: Model,
    random: Random,
    handles: Vec<(File, NodeId)>,
    made: u64,
    is_noisy: bool,
    is_encrypted: bool,
    report: Report,
}

/// Runs operations from a seed; an error says what differed, and after which of them.
pub fn run(options: &Options) -> Result<Report> {
    let mut random = Random::new(options.seed);
    let layouts: Vec<&str> = site::layouts().collect();
    let layout = *random.choose(&layouts);
    let site = Site::create(layout, 768, "-O canmount=off")?;
    let mut session = Session::new(site, DATASET, random)?;
    session.report.setup = format!("{layout} {}", session.report.setup);
    let mut left = options.operations;
    while left > 0 {
        let count = left.min(options.reopen_interval);
        session.work(count)?;
        left -= count;
        session.close()?;
        session.open()?;
    }
    let Session { site, report, .. } = session;
    site.finish()?;
    Ok(report)
}

/// Keys of encrypted file systems, in hex.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn properties(random: &mut Random) -> String {
    let choices: [(&str, &[&str]); 9] = [
        (
            "compression",
            &["off", "lz4", "zstd-1", "gzip-1", "zle", "lzjb"],
        ),
        ("recordsize", &["512", "4K", "32K", "128K", "1M"]),
        ("xattr", &["sa", "on"]),
        ("checksum", &["on", "sha256", "blake3", "off"]),
        ("dnodesize", &["legacy", "auto", "1k"]),
        ("copies", &["1", "1", "2"]),
        ("atime", &["on", "off"]),
        ("dedup", &["off", "off", "on", "sha256,verify"]),
        (
            "encryption",
            &["off", "off", "off", "aes-256-gcm", "aes-128-ccm"],
        ),
    ];
    let mut words = Vec::new();
    for (name, values) in choices {
        words.push(format!("-o {name}={}", random.choose(values)));
    }
    words.join(" ")
}

type Refusal = Result<(), Errno>;

/// An error of the standard library as the kernel's number.
fn errno<T>(result: std::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOTRECOVERABLE))
}

impl Session {
    fn place(&self) -> String {
        format!("operation {} on {}", self.made, self.report.setup)
    }

    /// Both sides' results must agree.
    fn agree(&mut self, what: &str, real: Refusal, model: Refusal) -> Result<()> {
        ensure!(real == model, "{what}: {real:?}, expected {model:?}");
        self.report.refused += u64::from(model.is_err());
        Ok(())
    }

    /// Makes the file system `dataset`, its properties by chance.
    pub fn new(site: Site, dataset: &str, mut random: Random) -> Result<Self> {
        let properties = properties(&mut random);
        let key = site.cenote().directory().join("key");
        fs::write(&key, KEY)?;
        let is_encrypted = !properties.contains("encryption=off");
        let encrypted = match is_encrypted {
            true => format!("-o keyformat=hex -o keylocation=file://{}", key.display()),
            false => String::new(),
        };
        site.ok(&format!("zfs create {properties} {encrypted} {dataset}"))?;
        let root = site.path(dataset);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            root,
            site,
            dataset: dataset.into(),
            model: Model::default(),
            random,
            handles: Vec::new(),
            made: 0,
            is_noisy: false,
            is_encrypted,
            report: Report {
                setup: properties,
                ..Report::default()
            },
        })
    }

    /// From now on attributes and targets of links do not compress.
    ///
    /// A spill block of few bytes becomes part of its pointer, which OpenZFS cannot send.
    pub fn avoid_embedded_spills(&mut self) {
        self.is_noisy = true;
    }

    /// Makes operations.
    pub fn work(&mut self, operations: u64) -> Result<()> {
        for _ in 0..operations {
            self.made += 1;
            let name = self.step().with_context(|| self.place())?;
            *self.report.operations.entry(name).or_default() += 1;
        }
        Ok(())
    }

    /// What was chosen.
    pub fn setup(&self) -> &str {
        &self.report.setup
    }

    /// The key in hex, if the file system is encrypted.
    pub fn key(&self) -> Option<&'static str> {
        self.is_encrypted.then_some(KEY)
    }

    /// Where it works.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Compares everything, and exports the pool.
    pub fn close(&mut self) -> Result<()> {
        let compared = compare::tree(&self.model, &self.root);
        compared.with_context(|| format!("before the export, {}", self.place()))?;
        for (_, id) in std::mem::take(&mut self.handles) {
            self.model.close(id);
        }
        self.site.export()
    }

    /// Imports the pool, and compares everything.
    pub fn open(&mut self) -> Result<()> {
        self.site.import("-N")?;
        if self.is_encrypted {
            self.site.ok(&format!("zfs load-key {}", self.dataset))?;
        }
        self.site.ok(&format!("zfs mount {}", self.dataset))?;
        self.report.reopened += 1;
        let compared = compare::tree(&self.model, &self.root);
        compared.with_context(|| format!("after the import, {}", self.place()))
    }

    fn any_directory(&mut self) -> NodeId {
        let directories = self.model.directories();
        *self.random.choose(&directories)
    }

    /// A place for a name; whether it is taken is left to chance.
    fn any_place(&mut self) -> (NodeId, String, PathBuf) {
        let directory = self.any_directory();
        let mut name = format!("n{}", self.random.below(NAMES));
        if self.random.below(4) == 0 {
            name += &"-long".repeat(20);
        }
        let path = self.root.join(self.model.path(directory)).join(&name);
        (directory, name, path)
    }

    /// A place that is taken, if one is found.
    fn taken_place(&mut self) -> Option<(NodeId, String, PathBuf)> {
        for _ in 0..8 {
            let directory = self.any_directory();
            let count = self.model.names(directory).len();
            if count == 0 {
                continue;
            }
            let index = self.random.index(count);
            let name = self.model.names(directory).keys().nth(index);
            let name = name.expect("an index below the count").clone();
            let path = self.root.join(self.model.path(directory)).join(&name);
            return Some((directory, name, path));
        }
        None
    }

    fn any_file(&mut self) -> Option<(NodeId, PathBuf)> {
        for _ in 0..8 {
            let (directory, name, path) = self.taken_place()?;
            let id = self.model.names(directory)[&name];
            if matches!(self.model.node(id).kind, Kind::File(_)) {
                return Some((id, path));
            }
        }
        None
    }

    /// Makes one operation; returns its name.
    fn step(&mut self) -> Result<&'static str> {
        let is_full = self.model.len() > NODES_MAX;
        Ok(match self.random.below(100) {
            0..14 if !is_full => self.create().map(|()| "create")?,
            14..19 if !is_full => self.mkdir().map(|()| "mkdir")?,
            19..22 if !is_full => self.symlink().map(|()| "symlink")?,
            22..26 => self.link().map(|()| "link")?,
            0..34 => self.unlink().map(|()| "unlink")?,
            34..37 => self.rmdir().map(|()| "rmdir")?,
            37..45 => self.rename().map(|()| "rename")?,
            45..62 => self.write().map(|()| "write")?,
            62..66 => self.append().map(|()| "append")?,
            66..71 => self.truncate().map(|()| "truncate")?,
            71..75 => self.punch().map(|()| "punch")?,
            75..79 => self.chmod().map(|()| "chmod")?,
            79..86 => self.xattr().map(|()| "xattr")?,
            86..89 => self.open_handle().map(|()| "open")?,
            89..91 => self.close_handle().map(|()| "close")?,
            91..94 => self.copy().map(|()| "copy")?,
            94..96 => self.utimes().map(|()| "utimes")?,
            96 => self.fsync().map(|()| "fsync")?,
            _ => self.look().map(|()| "look")?,
        })
    }

    fn create(&mut self) -> Result<()> {
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

    fn mkdir(&mut self) -> Result<()> {
        let (directory, name, path) = self.any_place();
        let real = fs::create_dir(&path);
        let real =
            real.and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o750)));
        let kind = Kind::Directory(BTreeMap::new());
        let made = self.model.create(directory, &name, kind, 0o750);
        self.agree("mkdir", errno(real), made.map(|_| ()))
    }

    fn symlink(&mut self) -> Result<()> {
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

    fn link(&mut self) -> Result<()> {
        let Some((id, from)) = self.any_file() else {
            return Ok(());
        };
        let (directory, name, path) = self.any_place();
        let real = errno(fs::hard_link(&from, &path));
        let made = self.model.link(id, directory, &name);
        self.agree("link", real, made)
    }

    fn unlink(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (directory, name, path) = place.unwrap_or_else(|| self.any_place());
        let real = errno(fs::remove_file(&path));
        let made = self.model.unlink(directory, &name);
        self.agree("unlink", real, made)
    }

    fn rmdir(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (directory, name, path) = place.unwrap_or_else(|| self.any_place());
        let real = errno(fs::remove_dir(&path));
        let made = self.model.rmdir(directory, &name);
        self.agree("rmdir", real, made)
    }

    fn rename(&mut self) -> Result<()> {
        let place = self.taken_place();
        let (from, old, path) = place.unwrap_or_else(|| self.any_place());
        let (to, new, target) = self.any_place();
        let (renaming, flags) = match self.random.below(5) {
            0 => (Renaming::NoReplace, RenameFlags::NOREPLACE),
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

    fn noise(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.random.fill(&mut bytes);
        bytes
    }

    fn data(&mut self, length: usize) -> Vec<u8> {
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

    fn length(&mut self) -> usize {
        let limit = *self.random.choose(&[10, 500, 5000, 70_000, 400_000]);
        self.random.below(limit) as usize + 1
    }

    fn offset(&mut self, size: u64) -> u64 {
        match self.random.below(4) {
            0 => self.random.below(size + 1),
            1 => self.random.below(size + 1) & !4095,
            2 => size,
            _ => self.random.below(SIZE_MAX / 2),
        }
    }

    /// A file to change: an open handle or one that is opened now.
    fn writable(&mut self) -> Result<Option<(NodeId, File)>> {
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

    fn size(&self, id: NodeId) -> u64 {
        match &self.model.node(id).kind {
            Kind::File(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    fn put(&mut self, id: NodeId, offset: u64, data: &[u8]) {
        let bytes = self.model.contents_mut(id);
        let end = offset as usize + data.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[offset as usize..end].copy_from_slice(data);
    }

    fn write(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        for _ in 0..=self.random.below(3) {
            let offset = self.offset(self.size(id)).min(SIZE_MAX);
            let length = self.length();
            let data = self.data(length);
            file.write_all_at(&data, offset).context("write")?;
            self.put(id, offset, &data);
        }
        Ok(())
    }

    fn append(&mut self) -> Result<()> {
        let Some((id, path)) = self.any_file() else {
            return Ok(());
        };
        if self.size(id) > SIZE_MAX {
            return Ok(());
        }
        let length = self.length();
        let data = self.data(length);
        let mut file = OpenOptions::new().append(true).open(path)?;
        std::io::Write::write_all(&mut file, &data).context("append")?;
        self.put(id, self.size(id), &data);
        Ok(())
    }

    fn truncate(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        let size = self.offset(self.size(id)) * self.random.below(2);
        file.set_len(size).context("truncate")?;
        self.model.contents_mut(id).resize(size as usize, 0);
        Ok(())
    }

    fn punch(&mut self) -> Result<()> {
        let Some((id, file)) = self.writable()? else {
            return Ok(());
        };
        let size = self.size(id);
        let offset = self.offset(size).min(size);
        let length = self.length() as u64 * (1 + self.random.below(4));
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, offset, length).context("punch")?;
        let bytes = self.model.contents_mut(id);
        let end = (offset + length).min(size) as usize;
        bytes[offset as usize..end].fill(0);
        Ok(())
    }

    fn chmod(&mut self) -> Result<()> {
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        if matches!(self.model.node(id).kind, Kind::Link(_)) {
            return Ok(());
        }
        let mode = self.random.below(0o10000) as u32;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).context("chmod")?;
        self.model.node_mut(id).mode = mode;
        Ok(())
    }

    fn xattr(&mut self) -> Result<()> {
        let Some((directory, name, path)) = self.taken_place() else {
            return Ok(());
        };
        let id = self.model.names(directory)[&name];
        if matches!(self.model.node(id).kind, Kind::Link(_)) {
            return Ok(());
        }
        let key = format!("x{}", self.random.below(5));
        let full = format!("user.{key}");
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

    fn open_handle(&mut self) -> Result<()> {
        if self.handles.len() >= HANDLES_MAX {
            return self.close_handle();
        }
        if self.random.below(3) == 0 {
            let directory = self.any_directory();
            let path = self.root.join(self.model.path(directory));
            let flags = OFlags::RDWR | OFlags::TMPFILE;
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

    fn close_handle(&mut self) -> Result<()> {
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

    fn copy(&mut self) -> Result<()> {
        let (Some((from, path)), Some((to, target))) = (self.any_file(), self.any_file()) else {
            return Ok(());
        };
        if from == to || self.size(from) == 0 {
            return Ok(());
        }
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

    fn utimes(&mut self) -> Result<()> {
        let Some((id, path)) = self.any_file() else {
            return Ok(());
        };
        let seconds = self.random.below(4_000_000_000) as i64;
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds as u64);
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_modified(time).context("utimes")?;
        self.model.node_mut(id).modified = Some(seconds);
        Ok(())
    }

    fn fsync(&mut self) -> Result<()> {
        match self.writable()? {
            Some((_, file)) => file.sync_all().context("fsync"),
            None => Ok(()),
        }
    }

    /// Compares one file or directory now.
    fn look(&mut self) -> Result<()> {
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
