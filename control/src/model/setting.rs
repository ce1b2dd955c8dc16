//! Settings, as the daemon reports them.

use serde::{Deserialize, Serialize};

/// A setting as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingRow {
    /// Its name, which is OpenZFS's.
    pub name: String,
    /// The value; of a setting without effect, what was given.
    pub value: String,
    /// The default; empty for a setting without effect.
    pub default: String,
    /// What its number counts: `bytes`, `percent`, …
    pub unit: String,
    /// The least and the most; none for a setting without effect.
    pub range: Option<[u64; 2]>,
    /// What it does, or why it does nothing.
    pub effect: String,
    /// The value in use instead, because there is not enough memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<u64>,
}
