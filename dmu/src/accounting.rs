//! The owner of an object: the part of space accounting that only a file system knows.

/// The ids that an object is charged to, in the form that is the key of the accounting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The user.
    pub user: u64,
    /// The group.
    pub group: u64,
    /// The project; `None` where projects are not accounted.
    pub project: Option<u64>,
}

/// Finds an object's owner in its attributes.
pub trait OwnerHook: std::fmt::Debug + Send + Sync {
    /// The owner by bonus buffer and spill block; `None` for objects that are not accounted.
    fn owner(
        &self,
        bonus_type: cenote_ondisk::ObjectType,
        bonus: &[u8],
        spill: Option<&[u8]>,
    ) -> Option<Owner>;
}
