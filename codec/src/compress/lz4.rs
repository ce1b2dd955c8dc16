//! LZ4: a big-endian u32 length, then that many bytes of one raw LZ4 block (format/2a 4.5).

use super::kind::{Compression, DecompressError};
use lz4_flex::block;
use std::cell::RefCell;

const HEADER: usize = 4;

pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    let truncated = DecompressError::Truncated(Compression::Lz4, stored.len());
    let (header, rest) = stored.split_first_chunk::<HEADER>().ok_or(truncated)?;
    let length = u32::from_be_bytes(*header) as usize;
    let stream = rest.get(..length).ok_or(truncated)?;
    let size = out.len();
    match block::decompress_into(stream, out) {
        Ok(produced) if produced == size => Ok(()),
        Ok(produced) => Err(DecompressError::Short(Compression::Lz4, produced, size)),
        Err(block::DecompressError::OutputTooSmall { .. }) => {
            Err(DecompressError::Overlong(Compression::Lz4, size))
        }
        Err(_) => Err(DecompressError::Corrupt(Compression::Lz4)),
    }
}

pub(super) fn compress(data: &[u8], out: &mut [u8]) -> Option<usize> {
    // The encoder insists on room for the worst case, hence a scratch buffer: at most 18 MiB, for
    // the largest block, and kept by the thread only up to the common sizes.
    const SCRATCH_KEPT: usize = 2 << 20;
    thread_local! {
        static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    let (header, rest) = out.split_first_chunk_mut::<HEADER>()?;
    let bound = block::get_maximum_output_size(data.len());
    let length = if rest.len() >= bound {
        block::compress_into(data, rest).ok()?
    } else {
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < bound {
                scratch.resize(bound, 0);
            }
            let length = block::compress_into(data, scratch).ok();
            let fits = length.filter(|length| *length <= rest.len());
            if let Some(length) = fits {
                rest[..length].copy_from_slice(&scratch[..length]);
            }
            if scratch.len() > SCRATCH_KEPT {
                *scratch = Vec::new();
            }
            fits
        })?
    };
    *header = u32::try_from(length).ok()?.to_be_bytes();
    Some(HEADER + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_by_hand() {
        // Token 0x10: one literal, match length 4; then offset 1; then the last 5 literals.
        let stored = [
            0, 0, 0, 10, 0x10, b'a', 1, 0, 0x50, b'v', b'w', b'x', b'y', b'z', 0, 0,
        ];
        let mut out = [0; 10];
        assert_eq!(decompress(&stored, &mut out), Ok(()));
        assert_eq!(&out, b"aaaaavwxyz");
        let mut long = [0; 11];
        let result = decompress(&stored, &mut long);
        assert_eq!(
            result,
            Err(DecompressError::Short(Compression::Lz4, 10, 11))
        );
    }

    #[test]
    fn a_length_beyond_the_stored_bytes_is_refused() {
        let mut out = [0; 8];
        for length in [5u32, u32::MAX] {
            let mut stored = length.to_be_bytes().to_vec();
            stored.extend_from_slice(&[0; 4]);
            let result = decompress(&stored, &mut out);
            assert_eq!(result, Err(DecompressError::Truncated(Compression::Lz4, 8)));
        }
    }
}
