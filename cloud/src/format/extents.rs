//! Extents: where on the device which bytes of which object lie.
//!
//! ```text
//! count
//! gap      sectors since the end of the extent before (the first: since 0)
//! sectors  how many, at least one
//! kind     0 nothing, 1 data object, 2 metadata inline, 3 contents inline
//! [object  the way from the last data extent's object, zigzag]      kind 1
//! [sector  the way from where the last such extent ended, zigzag]   kinds 1, 2, 3
//! ```
//!
//! All of them are varints but the kind, which is a byte. Extents are sorted and do not overlap, so
//! bytes that were written one after the other take five bytes an extent.

use super::{Class, Decoder, Encoder, FormatError, ObjectNumber};

/// Where the bytes of an extent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nowhere: they are zero.
    Hole,
    /// In a data object.
    Data {
        /// Which one.
        object: ObjectNumber,
        /// Where in it, in sectors from the object's beginning.
        sector: u64,
    },
    /// In the commit or checkpoint that has the extent.
    Inline {
        /// Where in its inline bytes, in sectors.
        sector: u64,
        /// What they are.
        class: Class,
    },
}

impl Target {
    /// The target of what begins `sectors` behind.
    pub fn advanced(self, sectors: u64) -> Self {
        match self {
            Self::Hole => Self::Hole,
            Self::Data { object, sector } => Self::Data {
                object,
                sector: sector + sectors,
            },
            Self::Inline { sector, class } => Self::Inline {
                sector: sector + sectors,
                class,
            },
        }
    }
}

/// A range of the device that is somewhere as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins on the device, in sectors.
    pub start: u64,
    /// Its length in sectors, at least one.
    pub sectors: u64,
    /// Where its bytes are.
    pub target: Target,
}

impl Extent {
    /// The sector behind it.
    pub fn end(&self) -> u64 {
        self.start + self.sectors
    }
}

/// The largest address that may be met, in sectors.
const SECTORS_MAX: u64 = super::DEVICE_SIZE_MAX / super::SECTOR;

/// Appends `extents`, which are sorted and do not overlap.
pub(super) fn encode(extents: &[Extent], encoder: &mut Encoder) {
    encoder.varint(extents.len() as u64);
    let (mut end, mut object, mut sector, mut inline) = (0, 0, 0, 0);
    for extent in extents {
        let gap = extent.start.checked_sub(end).expect("extents are sorted");
        assert!(extent.sectors > 0, "no extent is empty");
        end = extent.end();
        encoder.varint(gap);
        encoder.varint(extent.sectors);
        match extent.target {
            Target::Hole => encoder.u8(0),
            Target::Data {
                object: own,
                sector: at,
            } => {
                encoder.u8(1);
                encoder.difference(object, own.0);
                encoder.difference(sector, at);
                (object, sector) = (own.0, at + extent.sectors);
            }
            Target::Inline { sector: at, class } => {
                encoder.u8(match class {
                    Class::Metadata => 2,
                    Class::Contents => 3,
                });
                encoder.difference(inline, at);
                inline = at + extent.sectors;
            }
        }
    }
}

/// Takes out what [`encode`] put in. All ends are below 2^54, and so are all sectors' in objects.
pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Vec<Extent>, FormatError> {
    let count = decoder.count()?;
    let mut extents = Vec::new();
    let (mut end, mut object, mut sector, mut inline) = (0_u64, 0, 0_u64, 0_u64);
    for _ in 0..count {
        let gap = decoder.varint()?;
        let sectors = decoder.varint()?;
        let start = end.checked_add(gap);
        let next = start.and_then(|start| start.checked_add(sectors));
        let (Some(start), Some(next)) = (start, next) else {
            return Err(FormatError::Invalid("extent"));
        };
        if sectors == 0 || next > SECTORS_MAX {
            return Err(FormatError::Invalid("extent"));
        }
        end = next;
        let class = |kind| match kind {
            2 => Class::Metadata,
            _ => Class::Contents,
        };
        let target = match decoder.u8()? {
            0 => Target::Hole,
            1 => {
                object = decoder.difference(object)?;
                let at = decoder.difference(sector)?;
                sector = end_in_object(at, sectors)?;
                Target::Data {
                    object: ObjectNumber(object),
                    sector: at,
                }
            }
            kind @ (2 | 3) => {
                let at = decoder.difference(inline)?;
                inline = end_in_object(at, sectors)?;
                Target::Inline {
                    sector: at,
                    class: class(kind),
                }
            }
            _ => return Err(FormatError::Invalid("target")),
        };
        extents.push(Extent {
            start,
            sectors,
            target,
        });
    }
    Ok(extents)
}

fn end_in_object(sector: u64, sectors: u64) -> Result<u64, FormatError> {
    let end = sector.checked_add(sectors);
    end.filter(|end| *end <= SECTORS_MAX)
        .ok_or(FormatError::Invalid("target"))
}

#[cfg(test)]
pub(super) fn samples() -> Vec<Extent> {
    let extent = |start, sectors, target| Extent {
        start,
        sectors,
        target,
    };
    let object = ObjectNumber(9);
    vec![
        extent(0, 1, Target::Hole),
        extent(1, 256, Target::Data { object, sector: 8 }),
        extent(
            257,
            256,
            Target::Data {
                object,
                sector: 264,
            },
        ),
        extent(
            600,
            2,
            Target::Inline {
                sector: 4,
                class: Class::Metadata,
            },
        ),
        extent(
            1 << 40,
            1 << 33,
            Target::Data {
                object: ObjectNumber(2),
                sector: 0,
            },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_come_back_and_are_small() {
        let extents = samples();
        let mut encoder = Encoder::new();
        encode(&extents, &mut encoder);
        let bytes = encoder.finish();
        assert!(bytes.len() < 60, "{} bytes", bytes.len());
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(decode(&mut decoder), Ok(extents));
        assert!(decoder.finish().is_ok());
    }

    #[test]
    fn impossible_extents_are_refused() {
        let refused = |numbers: &[u64], kind: u8| {
            let mut encoder = Encoder::new();
            encoder.varint(1);
            numbers.iter().for_each(|number| encoder.varint(*number));
            encoder.u8(kind);
            encoder.raw(&[0; 4]);
            let bytes = encoder.finish();
            decode(&mut Decoder::new(&bytes)).is_err()
        };
        assert!(!refused(&[5, 1], 0));
        assert!(refused(&[5, 0], 0), "an empty one");
        assert!(refused(&[u64::MAX, 2], 0), "an overflow");
        assert!(refused(&[1 << 55, 2], 0), "beyond any device");
        assert!(refused(&[5, 1], 4), "an unknown kind");
        let bytes = [100, 1];
        assert!(decode(&mut Decoder::new(&bytes)).is_err());
    }
}
