//! Zstandard: an 8-byte header, then one frame without magic number, content size or checksum.
//!
//! ```text
//! byte 0        4       5              8
//!      | length | level | version      | frame ...
//!      | u32 BE | u8    | u24 BE       |
//! ```
//!
//! `length` counts the frame alone. The level is kept so that a rewrite can compress alike; a
//! reader rejects levels outside the format's table. Early big-endian hosts wrote the second word
//! with the level last; the version's top byte, always zero, then comes first (format/2a 4.6).
//!
//! A frame is decoded in one call straight into the block, which needs no window of its own, so
//! nothing that a frame claims makes the decoder allocate.

use super::kind::{Compression, DecompressError};
use std::cell::RefCell;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

const HEADER: usize = 8;
/// 16 MiB, the largest block: no frame needs to refer further back.
const WINDOW_LOG_MAX: u32 = 24;
/// An encoder that has grown beyond this, at a high level on a large block, is not kept.
const ENCODER_KEPT: usize = 16 << 20;

/// The zstd level that a stored level byte means, if it is one of the format's.
pub fn level_from_stored(byte: u8) -> Option<i32> {
    match byte {
        1..=19 => Some(i32::from(byte)),
        103..=112 => Some(-(i32::from(byte) - 102)),
        113..=121 => Some(-10 * (i32::from(byte) - 111)),
        122 => Some(-500),
        123 => Some(-1000),
        _ => None,
    }
}

/// The byte that stands for a zstd level, if the format has one for it.
pub fn level_to_stored(level: i32) -> Option<u8> {
    (1..=123).find(|byte| level_from_stored(*byte) == Some(level))
}

/// The frame behind a valid header.
fn parse(stored: &[u8]) -> Result<&[u8], DecompressError> {
    let truncated = DecompressError::Truncated(Compression::Zstd, stored.len());
    let (header, rest) = stored.split_first_chunk::<HEADER>().ok_or(truncated)?;
    let [l0, l1, l2, l3, first, _, _, last] = *header;
    let level = if first == 0 { last } else { first };
    if level_from_stored(level).is_none() {
        return Err(DecompressError::ZstdLevel(level));
    }
    rest.get(..u32::from_be_bytes([l0, l1, l2, l3]) as usize)
        .ok_or(truncated)
}

fn decoder() -> Option<DCtx<'static>> {
    let mut context = DCtx::try_create()?;
    context
        .set_parameter(DParameter::Format(FrameFormat::Magicless))
        .ok()?;
    context
        .set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))
        .ok()?;
    Some(context)
}

pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    thread_local! {
        static DECODER: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
    }
    let frame = parse(stored)?;
    let size = out.len();
    DECODER.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = decoder();
        }
        let context = slot
            .as_mut()
            .ok_or(DecompressError::OutOfMemory(Compression::Zstd))?;
        match context.decompress(out, frame) {
            Ok(produced) if produced == size => Ok(()),
            Ok(produced) => Err(DecompressError::Short(Compression::Zstd, produced, size)),
            Err(_) => Err(DecompressError::Corrupt(Compression::Zstd)),
        }
    })
}

fn encoder() -> Option<CCtx<'static>> {
    let mut context = CCtx::try_create()?;
    context
        .set_parameter(CParameter::Format(FrameFormat::Magicless))
        .ok()?;
    context
        .set_parameter(CParameter::ContentSizeFlag(false))
        .ok()?;
    context
        .set_parameter(CParameter::ChecksumFlag(false))
        .ok()?;
    Some(context)
}

/// Encodes at `level`. Whether that is worth its time is the caller's matter.
pub(super) fn compress(level: i32, data: &[u8], out: &mut [u8]) -> Option<usize> {
    thread_local! {
        static ENCODER: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    }
    let stored_level = level_to_stored(level)?;
    let (header, rest) = out.split_first_chunk_mut::<HEADER>()?;
    let length = ENCODER.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = encoder();
        }
        let context = slot.as_mut()?;
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .ok()?;
        let length = context.compress2(rest, data).ok();
        if context.sizeof() > ENCODER_KEPT {
            *slot = None;
        }
        length
    })?;
    header[..4].copy_from_slice(&u32::try_from(length).ok()?.to_be_bytes());
    header[4..].copy_from_slice(&zstd_safe::version_number().to_be_bytes());
    header[4] = stored_level;
    Some(HEADER + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(data: &[u8], level: i32) -> Vec<u8> {
        let mut out = vec![0; data.len() + 200];
        let length = compress(level, data, &mut out).expect("ample room");
        out.truncate(length);
        out
    }

    #[test]
    fn level_table_is_a_bijection() {
        let levels: Vec<i32> = (0..=255).filter_map(level_from_stored).collect();
        assert_eq!(levels.len(), 19 + 21);
        for level in levels {
            let byte = level_to_stored(level).expect("a level of the table");
            assert_eq!(level_from_stored(byte), Some(level));
        }
        let samples = [
            (103, -1),
            (112, -10),
            (113, -20),
            (121, -100),
            (122, -500),
            (123, -1000),
        ];
        for (byte, level) in samples {
            assert_eq!(level_from_stored(byte), Some(level));
        }
        assert_eq!([0, 20, 102, 124, 255].map(level_from_stored), [None; 5]);
    }

    #[test]
    fn header_and_frame_flags() {
        let out = stored(&vec![b'q'; 131072], 3);
        assert_eq!(
            out.len(),
            HEADER + u32::from_be_bytes([out[0], out[1], out[2], out[3]]) as usize
        );
        assert_eq!(out[4], 3);
        // No content size, no checksum, a window of 128 KiB: as OpenZFS's frames start.
        assert_eq!(out[8..10], [0x00, 0x38]);
    }

    #[test]
    fn big_endian_header_and_bad_levels() {
        let data = b"some bytes that repeat, repeat, repeat".repeat(30);
        let mut bytes = stored(&data, -5);
        let mut out = vec![0; data.len()];
        assert_eq!(decompress(&bytes, &mut out), Ok(()));
        let level = bytes[4];
        bytes.copy_within(5..8, 4);
        bytes[7] = level;
        assert_eq!(bytes[4], 0, "the version's top byte");
        out.fill(0);
        assert_eq!(decompress(&bytes, &mut out), Ok(()));
        assert_eq!(out, data);
        bytes[7] = 20;
        assert_eq!(
            decompress(&bytes, &mut out),
            Err(DecompressError::ZstdLevel(20))
        );
    }

    #[test]
    fn fast_and_slow_levels_round_trip() {
        let data: Vec<u8> = (0..200_000u32).map(|at| (at / 7 % 251) as u8).collect();
        for level in [1, 3, 9, 19, -1, -10, -100, -1000] {
            let bytes = stored(&data, level);
            let mut out = vec![0; data.len()];
            assert_eq!(decompress(&bytes, &mut out), Ok(()), "level {level}");
            assert_eq!(out, data);
        }
        assert_eq!(compress(20, &data, &mut vec![0; 300_000]), None);
    }
}
