//! How scattered a pool's free space is (`fragmentation`, FRAG).
//!
//! Space maps count free segments by size. Each size stands for a degree of fragmentation, from
//! 100 for single sectors to 0 for 64 MiB and more; a metaslab's is the mean over its free space,
//! a vdev's the mean over its metaslabs, a pool's the mean over its vdevs by their size. The
//! figure is a hint and never stored, so what the logs of the last transaction groups say is left
//! out, as before the maps are loaded in OpenZFS.

use cenote_base::ObjectId;
use cenote_ondisk::VdevConfig;
use cenote_ondisk::space_map::SpaceMapHeader;
use cenote_pool::Pool;
use cenote_vdev::AllocationClass;

/// Degrees for segments of 512 bytes, 1 KiB, 2 KiB, … 64 MiB (format/1d.8).
const DEGREES: [u64; 18] = [
    100, 99, 97, 93, 88, 83, 77, 71, 64, 57, 50, 43, 36, 29, 22, 14, 7, 0,
];
const SECTOR_SHIFT: u32 = 9;
/// The most metaslabs of one vdev that are read: OpenZFS makes at most 131072.
const METASLABS_MAX: u64 = 1 << 17;

/// The fragmentation of a top-level vdev in per cent; `None` if its space maps do not have it.
fn of_vdev(pool: &Pool, vdev: &VdevConfig) -> Option<u64> {
    let ashift = vdev.ashift?;
    let Some(array) = vdev.metaslab_array else {
        // All of it is free.
        return Some(0);
    };
    let count = (vdev.asize.checked_shr(vdev.metaslab_shift)?).min(METASLABS_MAX);
    let mut maps = vec![0; usize::try_from(count).ok()?.checked_mul(8)?];
    pool.mos().object(array).ok()?.read(0, &mut maps).ok()?;
    let (mut sum, mut known) = (0, 0);
    for map in maps.chunks_exact(8) {
        let map = u64::from_le_bytes(map.try_into().expect("chunks of 8 bytes"));
        if map == 0 {
            known += 1;
            continue;
        }
        let object = pool.mos().object(ObjectId(map)).ok()?;
        let header = SpaceMapHeader::decode(&object.dnode().bonus).ok()?;
        if let Some(degree) = of_histogram(&header.histogram?, ashift) {
            sum += degree;
            known += 1;
        }
    }
    (known > 0).then(|| sum / known)
}

/// The mean degree over the free segments; 0 where nothing is free.
fn of_histogram(histogram: &[u64], shift: u32) -> Option<u64> {
    let (mut weighted, mut total) = (0u128, 0u128);
    for (bucket, segments) in (0..).zip(histogram) {
        let shift = shift + bucket;
        let space = u128::from(*segments) << shift.min(40);
        let index = usize::try_from(shift.saturating_sub(SECTOR_SHIFT)).ok()?;
        let degree = DEGREES.get(index).copied().unwrap_or(0);
        weighted += space * u128::from(degree);
        total += space;
    }
    u64::try_from(weighted.checked_div(total).unwrap_or(0)).ok()
}

/// The fragmentation of a top-level vdev (by its id), or of those of the normal class.
pub(crate) fn fragmentation(pool: &Pool, top: Option<u64>) -> Option<u64> {
    let (mut weighted, mut total) = (0u128, 0u128);
    for vdev in &pool.vdev_tree().children {
        let id = vdev.id.unwrap_or_default();
        let wanted = match top {
            Some(top) => top == id.0,
            None => pool.vdevs().class(id) == Some(AllocationClass::Normal),
        };
        if !wanted {
            continue;
        }
        let Some(size) = pool.space().get(&id).map(|space| space.size) else {
            continue;
        };
        weighted += u128::from(of_vdev(pool, vdev)?) * u128::from(size);
        total += u128::from(size);
    }
    u64::try_from(weighted.checked_div(total)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn degrees_by_segment_size() {
        let mut histogram = [0; 32];
        assert_eq!(of_histogram(&histogram, 9), Some(0), "nothing free");
        histogram[0] = 7;
        assert_eq!(
            of_histogram(&histogram, 9),
            Some(100),
            "only single sectors"
        );
        assert_eq!(of_histogram(&histogram, 12), Some(93));
        histogram[31] = 1;
        assert_eq!(
            of_histogram(&histogram, 9),
            Some(0),
            "nearly all in one piece"
        );
        assert!(
            of_histogram(&[u64::MAX; 32], 63).is_some(),
            "nonsense does not overflow"
        );
    }
}
