//! The random numbers of a simulated world.
//!
//! SplitMix64: a counter and a mixing function, the same sequence on every machine. It is no
//! source of secrets; a simulated world has none.

/// A sequence of numbers that a seed determines.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// The sequence of `seed`. Different `stream`s of one seed have nothing to do with each other.
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut mixed = Self(seed);
        let start = mixed.next() ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(start)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        // The product of two 64-bit numbers has 128 bits; its upper half is below the bound.
        let product = u128::from(self.next()) * (bound as u128);
        usize::try_from(product >> 64).expect("below the bound, which is a usize")
    }

    pub(super) fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.next().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}
