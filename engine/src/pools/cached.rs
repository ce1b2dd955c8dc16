//! Where the devices of the pools in a cache file are now.
//!
//! A cache file says where devices were. One that is not there any more is looked for in the
//! directory where it was: disks get other names, and files are renamed. Found is what has a label
//! of a pool in the file; other pools there are not meant.

use crate::clouds::opener::AllOpener;
use crate::clouds::table::Clouds;
use crate::registry::cache_file;
use cenote_base::Guid;
use cenote_cloud::is_url;
use cenote_control::model::{ControlError, Search};
use cenote_vdev::{Member, scan};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The places to search for the pools in a cache file.
pub(crate) fn cached_places(
    clouds: &Arc<Clouds>,
    search: &Search,
    file: &Path,
) -> Result<Vec<PathBuf>, ControlError> {
    let cached = cache_file::recorded(file)?;
    let members = |places: &[PathBuf]| -> BTreeSet<PathBuf> {
        let (opener, places) = AllOpener::new(clouds, places, search.offset);
        let members = scan(&places, &opener).members.into_iter();
        let meant = members.filter(|member| {
            let pool = pool_of(member);
            pool.is_some_and(|pool| cached.pools.contains(&pool))
        });
        meant.map(|member| member.candidate.path).collect()
    };
    let (stores, local): (Vec<_>, Vec<_>) =
        cached.devices.into_iter().partition(|place| is_url(place));
    let (mut places, gone): (Vec<_>, Vec<_>) = local.into_iter().partition(|place| place.exists());
    let at_home = members(&places);
    let strayed = places.iter().filter(|place| !at_home.contains(*place));
    let parents = strayed.chain(&gone).filter_map(|place| place.parent());
    let parents: BTreeSet<&Path> = parents
        .filter(|parent| parent.is_absolute() && parent.is_dir())
        .collect();
    if !parents.is_empty() {
        let parents: Vec<PathBuf> = parents.into_iter().map(Path::to_owned).collect();
        let mut found = members(&parents);
        found.retain(|place| !places.contains(place));
        places.extend(found);
    }
    places.extend(stores);
    Ok(places)
}

/// The pool that a device's label names.
fn pool_of(member: &Member) -> Option<Guid> {
    let label = member.labels.newest_config()?;
    label.config.as_ref()?.pool_guid
}
