//! LZJB: 9-bit literals and 17-bit matches, ZFS's first compressor.
//!
//! A stream is groups of one *copymap* byte and up to eight items; the map's bits, lowest first,
//! tell literals (0, one byte) from matches (1, two bytes: length - 3 in 6 bits, then a 10-bit
//! distance). There is no end mark: decoding stops when the block is full (format/2a 4.3).

use super::kind::{Compression, DecompressError};
use super::output::Output;

const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 66;
const DISTANCE_MAX: usize = 1023;
const HASH_BITS: u32 = 12;

pub(super) fn decompress(stored: &[u8], out: &mut [u8]) -> Result<(), DecompressError> {
    let truncated = DecompressError::Truncated(Compression::Lzjb, stored.len());
    let mut input = stored.iter().copied();
    let mut at = 0;
    while at < out.len() {
        let map = input.next().ok_or(truncated)?;
        for item in 0..8 {
            if at == out.len() {
                break;
            }
            let first = input.next().ok_or(truncated)?;
            if map >> item & 1 == 0 {
                out[at] = first;
                at += 1;
                continue;
            }
            let second = input.next().ok_or(truncated)?;
            let length = usize::from(first >> 2) + MATCH_MIN;
            let distance = usize::from(first & 3) << 8 | usize::from(second);
            if distance == 0 || distance > at {
                return Err(DecompressError::Corrupt(Compression::Lzjb));
            }
            at = copy_match(out, at, distance, length);
        }
    }
    Ok(())
}

/// Copies a match that may overlap itself and is cut at the block's end; returns the new position.
fn copy_match(out: &mut [u8], at: usize, distance: usize, length: usize) -> usize {
    debug_assert!(distance >= 1 && distance <= at);
    let end = out.len().min(at + length);
    if distance >= length {
        out.copy_within(at - distance..end - distance, at);
    } else {
        for position in at..end {
            out[position] = out[position - distance];
        }
    }
    end
}

/// Greedy encoder with one candidate per hash of three bytes.
pub(super) fn compress(data: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut out = Output::new(out);
    // Positions are stored plus one, so that 0 means "none yet".
    let mut table = [0u32; 1 << HASH_BITS];
    let mut at = 0;
    while at < data.len() {
        let map_at = out.at;
        out.push(0)?;
        for item in 0..8 {
            if at == data.len() {
                break;
            }
            if let Some((distance, length)) = find_match(data, at, &mut table) {
                let high = (distance >> 8) as u8;
                out.push(((length - MATCH_MIN) as u8) << 2 | high)?;
                out.push(distance as u8)?;
                out.bytes[map_at] |= 1 << item;
                at += length;
            } else {
                out.push(data[at])?;
                at += 1;
            }
        }
    }
    Some(out.at)
}

/// The distance and length of a match at `at`, and `at` itself put into the table.
fn find_match(data: &[u8], at: usize, table: &mut [u32; 1 << HASH_BITS]) -> Option<(usize, usize)> {
    let here = data.get(at..at + MATCH_MIN)?;
    let key = u32::from_le_bytes([here[0], here[1], here[2], 0]);
    let slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize;
    let candidate = std::mem::replace(&mut table[slot], u32::try_from(at + 1).ok()?) as usize;
    let start = candidate.checked_sub(1)?;
    let distance = at - start;
    if distance == 0 || distance > DISTANCE_MAX || data[start..start + MATCH_MIN] != *here {
        return None;
    }
    let limit = MATCH_MAX.min(data.len() - at);
    let mut length = MATCH_MIN;
    while length < limit && data[start + length] == data[at + length] {
        length += 1;
    }
    Some((distance, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_by_hand() {
        // Literals "a" "b" "c", then a match of 6 at distance 3, then literal "x".
        let stored = [0b0000_1000, b'a', b'b', b'c', (6 - 3) << 2, 3, b'x'];
        let mut out = [0; 10];
        assert_eq!(decompress(&stored, &mut out), Ok(()));
        assert_eq!(&out, b"abcabcabcx");
    }

    #[test]
    fn distances_before_the_block_are_corrupt() {
        let mut out = [0; 10];
        for distance in [0, 2] {
            let stored = [0b10, b'a', 0, distance, 0, 0, 0, 0, 0];
            let result = decompress(&stored, &mut out);
            assert_eq!(result, Err(DecompressError::Corrupt(Compression::Lzjb)));
        }
    }

    #[test]
    fn zeros_shrink_to_a_thirtieth() {
        let mut out = vec![0; 8192];
        let length = compress(&vec![0; 131072], &mut out).expect("2 bytes per 66 and the maps");
        assert!(length < 131072 / 30, "{length}");
    }
}
