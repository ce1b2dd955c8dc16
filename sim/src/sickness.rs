//! Faults of a disk other than power loss.
//!
//! A sick disk works, but sometimes writes wrong data, or to a wrong place, or nothing; or it fails
//! once or for good; or it is slow. All but the last two are noticed only by checksums.

use cenote_base::rt::Random;

/// What is wrong with a disk; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sickness {
    /// Writes of a thousand with a wrong bit.
    pub spoiled: u64,
    /// Writes of a thousand that go elsewhere.
    pub elsewhere: u64,
    /// Writes of a thousand that never happen.
    pub lost: u64,
    /// Requests of a thousand that fail.
    pub failed: u64,
    /// Requests until all others fail.
    pub stops_after: Option<u64>,
    /// How much longer than others it takes; 0 for as long.
    pub slowness: u64,
}

/// What becomes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    Failed,
    Lost,
    /// It is written at another place, which this number decides.
    Elsewhere(u64),
    /// The byte that this number decides is another.
    Spoiled(u64),
}

impl Sickness {
    pub(crate) fn is_healthy(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn delay(&self, micros: u64) -> u64 {
        micros * (1 + self.slowness)
    }

    /// Draws what becomes of a request.
    pub(crate) fn fate(&mut self, is_write: bool, random: &mut Random) -> Fate {
        if self.is_healthy() {
            return Fate::Done;
        }
        if let Some(left) = &mut self.stops_after {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return Fate::Failed;
            }
        }
        if random.permille(self.failed) {
            return Fate::Failed;
        }
        if !is_write {
            return Fate::Done;
        }
        match () {
            () if random.permille(self.lost) => Fate::Lost,
            () if random.permille(self.elsewhere) => Fate::Elsewhere(random.word()),
            () if random.permille(self.spoiled) => Fate::Spoiled(random.word()),
            () => Fate::Done,
        }
    }
}
