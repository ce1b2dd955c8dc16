//! What a package holds.

use super::super::Options;

/// What goes into a package.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackageOptions {
    /// Everything below the dataset, too, with properties (`-R`).
    pub recursive: bool,
    /// Properties (`-p`).
    pub properties: bool,
    /// Of the properties only what was received (`-b`).
    pub received_only: bool,
    /// Holds (`-h`).
    pub holds: bool,
    /// With `recursive`, datasets that are left out, with what is below them (`-X`).
    pub excluded: Vec<String>,
    /// Every snapshot in between, too (`-I`; without a base all up to the snapshot).
    pub intermediates: bool,
    /// Leave out datasets that do not have the snapshot, instead of refusing (`-s`).
    pub skips_missing: bool,
    /// Encrypted datasets may be sent decrypted, and without the encryption properties (`-U`).
    pub decrypted: bool,
    /// How blocks may be put.
    pub blocks: Options,
}

impl PackageOptions {
    /// Whether the header has a list.
    pub(super) fn has_list(&self) -> bool {
        self.recursive || self.properties || self.received_only || self.holds
    }
}
