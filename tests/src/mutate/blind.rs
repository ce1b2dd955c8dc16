//! Damage that does not depend on the format: noise, swapped sectors, short devices.

use super::{Devices, Mutant, Write};
use crate::random::Random;
use anyhow::Result;

const SECTOR: u64 = 512;

/// A mutant drawn from `random`.
pub fn mutant(devices: &Devices, random: &mut Random) -> Result<Mutant> {
    match random.below(8) {
        0 => truncated(devices, random),
        1 | 2 => swapped(devices, random),
        _ => noisy(devices, random),
    }
}

/// Some sectors that hold data become noise, or have a few bits flipped.
fn noisy(devices: &Devices, random: &mut Random) -> Result<Mutant> {
    let device = random.index(devices.count());
    let count = 1 + random.below(40);
    let flips_only = random.below(2) == 0;
    let mut mutant = Mutant {
        description: format!("device {device}: noise in {count} sectors"),
        ..Mutant::default()
    };
    for _ in 0..count {
        let Some(offset) = used_sector(devices, device, random)? else {
            break;
        };
        let mut bytes = devices.read(device, offset, SECTOR as usize)?;
        if flips_only {
            let at = random.index(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        } else {
            random.fill(&mut bytes);
        }
        mutant.writes.push(Write {
            device,
            offset,
            bytes,
        });
    }
    Ok(mutant)
}

/// Pairs of sectors change places: right contents at the wrong address.
fn swapped(devices: &Devices, random: &mut Random) -> Result<Mutant> {
    let device = random.index(devices.count());
    let count = 1 + random.below(20);
    let mut mutant = Mutant {
        description: format!("device {device}: {count} pairs of sectors swapped"),
        ..Mutant::default()
    };
    for _ in 0..count {
        let pair = [
            used_sector(devices, device, random)?,
            used_sector(devices, device, random)?,
        ];
        let [Some(one), Some(other)] = pair else {
            break;
        };
        for (from, to) in [(one, other), (other, one)] {
            mutant.writes.push(Write {
                device,
                offset: to,
                bytes: devices.read(device, from, SECTOR as usize)?,
            });
        }
    }
    Ok(mutant)
}

/// A device ends early: at any byte, not only at a sector.
fn truncated(devices: &Devices, random: &mut Random) -> Result<Mutant> {
    let device = random.index(devices.count());
    let length = random.below(devices.size(device)?);
    Ok(Mutant {
        description: format!("device {device}: cut to {length} bytes"),
        truncations: vec![(device, length)],
        ..Mutant::default()
    })
}

/// The offset of a sector that holds data; `None` if the device is empty.
fn used_sector(devices: &Devices, device: usize, random: &mut Random) -> Result<Option<u64>> {
    let segments = devices.segments(device)?;
    if segments.is_empty() {
        return Ok(None);
    }
    let (start, end) = *random.choose(&segments);
    let sectors = (end - start) / SECTOR;
    if sectors == 0 {
        return Ok(None);
    }
    Ok(Some(start + random.below(sectors) * SECTOR))
}
