//! The tests by area, and what they share: a world to change, and a check of its soundness.

mod caching;
mod data;
mod halfway;
mod legacy;
mod model;
mod names;
mod recount;
mod tape;
mod values;

use crate::pool::{TestPool, gate, sync};
use cenote_base::{Env, ObjectId, RealEnv};
use cenote_dataset::OpenDataset;
use cenote_dmu::{ObjectSet, TxCost, TxgGate};
use cenote_ondisk::ObjectType;
use cenote_ondisk::objset::ObjsetKind;
use cenote_posix::write::{FormatParams, NewFile, WriteOptions, WriteSettings, format_new};
use cenote_posix::{BlockBuffer, FileKind, FileSystem, PosixError, Znode};
use std::collections::HashMap;
use std::sync::Arc;

/// A writable file system in a pool in memory.
pub struct World {
    pub pool: Arc<TestPool>,
    pub gate: Arc<TxgGate>,
    pub set: Arc<ObjectSet>,
    pub fs: Arc<FileSystem>,
}

pub fn settings() -> WriteSettings {
    WriteSettings {
        record_size: 16 << 10,
        posix_acls: true,
        ..WriteSettings::default()
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(&FormatParams::default(), settings())
    }

    pub fn with(params: &FormatParams, settings: WriteSettings) -> Self {
        let pool = TestPool::new(256);
        let gate = gate();
        let set = pool.create(&gate, ObjsetKind::Zfs, 7);
        let tx = gate.begin(TxCost::default()).expect("begins");
        let env: Arc<dyn Env> = Arc::new(RealEnv::new());
        format_new(&set, &tx, params).expect("formats");
        drop(tx);
        let open = OpenDataset::of_set(Arc::clone(&set), Arc::clone(&gate), env);
        let fs = FileSystem::open_writable(Arc::new(open), settings).expect("opens");
        Self {
            pool,
            gate,
            set,
            fs: Arc::new(fs),
        }
    }

    pub fn root(&self) -> ObjectId {
        self.fs.root()
    }

    pub fn file(&self, parent: ObjectId, name: &str) -> ObjectId {
        let new = NewFile::new(FileKind::Regular, 0o644);
        self.make(parent, name, &new)
    }

    pub fn directory(&self, parent: ObjectId, name: &str) -> ObjectId {
        let new = NewFile::new(FileKind::Directory, 0o755);
        self.make(parent, name, &new)
    }

    pub fn make(&self, parent: ObjectId, name: &str, new: &NewFile) -> ObjectId {
        let made = self.fs.create(parent, name.as_bytes(), new);
        made.expect("creates").id()
    }

    pub fn write(&self, id: ObjectId, offset: u64, data: &[u8]) {
        let options = WriteOptions::default();
        // Long ones in either way.
        if data.len() > 20_000 && data.len() % 2 == 1 {
            let mut buffers: Vec<_> = data.chunks(16 << 10).map(BlockBuffer::copy_of).collect();
            let written = self
                .fs
                .write_buffers(id, offset, &mut buffers, data.len(), options);
            assert!(written.expect("writes") > 0);
            return;
        }
        let written = self.fs.write(id, offset, data, options);
        assert_eq!(written.expect("writes"), offset);
    }

    /// Syncs and opens what is on disk, to be read only.
    pub fn reopened(&self) -> Arc<FileSystem> {
        let root = sync(&self.pool, &self.gate, &self.set);
        let set = self.pool.reopen(root, self.set.id());
        Arc::new(FileSystem::open(set).expect("opens"))
    }
}

pub fn contents(fs: &FileSystem, id: ObjectId) -> Vec<u8> {
    let file = fs.znode(id).expect("exists");
    let mut bytes = vec![0xEE; usize::try_from(file.attributes().size).expect("small")];
    let count = fs.read(&file, 0, &mut bytes).expect("reads");
    assert_eq!(count, bytes.len());
    bytes
}

pub fn errno<T>(result: Result<T, PosixError>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => error.errno(),
    }
}

/// Notes the hidden directory of a file, and what is in it.
fn note_hidden(fs: &Arc<FileSystem>, file: &Znode, names: &mut HashMap<ObjectId, u64>) {
    if let Some(hidden) = file.attributes().xattr_directory {
        names.insert(hidden, 0);
        let hidden = fs.znode(hidden).expect("exists");
        for entry in fs.read_directory(&hidden, 0).expect("lists").skip(2) {
            names.insert(entry.expect("valid").target.object, 1);
        }
    }
}

/// Checks that the tree and the attributes agree, and that no object is lost.
pub fn check(fs: &Arc<FileSystem>) {
    let mut names: HashMap<ObjectId, u64> = HashMap::new();
    let mut directories = vec![fs.root()];
    note_hidden(fs, &fs.znode(fs.root()).expect("exists"), &mut names);
    let mut seen = 0;
    while let Some(id) = directories.pop() {
        let directory = fs.znode(id).expect("exists");
        let (mut entries, mut subdirectories) = (0, 0);
        for entry in fs.read_directory(&directory, 0).expect("lists").skip(2) {
            let entry = entry.expect("valid");
            let child = fs
                .znode(entry.target.object)
                .expect("entries lead somewhere");
            assert_eq!(entry.target.kind, Some(child.kind()));
            entries += 1;
            *names.entry(child.id()).or_default() += 1;
            if child.kind() == FileKind::Directory {
                assert_eq!(child.attributes().parent, id);
                subdirectories += 1;
                directories.push(child.id());
            }
            note_hidden(fs, &child, &mut names);
        }
        assert_eq!(directory.attributes().size, entries + 2, "size of {id}");
        assert_eq!(
            directory.attributes().links,
            subdirectories + 2,
            "links of {id}"
        );
        seen += 1;
        assert!(seen < 100_000);
    }
    let queue = fs.delete_queue().expect("valid");
    for id in &queue {
        note_hidden(fs, &fs.znode(*id).expect("exists"), &mut names);
    }
    for found in fs.set().objects(ObjectId(1)) {
        let (id, dnode) = found.expect("valid");
        if dnode.bonus_type != ObjectType::SYSTEM_ATTRIBUTES || id == fs.root() {
            continue;
        }
        let znode = fs.znode(id).expect("valid");
        match names.get(&id) {
            None => assert!(queue.contains(&id), "object {id} is lost"),
            Some(0) => {}
            Some(_) if znode.kind() == FileKind::Directory => {}
            Some(count) => assert_eq!(znode.attributes().links, *count, "links of {id}"),
        }
    }
}
