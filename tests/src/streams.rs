//! Send streams made by OpenZFS, with the pool that they came from.

use crate::golden::{Golden, build_directory};
use crate::sparse;
use anyhow::Result;
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The kind of the golden pool that has streams.
pub const KIND: &str = "streams";

/// The unpacked stream of this name, such as `full`; `None` with a notice when it is not here.
pub fn stream(name: &str) -> Result<Option<PathBuf>> {
    match Golden::find(KIND)? {
        Some(golden) => unpack(&golden, name).map(Some),
        None => Ok(None),
    }
}

/// All streams by their names, unpacked; none, with a notice, when they are not here.
pub fn streams() -> Result<Vec<(String, PathBuf)>> {
    let Some(golden) = Golden::find(KIND)? else {
        return Ok(Vec::new());
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(&golden.directory)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        names.extend(name.strip_suffix(".zstream.zst").map(str::to_string));
    }
    names.sort();
    let unpacked = names.into_iter().map(|name| {
        let path = unpack(&golden, &name)?;
        Ok((name, path))
    });
    unpacked.collect()
}

/// Unpacks a stream, once, into the build directory.
fn unpack(golden: &Golden, name: &str) -> Result<PathBuf> {
    let directory = build_directory().join("golden").join(KIND);
    fs::create_dir_all(&directory)?;
    let lock = File::create(directory.join(".streams.lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let packed = golden.directory.join(format!("{name}.zstream.zst"));
    let target = directory.join(format!("{name}.zstream"));
    if !is_current(&packed, &target) {
        let partial = directory.join(format!(".{name}.partial"));
        sparse::unpack(&packed, &partial)?;
        fs::rename(&partial, &target)?;
    }
    Ok(target)
}

fn is_current(packed: &Path, target: &Path) -> bool {
    let time = |path| fs::metadata(path).and_then(|data: fs::Metadata| data.modified());
    match (time(packed), time(target)) {
        (Ok(packed), Ok(target)) => target >= packed,
        _ => false,
    }
}
