//! How often a fault acts.

use cenote_base::Env;

/// The parts of a whole.
const MILLION: u32 = 1_000_000;

/// The share of requests on which a fault acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// Of a million requests.
    per_million: u32,
}

impl Chance {
    /// All requests.
    pub const ALWAYS: Self = Self {
        per_million: MILLION,
    };

    /// So many requests of a million; at most all.
    pub fn per_million(requests: u32) -> Self {
        Self {
            per_million: requests.min(MILLION),
        }
    }

    /// Whether it is this request's turn.
    pub(crate) fn hits(self, env: &dyn Env) -> bool {
        if self.per_million == MILLION {
            return true;
        }
        let mut bytes = [0; 8];
        // Without randomness the fault does not act: a drill must not be worse than asked for.
        let drawn = env.fill_random(&mut bytes).is_ok();
        drawn && u64::from_le_bytes(bytes) % u64::from(MILLION) < u64::from(self.per_million)
    }
}
