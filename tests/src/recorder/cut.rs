//! A moment at which the power fails, and what each disk makes of what was not flushed.

use super::record::{Event, Record};
use crate::random::Random;
use anyhow::Result;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The smallest part of a write that is there or not: the sector that the pool goes by.
const SECTOR: usize = 4096;

/// What becomes of writes that no flush covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// All are there: a prefix of the record.
    None,
    /// All are lost.
    All,
    /// Each is there or not.
    Some,
    /// Each of their sectors is there or not.
    Torn,
}

/// A cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// So many events had been answered.
    pub at: u64,
    pub loss: Loss,
    seed: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, loss, seed } = self;
        write!(formatter, "at event {at}, losing {loss:?} (seed {seed})")
    }
}

impl Cut {
    /// A cut of the record behind its beginning, which has the making of the pool.
    pub fn draw(random: &mut Random, record: &Record) -> Self {
        let (begun, end) = record.span();
        Self {
            at: begun + random.below(end - begun + 1),
            loss: *random.choose(&[Loss::None, Loss::All, Loss::Some, Loss::Torn]),
            seed: random.next_u64(),
        }
    }

    /// Writes what the disk keeps to an empty file.
    pub fn apply(&self, record: &Record, disk: usize, file: &File) -> Result<()> {
        let mut random = Random::new(self.seed ^ disk as u64);
        let events = record.events();
        let events = &events[..usize::try_from(self.at)?];
        let covered = events.iter().filter_map(|event| match event {
            Event::Flush { disk: of, begun } if *of == disk => Some(*begun),
            _ => None,
        });
        let covered = covered.max().unwrap_or(0);
        for (index, event) in events.iter().enumerate() {
            let is_covered = (index as u64) < covered;
            match *event {
                Event::Write {
                    disk: of,
                    offset,
                    record: place,
                    length,
                    is_durable,
                } if of == disk => {
                    let bytes = record.bytes(place, length)?;
                    let is_kept = is_covered || is_durable;
                    self.write(file, offset, &bytes, is_kept, &mut random)?;
                }
                Event::Zero {
                    disk: of,
                    offset,
                    length,
                } if of == disk => {
                    let bytes = vec![0; usize::try_from(length)?];
                    self.write(file, offset, &bytes, is_covered, &mut random)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write(
        &self,
        file: &File,
        offset: u64,
        bytes: &[u8],
        is_kept: bool,
        random: &mut Random,
    ) -> Result<()> {
        let mut is_there = || match self.loss {
            _ if is_kept => true,
            Loss::None => true,
            Loss::All => false,
            Loss::Some | Loss::Torn => random.index(2) == 0,
        };
        if self.loss == Loss::Torn && !is_kept {
            for (index, sector) in bytes.chunks(SECTOR).enumerate() {
                if is_there() {
                    file.write_all_at(sector, offset + (index * SECTOR) as u64)?;
                }
            }
        } else if is_there() {
            file.write_all_at(bytes, offset)?;
        }
        Ok(())
    }
}
