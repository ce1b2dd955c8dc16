//! A thread that changes a directory, and remembers the state after each operation.

use super::model::{Kind, State};
use super::operation::{Operation, Place};
use crate::disks::Disks;
use crate::record::Event;
use anyhow::{Context, Result, bail};
use cenote_base::ObjectId;
use cenote_base::rt::{self, Random};
use cenote_posix::write::NewFile;
use cenote_posix::{FileKind, FileSystem};
use std::collections::BTreeMap;

/// Names in a directory.
const NAMES: u64 = 6;
/// Directories in the writer's directory.
const DIRECTORIES: u64 = 2;
/// The longest file that grows by a random operation, in bytes.
const SIZE_MAX: u64 = 200_000;
/// Draws until an operation is possible.
const DRAWS_MAX: usize = 100;

/// A writer: its directory, and its states after 0, 1, 2, … operations.
#[derive(Debug)]
pub struct Writer {
    /// Its number in the record.
    number: usize,
    top: ObjectId,
    random: Random,
    objects: BTreeMap<u64, ObjectId>,
    /// How its directory was after each number of operations.
    pub states: Vec<State>,
    operations: Vec<Operation>,
    /// What its operations write differs from what those of other writers do.
    salt: u64,
}

impl Writer {
    /// Makes a directory with this name in the root, and a writer in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(fs: &FileSystem, name: &str, number: usize, mut random: Random) -> Result<Self> {
        let new = NewFile::new(FileKind::Directory, 0o755);
        let top = fs.create(fs.root(), name.as_bytes(), &new)?.id();
        Ok(Self {
            number,
            top,
            salt: random.word(),
            random,
            objects: BTreeMap::new(),
            states: vec![State::default()],
            operations: Vec::new(),
        })
    }

    /// The operations with these numbers, for people.
    pub fn told(&self, range: std::ops::Range<usize>) -> String {
        let words = self.operations[range].iter().map(Operation::to_string);
        words.collect::<Vec<_>>().join("; ")
    }

    /// How its directory is by now.
    pub fn last(&self) -> &State {
        self.states.last().expect("there is always a first one")
    }

    /// Says in the record that all operations so far last.
    pub fn promise(&self, disks: &Disks) {
        let (writer, operations) = (self.number, self.states.len() - 1);
        disks.note(Event::Promised { writer, operations });
    }

    /// Does an operation; `false` if it is not possible.
    ///
    /// # Errors
    /// If it fails.
    pub fn perform(
        &mut self,
        disks: &Disks,
        fs: &FileSystem,
        operation: Operation,
    ) -> Result<bool> {
        let salt = self.salt.wrapping_add(self.states.len() as u64);
        let before = self.last().clone();
        let Some(next) = operation.apply(&before, salt) else {
            return Ok(false);
        };
        // The number of a state is the number of operations before it.
        let (writer, number) = (self.number, self.states.len() - 1);
        disks.note(Event::Begun {
            writer,
            operation: number,
        });
        rt::trace!("{operation}");
        let mut place = Place {
            fs,
            top: self.top,
            objects: &mut self.objects,
        };
        // Even if it fails, its effect may be visible from now on.
        self.states.push(next);
        self.operations.push(operation.clone());
        let done = place.perform(&operation, &before, salt);
        done.with_context(|| format!("writer {writer}: {operation}"))?;
        let operations = number + 1;
        let file = match &operation {
            Operation::Fsync(path) => Some(before.node(path).map(|(number, _)| number)),
            Operation::FsyncTop => Some(None),
            _ => None,
        };
        if let Some(file) = file {
            disks.note(Event::PromisedFile {
                writer,
                file,
                operations,
            });
        }
        if matches!(operation, Operation::Sync | Operation::Group) {
            self.promise(disks);
        }
        Ok(true)
    }

    /// Does a random operation.
    ///
    /// # Errors
    /// If it fails: nothing here may.
    pub fn operate(&mut self, disks: &Disks, fs: &FileSystem) -> Result<()> {
        for _ in 0..DRAWS_MAX {
            let operation = self.draw();
            if self.perform(disks, fs, operation)? {
                return Ok(());
            }
        }
        bail!("no operation is possible")
    }

    /// A path that may or may not be there.
    fn path(&mut self) -> String {
        let name = self.random.below(NAMES);
        match self.random.below(3) {
            0 => format!("d{}/f{name}", self.random.below(DIRECTORIES)),
            _ => format!("f{name}"),
        }
    }

    /// A path of a file that is there, or a new one's.
    fn file(&mut self) -> String {
        let is_file = |(path, _): &(&String, &u64)| {
            let node = self.last().node(path);
            node.is_some_and(|(_, node)| node.kind == Kind::File)
        };
        let files: Vec<String> = self
            .last()
            .names
            .iter()
            .filter(is_file)
            .map(|(path, _)| path.clone())
            .collect();
        match files.is_empty() {
            true => self.path(),
            false => files[self.random.index(files.len())].clone(),
        }
    }

    fn length(&mut self) -> u64 {
        1 + match self.random.below(8) {
            0..3 => self.random.below(100),
            3..5 => self.random.below(4096),
            5..7 => self.random.below(20_000),
            _ => self.random.below(150_000),
        }
    }

    fn draw(&mut self) -> Operation {
        let directory = format!("d{}", self.random.below(DIRECTORIES));
        let length = self.length();
        let offset = self.random.below(SIZE_MAX - length);
        match self.random.below(40) {
            0..5 => Operation::Create(self.path()),
            5 => Operation::Mkdir(directory),
            6 => Operation::Symlink(self.path(), format!("target{length}")),
            7 => Operation::Unnamed(self.path(), length),
            8..14 => Operation::Write(self.file(), offset, length),
            14..16 => Operation::Append(self.file(), length.min(5000)),
            16..18 => Operation::Truncate(self.file(), self.random.below(SIZE_MAX)),
            18 => Operation::Allocate(self.file(), offset, length),
            19 => Operation::Punch(self.file(), offset, length),
            20 => Operation::Zero(self.file(), offset, length),
            21..24 => Operation::Rename(self.path(), self.path()),
            24 => Operation::Exchange(self.path(), self.path()),
            25 => Operation::Link(self.path(), self.path()),
            26..29 => Operation::Unlink(self.path()),
            29 => Operation::Rmdir(directory),
            30 => Operation::Chmod(self.path(), [0o600, 0o640, 0o755][self.random.index(3)]),
            31..33 => Operation::SetXattr(self.path(), 1 + self.random.below(1500)),
            33 => Operation::RemoveXattr(self.path()),
            34 => Operation::Copy(self.file(), self.file()),
            35..38 => Operation::Fsync(self.file()),
            38 => Operation::FsyncTop,
            _ if self.random.happens(30) => Operation::Group,
            _ => Operation::Sync,
        }
    }
}
