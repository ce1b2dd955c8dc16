//! Files by their path: which object of which dataset they are.

use cenote_control::model::{MountOptions, Request, Response};
use cenote_words::context::{Context, Outcome, Stop, failed};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub dataset: String,
    pub object: u64,
}

impl Found {
    /// The pool.
    pub fn pool(&self) -> String {
        let end = self.dataset.find(['/', '@']).unwrap_or(self.dataset.len());
        self.dataset[..end].to_owned()
    }
}

/// Finds a file. Its number as an inode is that of its object.
pub(crate) fn find(path: &str, context: &mut Context) -> Result<Found, Stop> {
    let place = context.directory.join(path);
    let place = match place.canonicalize() {
        Ok(place) => place,
        Err(error) => return failed(format!("'{path}': {error}")),
    };
    let object = match place.metadata() {
        Ok(metadata) => metadata.ino(),
        Err(error) => return failed(format!("'{path}': {error}")),
    };
    if place.iter().any(|part| part == ".zfs") {
        return failed(format!(
            "'{path}' is in a snapshot: mount the snapshot itself"
        ));
    }
    let mounts = match context.ask(Request::MountList) {
        Ok(Response::Mounts { mounts }) => mounts,
        Ok(_) => Vec::new(),
        Err(error) => return failed(error.to_string()),
    };
    let above = mounts
        .into_iter()
        .filter(|mount| place.starts_with(Path::new(&mount.mountpoint)));
    match above.max_by_key(|mount| mount.mountpoint.len()) {
        Some(mount) => Ok(Found {
            dataset: mount.dataset,
            object,
        }),
        None => failed(format!(
            "'{path}' is not in a mounted file system of a pool"
        )),
    }
}

/// Does something while the file system is not mounted, and mounts it again.
pub(crate) fn remounted(
    found: &Found,
    context: &mut Context,
    act: impl FnOnce(&mut Context) -> Outcome,
) -> Outcome {
    let unmount = Request::Unmount {
        target: found.dataset.clone(),
        force: false,
        unload_key: false,
    };
    if let Err(error) = context.ask(unmount) {
        return failed(format!("cannot unmount '{}': {error}", found.dataset));
    }
    let outcome = act(context);
    let mount = Request::Mount {
        dataset: found.dataset.clone(),
        at: None,
        options: MountOptions::default(),
    };
    match context.ask(mount) {
        Ok(_) => outcome,
        Err(error) => {
            context.complain(&format!("cannot mount '{}' again: {error}", found.dataset));
            outcome.and(Ok(1))
        }
    }
}
