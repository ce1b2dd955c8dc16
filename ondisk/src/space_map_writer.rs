//! Writing ranges into a space map (format/1d 2): which words a range becomes.
//!
//! A range is cut into runs that fit an entry: one word while offset and length allow it, two
//! words otherwise if the feature `spacemap_v2` permits. Entries of two words do not straddle
//! the blocks of the map's object: a padding word fills the last place of a block. The writer
//! appends to a map of some length and gives out the bytes; storing them is the caller's.

use super::space_map::{
    Action, HISTOGRAM_BUCKETS, ONE_WORD_OFFSET_END, ONE_WORD_RUN_MAX, PADDING_WORD,
    TWO_WORD_RUN_MAX, encode_debug, encode_one_word, encode_two_words,
};
use cenote_base::{Txg, VdevId};

const WORD: u64 = 8;

/// Appends entries to a space map.
#[derive(Clone, Debug)]
pub struct SpaceMapWriter {
    start: u64,
    shift: u32,
    block_size: u64,
    two_words: bool,
    /// Where the next word goes, in bytes from the map's beginning.
    position: u64,
    bytes: Vec<u8>,
}

impl SpaceMapWriter {
    /// A writer behind the first `length` bytes of a map that starts at `start`, counts units of
    /// 2^`shift` bytes, and is an object of blocks of `block_size` bytes.
    pub fn new(start: u64, shift: u32, block_size: u64, length: u64, two_words: bool) -> Self {
        assert!(shift < 64 && block_size >= 2 * WORD && block_size.is_multiple_of(WORD));
        assert!(length.is_multiple_of(WORD));
        Self {
            start,
            shift,
            block_size,
            two_words,
            position: length,
            bytes: Vec::new(),
        }
    }

    /// Bytes of the map with everything appended so far.
    pub fn length(&self) -> u64 {
        self.position
    }

    /// The appended bytes, which go where the map ended before.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn put(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
        self.position += WORD;
    }

    /// Says what the next entries are about.
    pub fn debug(&mut self, action: Action, sync_pass: u64, txg: Txg) {
        self.put(encode_debug(action, sync_pass, txg));
    }

    /// Appends a range in bytes. `vdev` is for log space maps; 0 elsewhere.
    ///
    /// The range must be of whole units and, without two-word entries, near enough to the start.
    pub fn range(&mut self, action: Action, vdev: VdevId, offset: u64, length: u64) {
        let unit = 1_u64 << self.shift;
        assert!(offset >= self.start && length > 0, "a range of the map");
        let offset = offset - self.start;
        assert!(offset.is_multiple_of(unit) && length.is_multiple_of(unit));
        let (mut at, mut left) = (offset >> self.shift, length >> self.shift);
        while left > 0 {
            let run = self.entry(action, vdev, at, left);
            at += run;
            left -= run;
        }
    }

    /// Appends an entry for as much as one can hold and returns that.
    fn entry(&mut self, action: Action, vdev: VdevId, offset: u64, units: u64) -> u64 {
        let short = units <= ONE_WORD_RUN_MAX && offset < ONE_WORD_OFFSET_END && vdev.0 == 0;
        if short || !self.two_words {
            let run = units.min(ONE_WORD_RUN_MAX);
            self.put(encode_one_word(action, offset, run));
            return run;
        }
        if self.position % self.block_size == self.block_size - WORD {
            self.put(PADDING_WORD);
        }
        let run = units.min(TWO_WORD_RUN_MAX);
        for word in encode_two_words(action, vdev, offset, run) {
            self.put(word);
        }
        run
    }

    /// As [`Self::range`] for log space maps, whose entries always name their vdev.
    pub fn log_range(&mut self, action: Action, vdev: VdevId, offset: u64, length: u64) {
        assert!(self.two_words, "log space maps need two-word entries");
        let (mut at, mut left) = (offset >> self.shift, length >> self.shift);
        while left > 0 {
            if self.position % self.block_size == self.block_size - WORD {
                self.put(PADDING_WORD);
            }
            let run = left.min(TWO_WORD_RUN_MAX);
            for word in encode_two_words(action, vdev, at, run) {
                self.put(word);
            }
            at += run;
            left -= run;
        }
    }
}

/// The histogram's bucket of a free segment of `length` bytes in a map of this shift; segments
/// too large for the last bucket count there.
pub fn histogram_bucket(length: u64, shift: u32) -> usize {
    assert!(length > 0);
    let log = length.ilog2().saturating_sub(shift);
    usize::try_from(log)
        .expect("below 64")
        .min(HISTOGRAM_BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::super::space_map::{SpaceMapEntry, SpaceMapItem, SpaceMapItems};
    use super::*;

    fn read(bytes: &[u8], start: u64, shift: u32) -> Vec<SpaceMapEntry> {
        let items = SpaceMapItems::new(bytes, start, shift);
        items.entries().collect::<Result<_, _>>().expect("valid")
    }

    #[test]
    fn long_ranges_are_cut_and_found_again() {
        for two_words in [false, true] {
            let mut writer = SpaceMapWriter::new(1 << 30, 12, 4096, 0, two_words);
            writer.debug(Action::Alloc, 1, Txg(9));
            writer.range(Action::Alloc, VdevId(0), 1 << 30, 4096);
            writer.range(Action::Free, VdevId(0), (1 << 30) + (1 << 20), 300 << 20);
            assert_eq!(writer.length() % 8, 0);
            let entries = read(&writer.into_bytes(), 1 << 30, 12);
            assert_eq!(entries.len(), if two_words { 2 } else { 4 });
            let freed: u64 = entries[1..].iter().map(|entry| entry.length).sum();
            assert_eq!(freed, 300 << 20);
            assert_eq!(entries[1].offset, (1 << 30) + (1 << 20));
        }
    }

    #[test]
    fn two_words_stay_in_their_block() {
        let mut writer = SpaceMapWriter::new(0, 9, 512, 0, true);
        for i in 0..100 {
            writer.log_range(Action::Alloc, VdevId(3), i << 20, 512 * (i + 1));
            if i == 10 {
                writer.debug(Action::Free, 1, Txg(i));
            }
        }
        let bytes = writer.into_bytes();
        let mut entries = Vec::new();
        // Block by block, as a reader does.
        for block in bytes.chunks(512) {
            entries.extend(read(block, 0, 9));
        }
        assert_eq!(entries.len(), 100);
        assert!(entries.iter().all(|entry| entry.vdev == VdevId(3)));
        let padding = bytes.chunks(512).flat_map(|b| SpaceMapItems::new(b, 0, 9));
        assert!(
            padding
                .filter(|item| *item == Ok(SpaceMapItem::Padding))
                .count()
                > 0
        );
    }

    #[test]
    fn buckets() {
        assert_eq!(histogram_bucket(4096, 12), 0);
        assert_eq!(histogram_bucket(8191, 12), 0);
        assert_eq!(histogram_bucket(1 << 20, 12), 8);
        assert_eq!(histogram_bucket(1 << 60, 9), HISTOGRAM_BUCKETS - 1);
    }
}
