//! How large a stream will be, without making it (format/4 8).
//!
//! The accounting knows how much a snapshot refers to, and how much was written between two. Each
//! block brings a header of 312 bytes with it and takes its pointer of 128 bytes away; how many
//! there are is guessed by the size that the dataset gives its blocks. Two records of 312 bytes
//! are around them.

use super::unreadable;
use crate::error::StreamError;
use cenote_dsl::{Bookmark, Dataset, DatasetType, Property, SpaceTriple};

const RECORD: u64 = 312;
const POINTER: u64 = 128;

/// What the receiver has.
#[derive(Clone, Copy, Debug)]
pub enum Known<'a> {
    /// Nothing.
    Nothing,
    /// A snapshot.
    Snapshot(&'a Dataset),
    /// The snapshot that a bookmark remembers.
    Bookmark(&'a Bookmark),
}

/// The estimated bytes of the stream of `snapshot`. `None` if only sending it would show them: from
/// a bookmark without sizes, or from a base that is not before it.
///
/// # Errors
/// If the accounting cannot be read.
pub fn estimate(
    snapshot: &Dataset,
    known: Known<'_>,
    compressed: bool,
) -> Result<Option<u64>, StreamError> {
    let space = match known {
        Known::Nothing => Some(SpaceTriple {
            used: snapshot.phys().referenced_bytes,
            compressed: snapshot.phys().compressed_bytes,
            uncompressed: snapshot.phys().uncompressed_bytes,
        }),
        Known::Snapshot(base) => snapshot.space_written_since(base).map_err(unreadable)?,
        Known::Bookmark(base) => snapshot
            .space_written_since_bookmark(base)
            .map_err(unreadable)?,
    };
    let Some(space) = space else {
        return Ok(None);
    };
    let block_size = match snapshot.dataset_type().map_err(unreadable)? {
        DatasetType::Volume => Property::VolumeBlockSize,
        _ => Property::RecordSize,
    };
    let block_size = snapshot.stored_number(block_size).map_err(unreadable)?;
    let blocks = space.uncompressed / block_size.max(512);
    let bytes = match compressed {
        true => space.compressed,
        false => space.uncompressed,
    };
    Ok(Some(with_records(bytes, blocks)))
}

fn with_records(bytes: u64, blocks: u64) -> u64 {
    let contents = bytes.saturating_sub(blocks.saturating_mul(POINTER));
    contents
        .saturating_add(blocks.saturating_mul(RECORD))
        .saturating_add(2 * RECORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_bring_headers() {
        assert_eq!(with_records(0, 0), 624);
        assert_eq!(with_records(1 << 20, 8), (1 << 20) + 8 * 184 + 624);
        assert_eq!(with_records(u64::MAX, u64::MAX), u64::MAX);
    }
}
