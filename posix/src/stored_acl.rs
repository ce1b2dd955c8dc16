//! Access control lists as they are stored in attributes (format/3b 8).

use cenote_base::ObjectId;
use cenote_ondisk::acl::Ace;

/// A list as it is stored in attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoredAcl {
    /// There is none.
    #[default]
    None,
    /// So many entries in their stored form.
    Encoded {
        /// How many.
        count: usize,
        /// The entries.
        bytes: Vec<u8>,
    },
    /// The entries of a legacy znode.
    Decoded(Vec<Ace>),
    /// The entries are another object's contents.
    External {
        /// How many.
        count: usize,
        /// Whether they are of the form before file system version 3.
        is_old: bool,
        /// The object.
        object: ObjectId,
    },
}
