//! Which object number to give to a new object.
//!
//! Numbers are handed out from one block of dnodes at a time, so that objects made together lie
//! together. When the block is full, the next one is searched. After objects were freed the search
//! starts over from the beginning, past blocks that are full by their fill counts.

/// The block of dnodes that new objects go to.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// The block, once one was chosen.
    pub(crate) block: Option<u64>,
    /// A bit for each of its slots that is taken.
    pub(crate) taken: Vec<bool>,
    /// Objects freed since the last search from the beginning.
    pub(crate) freed: u64,
    /// Blocks searched since then.
    pub(crate) searched: u64,
}

/// So many frees make it worthwhile to search from the beginning again.
const FREED_MIN: u64 = 64;

impl Numbers {
    /// Whether enough was freed to begin again: as much as the last search cost at least.
    pub(crate) fn is_worth_a_new_search(&self) -> bool {
        self.freed >= FREED_MIN.max(self.searched)
    }

    /// Takes `slots` free slots in a row of the current block; returns the first.
    pub(crate) fn take(&mut self, slots: usize) -> Option<usize> {
        self.block?;
        let last = self.taken.len().checked_sub(slots)?;
        let is_free = |start: &usize| self.taken[*start..start + slots].iter().all(|bit| !bit);
        let start = (0..=last).find(is_free)?;
        self.taken[start..start + slots].fill(true);
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_dnodes_take_slots_in_a_row() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.take(1), None, "no block yet");
        numbers.block = Some(0);
        numbers.taken = vec![true, false, true, false, false, false];
        assert_eq!(numbers.take(2), Some(3));
        assert_eq!(numbers.take(1), Some(1));
        assert_eq!(numbers.take(2), None);
        assert_eq!(numbers.take(1), Some(5));
        assert_eq!(numbers.take(1), None);
    }
}
