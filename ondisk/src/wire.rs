//! Bounds-checked reads of integers from disk bytes, with the byte order always spelled out.

use crate::DecodeError;

/// The bytes `[offset, offset + N)` as an array, or an error that names `structure`.
pub fn array<const N: usize>(
    bytes: &[u8],
    offset: usize,
    structure: &'static str,
) -> Result<[u8; N], DecodeError> {
    let slice = slice(bytes, offset, N, structure)?;
    Ok(slice.try_into().expect("slice returns exactly N bytes"))
}

/// The bytes `[offset, offset + length)`, or an error that names `structure`.
pub fn slice<'a>(
    bytes: &'a [u8],
    offset: usize,
    length: usize,
    structure: &'static str,
) -> Result<&'a [u8], DecodeError> {
    offset
        .checked_add(length)
        .and_then(|end| bytes.get(offset..end))
        .ok_or(DecodeError::Truncated {
            structure,
            offset,
            needed: length,
            available: bytes.len().saturating_sub(offset),
        })
}

/// A little-endian u64 at `offset`.
pub fn u64_le(bytes: &[u8], offset: usize, structure: &'static str) -> Result<u64, DecodeError> {
    Ok(u64::from_le_bytes(array(bytes, offset, structure)?))
}

/// A little-endian u32 at `offset`.
pub fn u32_le(bytes: &[u8], offset: usize, structure: &'static str) -> Result<u32, DecodeError> {
    Ok(u32::from_le_bytes(array(bytes, offset, structure)?))
}

/// A little-endian u16 at `offset`.
pub fn u16_le(bytes: &[u8], offset: usize, structure: &'static str) -> Result<u16, DecodeError> {
    Ok(u16::from_le_bytes(array(bytes, offset, structure)?))
}

/// Little-endian words, followed by zeros up to `N` bytes.
pub fn words_to_bytes<const N: usize>(words: &[u64]) -> [u8; N] {
    assert!(words.len() * 8 <= N);
    let mut bytes = [0; N];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The bits `[low, low + length)` of `word`; bit 0 is the least significant.
pub const fn bits(word: u64, low: u32, length: u32) -> u64 {
    assert!(length > 0 && low + length <= 64);
    (word >> low) & (u64::MAX >> (64 - length))
}

/// `word` with the bits `[low, low + length)` replaced by `value`, which must fit.
pub const fn with_bits(word: u64, low: u32, length: u32, value: u64) -> u64 {
    assert!(length > 0 && low + length <= 64);
    let mask = u64::MAX >> (64 - length);
    assert!(value <= mask, "the value fits its field");
    (word & !(mask << low)) | (value << low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stop_at_the_end() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(u64_le(&bytes, 0, "test"), Ok(1));
        let truncated = u64_le(&bytes, 2, "test").expect_err("7 bytes are left");
        let expected = DecodeError::Truncated {
            structure: "test",
            offset: 2,
            needed: 8,
            available: 7,
        };
        assert_eq!(truncated, expected);
        assert!(
            u64_le(&bytes, usize::MAX, "test").is_err(),
            "the end does not wrap"
        );
    }

    #[test]
    fn bit_fields_are_inverse() {
        let word = with_bits(u64::MAX, 16, 16, 0x1234);
        assert_eq!(bits(word, 16, 16), 0x1234);
        assert_eq!(bits(word, 0, 16), 0xffff);
        assert_eq!(bits(word, 0, 64), word);
    }
}
