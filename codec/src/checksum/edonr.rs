//! Edon-R-512 in the form that ZFS uses, prefixed with a block made of the pool's salt.
//!
//! The hash works on two 8-word halves with a *quasigroup* operation ([`quasigroup`]): each input
//! is spread by sums and rotations, then by xors, and the two are added. Per 128-byte block the
//! operation is applied eight times in a fixed pattern (format/2a 6). The salt enters as a first
//! block `H(salt) H(H(salt))`, so a salted state is computed once ([`EdonR::salted`]).

type Half = [u64; 8];

/// Added to sum 0 of the first operand; its complement to sum 0 of the second.
const CONSTANT: u64 = 0xaaaa_aaaa_aaaa_aaaa;
const BLOCK: usize = 128;

/// A running Edon-R-512 at a block border.
#[derive(Clone)]
pub(super) struct EdonR {
    low: Half,
    high: Half,
    bytes: u64,
}

impl EdonR {
    /// The state before any data: bytes 0x80, 0x81, ... 0xff read as big-endian words.
    pub(super) fn new() -> Self {
        let word = |index: usize| {
            u64::from_be_bytes(std::array::from_fn(|byte| (0x80 + 8 * index + byte) as u8))
        };
        Self {
            low: std::array::from_fn(word),
            high: std::array::from_fn(|index| word(index + 8)),
            bytes: 0,
        }
    }

    /// The state after the block that ZFS derives from the pool's salt.
    pub(super) fn salted(salt: &[u8; 32]) -> Self {
        let first = Self::new().hash(salt);
        let second = Self::new().hash(&first);
        let mut block = [0; BLOCK];
        block[..64].copy_from_slice(&first);
        block[64..].copy_from_slice(&second);
        let mut state = Self::new();
        state.blocks(&[block]);
        state
    }

    /// The digest of everything so far followed by `data`.
    pub(super) fn hash(&self, data: &[u8]) -> [u8; 64] {
        let mut state = self.clone();
        let (blocks, rest) = data.as_chunks::<BLOCK>();
        state.blocks(blocks);
        let bits = (state.bytes + rest.len() as u64).wrapping_mul(8);
        let mut tail = [[0; BLOCK]; 2];
        tail[0][..rest.len()].copy_from_slice(rest);
        tail[0][rest.len()] = 0x80;
        // The length needs the last 8 bytes: with more than 119 bytes of rest it is in a 2nd block.
        let last = usize::from(rest.len() + 1 + 8 > BLOCK);
        tail[last][BLOCK - 8..].copy_from_slice(&bits.to_le_bytes());
        state.blocks(&tail[..=last]);
        let mut out = [0; 64];
        for (bytes, word) in out.chunks_exact_mut(8).zip(state.high) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn blocks(&mut self, blocks: &[[u8; BLOCK]]) {
        let (mut low, mut high) = (self.low, self.high);
        for block in blocks {
            let (words, _) = block.as_chunks::<8>();
            let m0: Half = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
            let m1: Half = std::array::from_fn(|word| u64::from_le_bytes(words[word + 8]));
            (low, high) = mix(&low, &high, &m0, &m1);
        }
        (self.low, self.high) = (low, high);
        self.bytes += (blocks.len() * BLOCK) as u64;
    }
}

#[inline(always)]
fn reversed(half: &Half) -> Half {
    std::array::from_fn(|word| half[7 - word])
}

#[inline(always)]
fn xor3(x: &Half, y: &Half, z: &Half) -> Half {
    std::array::from_fn(|word| x[word] ^ y[word] ^ z[word])
}

/// The compression function: the new halves after the message block `m0 m1`.
#[inline(always)]
fn mix(low: &Half, high: &Half, m0: &Half, m1: &Half) -> (Half, Half) {
    let p = quasigroup(&reversed(m1), m0);
    let q = quasigroup(&p, m1);
    let p = quasigroup(high, &p);
    let q = quasigroup(&p, &q);
    let p = quasigroup(&p, low);
    let q = quasigroup(&q, &p);
    let p = quasigroup(&reversed(m0), &p);
    let q = quasigroup(&p, &q);
    (xor3(low, m1, &p), xor3(high, m0, &q))
}

macro_rules! sum {
    ($x:ident, $rotation:expr, $first:expr $(, $index:expr)*) => {
        $x[$first]$(.wrapping_add($x[$index]))*.rotate_left($rotation)
    };
}

/// The quasigroup operation Q(x, y); the index tables are format/2a 6's.
///
/// Sums shared between rows are left to the compiler's common subexpressions.
#[inline(always)]
fn quasigroup(x: &Half, y: &Half) -> Half {
    let s = spread_first(x);
    let t = spread_second(y);
    [
        (s[0] ^ s[1] ^ s[4]).wrapping_add(t[0] ^ t[1] ^ t[5]),
        (s[0] ^ s[4] ^ s[7]).wrapping_add(t[2] ^ t[6] ^ t[7]),
        (s[1] ^ s[6] ^ s[7]).wrapping_add(t[0] ^ t[1] ^ t[3]),
        (s[2] ^ s[3] ^ s[4]).wrapping_add(t[0] ^ t[3] ^ t[4]),
        (s[0] ^ s[1] ^ s[7]).wrapping_add(t[1] ^ t[2] ^ t[5]),
        (s[3] ^ s[5] ^ s[6]).wrapping_add(t[3] ^ t[4] ^ t[6]),
        (s[2] ^ s[5] ^ s[6]).wrapping_add(t[2] ^ t[5] ^ t[7]),
        (s[2] ^ s[3] ^ s[5]).wrapping_add(t[4] ^ t[6] ^ t[7]),
    ]
}

#[inline(always)]
fn spread_first(x: &Half) -> Half {
    [
        CONSTANT.wrapping_add(sum!(x, 0, 0, 1, 2, 4, 7)),
        sum!(x, 5, 0, 1, 3, 4, 7),
        sum!(x, 15, 0, 1, 4, 6, 7),
        sum!(x, 22, 2, 3, 5, 6, 7),
        sum!(x, 31, 1, 2, 3, 5, 6),
        sum!(x, 40, 0, 2, 3, 4, 5),
        sum!(x, 50, 0, 1, 5, 6, 7),
        sum!(x, 59, 2, 3, 4, 5, 6),
    ]
}

#[inline(always)]
fn spread_second(y: &Half) -> Half {
    [
        (!CONSTANT).wrapping_add(sum!(y, 0, 0, 1, 2, 5, 7)),
        sum!(y, 10, 0, 1, 3, 4, 6),
        sum!(y, 19, 0, 1, 2, 3, 5),
        sum!(y, 29, 2, 3, 4, 6, 7),
        sum!(y, 36, 0, 1, 3, 4, 5),
        sum!(y, 44, 2, 4, 5, 6, 7),
        sum!(y, 48, 1, 2, 5, 6, 7),
        sum!(y, 55, 0, 3, 4, 6, 7),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn known_answer_of_abc() {
        let digest = EdonR::new().hash(b"abc");
        assert_eq!(digest[..16], hex("1b14db155f1d406594b8cef70a4362ec"));
    }

    #[test]
    fn padding_takes_a_second_block_from_120_bytes_on() {
        // A padded message fed by hand as whole blocks must give the same final state.
        for length in [0usize, 1, 119, 120, 127, 128, 129, 247, 248, 300] {
            let data: Vec<u8> = (0..length).map(|at| (at * 7) as u8).collect();
            let mut padded = data.clone();
            padded.push(0x80);
            while padded.len() % BLOCK != BLOCK - 8 {
                padded.push(0);
            }
            padded.extend_from_slice(&(8 * length as u64).to_le_bytes());
            let mut state = EdonR::new();
            state.blocks(padded.as_chunks::<BLOCK>().0);
            let digest = EdonR::new().hash(&data);
            assert_eq!(digest[..8], state.high[0].to_le_bytes(), "length {length}");
        }
    }

    #[test]
    fn salt_counts_into_the_length() {
        assert_eq!(EdonR::salted(&[7; 32]).bytes, 128);
        assert_ne!(
            EdonR::salted(&[7; 32]).hash(b"x"),
            EdonR::salted(&[8; 32]).hash(b"x")
        );
    }
}
