//! A quick keyed hash for block names.
//!
//! A name is three words that the creator of a pool may choose, so the hash is keyed at random: no
//! pool can be made whose blocks all meet in one bucket. Folding a 128-bit product mixes each word
//! in about a nanosecond, where the standard hasher takes twenty for a name.

use std::hash::{BuildHasher, Hasher, RandomState};

/// An odd constant with well spread bits (2^64 divided by the golden ratio).
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes hashers with one random key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHashState {
    key: u64,
}

impl BlockHashState {
    /// A key of its own.
    pub(crate) fn new() -> Self {
        Self {
            key: RandomState::new().hash_one(SPREAD),
        }
    }
}

impl Default for BlockHashState {
    fn default() -> Self {
        Self::new()
    }
}

impl BuildHasher for BlockHashState {
    type Hasher = BlockHasher;

    fn build_hasher(&self) -> BlockHasher {
        BlockHasher { state: self.key }
    }
}

/// Folds words into a keyed state.
#[derive(Debug)]
pub(crate) struct BlockHasher {
    state: u64,
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for BlockHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.state = fold(self.state ^ word, SPREAD).wrapping_add(self.state.rotate_left(23));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state, SPREAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockId;

    #[test]
    fn neighbouring_blocks_spread() {
        let state = BlockHashState::new();
        let mut buckets = [0_u32; 64];
        for n in 0..6400 {
            let id = BlockId {
                dva: [8, n * 256],
                birth: 7,
            };
            buckets[(state.hash_one(id) % 64) as usize] += 1;
        }
        // 100 are expected in each; 200 would be ten standard deviations off.
        assert!(
            buckets.iter().all(|count| (20..200).contains(count)),
            "{buckets:?}"
        );
    }
}
