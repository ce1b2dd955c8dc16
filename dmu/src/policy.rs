//! How the blocks of an object set are to be stored: the part that its owner decides.

use cenote_base::Level;
use cenote_io::WritePolicy;
use cenote_ondisk::dnode::Dnode;
use cenote_ondisk::{ChecksumKind, CompressionKind, ObjectType};

/// What a policy goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockKind {
    /// The type of the object; of a spill block, that of the bonus buffer.
    pub object_type: ObjectType,
    /// The block's height above the data.
    pub level: Level,
    /// It is a spill block.
    pub is_spill: bool,
    /// Bytes of its contents.
    pub logical_size: u64,
    /// The object's own checksum function, if it does not inherit the dataset's.
    pub checksum: Option<ChecksumKind>,
    /// The object's own compression function, if it does not inherit the dataset's.
    pub compression: Option<CompressionKind>,
}

impl BlockKind {
    /// A block of `level` of the object with this dnode.
    pub(crate) fn of(dnode: &Dnode, level: u8, logical_size: u64) -> Self {
        let checksum = ChecksumKind::from_number(dnode.checksum);
        let compression = CompressionKind::from_number(dnode.compression);
        Self {
            object_type: dnode.object_type,
            level: Level(level),
            is_spill: false,
            logical_size,
            checksum: checksum.filter(|kind| *kind != ChecksumKind::Inherit),
            compression: compression.filter(|kind| *kind != CompressionKind::Inherit),
        }
    }
}

/// Says how blocks are stored.
pub trait PolicySource: Send + Sync {
    /// The policy for a block.
    fn policy(&self, block: &BlockKind) -> WritePolicy;
}
