//! The SHA-512 block function with the message schedule of four blocks in AVX-512 registers.
//!
//! The 80 rounds of a block are one serial chain of scalar operations, but the schedule, the 80
//! words that they consume, depends on the message alone. So the schedule of the *next* four
//! blocks is computed in vectors while the rounds of these four run, step by step between the
//! rounds, and fills the gaps that the chain leaves. A vector holds two consecutive words of each
//! of the four blocks. The portable twin is the `sha2` crate's function.

#![allow(unsafe_code)]

use super::sha512::{BLOCK, CONSTANTS};
use std::arch::x86_64::*;

/// Blocks whose schedules are computed together.
pub(super) const GROUP: usize = 4;

type Group = [[u8; BLOCK]; GROUP];

/// Steps of two words in a schedule of 80.
const STEPS: usize = 40;

/// Whether [`compress_avx512`] may run here.
pub(super) fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("bmi2")
}

/// Takes `groups` into `state`; the caller has checked [`has_avx512`].
pub(super) fn compress_avx512(state: &mut [u64; 8], groups: &[Group]) {
    assert!(has_avx512(), "the caller dispatches on the CPU's features");
    // SAFETY: the features that the function needs have just been checked.
    unsafe { compress(state, groups) }
}

/// The schedule of a group, as far as it has been computed, by steps. A row is words `2 step` and
/// `2 step + 1` of block 0, then of block 1, and so on.
struct Schedule {
    words: [Row; STEPS],
    /// The words with the round constants added.
    keyed: [Row; STEPS],
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Row([u64; 2 * GROUP]);

/// One round. New `e` and `a` are written over `d` and `h`, so the caller rotates the names. The
/// additions are ordered for the shortest chain from `e` to the next `e`.
macro_rules! round {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident, $word:expr) => {
        let known = $d.wrapping_add($h.wrapping_add($word));
        let choice = (($f ^ $g) & $e) ^ $g;
        let majority = (($a ^ $b) & ($b ^ $c)) ^ $b;
        let sigma_e = $e.rotate_right(14) ^ $e.rotate_right(18) ^ $e.rotate_right(41);
        let sigma_a = $a.rotate_right(28) ^ $a.rotate_right(34) ^ $a.rotate_right(39);
        let rest = sigma_a.wrapping_add(majority).wrapping_sub($d);
        $d = known.wrapping_add(choice).wrapping_add(sigma_e);
        $h = $d.wrapping_add(rest);
    };
}

/// Eight rounds on the words of one block in four rows of the schedule.
macro_rules! eight_rounds {
    ($a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident,
     $rows:ident, $row:expr, $block:ident) => {
        round!($a $b $c $d $e $f $g $h, $rows[$row].0[2 * $block]);
        round!($h $a $b $c $d $e $f $g, $rows[$row].0[2 * $block + 1]);
        round!($g $h $a $b $c $d $e $f, $rows[$row + 1].0[2 * $block]);
        round!($f $g $h $a $b $c $d $e, $rows[$row + 1].0[2 * $block + 1]);
        round!($e $f $g $h $a $b $c $d, $rows[$row + 2].0[2 * $block]);
        round!($d $e $f $g $h $a $b $c, $rows[$row + 2].0[2 * $block + 1]);
        round!($c $d $e $f $g $h $a $b, $rows[$row + 3].0[2 * $block]);
        round!($b $c $d $e $f $g $h $a, $rows[$row + 3].0[2 * $block + 1]);
    };
}

#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn compress(state: &mut [u64; 8], groups: &[Group]) {
    let empty = || Schedule {
        words: [Row([0; 8]); STEPS],
        keyed: [Row([0; 8]); STEPS],
    };
    let (mut now, mut next) = (&mut empty(), &mut empty());
    let Some(first) = groups.first() else { return };
    for step in 0..STEPS {
        advance(now, first, step);
    }
    for (at, _) in groups.iter().enumerate() {
        // The last group has no successor: the first one's schedule is then computed, unused.
        let successor = groups.get(at + 1).unwrap_or(first);
        compress_block::<0>(state, now, next, successor);
        compress_block::<1>(state, now, next, successor);
        compress_block::<2>(state, now, next, successor);
        compress_block::<3>(state, now, next, successor);
        std::mem::swap(&mut now, &mut next);
    }
}

/// The rounds of block `BLOCK` of `now`, and that quarter of the schedule of `successor`.
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn compress_block<const BLOCK: usize>(
    state: &mut [u64; 8],
    now: &Schedule,
    next: &mut Schedule,
    successor: &Group,
) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    let (parts, _) = now.keyed.as_chunks::<8>();
    for (part, rows) in parts.iter().enumerate() {
        let step = (BLOCK * 5 + part) * 2;
        advance(next, successor, step);
        eight_rounds!(a b c d e f g h, rows, 0, BLOCK);
        advance(next, successor, step + 1);
        eight_rounds!(a b c d e f g h, rows, 4, BLOCK);
    }
    for (word, change) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(change);
    }
}

/// Computes one step of the schedule of `group`; steps must come in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
fn advance(schedule: &mut Schedule, group: &Group, step: usize) {
    let (before, after) = schedule.words.split_at_mut(step);
    let words = match before.last_chunk::<8>() {
        None => load_step(group, step),
        Some(recent) => {
            // Word t is s1(t - 2) + (t - 7) + s0(t - 15) + (t - 16); odd distances straddle rows.
            let [back_8, back_7, _, _, back_4, back_3, _, back_1] = recent;
            let before_15 = _mm512_alignr_epi8::<8>(load_row(back_7), load_row(back_8));
            let before_7 = _mm512_alignr_epi8::<8>(load_row(back_3), load_row(back_4));
            let sum = _mm512_add_epi64(load_row(back_8), before_7);
            let sum = _mm512_add_epi64(sum, small_sigma::<1, 8, 7>(before_15));
            _mm512_add_epi64(sum, small_sigma::<19, 61, 6>(load_row(back_1)))
        }
    };
    let pair: &[u64; 2] = &CONSTANTS.as_chunks().0[step];
    // SAFETY: two words are 16 readable bytes; loadu needs no alignment.
    let constants = unsafe { _mm_loadu_si128(pair.as_ptr().cast()) };
    store_row(&mut after[0], words);
    let keyed = _mm512_add_epi64(words, _mm512_broadcast_i32x4(constants));
    store_row(&mut schedule.keyed[step], keyed);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_row(row: &Row) -> __m512i {
    // SAFETY: a row is 64 readable bytes with the alignment of a vector.
    unsafe { _mm512_load_si512(row.0.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store_row(row: &mut Row, vector: __m512i) {
    // SAFETY: a row is 64 writable bytes with the alignment of a vector.
    unsafe { _mm512_store_si512(row.0.as_mut_ptr().cast(), vector) }
}

/// Words `2 step` and `2 step + 1` of the four blocks, made little-endian.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_step(group: &Group, step: usize) -> __m512i {
    let pair = |block: usize| {
        let bytes = &group[block][16 * step..16 * step + 16];
        // SAFETY: the slice has 16 readable bytes; loadu needs no alignment.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    };
    let words = _mm512_castsi128_si512(pair(0));
    let words = _mm512_inserti32x4::<1>(words, pair(1));
    let words = _mm512_inserti32x4::<2>(words, pair(2));
    let words = _mm512_inserti32x4::<3>(words, pair(3));
    let reverse = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
    _mm512_shuffle_epi8(words, _mm512_broadcast_i32x4(reverse))
}

/// Two rotations and a shift to the right, xored.
#[inline]
#[target_feature(enable = "avx512f")]
fn small_sigma<const A: i32, const B: i32, const SHIFT: u32>(words: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(
        _mm512_ror_epi64::<A>(words),
        _mm512_ror_epi64::<B>(words),
        _mm512_srli_epi64::<SHIFT>(words),
    )
}
