//! What a mount shows, beside what the model says.

use super::tree::{Kind, Model, NodeId, ROOT};
use crate::sparse;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

/// Everything below `root`.
pub fn tree(model: &Model, root: &Path) -> Result<()> {
    node(model, ROOT, root)?;
    for directory in model.directories() {
        let path = root.join(model.path(directory));
        for (name, id) in model.names(directory) {
            node(model, *id, &path.join(name))?;
        }
    }
    Ok(())
}

/// One file, directory or link.
pub fn node(model: &Model, id: NodeId, path: &Path) -> Result<()> {
    compare(model, id, path).with_context(|| format!("node {id}, {}", path.display()))
}

fn compare(model: &Model, id: NodeId, path: &Path) -> Result<()> {
    let node = model.node(id);
    let metadata = fs::symlink_metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    ensure!(mode == node.mode, "mode {mode:o}, not {:o}", node.mode);
    let links = metadata.nlink();
    match &node.kind {
        Kind::Directory(names) => {
            ensure!(metadata.is_dir(), "not a directory");
            let mut listed: Vec<String> = Vec::new();
            for entry in fs::read_dir(path)? {
                listed.push(entry?.file_name().to_string_lossy().into_owned());
            }
            listed.sort();
            let wanted: Vec<&String> = names.keys().collect();
            ensure!(listed.iter().eq(wanted), "names {listed:?}, not {names:?}");
            let is_directory = |id: &&NodeId| matches!(model.node(**id).kind, Kind::Directory(_));
            let children = names.values().filter(is_directory).count() as u64;
            ensure!(
                links == 2 + children,
                "{links} links, {children} directories"
            );
        }
        Kind::Link(target) => {
            let found = fs::read_link(path)?;
            ensure!(found == Path::new(target), "target {}", found.display());
        }
        Kind::Device(numbers) => {
            ensure!(metadata.file_type().is_char_device(), "no device");
            let found = metadata.rdev();
            ensure!(found == *numbers, "device {found:#x}, not {numbers:#x}");
        }
        Kind::File(_) => {
            ensure!(links == node.names, "{links} links, not {}", node.names);
            contents(model, id, &File::open(path)?)?;
        }
    }
    if let Some(seconds) = node.modified {
        let found = metadata.mtime();
        ensure!(found == seconds, "modified at {found}, not {seconds}");
    }
    if matches!(node.kind, Kind::File(_) | Kind::Directory(_)) {
        let acl = acl(path)?;
        let wanted = node.acl.map(|acl| acl.encode(node.mode));
        ensure!(acl == wanted, "ACL {acl:?}, not {wanted:?}");
        let found = xattrs(path)?;
        let lengths = |map: &BTreeMap<String, Vec<u8>>| -> Vec<(String, usize)> {
            let pairs = map.iter().map(|(name, value)| (name.clone(), value.len()));
            pairs.collect()
        };
        let (have, want) = (lengths(&found), lengths(&node.xattrs));
        ensure!(have == want, "attributes {have:?}, not {want:?}");
        ensure!(found == node.xattrs, "attributes of other values: {have:?}");
    }
    Ok(())
}

/// What is in an open file.
pub fn contents(model: &Model, id: NodeId, file: &File) -> Result<()> {
    let Kind::File(wanted) = &model.node(id).kind else {
        return Ok(());
    };
    let size = file.metadata()?.len();
    let length = wanted.len();
    ensure!(size == length as u64, "{size} bytes, not {length}");
    let mut found = vec![0; length];
    file.read_exact_at(&mut found, 0).context("read")?;
    let mut end = 0;
    for (start, next) in sparse::segments(file)? {
        let hole = &wanted[end.min(length)..(start as usize).min(length)];
        ensure!(
            hole.iter().all(|byte| *byte == 0),
            "data in a hole before {start}"
        );
        end = next as usize;
    }
    let hole = &wanted[end.min(length)..];
    ensure!(
        hole.iter().all(|byte| *byte == 0),
        "data in a hole after {end}"
    );
    let different = (0..length).find(|index| found[*index] != wanted[*index]);
    if let Some(first) = different {
        let last = (0..length).rfind(|index| found[*index] != wanted[*index]);
        let last = last.unwrap_or(first);
        let (have, want) = (found[first], wanted[first]);
        anyhow::bail!("bytes {first} to {last} of {length} differ: {have}, not {want}");
    }
    Ok(())
}

/// What was synced before a crash.
pub fn synced(model: &Model, root: &Path) -> Result<()> {
    let whole = |directory: &NodeId| model.is_path_synced(*directory);
    for directory in model.directories().iter().filter(|id| whole(id)) {
        let place = root.join(model.path(*directory));
        for (name, id) in model.names(*directory) {
            let path = place.join(name);
            if model.is_synced(*id) && !matches!(model.node(*id).kind, Kind::Directory(_)) {
                node(model, *id, &path)?;
            }
        }
    }
    Ok(())
}

/// The attribute with the ACL; `None` where there is none or cannot be any.
pub fn acl(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; 1024];
    match rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error).context("reading the ACL"),
    }
}

/// The attributes of the user namespace.
pub fn xattrs(path: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut names = vec![0_u8; 64 << 10];
    let length = rustix::fs::llistxattr(path, &mut names).context("listxattr")?;
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0) {
        let name = std::str::from_utf8(name)?;
        let Some(short) = name.strip_prefix("user.") else {
            continue;
        };
        let mut value = vec![0_u8; 64 << 10];
        let length = rustix::fs::lgetxattr(path, name, &mut value).context("getxattr")?;
        value.truncate(length);
        found.insert(short.to_string(), value);
    }
    Ok(found)
}
