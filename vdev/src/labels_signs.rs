//! How far a device has come, by the oldest sign that its labels give.
//!
//! Every group writes its uberblock to all four labels of a device, two at each end. So the
//! labels of a device agree, but for a group that a power cut interrupted. They disagree on a
//! *torn copy*: one that was made while the device was in use, or that was broken off. Its newest
//! label then says nothing about the rest of the device, so the oldest one counts. A device that
//! lost one group too few by this gets the group again, which is cheap.
//!
//! A label without any uberblock gives no sign: it was overwritten, or never written. If that is
//! so of both labels at one end, nothing proves that this end is the device's at all.
//!
//! Heartbeats say nothing: each goes to one label of one device.

use crate::labels::DeviceLabels;
use cenote_base::Txg;
use cenote_ondisk::label::LABELS;
use cenote_ondisk::uberblock::Uberblock;

/// Whether an uberblock completes a group: heartbeats repeat one.
fn is_of_group(uberblock: &Uberblock) -> bool {
    let sequence = uberblock.multihost.as_ref().and_then(|m| m.sequence);
    sequence.unwrap_or(0) == 0 && uberblock.txg.0 != 0
}

impl DeviceLabels {
    /// For each label with uberblocks, the newest group up to `last`; 0 if it has later ones only.
    fn newest_by_label(&self, last: Txg) -> [Option<Txg>; LABELS] {
        let mut newest: [Option<Txg>; LABELS] = [None; LABELS];
        let groups = self.uberblocks.iter();
        for found in groups.filter(|found| is_of_group(&found.uberblock)) {
            let Some(own) = newest.get_mut(found.label) else {
                continue;
            };
            let txg = Some(found.uberblock.txg).filter(|txg| *txg <= last);
            *own = Some(own.unwrap_or_default().max(txg.unwrap_or_default()));
        }
        newest
    }

    /// The last group up to `last` whose uberblock is in every label that has any.
    pub fn whole_until(&self, last: Txg) -> Txg {
        let newest = self.newest_by_label(last);
        newest.into_iter().flatten().min().unwrap_or_default()
    }

    /// The last group up to `last` in which labels were written, by the end of the device that has
    /// the older ones. Both ends have them before any device has the group's uberblock.
    pub fn labelled_until(&self, last: Txg) -> Txg {
        let mut ends: [Option<Txg>; 2] = [None; 2];
        for label in self.labels.iter().filter(|label| label.is_valid()) {
            let end = &mut ends[usize::from(label.index >= LABELS / 2)];
            let txg = Some(label.txg()).filter(|txg| *txg <= last);
            *end = Some(end.unwrap_or_default().max(txg.unwrap_or_default()));
        }
        ends.into_iter().flatten().min().unwrap_or_default()
    }

    /// Whether one end of the device gives no sign at all, and the other does.
    pub fn lacks_an_end(&self) -> bool {
        let newest = self.newest_by_label(Txg(u64::MAX));
        let (head, tail) = newest.split_at(LABELS / 2);
        let has_signs = |end: &[Option<Txg>]| end.iter().any(Option::is_some);
        has_signs(head) != has_signs(tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::FoundUberblock;
    use cenote_ondisk::uberblock::{MAGIC, Multihost, UBERBLOCK_WORDS};

    /// Labels with these groups in their rings; a heartbeat of group 99 is in the first.
    fn labels(groups: [&[u64]; LABELS]) -> DeviceLabels {
        let mut labels = DeviceLabels::default();
        let mut add = |label, txg, sequence| {
            let mut words = [0; UBERBLOCK_WORDS];
            words[0] = MAGIC;
            words[2] = txg;
            let mut uberblock = Uberblock::from_words(&words).expect("right magic");
            uberblock.multihost = Some(Multihost {
                delay_ns: 0,
                interval_ms: None,
                sequence: Some(sequence),
                fail_intervals: None,
            });
            labels.uberblocks.push(FoundUberblock {
                label,
                slot: 0,
                slot_size: 1024,
                uberblock,
            });
        };
        add(0, 99, 7);
        for (label, groups) in groups.into_iter().enumerate() {
            groups.iter().for_each(|txg| add(label, *txg, 0));
        }
        labels
    }

    #[test]
    fn the_oldest_sign_counts() {
        let until = |groups, last| labels(groups).whole_until(Txg(last)).0;
        assert_eq!(until([&[5, 6], &[5, 6], &[5, 6], &[5, 6]], 99), 6);
        // One end is newer, or one label.
        assert_eq!(until([&[5, 9], &[5, 9], &[5], &[5]], 99), 5);
        assert_eq!(until([&[5, 9], &[5], &[9], &[9]], 99), 5);
        // A label that was overwritten says nothing.
        assert_eq!(until([&[5, 9], &[], &[9], &[9]], 99), 9);
        assert_eq!(until([&[5, 9], &[9], &[9], &[9]], 8), 0);
        assert_eq!(until([&[], &[], &[], &[]], 99), 0);
    }

    #[test]
    fn an_end_without_signs() {
        let lacks = |groups| labels(groups).lacks_an_end();
        assert!(lacks([&[5], &[5], &[], &[]]));
        assert!(lacks([&[], &[], &[], &[5]]));
        assert!(!lacks([&[5], &[], &[], &[5]]));
        assert!(!lacks([&[], &[], &[], &[]]));
    }
}
