//! The property `sync`.

use cenote_intent_log::Commit;

/// `sync`: which changes are on disk before the call returns (zfsprops(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Those that the caller wants there: `fsync`, `O_SYNC`, `O_DSYNC`, a flush.
    #[default]
    Standard,
    /// All.
    Always,
    /// None: `fsync` returns at once.
    Disabled,
}

impl SyncPolicy {
    /// The meaning of a stored value.
    pub fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Always,
            2 => Self::Disabled,
            _ => Self::Standard,
        }
    }

    /// The stored value.
    pub fn number(self) -> u64 {
        match self {
            Self::Standard => 0,
            Self::Always => 1,
            Self::Disabled => 2,
        }
    }

    /// What must survive a power cut before a call returns, if anything: `wanted` is what its
    /// caller asks for.
    pub(crate) fn due(self, wanted: Option<Commit>) -> Option<Commit> {
        match self {
            Self::Standard => wanted,
            // A call may change more than the object that it names.
            Self::Always => Some(Commit::All),
            Self::Disabled => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::ObjectId;

    #[test]
    fn the_property_decides_what_a_call_waits_for() {
        let file = Some(Commit::Object(ObjectId(7)));
        for (policy, for_write, for_fsync) in [
            (SyncPolicy::Standard, None, file),
            (SyncPolicy::Always, Some(Commit::All), Some(Commit::All)),
            (SyncPolicy::Disabled, None, None),
        ] {
            assert_eq!(policy.due(None), for_write, "{policy:?}");
            assert_eq!(policy.due(file), for_fsync, "{policy:?}");
            assert_eq!(SyncPolicy::from_number(policy.number()), policy);
        }
    }
}
