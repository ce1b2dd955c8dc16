//! `cenote cat`: contents of files.

use super::content::{Content, FileContent, piece_length};
use super::failure::{Exit, Failure};
use super::line::{CommandLine, Word};
use super::options::PoolOptions;
use super::output::Output;
use super::session::{OpenFileSystem, Session};
use super::spec::Spec;
use cenote_posix::{FileKind, PosixError, SymlinkPolicy, Znode};

/// Zeros for holes.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Runs the command.
pub fn run(line: &mut CommandLine) -> Result<Exit, Failure> {
    let mut options = PoolOptions::default();
    let mut specs = Vec::new();
    while let Some(word) = line.next()? {
        match word {
            Word::Operand(text) => specs.push(Spec::parse(&text)?),
            Word::Option(option) => options.take(&option, line)?,
        }
    }
    if specs.is_empty() {
        return Err(line.wrong("give POOL/DATASET:/path"));
    }
    let mut output = Output::new();
    let (mut session, mut exit) = (None, Exit::Good);
    for spec in &specs {
        let session = Session::reuse(&mut session, &options, spec.pool())?;
        match cat(session, spec, &mut output) {
            Ok(()) => {}
            Err(Failure::Output(error)) => return Err(Failure::Output(error)),
            Err(failure) => {
                output.flush()?;
                failure.report();
                exit = Exit::Problems;
            }
        }
    }
    output.flush()?;
    Ok(exit)
}

fn cat(session: &Session, spec: &Spec, output: &mut Output) -> Result<(), Failure> {
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
