//! The block operations of CCM on AES instructions.
//!
//! The CBC-MAC chain sets the pace: a block waits for the one before it through all rounds. Two
//! things keep it at that bound. The xor of the next block and of the first round key is folded
//! into the last round's key, so a link of the chain is nothing but its rounds; and the counter
//! blocks are computed four at a time ahead of it, which out-of-order execution runs in the
//! chain's shadow. The portable twin is `ccm::Portable`.

#![allow(unsafe_code)]

use super::NONCE_LENGTH;
use super::ccm::{Block, Blocks, Direction, counter_block};
use std::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

const ROUND_KEYS_MAX: usize = 15;

/// Expanded round keys: 11, 13 or 15 of them; `rounds` is one less.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(super) struct AesNi {
    keys: [Block; ROUND_KEYS_MAX],
    rounds: usize,
}

impl AesNi {
    /// `None` if the CPU lacks the instructions or `key` is no AES key.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let supported = is_x86_feature_detected!("aes") && is_x86_feature_detected!("sse4.1");
        if !supported || !matches!(key.len(), 16 | 24 | 32) {
            return None;
        }
        // SAFETY: the features that the function needs have just been checked.
        Some(unsafe { expand(key) })
    }
}

impl Blocks for AesNi {
    fn encrypt(&self, block: Block) -> Block {
        self.absorb([0; 16], &[block])
    }

    fn absorb(&self, mac: Block, data: &[Block]) -> Block {
        // SAFETY: an `AesNi` exists only where `new` has found the features.
        unsafe {
            match self.rounds {
                10 => absorb::<10>(&self.keys, mac, data),
                12 => absorb::<12>(&self.keys, mac, data),
                _ => absorb::<14>(&self.keys, mac, data),
            }
        }
    }

    fn crypt(
        &self,
        nonce: &[u8; NONCE_LENGTH],
        mac: Block,
        data: &mut [Block],
        direction: Direction,
    ) -> Block {
        // SAFETY: an `AesNi` exists only where `new` has found the features.
        unsafe {
            match self.rounds {
                10 => crypt::<10>(&self.keys, nonce, mac, data, direction),
                12 => crypt::<12>(&self.keys, nonce, mac, data, direction),
                _ => crypt::<14>(&self.keys, nonce, mac, data, direction),
            }
        }
    }
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn load(block: &Block) -> __m128i {
    // SAFETY: the reference guarantees 16 readable bytes; loadu needs no alignment.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn store(block: &mut Block, value: __m128i) {
    // SAFETY: the reference guarantees 16 writable bytes; storeu needs no alignment.
    unsafe { _mm_storeu_si128(block.as_mut_ptr().cast(), value) }
}

/// The substitution of FIPS 197 on each byte of a key word.
#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn substitute(word: u32) -> u32 {
    let spread = _mm_set1_epi32(word as i32);
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(spread)) as u32
}

/// Key expansion of FIPS 197 section 5.2, on little-endian words.
#[target_feature(enable = "aes,sse4.1")]
fn expand(key: &[u8]) -> AesNi {
    let length = key.len() / 4;
    let rounds = length + 6;
    let mut words = [0u32; 4 * ROUND_KEYS_MAX];
    for (word, bytes) in words.iter_mut().zip(key.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut constant = 1u8;
    for index in length..4 * (rounds + 1) {
        let mut word = words[index - 1];
        if index % length == 0 {
            word = substitute(word.rotate_right(8)) ^ u32::from(constant);
            constant = (constant << 1) ^ ((constant >> 7) * 0x1b);
        } else if length > 6 && index % length == 4 {
            word = substitute(word);
        }
        words[index] = words[index - length] ^ word;
    }
    let mut keys = [[0; 16]; ROUND_KEYS_MAX];
    for (word, bytes) in words
        .iter()
        .zip(keys.as_flattened_mut().as_chunks_mut::<4>().0)
    {
        *bytes = word.to_le_bytes();
    }
    words.zeroize();
    AesNi { keys, rounds }
}

/// The middle rounds on one state that already has round key 0 in it.
#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn middle<const ROUNDS: usize>(keys: &[__m128i; ROUND_KEYS_MAX], mut state: __m128i) -> __m128i {
    for key in &keys[1..ROUNDS] {
        state = _mm_aesenc_si128(state, *key);
    }
    state
}

#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn load_keys(keys: &[Block; ROUND_KEYS_MAX]) -> [__m128i; ROUND_KEYS_MAX] {
    let mut loaded = [_mm_setzero_si128(); ROUND_KEYS_MAX];
    for (loaded, key) in loaded.iter_mut().zip(keys) {
        *loaded = load(key);
    }
    loaded
}

#[target_feature(enable = "aes,sse4.1")]
fn absorb<const ROUNDS: usize>(
    keys: &[Block; ROUND_KEYS_MAX],
    mac: Block,
    data: &[Block],
) -> Block {
    let keys = load_keys(keys);
    let mut mac = load(&mac);
    for block in data {
        let state = _mm_xor_si128(_mm_xor_si128(load(block), keys[0]), mac);
        mac = _mm_aesenclast_si128(middle::<ROUNDS>(&keys, state), keys[ROUNDS]);
    }
    let mut out = [0; 16];
    store(&mut out, mac);
    out
}

/// Key stream for the counters `counter..counter + 4`.
#[inline]
#[target_feature(enable = "aes,sse4.1")]
fn four_streams<const ROUNDS: usize>(
    keys: &[__m128i; ROUND_KEYS_MAX],
    template: __m128i,
    last_word: u32,
    counter: u32,
) -> [__m128i; 4] {
    let mut streams = [template; 4];
    for (lane, stream) in streams.iter_mut().enumerate() {
        let word = (last_word | (counter + lane as u32)).swap_bytes() as i32;
        *stream = _mm_xor_si128(_mm_insert_epi32::<3>(template, word), keys[0]);
    }
    for key in &keys[1..ROUNDS] {
        for stream in &mut streams {
            *stream = _mm_aesenc_si128(*stream, *key);
        }
    }
    for stream in &mut streams {
        *stream = _mm_aesenclast_si128(*stream, keys[ROUNDS]);
    }
    streams
}

#[target_feature(enable = "aes,sse4.1")]
fn crypt<const ROUNDS: usize>(
    keys: &[Block; ROUND_KEYS_MAX],
    nonce: &[u8; NONCE_LENGTH],
    mac: Block,
    data: &mut [Block],
    direction: Direction,
) -> Block {
    let keys = load_keys(keys);
    let template = load(&counter_block(nonce, 0));
    // The last word of a counter block is the nonce's last byte and the 24-bit counter.
    let last_word = u32::from(nonce[NONCE_LENGTH - 1]) << 24;
    // Between blocks, `chain` is the MAC xored with round key 0, ready for the next block.
    let folded = _mm_xor_si128(keys[ROUNDS], keys[0]);
    let mut chain = _mm_xor_si128(load(&mac), keys[0]);
    let mut counter = 1;
    for group in data.chunks_mut(4) {
        let streams = four_streams::<ROUNDS>(&keys, template, last_word, counter);
        counter += group.len() as u32;
        for (block, stream) in group.iter_mut().zip(streams) {
            let input = load(block);
            let output = _mm_xor_si128(input, stream);
            store(block, output);
            let plain = if direction == Direction::Encrypt {
                input
            } else {
                output
            };
            let state = middle::<ROUNDS>(&keys, _mm_xor_si128(chain, plain));
            chain = _mm_aesenclast_si128(state, folded);
        }
    }
    let mut out = [0; 16];
    store(&mut out, _mm_xor_si128(chain, keys[0]));
    out
}
