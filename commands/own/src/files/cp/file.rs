//! Copying the contents of one regular file.

use super::copy::{Copier, Trouble, target};
use super::journal::Partial;
use super::target::TargetDirectory;
use crate::files::content::{Content, FileContent, next_stretch, piece_length};
use crate::reading::failure::posix_words;
use crate::reading::place::Place;
use cenote_posix::{Segment, Znode};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

impl Copier<'_> {
    /// Copies the contents of `znode` to an unfinished file in `directory`.
    pub(super) fn file(
        &mut self,
        directory: &TargetDirectory,
        znode: &Znode,
        path: &[u8],
    ) -> Result<(), Trouble> {
        let files = &self.open.files;
        let content = FileContent { files, znode };
        let size = content.size();
        let (file, from) = self.unfinished(directory, znode)?;
        file.set_len(size).map_err(target("set the size of"))?;
        let base = self.position;
        self.position = base + from;
        let mut at = from;
        while let Some((start, end)) = next_stretch(&content, at).map_err(Trouble::Source)? {
            at = start;
            while at < end {
                let length = piece_length(&content, at, end);
                self.piece(&content, &file, (at, length), path)?;
                at += length as u64;
                self.position = base + at;
                self.show(path);
                self.pause(&file, at)?;
            }
        }
        self.position = base + size;
        Ok(())
    }

    /// A new file, or the one that an earlier run left, and how many of its bytes are valid.
    fn unfinished(
        &self,
        directory: &TargetDirectory,
        znode: &Znode,
    ) -> Result<(File, u64), Trouble> {
        let before = self
            .journal
            .as_ref()
            .map_or(0, |journal| journal.was_written(self.entry));
        if before > 0
            && let Ok(file) = directory.create(&self.partial, 0, true)
            && file
                .metadata()
                .is_ok_and(|found| found.len() == znode.attributes().size)
        {
            return Ok((file, before));
        }
        let mode = match self.settings.attributes {
            true => 0o600,
            false => u32::from(znode.attributes().permissions() & 0o777),
        };
        let file = directory.create(&self.partial, mode, false);
        Ok((file.map_err(target("make the file"))?, 0))
    }

    fn show(&self, path: &[u8]) {
        let path = String::from_utf8_lossy(path);
        self.progress.set(self.position, None, &path);
    }

    /// Saves the journal in the middle of a file if it is due, and stops after a signal.
    fn pause(&mut self, file: &File, bytes: u64) -> Result<(), Trouble> {
        let stopped = self.stop.is_set();
        if let Some(journal) = &mut self.journal
            && (stopped || journal.is_due())
        {
            let entry = self.entry;
            file.sync_data().map_err(target("write out"))?;
            let saved = journal.save(entry, Some(Partial { entry, bytes }));
            saved.map_err(target("save the journal for"))?;
            self.report.partial_saved(stopped);
        }
        match stopped {
            true => Err(Trouble::Stopped),
            false => Ok(()),
        }
    }

    fn piece(
        &mut self,
        content: &FileContent<'_>,
        file: &File,
        (at, length): (u64, usize),
        path: &[u8],
    ) -> Result<(), Trouble> {
        match content.segments(at, length) {
            Ok(segments) => {
                self.report.bytes += write(file, at, &segments).map_err(target("write"))?;
                Ok(())
            }
            Err(error) if !self.settings.keep_going => Err(Trouble::Source(error)),
            Err(_) => self.salvage(content, file, (at, length), path),
        }
    }

    /// Reads a piece block by block; unreadable blocks stay zeros.
    fn salvage(
        &mut self,
        content: &FileContent<'_>,
        file: &File,
        (from, length): (u64, usize),
        path: &[u8],
    ) -> Result<(), Trouble> {
        let end = from + length as u64;
        let block = content.block_size();
        let mut at = from;
        while at < end {
            let border = ((at / block + 1) * block).min(end);
            let count = usize::try_from(border - at).expect("at most a block");
            match content.segments(at, count) {
                Ok(segments) => {
                    self.report.bytes += write(file, at, &segments).map_err(target("write"))?;
                }
                Err(error) => {
                    let place = Place::new(&self.open.name, path);
                    let words = posix_words(&error);
                    let last = border - 1;
                    let problem =
                        format!("{place}: bytes {at} to {last}: {words}; zeros in their place");
                    self.report.problem(self.progress, problem);
                }
            }
            at = border;
        }
        Ok(())
    }
}

/// Writes the stored segments and returns their bytes.
fn write(file: &File, offset: u64, segments: &[Segment]) -> io::Result<u64> {
    let (mut at, mut written) = (offset, 0);
    for segment in segments {
        if let Some(bytes) = segment.bytes() {
            file.write_all_at(bytes, at)?;
            written += bytes.len() as u64;
        }
        at += segment.length as u64;
    }
    Ok(written)
}
