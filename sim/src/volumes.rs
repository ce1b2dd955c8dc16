//! A volume in the simulation: the operations on it, and its possible states after a cut.
//!
//! One thread writes, so after a cut the volume is as after one of its operations. An intent log
//! may have a part of a long write, or its data as of a later flush, so this holds for each byte
//! alone. Flushed data is there.

use crate::disks::Disks;
use crate::machine::{self, POOL};
use crate::record::{Bounds, Event};
use crate::wrong::Wrong;
use anyhow::{Context, Result, bail};
use cenote_base::rt::{self, Random};
use cenote_dsl::write::{CreateDataset, Encryption};
use cenote_dsl::{DatasetName, DslError};
use cenote_ondisk::objset::ObjsetKind;
use cenote_pool::Pool;
use cenote_volume::{Volume, format_new};
use std::sync::Arc;

/// Sizes of a volume's blocks.
const BLOCKS: [u64; 3] = [4 << 10, 8 << 10, 16 << 10];
/// How many of the largest blocks a volume has, about.
const BLOCK_COUNT: u64 = 16;

/// The volume's name.
pub fn name() -> String {
    format!("{POOL}/vol")
}

/// Makes the volume.
///
/// # Errors
/// If it cannot be made.
pub fn create(pool: &Pool, size: u64, block: u64) -> Result<()> {
    pool.run_task(CreateDataset {
        name: DatasetName::parse(&name())?,
        kind: ObjsetKind::Volume,
        properties: Vec::new(),
        encryption: Encryption::Inherit,
        format: Some(Box::new(move |set, tx| {
            format_new(set, tx, size, block).map_err(DslError::from)
        })),
        created: None,
    })?;
    Ok(())
}

/// A thread that writes to a volume, and remembers the state after each operation.
#[derive(Debug)]
pub struct VolumeWriter {
    /// Its number in the record.
    number: usize,
    random: Random,
    block: u64,
    states: Vec<Arc<Vec<u8>>>,
    operations: Vec<String>,
}

impl VolumeWriter {
    /// Makes the volume.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new(pool: &Pool, number: usize, mut random: Random) -> Result<Self> {
        let block = BLOCKS[random.index(BLOCKS.len())];
        let size = BLOCK_COUNT * BLOCKS[BLOCKS.len() - 1];
        create(pool, size, block)?;
        Ok(Self {
            number,
            random,
            block,
            states: vec![Arc::new(vec![0; usize::try_from(size)?])],
            operations: Vec::new(),
        })
    }

    /// Says in the record that all operations so far last.
    pub fn promise(&self, disks: &Disks) {
        let (writer, operations) = (self.number, self.states.len() - 1);
        disks.note(Event::Promised { writer, operations });
    }

    /// Does a random operation.
    ///
    /// # Errors
    /// If it fails.
    pub fn operate(&mut self, disks: &Disks, volume: &Volume) -> Result<()> {
        let mut next = Arc::clone(self.states.last().context("there is a first one")?);
        let size = next.len() as u64;
        let (writer, operation) = (self.number, self.states.len() - 1);
        disks.note(Event::Begun { writer, operation });
        let length = 1 + match self.random.below(3) {
            0 => self.random.below(512),
            1 => self.random.below(3 * self.block),
            _ => self.random.below(size / 2),
        };
        let offset = self.random.below(size - length);
        let range = usize::try_from(offset)?..usize::try_from(offset + length)?;
        let words = match self.random.below(20) {
            0..11 => {
                let mut bytes = vec![0; range.len()];
                self.random.fill(&mut bytes);
                volume.write(offset, &bytes)?;
                Arc::make_mut(&mut next)[range].copy_from_slice(&bytes);
                format!("write {offset} {length}")
            }
            11..14 => {
                volume.zero(offset, length)?;
                Arc::make_mut(&mut next)[range].fill(0);
                format!("zero {offset} {length}")
            }
            14..19 => {
                volume.flush()?;
                "flush".to_owned()
            }
            _ => {
                let blocks = BLOCK_COUNT / 2 + self.random.below(BLOCK_COUNT);
                let size = blocks * BLOCKS[BLOCKS.len() - 1];
                volume.resize(size)?;
                Arc::make_mut(&mut next).resize(usize::try_from(size)?, 0);
                format!("resize {size}")
            }
        };
        rt::trace!("{words}");
        let is_promised = words == "flush" || words.starts_with("resize");
        self.states.push(next);
        self.operations.push(words);
        if is_promised {
            self.promise(disks);
        }
        Ok(())
    }

    /// Compares what a cut left with what it may have left.
    ///
    /// # Errors
    /// How it differs, or that it cannot be read.
    pub fn compare(&self, pool: &Pool, bounds: &Bounds) -> Result<()> {
        let volume = machine::volume(pool, &name())?;
        let mut found = vec![0xEE; usize::try_from(volume.size())?];
        volume.read(0, &mut found)?;
        if let Ok(open) = volume.dataset() {
            open.end()?;
        }
        let most = bounds.most.min(self.states.len() - 1);
        let least = bounds.least.min(most);
        let states = &self.states[least..=most];
        if states.iter().any(|state| **state == found) {
            return Ok(());
        }
        let told = || self.operations[least..most].join("; ");
        if states.iter().all(|state| state.len() != found.len()) {
            bail!(Wrong(format!(
                "the volume has {} bytes. It had {} before: {}",
                found.len(),
                states[0].len(),
                told()
            )));
        }
        let is_wrong = |(at, byte): (usize, &u8)| {
            let mut bytes = states.iter().map(|state| state.get(at).unwrap_or(&0));
            bytes.all(|other| other != byte)
        };
        match found.iter().enumerate().position(is_wrong) {
            None => Ok(()),
            Some(at) => bail!(Wrong(format!(
                "the volume's byte {at} is of no state between {least} and {most}: {}",
                told()
            ))),
        }
    }
}
