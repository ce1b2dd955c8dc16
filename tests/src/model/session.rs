//! One worker: a directory of a mount, its model, and the choice of operations.

use super::mapper::Mapper;
use super::tree::{Kind, Model, NodeId};
use super::{adopt, compare};
use crate::random::Random;
use crate::site::Site;
use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Names in a directory are drawn from so many, so that operations meet.
const NAMES: u64 = 24;

/// Nodes; above this, more is removed than made.
const NODES_MAX: usize = 3000;

/// Below so much room in the pool, files are emptied: what a full pool does is not the model's.
const ROOM_MIN: u64 = 160 << 20;

/// Operations between two looks at the room.
const ROOM_INTERVAL: u64 = 16;

/// Keys of encrypted file systems, in hex.
const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

/// What a file system is made with.
const PROPERTIES: [(&str, &[&str]); 15] = [
    (
        "compression",
        &["off", "lz4", "zstd-1", "gzip-1", "zle", "lzjb"],
    ),
    ("recordsize", &["512", "4K", "32K", "128K", "1M"]),
    ("xattr", &["sa", "on", "dir"]),
    ("checksum", &["on", "sha256", "blake3", "off"]),
    ("dnodesize", &["legacy", "auto", "1k"]),
    ("copies", &["1", "1", "2"]),
    ("atime", &["on", "off"]),
    ("dedup", &["off", "off", "on", "sha256,verify"]),
    (
        "encryption",
        &["off", "off", "off", "aes-256-gcm", "aes-128-ccm"],
    ),
    ("acltype", &["off", "posix"]),
    ("redundant_metadata", &["all", "most", "some", "none"]),
    ("sync", &["standard", "standard", "standard", "always"]),
    ("primarycache", &["all", "all", "metadata", "none"]),
    ("direct", &["standard", "standard", "always"]),
    ("version", &["5", "5", "5", "5", "4", "3", "2", "1"]),
];

/// What changes under the operations.
const CHANGES: [(&str, &[&str]); 12] = [
    ("compression", &["off", "lz4", "zstd-3", "gzip-6", "zle"]),
    ("recordsize", &["4K", "16K", "128K", "1M"]),
    ("xattr", &["sa", "on", "dir"]),
    ("checksum", &["on", "sha512", "skein", "fletcher2"]),
    ("dnodesize", &["legacy", "auto", "2k"]),
    ("copies", &["1", "2"]),
    ("atime", &["on", "off"]),
    ("dedup", &["off", "on"]),
    ("primarycache", &["all", "metadata", "none"]),
    ("prefetch", &["all", "metadata", "none"]),
    ("direct", &["standard", "always", "disabled"]),
    ("version", &["current"]),
];

/// A result of a system call.
pub(super) type Refusal = Result<(), Errno>;

/// A directory that is worked on, and the model beside it.
pub struct Session {
    pub(super) site: Arc<Site>,
    dataset: String,
    pub(super) root: PathBuf,
    pub(super) model: Model,
    pub(super) random: Random,
    pub(super) handles: Vec<(File, NodeId)>,
    /// Started with the first mapping.
    pub(super) mapper: Option<Mapper>,
    made: u64,
    pub(super) is_noisy: bool,
    pub(super) has_acls: bool,
    is_encrypted: bool,
    /// Of two sessions on one file system, the one that manages it.
    is_first: bool,
    changes_properties: bool,
    pub(super) setup: String,
    pub(super) operations: BTreeMap<&'static str, u64>,
    pub(super) refused: u64,
}

/// An error of the standard library as the kernel's number.
pub(super) fn errno<T>(result: std::io::Result<T>) -> Result<T, Errno> {
    result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::NOTRECOVERABLE))
}

fn properties(random: &mut Random) -> String {
    let mut words = Vec::new();
    for (name, values) in PROPERTIES {
        words.push(format!("-o {name}={}", random.choose(values)));
    }
    words.join(" ")
}

impl Session {
    /// Creates the file system `dataset` with random properties, and works on all of it.
    pub fn new(site: Site, dataset: &str, random: Random) -> Result<Self> {
        Self::shared(&Arc::new(site), dataset, random)
    }

    /// The same on a site that others use too.
    pub(crate) fn shared(site: &Arc<Site>, dataset: &str, mut random: Random) -> Result<Self> {
        let setup = properties(&mut random);
        let key = site.cenote().directory().join("key");
        fs::write(&key, KEY)?;
        let is_encrypted = !setup.contains("encryption=off");
        let encrypted = match is_encrypted {
            true => format!("-o keyformat=hex -o keylocation=file://{}", key.display()),
            false => String::new(),
        };
        site.ok(&format!("zfs create {setup} {encrypted} {dataset}"))?;
        Self::of(site, dataset, &setup, random)
    }

    /// Works on all of a file system that was made with these options and is empty.
    pub(crate) fn of(site: &Arc<Site>, dataset: &str, setup: &str, random: Random) -> Result<Self> {
        let is_encrypted = setup.contains("encryption=") && !setup.contains("encryption=off");
        let setup = setup.to_owned();
        let root = site.path(dataset);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755))?;
        Ok(Self {
            root,
            site: Arc::clone(site),
            dataset: dataset.into(),
            model: Model::default(),
            random,
            handles: Vec::new(),
            mapper: None,
            made: 0,
            is_noisy: false,
            has_acls: setup.contains("acltype=posix"),
            is_encrypted,
            is_first: true,
            changes_properties: true,
            setup,
            operations: BTreeMap::new(),
            refused: 0,
        })
    }

    /// Two workers side by side in directories of what this one had to itself.
    pub(super) fn split(mut self) -> Result<[Self; 2]> {
        let roots = [self.root.join("left"), self.root.join("right")];
        for root in &roots {
            fs::create_dir(root)?;
            fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        }
        let [left, right] = roots;
        let other = Self {
            root: right,
            site: Arc::clone(&self.site),
            dataset: self.dataset.clone(),
            model: Model::default(),
            random: Random::new(self.random.next_u64()),
            handles: Vec::new(),
            mapper: None,
            operations: BTreeMap::new(),
            setup: self.setup.clone(),
            is_first: false,
            changes_properties: false,
            ..self
        };
        self.root = left;
        Ok([self, other])
    }

    pub(crate) fn dataset(&self) -> &str {
        &self.dataset
    }

    pub(super) fn is_first(&self) -> bool {
        self.is_first
    }

    pub(super) fn place(&self) -> String {
        let root = self.root.strip_prefix(self.site.path("")).ok();
        let root = root.unwrap_or(&self.root).display();
        format!("operation {} in {root}, {}", self.made, self.setup)
    }

    /// Both sides' results must agree.
    pub(super) fn agree(&mut self, what: &str, real: Refusal, model: Refusal) -> Result<()> {
        ensure!(real == model, "{what}: {real:?}, expected {model:?}");
        self.refused += u64::from(model.is_err());
        Ok(())
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
            *self.operations.entry(name).or_default() += 1;
        }
        Ok(())
    }

    /// Makes operations until the daemon is killed; what fails then is no failure.
    pub(super) fn work_until(&mut self, is_killed: &AtomicBool) -> Result<()> {
        loop {
            match self.work(1) {
                Err(_) if is_killed.load(Ordering::SeqCst) => return Ok(()),
                result => result?,
            }
        }
    }

    /// What was chosen.
    pub fn setup(&self) -> &str {
        &self.setup
    }

    /// The key in hex, if the file system is encrypted.
    pub fn key(&self) -> Option<&'static str> {
        self.is_encrypted.then_some(KEY)
    }

    /// Where it works.
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Compares everything, and closes all handles.
    pub(crate) fn leave(&mut self) -> Result<()> {
        let compared = compare::tree(&self.model, &self.root);
        compared.with_context(|| format!("before the export, {}", self.place()))?;
        self.unmap();
        for (_, id) in std::mem::take(&mut self.handles) {
            self.model.close(id);
        }
        self.model.synced();
        Ok(())
    }

    /// Compares everything, and exports the pool.
    pub fn close(&mut self) -> Result<()> {
        self.leave()?;
        self.site.export()
    }

    /// Mounts the file system of an imported pool.
    pub(super) fn mount(&self) -> Result<()> {
        if self.is_encrypted {
            self.site.ok(&format!("zfs load-key {}", self.dataset))?;
        }
        self.site.ok(&format!("zfs mount {}", self.dataset))?;
        Ok(())
    }

    /// Imports the pool, and compares everything.
    pub fn open(&mut self) -> Result<()> {
        self.site.import("-N")?;
        self.mount()?;
        self.compare_after("the import")
    }

    pub(super) fn compare_after(&self, what: &str) -> Result<()> {
        let compared = compare::tree(&self.model, &self.root);
        compared.with_context(|| format!("after {what}, {}", self.place()))
    }

    /// After the daemon was killed: synced data must be there. The rest, as far as it is there,
    /// becomes the model.
    pub(super) fn survive(&mut self) -> Result<()> {
        self.handles.clear();
        self.unmap();
        let kept = compare::synced(&self.model, &self.root);
        kept.with_context(|| format!("what was synced before a crash, {}", self.place()))?;
        let found = adopt::read(&self.root);
        self.model = found.with_context(|| format!("after a crash, {}", self.place()))?;
        Ok(())
    }

    pub(super) fn any_directory(&mut self) -> NodeId {
        let directories = self.model.directories();
        *self.random.choose(&directories)
    }

    /// A place for a name; whether it is taken is left to chance.
    pub(super) fn any_place(&mut self) -> (NodeId, String, PathBuf) {
        let directory = self.any_directory();
        let mut name = format!("n{}", self.random.below(NAMES));
        if self.random.below(4) == 0 {
            name += &"-long".repeat(20);
        }
        let path = self.root.join(self.model.path(directory)).join(&name);
        (directory, name, path)
    }

    /// A place that is taken, if one is found.
    pub(super) fn taken_place(&mut self) -> Option<(NodeId, String, PathBuf)> {
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

    pub(super) fn any_file(&mut self) -> Option<(NodeId, PathBuf)> {
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
        if self.made.is_multiple_of(ROOM_INTERVAL) {
            self.make_room()?;
        }
        Ok(match self.random.below(100) {
            0..14 if !is_full => self.create().map(|()| "create")?,
            14..19 if !is_full => self.mkdir().map(|()| "mkdir")?,
            19..21 if !is_full => self.symlink().map(|()| "symlink")?,
            21 if !is_full => self.mknod().map(|()| "mknod")?,
            22..26 => self.link().map(|()| "link")?,
            0..34 => self.unlink().map(|()| "unlink")?,
            34..37 => self.rmdir().map(|()| "rmdir")?,
            37..45 => self.rename().map(|()| "rename")?,
            45..62 => self.write().map(|()| "write")?,
            62..66 => self.append().map(|()| "append")?,
            66..71 => self.truncate().map(|()| "truncate")?,
            71..73 => self.punch().map(|()| "punch")?,
            73..75 => self.allocate().map(|()| "fallocate")?,
            75..78 => self.chmod().map(|()| "chmod")?,
            78 if self.random.below(10) == 0 => self.change_property().map(|()| "set")?,
            78..80 => self.acl().map(|()| "acl")?,
            80..86 => self.xattr().map(|()| "xattr")?,
            86..89 => self.open_handle().map(|()| "open")?,
            89..91 => self.close_handle().map(|()| "close")?,
            91..94 => self.copy().map(|()| "copy")?,
            94 => self.utimes().map(|()| "utimes")?,
            95 => self.map().map(|()| "map")?,
            96 => self.fsync().map(|()| "fsync")?,
            _ => self.look().map(|()| "look")?,
        })
    }
    /// Empties the largest file when room gets short.
    fn make_room(&mut self) -> Result<()> {
        let found = rustix::fs::statvfs(&self.root)?;
        if found.f_bavail * found.f_frsize > ROOM_MIN {
            return Ok(());
        }
        for directory in self.model.directories() {
            let mut names = Vec::new();
            for (name, id) in self.model.names(directory) {
                if self.size(*id) > 100_000 {
                    names.push((name.clone(), *id));
                }
            }
            for (name, id) in names {
                let path = self.root.join(self.model.path(directory)).join(name);
                self.model.touch(id);
                File::options().write(true).open(path)?.set_len(0)?;
                self.model.contents_mut(id).clear();
            }
        }
        Ok(())
    }

    fn change_property(&mut self) -> Result<()> {
        if self.changes_properties {
            let (name, values) = *self.random.choose(&CHANGES);
            let value = *self.random.choose(values);
            let dataset = &self.dataset;
            self.site.ok(&format!("zfs set {name}={value} {dataset}"))?;
        }
        Ok(())
    }
}
