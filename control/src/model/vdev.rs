//! The vdev tree as `zpool status`, `zpool list -v` and `zpool import` show it.

use serde::{Deserialize, Serialize};

use super::activity::Treatment;
use super::metrics::ClassRequests;
use super::value::Property;

/// What a vdev is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevKind {
    /// The pool itself.
    Root,
    /// N copies.
    Mirror,
    /// Single, double or triple parity.
    Raidz {
        /// Parity columns, 1..=3.
        parity: u64,
    },
    /// Parity with distributed spares.
    Draid {
        /// Parity columns, 1..=3.
        parity: u64,
        /// Data columns of a group.
        data: u64,
        /// Children in all.
        children: u64,
        /// Distributed spares.
        spares: u64,
    },
    /// A distributed spare of a dRAID vdev.
    DraidSpare,
    /// A block device.
    Disk,
    /// A regular file.
    File,
    /// A leaf and the spare that replaces it temporarily.
    Spare,
    /// A leaf and its replacement.
    Replacing,
    /// A removed vdev, reached through its mapping.
    Indirect,
    /// A slot whose vdev was a removed log.
    Hole,
    /// A slot without any information.
    Missing,
}

impl VdevKind {
    /// The word in configurations and in JSON (`vdev_type`).
    pub fn word(&self) -> &'static str {
        match self {
            VdevKind::Root => "root",
            VdevKind::Mirror => "mirror",
            VdevKind::Raidz { .. } => "raidz",
            VdevKind::Draid { .. } => "draid",
            VdevKind::DraidSpare => "dspare",
            VdevKind::Disk => "disk",
            VdevKind::File => "file",
            VdevKind::Spare => "spare",
            VdevKind::Replacing => "replacing",
            VdevKind::Indirect => "indirect",
            VdevKind::Hole => "hole",
            VdevKind::Missing => "missing",
        }
    }

    /// Whether it is a device rather than a combination.
    pub fn is_leaf(&self) -> bool {
        matches!(
            self,
            VdevKind::Disk | VdevKind::File | VdevKind::DraidSpare | VdevKind::Missing
        )
    }
}

/// Which allocations a top-level vdev serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AllocationClass {
    /// Everything.
    #[default]
    Normal,
    /// Deduplication tables.
    Dedup,
    /// Metadata and small blocks.
    Special,
    /// The intent log.
    Log,
}

/// A vdev's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevState {
    /// Not opened yet.
    Unknown,
    /// Not opened.
    Closed,
    /// Taken offline by the administrator.
    Offline,
    /// The device went away while it was in use.
    Removed,
    /// It cannot be opened: the reason is in `aux`.
    CantOpen,
    /// Taken out of service because of errors.
    Faulted,
    /// Working, with less redundancy.
    Degraded,
    /// Healthy.
    #[default]
    Online,
}

impl VdevState {
    /// The word in messages.
    pub fn word(self) -> &'static str {
        match self {
            VdevState::Unknown | VdevState::Closed | VdevState::CantOpen => "UNAVAIL",
            VdevState::Offline => "OFFLINE",
            VdevState::Removed => "REMOVED",
            VdevState::Faulted => "FAULTED",
            VdevState::Degraded => "DEGRADED",
            VdevState::Online => "ONLINE",
        }
    }
}

/// Why a vdev is in its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VdevAux {
    /// No reason to give.
    #[default]
    None,
    /// `cannot open`.
    OpenFailed,
    /// `corrupted data`.
    CorruptData,
    /// `insufficient replicas`.
    NoReplicas,
    /// `missing device`: the guids do not add up.
    BadGuidSum,
    /// `corrupted data`: smaller than its labels say.
    TooSmall,
    /// `invalid label`.
    BadLabel,
    /// `newer version`.
    VersionNewer,
    /// An older version than the software knows.
    VersionOlder,
    /// `unsupported feature(s)`.
    UnsupportedFeature,
    /// `currently in use`: a spare that another pool uses.
    Spared,
    /// `too many errors`.
    TooManyErrors,
    /// `experienced I/O failures`.
    IoFailure,
    /// `bad intent log`.
    BadLog,
    /// `external device fault`.
    External,
    /// `split into new pool`.
    SplitPool,
    /// `unsupported minimum blocksize`.
    BadAshift,
    /// `external device fault`, kept over imports.
    ExternalPersistent,
    /// In use by another host.
    Active,
    /// `all children offline`.
    ChildrenOffline,
    /// `unsupported minimum blocksize`: the device's is larger than the pool's.
    AshiftTooBig,
    /// `was replaced while in use`: its name leads to another file or device.
    Replaced,
    /// `was deleted while in use`: it has no name any more.
    Deleted,
}

/// What a vdev did since import, and the errors that it met since import or `zpool clear`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes.
    pub write_errors: u64,
    /// Blocks that did not match their checksum.
    pub checksum_errors: u64,
    /// Requests that took suspiciously long.
    pub slow_ios: u64,
    /// Direct reads and writes that failed verification.
    pub direct_errors: u64,
    /// Bytes rewritten from a good copy because a reader found them wrong.
    pub self_healed: u64,
    /// Bytes rewritten by scrubs and resilvers.
    #[serde(default)]
    pub scan_repaired: u64,
    /// Reads.
    #[serde(default)]
    pub read_operations: u64,
    /// Bytes read.
    #[serde(default)]
    pub read_bytes: u64,
    /// Writes.
    #[serde(default)]
    pub write_operations: u64,
    /// Bytes written.
    #[serde(default)]
    pub write_bytes: u64,
    /// Failed reads, failed writes, wrong checksums and slow requests since import, whether they
    /// were cleared or not.
    #[serde(default)]
    pub errors_ever: [u64; 4],
    /// Of the root: nanoseconds since the import, the time that all this took.
    #[serde(default)]
    pub age_ns: u64,
}

/// Sizes of a vdev, in bytes; 0 where it has none of its own (children of a mirror or raidz).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// Allocated.
    pub allocated: u64,
    /// Capacity.
    pub total: u64,
    /// Capacity as datasets see it (deflated).
    pub deflated: u64,
    /// The smallest device that could replace this one.
    pub replaceable: u64,
    /// What `zpool online -e` could add.
    pub expandable: u64,
    /// The device itself.
    pub physical: u64,
    /// Held by the checkpoint.
    pub checkpoint: u64,
    /// Per cent; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<u64>,
}

/// What a spare is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpareUse {
    /// Waiting: AVAIL.
    Available,
    /// Standing in for a device of this pool.
    InUse,
    /// Standing in for a device of the named pool.
    InUseBy(String),
}

/// One vdev and all below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vdev {
    /// What it is.
    pub kind: VdevKind,
    /// Its position among its siblings.
    pub id: u64,
    /// Its guid.
    pub guid: u64,
    /// The path in the configuration; for a distributed spare its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The device's own name for itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// The place it is plugged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_path: Option<String>,
    /// Whether the pool owns the whole disk (a partition suffix is then not shown).
    #[serde(default)]
    pub whole_disk: bool,
    /// It was not there at import: shown by guid with `was PATH`.
    #[serde(default)]
    pub not_present: bool,
    /// The class of a top-level vdev.
    #[serde(default)]
    pub class: AllocationClass,
    /// Its state.
    pub state: VdevState,
    /// Why.
    #[serde(default)]
    pub aux: VdevAux,
    /// What it met.
    #[serde(default)]
    pub counters: Counters,
    /// How big it is.
    #[serde(default)]
    pub space: Space,
    /// log2 of its allocation unit; 0 when unknown.
    #[serde(default)]
    pub ashift: u64,
    /// log2 of the device's own unit; 0 when unknown.
    #[serde(default)]
    pub physical_ashift: u64,
    /// Being removed.
    #[serde(default)]
    pub removing: bool,
    /// Takes no new allocations.
    #[serde(default)]
    pub no_allocation: bool,
    /// Bytes that the running resilver wrote to it.
    #[serde(default)]
    pub scan_processed: u64,
    /// It waits for the next resilver.
    #[serde(default)]
    pub resilver_deferred: bool,
    /// It is being rebuilt in the order of the disk.
    #[serde(default)]
    pub is_rebuilding: bool,
    /// The running resilver brings it what it missed.
    #[serde(default)]
    pub is_resilvering: bool,
    /// Its last or running initialization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialize: Option<Treatment>,
    /// Its last or running trim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<Treatment>,
    /// The device takes no note of discards.
    #[serde(default)]
    pub trim_unsupported: bool,
    /// For spares, what it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<SpareUse>,
    /// Of a leaf, its requests by class, if requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<ClassRequests>,
    /// The vdevs it is made of, in order of id.
    #[serde(default)]
    pub children: Vec<Vdev>,
}

/// How to name vdevs (`-g`, `-L`, `-P`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevNaming {
    /// By guid.
    pub guid: bool,
    /// Links in paths resolved.
    pub follow_links: bool,
    /// Disks by full path.
    pub full_path: bool,
}

impl Vdev {
    /// A vdev of `kind` with nothing else known: a start for builders.
    pub fn new(kind: VdevKind, id: u64, guid: u64) -> Self {
        Vdev {
            kind,
            id,
            guid,
            path: None,
            device_id: None,
            physical_path: None,
            whole_disk: false,
            not_present: false,
            class: AllocationClass::Normal,
            state: VdevState::Online,
            aux: VdevAux::None,
            counters: Counters::default(),
            space: Space::default(),
            ashift: 0,
            physical_ashift: 0,
            removing: false,
            no_allocation: false,
            scan_processed: 0,
            resilver_deferred: false,
            is_rebuilding: false,
            is_resilvering: false,
            initialize: None,
            trim: None,
            trim_unsupported: false,
            spare: None,
            requests: Vec::new(),
            children: Vec::new(),
        }
    }

    /// The name that lists show: `mirror-0`, `/tmp/disk0`, `sda`, or a guid.
    ///
    /// A leaf that was not there at import has only its guid; lists add `was PATH`.
    pub fn name(&self, naming: VdevNaming) -> String {
        if naming.guid || (self.not_present && self.kind.is_leaf()) {
            return self.guid.to_string();
        }
        match &self.kind {
            VdevKind::Raidz { parity } => format!("raidz{parity}-{}", self.id),
            VdevKind::Draid {
                parity,
                data,
                children,
                spares,
            } => format!("draid{parity}:{data}d:{children}c:{spares}s-{}", self.id),
            kind if kind.is_leaf() => self.leaf_name(naming),
            kind => format!("{}-{}", kind.word(), self.id),
        }
    }

    /// Whether a user may mean it by this name.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name(VdevNaming::default()) == name
            || self.path.as_deref() == Some(name)
            || self.guid.to_string() == name
    }

    fn leaf_name(&self, naming: VdevNaming) -> String {
        let Some(path) = &self.path else {
            return match self.kind {
                VdevKind::Missing => format!("missing-{}", self.id),
                _ => self.guid.to_string(),
            };
        };
        let mut path = path.clone();
        if naming.follow_links
            && let Ok(resolved) = std::fs::canonicalize(&path)
            && let Some(text) = resolved.to_str()
        {
            path = text.to_owned();
        }
        // Of the URL of a network disk the last part says neither host nor socket.
        let is_url = path.contains("://");
        if self.kind != VdevKind::Disk || naming.full_path || is_url {
            return path;
        }
        let last = path.rsplit('/').next().unwrap_or(&path);
        let last = if self.whole_disk {
            without_partition(last)
        } else {
            last
        };
        last.to_owned()
    }
}

/// `sda1` is `sda`, `nvme0n1p1` is `nvme0n1`, `ata-X-part1` is `ata-X`; other names stay.
fn without_partition(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() == name.len() {
        return name;
    }
    if let Some(disk) = stem.strip_suffix("-part") {
        return disk;
    }
    if let Some(disk) = stem.strip_suffix('p') {
        if disk.ends_with(|c: char| c.is_ascii_digit()) {
            return disk;
        }
        return name;
    }
    let scsi = ["sd", "hd", "vd", "xvd"]
        .iter()
        .any(|prefix| stem.starts_with(prefix));
    if scsi { stem } else { name }
}

/// All vdevs of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevTree {
    /// The root; its children are the top-level vdevs of every class, in order of id.
    pub root: Vdev,
    /// Level 2 cache devices.
    #[serde(default)]
    pub cache: Vec<Vdev>,
    /// Hot spares.
    #[serde(default)]
    pub spares: Vec<Vdev>,
}

impl VdevTree {
    /// The top-level vdevs of `class`, in order of id, holes left out.
    pub fn of_class(&self, class: AllocationClass) -> impl Iterator<Item = &Vdev> {
        self.root
            .children
            .iter()
            .filter(move |vdev| vdev.class == class && vdev.kind != VdevKind::Hole)
    }
}

/// One vdev with the requested properties (`zpool get PROPERTY POOL VDEV`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevRow {
    /// The vdev, without its children.
    pub vdev: Vdev,
    /// Its properties.
    pub properties: Vec<Property>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(path: &str, whole_disk: bool) -> Vdev {
        let mut vdev = Vdev::new(VdevKind::Disk, 0, 7);
        vdev.path = Some(path.to_owned());
        vdev.whole_disk = whole_disk;
        vdev
    }

    #[test]
    fn disks_lose_directory_and_partition() {
        let plain = VdevNaming::default();
        assert_eq!(disk("/dev/sda1", true).name(plain), "sda");
        assert_eq!(disk("/dev/sda1", false).name(plain), "sda1");
        assert_eq!(disk("/dev/nvme0n1p1", true).name(plain), "nvme0n1");
        assert_eq!(
            disk("/dev/disk/by-id/ata-X1-part9", true).name(plain),
            "ata-X1"
        );
        assert_eq!(disk("/dev/mapper/pool2", true).name(plain), "pool2");
        assert_eq!(disk("nbd://host/a", false).name(plain), "nbd://host/a");
        let full = VdevNaming {
            full_path: true,
            ..plain
        };
        assert_eq!(disk("/dev/sda1", true).name(full), "/dev/sda1");
    }

    #[test]
    fn combinations_are_named_by_kind_and_id() {
        let plain = VdevNaming::default();
        let draid = VdevKind::Draid {
            parity: 2,
            data: 4,
            children: 8,
            spares: 1,
        };
        assert_eq!(Vdev::new(draid, 0, 1).name(plain), "draid2:4d:8c:1s-0");
        assert_eq!(
            Vdev::new(VdevKind::Raidz { parity: 3 }, 2, 1).name(plain),
            "raidz3-2"
        );
        assert_eq!(
            Vdev::new(VdevKind::Indirect, 1, 1).name(plain),
            "indirect-1"
        );
    }

    #[test]
    fn an_absent_leaf_is_a_guid() {
        let mut vdev = disk("/dev/sda1", true);
        vdev.not_present = true;
        assert_eq!(vdev.name(VdevNaming::default()), "7");
    }
}
