//! Values of properties that make this machine do something only after its administrator said yes.

use serde::{Deserialize, Serialize};

/// A value that is about this machine and came from elsewhere: with a stream or a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingValue {
    /// The dataset that has it. Those below may inherit it.
    pub dataset: String,
    /// The property.
    pub property: String,
    /// The value.
    pub value: String,
}
