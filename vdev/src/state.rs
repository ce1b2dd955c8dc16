//! The health of a vdev, derived as OpenZFS derives it.
//!
//! A leaf's state follows from its configuration and from whether its device opened. An interior
//! vdev's follows from its children: a mirror works while one child does, raidz and draid while
//! no more children fail than there is parity. The root fails with any top-level vdev, except
//! that a lost log device only degrades it.

use cenote_ondisk::VdevKind;

/// How well a vdev is; later variants are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VdevState {
    /// Taken offline by the administrator.
    Offline,
    /// The device was taken out while in use.
    Removed,
    /// It cannot be opened.
    CannotOpen,
    /// Not to be used because of its faults.
    Faulted,
    /// In use with less redundancy, or although known to fail.
    Degraded,
    /// All is well.
    Healthy,
}

/// Why a vdev is not healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum VdevAux {
    /// No reason, or none needed.
    #[default]
    None,
    /// The device cannot be opened or was not found.
    OpenFailed,
    /// The label is damaged or is another's.
    CorruptData,
    /// Too many children failed.
    NoReplicas,
    /// The guids of all vdevs have another sum than the uberblock says.
    BadGuidSum,
    /// The device is smaller than it was.
    TooSmall,
    /// There is no valid label.
    BadLabel,
    /// Errors exceeded the limit.
    ErrorsExceeded,
    /// Faulted from outside, by the administrator.
    External,
    /// The device went to a new pool when this one was split.
    SplitPool,
    /// All children are offline.
    ChildrenOffline,
    /// The name of the open device leads to another one.
    Replaced,
    /// The open device has no name any more.
    Deleted,
}

impl VdevState {
    /// The word that `zpool status` shows.
    pub fn name(self, aux: VdevAux) -> &'static str {
        match (self, aux) {
            (Self::Offline, _) => "OFFLINE",
            (Self::Removed, _) => "REMOVED",
            (Self::CannotOpen, VdevAux::CorruptData) | (Self::Faulted, _) => "FAULTED",
            (Self::CannotOpen, VdevAux::SplitPool) => "SPLIT",
            (Self::CannotOpen, _) => "UNAVAIL",
            (Self::Degraded, _) => "DEGRADED",
            (Self::Healthy, _) => "ONLINE",
        }
    }

    /// The number that OpenZFS's programs use for it.
    pub fn number(self) -> u64 {
        match self {
            Self::Offline => 2,
            Self::Removed => 3,
            Self::CannotOpen => 4,
            Self::Faulted => 5,
            Self::Degraded => 6,
            Self::Healthy => 7,
        }
    }

    /// Whether data can be read from it.
    pub fn is_readable(self) -> bool {
        self >= Self::Degraded
    }
}

impl VdevAux {
    /// What `zpool status` says beside the state; empty for no reason.
    pub fn message(self) -> &'static str {
        match self {
            Self::None => "",
            Self::OpenFailed => "cannot open",
            Self::CorruptData | Self::TooSmall => "corrupted data",
            Self::NoReplicas => "insufficient replicas",
            Self::BadGuidSum => "missing device",
            Self::BadLabel => "invalid label",
            Self::ErrorsExceeded => "too many errors",
            Self::External => "external device fault",
            Self::SplitPool => "split into new pool",
            Self::ChildrenOffline => "all children offline",
            Self::Replaced => "was replaced while in use",
            Self::Deleted => "was deleted while in use",
        }
    }
}

/// What an interior vdev needs to know of a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildHealth {
    pub state: VdevState,
    pub aux: VdevAux,
    pub is_log: bool,
    /// Holes and removed vdevs have no health of their own.
    pub counts: bool,
}

/// The state of an interior vdev of this kind and parity.
pub(crate) fn derive(
    kind: &VdevKind,
    parity: u64,
    children: &[ChildHealth],
) -> (VdevState, VdevAux) {
    let counted = || children.iter().filter(|child| child.counts);
    let is_root = *kind == VdevKind::Root;
    let (mut faulted, mut degraded) = (0, 0);
    for child in counted() {
        match child.state {
            // A pool without its log device is still whole: at most recent synchronous writes
            // are lost.
            state if !state.is_readable() && is_root && child.is_log => degraded += 1,
            state if !state.is_readable() => faulted += 1,
            VdevState::Degraded => degraded += 1,
            _ => {}
        }
    }
    let tolerated = match kind {
        VdevKind::Root => 0,
        VdevKind::Raidz | VdevKind::Draid => parity,
        _ => (children.len() as u64).saturating_sub(1),
    };
    if faulted > tolerated {
        let all_offline = counted().all(|child| child.state == VdevState::Offline);
        if !is_root && all_offline {
            return (VdevState::Offline, VdevAux::ChildrenOffline);
        }
        let corrupt = |child: &ChildHealth| child.aux == VdevAux::CorruptData;
        let aux = if is_root && counted().any(corrupt) {
            VdevAux::CorruptData
        } else {
            VdevAux::NoReplicas
        };
        return (VdevState::CannotOpen, aux);
    }
    if faulted + degraded > 0 {
        return (VdevState::Degraded, VdevAux::None);
    }
    (VdevState::Healthy, VdevAux::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(state: VdevState) -> ChildHealth {
        let aux = VdevAux::None;
        ChildHealth {
            state,
            aux,
            is_log: false,
            counts: true,
        }
    }

    fn state_of(kind: VdevKind, parity: u64, states: &[VdevState]) -> &'static str {
        let children: Vec<_> = states.iter().copied().map(child).collect();
        let (state, aux) = derive(&kind, parity, &children);
        state.name(aux)
    }

    #[test]
    fn redundancy_decides() {
        use VdevState::{CannotOpen as Gone, Degraded, Healthy, Offline};
        assert_eq!(state_of(VdevKind::Mirror, 0, &[Healthy, Healthy]), "ONLINE");
        assert_eq!(state_of(VdevKind::Mirror, 0, &[Healthy, Gone]), "DEGRADED");
        assert_eq!(
            state_of(VdevKind::Mirror, 0, &[Healthy, Offline]),
            "DEGRADED"
        );
        assert_eq!(state_of(VdevKind::Mirror, 0, &[Gone, Gone]), "UNAVAIL");
        assert_eq!(
            state_of(VdevKind::Mirror, 0, &[Offline, Offline]),
            "OFFLINE"
        );
        assert_eq!(
            state_of(VdevKind::Mirror, 0, &[Degraded, Healthy]),
            "DEGRADED"
        );
        let two = [Gone, Gone, Healthy, Healthy];
        assert_eq!(state_of(VdevKind::Raidz, 2, &two), "DEGRADED");
        assert_eq!(state_of(VdevKind::Raidz, 1, &two), "UNAVAIL");
        assert_eq!(
            state_of(VdevKind::Root, 0, &[Degraded, Healthy]),
            "DEGRADED"
        );
        assert_eq!(state_of(VdevKind::Root, 0, &[Gone, Healthy]), "UNAVAIL");
    }

    #[test]
    fn a_lost_log_and_a_hole_leave_the_pool_usable() {
        let log = ChildHealth {
            is_log: true,
            ..child(VdevState::CannotOpen)
        };
        let hole = ChildHealth {
            counts: false,
            ..child(VdevState::CannotOpen)
        };
        let healthy = child(VdevState::Healthy);
        let (state, _) = derive(&VdevKind::Root, 0, &[healthy, log, hole]);
        assert_eq!(state, VdevState::Degraded);
        let (state, _) = derive(&VdevKind::Root, 0, &[healthy, hole]);
        assert_eq!(state, VdevState::Healthy);
    }

    #[test]
    fn damaged_labels_show_at_the_root() {
        let corrupt = ChildHealth {
            aux: VdevAux::CorruptData,
            ..child(VdevState::CannotOpen)
        };
        let root = derive(&VdevKind::Root, 0, &[corrupt]);
        assert_eq!(root, (VdevState::CannotOpen, VdevAux::CorruptData));
        assert_eq!(root.0.name(root.1), "FAULTED");
    }
}
