//! Random numbers that a seed determines: those of simulated worlds and of tests.
//!
//! SplitMix64: a counter and a mixing function, the same sequence on every machine. It is no
//! source of secrets; a simulated world has none.

/// A sequence of numbers that a seed determines.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of many sequences of a seed, which have nothing to do with each other.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let start = Self(seed).word() ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03);
        Self(start)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    /// The same for indices.
    pub fn index(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).expect("a word has 64 bits");
        usize::try_from(self.below(limit)).expect("it was one")
    }

    /// An index that the scheduler draws: from the upper bits, as the seeds that are on record with
    /// what they found depend on it.
    pub(super) fn draw(&mut self, bound: usize) -> usize {
        // The product of two 64-bit numbers has 128 bits; its upper half is below the bound.
        let product = u128::from(self.word()) * (bound as u128);
        usize::try_from(product >> 64).expect("below the bound, which is a usize")
    }

    /// Whether something happens that does so in `percent` of all cases.
    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Whether something happens that does so in `part` of a thousand cases.
    pub fn permille(&mut self, part: u64) -> bool {
        self.below(1000) < part
    }

    /// Fills `buffer`.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            let bytes = self.word().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// A sequence that goes its own way.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }
}
