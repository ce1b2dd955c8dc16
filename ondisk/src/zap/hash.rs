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

/// `TABLES[k][byte]` is what a byte adds to the sum when `k` bytes follow it: eight lookups that
/// do not wait for each other take eight bytes in.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ (if crc & 1 != 0 { POLYNOMIAL } else { 0 });
            bit += 1;
        }
        tables[0][i] = crc;
        i += 1;
    }
    let mut k = 1;
    while k < 8 {
        let mut i = 0;
        while i < 256 {
            let before = tables[k - 1][i];
            tables[k][i] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            i += 1;
        }
        k += 1;
    }
    tables
}

/// Takes eight bytes in, the first one lowest.
fn add_word(crc: u64, word: u64) -> u64 {
    let bytes = (crc ^ word).to_le_bytes();
    let each = bytes.iter().zip(TABLES.iter().rev());
    each.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
}

fn add_bytes(start: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    let crc = words.by_ref().fold(start, |crc, word| {
        let word = word.try_into().expect("chunks of 8 bytes");
        add_word(crc, u64::from_le_bytes(word))
    });
    words.remainder().iter().fold(crc, |crc, byte| {
        (crc >> 8) ^ TABLES[0][usize::from((crc as u8) ^ byte)]
    })
}

/// The top `bits` (1 to 64) of `hash`, the rest zero.
pub fn cut(hash: u64, bits: u32) -> u64 {
    assert!((1..=64).contains(&bits));
    hash & (u64::MAX << (64 - bits))
}

/// The hash of a name (without its NUL, normalized if the ZAP says so) in a ZAP with `salt`.
pub fn hash_name(salt: u64, name: &[u8], bits: u32) -> u64 {
    cut(add_bytes(salt, name), bits)
}

/// The hash of a key of numbers in a ZAP with `salt`.
pub fn hash_words(salt: u64, words: &[u64], bits: u32) -> u64 {
    let crc = words.iter().fold(salt, |crc, word| add_word(crc, *word));
    cut(crc, bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_crc_definition() {
        // CRC-64/XZ ("123456789" -> 995dc9bbdf1939fa) has the same polynomial, with all bits
        // set at the start and inverted at the end.
        let crc = add_bytes(u64::MAX, b"123456789");
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
