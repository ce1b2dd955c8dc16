//! Where the segments of a disk's unflushed writes are: files that outlive this process.
//!
//! All of the system that the journal needs is behind [`Place`], so that a simulated world can take
//! its place, and end the process at any moment.

use cenote_ublk::is_private_directory;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

const SUFFIX: &str = ".unflushed";

/// Keeps segments.
pub(super) trait Place: Send + Sync {
    /// The numbers of the segments in order, each with its size.
    fn segments(&self) -> io::Result<Vec<(u64, u64)>>;

    /// Makes a segment that is not there yet.
    fn create(&self, number: u64) -> io::Result<Box<dyn Segment>>;

    /// Reads a segment from its beginning.
    fn read(&self, number: u64) -> io::Result<Box<dyn Read>>;

    /// Removes a segment.
    fn remove(&self, number: u64) -> io::Result<()>;

    /// All segments are gone, and no more come.
    fn end(&self);

    /// The name of a segment, for messages.
    fn name(&self, number: u64) -> String;
}

/// A segment that is appended to.
pub(super) trait Segment: Send {
    /// Appends as much of this as it can.
    fn append(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Cuts off what is behind this size; the next bytes are appended there.
    fn cut(&mut self, size: u64) -> io::Result<()>;

    /// Whether it was not removed behind our back.
    fn is_there(&self) -> io::Result<bool>;
}

/// A directory of the system that only we may use.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Makes it, or refuses one that others may use.
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

impl Place for Directory {
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
            if let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) {
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
        // The next daemon makes it again.
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
