//! Cache files: which pools were imported, and where their devices were (`zpool.cache`).
//!
//! A file is a packed list of configurations by the names of their pools, as OpenZFS's. A pool
//! is in the file that its property `cachefile` names, and otherwise in the daemon's default one,
//! unless it is only read. What is in the default file when a machine starts is imported by
//! `cenote daemon resume`; a pool stays in it until it is exported or destroyed.
//!
//! OpenZFS and other daemons may have pools in the same file. So a file is read before it is
//! written, what is not ours stays, and ours carry a mark ([`OWNER`]) that OpenZFS passes over.
//! *Invariant: an entry without our mark is only replaced by the same pool, by guid.*

use super::cache_places::CacheFiles;
use super::imported::Imported;
use super::table::Registry;
use cenote_base::Guid;
use cenote_base::rt::{self, Instant};
use cenote_control::expected::CachedPool;
use cenote_control::model::ControlError;
use cenote_control::regular;
use cenote_ondisk::cache_file::{self, OWNER, SIZE_MAX};
use cenote_ondisk::config_encode::Place;
use cenote_ondisk::{NvList, NvValue};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn io(place: &Path, error: impl std::fmt::Display) -> ControlError {
    ControlError::Io {
        place: format!("{}: {error}", place.display()),
    }
}

/// Refuses what is no value of `cachefile`.
pub fn check(value: &str) -> Result<(), ControlError> {
    match value.is_empty() || value == "none" || value.starts_with('/') {
        true => Ok(()),
        false => Err(ControlError::BadValue {
            name: "cachefile".to_owned(),
            reason: "property 'cachefile' must be empty, an absolute path, or 'none'".to_owned(),
        }),
    }
}

/// The list in a cache file; an empty one if there is no file.
fn read(file: &Path) -> Result<NvList, ControlError> {
    let bytes = match regular::read(file, SIZE_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(NvList::new()),
        read => read.map_err(|error| io(file, error))?,
    };
    NvList::decode(&bytes).map_err(|error| damaged(file, error))
}

/// What to say of a file that is there and makes no sense.
fn damaged(file: &Path, error: impl std::fmt::Display) -> ControlError {
    io(
        file,
        format!(
            "it is damaged, or no cache file: {error}. Move it away; 'zpool import' finds the \
             pools on their devices, and writes a new one"
        ),
    )
}

/// The paths of a pool's devices.
fn devices(file: &Path, config: &NvList) -> Result<Vec<PathBuf>, ControlError> {
    cache_file::devices(config).map_err(|error| damaged(file, error))
}

/// What a cache file says of pools.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Their guids.
    pub pools: BTreeSet<Guid>,
    /// Where their devices were.
    pub devices: Vec<PathBuf>,
}

/// All pools in a cache file, those of other systems too.
pub fn recorded(file: &Path) -> Result<Recorded, ControlError> {
    fs::metadata(file).map_err(|error| io(file, error))?;
    let mut recorded = Recorded::default();
    for (_, value) in read(file)?.iter() {
        if let NvValue::List(config) = value {
            recorded.devices.extend(devices(file, config)?);
            recorded.pools.extend(config.get_u64("pool_guid").map(Guid));
        }
    }
    Ok(recorded)
}

/// The pools in a cache file that the daemon of a socket imported.
///
/// # Errors
/// The file cannot be read, or is not a cache file.
pub fn cached_pools(file: &Path, socket: &Path) -> Result<Vec<CachedPool>, ControlError> {
    let list = read(file)?;
    let pools = cache_file::pools_of(&list, socket.as_os_str().as_encoded_bytes());
    let pools = pools.map_err(|error| damaged(file, error))?;
    let cached = pools.into_iter().map(|pool| CachedPool {
        name: String::from_utf8_lossy(pool.name).into_owned(),
        guid: pool.guid,
        devices: pool
            .devices
            .iter()
            .map(|place| place.to_string_lossy().into_owned())
            .collect(),
    });
    Ok(cached.collect())
}

/// Takes pools out of a cache file that the daemon of a socket put into it.
///
/// # Errors
/// The file cannot be read or written.
pub fn forget_cached(file: &Path, socket: &Path, guids: &[u64]) -> Result<(), ControlError> {
    let is_meant = |pool: &CachedPool| guids.contains(&pool.guid);
    if !cached_pools(file, socket)?.iter().any(is_meant) {
        return Ok(());
    }
    let fail = |error| io(file, error);
    let _held = hold(file).map_err(fail)?;
    let mut list = read(file)?;
    // Entries without our mark stay, with any guid.
    for pool in cached_pools(file, socket)?
        .iter()
        .filter(|pool| is_meant(pool))
    {
        list.remove(pool.name.as_bytes());
    }
    store(file, &list).map_err(fail)
}

/// How long another daemon may take to change the file.
const HOLD_WAIT: Duration = Duration::from_secs(5);

/// Has a cache file to ourselves, so that two daemons do not change it at once.
///
/// A process that can open a file can lock it. So the lock is a file beside it that no other user
/// can open, and not its directory. The wait is limited, as a pool must be exportable meanwhile.
fn hold(file: &Path) -> std::io::Result<File> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("/")))?;
    let mut beside = file.as_os_str().to_owned();
    beside.push(".lock");
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let held = options.open(PathBuf::from(beside))?;
    let deadline = Instant::now() + HOLD_WAIT;
    loop {
        match rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(held),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                rt::sleep(Duration::from_millis(10));
            }
            Err(Errno::WOULDBLOCK) => {
                return Err(std::io::Error::other("another process has it locked"));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Writes a file so that it is there as a whole or as it was.
fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(".tmp");
    let new = PathBuf::from(new);
    // Remove the leftover of a killed daemon; the lock excludes other writers.
    let _ = fs::remove_file(&new);
    let mut target = File::options().write(true).create_new(true).open(&new)?;
    target.write_all(bytes)?;
    target.sync_all()?;
    fs::rename(&new, file)
}

/// Writes a list into a cache file. An empty file is removed.
fn store(file: &Path, list: &NvList) -> std::io::Result<()> {
    match list.is_empty() {
        true => match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        },
        false => replace(file, &list.encode_xdr()),
    }
}

impl Imported {
    /// The cache file that the pool is in.
    fn own_cache_file(&self, files: &CacheFiles) -> Option<PathBuf> {
        match self.cache_file() {
            // As in OpenZFS: it may not come up at the next start.
            None if !self.pool.is_writable() => None,
            None => files.default.clone(),
            Some(file) => file.starts_with('/').then(|| PathBuf::from(file)),
        }
    }

    /// Whether it is in the default cache file, from which it is imported when the machine starts.
    pub fn is_lasting(&self, files: &CacheFiles) -> bool {
        let own = self.own_cache_file(files);
        own.is_some() && own == files.default
    }
}

impl Registry {
    /// Rewrites the cache file of a pool that was imported or exported, or whose devices changed.
    pub(crate) fn renew_cache_file(&self, imported: &Arc<Imported>) -> Result<(), ControlError> {
        let written = match imported.own_cache_file(&self.cache_files) {
            Some(file) => self.write_cache_file(&file, imported),
            None => Ok(()),
        };
        // One that was exported should not be in a file.
        let failure = written.as_ref().err().map(ToString::to_string);
        let failure = failure.filter(|_| self.pool(imported.name()).is_ok());
        self.cache_files.note(imported.name(), failure);
        written
    }

    /// The same where the change itself is done already: a failure is only reported.
    pub fn note_in_cache_file(&self, imported: &Arc<Imported>) {
        if let Err(error) = self.renew_cache_file(imported) {
            log::warn!(
                "pool '{}' is not in its cache file, and will not be imported when the machine \
                 starts: {error}",
                imported.name()
            );
        }
    }

    /// A pool was exported or destroyed: it comes back in no file, also if it was in the default
    /// one from an earlier import.
    pub fn leave_cache_files(&self, imported: &Arc<Imported>) {
        self.note_in_cache_file(imported);
        let own = imported.own_cache_file(&self.cache_files);
        let default = self.cache_files.default.clone();
        let default = default.filter(|file| Some(file) != own.as_ref() && file.exists());
        let Some(file) = default else {
            return;
        };
        let (owner, guid) = (Path::new(&self.cache_files.owner), imported.pool.guid().0);
        let left = forget_cached(&file, owner, &[guid]);
        self.cache_files.wrote();
        if let Err(error) = left {
            let name = imported.name();
            log::warn!("pool '{name}' is still in the cache file: {error}");
        }
    }

    /// Puts a pool into another cache file, or into none.
    pub fn set_cache_file(
        &self,
        imported: &Arc<Imported>,
        value: &str,
    ) -> Result<(), ControlError> {
        check(value)?;
        let before = imported.own_cache_file(&self.cache_files);
        imported.set_cache_file(Some(value.to_owned()).filter(|value| !value.is_empty()));
        self.renew_cache_file(imported)?;
        let after = imported.own_cache_file(&self.cache_files);
        let is_left = |before: &PathBuf| Some(before) != after.as_ref() && before.exists();
        match before.filter(is_left) {
            Some(before) => self.write_cache_file(&before, imported),
            None => Ok(()),
        }
    }

    /// Writes the configurations of our pools into a cache file, and keeps foreign entries;
    /// `changed` is a pool that may not belong in it any more.
    fn write_cache_file(&self, file: &Path, changed: &Imported) -> Result<(), ControlError> {
        let fail = |error| io(file, error);
        let _held = hold(file).map_err(fail)?;
        let mut list = read(file)?;
        let pools = self.all();
        let mut ours: Vec<u64> = pools.iter().map(|pool| pool.pool.guid().0).collect();
        ours.push(changed.pool.guid().0);
        let is_in = |imported: &&Arc<Imported>| {
            imported.own_cache_file(&self.cache_files).as_deref() == Some(file)
        };
        let new = pools.iter().filter(is_in).map(|imported| {
            let mut config = imported.pool.config().encode(Place::Mos);
            config.set_str(OWNER, &self.cache_files.owner);
            (imported.name().to_owned(), config)
        });
        let refused = merge(&mut list, &ours, new.collect());
        let written = store(file, &list);
        self.cache_files.wrote();
        written.map_err(fail)?;
        refused.map_or(Ok(()), |refused| Err(io(file, refused)))
    }
}

/// Puts these pools of ours into a list, and removes other entries with our guids. Returns why one
/// is not in it, if a foreign pool has its name there.
fn merge(list: &mut NvList, ours: &[u64], new: Vec<(String, NvList)>) -> Option<String> {
    let is_ours = |config: &NvList| {
        let guid = config.get_u64("pool_guid");
        guid.is_some_and(|guid| ours.contains(&guid))
    };
    let old: Vec<Vec<u8>> = list
        .iter()
        .filter(|(_, value)| matches!(value, NvValue::List(config) if is_ours(config)))
        .map(|(name, _)| name.to_vec())
        .collect();
    for name in old {
        list.remove(name);
    }
    let mut refused = None;
    for (name, config) in new {
        match list.get_list(&name) {
            Some(there) if !there.contains(OWNER) => {
                let guid = there.get_u64("pool_guid").unwrap_or_default();
                refused = Some(format!(
                    "it has another pool '{name}', with guid {guid}, that Cenote did not put \
                     there; export that pool where it is used, or give ours another 'cachefile'"
                ));
            }
            _ => list.set(&name, NvValue::List(config)),
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn config(guid: u64, is_ours: bool) -> NvList {
        let mut config = NvList::new();
        config.set_u64("pool_guid", guid);
        if is_ours {
            config.set_str(OWNER, "/run/s");
        }
        config
    }

    fn guids(list: &NvList) -> Vec<(String, u64)> {
        let each = list.iter().filter_map(|(name, value)| match value {
            NvValue::List(config) => {
                let name = String::from_utf8_lossy(name).into_owned();
                Some((name, config.get_u64("pool_guid")?))
            }
            _ => None,
        });
        each.collect()
    }

    /// A file used to be written with our pools alone: those that OpenZFS had in it were lost.
    #[test]
    fn pools_of_others_stay_in_a_cache_file() {
        let mut list = NvList::new();
        list.set("kernel", NvValue::List(config(1, false)));
        list.set("theirs", NvValue::List(config(2, false)));
        list.set("left", NvValue::List(config(3, true)));
        list.set("old", NvValue::List(config(4, true)));
        let entry = |name: &str, guid| (name.to_owned(), config(guid, true));
        // 4 has a new name now; 5 is new, and 6 has the name of another's.
        let new = vec![entry("new", 4), entry("own", 5), entry("theirs", 6)];
        let refused = merge(&mut list, &[4, 5, 6], new).expect("a name is taken");
        assert!(
            refused.contains("another pool 'theirs', with guid 2"),
            "{refused}"
        );
        let mut found = guids(&list);
        found.sort();
        let expected = [
            ("kernel", 1),
            ("left", 3),
            ("new", 4),
            ("own", 5),
            ("theirs", 2),
        ];
        assert_eq!(found, expected.map(|(name, guid)| (name.to_owned(), guid)));
        // Exported: those that this daemon has not imported stay for the next start.
        assert_eq!(merge(&mut list, &[4, 5], Vec::new()), None);
        let mut found = guids(&list);
        found.sort();
        let expected = [("kernel", 1), ("left", 3), ("theirs", 2)];
        assert_eq!(found, expected.map(|(name, guid)| (name.to_owned(), guid)));
    }

    /// Any user could lock the directory of root's file, and an export then waited for ever.
    #[test]
    fn only_whoever_may_write_a_cache_file_can_lock_it() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("zpool.cache");
        let other = File::open(directory.path()).expect("any user can");
        rustix::fs::flock(&other, FlockOperation::LockExclusive).expect("locked");
        let _held = hold(&file).expect("not in the way");
        let lock = directory.path().join("zpool.cache.lock");
        let mode = lock.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "no other user can open it");
    }

    #[test]
    fn what_is_no_cache_file_is_not_written_over() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("zpool.cache");
        assert!(read(&file).expect("none yet").is_empty());
        fs::write(&file, "precious").expect("a file");
        assert!(read(&file).is_err());
        assert!(cached_pools(&file, Path::new("/run/s")).is_err());
    }
}
