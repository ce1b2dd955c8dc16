//! Gzip in name only: a zlib stream (two header bytes, deflate, Adler-32; format/2a 4.7).

use super::kind::{Compression, DecompressError};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use std::cell::RefCell;

pub(super) fn decompress(
    kind: Compression,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), DecompressError> {
    thread_local! {
        static DECODER: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    }
    let size = out.len();
    // The decoder stops at the end of the stream, so padding behind it does no harm.
    match DECODER.with_borrow_mut(|decoder| decoder.zlib_decompress(stored, out)) {
        Ok(produced) if produced == size => Ok(()),
        Ok(produced) => Err(DecompressError::Short(kind, produced, size)),
        Err(DecompressionError::InsufficientSpace) => Err(DecompressError::Overlong(kind, size)),
        Err(DecompressionError::BadData) => Err(DecompressError::Corrupt(kind)),
    }
}

pub(super) fn compress(level: u8, data: &[u8], out: &mut [u8]) -> Option<usize> {
    // One encoder per thread, for the level used last: datasets rarely alternate levels, and an
    // encoder's tables take up to a few MiB.
    thread_local! {
        static ENCODER: RefCell<Option<(u8, Compressor)>> = const { RefCell::new(None) };
    }
    if !(1..=9).contains(&level) {
        return None;
    }
    ENCODER.with_borrow_mut(|slot| {
        if slot.as_ref().is_none_or(|(kept, _)| *kept != level) {
            *slot = Some((
                level,
                Compressor::new(CompressionLvl::new(i32::from(level)).ok()?),
            ));
        }
        let (_, encoder) = slot.as_mut()?;
        encoder.zlib_compress(data, out).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_stream_by_hand() {
        // Header 78 01, one final stored block of 3 bytes, Adler-32 of "abc" = 0x024d0127.
        let stored = [
            0x78, 0x01, 0x01, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0x02, 0x4d, 0x01, 0x27, 0, 0, 0,
        ];
        let mut out = [0; 3];
        assert_eq!(decompress(Compression::Gzip(6), &stored, &mut out), Ok(()));
        assert_eq!(&out, b"abc");
        let mut wrong = stored;
        wrong[8] ^= 1;
        let result = decompress(Compression::Gzip(6), &wrong, &mut out);
        assert_eq!(result, Err(DecompressError::Corrupt(Compression::Gzip(6))));
    }

    #[test]
    fn every_level_and_no_other() {
        let data = b"the same words, the same words, the same words".repeat(40);
        let mut stored = vec![0; 4096];
        for level in 1..=9 {
            let length = compress(level, &data, &mut stored).expect("a level of the format");
            let mut out = vec![0; data.len()];
            assert_eq!(
                decompress(Compression::Gzip(level), &stored[..length], &mut out),
                Ok(())
            );
            assert_eq!(out, data);
        }
        assert_eq!(compress(0, &data, &mut stored), None);
        assert_eq!(compress(10, &data, &mut stored), None);
    }
}
