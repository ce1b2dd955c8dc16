//! What is wrong with bytes that do not decode.

/// Bytes do not have the structure that they should have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The buffer ends before the structure does.
    #[error("{structure}: {needed} bytes needed at offset {offset}, {available} there")]
    Truncated {
        /// The structure being decoded.
        structure: &'static str,
        /// Where the missing bytes begin.
        offset: usize,
        /// Bytes needed there.
        needed: usize,
        /// Bytes in the buffer from there on.
        available: usize,
    },
    /// A field holds a value that the format does not allow.
    #[error("{structure}: {field} is {value:#x}, which the format does not allow")]
    BadValue {
        /// The structure being decoded.
        structure: &'static str,
        /// The field's name.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A magic number is wrong: this is another structure, or noise.
    #[error("{structure}: magic number is {found:#x}, not {expected:#x}")]
    BadMagic {
        /// The structure being decoded.
        structure: &'static str,
        /// What stands there.
        found: u64,
        /// What should.
        expected: u64,
    },
    /// A key that must be present is missing.
    #[error("{structure}: {key} is missing")]
    Missing {
        /// The structure being decoded.
        structure: &'static str,
        /// The missing key.
        key: &'static str,
    },
    /// The structure's parts contradict each other.
    #[error("{structure}: {problem}")]
    Inconsistent {
        /// The structure being decoded.
        structure: &'static str,
        /// What contradicts what.
        problem: &'static str,
    },
}
