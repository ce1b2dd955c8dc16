//! What a writer does to its files, and how they were after each operation.
//!
//! Each writer works in a directory of its own, so that what it left is a sequence of states. A
//! transaction group has all of a writer's operations up to one of them. An intent log behind it
//! has all operations on names up to one, and for each file all operations on its contents up to
//! one that may be later or earlier. So after a power cut the names are as after one operation, and
//! each byte of a file as after one; none of them earlier than what was promised.

use crate::record::Bounds;
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

impl File {
    /// Whether this may be left of a file that was as these, one after the other. A log has the
    /// contents of a long write as they were when somebody synced, later changes included, and of
    /// what nobody was promised perhaps the beginning only.
    fn may_be_left_of(&self, files: &[&Self]) -> bool {
        let sizes = || files.iter().map(|file| file.bytes.len());
        let (Some(least), Some(most)) = (sizes().min(), sizes().max()) else {
            return false;
        };
        let is_of_one = |(at, byte): (usize, &u8)| {
            let mut there = files.iter().map(|file| file.bytes.get(at).unwrap_or(&0));
            there.any(|other| other == byte)
        };
        (least..=most).contains(&self.bytes.len())
            && self.bytes.iter().enumerate().all(is_of_one)
            && files.iter().any(|file| file.xattr == self.xattr)
    }
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
        let contents =
            |state: &Self, name: &str| state.file(name).map(|(_, file)| Arc::clone(file));
        self.links() == other.links()
            && self
                .names
                .keys()
                .all(|name| contents(self, name) == contents(other, name))
    }

    fn file(&self, name: &str) -> Option<(u64, &Arc<File>)> {
        let file = self.names.get(name)?;
        Some((*file, self.files.get(file)?))
    }

    /// Which name is of the same file as which other.
    fn links(&self) -> BTreeMap<&str, &str> {
        let mut first: BTreeMap<u64, &str> = BTreeMap::new();
        let names = self.names.iter();
        names
            .map(|(name, file)| (name.as_str(), *first.entry(*file).or_insert(name)))
            .collect()
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

    /// One of the files that have a name, if there is any.
    pub fn any_file(&self, random: &mut Random) -> Option<(u64, ObjectId)> {
        let state = self.states.last()?;
        let files: Vec<u64> = state.files.keys().copied().collect();
        let file = *files.get(random.index(files.len().max(1)))?;
        Some((file, self.objects.get(&file).copied()?))
    }

    /// The writer's directory.
    pub fn directory(&self) -> ObjectId {
        self.directory
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

/// Whether `found` may be left of a directory that had these states after 0, 1, 2, … operations.
pub fn may_be_left(states: &[State], bounds: &Bounds, found: &State) -> bool {
    let most = bounds.most.min(states.len() - 1);
    let is_left = |file: u64, left: &File| {
        // What it had when it was made came with its name.
        let all = states[bounds.of_file(file).min(most)..=most].iter();
        let files: Vec<&File> = all
            .filter_map(|state| state.files.get(&file).map(Arc::as_ref))
            .collect();
        left.may_be_left_of(&files)
    };
    states[bounds.names..=most].iter().any(|names| {
        let mut all = names.names.iter();
        names.links() == found.links()
            && all.all(|(name, file)| {
                let left = found.file(name);
                left.is_some_and(|(_, left)| is_left(*file, left))
            })
    })
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
