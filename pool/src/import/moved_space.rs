//! Where the space of removed vdevs was copied to, and when.
//!
//! Both are tables of the meta object set (format/1c 6). Without the mapping the moved blocks are
//! lost. Without the births it is unknown which devices missed the copying: blocks can be read,
//! since checksums find stale copies, but a resilver would be unreliable. So a pool without them
//! can only be imported read-only.

use crate::error::ImportError;
use crate::import::unread::Unread;
use crate::mos::{indirect_births, indirect_mapping};
use cenote_base::{SECTOR_SIZE, Txg, VdevId};
use cenote_dmu::ObjectSet;
use cenote_ondisk::device_removal::{BirthEntry, MappingEntry};
use cenote_ondisk::{Dva, VdevConfig};
use cenote_vdev::{IndirectEntry, Shape, VdevError};
use std::sync::Arc;

/// Gives the vdevs what the pool's tables say of a removed vdev.
pub(crate) fn prepare(
    mos: &Arc<ObjectSet>,
    vdevs: &Shape,
    top: &VdevConfig,
    unread: &mut Unread,
) -> Result<(), ImportError> {
    let id = top.id.unwrap_or_default();
    let what =
        || format!("the mapping of removed vdev {id} (blocks that were moved from there are lost)");
    let mapping = unread.or_default(what(), indirect_mapping(mos, top))?;
    let births = indirect_births(mos, top).map_err(ImportError::from);
    let births = births.and_then(|births| checked(id, births, &mapping));
    let times = format!(
        "when the space of removed vdev {id} was copied (which devices missed it is unknown)"
    );
    let births = unread.or_default(times, births)?;
    let entries = entries(&mapping, &births);
    unread.or_default(what(), vdevs.set_indirect_mapping(id, entries))
}

/// Checks that the births are in order and cover the mapping.
fn checked(
    vdev: VdevId,
    births: Vec<BirthEntry>,
    mapping: &[MappingEntry],
) -> Result<Vec<BirthEntry>, ImportError> {
    let is_sane = births.iter().all(|b| b.offset.is_multiple_of(SECTOR_SIZE))
        && births.windows(2).all(|b| b[0].offset <= b[1].offset);
    let end = mapping.last().map_or(0, MappingEntry::end);
    let covered = births.last().map_or(0, |birth| birth.offset);
    let problem = match is_sane {
        true if end <= covered => return Ok(births),
        true => "nothing says when some of its space was copied",
        false => "the groups in which its space was copied are out of order",
    };
    Err(VdevError::BadMapping { vdev, problem }.into())
}

/// The segments, each with the one group in which it was copied. Without a birth a segment counts
/// as old as its blocks.
fn entries(mapping: &[MappingEntry], births: &[BirthEntry]) -> Vec<IndirectEntry> {
    let mut entries = Vec::with_capacity(mapping.len());
    for entry in mapping {
        let to = entry.destination;
        let mut at = entry.source;
        while at < entry.end() {
            let next = births.partition_point(|birth| birth.offset <= at);
            let birth = births.get(next);
            let end = birth.map_or(entry.end(), |birth| birth.offset.min(entry.end()));
            let offset = to.offset().saturating_add(at - entry.source);
            entries.push(IndirectEntry {
                source: at,
                target: Dva::new(to.vdev(), offset, end - at),
                copied_in: birth.map_or(Txg(0), |birth| birth.physical_birth),
            });
            at = end;
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn birth(offset: u64, txg: u64) -> BirthEntry {
        BirthEntry {
            offset,
            physical_birth: Txg(txg),
        }
    }

    fn mapping() -> Vec<MappingEntry> {
        let entry = |source, offset, length| MappingEntry {
            source,
            destination: Dva::new(VdevId(2), offset, length),
        };
        vec![entry(0, 8192, 2048), entry(4096, 0, 1024)]
    }

    #[test]
    fn a_segment_was_copied_in_one_group() {
        let births = [
            birth(512, 10),
            birth(512, 11),
            birth(1024, 12),
            birth(8192, 13),
        ];
        let found = entries(&mapping(), &births);
        let found = found
            .iter()
            .map(|e| (e.source, e.target.offset(), e.target.asize(), e.copied_in.0));
        let expected = [
            (0, 8192, 512, 10),
            (512, 8704, 512, 12),
            (1024, 9216, 1024, 13),
            (4096, 0, 1024, 13),
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected);
        let unknown = entries(&mapping(), &[]);
        assert!(unknown.iter().all(|entry| entry.copied_in == Txg(0)));
        assert_eq!(unknown.len(), 2);
    }

    #[test]
    fn births_have_to_tell_of_all() {
        let check = |births: &[BirthEntry]| checked(VdevId(1), births.to_vec(), &mapping());
        assert!(check(&[birth(4096, 9), birth(5120, 10)]).is_ok());
        assert!(check(&[birth(4096, 9)]).is_err());
        assert!(check(&[]).is_err());
        assert!(check(&[birth(8192, 9), birth(4096, 10), birth(8192, 11)]).is_err());
        assert!(
            check(&[birth(100, 9), birth(8192, 10)]).is_err(),
            "within a sector"
        );
        assert!(checked(VdevId(1), Vec::new(), &[]).is_ok());
    }
}
