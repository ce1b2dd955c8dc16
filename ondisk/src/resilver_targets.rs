//! The devices that a resilver under way is for: an entry of the object directory of our own.
//!
//! OpenZFS stores how far a scan is (format/1b 8) and not for which devices it came so far. A
//! device that was away for a part of it got nothing of that part, and an import cannot tell by the
//! scan's words alone. So Cenote stores with the words which devices were there all the time:
//!
//! ```text
//!   word 0   start time of the scan, in seconds
//!        1   txg_min            together these words say which scan, and how far it was:
//!        2   txg_max            if another system has continued it since, they differ, and
//!        3   bytes examined     the rest says nothing
//!        4.. for each device: guid, number of ranges, then start and end of each range of txgs
//!            that it missed
//! ```
//!
//! OpenZFS ignores names that it does not know. The entry goes when the scan ends.

use crate::scan::Scan;
use cenote_base::{Guid, Txg};
use std::ops::Range;

/// The entry's name.
pub const RESILVER_TARGETS: &str = "org.cenote:resilver_targets";

/// Words that an entry has at most: a ZAP takes values of 8 KiB.
const WORDS_MAX: usize = 512;

/// What a device missed.
pub type MissedTxgs = (Guid, Vec<Range<Txg>>);

fn identity(scan: &Scan) -> [u64; 4] {
    let Scan {
        txg_min, txg_max, ..
    } = *scan;
    [scan.start_time, txg_min.0, txg_max.0, scan.examined]
}

/// The words for a scan and its devices; those for which there is no room are left out.
pub fn encode(scan: &Scan, devices: impl IntoIterator<Item = MissedTxgs>) -> Vec<u64> {
    let mut words = identity(scan).to_vec();
    for (guid, ranges) in devices {
        if words.len() + 2 + 2 * ranges.len() <= WORDS_MAX {
            words.extend([guid.0, ranges.len() as u64]);
            words.extend(ranges.iter().flat_map(|range| [range.start.0, range.end.0]));
        }
    }
    words
}

/// The devices that got all that this scan came to so far; none if the words are not of it.
pub fn decode(words: &[u64], scan: &Scan) -> Vec<MissedTxgs> {
    let mut devices = Vec::new();
    let Some(mut rest) = words.strip_prefix(&identity(scan)) else {
        return devices;
    };
    while let [guid, count, tail @ ..] = rest {
        let length = usize::try_from(*count)
            .ok()
            .and_then(|count| count.checked_mul(2));
        let Some((ranges, tail)) = length.and_then(|length| tail.split_at_checked(length)) else {
            break;
        };
        let ranges = ranges
            .chunks_exact(2)
            .map(|pair| Txg(pair[0])..Txg(pair[1]));
        devices.push((Guid(*guid), ranges.collect()));
        rest = tail;
    }
    devices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan() -> Scan {
        let mut words = [0; crate::scan::SCAN_WORDS];
        (words[3], words[4], words[7], words[10]) = (9, 20, 1000, 4096);
        Scan::from_words(&words).expect("a scan")
    }

    #[test]
    fn devices_come_back_for_the_same_scan_only() {
        let devices = vec![
            (Guid(7), vec![Txg(10)..Txg(12), Txg(15)..Txg(21)]),
            (Guid(8), vec![Txg(10)..Txg(11)]),
        ];
        let words = encode(&scan(), devices.clone());
        assert_eq!(decode(&words, &scan()), devices);
        let elsewhere = Scan {
            examined: 8192,
            ..scan()
        };
        assert!(decode(&words, &elsewhere).is_empty());
        assert!(decode(&[], &scan()).is_empty());
    }

    #[test]
    fn any_words_are_decoded() {
        let mut words = encode(&scan(), [(Guid(7), vec![Txg(10)..Txg(12)])]);
        words.extend([8, u64::MAX]);
        assert_eq!(decode(&words, &scan()).len(), 1);
        words.pop();
        assert_eq!(decode(&words, &scan()).len(), 1);
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let ranges = |count: u64| (0..count).map(|at| Txg(2 * at)..Txg(2 * at + 1)).collect();
        let devices = [(Guid(7), ranges(300)), (Guid(8), ranges(3))];
        let words = encode(&scan(), devices);
        assert_eq!(decode(&words, &scan()), [(Guid(8), ranges(3))]);
    }
}
