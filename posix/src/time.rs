//! Points in time as files carry them.

/// Seconds and nanoseconds since 1970, UTC. Nanoseconds always count forward, so that half a
/// second before 1970 is -1 s and 500 000 000 ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

impl Timestamp {
    /// From stored seconds and nanoseconds. Nanoseconds that are no part of a second, which only
    /// damage can store, count as the last or first of the second.
    pub fn from_stored(time: (i64, i64)) -> Self {
        let nanoseconds = time.1.clamp(0, 999_999_999);
        Self {
            seconds: time.0,
            nanoseconds: u32::try_from(nanoseconds).expect("below 10^9"),
        }
    }

    /// Nanoseconds since 1970.
    pub fn total_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_negative() {
        let day_before = Timestamp::from_stored((-86_400, 0));
        assert_eq!(day_before.total_nanoseconds(), -86_400_000_000_000);
        assert_eq!(Timestamp::from_stored((0, -1)).nanoseconds, 0);
        assert!(day_before < Timestamp::default());
    }
}
