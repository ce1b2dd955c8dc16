//! Linear combinations of columns in vector registers.
//!
//! Both kernels keep the sums of all outputs for a few vectors in registers and walk the sources
//! two at a time; only then are the sums stored. Multiplication is one affine instruction with
//! GFNI, and two table look-ups by nibble with AVX2. The portable twin is in `combine`.

#![allow(unsafe_code)]

use super::combine::{Output, Source};
use super::field::{MATRICES, NIBBLES};
use std::arch::x86_64::*;

/// The truth table of a three-way xor for `vpternlog`.
const XOR3: i32 = 0x96;

/// Whether [`combine_avx512_gfni`] may run here.
pub(super) fn has_avx512_gfni() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("gfni")
}

/// Whether [`combine_avx2`] may run here.
pub(super) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

/// All columns have one length; returns it.
fn common_length(sources: &[Source<'_>], outputs: &[Output<'_>]) -> usize {
    let length = outputs.first().map_or(0, |output| output.data.len());
    assert!(
        outputs.iter().all(|output| output.data.len() == length),
        "cut to one length"
    );
    assert!(
        sources.iter().all(|source| source.data.len() == length),
        "cut to one length"
    );
    length
}

/// Calls `$kernel::<XORS, PRODUCTS>`, the variant for these outputs.
macro_rules! select {
    ($kernel:ident, $sources:ident, $outputs:ident, $plain:ident, $length:ident) => {
        match ($outputs.len(), $plain) {
            (0, _) => {}
            (1, true) => $kernel::<1, 0>($sources, $outputs, $length),
            (1, false) => $kernel::<0, 1>($sources, $outputs, $length),
            (2, true) => $kernel::<1, 1>($sources, $outputs, $length),
            (2, false) => $kernel::<0, 2>($sources, $outputs, $length),
            (3, true) => $kernel::<1, 2>($sources, $outputs, $length),
            (3, false) => $kernel::<0, 3>($sources, $outputs, $length),
            (count, _) => unreachable!("{count} outputs of at most 3"),
        }
    };
}

/// Combines columns of one length; with `plain` output 0 is the sum of the sources.
pub(super) fn combine_avx512_gfni(sources: &[Source<'_>], outputs: &mut [Output<'_>], plain: bool) {
    assert!(
        has_avx512_gfni(),
        "the caller dispatches on the CPU's features"
    );
    let length = common_length(sources, outputs);
    // SAFETY: the features have just been checked, and so has that all columns have `length`.
    unsafe { select!(gfni_columns, sources, outputs, plain, length) }
}

/// Combines columns of one length; with `plain` output 0 is the sum of the sources.
pub(super) fn combine_avx2(sources: &[Source<'_>], outputs: &mut [Output<'_>], plain: bool) {
    assert!(has_avx2(), "the caller dispatches on the CPU's features");
    let length = common_length(sources, outputs);
    // SAFETY: the feature has just been checked, and so has that all columns have `length`.
    unsafe { select!(avx2_columns, sources, outputs, plain, length) }
}

/// Copies one column to all outputs of its length: each vector is loaded once.
pub(super) fn copy_avx512(source: &[u8], outputs: &mut [&mut [u8]]) {
    assert!(
        has_avx512_gfni(),
        "the caller dispatches on the CPU's features"
    );
    assert!(
        outputs.iter().all(|output| output.len() == source.len()),
        "cut to one length"
    );
    // SAFETY: the features have just been checked, and so has that all columns have one length.
    unsafe {
        match outputs {
            [p] => p.copy_from_slice(source),
            [p, q] => copy_columns(source, [p, q]),
            [p, q, r] => copy_columns(source, [p, q, r]),
            _ => unreachable!("raidz has 1 to 3 parity columns"),
        }
    }
}

/// # Safety
/// Every output has as many bytes as the source.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn copy_columns<const COUNT: usize>(source: &[u8], outputs: [&mut [u8]; COUNT]) {
    const STEP: usize = 256;
    let (from, length) = (source.as_ptr(), source.len());
    let to = outputs.map(<[u8]>::as_mut_ptr);
    let whole = length - length % STEP;
    for at in (0..whole).step_by(STEP) {
        // SAFETY: the step's bytes from `at` on are below `whole`, within each column.
        unsafe {
            let vectors: [__m512i; STEP / 64] =
                std::array::from_fn(|lane| _mm512_loadu_si512(from.add(at + 64 * lane).cast()));
            for to in to {
                for (lane, vector) in vectors.iter().enumerate() {
                    _mm512_storeu_si512(to.add(at + 64 * lane).cast(), *vector);
                }
            }
        }
    }
    for to in to {
        // SAFETY: the rest is within both columns, which are different memory: one is borrowed
        // mutably.
        unsafe { std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), length - whole) };
    }
}

/// # Safety
/// Every source and output has at least `length` bytes, and there are `XORS + PRODUCTS` outputs.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni_columns<const XORS: usize, const PRODUCTS: usize>(
    sources: &[Source<'_>],
    outputs: &mut [Output<'_>],
    length: usize,
) {
    const WIDE: usize = 4;
    let mut at = 0;
    while at + 64 * WIDE <= length {
        // SAFETY: the step's `64 * WIDE` bytes from `at` on are within `length`.
        unsafe { gfni_step::<XORS, PRODUCTS, WIDE>(sources, outputs, at, u64::MAX) };
        at += 64 * WIDE;
    }
    while at < length {
        let rest = (length - at).min(64);
        // SAFETY: the mask has ones only for the `rest` bytes that are left within `length`.
        unsafe { gfni_step::<XORS, PRODUCTS, 1>(sources, outputs, at, u64::MAX >> (64 - rest)) };
        at += rest;
    }
}

/// One step over `WIDE` vectors; `mask` selects the bytes of a vector that exist.
///
/// # Safety
/// The selected bytes from `at` on are within every source and output.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn gfni_step<const XORS: usize, const PRODUCTS: usize, const WIDE: usize>(
    sources: &[Source<'_>],
    outputs: &mut [Output<'_>],
    at: usize,
    mask: u64,
) {
    let zero = _mm512_setzero_si512();
    let mut sums = [[zero; WIDE]; XORS];
    let mut products = [[zero; WIDE]; PRODUCTS];
    let load = |source: &Source<'_>, lane: usize| {
        // SAFETY: by the function's contract the bytes that `mask` selects are readable.
        unsafe {
            let from = source.data.as_ptr().add(at + 64 * lane).cast::<i8>();
            if mask == u64::MAX {
                _mm512_loadu_si512(from.cast())
            } else {
                _mm512_maskz_loadu_epi8(mask, from)
            }
        }
    };
    let matrix = |source: &Source<'_>, output: usize| {
        _mm512_set1_epi64(MATRICES[usize::from(source.factors[output])] as i64)
    };
    let (pairs, single) = sources.as_chunks::<2>();
    for [first, second] in pairs {
        let x: [__m512i; WIDE] = std::array::from_fn(|lane| load(first, lane));
        let y: [__m512i; WIDE] = std::array::from_fn(|lane| load(second, lane));
        for sum in &mut sums {
            for lane in 0..WIDE {
                sum[lane] = _mm512_ternarylogic_epi64::<XOR3>(sum[lane], x[lane], y[lane]);
            }
        }
        for (output, product) in products.iter_mut().enumerate() {
            let (by_x, by_y) = (matrix(first, XORS + output), matrix(second, XORS + output));
            for lane in 0..WIDE {
                let x = _mm512_gf2p8affine_epi64_epi8::<0>(x[lane], by_x);
                let y = _mm512_gf2p8affine_epi64_epi8::<0>(y[lane], by_y);
                product[lane] = _mm512_ternarylogic_epi64::<XOR3>(product[lane], x, y);
            }
        }
    }
    for source in single {
        for lane in 0..WIDE {
            let x = load(source, lane);
            for sum in &mut sums {
                sum[lane] = _mm512_xor_si512(sum[lane], x);
            }
            for (output, product) in products.iter_mut().enumerate() {
                let x = _mm512_gf2p8affine_epi64_epi8::<0>(x, matrix(source, XORS + output));
                product[lane] = _mm512_xor_si512(product[lane], x);
            }
        }
    }
    for (output, vectors) in outputs.iter_mut().zip(sums.iter().chain(&products)) {
        for (lane, vector) in vectors.iter().enumerate() {
            // SAFETY: by the function's contract the bytes that `mask` selects are writable.
            unsafe {
                let to = output.data.as_mut_ptr().add(at + 64 * lane).cast::<i8>();
                _mm512_mask_storeu_epi8(to, mask, *vector);
            }
        }
    }
}

/// # Safety
/// Every source and output has at least `length` bytes, and there are `XORS + PRODUCTS` outputs.
#[target_feature(enable = "avx2")]
unsafe fn avx2_columns<const XORS: usize, const PRODUCTS: usize>(
    sources: &[Source<'_>],
    outputs: &mut [Output<'_>],
    length: usize,
) {
    const STEP: usize = 64;
    let mut at = 0;
    while at + STEP <= length {
        // SAFETY: the step's 64 bytes from `at` on are within `length`.
        unsafe { avx2_step::<XORS, PRODUCTS>(sources, outputs, at) };
        at += STEP;
    }
    for (index, output) in outputs.iter_mut().enumerate() {
        for position in at..length {
            output.data[position] = sources.iter().fold(0, |sum, source| {
                let byte = source.data[position];
                let table = &NIBBLES[usize::from(source.factors[index])];
                sum ^ table[usize::from(byte & 15)] ^ table[16 + usize::from(byte >> 4)]
            });
        }
    }
}

/// One step over 64 bytes.
///
/// # Safety
/// The 64 bytes from `at` on are within every source and output.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn avx2_step<const XORS: usize, const PRODUCTS: usize>(
    sources: &[Source<'_>],
    outputs: &mut [Output<'_>],
    at: usize,
) {
    const WIDE: usize = 2;
    let zero = _mm256_setzero_si256();
    let low_bits = _mm256_set1_epi8(15);
    let mut sums = [[zero; WIDE]; XORS];
    let mut products = [[zero; WIDE]; PRODUCTS];
    for source in sources {
        let x: [__m256i; WIDE] = std::array::from_fn(|lane| {
            // SAFETY: by the function's contract these 32 bytes are readable.
            unsafe { _mm256_loadu_si256(source.data.as_ptr().add(at + 32 * lane).cast()) }
        });
        for sum in &mut sums {
            for lane in 0..WIDE {
                sum[lane] = _mm256_xor_si256(sum[lane], x[lane]);
            }
        }
        if PRODUCTS == 0 {
            continue;
        }
        let low = x.map(|x| _mm256_and_si256(x, low_bits));
        let high = x.map(|x| _mm256_and_si256(_mm256_srli_epi64::<4>(x), low_bits));
        for (output, product) in products.iter_mut().enumerate() {
            let table = &NIBBLES[usize::from(source.factors[XORS + output])];
            // SAFETY: a table has 32 bytes, 16 for each nibble; loadu needs no alignment.
            let (by_low, by_high) = unsafe {
                let table = table.as_ptr().cast::<__m128i>();
                (_mm_loadu_si128(table), _mm_loadu_si128(table.add(1)))
            };
            let by_low = _mm256_broadcastsi128_si256(by_low);
            let by_high = _mm256_broadcastsi128_si256(by_high);
            for lane in 0..WIDE {
                let low = _mm256_shuffle_epi8(by_low, low[lane]);
                let high = _mm256_shuffle_epi8(by_high, high[lane]);
                product[lane] = _mm256_xor_si256(product[lane], _mm256_xor_si256(low, high));
            }
        }
    }
    for (output, vectors) in outputs.iter_mut().zip(sums.iter().chain(&products)) {
        for (lane, vector) in vectors.iter().enumerate() {
            // SAFETY: by the function's contract these 32 bytes are writable.
            unsafe {
                let to = output.data.as_mut_ptr().add(at + 32 * lane);
                _mm256_storeu_si256(to.cast(), *vector);
            }
        }
    }
}
