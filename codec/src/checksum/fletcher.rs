//! Fletcher2 and fletcher4: running sums that are cheap enough for every block.
//!
//! Fletcher4 reads u32 words `f` and keeps four nested prefix sums modulo 2^64: `a += f; b += a;
//! c += b; d += c` (format/2a 3.2). The recurrence looks serial, but it is linear: if word `i` of
//! `n` is `f`, it enters `a` once, `b` with weight `n - i`, `c` and `d` with binomials of it. So
//! the words can be dealt to `L` independent lanes, each lane summed with the same recurrence, and
//! the lane sums combined once at the end ([`fold_lanes`]). The vector kernels do exactly this.
//! The same linearity lets a checksum continue after any prefix ([`Fletcher4::update`]).
//!
//! Bytes after the last whole word (u32 for fletcher4, 16 bytes for fletcher2) do not count;
//! ZFS never has such a rest because stored sizes are multiples of 512.

#[cfg(target_arch = "x86_64")]
use super::fletcher_x86 as vector;
use crate::{Endian, Words};

/// Below this many bytes the set-up and the folding cost more than the lanes save.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
const VECTOR_BYTES_MIN: usize = 256;

/// The four nested sums of each of `L` lanes; lane `l` has the words `l`, `l + L`, `l + 2L`, ...
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) type LaneSums<const L: usize> = [[u64; L]; 4];

/// Fletcher2 of `data`, read as u64 words in the byte order `endian`.
pub fn fletcher2(data: &[u8], endian: Endian) -> Words {
    #[cfg(target_arch = "x86_64")]
    if data.len() >= VECTOR_BYTES_MIN && vector::has_avx512() {
        return vector::fletcher2_avx512(data, endian);
    }
    fletcher2_from([0; 4], data, endian)
}

/// The portable fletcher2, continued from `start`.
pub(super) fn fletcher2_from(start: Words, data: &[u8], endian: Endian) -> Words {
    let [mut a0, mut a1, mut b0, mut b1] = start;
    let (pairs, _) = data.as_chunks::<16>();
    for pair in pairs {
        let (x0, x1) = match endian {
            Endian::Little => (le64(pair, 0), le64(pair, 8)),
            Endian::Big => (le64(pair, 0).swap_bytes(), le64(pair, 8).swap_bytes()),
        };
        a0 = a0.wrapping_add(x0);
        a1 = a1.wrapping_add(x1);
        b0 = b0.wrapping_add(a0);
        b1 = b1.wrapping_add(a1);
    }
    [a0, a1, b0, b1]
}

fn le64(pair: &[u8; 16], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&pair[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Fletcher4 of `data`, read as u32 words in the byte order `endian`.
pub fn fletcher4(data: &[u8], endian: Endian) -> Words {
    let mut sum = Fletcher4::new();
    sum.update(data, endian);
    sum.words()
}

/// A fletcher4 that grows piece by piece, as send streams need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fletcher4 {
    words: Words,
}

impl Fletcher4 {
    /// The checksum of nothing: all words zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Continues from words that an earlier run has returned.
    pub fn from_words(words: Words) -> Self {
        Self { words }
    }

    /// Adds `data`; its length should be a multiple of 4 (a rest is left out of the sum).
    pub fn update(&mut self, data: &[u8], endian: Endian) {
        let rest = self.update_vector(data, endian);
        self.words = fletcher4_from(self.words, rest, endian);
    }

    /// The four words as they stand in a block pointer.
    pub fn words(&self) -> Words {
        self.words
    }

    /// Adds the prefix that a vector kernel can take and returns the rest.
    #[cfg(target_arch = "x86_64")]
    fn update_vector<'a>(&mut self, data: &'a [u8], endian: Endian) -> &'a [u8] {
        if data.len() < VECTOR_BYTES_MIN {
            return data;
        }
        let (sums, stride) = if vector::has_avx512() {
            (fold_lanes(&vector::fletcher4_avx512(data, endian)), 64)
        } else if vector::has_avx2() {
            (fold_lanes(&vector::fletcher4_avx2(data, endian)), 32)
        } else {
            return data;
        };
        let taken = data.len() / stride * stride;
        self.words = append(self.words, sums, (taken / 4) as u64);
        &data[taken..]
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn update_vector<'a>(&mut self, data: &'a [u8], _endian: Endian) -> &'a [u8] {
        data
    }
}

/// The portable fletcher4, continued from `start`.
pub(super) fn fletcher4_from(start: Words, data: &[u8], endian: Endian) -> Words {
    let [mut a, mut b, mut c, mut d] = start;
    let (words, _) = data.as_chunks::<4>();
    for word in words {
        let f = match endian {
            Endian::Little => u32::from_le_bytes(*word),
            Endian::Big => u32::from_be_bytes(*word),
        };
        a = a.wrapping_add(u64::from(f));
        b = b.wrapping_add(a);
        c = c.wrapping_add(b);
        d = d.wrapping_add(c);
    }
    [a, b, c, d]
}

/// `n (n+1) ... (n+k-1) / k!` modulo 2^64 for k = 2 and 3, exact because the products of up to
/// three 40-bit factors (2^42 bytes at once) fit u128.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn multiset_counts(n: u64) -> (u64, u64) {
    debug_assert!(n < 1 << 40, "a piece of at most 4 TiB");
    let n = u128::from(n);
    let two = n * (n + 1) / 2;
    (two as u64, (two * (n + 2) / 3) as u64)
}

/// The sums of a concatenation: `start` for the first part, `sums` for `count` words after it.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn append(start: Words, sums: Words, count: u64) -> Words {
    let [a0, b0, c0, d0] = start;
    let (two, three) = multiset_counts(count);
    let b = b0.wrapping_add(count.wrapping_mul(a0));
    let c = c0
        .wrapping_add(count.wrapping_mul(b0))
        .wrapping_add(two.wrapping_mul(a0));
    let d = d0
        .wrapping_add(count.wrapping_mul(c0))
        .wrapping_add(two.wrapping_mul(b0))
        .wrapping_add(three.wrapping_mul(a0));
    [
        sums[0].wrapping_add(a0),
        sums[1].wrapping_add(b),
        sums[2].wrapping_add(c),
        sums[3].wrapping_add(d),
    ]
}

/// Combines lane sums into the fletcher4 of the interleaved sequence.
///
/// A word of lane `l` that has `r` words at or after it in its lane stands `t = L r - l` words
/// before the end of the whole sequence (itself included), so its weights in a, b, c, d are
/// 1, t, t(t+1)/2 and t(t+1)(t+2)/6. The lane has summed the weights 1, r, r(r+1)/2 and
/// r(r+1)(r+2)/6. Writing the former in terms of the latter gives the integer factors below.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) fn fold_lanes<const L: usize>([a, b, c, d]: &LaneSums<L>) -> Words {
    let size = L as i64;
    let (size2, size3) = (size * size, size * size * size);
    let mut out = [0u64; 4];
    let times = |sum: u64, factor: i64| sum.wrapping_mul(factor as u64);
    for lane in 0..L {
        let l = lane as i64;
        let (a, b, c, d) = (a[lane], b[lane], c[lane], d[lane]);
        out[0] = out[0].wrapping_add(a);
        out[1] = out[1]
            .wrapping_add(times(b, size))
            .wrapping_sub(times(a, l));
        out[2] = out[2]
            .wrapping_add(times(c, size2))
            .wrapping_sub(times(b, (size2 - size) / 2 + size * l))
            .wrapping_add(times(a, l * (l - 1) / 2));
        let factor_b =
            (size3 + 3 * size2 * l + 3 * size * l * l - 3 * size2 - 6 * size * l + 2 * size) / 6;
        out[3] = out[3]
            .wrapping_add(times(d, size3))
            .wrapping_add(times(c, size2 - size3 - size2 * l))
            .wrapping_add(times(b, factor_b))
            .wrapping_sub(times(a, l * (l - 1) * (l - 2) / 6));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lanes_by_hand<const L: usize>(data: &[u8]) -> LaneSums<L> {
        let mut sums = [[0; L]; 4];
        for (index, word) in data.as_chunks::<4>().0.iter().enumerate() {
            let lane = index % L;
            let mut carry = u64::from(u32::from_le_bytes(*word));
            for sum in &mut sums {
                sum[lane] = carry.wrapping_add(sum[lane]);
                carry = sum[lane];
            }
        }
        sums
    }

    #[test]
    fn first_words_by_hand() {
        let data = [1u32, 2, 3].map(u32::to_le_bytes).concat();
        assert_eq!(fletcher4(&data, Endian::Little), [6, 10, 15, 21]);
        let data = [1u64, 2, 3, 4].map(u64::to_be_bytes).concat();
        assert_eq!(fletcher2(&data, Endian::Big), [4, 6, 5, 8]);
        assert_eq!(fletcher4(&[], Endian::Little), [0; 4]);
    }

    proptest! {
        #[test]
        fn folding_equals_the_serial_sum(
            mut data in proptest::collection::vec(any::<u8>(), 0..4096)
        ) {
            data.truncate(data.len() / 64 * 64);
            let serial = fletcher4_from([0; 4], &data, Endian::Little);
            prop_assert_eq!(fold_lanes(&lanes_by_hand::<16>(&data)), serial);
            prop_assert_eq!(fold_lanes(&lanes_by_hand::<8>(&data)), serial);
            prop_assert_eq!(fold_lanes(&lanes_by_hand::<1>(&data)), serial);
        }

        #[test]
        fn dispatched_equals_portable(
            data in proptest::collection::vec(any::<u8>(), 0..9000),
            offset in 0usize..64,
        ) {
            let data = &data[offset.min(data.len())..];
            for endian in [Endian::Little, Endian::Big] {
                prop_assert_eq!(fletcher4(data, endian), fletcher4_from([0; 4], data, endian));
                prop_assert_eq!(fletcher2(data, endian), fletcher2_from([0; 4], data, endian));
            }
        }

        #[test]
        fn pieces_equal_the_whole(
            data in proptest::collection::vec(any::<u8>(), 0..3000),
            cut in 0usize..3000,
        ) {
            let cut = cut.min(data.len()) / 4 * 4;
            let mut sum = Fletcher4::new();
            sum.update(&data[..cut], Endian::Little);
            let mut sum = Fletcher4::from_words(sum.words());
            sum.update(&data[cut..], Endian::Little);
            prop_assert_eq!(sum.words(), fletcher4(&data, Endian::Little));
        }
    }

    #[test]
    fn all_ones_wrap_the_sums() {
        let data = vec![0xff; 1 << 20];
        let portable = fletcher4_from([0; 4], &data, Endian::Little);
        assert_eq!(fletcher4(&data, Endian::Little), portable);
        assert_eq!(
            fletcher2(&data, Endian::Little),
            fletcher2_from([0; 4], &data, Endian::Little)
        );
    }
}
