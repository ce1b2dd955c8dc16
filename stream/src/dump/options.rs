//! How much of a stream is printed.

/// How much is printed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A line for each record.
    pub records: bool,
    /// The payloads, and the checksums; with [`Self::records`].
    pub payloads: bool,
    /// Whether checksums are left unchecked.
    pub ignores_checksums: bool,
}
