//! Devices that have a guid of a pool and are not used.

use crate::import::label_tree::config_of;
use crate::import::lineage::{Moment, Parted};
use cenote_base::{Guid, Txg};
use cenote_vdev::Member;
use std::path::PathBuf;

/// Why a device is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was written to apart from the pool, in this group first as far as can be seen.
    Parted(Moment),
    /// What is on it is not one of the last states that it is known to have had.
    Unproven,
    /// Its labels are of several times: it is a copy that was made while the device was in use, or
    /// that was broken off. What is on it for certain is of this group.
    Torn(Txg),
    /// It has a part of the newest state.
    Incomplete,
    /// It cannot be opened for writing, and the pool has all that it needs without it.
    NotWritable {
        /// The system's reason.
        reason: String,
    },
    /// Another device has the same guid and the same state.
    Copy {
        /// That device.
        of: PathBuf,
    },
    /// Another device has the same guid and a newer state.
    Older {
        /// That device.
        than: PathBuf,
    },
    /// Another device has the same guid, and was named.
    NotNamed {
        /// That device.
        but: PathBuf,
    },
}

impl From<Parted> for Why {
    fn from(parted: Parted) -> Self {
        match parted {
            Parted::At(moment) => Self::Parted(moment),
            Parted::Unknown => Self::Unproven,
        }
    }
}

/// A device that has a guid of a pool and is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outsider {
    /// Where it is.
    pub path: PathBuf,
    /// The leaf with its guid.
    pub leaf: Guid,
    /// Why it is not used.
    pub why: Why,
    /// The state that it has.
    pub theirs: Option<Moment>,
    /// The system that its labels name as the last one that wrote them.
    pub host: Option<String>,
    /// The state of the pool.
    pub ours: Option<Moment>,
}

impl Outsider {
    /// Whether it is this device.
    pub(crate) fn is_of(&self, member: &Member) -> bool {
        let leaf = config_of(member).and_then(|config| config.guid);
        self.path == member.candidate.path && Some(self.leaf) == leaf
    }

    /// Whether it is one of two devices with the same guid, and the other one serves.
    pub fn is_copy(&self) -> bool {
        matches!(
            self.why,
            Why::Copy { .. } | Why::Older { .. } | Why::NotNamed { .. }
        )
    }

    /// Why it is not used, and what to do; without its name.
    pub fn reason(&self) -> String {
        let at = self.theirs.map(|at| format!("at {at}"));
        let at = at.unwrap_or_else(|| "without a readable state".to_owned());
        let by = self
            .host
            .as_ref()
            .map(|host| format!(", written by {host}"));
        let by = by.unwrap_or_default();
        let ours = self.ours.map(|at| format!(", and the pool is at {at}"));
        let ours = ours.unwrap_or_default();
        let then = "It is not used, and nothing is written to it. To give up what only it has: \
                    'zpool labelclear -f' on it, then 'zpool replace' or 'zpool attach'";
        match &self.why {
            Why::Parted(first) => format!(
                "it was written to apart from this pool since txg {}: it is {at}{by}{ours}. {then}",
                first.txg
            ),
            Why::Unproven => format!(
                "it is {at}{by}{ours}. This is not the state that the device had when it was last \
                 part of the pool: it may be an older copy. {then}"
            ),
            Why::Torn(until) => format!(
                "it is {at}{by} by some of its labels, and at txg {until} by others{ours}. It is a \
                 copy that was made while the device was in use, or that is not complete. It is \
                 not used, and nothing is written to it. Connect the device itself"
            ),
            Why::Incomplete => format!(
                "it is {at}{by}{ours}. Its newer state cannot be read: it was not given all of it \
                 before the devices that have the rest went away. {then}"
            ),
            Why::NotWritable { reason } => format!(
                "it cannot be opened for writing: {reason}. The pool is used without it. Once it \
                 can be written to, 'zpool online' uses it again and resilvers what it missed"
            ),
            Why::Copy { of } => format!(
                "it is a copy of {}, which is used in its place. Nothing is written to the copy",
                of.display()
            ),
            Why::Older { than } => format!(
                "it is an older copy of {}: it is {at}{by}{ours}. Nothing is written to the copy",
                than.display()
            ),
            Why::NotNamed { but } => format!(
                "it bears the guid of {}, which was named and is used: it is {at}{by}{ours}. \
                 Nothing is written to it",
                but.display()
            ),
        }
    }
}

impl std::fmt::Display for Outsider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is not used: {}", self.path.display(), self.reason())
    }
}
