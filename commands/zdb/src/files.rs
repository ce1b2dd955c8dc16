//! `zdb -O` and `-r`: objects by their paths, and copies of files.

use crate::line::Asked;
use crate::objects::{self, Selection};
use crate::print::Printer;
use crate::problem::{Problem, failed};
use crate::session::Target;
use crate::tree::Detail;
use cenote_own_commands::reading::session::OpenFileSystem;
use cenote_posix::{FileKind, SymlinkPolicy, Znode};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// The file that the first two operands name.
fn named(asked: &Asked) -> Result<(OpenFileSystem, Arc<Znode>), Problem> {
    let name = asked.operand(0, "a dataset")?;
    let target = Target::open(asked, name)?;
    let open = target.session.file_system_of(target.dataset(name)?)?;
    let path = asked.operands.get(1);
    let path = path.ok_or_else(|| Problem::Usage("give a path in the dataset".to_owned()))?;
    let path = path.as_bytes();
    let znode = open.files.resolve(path, SymlinkPolicy::FollowParents);
    let znode = znode.map_err(|error| {
        let path = String::from_utf8_lossy(path);
        let path = path.trim_start_matches('/');
        Problem::Failed(format!(
            "failed to lookup dataset={name} path=/{path}: {error}"
        ))
    })?;
    Ok((open, znode))
}

/// Prints the object at a path.
pub fn find(asked: &Asked, printer: &mut Printer) -> Result<(), Problem> {
    let [_, _] = asked.operands.as_slice() else {
        return Err(Problem::Usage(
            "-O: give a dataset and a path in it".to_owned(),
        ));
    };
    let (open, znode) = named(asked)?;
    let selection = Selection::one(znode.id());
    let set = open.files.set();
    objects::print(
        set,
        Some(&open.dataset),
        &selection,
        Detail::of(asked.count("O")),
        printer,
    )
}

/// Copies the file at a path out of the pool.
pub fn copy(asked: &Asked) -> Result<(), Problem> {
    let [_, _, destination] = asked.operands.as_slice() else {
        let usage = "-r: give a dataset, a path in it and a destination";
        return Err(Problem::Usage(usage.to_owned()));
    };
    let (open, znode) = named(asked)?;
    if znode.kind() != FileKind::Regular {
        return Err(Problem::Failed(
            "only regular files can be copied".to_owned(),
        ));
    }
    let path = destination_of(&asked.operands[1], Path::new(destination));
    let what = path.display().to_string();
    let mut file = File::create(&path).map_err(failed(what.as_str()))?;
    let (size, mut at) = (znode.attributes().size, 0);
    while at < size {
        let left = usize::try_from(size - at).unwrap_or(PIECE).min(PIECE);
        let source = || format!("{}: at {at}", asked.operands[1].to_string_lossy());
        let segments = open
            .files
            .read_segments(&znode, at, left)
            .map_err(failed(source()))?;
        for segment in &segments {
            let written = match segment.bytes() {
                Some(bytes) => file.write_all(bytes),
                None => file
                    .seek(SeekFrom::Current(segment.length as i64))
                    .map(drop),
            };
            written.map_err(failed(what.as_str()))?;
            at += segment.length as u64;
        }
    }
    // A hole at the end is part of the file, too.
    file.set_len(size).map_err(failed(what.as_str()))?;
    file.sync_all().map_err(failed(what))
}

/// In a directory the file keeps its name.
fn destination_of(source: &OsStr, destination: &Path) -> std::path::PathBuf {
    match (destination.is_dir(), Path::new(source).file_name()) {
        (true, Some(name)) => destination.join(name),
        _ => destination.to_owned(),
    }
}
