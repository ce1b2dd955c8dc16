//! Bytes of leaves that were read ahead for one piece of work.
//!
//! A scan judges block after block, each copy and column by itself, and a device wants few and
//! large requests. So neighbouring blocks are read at once into *windows*
//! ([`crate::Shape::read_windows`]). While they are judged, reads of a leaf are answered from the
//! windows in their [`crate::IoContext`]. What is in no window is read as ever: a window that
//! cannot be read is left out, and the device says what is wrong when it is asked for a part of it.

use cenote_device::AlignedBuf;

/// Which bytes of which leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WindowPlace {
    /// The leaf's address in memory, which names it while it lives.
    pub leaf: usize,
    /// In the boot region.
    pub in_scratch: bool,
    /// The first byte.
    pub offset: u64,
}

/// A run of bytes.
#[derive(Debug)]
pub(crate) struct Window {
    pub place: WindowPlace,
    pub bytes: AlignedBuf,
}

/// Runs of bytes of leaves.
#[derive(Debug)]
pub struct Windows {
    /// In the order of their places, none overlapping another.
    windows: Vec<Window>,
}

impl Windows {
    pub(crate) fn new(mut windows: Vec<Window>) -> Self {
        windows.sort_unstable_by_key(|window| window.place);
        Self { windows }
    }

    /// Fills a buffer from a window; false if none has all of it.
    pub(crate) fn fill(&self, place: WindowPlace, buffer: &mut [u8]) -> bool {
        let after = self.windows.partition_point(|window| window.place <= place);
        let Some(window) = after.checked_sub(1).map(|index| &self.windows[index]) else {
            return false;
        };
        let is_same =
            (window.place.leaf, window.place.in_scratch) == (place.leaf, place.in_scratch);
        let from = usize::try_from(place.offset.saturating_sub(window.place.offset)).ok();
        let bytes = from.and_then(|from| window.bytes.get(from..)?.get(..buffer.len()));
        match bytes.filter(|_| is_same) {
            Some(bytes) => {
                buffer.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wholly_in_a_window_is_answered() {
        let place = |leaf, offset| WindowPlace {
            leaf,
            in_scratch: false,
            offset,
        };
        let window = |leaf, offset, fill: u8| {
            let mut bytes = AlignedBuf::take(8);
            bytes.fill(fill);
            let place = place(leaf, offset);
            Window { place, bytes }
        };
        let windows = Windows::new(vec![window(1, 96, 7), window(1, 16, 5), window(2, 16, 9)]);
        let mut buffer = [0; 4];
        for (leaf, offset, expected) in [
            (1, 16, Some(5)),
            (1, 20, Some(5)),
            (1, 21, None),
            (1, 15, None),
            (1, 100, Some(7)),
            (2, 16, Some(9)),
            (3, 16, None),
        ] {
            let is_there = windows.fill(place(leaf, offset), &mut buffer);
            assert_eq!(is_there.then_some(buffer[0]), expected, "{leaf} {offset}");
        }
    }
}
