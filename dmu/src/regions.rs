//! Where in the array of dnodes a scan is.
//!
//! Files created together have dnodes together, so listing one directory after another goes through
//! the array of dnodes roughly from front to back. The array is divided into *regions*. A region of
//! which several blocks were requested is read as a whole, in large requests. When the scan comes
//! to the region behind one that was read, the next ones are read ahead, more of them the longer it
//! lasts. Directories found on the way have their first block read too, which is all of it for
//! most: a listing then waits for no device at all.

use cenote_base::rt::{Mutex, ranks};

/// Blocks of a region: 512 KiB of dnodes in the usual blocks of 16 KiB, 1024 small files.
pub(crate) const REGION_BLOCKS: u64 = 32;
/// So many blocks of a region must have been asked for before it is read as a whole.
const TOUCHES_MIN: u32 = 3;
/// The most regions read ahead of a scan.
const REGIONS_AHEAD_MAX: u64 = 4;
/// Regions remembered; those seen longest ago are forgotten.
const REGIONS_MAX: usize = 64;

/// A piece of the array of dnodes that was read lately.
#[derive(Debug)]
struct Region {
    number: u64,
    touches: u32,
    is_read: bool,
    /// How many regions before this one were read one after the other.
    run: u64,
}

/// Where dnodes were looked for lately; the latest region is last.
#[derive(Debug, Default)]
pub(crate) struct DnodeScans {
    regions: Mutex<Vec<Region>, ranks::DnodeScans>,
}

impl DnodeScans {
    /// Notes that dnode blocks were asked for; returns the regions to read now.
    pub(crate) fn note(&self, blocks: &[u64]) -> Vec<u64> {
        let mut regions = self.regions.lock();
        let mut due = Vec::new();
        for block in blocks {
            let number = block / REGION_BLOCKS;
            let run = match number.checked_sub(1).and_then(|n| find(&regions, n)) {
                Some(before) if regions[before].is_read => regions[before].run + 1,
                _ => 0,
            };
            let region = touch(&mut regions, number);
            region.touches = region.touches.saturating_add(1);
            region.run = region.run.max(run);
            let run = region.run;
            if region.touches < TOUCHES_MIN && run == 0 {
                continue;
            }
            let last = number.saturating_add(run.min(REGIONS_AHEAD_MAX));
            for ahead in number..=last {
                let is_read = match find(&regions, ahead) {
                    Some(index) => &mut regions[index].is_read,
                    None => &mut touch(&mut regions, ahead).is_read,
                };
                if !std::mem::replace(is_read, true) {
                    due.push(ahead);
                }
            }
        }
        due
    }
}

fn find(regions: &[Region], number: u64) -> Option<usize> {
    regions.iter().rposition(|region| region.number == number)
}

/// The region `number`, which becomes the latest.
fn touch(regions: &mut Vec<Region>, number: u64) -> &mut Region {
    let region = match find(regions, number) {
        Some(index) => regions.remove(index),
        None => Region {
            number,
            touches: 0,
            is_read: false,
            run: 0,
        },
    };
    if regions.len() == REGIONS_MAX {
        regions.remove(0);
    }
    regions.push(region);
    regions.last_mut().expect("one was pushed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_blocks_bring_the_region_and_a_run_those_behind() {
        let scans = DnodeScans::default();
        assert!(scans.note(&[5]).is_empty());
        assert!(scans.note(&[9]).is_empty());
        assert_eq!(scans.note(&[7]), [0]);
        assert!(scans.note(&[8]).is_empty(), "read already");
        // One block behind a region that was read is enough, and more is read ahead.
        assert_eq!(scans.note(&[REGION_BLOCKS]), [1, 2]);
        assert_eq!(scans.note(&[2 * REGION_BLOCKS + 3]), [3, 4]);
        assert_eq!(scans.note(&[3 * REGION_BLOCKS]), [5, 6]);
        assert_eq!(scans.note(&[4 * REGION_BLOCKS]), [7, 8]);
        assert_eq!(scans.note(&[5 * REGION_BLOCKS]), [9], "as far as it goes");
    }

    #[test]
    fn single_files_far_apart_bring_nothing() {
        let scans = DnodeScans::default();
        for n in 0..1000 {
            assert!(
                scans
                    .note(&[n * 7919 % 1_000_003 * REGION_BLOCKS * 2])
                    .is_empty()
            );
        }
        assert!(scans.regions.lock().len() <= REGIONS_MAX);
    }

    #[test]
    fn numbers_at_the_end_do_not_overflow() {
        let scans = DnodeScans::default();
        for _ in 0..4 {
            scans.note(&[u64::MAX - 1, u64::MAX]);
        }
    }
}
