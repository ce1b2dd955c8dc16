//! Random numbers that depend on a seed alone (SplitMix64).

/// A source of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The source of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
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

    /// Whether something happens that does so in `percent` of all cases.
    pub fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A source that goes its own way.
    pub fn fork(&mut self) -> Self {
        Self(self.word())
    }
}
