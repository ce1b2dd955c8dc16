//! Cache files: which pools were imported, and where their devices were (`zpool.cache`).
//!
//! A file is a packed list of configurations by the names of their pools, as OpenZFS's. A pool
//! is in the file that its property `cachefile` names, and in none if nobody set that: nothing
//! is imported when a machine starts, so there is no file that all pools are in.

use super::imported::Imported;
use super::table::Registry;
use cenote_cloud::location::is_location;
use cenote_control::model::ControlError;
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::{NvList, NvValue, PoolConfig};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a cache file: thousands of devices.
const SIZE_MAX: u64 = 16 << 20;

fn io(place: &Path, error: impl std::fmt::Display) -> ControlError {
    ControlError::Io {
        place: format!("{}: {error}", place.display()),
    }
}

/// Refuses what is no value of `cachefile`.
pub(crate) fn check(value: &str) -> Result<(), ControlError> {
    match value.is_empty() || value == "none" || value.starts_with('/') {
        true => Ok(()),
        false => Err(ControlError::BadValue {
            name: "cachefile".to_owned(),
            reason: "property 'cachefile' must be empty, an absolute path, or 'none'".to_owned(),
        }),
    }
}

/// The places where a cache file says that devices of pools are.
pub(crate) fn places(file: &Path) -> Result<Vec<PathBuf>, ControlError> {
    let fail = |error: &dyn std::fmt::Display| io(file, error);
    let size = fs::metadata(file).map_err(|error| fail(&error))?.len();
    if size > SIZE_MAX {
        return Err(fail(&"too large for a cache file"));
    }
    let bytes = fs::read(file).map_err(|error| fail(&error))?;
    let list = NvList::decode(&bytes).map_err(|error| fail(&error))?;
    let mut places = Vec::new();
    for (_, value) in list.iter() {
        let NvValue::List(config) = value else {
            continue;
        };
        let config = PoolConfig::decode(config).map_err(|error| fail(&error))?;
        let tree = config.vdev_tree.iter();
        let leaves = tree.flat_map(|tree| tree.leaves());
        places.extend(leaves.filter_map(|leaf| leaf.path.clone()));
    }
    places.retain(|place| is_location(place) || place.exists());
    Ok(places)
}

impl Imported {
    /// The cache file that the pool is in.
    fn own_cache_file(&self) -> Option<PathBuf> {
        let file = self.cache_file()?;
        file.starts_with('/').then(|| PathBuf::from(file))
    }
}

impl Registry {
    /// Writes the cache file of a pool anew: it was imported, exported or changed its devices.
    pub fn renew_cache_file(&self, imported: &Arc<Imported>) -> Result<(), ControlError> {
        match imported.own_cache_file() {
            Some(file) => self.write_cache_file(&file),
            None => Ok(()),
        }
    }

    /// The same where the change itself is done already: a failure is only reported.
    pub fn note_in_cache_file(&self, imported: &Arc<Imported>) {
        if let Err(error) = self.renew_cache_file(imported) {
            eprintln!("cenote: {}: the cache file: {error}", imported.name());
        }
    }

    /// Puts a pool into another cache file, or into none.
    pub fn set_cache_file(
        &self,
        imported: &Arc<Imported>,
        value: &str,
    ) -> Result<(), ControlError> {
        check(value)?;
        let before = imported.own_cache_file();
        imported.set_cache_file(Some(value.to_owned()).filter(|value| !value.is_empty()));
        self.renew_cache_file(imported)?;
        match before.filter(|before| Some(before) != imported.own_cache_file().as_ref()) {
            Some(before) => self.write_cache_file(&before),
            None => Ok(()),
        }
    }

    /// Writes the configurations of all pools that are in a file; an empty one goes away.
    fn write_cache_file(&self, file: &Path) -> Result<(), ControlError> {
        let mut list = NvList::new();
        for imported in self.all() {
            if imported.own_cache_file().as_deref() == Some(file) {
                let config = imported.pool.config().encode(Place::Mos);
                list.set(imported.name(), NvValue::List(config));
            }
        }
        if list.iter().len() == 0 {
            return match fs::remove_file(file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(file, error)),
                _ => Ok(()),
            };
        }
        let mut new = file.as_os_str().to_owned();
        new.push(".tmp");
        let new = PathBuf::from(new);
        let written = File::create(&new).and_then(|mut target| {
            target.write_all(&list.encode_xdr())?;
            target.sync_all()?;
            fs::rename(&new, file)
        });
        written.map_err(|error| io(file, error))
    }
}
