//! Random operations, compared with a tree in memory; and threads that work beside each other.

use super::{World, check, contents};
use crate::pool::{Random, sync};
use cenote_base::ObjectId;
use cenote_posix::write::{NewFile, RenameMode, WriteOptions};
use cenote_posix::{FileKind, FileSystem};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the tree should be: directories with their entries, and files' contents.
#[derive(Default)]
struct Model {
    directories: BTreeMap<ObjectId, BTreeMap<Vec<u8>, ObjectId>>,
    files: BTreeMap<ObjectId, (Vec<u8>, usize)>,
}

impl Model {
    fn any_directory(&self, random: &mut Random) -> ObjectId {
        let index = random.below(self.directories.len() as u64) as usize;
        *self.directories.keys().nth(index).expect("in range")
    }

    fn drop_name(&mut self, id: ObjectId) {
        if self.directories.remove(&id).is_some() {
            return;
        }
        let file = self.files.get_mut(&id).expect("known");
        file.1 -= 1;
        if file.1 == 0 {
            self.files.remove(&id);
        }
    }

    fn compare(&self, fs: &FileSystem) {
        for (id, entries) in &self.directories {
            let directory = fs.znode(*id).expect("exists");
            let listed = fs.read_directory(&std::sync::Arc::clone(&directory), 0);
            let mut found = BTreeMap::new();
            for entry in listed.expect("lists").skip(2) {
                let entry = entry.expect("valid");
                found.insert(entry.name, entry.target.object);
            }
            assert_eq!(&found, entries, "directory {id}");
        }
        for (id, (bytes, links)) in &self.files {
            assert!(&contents(fs, *id) == bytes, "file {id}");
            let links = *links as u64;
            assert_eq!(fs.znode(*id).expect("exists").attributes().links, links);
        }
    }
}

fn step(world: &World, model: &mut Model, random: &mut Random) {
    let fs = &world.fs;
    let directory = model.any_directory(random);
    let name = format!("n{}", random.below(8)).into_bytes();
    let there = model.directories[&directory].get(&name).copied();
    match random.below(10) {
        0..3 => {
            let kind = match random.below(4) {
                0 => FileKind::Directory,
                _ => FileKind::Regular,
            };
            let made = fs.create(directory, &name, &NewFile::new(kind, 0o755));
            assert_eq!(made.is_err(), there.is_some());
            let Ok(made) = made else { return };
            let entries = model.directories.get_mut(&directory).expect("known");
            entries.insert(name, made.id());
            match kind {
                FileKind::Directory => drop(model.directories.insert(made.id(), BTreeMap::new())),
                _ => drop(model.files.insert(made.id(), (Vec::new(), 1))),
            }
        }
        3 | 4 => remove(world, model, directory, &name),
        5 | 6 => rename(world, model, random, directory, &name),
        7 => {
            let to = model.any_directory(random);
            let new = format!("n{}", random.below(8)).into_bytes();
            let Some(id) = there.filter(|id| model.files.contains_key(id)) else {
                return;
            };
            if fs.link(id, to, &new).is_ok() {
                let entries = model.directories.get_mut(&to).expect("known");
                assert!(entries.insert(new, id).is_none());
                model.files.get_mut(&id).expect("known").1 += 1;
            } else {
                assert!(model.directories[&to].contains_key(&new));
            }
        }
        _ => {
            let Some(file) = there.and_then(|id| Some((id, model.files.get_mut(&id)?))) else {
                return;
            };
            let (id, (bytes, _)) = file;
            let (offset, length) = (random.below(30_000), random.below(20_000) as usize + 1);
            let data = vec![random.below(256) as u8; length];
            world.write(id, offset, &data);
            let end = offset as usize + length;
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset as usize..end].copy_from_slice(&data);
        }
    }
}

fn remove(world: &World, model: &mut Model, directory: ObjectId, name: &[u8]) {
    let Some(id) = model.directories[&directory].get(name).copied() else {
        return;
    };
    let removed = match model.directories.get(&id) {
        Some(entries) => {
            let removed = world.fs.rmdir(directory, name);
            assert_eq!(removed.is_ok(), entries.is_empty());
            removed
        }
        None => {
            let removed = world.fs.unlink(directory, name);
            assert!(removed.is_ok());
            removed
        }
    };
    if removed.is_ok() {
        let entries = model.directories.get_mut(&directory);
        entries.expect("known").remove(name);
        model.drop_name(id);
    }
}

fn rename(world: &World, model: &mut Model, random: &mut Random, from: ObjectId, name: &[u8]) {
    let to = model.any_directory(random);
    let new = format!("n{}", random.below(8)).into_bytes();
    let moved = world
        .fs
        .rename((from, name), (to, &new), RenameMode::Replace);
    if moved.is_err() {
        return;
    }
    let source = model.directories[&from][name];
    let target = model.directories[&to].get(&new).copied();
    if target == Some(source) {
        return;
    }
    model
        .directories
        .get_mut(&from)
        .expect("known")
        .remove(name);
    let entries = model.directories.get_mut(&to).expect("known");
    entries.insert(new, source);
    if let Some(target) = target {
        model.drop_name(target);
    }
}

#[test]
fn agrees_with_a_tree_in_memory() {
    for seed in 1..4 {
        eprintln!("seed {seed}");
        let mut random = Random::new(seed);
        let world = World::new();
        let mut model = Model::default();
        model.directories.insert(world.root(), BTreeMap::new());
        for round in 0..12 {
            for _ in 0..200 {
                step(&world, &mut model, &mut random);
            }
            model.compare(&world.fs);
            let fs = world.reopened();
            check(&fs);
            model.compare(&fs);
            if round % 3 == 0 {
                check(&world.fs);
            }
        }
    }
}

#[test]
fn threads_beside_each_other_and_the_sync() {
    let world = World::new();
    let directories: Vec<ObjectId> = (0..4)
        .map(|i| world.directory(world.root(), &format!("d{i}")))
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u64)
            .map(|thread| {
                let (world, directories) = (&world, &directories);
                scope.spawn(move || churn(world, directories, thread))
            })
            .collect();
        let syncer = scope.spawn(|| {
            let mut syncs = 0;
            while !done.load(Ordering::Relaxed) {
                sync(&world.pool, &world.gate, &world.set);
                syncs += 1;
            }
            syncs
        });
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|end| end.expect("no panic"));
        eprintln!("{} syncs", syncer.join().expect("no panic"));
    });
    check(&world.fs);
    check(&world.reopened());
}

/// Operations that may fail because another thread was quicker, but not otherwise.
fn churn(world: &World, directories: &[ObjectId], thread: u64) {
    let mut random = Random::new(thread + 1);
    let fs = &world.fs;
    let expect = |result: Result<(), cenote_posix::PosixError>| {
        let errno = super::errno(result);
        assert!(
            [0, 2, 17, 20, 21, 22, 39, 116].contains(&errno),
            "errno {errno}"
        );
    };
    for _ in 0..3000 {
        let directory = directories[random.below(directories.len() as u64) as usize];
        let other = directories[random.below(directories.len() as u64) as usize];
        let name = format!("n{}", random.below(20)).into_bytes();
        let new = format!("n{}", random.below(20)).into_bytes();
        match random.below(8) {
            0 | 1 => {
                let made = fs.create(directory, &name, &NewFile::new(FileKind::Regular, 0o644));
                if let Ok(made) = &made {
                    let written = fs.write(made.id(), 0, &[1; 3000], WriteOptions::default());
                    expect(written.map(drop));
                }
                expect(made.map(drop));
            }
            2 => {
                let made = fs.create(directory, &name, &NewFile::new(FileKind::Directory, 0o755));
                expect(made.map(drop));
            }
            3 => expect(fs.unlink(directory, &name).map(drop)),
            4 => expect(fs.rmdir(directory, &name).map(drop)),
            5 => expect(
                fs.rename((directory, &name), (other, &new), RenameMode::Replace)
                    .map(drop),
            ),
            6 => expect(
                fs.rename((directory, &name), (other, &new), RenameMode::Exchange)
                    .map(drop),
            ),
            _ => {
                let found = fs
                    .znode(directory)
                    .and_then(|znode| fs.lookup(&znode, &name));
                if let Ok(Some(target)) = found {
                    expect(
                        fs.link(target.object, other, &new)
                            .map(drop)
                            .or_else(|error| {
                                // A directory has one name.
                                if error.errno() == 1 {
                                    Ok(())
                                } else {
                                    Err(error)
                                }
                            }),
                    );
                }
            }
        }
    }
}
