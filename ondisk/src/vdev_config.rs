//! The configuration of a vdev and its children, as labels and the MOS keep it.
//!
//! Source: format/1a 2, "vdev nvlist". A label holds the tree below one top-level vdev, the MOS
//! configuration the tree below the root. Keys that mean nothing to this software are ignored here;
//! code that rewrites a configuration starts from the original list to keep them.

use crate::label::{ASHIFT_MAX, ASHIFT_MIN};
use crate::{DecodeError, NvList};
use cenote_base::{Guid, ObjectId, Txg, VdevId};
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A tree with more vdevs than this is refused.
pub const VDEVS_MAX: usize = 1 << 16;

const STRUCTURE: &str = "vdev configuration";
const METASLAB_SHIFT_MAX: u64 = 60;
const PARITY_MAX: u64 = 3;
const DRAID_GROUPS_MAX: u64 = 255;

/// The type of a vdev.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VdevKind {
    /// The whole pool.
    Root,
    /// Every child has everything.
    Mirror,
    /// Parity over the children.
    Raidz,
    /// Parity over rows that are spread over all children.
    Draid,
    /// A distributed spare: space within a draid vdev.
    DistributedSpare,
    /// A block device.
    Disk,
    /// A regular file.
    File,
    /// A device and its replacement, while data is copied.
    Replacing,
    /// A device and the hot spare that stands in for it.
    Spare,
    /// A removed vdev whose blocks live on others.
    Indirect,
    /// The slot of a removed log device.
    Hole,
    /// A top-level vdev of which no device was found; only in configurations made for import.
    Missing,
    /// A type that this software does not know: the pool cannot be opened.
    Unknown(String),
}

impl VdevKind {
    /// The kind with this name in a configuration.
    pub fn from_name(name: &str) -> Self {
        match name {
            "root" => Self::Root,
            "mirror" => Self::Mirror,
            "raidz" => Self::Raidz,
            "draid" => Self::Draid,
            "dspare" => Self::DistributedSpare,
            "disk" => Self::Disk,
            "file" => Self::File,
            "replacing" => Self::Replacing,
            "spare" => Self::Spare,
            "indirect" => Self::Indirect,
            "hole" => Self::Hole,
            "missing" => Self::Missing,
            name => Self::Unknown(name.to_owned()),
        }
    }

    /// The name in a configuration.
    pub fn name(&self) -> &str {
        match self {
            Self::Root => "root",
            Self::Mirror => "mirror",
            Self::Raidz => "raidz",
            Self::Draid => "draid",
            Self::DistributedSpare => "dspare",
            Self::Disk => "disk",
            Self::File => "file",
            Self::Replacing => "replacing",
            Self::Spare => "spare",
            Self::Indirect => "indirect",
            Self::Hole => "hole",
            Self::Missing => "missing",
            Self::Unknown(name) => name,
        }
    }

    /// Whether vdevs of this kind store data themselves, on a device of their own.
    pub fn is_device(&self) -> bool {
        matches!(self, Self::Disk | Self::File)
    }

    /// Whether a top-level vdev of this kind has space that can be read: not a hole, not indirect.
    pub fn is_concrete(&self) -> bool {
        !matches!(self, Self::Indirect | Self::Hole | Self::Missing)
    }
}

impl fmt::Display for VdevKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The geometry of a draid vdev (format/1c 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DraidConfig {
    /// Data columns in a redundancy group.
    pub data: u64,
    /// Distributed spares.
    pub spares: u64,
    /// Redundancy groups in a permutation's slice.
    pub groups: u64,
    /// Children of a failure domain, in formats newer than 2.4: this software refuses it.
    pub failure_domain_children: Option<u64>,
}

/// Persistent state of a leaf, beyond being in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeafState {
    /// Taken offline by the administrator.
    pub offline: bool,
    /// Faulted: not to be used.
    pub faulted: bool,
    /// Degraded: to be used, but known to fail.
    pub degraded: bool,
    /// The device was removed while in use.
    pub removed: bool,
    /// Was missing when the pool was last imported.
    pub not_present: bool,
    /// A spare that is to be detached once the resilver ends.
    pub unspare: bool,
    /// Why it is faulted or degraded: `err_exceeded` or `external`.
    pub aux_state: Option<String>,
    /// A resilver waits for the current one to end.
    pub resilver_deferred: bool,
}

/// One vdev of a configuration with everything below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevConfig {
    /// The type.
    pub kind: VdevKind,
    /// Position among the parent's children; absent in lists of spares and cache devices.
    pub id: Option<VdevId>,
    /// Unique id; 0 only for holes.
    pub guid: Guid,
    /// Where the device was last. Advisory: devices are found by their labels.
    pub path: Option<PathBuf>,
    /// The device's persistent id.
    pub devid: Option<String>,
    /// The device's place on its bus.
    pub physical_path: Option<String>,
    /// Whether the pool owns the disk and its partition table.
    pub whole_disk: Option<bool>,
    /// Parity devices of raidz and draid; 0 for all others.
    pub parity: u64,
    /// Geometry of a draid vdev.
    pub draid: Option<DraidConfig>,
    /// A raidz expansion is running.
    pub raidz_expanding: bool,
    /// The txgs from which each completed expansion's width applies, ascending.
    pub raidz_expand_txgs: Vec<Txg>,
    /// log2 of the allocation unit; of top-level vdevs, spares and cache devices.
    pub ashift: Option<u32>,
    /// Bytes of the allocatable area; of top-level vdevs.
    pub asize: u64,
    /// The object that lists the metaslabs' space maps, if there is one yet.
    pub metaslab_array: Option<ObjectId>,
    /// log2 of a metaslab's bytes; 0 where there are none.
    pub metaslab_shift: u32,
    /// A log device.
    pub is_log: bool,
    /// A spare: in use within the tree, or in the list of spares.
    pub is_spare: bool,
    /// No new allocations.
    pub non_allocating: bool,
    /// Being evacuated.
    pub removing: bool,
    /// The object that maps a removed or removing vdev's space to others.
    pub indirect_object: Option<ObjectId>,
    /// The object that tells when the mapped ranges were copied.
    pub indirect_births: Option<ObjectId>,
    /// The vdev that was removed before this one.
    pub previous_indirect: Option<VdevId>,
    /// The space map of the leaf's dirty time log: the txgs that it missed.
    pub dtl: Option<ObjectId>,
    /// The txg in which the vdev was added.
    pub create_txg: Txg,
    /// A resilver of this leaf is under way: everything since this txg is there.
    pub resilver_txg: Option<Txg>,
    /// A sequential rebuild of this leaf is under way.
    pub rebuild_txg: Option<Txg>,
    /// The leaf's persistent state.
    pub state: LeafState,
    /// The leaf's ZAP.
    pub leaf_zap: Option<ObjectId>,
    /// The top-level vdev's ZAP.
    pub top_zap: Option<ObjectId>,
    /// The root vdev's ZAP.
    pub root_zap: Option<ObjectId>,
    /// Of a distributed spare: the draid vdev it is part of, and which of its spares.
    pub distributed_spare: Option<(Guid, u64)>,
    /// During a split: the guid in the original pool.
    pub original_guid: Option<Guid>,
    /// The vdevs below, in order.
    pub children: Vec<VdevConfig>,
}

impl VdevConfig {
    /// Reads a vdev and everything below it from its list.
    ///
    /// Children must carry the id of their position.
    pub fn decode(list: &NvList) -> Result<Self, DecodeError> {
        struct Frame<'a> {
            vdev: VdevConfig,
            children: std::slice::Iter<'a, NvList>,
        }
        fn open(list: &NvList) -> Result<Frame<'_>, DecodeError> {
            let vdev = decode_one(list)?;
            let children = list.get_list_array("children").unwrap_or(&[]).iter();
            Ok(Frame { vdev, children })
        }
        let mut frames = vec![open(list)?];
        let mut vdevs = 1;
        loop {
            let frame = frames.last_mut().expect("the root frame returns");
            if let Some(child) = frame.children.next() {
                let child = open(child)?;
                check_child_id(&child.vdev, frame.vdev.children.len())?;
                vdevs += 1;
                if vdevs > VDEVS_MAX {
                    return bad("number of vdevs", vdevs as u64);
                }
                frames.push(child);
                continue;
            }
            let done = frames.pop().expect("last_mut found it").vdev;
            match frames.last_mut() {
                Some(parent) => parent.vdev.children.push(done),
                None => return Ok(done),
            }
        }
    }

    /// Whether the vdev is a device with labels of its own.
    pub fn is_leaf_device(&self) -> bool {
        self.kind.is_device()
    }

    /// All vdevs of the tree: each before its children, in order.
    pub fn walk(&self) -> Walk<'_> {
        Walk { stack: vec![self] }
    }

    /// The leaves of the tree in order: vdevs without children.
    pub fn leaves(&self) -> impl Iterator<Item = &VdevConfig> {
        self.walk().filter(|vdev| vdev.children.is_empty())
    }

    /// The sum of the guids of this vdev and all below, modulo 2^64: of the root, what the
    /// uberblock stores (format/1 1.3).
    pub fn guid_sum(&self) -> u64 {
        self.walk()
            .fold(0, |sum: u64, vdev| sum.wrapping_add(vdev.guid.0))
    }
}

/// Iterates over a tree; see [`VdevConfig::walk`].
pub struct Walk<'a> {
    stack: Vec<&'a VdevConfig>,
}

impl<'a> Iterator for Walk<'a> {
    type Item = &'a VdevConfig;

    fn next(&mut self) -> Option<Self::Item> {
        let vdev = self.stack.pop()?;
        self.stack.extend(vdev.children.iter().rev());
        Some(vdev)
    }
}

fn bad<T>(field: &'static str, value: u64) -> Result<T, DecodeError> {
    Err(DecodeError::BadValue {
        structure: STRUCTURE,
        field,
        value,
    })
}

fn check_child_id(child: &VdevConfig, position: usize) -> Result<(), DecodeError> {
    match child.id {
        Some(VdevId(id)) if id == position as u64 => Ok(()),
        Some(VdevId(id)) => bad("id", id),
        None => Err(DecodeError::Missing {
            structure: STRUCTURE,
            key: "id",
        }),
    }
}

/// A flag stored as a u64.
fn flag(list: &NvList, key: &str) -> bool {
    list.get_u64(key).is_some_and(|value| value != 0)
}

fn text(list: &NvList, key: &str) -> Option<String> {
    let bytes = list.get_bytes(key)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

/// An object number; 0 stands for none.
fn object(list: &NvList, key: &str) -> Option<ObjectId> {
    list.get_u64(key).filter(|id| *id != 0).map(ObjectId)
}

/// Reads one vdev's own fields.
fn decode_one(list: &NvList) -> Result<VdevConfig, DecodeError> {
    let name = text(list, "type").ok_or(DecodeError::Missing {
        structure: STRUCTURE,
        key: "type",
    })?;
    let kind = VdevKind::from_name(&name);
    let ashift = decode_ashift(list, &kind)?;
    let path = list.get_bytes("path");
    Ok(VdevConfig {
        id: list.get_u64("id").map(VdevId),
        guid: Guid(list.require_u64(STRUCTURE, "guid")?),
        path: path.map(|path| PathBuf::from(OsStr::from_bytes(path))),
        devid: text(list, "devid"),
        physical_path: text(list, "phys_path"),
        whole_disk: list.get_u64("whole_disk").map(|value| value != 0),
        parity: decode_parity(list, &kind)?,
        draid: decode_draid(list, &kind)?,
        raidz_expanding: list.contains("raidz_expanding"),
        raidz_expand_txgs: decode_expand_txgs(list)?,
        ashift,
        asize: list.get_u64("asize").unwrap_or(0),
        metaslab_array: object(list, "metaslab_array"),
        metaslab_shift: match list.get_u64("metaslab_shift").unwrap_or(0) {
            shift @ 0..=METASLAB_SHIFT_MAX => shift as u32,
            shift => return bad("metaslab_shift", shift),
        },
        is_log: flag(list, "is_log"),
        is_spare: flag(list, "is_spare"),
        non_allocating: flag(list, "non_allocating"),
        removing: flag(list, "removing"),
        indirect_object: object(list, "com.delphix:indirect_object"),
        indirect_births: object(list, "com.delphix:indirect_births"),
        previous_indirect: list
            .get_u64("com.delphix:prev_indirect_vdev")
            .filter(|id| *id != u64::MAX)
            .map(VdevId),
        dtl: object(list, "DTL"),
        create_txg: Txg(list.get_u64("create_txg").unwrap_or(0)),
        resilver_txg: list.get_u64("resilver_txg").map(Txg),
        rebuild_txg: list.get_u64("rebuild_txg").map(Txg),
        state: decode_state(list),
        leaf_zap: object(list, "com.delphix:vdev_zap_leaf"),
        top_zap: object(list, "com.delphix:vdev_zap_top"),
        root_zap: object(list, "com.klarasystems:vdev_zap_root"),
        distributed_spare: match kind {
            VdevKind::DistributedSpare => list
                .get_u64("top_guid")
                .zip(list.get_u64("spareid"))
                .map(|(guid, spare)| (Guid(guid), spare)),
            _ => None,
        },
        original_guid: list.get_u64("orig_guid").map(Guid),
        children: Vec::new(),
        kind,
    })
}

fn decode_state(list: &NvList) -> LeafState {
    LeafState {
        offline: flag(list, "offline"),
        faulted: flag(list, "faulted"),
        degraded: flag(list, "degraded"),
        removed: flag(list, "removed"),
        not_present: flag(list, "not_present"),
        unspare: flag(list, "unspare"),
        aux_state: text(list, "aux_state"),
        resilver_deferred: list.contains("com.datto:resilver_defer"),
    }
}

fn decode_ashift(list: &NvList, kind: &VdevKind) -> Result<Option<u32>, DecodeError> {
    let range = u64::from(ASHIFT_MIN)..=u64::from(ASHIFT_MAX);
    match list.get_u64("ashift") {
        None => Ok(None),
        Some(0) if *kind != VdevKind::Raidz && *kind != VdevKind::Draid => Ok(None),
        Some(ashift) if range.contains(&ashift) => Ok(Some(ashift as u32)),
        Some(ashift) => bad("ashift", ashift),
    }
}

/// Parity, which pools before version 3 did not store: it was 1.
fn decode_parity(list: &NvList, kind: &VdevKind) -> Result<u64, DecodeError> {
    if !matches!(kind, VdevKind::Raidz | VdevKind::Draid) {
        return Ok(0);
    }
    let parity = list.get_u64("nparity").unwrap_or(1);
    let children = list.get_list_array("children").map_or(0, <[NvList]>::len);
    if parity == 0 || parity > PARITY_MAX || parity >= children as u64 {
        return bad("nparity", parity);
    }
    Ok(parity)
}

fn decode_draid(list: &NvList, kind: &VdevKind) -> Result<Option<DraidConfig>, DecodeError> {
    if *kind != VdevKind::Draid {
        return Ok(None);
    }
    let children = list.get_list_array("children").map_or(0, <[NvList]>::len) as u64;
    let config = DraidConfig {
        data: list.require_u64(STRUCTURE, "draid_ndata")?,
        spares: list.require_u64(STRUCTURE, "draid_nspares")?,
        groups: list.require_u64(STRUCTURE, "draid_ngroups")?,
        failure_domain_children: list.get_u64("draid_nchildren"),
    };
    let needed = config.data.checked_add(decode_parity(list, kind)?);
    let needed = needed.and_then(|width| width.checked_add(config.spares));
    if config.data == 0 || needed.is_none_or(|needed| needed > children) {
        return bad("draid_ndata", config.data);
    }
    // g groups fill a whole number of rows of at most 255 disks, so that 255 always suffice.
    if !(1..=DRAID_GROUPS_MAX).contains(&config.groups) {
        return bad("draid_ngroups", config.groups);
    }
    Ok(Some(config))
}

fn decode_expand_txgs(list: &NvList) -> Result<Vec<Txg>, DecodeError> {
    let txgs = list.get_u64_array("raidz_expand_txgs").unwrap_or(&[]);
    if !txgs.is_sorted() || txgs.len() > u8::MAX.into() {
        return Err(DecodeError::Inconsistent {
            structure: STRUCTURE,
            problem: "the txgs of raidz expansions do not ascend",
        });
    }
    Ok(txgs.iter().copied().map(Txg).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NvValue;

    fn vdev(kind: &str, id: u64, children: Vec<NvList>) -> NvList {
        let mut list = NvList::new();
        list.set_str("type", kind);
        list.set_u64("id", id);
        list.set_u64("guid", 100 + id);
        if !children.is_empty() {
            list.set("children", NvValue::ListArray(children));
        }
        list
    }

    #[test]
    fn a_tree_decodes_in_order() {
        let leaves = (0..4).map(|i| vdev("disk", i, vec![])).collect();
        let mut raidz = vdev("raidz", 0, leaves);
        raidz.set_u64("nparity", 2);
        raidz.set_u64("ashift", 12);
        raidz.set_u64("metaslab_array", 0);
        raidz.set("raidz_expand_txgs", NvValue::Uint64Array(vec![5, 9]));
        let mut hole = vdev("hole", 1, vec![]);
        hole.set_u64("guid", 0);
        hole.set_u64("ashift", 0);
        let root = VdevConfig::decode(&vdev("root", 0, vec![raidz, hole])).expect("valid");
        assert_eq!(
            (root.kind.clone(), root.children.len()),
            (VdevKind::Root, 2)
        );
        let raidz = &root.children[0];
        assert_eq!((raidz.parity, raidz.ashift), (2, Some(12)));
        assert_eq!(raidz.metaslab_array, None, "0 means not allocated yet");
        assert_eq!(raidz.raidz_expand_txgs, [Txg(5), Txg(9)]);
        let ids: Vec<_> = raidz.leaves().map(|leaf| leaf.guid.0).collect();
        assert_eq!(ids, [100, 101, 102, 103]);
        assert_eq!(root.guid_sum(), 100 + 100 + 100 + 101 + 102 + 103);
    }

    #[test]
    fn contradictions_are_refused() {
        let wrong_id = vdev("root", 0, vec![vdev("disk", 1, vec![])]);
        assert!(matches!(
            VdevConfig::decode(&wrong_id),
            Err(DecodeError::BadValue { field: "id", .. })
        ));
        let mut narrow = vdev("raidz", 0, vec![vdev("disk", 0, vec![])]);
        narrow.set_u64("nparity", 1);
        assert!(VdevConfig::decode(&narrow).is_err(), "all parity");
        let mut disk = vdev("disk", 0, vec![]);
        disk.set_u64("ashift", 60);
        assert!(VdevConfig::decode(&disk).is_err());
        let mut draid = vdev(
            "draid",
            0,
            vec![vdev("disk", 0, vec![]), vdev("disk", 1, vec![])],
        );
        draid.set_u64("nparity", 1);
        assert!(matches!(
            VdevConfig::decode(&draid),
            Err(DecodeError::Missing { .. })
        ));
        for (key, value) in [
            ("draid_ndata", 1),
            ("draid_nspares", 0),
            ("draid_ngroups", 1),
        ] {
            draid.set_u64(key, value);
        }
        assert!(VdevConfig::decode(&draid).is_ok());
        draid.set_u64("draid_nspares", u64::MAX);
        assert!(
            VdevConfig::decode(&draid).is_err(),
            "more spares than disks"
        );
    }

    #[test]
    fn unknown_kinds_keep_their_name() {
        let config = VdevConfig::decode(&vdev("anyraid", 0, vec![])).expect("decodes");
        assert_eq!(config.kind, VdevKind::Unknown("anyraid".into()));
        assert_eq!(config.kind.to_string(), "anyraid");
    }
}
