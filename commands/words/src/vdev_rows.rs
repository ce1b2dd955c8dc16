//! A pool's vdevs as indented rows, in the order of all listings.
//!
//! Normal vdevs first, below the pool; then the classes `dedup`, `special`, `logs`; then `cache`
//! and `spares`. Indirect vdevs are shown only by `zpool list -v`, holes never.

use cenote_control::model::{
    AllocationClass, SpareUse, Vdev, VdevAux, VdevKind, VdevNaming, VdevState, VdevTree,
};

/// The words that begin a vdev or give the next ones a role.
pub const VDEV_WORDS: [&str; 13] = [
    "mirror", "raidz", "raidz1", "raidz2", "raidz3", "draid", "draid1", "draid2", "log", "cache",
    "spare", "special", "dedup",
];

/// A group of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Below the pool itself.
    Normal,
    /// Deduplication tables.
    Dedup,
    /// Metadata.
    Special,
    /// Intent logs.
    Logs,
    /// Level 2 cache.
    Cache,
    /// Spares.
    Spares,
}

impl Section {
    /// All but the normal one, in order.
    pub const CLASSES: [Section; 5] = [
        Section::Dedup,
        Section::Special,
        Section::Logs,
        Section::Cache,
        Section::Spares,
    ];

    /// Its header.
    pub fn header(self) -> &'static str {
        match self {
            Section::Normal => "",
            Section::Dedup => "dedup",
            Section::Special => "special",
            Section::Logs => "logs",
            Section::Cache => "cache",
            Section::Spares => "spares",
        }
    }

    /// Its top-level vdevs.
    pub fn vdevs(self, tree: &VdevTree) -> Vec<&Vdev> {
        match self {
            Section::Normal => tree.of_class(AllocationClass::Normal).collect(),
            Section::Dedup => tree.of_class(AllocationClass::Dedup).collect(),
            Section::Special => tree.of_class(AllocationClass::Special).collect(),
            Section::Logs => tree.of_class(AllocationClass::Log).collect(),
            Section::Cache => tree.cache.iter().collect(),
            Section::Spares => tree.spares.iter().collect(),
        }
    }
}

/// One vdev with its name and how deep it is: 0 the pool, 1 a top-level vdev.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The vdev.
    pub vdev: &'a Vdev,
    /// Its name.
    pub name: String,
    /// Its depth.
    pub depth: usize,
}

impl Row<'_> {
    /// How wide the indented name is.
    pub fn width(&self) -> usize {
        self.name.chars().count() + 2 * self.depth
    }

    /// The indented name, padded to `width`.
    pub fn padded(&self, width: usize) -> String {
        let padding = width.saturating_sub(self.width());
        format!(
            "{:indent$}{}{:padding$}",
            "",
            self.name,
            "",
            indent = 2 * self.depth
        )
    }
}

/// The rows of a section's vdevs, each before its children.
pub fn rows<'a>(section: Section, tree: &'a VdevTree, naming: VdevNaming) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut stack: Vec<(&Vdev, usize)> = Vec::new();
    stack.extend(section.vdevs(tree).into_iter().rev().map(|vdev| (vdev, 1)));
    while let Some((vdev, depth)) = stack.pop() {
        rows.push(Row {
            vdev,
            name: vdev.name(naming),
            depth,
        });
        stack.extend(vdev.children.iter().rev().map(|child| (child, depth + 1)));
    }
    rows
}

/// The word for a vdev's state.
pub fn state_word(vdev: &Vdev) -> &'static str {
    match (vdev.state, vdev.aux) {
        (VdevState::CantOpen, VdevAux::CorruptData | VdevAux::BadLog) => "FAULTED",
        (VdevState::CantOpen, VdevAux::SplitPool) => "SPLIT",
        (VdevState::CantOpen, _) => "UNAVAIL",
        (VdevState::Closed | VdevState::Offline, _) => "OFFLINE",
        (VdevState::Removed, _) => "REMOVED",
        (VdevState::Faulted, _) => "FAULTED",
        (VdevState::Degraded, _) => "DEGRADED",
        (VdevState::Online, _) => "ONLINE",
        (VdevState::Unknown, _) => "UNKNOWN",
    }
}

/// The word for a spare's state.
pub fn spare_word(vdev: &Vdev) -> &'static str {
    match (&vdev.spare, vdev.state) {
        (Some(SpareUse::InUse | SpareUse::InUseBy(_)), _) => "INUSE",
        (_, VdevState::Online) => "AVAIL",
        _ => state_word(vdev),
    }
}

/// Why a vdev is in its state, in words.
pub fn aux_words(vdev: &Vdev) -> Option<&'static str> {
    Some(match vdev.aux {
        VdevAux::None => return None,
        VdevAux::OpenFailed => "cannot open",
        VdevAux::BadGuidSum => "missing device",
        VdevAux::NoReplicas => "insufficient replicas",
        VdevAux::VersionNewer => "newer version",
        VdevAux::UnsupportedFeature => "unsupported feature(s)",
        VdevAux::BadAshift | VdevAux::AshiftTooBig => "unsupported minimum blocksize",
        VdevAux::Spared => "currently in use",
        VdevAux::TooManyErrors => "too many errors",
        VdevAux::IoFailure => "experienced I/O failures",
        VdevAux::BadLog => "bad intent log",
        VdevAux::External | VdevAux::ExternalPersistent => "external device fault",
        VdevAux::SplitPool => "split into new pool",
        VdevAux::Active => "currently in use",
        VdevAux::ChildrenOffline => "all children offline",
        VdevAux::Replaced => "was replaced while in use",
        VdevAux::Deleted => "was deleted while in use",
        VdevAux::BadLabel => "invalid label",
        VdevAux::CorruptData | VdevAux::TooSmall | VdevAux::VersionOlder => "corrupted data",
    })
}

/// Whether the vdev and all below it are well, for `status -e`.
pub fn healthy(vdev: &Vdev, slow_counts: bool) -> bool {
    let mut stack = vec![vdev];
    while let Some(vdev) = stack.pop() {
        let counters = &vdev.counters;
        let errors = counters.read_errors | counters.write_errors | counters.checksum_errors;
        let is_slow = slow_counts && counters.slow_ios != 0;
        if errors != 0 || is_slow || vdev.state != VdevState::Online {
            return false;
        }
        stack.extend(&vdev.children);
    }
    true
}

/// Whether status and import listings show it.
pub fn shown_in_status(row: &Row<'_>) -> bool {
    row.vdev.kind != VdevKind::Indirect
}
