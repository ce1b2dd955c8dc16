//! `zdb -C`: the configuration in a pool, or in the cache file.

use crate::line::Asked;
use crate::list;
use crate::print::Printer;
use crate::problem::{Problem, failed};
use cenote_dsl::directory_keys;
use cenote_ondisk::{NvList, NvValue, cache_file};
use cenote_own_commands::pools::inspect::packed_list;
use cenote_own_commands::reading::session::Session;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where OpenZFS keeps the cache file.
const CACHE_FILE: &str = "/etc/zfs/zpool.cache";

/// The configuration that is in the pool itself.
pub fn print(session: &Session, printer: &mut Printer) -> Result<(), Problem> {
    let pool = session.pool();
    let directory = pool.dsl().object_directory();
    let object = directory.object(directory_keys::CONFIG);
    let object = object.map_err(failed("the object directory"))?;
    let Some(object) = object else {
        return Err(Problem::Failed("the pool has no configuration".to_owned()));
    };
    let list = packed_list(pool.mos(), object);
    let list = list.map_err(failed(format!("object {object}, the configuration")))?;
    printer.text("\nMOS Configuration:\n")?;
    printer.text(&list::text(&list, 8))
}

/// The cache file's name.
fn cache_path(asked: &Asked) -> PathBuf {
    asked
        .last("U")
        .map_or_else(|| PathBuf::from(CACHE_FILE), PathBuf::from)
}

fn read_cache(path: &Path) -> Result<NvList, Problem> {
    let failed = |error: std::io::Error| {
        Problem::Failed(format!("cannot open '{}': {error}", path.display()))
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let mut file = file.take(cache_file::SIZE_MAX);
    file.read_to_end(&mut bytes).map_err(failed)?;
    NvList::decode(&bytes)
        .map_err(|error| Problem::Failed(format!("failed to unpack '{}': {error}", path.display())))
}

/// What the cache file says of all pools.
pub fn print_cache(asked: &Asked, printer: &mut Printer) -> Result<(), Problem> {
    let list = read_cache(&cache_path(asked))?;
    for (name, value) in list.iter() {
        if let NvValue::List(config) = value {
            let name = printer.name(name);
            printer.line(&format!("{name}:"))?;
            printer.text(&list::text(config, 4))?;
        }
    }
    Ok(())
}

/// The devices that the cache file lists for a pool.
pub fn cached_devices(asked: &Asked, pool: &str) -> Result<Vec<PathBuf>, Problem> {
    let path = cache_path(asked);
    let list = read_cache(&path)?;
    let Some(config) = list.get_list(pool) else {
        let problem = format!("can't open '{pool}': it is not in '{}'", path.display());
        return Err(Problem::Failed(problem));
    };
    let devices = cache_file::devices(config);
    devices.map_err(failed(path.display().to_string()))
}
