//! How a dataset's properties say that its blocks be stored (format/3c 4).

use super::policy::{Functions, HeadPolicy, RedundantMetadata};
use crate::dataset::Dataset;
use crate::error::DslError;
use crate::property::table::Property;
use cenote_io::DedupPolicy;
use cenote_ondisk::features;
use cenote_ondisk::{ChecksumKind, CompressionKind};

/// `dedup=on`: which checksum, and `verify` as a bit beside it.
const DEDUP_OFF: u64 = 2;
const DEDUP_VERIFY: u64 = 0x100;

impl HeadPolicy {
    /// The policy by which a dataset's properties ask for it.
    ///
    /// # Errors
    /// If the properties cannot be read.
    pub fn of(dataset: &Dataset) -> Result<Self, DslError> {
        let number = |property| dataset.stored_number(property);
        let features = dataset.dsl().features();
        let fast = match features.is_active(features::LZ4_COMPRESS) {
            true => CompressionKind::Lz4,
            false => CompressionKind::Lzjb,
        };
        let (compression, zstd_level) = compression_of(number(Property::Compression)?, fast);
        let dedup = number(Property::Dedup)?;
        let checksum = match dedup {
            DEDUP_OFF => number(Property::Checksum)?,
            dedup => dedup & !DEDUP_VERIFY,
        };
        let default = match dedup {
            DEDUP_OFF => ChecksumKind::Fletcher4,
            _ => ChecksumKind::Sha256,
        };
        let encrypt = dataset.directory().crypto_key()?.is_some();
        Ok(Self {
            checksum: checksum_of(checksum, default),
            compression,
            zstd_level,
            functions: Functions::of(|guid| features.get(guid).is_some()),
            metadata_compression: fast,
            copies: u8::try_from(number(Property::Copies)?.clamp(1, 3)).unwrap_or(1),
            redundant_metadata: RedundantMetadata::from_number(number(
                Property::RedundantMetadata,
            )?),
            special_small_blocks: number(Property::SpecialSmallBlocks)?,
            dedup: (dedup != DEDUP_OFF).then_some(DedupPolicy {
                verify: dedup & DEDUP_VERIFY != 0,
            }),
            encrypt,
            hole_birth: features.is_active(features::HOLE_BIRTH),
            embed: !encrypt && features.is_active(features::EMBEDDED_DATA),
            refreservation: number(Property::RefReservation)?,
            refquota: number(Property::RefQuota)?,
        })
    }
}

fn checksum_of(number: u64, default: ChecksumKind) -> ChecksumKind {
    let kind = u8::try_from(number).ok();
    match kind.and_then(ChecksumKind::from_number) {
        None | Some(ChecksumKind::Inherit | ChecksumKind::On) => default,
        Some(kind) => kind,
    }
}

/// The function and zstd's level of a value of `compression` (format/3c 5).
fn compression_of(number: u64, fast: CompressionKind) -> (CompressionKind, i32) {
    let kind = u8::try_from(number & 0x7f).ok();
    match kind.and_then(CompressionKind::from_number) {
        None | Some(CompressionKind::Inherit | CompressionKind::On) => (fast, 0),
        Some(CompressionKind::Zstd) => (CompressionKind::Zstd, zstd_level(number >> 7)),
        Some(kind) => (kind, 0),
    }
}

fn zstd_level(code: u64) -> i32 {
    let code = i32::try_from(code).unwrap_or(0);
    match code {
        1..=19 => code,
        103..=112 => 102 - code,
        113..=121 => (111 - code) * 10,
        122 => -500,
        123 => -1000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_zstd_are_decoded() {
        let of = |level: u64| compression_of(16 + (level << 7), CompressionKind::Lz4);
        for (code, level) in [
            (0, 0),
            (1, 1),
            (19, 19),
            (103, -1),
            (112, -10),
            (113, -20),
            (121, -100),
            (122, -500),
            (123, -1000),
        ] {
            assert_eq!(of(code), (CompressionKind::Zstd, level), "code {code}");
        }
        let on = compression_of(1, CompressionKind::Lz4);
        assert_eq!(on, (CompressionKind::Lz4, 0));
        let gzip = compression_of(13, CompressionKind::Lz4);
        assert_eq!(gzip, (CompressionKind::Gzip(9), 0));
    }
}
