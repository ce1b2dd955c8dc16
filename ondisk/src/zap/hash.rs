//! The hash of ZAP keys (format/2b 5.4): a CRC-64 that starts from the ZAP's salt.
//!
//! Only the top bits count: 28, or 48 with [`super::fat_header::FLAG_HASH64`]; the others are
//! zero. Names are hashed as normalized, if the ZAP has normalization flags: that is the
//! caller's to do.

/// Hash bits of micro ZAPs and of fat ones without `HASH64`.
pub const HASH_BITS: u32 = 28;
/// Hash bits of fat ZAPs with `HASH64`.
pub const HASH_BITS_64: u32 = 48;

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

const TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (if crc & 1 != 0 { POLYNOMIAL } else { 0 });
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

fn crc(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |crc, byte| {
        (crc >> 8) ^ TABLE[usize::from((crc as u8) ^ byte)]
    })
}

/// The top `bits` (1 to 64) of `hash`, the rest zero.
pub fn cut(hash: u64, bits: u32) -> u64 {
    assert!((1..=64).contains(&bits));
    hash & (u64::MAX << (64 - bits))
}

/// The hash of a name (without its NUL, normalized if the ZAP says so) in a ZAP with `salt`.
pub fn hash_name(salt: u64, name: &[u8], bits: u32) -> u64 {
    cut(crc(salt, name.iter().copied()), bits)
}

/// The hash of a key of numbers in a ZAP with `salt`.
pub fn hash_words(salt: u64, words: &[u64], bits: u32) -> u64 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    cut(crc(salt, bytes), bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_crc_definition() {
        // CRC-64/XZ ("123456789" -> 995dc9bbdf1939fa) has the same polynomial, with all bits
        // set at the start and inverted at the end.
        let crc = crc(u64::MAX, b"123456789".iter().copied());
        assert_eq!(!crc, 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn words_are_their_little_endian_bytes_and_low_bits_are_cut() {
        let bytes = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        let hash = hash_words(99, &[1, 2], HASH_BITS_64);
        assert_eq!(hash, hash_name(99, &bytes, 48));
        assert_eq!(hash & 0xffff, 0);
        assert_eq!(hash_name(99, &bytes, HASH_BITS), cut(hash, 28));
        assert_eq!(cut(hash, 28) & ((1 << 36) - 1), 0);
    }
}
