//! Counting again what owners use (format/2b 6).
//!
//! Accounts can be missing: a raw stream carries none, and a pool that was upgraded has not counted
//! objects or projects before. Those on disk may be old. So they are emptied, and all objects are
//! put into the accounts in order of their numbers, some in each transaction group, while the file
//! system is in use. An object behind the place that was reached is counted from then on with each
//! change; one before it is not counted, whatever its dnode says. Only when all are counted and on
//! disk the object set's flags say so. After a crash, counting starts over.

use cenote_base::Txg;

/// A count that is under way.
#[derive(Clone, Debug)]
pub(crate) struct Recount {
    /// The flags of the accounts that are counted.
    pub(crate) targets: u64,
    /// Whether the accounts were emptied.
    pub(crate) is_emptied: bool,
    /// Up to which object groups have counted, ascending.
    reached: Vec<(Txg, u64)>,
}

impl Recount {
    pub(crate) fn new(targets: u64) -> Self {
        Self {
            targets,
            is_emptied: false,
            reached: Vec::new(),
        }
    }

    /// Notes that the objects up to `last` are counted with the group `txg`.
    pub(crate) fn reach(&mut self, txg: Txg, last: u64) {
        // Two groups have changes at most; the newest before them says what came before.
        if self.reached.len() > 3 {
            self.reached.remove(0);
        }
        match self.reached.last_mut() {
            Some((of, reached)) if *of == txg => *reached = last,
            _ => self.reached.push((txg, last)),
        }
    }

    /// The last object that was counted before the group `txg`, and the last that is with it.
    pub(crate) fn reached_with(&self, txg: Txg) -> (u64, u64) {
        let last = |is_part: &dyn Fn(Txg) -> bool| {
            let mut newest = self.reached.iter().rev();
            let found = newest.find(|(of, _)| is_part(*of));
            found.map_or(0, |(_, last)| *last)
        };
        (last(&|of| of < txg), last(&|of| of <= txg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_reach_further_one_after_the_other() {
        let mut recount = Recount::new(1);
        assert_eq!(recount.reached_with(Txg(9)), (0, 0));
        for (txg, last) in [(5, 10), (5, 20), (6, 30), (8, 40), (9, 50), (10, 60)] {
            recount.reach(Txg(txg), last);
        }
        assert_eq!(recount.reached_with(Txg(9)), (40, 50));
        assert_eq!(recount.reached_with(Txg(10)), (50, 60));
        assert_eq!(recount.reached_with(Txg(11)), (60, 60));
    }
}
