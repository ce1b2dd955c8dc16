//! `cenote cat`: contents of files.

use super::content::{Content, FileContent, piece_length};
use crate::reading::failure::{Exit, Failure, ended};
use crate::reading::options::PoolOptions;
use crate::reading::output::Output;
use crate::reading::session::{OpenFileSystem, Session, each_place};
use crate::reading::spec::Spec;
use cenote_posix::{FileKind, PosixError, SymlinkPolicy, Znode};
use cenote_words::command::{Command, Run};
use std::ffi::OsString;

/// Zeros for holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The command.
pub const COMMAND: Command = Command {
    name: "cat",
    summary: "Write files to standard output",
    synopsis: "[OPTION]... POOL/DATASET[@SNAPSHOT]:/PATH...",
    about: "\
Writes the contents of files to standard output. What cannot be read with a right checksum
is never written: the output ends there, and the exit code is 1.",
    flags: &[],
    run: Run::Reading(|words| ended(run(words))),
};

fn run(words: Vec<OsString>) -> Result<Exit, Failure> {
    let (line, options) = PoolOptions::read(&COMMAND, &words)?;
    let specs = line.specs("give POOL/DATASET:/path")?;
    let mut output = Output::new();
    each_place(&options, &specs, &mut output, |output| output, cat)?;
    output.finish()
}

fn cat(output: &mut Output, session: &Session, spec: &Spec) -> Result<(), Failure> {
    let open = session.file_system(spec)?;
    let znode = open.resolve(spec.path_or_root(), SymlinkPolicy::Follow)?;
    match znode.kind() {
        FileKind::Regular => write(&open, spec, &znode, output),
        FileKind::Directory => {
            let object = znode.id();
            Err(open.failure(spec.path_or_root(), PosixError::IsDirectory { object }))
        }
        _ => Err(open.failure(
            spec.path_or_root(),
            PosixError::WrongKind {
                object: znode.id(),
                expected: "a regular file",
            },
        )),
    }
}

fn write(
    open: &OpenFileSystem,
    spec: &Spec,
    znode: &Znode,
    output: &mut Output,
) -> Result<(), Failure> {
    let files = &open.files;
    let content = FileContent { files, znode };
    let mut at = 0;
    while at < content.size() {
        let length = piece_length(&content, at, content.size());
        let segments = content
            .segments(at, length)
            .map_err(|source| open.failure(spec.path_or_root(), source))?;
        for segment in &segments {
            match segment.bytes() {
                Some(bytes) => output.bytes(bytes)?,
                None => zeros(output, segment.length as u64)?,
            }
        }
        at += length as u64;
    }
    Ok(())
}

/// Writes `count` zeros.
pub fn zeros(output: &mut Output, mut count: u64) -> Result<(), Failure> {
    while count > 0 {
        let length = usize::try_from(count)
            .unwrap_or(ZEROS.len())
            .min(ZEROS.len());
        output.bytes(&ZEROS[..length])?;
        count -= length as u64;
    }
    Ok(())
}
