//! Spares and cache devices: where they are.
//!
//! The pool's tree does not name them, so a search for the pool's devices finds them only at the
//! paths that it was given. The pool records their paths. A device is searched for there, like all
//! others, and used if its labels have its guid: another disk may have that path by now. A command
//! also searches for a moved one next to its old path. If several devices have the guid, the one at
//! the recorded path is used, and others are copies.
//!
//! Several pools may list the same spare. Looking only reads, and takes it from none of them. One
//! that another pool uses is found as that, and looked at again each time.

use super::auxiliary_label::{is_free_spare, user_of_spare};
use super::reach::{Reach, may_open};
use crate::pool::{FoundDevice, Pool};
use cenote_base::Guid;
use cenote_device::Opener;
use cenote_dsl::directory_keys;
use cenote_ondisk::VdevConfig;
use cenote_ondisk::pool_config::PoolState;
use cenote_vdev::{Member, scan};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Pool {
    /// The spares and cache devices, but for distributed spares, which have no device.
    fn auxiliary(&self) -> Vec<VdevConfig> {
        let lists = [directory_keys::SPARES, directory_keys::CACHE_DEVICES];
        let lists = lists.into_iter();
        // A list that cannot be read is shown as none.
        let all = lists.flat_map(|key| self.dsl().auxiliary_vdevs(key).unwrap_or_default());
        all.filter(|config| config.distributed_spare.is_none())
            .collect()
    }

    /// Looks for spares and cache devices that were not found yet; how many are missing then.
    pub fn find_auxiliary(&self, reach: Reach) -> usize {
        let found = self.found_devices();
        let mut missing = self.auxiliary();
        missing.retain(|config| {
            let found = found.get(&config.guid);
            found.is_none_or(|found| found.used_by.is_some())
        });
        missing
            .iter()
            .for_each(|config| self.forget_device(config.guid));
        let recorded: Vec<PathBuf> = missing
            .iter()
            .filter_map(|config| config.path.clone())
            .collect();
        let opened = recorded.iter().filter(|path| may_open(path)).cloned();
        self.note_auxiliary(&mut missing, &opened.collect::<Vec<_>>());
        if reach == Reach::Beside && !missing.is_empty() {
            let parents = recorded.iter().filter_map(|path| path.parent());
            let parents: BTreeSet<&Path> = parents.filter(|path| path.is_absolute()).collect();
            let parents: Vec<PathBuf> = parents.into_iter().map(Path::to_owned).collect();
            self.note_auxiliary(&mut missing, &parents);
        }
        missing.len()
    }

    /// Looks at a spare again of which another pool may have become the user, or is none any more.
    pub fn look_at_spare(&self, spare: Guid) {
        self.forget_device(spare);
        self.find_auxiliary(Reach::Recorded);
    }

    /// Notes those of the missing devices that are at these places.
    fn note_auxiliary(&self, missing: &mut Vec<VdevConfig>, places: &[PathBuf]) {
        if missing.is_empty() || places.is_empty() {
            return;
        }
        let opener: &dyn Opener = self.options().opener.as_ref();
        let members = scan(places, opener).members.into_iter();
        // What is in a partition is opened by the partition's own name.
        let whole = members.filter(|member| member.candidate.partition.is_none());
        let known = whole.filter_map(|member| Some((auxiliary_guid(&member)?, member)));
        let mut known: Vec<(Guid, Member)> = known.collect();
        // A copy may be met first, even at the recorded path of another device.
        known.sort_by_key(|(guid, member)| {
            let is_at_home = |config: &VdevConfig| {
                config.guid == *guid && config.path.as_ref() == Some(&member.candidate.path)
            };
            !missing.iter().any(is_at_home)
        });
        for (guid, member) in known {
            let is_it = |config: &VdevConfig| config.guid == guid;
            if missing.iter().any(is_it) {
                missing.retain(|config| !is_it(config));
                let size = member.candidate.device.size();
                let user = user_of_spare(&member.labels);
                let found = FoundDevice {
                    path: member.candidate.path,
                    size,
                    used_by: user.filter(|user| user.pool != self.guid()),
                };
                self.note_devices([(guid, found)]);
            }
        }
    }
}

/// The guid of a device that is a spare or a cache device, or a spare that serves in a pool.
fn auxiliary_guid(member: &Member) -> Option<Guid> {
    let label = member.labels.newest_config()?;
    let config = label.config.as_ref().filter(|_| label.is_valid())?;
    let is_auxiliary = config.state == PoolState::CacheDevice || is_free_spare(config);
    let serves = user_of_spare(&member.labels).is_some();
    config.guid.filter(|_| is_auxiliary || serves)
}
