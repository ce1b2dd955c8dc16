//! The device's addresses that still lead to given objects.
//!
//! The map leads from addresses to objects, so the way back is a walk over all of it. That is done
//! for damaged objects: if the damaged bytes are needed, the damage is a loss; if not, it is waste
//! that compaction takes away.
//!
//! *Proof*: a piece of an object has one checksum. If a part of it was repaired, which is written
//! elsewhere, the piece as the device has it now has that checksum again, and what is left in the
//! damaged object is intact.

use crate::core::Core;
use crate::error::{CloudError, Result};
use crate::format::data::Piece;
use crate::format::{Hash, ObjectNumber, SECTOR};
use crate::origin::Origin;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A part of an object that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Living {
    /// Where on the device it is, in sectors.
    pub(crate) start: u64,
    /// Where it lies in the object, in sectors.
    pub(crate) sector: u64,
    /// How long it is, in sectors.
    pub(crate) sectors: u64,
}

impl Living {
    /// The part of it that lies in `sectors` of the object.
    pub(crate) fn within(&self, sectors: &Range<u64>) -> Option<Self> {
        let from = self.sector.max(sectors.start);
        let to = (self.sector + self.sectors).min(sectors.end);
        (from < to).then(|| Self {
            start: self.start + (from - self.sector),
            sector: from,
            sectors: to - from,
        })
    }
}

/// The needed parts of objects, and whether all of the map could be read.
#[derive(Debug, Default)]
pub(crate) struct Needed {
    parts: BTreeMap<ObjectNumber, Vec<Living>>,
    pub(crate) is_complete: bool,
}

impl Needed {
    pub(crate) fn of(&self, object: ObjectNumber) -> &[Living] {
        self.parts.get(&object).map_or(&[], Vec::as_slice)
    }
}

impl Core {
    /// What is needed of `objects`.
    pub(crate) fn needed_of(&self, objects: &BTreeSet<ObjectNumber>) -> Result<Needed> {
        let mut needed = Needed {
            is_complete: true,
            ..Needed::default()
        };
        if objects.is_empty() {
            return Ok(needed);
        }
        let (pages, size) = {
            let state = self.state();
            (state.map.pages(), state.tip.size / SECTOR)
        };
        let mut borders: Vec<u64> = pages.iter().map(|page| page.first).collect();
        borders.insert(0, 0);
        borders.push(size);
        borders.dedup();
        for pair in borders.windows(2) {
            let [start, end] = pair else { continue };
            let found = match self.in_objects(*start, end.saturating_sub(*start)) {
                Ok(found) => found,
                Err(error @ (CloudError::Closed | CloudError::Store { .. })) => return Err(error),
                // A damaged page of the map hides what it has.
                Err(_) => {
                    needed.is_complete = false;
                    continue;
                }
            };
            for (start, sectors, object, sector) in found {
                if objects.contains(&object) {
                    needed.parts.entry(object).or_default().push(Living {
                        start,
                        sector,
                        sectors,
                    });
                }
            }
        }
        Ok(needed)
    }

    /// Whether the device has what was put as a piece of an object, of which `bytes` are what the
    /// object holds now, from sector `base` on.
    pub(crate) fn is_piece_whole(
        &self,
        object: ObjectNumber,
        piece: &Piece,
        bytes: &[u8],
        base: u64,
    ) -> Result<bool> {
        let length = usize::try_from(piece.sectors * SECTOR).unwrap_or(usize::MAX);
        let mut whole = vec![0; length.min(crate::format::data::PIECE_MAX as usize)];
        if whole.len() != length {
            return Ok(false);
        }
        let here = self.in_objects(piece.start, piece.sectors)?;
        let mut at = piece.start;
        let end = piece.start + piece.sectors;
        let mut fill = |from: u64, to: u64, own: Option<u64>| -> Result<bool> {
            let place = ((from - piece.start) * SECTOR) as usize;
            let target = &mut whole[place..place + ((to - from) * SECTOR) as usize];
            let Some(sector) = own else {
                return match self.read_sectors(from, target, Origin::Nearest) {
                    Err(error) if error.damaged_object().is_some() => Ok(false),
                    read => read.map(|()| true),
                };
            };
            let stored = sector.checked_sub(base).and_then(|sector| {
                let from = usize::try_from(sector * SECTOR).ok()?;
                bytes.get(from..from.checked_add(target.len())?)
            });
            if let Some(stored) = stored {
                target.copy_from_slice(stored);
            }
            Ok(stored.is_some())
        };
        for (start, sectors, number, sector) in here {
            if number != object {
                continue;
            }
            let others = at >= start || fill(at, start, None)?;
            if !others || !fill(start, start + sectors, Some(sector))? {
                return Ok(false);
            }
            at = start + sectors;
        }
        if at < end && !fill(at, end, None)? {
            return Ok(false);
        }
        Ok(Hash::of(&whole).short() == piece.check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_at_the_borders_of_the_damage() {
        let living = Living {
            start: 100,
            sector: 10,
            sectors: 8,
        };
        assert_eq!(living.within(&(0..10)), None);
        assert_eq!(living.within(&(0..99)), Some(living));
        let part = Living {
            start: 102,
            sector: 12,
            sectors: 3,
        };
        assert_eq!(living.within(&(12..15)), Some(part));
    }
}
