//! A model of an existing file system: after a crash its state is the only record of the writers.

use super::compare;
use super::tree::{Acl, Kind, Model, NodeId, ROOT};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Reads everything below `root`, which must be readable.
pub fn read(root: &Path) -> Result<Model> {
    let mut model = Model::default();
    let mut known: HashMap<u64, NodeId> = HashMap::new();
    let mut pending = vec![(ROOT, root.to_path_buf())];
    while let Some((directory, place)) = pending.pop() {
        for entry in fs::read_dir(&place)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let metadata = fs::symlink_metadata(&path)?;
            if let Some(id) = known.get(&metadata.ino()) {
                let linked = model.link(*id, directory, &name);
                linked.with_context(|| path.display().to_string())?;
                continue;
            }
            let kind = kind(&path, &metadata).with_context(|| path.display().to_string())?;
            let mode = metadata.mode() & 0o7777;
            let id = model.create(directory, &name, kind, mode)?;
            known.insert(metadata.ino(), id);
            describe(&mut model, id, &path, &metadata)?;
            if metadata.is_dir() {
                pending.push((id, path));
            }
        }
    }
    model.synced();
    Ok(model)
}

fn kind(path: &Path, metadata: &Metadata) -> Result<Kind> {
    let kind = metadata.file_type();
    Ok(match () {
        () if kind.is_file() => Kind::File(fs::read(path)?),
        () if kind.is_dir() => Kind::Directory(BTreeMap::new()),
        () if kind.is_symlink() => Kind::Link(fs::read_link(path)?.to_string_lossy().into_owned()),
        () if kind.is_char_device() => Kind::Device(metadata.rdev()),
        () => bail!("a file of a kind that the model does not make"),
    })
}

fn describe(model: &mut Model, id: NodeId, path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        model.node_mut(id).modified = Some(metadata.mtime());
    }
    if metadata.is_file() || metadata.is_dir() {
        model.node_mut(id).xattrs = compare::xattrs(path)?;
        let acl = compare::acl(path)?;
        model.node_mut(id).acl = acl.as_deref().and_then(Acl::decode);
    }
    Ok(())
}
