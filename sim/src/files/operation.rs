//! Operations on files: their words, what they do to a state, and how they are done in a pool.
//!
//! A line of words separated by `;` is a history, as in tests and in what the simulation prints:
//! `mkdir a; create a/f; write a/f 0 5000; fsync a/f; rename a/f g; sync`. Bytes that are written
//! follow from the operation's number, so that no two operations write the same.

use super::model::{Kind, Node, State, XATTR};
use anyhow::{Context, Result, bail};
use cenote_base::ObjectId;
use cenote_base::rt::Random;
use cenote_posix::write::{
    CopySource, FallocateMode, NewFile, RenameMode, SetAttributes, SetXattr, WriteOptions,
};
use cenote_posix::{FileKind, FileSystem};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What new files and directories have.
const FILE_MODE: u16 = 0o644;
const DIRECTORY_MODE: u16 = 0o755;

/// One operation. Paths are within the writer's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Create(String),
    Mkdir(String),
    Symlink(String, String),
    /// A file without a name is written to and then given one.
    Unnamed(String, u64),
    Write(String, u64, u64),
    Append(String, u64),
    Truncate(String, u64),
    Allocate(String, u64, u64),
    Punch(String, u64, u64),
    Zero(String, u64, u64),
    Rename(String, String),
    Exchange(String, String),
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Chmod(String, u16),
    SetXattr(String, u64),
    RemoveXattr(String),
    /// The second file gets the first one's contents, by shared blocks where that is possible.
    Copy(String, String),
    /// Waits for one file or directory.
    Fsync(String),
    /// Waits for the writer's own directory.
    FsyncTop,
    /// Waits for everything, by the log.
    Sync,
    /// Waits for everything, by a transaction group.
    Group,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Symlink(path, target) => write!(f, "symlink {path} {target}"),
            Self::Unnamed(path, length) => write!(f, "unnamed {path} {length}"),
            Self::Write(path, offset, length) => write!(f, "write {path} {offset} {length}"),
            Self::Append(path, length) => write!(f, "append {path} {length}"),
            Self::Truncate(path, size) => write!(f, "truncate {path} {size}"),
            Self::Allocate(path, offset, length) => write!(f, "allocate {path} {offset} {length}"),
            Self::Punch(path, offset, length) => write!(f, "punch {path} {offset} {length}"),
            Self::Zero(path, offset, length) => write!(f, "zero {path} {offset} {length}"),
            Self::Rename(from, to) => write!(f, "rename {from} {to}"),
            Self::Exchange(from, to) => write!(f, "exchange {from} {to}"),
            Self::Link(from, to) => write!(f, "link {from} {to}"),
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Chmod(path, mode) => write!(f, "chmod {path} {mode:o}"),
            Self::SetXattr(path, length) => write!(f, "setxattr {path} {length}"),
            Self::RemoveXattr(path) => write!(f, "rmxattr {path}"),
            Self::Copy(from, to) => write!(f, "copy {from} {to}"),
            Self::Fsync(path) => write!(f, "fsync {path}"),
            Self::FsyncTop => write!(f, "fsync ."),
            Self::Sync => write!(f, "sync"),
            Self::Group => write!(f, "group"),
        }
    }
}

impl Operation {
    /// Parses the operations in a line of words.
    ///
    /// # Errors
    /// If it is not understood.
    pub fn parse_all(words: &str) -> Result<Vec<Self>> {
        let lines = words.split([';', '\n']).map(str::trim);
        let lines = lines.filter(|line| !line.is_empty());
        lines.map(Self::parse).collect()
    }

    fn parse(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let word = |index: usize| -> Result<String> {
            let word = words.get(index);
            Ok((*word.with_context(|| format!("'{line}' lacks a word"))?).to_owned())
        };
        let number = |index: usize| -> Result<u64> {
            let word = word(index)?;
            word.parse()
                .with_context(|| format!("'{word}' in '{line}' is not a number"))
        };
        Ok(match words.first().copied().unwrap_or_default() {
            "create" => Self::Create(word(1)?),
            "mkdir" => Self::Mkdir(word(1)?),
            "symlink" => Self::Symlink(word(1)?, word(2)?),
            "unnamed" => Self::Unnamed(word(1)?, number(2)?),
            "write" => Self::Write(word(1)?, number(2)?, number(3)?),
            "append" => Self::Append(word(1)?, number(2)?),
            "truncate" => Self::Truncate(word(1)?, number(2)?),
            "allocate" => Self::Allocate(word(1)?, number(2)?, number(3)?),
            "punch" => Self::Punch(word(1)?, number(2)?, number(3)?),
            "zero" => Self::Zero(word(1)?, number(2)?, number(3)?),
            "rename" => Self::Rename(word(1)?, word(2)?),
            "exchange" => Self::Exchange(word(1)?, word(2)?),
            "link" => Self::Link(word(1)?, word(2)?),
            "unlink" => Self::Unlink(word(1)?),
            "rmdir" => Self::Rmdir(word(1)?),
            "chmod" => Self::Chmod(word(1)?, u16::from_str_radix(&word(2)?, 8)?),
            "setxattr" => Self::SetXattr(word(1)?, number(2)?),
            "rmxattr" => Self::RemoveXattr(word(1)?),
            "copy" => Self::Copy(word(1)?, word(2)?),
            "fsync" if word(1)? == "." => Self::FsyncTop,
            "fsync" => Self::Fsync(word(1)?),
            "sync" => Self::Sync,
            "group" => Self::Group,
            _ => bail!("'{line}' is no operation"),
        })
    }

    /// Whether operations can be done one after the other, once those of `before` are.
    pub fn are_possible(before: &str, operations: &[Self]) -> bool {
        let Ok(before) = Self::parse_all(before) else {
            return false;
        };
        let mut state = Some(State::default());
        for operation in before.iter().chain(operations) {
            state = state.and_then(|state| operation.apply(&state, 0));
        }
        state.is_some()
    }

    /// Does it to a state; `None` if it is not possible there, and nothing is changed.
    pub fn apply(&self, state: &State, salt: u64) -> Option<State> {
        let mut next = state.clone();
        match self {
            Self::Create(path) => next.make(path, Kind::File, Vec::new())?,
            Self::Mkdir(path) => next.make(path, Kind::Directory, Vec::new())?,
            Self::Symlink(path, target) => {
                next.make(path, Kind::Symlink, target.clone().into_bytes())?;
            }
            Self::Unnamed(path, length) => next.make(path, Kind::File, pattern(salt, *length))?,
            Self::Write(path, offset, length) => {
                next.file(path)?.put(*offset, &pattern(salt, *length));
            }
            Self::Append(path, length) => {
                let file = next.file(path)?;
                file.put(file.bytes.len() as u64, &pattern(salt, *length));
            }
            Self::Truncate(path, size) => next.file(path)?.bytes.resize(index(*size), 0),
            Self::Allocate(path, offset, length) => next.file(path)?.reach(offset + length),
            Self::Punch(path, offset, length) => {
                let file = next.file(path)?;
                let end = index(offset + length).min(file.bytes.len());
                let start = index(*offset).min(end);
                file.bytes[start..end].fill(0);
            }
            Self::Zero(path, offset, length) => {
                let file = next.file(path)?;
                file.reach(offset + length);
                file.bytes[index(*offset)..index(offset + length)].fill(0);
            }
            Self::Rename(from, to) => next.rename(from, to)?,
            Self::Exchange(one, other) => next.exchange(one, other)?,
            Self::Link(from, to) => {
                let (number, node) = state.node(from)?;
                let is_possible = node.kind != Kind::Directory && state.is_free(to);
                next.names
                    .insert(to.clone(), is_possible.then_some(number)?);
            }
            Self::Unlink(path) => {
                (state.node(path)?.1.kind != Kind::Directory).then_some(())?;
                next.names.remove(path);
            }
            Self::Rmdir(path) => {
                state.is_empty_directory(path).then_some(())?;
                next.names.remove(path);
            }
            Self::Chmod(path, mode) => {
                (state.node(path)?.1.kind != Kind::Symlink).then_some(())?;
                next.change(path)?.mode = *mode;
            }
            Self::SetXattr(path, length) => {
                (state.node(path)?.1.kind != Kind::Symlink).then_some(())?;
                next.change(path)?.xattr = Some(pattern(salt, *length));
            }
            Self::RemoveXattr(path) => next.change(path)?.xattr.take().map(drop)?,
            Self::Copy(from, to) => {
                let bytes = next.file(from)?.bytes.clone();
                (state.names.get(from) != state.names.get(to)).then_some(())?;
                next.file(to)?.put(0, &bytes);
            }
            Self::Fsync(path) => drop(state.node(path)?),
            Self::FsyncTop | Self::Sync | Self::Group => {}
        }
        next.sweep();
        Some(next)
    }
}

impl Node {
    fn put(&mut self, offset: u64, data: &[u8]) {
        let start = index(offset);
        let end = start + data.len();
        self.reach(end as u64);
        self.bytes[start..end].copy_from_slice(data);
    }

    fn reach(&mut self, end: u64) {
        self.bytes.resize(self.bytes.len().max(index(end)), 0);
    }
}

/// The path of the directory that a path is in; `None` for the top.
fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(parent, _)| parent)
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl State {
    /// Whether a path could be made.
    fn is_free(&self, path: &str) -> bool {
        let is_directory =
            |path| matches!(self.node(path), Some((_, node)) if node.kind == Kind::Directory);
        !self.names.contains_key(path) && parent(path).is_none_or(is_directory)
    }

    fn is_empty_directory(&self, path: &str) -> bool {
        let is_directory =
            matches!(self.node(path), Some((_, node)) if node.kind == Kind::Directory);
        is_directory && !self.names.keys().any(|other| is_below(other, path))
    }

    fn make(&mut self, path: &str, kind: Kind, bytes: Vec<u8>) -> Option<()> {
        let mode = match kind {
            Kind::File => FILE_MODE,
            Kind::Directory => DIRECTORY_MODE,
            Kind::Symlink => 0,
        };
        let node = Node {
            kind,
            bytes,
            mode,
            xattr: None,
        };
        self.is_free(path).then(|| self.add(path, node)).map(drop)
    }

    fn change(&mut self, path: &str) -> Option<&mut Node> {
        let number = self.names.get(path)?;
        self.nodes.get_mut(number).map(Arc::make_mut)
    }

    fn file(&mut self, path: &str) -> Option<&mut Node> {
        self.change(path).filter(|node| node.kind == Kind::File)
    }

    fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let (number, node) = self.node(from)?;
        let is_directory = node.kind == Kind::Directory;
        if from == to || is_below(to, from) {
            return None;
        }
        match self.node(to) {
            // Two names of one file: POSIX wants both of them kept.
            Some((other, _)) if other == number => return Some(()),
            Some((_, other)) if is_directory || other.kind == Kind::Directory => {
                (is_directory && self.is_empty_directory(to)).then_some(())?;
            }
            Some(_) => {}
            None => self.is_free(to).then_some(())?,
        }
        self.names.remove(to);
        self.names = moved(&self.names, &[(from, to)]);
        Some(())
    }

    fn exchange(&mut self, one: &str, other: &str) -> Option<()> {
        let are_there = self.names.contains_key(one) && self.names.contains_key(other);
        if one == other || is_below(one, other) || is_below(other, one) || !are_there {
            return None;
        }
        self.names = moved(&self.names, &[(one, other), (other, one)]);
        Some(())
    }
}

/// The paths once some of them, and all below them, are elsewhere.
fn moved(names: &BTreeMap<String, u64>, moves: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let move_one = |path: &str| {
        let mut all = moves.iter();
        all.find_map(|(from, to)| match path.strip_prefix(from)? {
            "" => Some((*to).to_owned()),
            rest if rest.starts_with('/') => Some(format!("{to}{rest}")),
            _ => None,
        })
    };
    let names = names.iter();
    names
        .map(|(path, node)| (move_one(path).unwrap_or_else(|| path.clone()), *node))
        .collect()
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("files in memory")
}

/// Bytes that an operation writes. A third of the operations write bytes that compress.
fn pattern(salt: u64, length: u64) -> Vec<u8> {
    let mut random = Random::new(salt);
    let word = random.word();
    let mut bytes = Vec::with_capacity(index(length) + 8);
    while bytes.len() < index(length) {
        let piece = match salt.is_multiple_of(3) {
            true => word,
            false => random.word(),
        };
        bytes.extend_from_slice(&piece.to_le_bytes());
    }
    bytes.truncate(index(length));
    bytes
}

/// A directory of a pool in which operations are done.
#[derive(Debug)]
pub struct Place<'a> {
    pub fs: &'a FileSystem,
    /// The writer's directory.
    pub top: ObjectId,
    /// The objects of the nodes.
    pub objects: &'a mut BTreeMap<u64, ObjectId>,
}

impl Place<'_> {
    /// Does an operation that is possible in `state`.
    ///
    /// # Errors
    /// If it fails.
    pub fn perform(&mut self, operation: &Operation, state: &State, salt: u64) -> Result<()> {
        let fs = self.fs;
        match operation {
            Operation::Create(path) => {
                let new = NewFile::new(FileKind::Regular, FILE_MODE.into());
                self.create(state, path, &new)?;
            }
            Operation::Mkdir(path) => {
                let new = NewFile::new(FileKind::Directory, DIRECTORY_MODE.into());
                self.create(state, path, &new)?;
            }
            Operation::Symlink(path, target) => {
                let mut new = NewFile::new(FileKind::Symlink, 0o777);
                new.target = target.clone().into_bytes();
                self.create(state, path, &new)?;
            }
            Operation::Unnamed(path, length) => {
                let (parent, name) = self.split(state, path)?;
                let new = NewFile::new(FileKind::Regular, FILE_MODE.into());
                let object = fs.create_unnamed(parent, &new)?.id();
                let bytes = pattern(salt, *length);
                fs.write(object, 0, &bytes, WriteOptions::default())?;
                fs.link(object, parent, name)?;
                fs.release(object)?;
                self.objects.insert(state.next, object);
            }
            Operation::Rename(from, to) => self.rename(state, from, to, RenameMode::Replace)?,
            Operation::Exchange(from, to) => self.rename(state, from, to, RenameMode::Exchange)?,
            Operation::Link(from, to) => {
                let (parent, name) = self.split(state, to)?;
                fs.link(self.object(state, from)?, parent, name)?;
            }
            Operation::Unlink(path) => {
                let (parent, name) = self.split(state, path)?;
                fs.unlink(parent, name)?;
            }
            Operation::Rmdir(path) => {
                let (parent, name) = self.split(state, path)?;
                fs.rmdir(parent, name)?;
            }
            Operation::Fsync(path) => crate::machine::fsync(fs, self.object(state, path)?)?,
            Operation::FsyncTop => crate::machine::fsync(fs, self.top)?,
            Operation::Sync => crate::machine::fsync_all(fs)?,
            Operation::Group => crate::machine::sync_group(fs)?,
            _ => self.change(operation, state, salt)?,
        }
        Ok(())
    }

    /// What changes one file and no name.
    fn change(&mut self, operation: &Operation, state: &State, salt: u64) -> Result<()> {
        let fs = self.fs;
        let at = |path: &String| self.object(state, path);
        let options = WriteOptions::default();
        match operation {
            Operation::Write(path, offset, length) => {
                fs.write(at(path)?, *offset, &pattern(salt, *length), options)?;
            }
            Operation::Append(path, length) => {
                let append = WriteOptions {
                    append: true,
                    ..options
                };
                fs.write(at(path)?, 0, &pattern(salt, *length), append)?;
            }
            Operation::Truncate(path, size) => fs.truncate(at(path)?, *size)?,
            Operation::Allocate(path, offset, length) => {
                let mode = FallocateMode::Allocate { keep_size: false };
                fs.fallocate(at(path)?, *offset, *length, mode)?;
            }
            Operation::Punch(path, offset, length) => {
                fs.fallocate(at(path)?, *offset, *length, FallocateMode::PunchHole)?;
            }
            Operation::Zero(path, offset, length) => {
                let mode = FallocateMode::ZeroRange { keep_size: false };
                fs.fallocate(at(path)?, *offset, *length, mode)?;
            }
            Operation::Chmod(path, mode) => {
                let set = SetAttributes {
                    mode: Some((*mode).into()),
                    ..SetAttributes::default()
                };
                fs.set_attributes(at(path)?, &set)?;
            }
            Operation::SetXattr(path, length) => {
                let value = pattern(salt, *length);
                fs.set_xattr(at(path)?, XATTR, &value, SetXattr::Any)?;
            }
            Operation::RemoveXattr(path) => fs.remove_xattr(at(path)?, XATTR)?,
            Operation::Copy(from, to) => self.copy(at(from)?, at(to)?)?,
            _ => bail!("{operation} changes names"),
        }
        Ok(())
    }

    fn copy(&self, from: ObjectId, to: ObjectId) -> Result<()> {
        let size = self.fs.znode(from)?.attributes().size;
        let mut done = 0;
        while done < size {
            let source = CopySource {
                files: self.fs,
                id: from,
                offset: done,
            };
            let count = self
                .fs
                .copy_range(source, to, done, size - done, &|| false)?;
            anyhow::ensure!(count > 0, "a copy does not come to its end");
            done += count;
        }
        Ok(())
    }

    fn create(&mut self, state: &State, path: &str, new: &NewFile) -> Result<()> {
        let (parent, name) = self.split(state, path)?;
        let object = self.fs.create(parent, name, new)?.id();
        self.objects.insert(state.next, object);
        Ok(())
    }

    fn rename(&self, state: &State, from: &str, to: &str, mode: RenameMode) -> Result<()> {
        let (from, to) = (self.split(state, from)?, self.split(state, to)?);
        self.fs.rename(from, to, mode)?;
        Ok(())
    }

    fn object(&self, state: &State, path: &str) -> Result<ObjectId> {
        let (number, _) = state.node(path).with_context(|| format!("no {path}"))?;
        let object = self.objects.get(&number);
        object
            .copied()
            .with_context(|| format!("{path} has no object"))
    }

    /// The directory that a path is in, and its name there.
    fn split<'p>(&self, state: &State, path: &'p str) -> Result<(ObjectId, &'p [u8])> {
        match path.rsplit_once('/') {
            Some((parent, name)) => Ok((self.object(state, parent)?, name.as_bytes())),
            None => Ok((self.top, path.as_bytes())),
        }
    }
}
