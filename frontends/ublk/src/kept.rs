//! The files with the segments of a disk's unflushed writes. They outlive this process.
//!
//! The journal reaches the system only through [`Place`]. So tests can replace the system by a
//! simulation, in which the process dies at any moment.

use crate::private::is_private_directory;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".unflushed";

/// Keeps segments.
pub trait Place: Send + Sync {
    /// The numbers of the segments in order, each with its size.
    fn segments(&self) -> io::Result<Vec<(u64, u64)>>;

    /// Makes a segment that is not there yet.
    fn create(&self, number: u64) -> io::Result<Box<dyn Segment>>;

    /// Reads a segment from its beginning.
    fn read(&self, number: u64) -> io::Result<Box<dyn Read>>;

    /// Removes a segment.
    fn remove(&self, number: u64) -> io::Result<()>;

    /// All segments are removed, and no more will be created.
    fn end(&self);

    /// The name of a segment, for messages.
    fn name(&self, number: u64) -> String;
}

/// A segment that is appended to.
pub trait Segment: Send {
    /// Appends as many of these bytes as it can.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Truncates to this size; the next bytes are appended there.
    fn cut(&mut self, size: u64) -> io::Result<()>;

    /// Whether the file still exists: another program may have removed it.
    fn is_there(&self) -> io::Result<bool>;
}

/// A directory that only this user may access.
pub struct Kept(PathBuf);

impl Kept {
    /// Creates the directory if needed. Refuses one that other users may access.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        is_private_directory(path)?;
        Ok(Self(path.to_owned()))
    }

    fn path(&self, number: u64) -> PathBuf {
        self.0.join(format!("{number}{SUFFIX}"))
    }
}

impl Place for Kept {
    fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut segments = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            // Two names for one number would be two segments with one place in the order.
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok())
                && self.path(number) == entry.path()
            {
                segments.push((number, entry.path().metadata()?.len()));
            }
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn Segment>> {
        let mut options = File::options();
        let file = options.write(true).create_new(true).open(self.path(number));
        Ok(Box::new(file?))
    }

    fn read(&self, number: u64) -> io::Result<Box<dyn Read>> {
        Ok(Box::new(File::open(self.path(number))?))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.path(number))
    }

    fn end(&self) {
        // If it stays, the next disk uses it.
        let _ = fs::remove_dir(&self.0);
    }

    fn name(&self, number: u64) -> String {
        self.path(number).display().to_string()
    }
}

impl Segment for File {
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write_vectored(slices)
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.set_len(size)?;
        self.seek(SeekFrom::Start(size)).map(drop)
    }

    fn is_there(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 0)
    }
}
