//! Newtypes for the numbers that name things in a pool.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The bare number.
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

id! {
    /// A transaction group number. 0 means never; a new pool starts at 4 (format/1-pool.md 1.1).
    Txg(u64)
}
id! {
    /// An object's number within its object set; 0 is the meta-dnode.
    ObjectId(u64)
}
id! {
    /// An object set: the MOS object number of its dataset, or 0 for the MOS itself.
    ObjsetId(u64)
}
id! {
    /// A globally unique random number naming a pool, vdev or dataset.
    Guid(u64)
}
id! {
    /// The position of a top-level vdev among the children of the root vdev.
    VdevId(u64)
}
id! {
    /// A block's number at its level of an object's block tree, in blocks of that level.
    BlockId(u64)
}
id! {
    /// A block's height above the data: 0 is data, up to 11 for the highest indirect level.
    Level(u8)
}

impl ObjsetId {
    /// The meta object set: the pool's own directory of everything.
    pub const MOS: ObjsetId = ObjsetId(0);
}
