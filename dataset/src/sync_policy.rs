//! The property `sync`.

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

    /// Whether a call waits for the disk, if its caller wants that or not.
    pub fn waits(self, is_wanted: bool) -> bool {
        match self {
            Self::Standard => is_wanted,
            Self::Always => true,
            Self::Disabled => false,
        }
    }
}
