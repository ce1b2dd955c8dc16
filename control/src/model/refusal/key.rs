//! Why a dataset does not get a key.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why the properties of a new key do not fit together.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyRefusal {
    /// A new encryption root needs a format.
    #[error("Keyformat required for new encryption root.")]
    NoFormat,
    /// Only passphrases are iterated over.
    #[error("pbkdf2iters can only be set for passphrases.")]
    NotIterated,
    /// Too few iterations.
    #[error("Minimum pbkdf2 iterations is {minimum}.")]
    TooFewIterations {
        /// How many there have to be.
        minimum: u64,
    },
    /// No key can be kept there.
    #[error("invalid keylocation")]
    BadLocation,
}

impl KeyRefusal {
    /// The property that is to blame.
    pub fn property(&self) -> &'static str {
        match self {
            Self::NoFormat => "keyformat",
            Self::NotIterated | Self::TooFewIterations { .. } => "pbkdf2iters",
            Self::BadLocation => "keylocation",
        }
    }
}
