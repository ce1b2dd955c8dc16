//! `cenote dump`: copies a volume's bytes to a file, a device or a pipe.

use super::cat::zeros;
use super::content::{next_stretch, piece_length};
use crate::reading::failure::{Exit, Failure, complain, ended};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use crate::reading::session::Session;
use crate::reading::spec::Spec;
use cenote_posix::Segment;
use cenote_volume::{Volume, VolumeError};
use cenote_words::command::{Command, Run, flags};
use cenote_words::progress::Progress;
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::PathBuf;

/// The command.
pub const COMMAND: Command = Command {
    name: "dump",
    summary: "Copy a volume into a file",
    synopsis: "[OPTION]... POOL/VOLUME[@SNAPSHOT] FILE|-",
    about: "\
Copies a volume into a file, where its holes stay holes, onto a device, or to standard
output. Until a new file is complete its name ends in '.partial'.

Example:
  cenote dump -d /mnt/images tank/vm1@monday - | zstd > vm1.img.zst",
    flags: flags! {
        'f' "force" _ "write over a file that is there, or onto a device";
        'k' "keep-going" _ "continue after damage; blocks that cannot be read become zeros, and\n\
            each is named on standard error";
        'q' "quiet" _ "no progress bar";
        'j' "json" _ "progress as JSON on standard error";
    },
    run: Run::Reading(|words| ended(run(words))),
};

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, pool) = PoolOptions::read(&COMMAND, &words)?;
    let [source, target] = line.operands.as_slice() else {
        return Err(line.wrong("give POOL/VOLUME[@SNAPSHOT] and a file, or - for standard output"));
    };
    let spec = Spec::parse(source)?;
    if spec.path.is_some() {
        return Err(line.wrong("a volume has no files: give its name without a path"));
    }
    let session = Session::open(&pool, spec.pool())?;
    let dataset = session.dataset(&spec.dataset)?;
    let volume = session.volume_of(&dataset)?;
    let mut target = Target::open(target, line.has("force"), volume.size())?;
    let mut dumper = Dumper {
        name: dataset.name().as_str(),
        volume: &volume,
        progress: Progress::new(line.style(), Some(volume.size())),
        keep_going: line.has("keep-going"),
        exit: Exit::Good,
    };
    dumper.dump(&mut target)?;
    dumper.progress.finish();
    target.finish()?;
    Ok(dumper.exit)
}

/// Where to write.
enum Target {
    /// Standard output: holes become zeros.
    Output(Box<Output>),
    /// A file or device.
    File {
        file: File,
        path: PathBuf,
        /// The final name of a new file, once it is complete.
        name: Option<PathBuf>,
        /// Whether bytes that are not written read as zeros.
        is_blank: bool,
    },
}

impl Target {
    fn open(path: &OsStr, force: bool, size: u64) -> Result<Self, Failure> {
        if path == OsStr::new("-") {
            return Ok(Self::Output(Box::default()));
        }
        let mut path = PathBuf::from(path);
        let mut name = None;
        let mut options = OpenOptions::new();
        options.write(true);
        match std::fs::metadata(&path) {
            Ok(_) if !force => {
                return Err(Failure::Absent {
                    what: path.display().to_string(),
                    problem: "is there already; --force writes over it".into(),
                });
            }
            Ok(metadata) if metadata.file_type().is_block_device() => {}
            Ok(_) => _ = options.truncate(true),
            Err(_) => {
                let mut partial = path.clone().into_os_string();
                partial.push(".partial");
                name = Some(std::mem::replace(&mut path, partial.into()));
                options.create(true).truncate(true);
            }
        }
        let file = options.open(&path).map_err(Failure::file(&path, "open"))?;
        let kind = file
            .metadata()
            .map_err(Failure::file(&path, "examine"))?
            .file_type();
        let is_blank = kind.is_file();
        if is_blank {
            file.set_len(size)
                .map_err(Failure::file(&path, "set its size"))?;
        }
        Ok(Self::File {
            file,
            path,
            name,
            is_blank,
        })
    }

    fn zeros(&mut self, offset: u64, length: u64) -> Result<(), Failure> {
        match self {
            Self::Output(output) => zeros(output, length),
            Self::File { is_blank: true, .. } => Ok(()),
            Self::File { file, path, .. } => {
                let zeros = vec![0; 1 << 20];
                let end = offset + length;
                let mut at = offset;
                while at < end {
                    let count = usize::try_from(end - at)
                        .unwrap_or(zeros.len())
                        .min(zeros.len());
                    let written = file.write_all_at(&zeros[..count], at);
                    written.map_err(Failure::file(&*path, "write"))?;
                    at += count as u64;
                }
                Ok(())
            }
        }
    }

    fn segments(&mut self, offset: u64, segments: &[Segment]) -> Result<(), Failure> {
        let mut at = offset;
        for segment in segments {
            match (segment.bytes(), &mut *self) {
                // A stored block of zeros can stay a hole.
                (Some(bytes), Self::File { is_blank: true, .. }) if is_zero(bytes) => {}
                (Some(bytes), Self::Output(output)) => output.bytes(bytes)?,
                (Some(bytes), Self::File { file, path, .. }) => {
                    let written = file.write_all_at(bytes, at);
                    written.map_err(Failure::file(&*path, "write"))?;
                }
                (None, _) => self.zeros(at, segment.length as u64)?,
            }
            at += segment.length as u64;
        }
        Ok(())
    }

    /// Makes the file durable and gives it its final name.
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Output(mut output) => output.flush(),
            Self::File {
                file, path, name, ..
            } => {
                let synced = file.sync_all();
                synced.map_err(Failure::file(&path, "write it out"))?;
                match name {
                    Some(name) => {
                        std::fs::rename(&path, &name).map_err(Failure::file(&name, "rename to"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

/// Whether all bytes are zero.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| *word == [0; 16]) && rest.iter().all(|b| *b == 0)
}

struct Dumper<'a> {
    name: &'a str,
    volume: &'a Volume,
    progress: Progress,
    keep_going: bool,
    exit: Exit,
}

impl Dumper<'_> {
    fn failure(&self, source: VolumeError) -> Failure {
        Failure::Volume {
            dataset: self.name.to_owned(),
            source: Box::new(source),
        }
    }

    fn dump(&mut self, target: &mut Target) -> Result<(), Failure> {
        let size = self.volume.size();
        let mut at = 0;
        loop {
            let stretch = next_stretch(self.volume, at).map_err(|error| self.failure(error));
            let Some((start, end)) = stretch? else {
                return target.zeros(at, size - at);
            };
            target.zeros(at, start - at)?;
            at = start;
            while at < end {
                let length = piece_length(self.volume, at, end);
                self.piece(target, at, length)?;
                at += length as u64;
                self.progress.set(at, Some(size), self.name);
            }
        }
    }

    fn piece(&mut self, target: &mut Target, at: u64, length: usize) -> Result<(), Failure> {
        match self.volume.segments(at, length) {
            Ok(segments) => target.segments(at, &segments),
            Err(error) if !self.keep_going => Err(self.failure(error)),
            Err(_) => self.salvage(target, at, length),
        }
    }

    /// Reads a piece block by block; a block that cannot be read becomes zeros.
    fn salvage(&mut self, target: &mut Target, from: u64, length: usize) -> Result<(), Failure> {
        let end = from + length as u64;
        let block = self.volume.block_size();
        let mut at = from;
        while at < end {
            let border = ((at / block + 1) * block).min(end);
            let count = usize::try_from(border - at).expect("at most a block");
            match self.volume.segments(at, count) {
                Ok(segments) => target.segments(at, &segments)?,
                Err(error) => {
                    let message = format!(
                        "{}: bytes {at} to {}: {error}; zeros in their place",
                        self.name,
                        border - 1
                    );
                    self.progress.interrupt(|| complain(&message));
                    self.exit = Exit::Problems;
                    target.zeros(at, border - at)?;
                }
            }
            at = border;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_zero;

    #[test]
    fn any_byte_counts() {
        for length in [0, 1, 15, 16, 17, 100] {
            let mut bytes = vec![0; length];
            assert!(is_zero(&bytes));
            for at in 0..length {
                bytes[at] = 1;
                assert!(!is_zero(&bytes));
                bytes[at] = 0;
            }
        }
    }
}
