//! What is written, for devices that store metadata apart from contents.

/// What bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Not known.
    #[default]
    Unknown,
    /// Labels, pointers, directories, tables: small, read before anything else, and often.
    Metadata,
    /// What files and volumes hold.
    Contents,
}
