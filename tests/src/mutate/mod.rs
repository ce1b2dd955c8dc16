//! Damaged pools, made from whole ones: the pool zoo.
//!
//! Checksums hide most random damage from a reader: a flipped bit in a block is found before any
//! decoder sees it. What a hostile or a miswritten pool can do only shows when the checksums are
//! right. So there are two families of mutants:
//!
//! - [`blind`]: noise, swapped sectors, short devices. They test what is below the checksums.
//! - [`structure`]: a block's contents are changed, the block is written to unused space, and its
//!   new address and checksum go into its parent, and so on up to the uberblock and the labels.
//!   Every eighth of these is aimed at what a reader follows: chains, tables, trees, lists.
//!
//! A mutant is a list of writes and a sentence that says what was done. Applying one returns what
//! takes it back, so that one copy of a pool serves for thousands.
//!
//! The second family needs to write, with the parity that belongs to it where there is any.
//! Encrypted blocks are left alone, as the block above them holds MACs that need the key.

mod aimed;
pub mod blind;
mod byte_order;
mod editor;
mod labels;
mod log;
pub mod structure;
mod tables;
mod tree;
mod vdev;

use anyhow::{Context, Result};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes that a mutant writes to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Which device, in the order of the manifest.
    pub device: usize,
    /// Where, in bytes from the start of the device.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// What to do to a pool.
#[derive(Clone, Debug, Default)]
pub struct Mutant {
    /// What was done, for a person.
    pub description: String,
    /// The writes, in order.
    pub writes: Vec<Write>,
    /// Devices that are cut short: device and new length in bytes.
    pub truncations: Vec<(usize, u64)>,
    /// Whether all checksums are right, so that the damage reaches the decoders.
    pub is_structural: bool,
}

/// The devices of one pool, open for changes.
pub struct Devices {
    paths: Vec<PathBuf>,
    files: Vec<File>,
}

/// What takes a mutant back.
#[must_use = "the devices stay damaged otherwise"]
pub struct Undo {
    writes: Vec<Write>,
    lengths: Vec<u64>,
}

impl Devices {
    /// Opens the devices at `paths`: copies that may be changed.
    pub fn open(paths: Vec<PathBuf>) -> Result<Self> {
        let open = |path: &PathBuf| OpenOptions::new().read(true).write(true).open(path);
        let files = paths
            .iter()
            .map(|path| open(path).with_context(|| path.display().to_string()))
            .collect::<Result<_>>()?;
        Ok(Self { paths, files })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Bytes of device `index`.
    pub fn size(&self, index: usize) -> Result<u64> {
        Ok(self.files[index].metadata()?.len())
    }

    /// Reads `length` bytes at `offset` of device `index`.
    pub fn read(&self, index: usize, offset: u64, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.files[index]
            .read_exact_at(&mut bytes, offset)
            .with_context(|| {
                format!(
                    "{}: {length} bytes at {offset}",
                    self.paths[index].display()
                )
            })?;
        Ok(bytes)
    }

    /// The ranges of device `index` that hold data.
    pub fn segments(&self, index: usize) -> Result<Vec<(u64, u64)>> {
        crate::sparse::segments(&self.files[index])
    }

    /// Does what `mutant` says.
    pub fn apply(&self, mutant: &Mutant) -> Result<Undo> {
        let lengths = (0..self.count())
            .map(|index| self.size(index))
            .collect::<Result<_>>()?;
        let mut undo = Undo {
            writes: Vec::new(),
            lengths,
        };
        for write in &mutant.writes {
            let old = self.read(write.device, write.offset, write.bytes.len())?;
            self.files[write.device].write_all_at(&write.bytes, write.offset)?;
            undo.writes.push(Write {
                device: write.device,
                offset: write.offset,
                bytes: old,
            });
        }
        for (device, length) in &mutant.truncations {
            let end = self.size(*device)?;
            let tail = self.read(*device, *length, usize::try_from(end - length)?)?;
            undo.writes.push(Write {
                device: *device,
                offset: *length,
                bytes: tail,
            });
            self.files[*device].set_len(*length)?;
        }
        Ok(undo)
    }

    /// Takes back what [`Self::apply`] did.
    pub fn restore(&self, undo: Undo) -> Result<()> {
        for (file, length) in self.files.iter().zip(&undo.lengths) {
            file.set_len(*length)?;
        }
        for write in undo.writes.iter().rev() {
            self.files[write.device].write_all_at(&write.bytes, write.offset)?;
        }
        Ok(())
    }

    /// Keeps a damaged pool for an analysis of the failure: copies the devices to `directory`.
    pub fn keep(&self, directory: &std::path::Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        for path in &self.paths {
            let name = path.file_name().context("a device's name")?;
            crate::sparse::copy(path, &directory.join(name))?;
        }
        Ok(())
    }
}
