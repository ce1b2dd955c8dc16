//! What a writer does to its files, and how they were after each operation.
//!
//! Each writer works in a directory of its own, so that what it left is a sequence of states; and
//! because a later operation never reaches a transaction group before an earlier one of the same
//! writer, the directory is after a power cut as it was after one of its operations.

use anyhow::{Context, Result, ensure};
use cenote_base::ObjectId;
use cenote_base::rt::Random;
use cenote_posix::write::{NewFile, RenameMode, SetXattr, WriteOptions};
use cenote_posix::{FileKind, FileSystem};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names in a directory.
const NAMES: u64 = 12;

/// The longest file, in bytes.
const SIZE_MAX: u64 = 300_000;

const XATTR: &[u8] = b"user.sim";

/// A file's contents and its extended attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    bytes: Vec<u8>,
    xattr: Option<Vec<u8>>,
}

/// A directory: which file each name is of, and the files by the number that they got here.
#[derive(Clone, Debug, Default)]
pub struct State {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, Arc<File>>,
}

impl State {
    /// Whether somebody who looks at the directories sees the same: names, what they are of, and
    /// which of them are of one file.
    pub fn is_same(&self, other: &Self) -> bool {
        let links = |state: &Self| {
            let mut first: BTreeMap<u64, String> = BTreeMap::new();
            let link = |(name, file): (&String, &u64)| {
                (
                    name.clone(),
                    first.entry(*file).or_insert(name.clone()).clone(),
                )
            };
            state.names.iter().map(link).collect::<BTreeMap<_, _>>()
        };
        let contents = |state: &Self, name: &String| {
            state
                .names
                .get(name)
                .and_then(|file| state.files.get(file))
                .cloned()
        };
        links(self) == links(other)
            && self
                .names
                .keys()
                .all(|name| contents(self, name) == contents(other, name))
    }

    /// The directory's names with what is said of their files, for people.
    pub fn summary(&self) -> String {
        let line = |(name, file): (&String, &u64)| {
            let size = self.files.get(file).map_or(0, |file| file.bytes.len());
            format!("{name}=#{file}({size})")
        };
        let lines: Vec<String> = self.names.iter().map(line).collect();
        lines.join(" ")
    }
}

/// A writer: its directory, and its states after 0, 1, 2, … operations.
#[derive(Debug)]
pub struct Writer {
    directory: ObjectId,
    random: Random,
    objects: BTreeMap<u64, ObjectId>,
    next_file: u64,
    /// How its directory was after each number of operations.
    pub states: Vec<State>,
    operations: Vec<String>,
}

impl Writer {
    /// Makes a directory with this name in the root, and a writer in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(fs: &FileSystem, name: &str, random: Random) -> Result<Self> {
        let new = NewFile::new(FileKind::Directory, 0o755);
        let directory = fs.create(fs.root(), name.as_bytes(), &new)?.id();
        Ok(Self {
            directory,
            random,
            objects: BTreeMap::new(),
            next_file: 0,
            states: vec![State::default()],
            operations: Vec::new(),
        })
    }

    /// The operations with these numbers, for people.
    pub fn told(&self, range: std::ops::Range<usize>) -> String {
        self.operations[range].join("; ")
    }

    /// Makes one random operation.
    ///
    /// # Errors
    /// If it fails: nothing here may.
    pub fn operate(&mut self, fs: &FileSystem) -> Result<()> {
        let mut state = self.states.last().cloned().unwrap_or_default();
        let name = format!("f{}", self.random.below(NAMES));
        let there = state.names.get(&name).copied();
        let what = match (there, self.random.below(20)) {
            (None, _) => self.create(fs, &mut state, &name)?,
            (Some(file), 0..9) => self.write(fs, &mut state, file)?,
            (Some(file), 9..11) => self.truncate(fs, &mut state, file)?,
            (Some(file), 11..13) => self.set_xattr(fs, &mut state, file)?,
            (Some(_), 13..15) => {
                fs.unlink(self.directory, name.as_bytes())?;
                state.names.remove(&name);
                format!("unlink {name}")
            }
            (Some(file), 15..17) => self.link(fs, &mut state, file)?,
            (Some(_), _) => self.rename(fs, &mut state, &name)?,
        };
        state
            .files
            .retain(|file, _| state.names.values().any(|named| named == file));
        self.operations.push(what);
        self.states.push(state);
        Ok(())
    }

    fn object(&self, file: u64) -> Result<ObjectId> {
        self.objects
            .get(&file)
            .copied()
            .context("a file has an object")
    }

    fn bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        let word = self.random.word();
        // A third of them compresses well.
        let is_dull = word.is_multiple_of(3);
        let mut bytes = Vec::with_capacity(usize::try_from(length)? + 8);
        while u64::try_from(bytes.len())? < length {
            let piece = if is_dull { word } else { self.random.word() };
            bytes.extend_from_slice(&piece.to_le_bytes());
        }
        bytes.truncate(usize::try_from(length)?);
        Ok(bytes)
    }

    fn create(&mut self, fs: &FileSystem, state: &mut State, name: &str) -> Result<String> {
        let new = NewFile::new(FileKind::Regular, 0o644);
        let object = fs.create(self.directory, name.as_bytes(), &new)?.id();
        let file = self.next_file;
        self.next_file += 1;
        self.objects.insert(file, object);
        state.names.insert(name.to_owned(), file);
        state.files.insert(file, Arc::default());
        Ok(format!("create {name} as #{file}"))
    }

    fn write(&mut self, fs: &FileSystem, state: &mut State, file: u64) -> Result<String> {
        let length = 1 + match self.random.below(4) {
            0 => self.random.below(100),
            1 => self.random.below(4096),
            2 => self.random.below(40_000),
            _ => self.random.below(150_000),
        };
        let offset = self.random.below(SIZE_MAX - length);
        let data = self.bytes(length)?;
        fs.write(self.object(file)?, offset, &data, WriteOptions::default())?;
        let contents = Arc::make_mut(state.files.get_mut(&file).context("known")?);
        let start = usize::try_from(offset)?;
        let end = start + data.len();
        contents.bytes.resize(contents.bytes.len().max(end), 0);
        contents.bytes[start..end].copy_from_slice(&data);
        Ok(format!("write #{file} {offset} {length}"))
    }

    fn truncate(&mut self, fs: &FileSystem, state: &mut State, file: u64) -> Result<String> {
        let size = self.random.below(SIZE_MAX);
        fs.truncate(self.object(file)?, size)?;
        let contents = Arc::make_mut(state.files.get_mut(&file).context("known")?);
        contents.bytes.resize(usize::try_from(size)?, 0);
        Ok(format!("truncate #{file} {size}"))
    }

    fn set_xattr(&mut self, fs: &FileSystem, state: &mut State, file: u64) -> Result<String> {
        let length = 1 + self.random.below(1500);
        let value = self.bytes(length)?;
        fs.set_xattr(self.object(file)?, XATTR, &value, SetXattr::Any)?;
        let contents = Arc::make_mut(state.files.get_mut(&file).context("known")?);
        contents.xattr = Some(value);
        Ok(format!("setxattr #{file} {length}"))
    }

    fn link(&mut self, fs: &FileSystem, state: &mut State, file: u64) -> Result<String> {
        let new = format!("f{}", self.random.below(NAMES));
        if state.names.contains_key(&new) {
            return Ok("nothing".to_owned());
        }
        fs.link(self.object(file)?, self.directory, new.as_bytes())?;
        state.names.insert(new.clone(), file);
        Ok(format!("link #{file} {new}"))
    }

    fn rename(&mut self, fs: &FileSystem, state: &mut State, name: &str) -> Result<String> {
        let new = format!("f{}", self.random.below(NAMES));
        let from = (self.directory, name.as_bytes());
        fs.rename(from, (self.directory, new.as_bytes()), RenameMode::Replace)?;
        let file = state.names.get(name).copied().context("known")?;
        // Two names of one file: POSIX wants both of them kept.
        if state.names.get(&new) != Some(&file) {
            state.names.remove(name);
            state.names.insert(new.clone(), file);
        }
        Ok(format!("rename {name} {new}"))
    }
}

/// What is in a directory of the root.
///
/// # Errors
/// If something cannot be read.
pub fn found(fs: &FileSystem, directory: &str) -> Result<State> {
    let mut state = State::default();
    let root = fs.znode(fs.root())?;
    let Some(target) = fs.lookup(&root, directory.as_bytes())? else {
        return Ok(state);
    };
    let directory = fs.znode(target.object)?;
    for entry in fs.read_directory(&directory, 0)?.skip(2) {
        let entry = entry?;
        let number = entry.target.object.get();
        state.names.insert(String::from_utf8(entry.name)?, number);
        if state.files.contains_key(&number) {
            continue;
        }
        let file = fs.znode(entry.target.object)?;
        let mut bytes = vec![0xEE; usize::try_from(file.attributes().size)?];
        let count = fs.read(&file, 0, &mut bytes)?;
        ensure!(count == bytes.len(), "a read was short");
        let xattr = fs.xattr(&file, XATTR)?;
        state.files.insert(number, Arc::new(File { bytes, xattr }));
    }
    Ok(state)
}
