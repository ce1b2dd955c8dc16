//! What a label or the MOS says about the pool as a whole.
//!
//! Source: format/1a 2. A label's configuration describes one device and the top-level vdev it
//! belongs to; the MOS `config` object describes the whole tree. Spares and cache devices have
//! labels with a few keys only.

use crate::uberblock::Uberblock;
use crate::{DecodeError, NvList, VdevConfig};
use cenote_base::{Guid, Txg, VdevId};

const STRUCTURE: &str = "pool configuration";

/// What the pool, or the device's role, was when the configuration was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// In use, or not exported since.
    Active,
    /// Exported.
    Exported,
    /// Destroyed; it can still be imported.
    Destroyed,
    /// The device is an inactive hot spare.
    Spare,
    /// The device is a cache device.
    CacheDevice,
}

impl PoolState {
    /// The state with this number in a configuration.
    pub fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::CacheDevice,
            _ => return None,
        })
    }

    /// The number in a configuration.
    pub fn number(self) -> u64 {
        match self {
            Self::Active => 0,
            Self::Exported => 1,
            Self::Destroyed => 2,
            Self::Spare => 3,
            Self::CacheDevice => 4,
        }
    }

    /// The name that `zpool import` and `zdb` use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Exported => "EXPORTED",
            Self::Destroyed => "DESTROYED",
            Self::Spare => "SPARE",
            Self::CacheDevice => "L2CACHE",
        }
    }
}

/// The key of [`Previous`] in a label. OpenZFS passes over it, and drops it when it writes labels.
pub(crate) const PREVIOUS: &str = "org.cenote:previous";
/// The key of [`PoolConfig::logs_have_groups`] in a label; OpenZFS treats it in the same way.
pub(crate) const LOGS_HAVE_GROUPS: &str = "org.cenote:logs_have_groups";
/// The key of [`PoolConfig::rested_logs`] in a label; OpenZFS treats it in the same way.
pub(crate) const RESTED_LOGS: &str = "org.cenote:rested_logs";

/// The state that a pool had before the group in which a label was written.
///
/// After a power cut the newest uberblocks may be on some devices only. If that happens twice, one
/// device may have a state that no other has an uberblock of; the labels of the next group name
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// Its group.
    pub txg: Txg,
    /// When that was written, in seconds since the epoch.
    pub seconds: u64,
    /// The checksum of its root block.
    pub root: [u64; 4],
}

impl From<&Uberblock> for Previous {
    fn from(uberblock: &Uberblock) -> Self {
        Self {
            txg: uberblock.txg,
            seconds: uberblock.timestamp,
            root: uberblock.root.checksum(),
        }
    }
}

impl Previous {
    fn decode(words: &[u64]) -> Option<Self> {
        let [txg, seconds, a, b, c, d] = *words else {
            return None;
        };
        Some(Self {
            txg: Txg(txg),
            seconds,
            root: [a, b, c, d],
        })
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        let mut words = vec![self.txg.0, self.seconds];
        words.extend(self.root);
        words
    }
}

/// The configuration of a pool, from a label or from the MOS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Pool version.
    pub version: u64,
    /// Pool name; absent on spares and cache devices.
    pub name: Option<String>,
    /// The state.
    pub state: PoolState,
    /// When this was written; `None` or 0 in labels that belong to no txg.
    pub txg: Option<Txg>,
    /// The pool's guid, which is its root vdev's.
    pub pool_guid: Option<Guid>,
    /// Known damage by old software: 0 for none.
    pub errata: u64,
    /// A remark by the administrator.
    pub comment: Option<String>,
    /// The `compatibility` property.
    pub compatibility: Option<String>,
    /// The host that wrote it; 0 for unknown.
    pub hostid: u64,
    /// That host's name.
    pub hostname: Option<String>,
    /// Label: the top-level vdev that the device belongs to.
    pub top_guid: Option<Guid>,
    /// Label: the device itself.
    pub guid: Option<Guid>,
    /// Label: the device is a spare that is in use.
    pub is_spare: bool,
    /// Label: the device is a log device.
    pub is_log: bool,
    /// Top-level vdevs of the pool, with holes and indirect ones.
    pub vdev_children: Option<u64>,
    /// Which of them are holes.
    pub holes: Vec<VdevId>,
    /// While a pool is split: the guid of the original pool.
    pub split_guid: Option<Guid>,
    /// MOS: the leaves that are being split off, which are offline meanwhile.
    pub split_leaves: Vec<Guid>,
    /// Features that must be known to read the MOS (`None` before version 5000).
    pub features_for_read: Option<Vec<String>>,
    /// Set in a label that has not been through a first sync.
    pub create_txg: Option<Txg>,
    /// The MOS has a map of vdev ZAPs.
    pub has_per_vdev_zaps: bool,
    /// Label: the state before the group in which it was written; OpenZFS does not write it.
    pub previous: Option<Previous>,
    /// Label: from the group in which it was written on, log devices get the uberblock of every
    /// group; OpenZFS does not write it.
    pub logs_have_groups: bool,
    /// Label: log devices that failed, each with the last group before that. Nothing was promised
    /// there since. OpenZFS does not write it.
    pub rested_logs: Vec<(Guid, Txg)>,
    /// Label: the tree below the top-level vdev. MOS: the whole tree.
    pub vdev_tree: Option<VdevConfig>,
}

impl PoolConfig {
    /// Reads a label's or the MOS's configuration.
    ///
    /// Only the state is required: what else must be there depends on the device's role.
    pub fn decode(list: &NvList) -> Result<Self, DecodeError> {
        let text = |key: &str| {
            let bytes = list.get_bytes(key)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let state = list.require_u64(STRUCTURE, "state")?;
        let features = list.get_list("features_for_read").map(|features| {
            let names = features.iter().map(|(name, _)| name);
            names.map(|name| String::from_utf8_lossy(name).into_owned())
        });
        let holes = list.get_u64_array("hole_array").unwrap_or(&[]);
        Ok(Self {
            version: list.get_u64("version").unwrap_or(0),
            name: text("name"),
            state: PoolState::from_number(state).ok_or(DecodeError::BadValue {
                structure: STRUCTURE,
                field: "state",
                value: state,
            })?,
            txg: list.get_u64("txg").map(Txg),
            pool_guid: list.get_u64("pool_guid").map(Guid),
            errata: list.get_u64("errata").unwrap_or(0),
            comment: text("comment"),
            compatibility: text("compatibility"),
            hostid: list.get_u64("hostid").unwrap_or(0),
            hostname: text("hostname"),
            top_guid: list.get_u64("top_guid").map(Guid),
            guid: list.get_u64("guid").map(Guid),
            is_spare: list.get_u64("is_spare").is_some_and(|value| value != 0),
            is_log: list.get_u64("is_log").is_some_and(|value| value != 0),
            vdev_children: list.get_u64("vdev_children"),
            holes: holes.iter().copied().map(VdevId).collect(),
            split_guid: list.get_u64("split_guid").map(Guid),
            split_leaves: {
                let split = list.get_list("splitcfg");
                let leaves = split.and_then(|split| split.get_u64_array("guid_list"));
                leaves.unwrap_or(&[]).iter().copied().map(Guid).collect()
            },
            features_for_read: features.map(Iterator::collect),
            create_txg: list.get_u64("create_txg").map(Txg),
            has_per_vdev_zaps: list.contains("com.delphix:has_per_vdev_zaps"),
            previous: list.get_u64_array(PREVIOUS).and_then(Previous::decode),
            logs_have_groups: list.contains(LOGS_HAVE_GROUPS),
            rested_logs: {
                let words = list.get_u64_array(RESTED_LOGS).unwrap_or(&[]);
                let pairs = words.as_chunks::<2>().0.iter();
                pairs.map(|[guid, txg]| (Guid(*guid), Txg(*txg))).collect()
            },
            vdev_tree: match list.get_list("vdev_tree") {
                Some(tree) => Some(VdevConfig::decode(tree)?),
                None => None,
            },
        })
    }

    /// Whether the label belongs to a device in a pool's tree, and to a txg (format/1 1.5).
    pub fn is_pool_member(&self) -> bool {
        let in_tree = !matches!(self.state, PoolState::Spare | PoolState::CacheDevice);
        in_tree && self.txg.is_some_and(|txg| txg.0 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NvValue;

    #[test]
    fn a_member_and_a_spare() {
        let mut features = NvList::new();
        features.set("com.delphix:hole_birth", NvValue::Boolean);
        let mut disk = NvList::new();
        disk.set_str("type", "disk");
        disk.set_u64("id", 0);
        disk.set_u64("guid", 9);
        let mut label = NvList::new();
        label.set_u64("version", 5000);
        label.set_str("name", "tank");
        label.set_u64("state", 1);
        label.set_u64("txg", 77);
        label.set_u64("pool_guid", 5);
        label.set_u64("vdev_children", 3);
        label.set("hole_array", NvValue::Uint64Array(vec![1]));
        label.set("features_for_read", NvValue::List(features));
        label.set("vdev_tree", NvValue::List(disk));
        let config = PoolConfig::decode(&label).expect("valid");
        assert_eq!(config.state, PoolState::Exported);
        assert!(config.is_pool_member());
        assert_eq!(config.holes, [VdevId(1)]);
        let features = config.features_for_read.expect("present");
        assert_eq!(features, ["com.delphix:hole_birth"]);
        assert_eq!(config.vdev_tree.map(|tree| tree.guid), Some(Guid(9)));

        let mut spare = NvList::new();
        spare.set_u64("state", 3);
        spare.set_u64("guid", 1);
        let config = PoolConfig::decode(&spare).expect("valid");
        assert!(!config.is_pool_member() && config.name.is_none());
        spare.set_u64("state", 5);
        assert!(PoolConfig::decode(&spare).is_err());
        assert!(PoolConfig::decode(&NvList::new()).is_err());
    }
}
