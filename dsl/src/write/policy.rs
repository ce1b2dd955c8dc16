//! How the blocks of a head are stored (format/3c 4).

use cenote_dmu::{BlockKind, PolicySource};
use cenote_io::{DedupPolicy, WritePolicy};
use cenote_ondisk::features;
use cenote_ondisk::{ChecksumKind, CompressionKind, ObjectType};
use cenote_vdev::AllocationClass;

/// How much metadata is stored in one more copy than data (`redundant_metadata`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedundantMetadata {
    /// All of it.
    #[default]
    All,
    /// Not the lowest indirect blocks of files.
    Most,
    /// Only what many files depend on.
    Some,
    /// None.
    None,
}

impl RedundantMetadata {
    pub(super) fn from_number(number: u64) -> Self {
        match number {
            1 => Self::Most,
            2 => Self::Some,
            3 => Self::None,
            _ => Self::All,
        }
    }

    /// Whether a metadata block gets one more copy (format/3c 4).
    fn covers(self, block: &BlockKind) -> bool {
        let is_metadata_type = block.object_type.is_metadata();
        match self {
            Self::All => true,
            Self::Most => block.level.0 >= 2 || is_metadata_type || block.is_spill,
            Self::Some => {
                let is_dnodes = block.object_type == ObjectType::DNODE && block.level.0 == 0;
                let many = is_metadata_type
                    && block.object_type != ObjectType::DIRECTORY
                    && block.object_type != ObjectType::SYSTEM_ATTRIBUTES
                    && !block.is_spill
                    && block.object_type != ObjectType::DNODE;
                is_dnodes || many
            }
            Self::None => false,
        }
    }
}

/// Features of functions that not every pool has.
const FUNCTION_FEATURES: [&str; 6] = [
    features::LZ4_COMPRESS,
    features::ZSTD_COMPRESS,
    features::SHA512,
    features::SKEIN,
    features::EDONR,
    features::BLAKE3,
];

/// The feature of a checksum function.
pub(super) fn feature_of_checksum(kind: ChecksumKind) -> Option<&'static str> {
    match kind {
        ChecksumKind::Sha512 => Some(features::SHA512),
        ChecksumKind::Skein => Some(features::SKEIN),
        ChecksumKind::Edonr => Some(features::EDONR),
        ChecksumKind::Blake3 => Some(features::BLAKE3),
        _ => None,
    }
}

/// The feature of a compression function.
fn feature_of_compression(kind: CompressionKind) -> Option<&'static str> {
    match kind {
        CompressionKind::Lz4 => Some(features::LZ4_COMPRESS),
        CompressionKind::Zstd => Some(features::ZSTD_COMPRESS),
        _ => None,
    }
}

/// Which of [`FUNCTION_FEATURES`] a pool has, a bit for each.
///
/// A dnode may name functions of its own, and may come from anywhere. If a block used a function
/// whose feature is not active, other implementations could not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Functions(u8);

impl Functions {
    pub(super) fn of(has: impl Fn(&str) -> bool) -> Self {
        let bits = FUNCTION_FEATURES.iter().enumerate();
        Self(bits.fold(0, |all, (bit, guid)| all | u8::from(has(guid)) << bit))
    }

    fn allow(self, feature: Option<&str>) -> bool {
        let Some(feature) = feature else {
            return true;
        };
        let mut all = FUNCTION_FEATURES.iter().enumerate();
        all.any(|(bit, guid)| *guid == feature && self.0 >> bit & 1 == 1)
    }
}

/// The properties of a head that its blocks and its space depend on, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadPolicy {
    /// Checksum of data.
    pub checksum: ChecksumKind,
    /// Compression of data.
    pub compression: CompressionKind,
    /// zstd's level; 0 for the default.
    pub zstd_level: i32,
    /// Functions that objects may ask for themselves.
    pub functions: Functions,
    /// Compression of metadata.
    pub metadata_compression: CompressionKind,
    /// Copies of data.
    pub copies: u8,
    /// Further copies of metadata.
    pub redundant_metadata: RedundantMetadata,
    /// Data blocks of at most this many bytes go to the special class; 0 for none.
    pub special_small_blocks: u64,
    /// Deduplication.
    pub dedup: Option<DedupPolicy>,
    /// Whether the dataset is encrypted.
    pub encrypt: bool,
    /// Whether holes have births.
    pub hole_birth: bool,
    /// Whether tiny blocks are embedded in their pointers.
    pub embed: bool,
    /// Bytes that the dataset itself has reserved.
    pub refreservation: u64,
    /// Bytes that the dataset itself may refer to; 0 for no limit.
    pub refquota: u64,
}

impl HeadPolicy {
    /// What an object asks for itself, if the pool allows it.
    fn own_checksum(&self, block: &BlockKind) -> Option<ChecksumKind> {
        let is_allowed = |kind: &ChecksumKind| self.functions.allow(feature_of_checksum(*kind));
        block.checksum.filter(is_allowed)
    }

    fn own_compression(&self, block: &BlockKind) -> Option<CompressionKind> {
        let is_allowed =
            |kind: &CompressionKind| self.functions.allow(feature_of_compression(*kind));
        block.compression.filter(is_allowed)
    }

    fn metadata_checksum(&self) -> ChecksumKind {
        use ChecksumKind::{Blake3, Edonr, Fletcher4, Sha256, Sha512, Skein};
        match self.checksum {
            kind @ (Fletcher4 | Sha256 | Sha512 | Skein | Edonr | Blake3) => kind,
            _ => Fletcher4,
        }
    }
}

impl PolicySource for HeadPolicy {
    fn policy(&self, block: &BlockKind) -> WritePolicy {
        let is_metadata = block.level.0 > 0 || block.object_type.is_metadata() || block.is_spill;
        let copies_max = if self.encrypt { 2 } else { 3 };
        let common = WritePolicy {
            encrypt: self.encrypt,
            embed: self.embed,
            hole_birth: self.hole_birth,
            ..WritePolicy::default()
        };
        if !is_metadata {
            return WritePolicy {
                checksum: self.own_checksum(block).unwrap_or(self.checksum),
                compression: self.own_compression(block).unwrap_or(self.compression),
                zstd_level: self.zstd_level,
                copies: self.copies.min(copies_max),
                dedup: self.dedup,
                special_small_blocks: match block.object_type {
                    // The property is one of file systems, as in OpenZFS 2.3: 2.4 obeys it for
                    // volumes, too.
                    ObjectType::ZVOL => 0,
                    _ => self.special_small_blocks,
                },
                ..common
            };
        }
        let more = u8::from(self.redundant_metadata.covers(block));
        let is_protected = self.encrypt
            && block.level.0 == 0
            && matches!(block.object_type, ObjectType::DNODE | ObjectType::OBJSET);
        let compression = match is_protected {
            true => CompressionKind::Off,
            false => self.metadata_compression,
        };
        WritePolicy {
            checksum: self.metadata_checksum(),
            compression,
            copies: (self.copies + more).min(copies_max),
            dedup: None,
            class: AllocationClass::Special,
            ..common
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::Level;

    #[test]
    fn functions_need_their_features() {
        let functions = Functions::of(|guid| guid == features::SKEIN);
        assert!(functions.allow(feature_of_checksum(ChecksumKind::Skein)));
        assert!(functions.allow(feature_of_checksum(ChecksumKind::Sha256)));
        assert!(!functions.allow(feature_of_checksum(ChecksumKind::Blake3)));
        assert!(!functions.allow(feature_of_compression(CompressionKind::Zstd)));
        let gzip = feature_of_compression(CompressionKind::Gzip(6));
        assert!(functions.allow(gzip));
    }

    /// A volume inherited `special_small_blocks` from its parent, and filled the special vdevs.
    #[test]
    fn only_blocks_of_files_are_small() {
        let policy = HeadPolicy {
            checksum: ChecksumKind::Fletcher4,
            compression: CompressionKind::Off,
            zstd_level: 0,
            functions: Functions::of(|_| false),
            metadata_compression: CompressionKind::Lz4,
            copies: 1,
            redundant_metadata: RedundantMetadata::from_number(0),
            special_small_blocks: 32 << 10,
            dedup: None,
            encrypt: false,
            hole_birth: true,
            embed: false,
            refreservation: 0,
            refquota: 0,
        };
        let small = |object_type| {
            let block = BlockKind {
                object_type,
                level: Level(0),
                is_spill: false,
                logical_size: 16 << 10,
                checksum: None,
                compression: None,
            };
            policy.policy(&block).special_small_blocks
        };
        assert_eq!(small(ObjectType::PLAIN_FILE), 32 << 10);
        assert_eq!(small(ObjectType::ZVOL), 0);
    }
}
