//! Where the space of a removed vdev was copied to: a sorted list of segments (format/1c 6).

use cenote_base::Txg;
use cenote_ondisk::Dva;

/// A segment of a removed vdev's space and where it was copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndirectEntry {
    /// First byte on the removed vdev.
    pub source: u64,
    /// Where it is now; its allocated size is the segment's length.
    pub target: Dva,
    /// The group in which it was copied there. Until then no device had it at this place.
    pub copied_in: Txg,
}

/// The segments of a removed vdev in order.
#[derive(Debug)]
pub(crate) struct IndirectMapping {
    pub(crate) entries: Vec<IndirectEntry>,
}

impl IndirectMapping {
    /// Checks the order and that no segment is empty or overlaps the next.
    pub(crate) fn new(entries: Vec<IndirectEntry>) -> Option<Self> {
        let ends_before = |pair: &[IndirectEntry]| {
            let end = pair[0].source.checked_add(pair[0].target.asize());
            end.is_some_and(|end| end <= pair[1].source)
        };
        let is_sane = entries.iter().all(|entry| {
            entry.target.asize() > 0 && entry.source.checked_add(entry.target.asize()).is_some()
        });
        (is_sane && entries.windows(2).all(ends_before)).then_some(Self { entries })
    }

    /// The groups in which something was copied, in any order.
    pub(crate) fn copied_in(&self) -> impl Iterator<Item = Txg> {
        let mut txgs = self.entries.iter().map(|entry| entry.copied_in);
        let mut last = None;
        std::iter::from_fn(move || {
            // Neighbours are mostly of the same group.
            let next = txgs.find(|txg| last != Some(*txg));
            last = next.or(last);
            next
        })
    }

    /// The entry that covers a byte.
    pub(crate) fn find(&self, offset: u64) -> Option<&IndirectEntry> {
        let after = self.entries.partition_point(|entry| entry.source <= offset);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        (offset - entry.source < entry.target.asize()).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_base::VdevId;

    fn entry(source: u64, vdev: u64, offset: u64, length: u64) -> IndirectEntry {
        IndirectEntry {
            source,
            target: Dva::new(VdevId(vdev), offset, length),
            copied_in: Txg(8),
        }
    }

    #[test]
    fn lookups_hit_segments_and_miss_gaps() {
        let entries = vec![entry(0, 1, 4096, 1024), entry(2048, 1, 0, 512)];
        let mapping = IndirectMapping::new(entries).expect("in order");
        let find = |offset| mapping.find(offset).map(|entry| entry.source);
        assert_eq!(find(0), Some(0));
        assert_eq!(find(1023), Some(0));
        assert_eq!(find(1024), None);
        assert_eq!(find(2048), Some(2048));
        assert_eq!(find(2560), None);
    }

    #[test]
    fn disorder_is_refused() {
        assert!(IndirectMapping::new(vec![entry(512, 1, 0, 512), entry(0, 1, 0, 512)]).is_none());
        assert!(IndirectMapping::new(vec![entry(0, 1, 0, 1024), entry(512, 1, 0, 512)]).is_none());
        assert!(IndirectMapping::new(vec![entry(0, 1, 0, 0)]).is_none());
        assert!(IndirectMapping::new(vec![entry(u64::MAX - 511, 1, 0, 1024)]).is_none());
    }
}
