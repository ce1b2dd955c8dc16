//! Where a command finds its pool: in the devices it was given, or in those of the daemon.

use std::path::PathBuf;

use cenote_control::model::{PropertySelection, Request, Response, Vdev};

use super::arguments::Arguments;
use crate::context::{Context, Stop, failed};

/// What the engine needs to open a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSource {
    /// The pool's name.
    pub pool: String,
    /// Files, devices and directories to look in.
    pub paths: Vec<PathBuf>,
    /// Where the pool begins in each, in bytes.
    pub offset: u64,
    /// The transaction group to open, if not the newest.
    pub txg: Option<u64>,
    /// Whether to replay the intent log in memory.
    pub replay: bool,
}

/// Finds the pool: `-d`, else the devices of the pool as it is imported, else the usual places.
pub fn pool_source(
    pool: &str,
    arguments: &Arguments,
    context: &mut Context,
) -> Result<PoolSource, Stop> {
    let mut paths = Vec::new();
    for path in &arguments.devices {
        paths.push(context.directory.join(path));
    }
    if paths.is_empty() {
        paths = imported_devices(pool, context)?;
    }
    Ok(PoolSource {
        pool: pool.to_owned(),
        paths,
        offset: arguments.offset,
        txg: arguments.txg,
        replay: arguments.has("replay"),
    })
}

/// The leaves of an imported pool; none when no daemon has it.
fn imported_devices(pool: &str, context: &mut Context) -> Result<Vec<PathBuf>, Stop> {
    let request = Request::PoolList {
        pools: vec![pool.to_owned()],
        properties: PropertySelection::Named(Vec::new()),
        vdevs: true,
    };
    let pools = match context.ask(request) {
        Ok(Response::Pools { pools, .. }) => pools,
        Ok(_) => Vec::new(),
        Err(error) => return failed(error.to_string()),
    };
    let mut paths = Vec::new();
    for tree in pools.iter().filter_map(|row| row.vdevs.as_ref()) {
        let mut stack: Vec<&Vdev> = vec![&tree.root];
        while let Some(vdev) = stack.pop() {
            stack.extend(&vdev.children);
            if vdev.kind.is_leaf()
                && let Some(path) = vdev.path.as_ref().filter(|path| path.starts_with('/'))
            {
                paths.push(PathBuf::from(path));
            }
        }
    }
    Ok(paths)
}
